/* Random numbers are a function of (seed, offset): a generator is these two numbers, and a draw moves the offset. */
#include "generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>

#include "glue.h"

namespace {

struct random_numbers {
    uint64_t seed, offset;
};
constexpr size_t n_state_bytes = 16;
static_assert(sizeof(random_numbers) == n_state_bytes, "the state that PyTorch's libraries read has 16 bytes");
/* A counter of Philox and Threefry gives four 32-bit numbers, so offsets stay multiples of four. */
constexpr uint64_t numbers_per_counter = 4;

/* Shared by the generators that graphsafe_get_state hands out: they are the same stream of numbers. */
class RandomState {
public:
    explicit RandomState(random_numbers numbers) : numbers_(numbers) {}
    random_numbers get() const {
        const std::lock_guard<std::mutex> guard(mutex_);
        return numbers_;
    }
    void set(random_numbers numbers) {
        const std::lock_guard<std::mutex> guard(mutex_);
        numbers_ = numbers;
    }
    void set_offset(uint64_t offset) {
        const std::lock_guard<std::mutex> guard(mutex_);
        numbers_.offset = offset;
    }
    random_numbers reserve(uint64_t count) {
        const std::lock_guard<std::mutex> guard(mutex_);
        const random_numbers start = numbers_;
        numbers_.offset += (count + numbers_per_counter - 1) / numbers_per_counter * numbers_per_counter;
        return start;
    }

private:
    mutable std::mutex mutex_;
    random_numbers numbers_;
};

/* As PyTorch's protocol has it, callers hold mutex_ around every method. */
class DeviceGenerator final : public c10::GeneratorImpl {
public:
    DeviceGenerator(c10::DeviceIndex index, std::shared_ptr<RandomState> state)
        : GeneratorImpl(tpj_glue_device(index), tpj_glue_keys), state_(std::move(state)) {}

    void set_current_seed(uint64_t seed) override { state_->set({seed, 0}); }
    void set_offset(uint64_t offset) override { state_->set_offset(offset); }
    uint64_t get_offset() const override { return state_->get().offset; }
    uint64_t current_seed() const override { return state_->get().seed; }
    uint64_t seed() override {
        const uint64_t seed = c10::detail::getNonDeterministicRandom(true);
        set_current_seed(seed);
        return seed;
    }

    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        const at::TensorBase bytes =
            at::detail::empty_cpu(c10::IntArrayRef{static_cast<int64_t>(n_state_bytes)}, c10::ScalarType::Byte);
        const random_numbers numbers = state_->get();
        std::memcpy(bytes.mutable_data_ptr(), &numbers, n_state_bytes);
        return bytes.getIntrusivePtr();
    }
    void set_state(const c10::TensorImpl &state) override {
        TORCH_CHECK_TYPE(state.device_type() == c10::DeviceType::CPU &&
                             state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
                             state.layout() == c10::Layout::Strided,
                         "the state of a generator must be a CPU tensor of dtype uint8");
        TORCH_CHECK(state.numel() == n_state_bytes && state.is_contiguous(), "the state of a tpu generator has ",
                    n_state_bytes, " bytes (seed and offset), this tensor has ", state.numel());
        random_numbers numbers;
        std::memcpy(&numbers, state.data(), n_state_bytes);
        state_->set(numbers);
    }
    c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
        return c10::make_intrusive<DeviceGenerator>(device().index(), state_);
    }
    void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl> &other) override {
        TORCH_CHECK_TYPE(other->device().type() == tpj_glue_device_type,
                         "expected a generator of the tpu device, got one of ", other->device());
        state_ = static_cast<DeviceGenerator *>(other.get())->state_;
    }

    RandomState &state() { return *state_; }
    static c10::DeviceType device_type() { return tpj_glue_device_type; }

private:
    DeviceGenerator *clone_impl() const override {
        return new DeviceGenerator(device().index(), std::make_shared<RandomState>(state_->get()));
    }

    std::shared_ptr<RandomState> state_; /* never NULL */
};

at::Generator make(c10::DeviceIndex index) {
    return at::make_generator<DeviceGenerator>(
        index, std::make_shared<RandomState>(random_numbers{c10::default_rng_seed_val, 0}));
}

} // namespace

const at::Generator &tpj_glue_default_generator(c10::DeviceIndex index) {
    /* Leaked on purpose: Python objects of generators may outlive static destructors. */
    static auto &generators = *new std::array<at::Generator, 128>;
    static std::mutex mutex;
    const auto device = static_cast<size_t>(tpj_glue_device_index(index));
    const std::lock_guard<std::mutex> guard(mutex);
    at::Generator &generator = generators.at(device);
    if (!generator.defined()) generator = make(static_cast<c10::DeviceIndex>(device));
    return generator;
}

at::Generator tpj_glue_new_generator(c10::DeviceIndex index) { return make(tpj_glue_device_index(index)); }

void tpj_generator_reserve(c10::GeneratorImpl *generator, c10::DeviceIndex device, uint64_t count,
                           uint64_t out_state[2]) {
    if (generator == nullptr) generator = tpj_glue_default_generator(device).unsafeGetGeneratorImpl();
    TORCH_CHECK(generator->device().type() == tpj_glue_device_type,
                "Expected a 'tpu' device type for generator but found '", generator->device().type(), "'");
    const std::lock_guard<std::mutex> guard(generator->mutex_);
    const random_numbers start = static_cast<DeviceGenerator *>(generator)->state().reserve(count);
    out_state[0] = start.seed;
    out_state[1] = start.offset;
}
