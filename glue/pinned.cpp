/* "Pinned" host memory: page-aligned blocks that a plugin can take over without copying them first. A copy to the device
 * has read its source when it returns, so nothing has to keep a block alive for a stream. */
#include "pinned.h"

#include <ATen/core/CachingHostAllocator.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "glue.h"

namespace {

class PinnedMemory final : public at::HostAllocator {
public:
    c10::DataPtr allocate(size_t n_bytes) override {
        if (n_bytes == 0) return {nullptr, nullptr, &free_block, c10::Device(c10::DeviceType::CPU)};
        const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        const size_t rounded = (n_bytes + page - 1) / page * page;
        void *block = rounded >= n_bytes ? std::aligned_alloc(page, rounded) : nullptr;
        TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "cannot allocate ", n_bytes,
                         " bytes of pinned host memory");
        try {
            add(block, n_bytes);
        } catch (...) {
            std::free(block);
            throw;
        }
        return {block, block, &free_block, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
    void copy_data(void *to, const void *from, std::size_t n_bytes) const override { std::memcpy(to, from, n_bytes); }
    bool record_event(void *, void *, c10::Stream) override { return true; }
    void empty_cache() override {}

    at::HostStats get_stats() override {
        const std::lock_guard<std::mutex> guard(mutex_);
        at::HostStats stats;
        stats.allocations = n_blocks_;
        stats.active_requests = n_blocks_;
        stats.allocated_bytes = n_bytes_;
        stats.active_bytes = n_bytes_;
        stats.num_host_alloc = n_blocks_.allocated;
        stats.num_host_free = n_blocks_.freed;
        return stats;
    }
    void reset_accumulated_stats() override {
        const std::lock_guard<std::mutex> guard(mutex_);
        n_blocks_.reset_accumulated();
        n_bytes_.reset_accumulated();
    }
    void reset_peak_stats() override {
        const std::lock_guard<std::mutex> guard(mutex_);
        n_blocks_.reset_peak();
        n_bytes_.reset_peak();
    }

    bool contains(const void *address) {
        const std::lock_guard<std::mutex> guard(mutex_);
        const auto wanted = reinterpret_cast<uintptr_t>(address);
        auto after = blocks_.upper_bound(wanted);
        return after != blocks_.begin() && wanted - std::prev(after)->first < std::prev(after)->second;
    }

    void add(void *block, size_t n_bytes) {
        const std::lock_guard<std::mutex> guard(mutex_);
        blocks_.emplace(reinterpret_cast<uintptr_t>(block), n_bytes);
        n_blocks_.increase(1);
        n_bytes_.increase(n_bytes);
    }
    void remove(void *block) {
        const std::lock_guard<std::mutex> guard(mutex_);
        const auto found = blocks_.find(reinterpret_cast<uintptr_t>(block));
        if (found == blocks_.end()) return;
        n_blocks_.decrease(1);
        n_bytes_.decrease(found->second);
        blocks_.erase(found);
    }

private:
    static void free_block(void *block);

    std::mutex mutex_;
    std::map<uintptr_t, size_t> blocks_; /* address to bytes; under mutex_, like the statistics */
    c10::CachingAllocator::Stat n_blocks_, n_bytes_;
};

/* Leaked on purpose: tensors may outlive static destructors. */
PinnedMemory &pinned() {
    static auto &memory = *new PinnedMemory;
    return memory;
}

void PinnedMemory::free_block(void *block) {
    if (block == nullptr) return;
    pinned().remove(block);
    std::free(block);
}

REGISTER_HOST_ALLOCATOR(tpj_glue_device_type, &pinned())

} // namespace

c10::Allocator *tpj_glue_pinned_allocator() noexcept { return &pinned(); }
bool tpj_glue_is_pinned(const void *address) { return pinned().contains(address); }
