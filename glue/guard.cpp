/* The device guard: current device and stream of a thread, events, waiting.
 *
 * Streams. All work of a device is in one order, that of the launches, and a copy that another launch depends on is
 * ordered by its data. So a stream is a name: work "on" two streams of a device never overtakes, waiting for one stream
 * waits for the device, and making a stream wait for an event has nothing to add. Ids come from a pool, 0 is the default. */
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "glue.h"
#include "guard.h"

namespace {

constexpr int greatest_n_devices = std::numeric_limits<c10::DeviceIndex>::max();
constexpr uint32_t n_pool_streams = 32;

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<uint8_t, greatest_n_devices> current_streams{};
std::array<std::atomic<uint32_t>, greatest_n_devices> streams_made{};

void check_index(c10::DeviceIndex index) {
    int n = 0;
    tpj_glue_check(tpj_runtime_n_devices(&n));
    TORCH_CHECK(index < n, "there is no device tpu:", static_cast<int>(index), ": this process has ", n,
                n == 1 ? " device (tpu:0)" : " devices");
}

tpj_event *event_of(void *event) { return static_cast<tpj_event *>(event); }

} // namespace

c10::DeviceIndex tpj_glue_current_device() noexcept { return current_device; }

c10::DeviceIndex tpj_glue_device_index(c10::DeviceIndex index) {
    if (index < 0) return current_device;
    if (index != current_device) check_index(index);
    return index;
}

c10::DeviceIndex tpj_glue_exchange_device(c10::DeviceIndex index) {
    const c10::DeviceIndex previous = current_device;
    current_device = tpj_glue_device_index(index);
    return previous;
}

c10::DeviceIndex tpj_glue_n_devices() noexcept {
    int n = 0;
    tpj_status *status = tpj_runtime_n_devices(&n);
    if (status != nullptr) n = 0;
    tpj_status_destroy(status);
    return static_cast<c10::DeviceIndex>(std::min(n, greatest_n_devices));
}

namespace {

class Guard final : public c10::impl::DeviceGuardImplInterface {
public:
    c10::DeviceType type() const override { return tpj_glue_device_type; }

    c10::Device exchangeDevice(c10::Device device) const override {
        return tpj_glue_device(tpj_glue_exchange_device(device.index()));
    }
    c10::Device getDevice() const override { return tpj_glue_device(current_device); }
    void setDevice(c10::Device device) const override { tpj_glue_exchange_device(device.index()); }
    void uncheckedSetDevice(c10::Device device) const noexcept override {
        if (device.index() >= 0) current_device = device.index();
    }
    c10::DeviceIndex deviceCount() const noexcept override { return tpj_glue_n_devices(); }

    c10::DeviceCapability getDeviceCapability(c10::Device) const override {
        c10::DeviceCapability capability;
        capability.capability_data.capability_bits = 0;
#define TPJ_GLUE_HAS(scalar_type, dtype) capability.capability_data.supported_scalar_types.has_##scalar_type = 1;
        TPJ_GLUE_DTYPES(TPJ_GLUE_HAS)
#undef TPJ_GLUE_HAS
        return capability;
    }

    /* ---- streams ---- */
    c10::Stream getStream(c10::Device device) const override {
        const c10::DeviceIndex index = tpj_glue_device_index(device.index());
        return stream(index, current_streams[static_cast<size_t>(index)]);
    }
    c10::Stream getDefaultStream(c10::Device device) const override {
        return stream(tpj_glue_device_index(device.index()), 0);
    }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
    c10::Stream getNewStream(c10::Device device, int) const override {
        const c10::DeviceIndex index = tpj_glue_device_index(device.index());
        return stream(index, 1 + streams_made[static_cast<size_t>(index)].fetch_add(1) % n_pool_streams);
    }
    c10::Stream exchangeStream(c10::Stream next) const override {
        const c10::DeviceIndex index = tpj_glue_device_index(next.device_index());
        TORCH_CHECK(next.id() >= 0 && next.id() <= n_pool_streams, "stream ", next.id(),
                    " is none of tpu:", static_cast<int>(index));
        uint8_t &current = current_streams[static_cast<size_t>(index)];
        return stream(index, std::exchange(current, static_cast<uint8_t>(next.id())));
    }
    bool queryStream(const c10::Stream &of) const override {
        tpj_event *event = nullptr;
        tpj_glue_check(tpj_event_create(&event));
        tpj_status *status = tpj_event_record(event, of.device_index());
        const bool done = status == nullptr && tpj_event_query(event);
        tpj_event_destroy(event);
        tpj_glue_check(status);
        return done;
    }
    void synchronizeStream(const c10::Stream &of) const override {
        tpj_glue_check(tpj_runtime_synchronize(of.device_index()));
    }
    void synchronizeDevice(const c10::DeviceIndex index) const override {
        tpj_glue_check(tpj_runtime_synchronize(tpj_glue_device_index(index)));
    }
    bool isStreamCapturing(const c10::Stream &) const override { return false; }

    /* ---- events ---- */
    void record(void **event, const c10::Stream &on, const c10::DeviceIndex, const c10::EventFlag) const override {
        if (*event == nullptr) {
            tpj_event *made = nullptr;
            tpj_glue_check(tpj_event_create(&made));
            *event = made;
        }
        tpj_glue_check(tpj_event_record(event_of(*event), tpj_glue_device_index(on.device_index())));
    }
    void block(void *, const c10::Stream &) const override {}
    bool queryEvent(void *event) const override { return event == nullptr || tpj_event_query(event_of(event)); }
    void synchronizeEvent(void *event) const override {
        if (event != nullptr) tpj_glue_check(tpj_event_synchronize(event_of(event)));
    }
    void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override {
        if (event != nullptr) tpj_event_destroy(event_of(event));
    }
    double elapsedTime(void *start, void *end, const c10::DeviceIndex) const override {
        TORCH_CHECK(start != nullptr && end != nullptr,
                    "both events must be recorded before the time between them is known");
        double milliseconds = 0;
        tpj_glue_check(tpj_event_elapsed(event_of(start), event_of(end), &milliseconds));
        return milliseconds;
    }

private:
    static c10::Stream stream(c10::DeviceIndex index, c10::StreamId id) {
        return c10::Stream(c10::Stream::UNSAFE, tpj_glue_device(index), id);
    }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

} // namespace
