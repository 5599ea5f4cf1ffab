/* Device memory as PyTorch sees it. A block's context is the core's storage; its address is the storage's number, which
 * nothing may dereference. Nothing is cached here: the plugin has its own allocator. */
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "glue.h"

void tpj_glue_delete_storage(void *context) { tpj_storage_destroy(static_cast<tpj_storage *>(context)); }

c10::DataPtr tpj_glue_data_ptr(tpj_storage *storage) {
    const auto index = static_cast<c10::DeviceIndex>(tpj_storage_device(storage));
    return {tpj_storage_address(storage), storage, &tpj_glue_delete_storage, tpj_glue_device(index)};
}

namespace {

using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

tpj_memory_stats plugin_statistics(c10::DeviceIndex device) {
    tpj_memory_stats stats{};
    if (tpj_runtime_started()) tpj_glue_check(tpj_client_memory_stats(tpj_runtime_client(), device, &stats));
    return stats;
}

c10::CachingAllocator::Stat statistic(int64_t current, int64_t peak, int64_t allocated, int64_t freed) {
    c10::CachingAllocator::Stat stat;
    stat.current = current;
    stat.peak = peak;
    stat.allocated = allocated;
    stat.freed = freed;
    return stat;
}

/* Host memory in bytes by its name in /proc/meminfo; 0 when the system does not say. */
size_t host_memory(const std::string &name) {
    std::ifstream lines("/proc/meminfo");
    std::string key;
    size_t kilobytes = 0;
    while (lines >> key >> kilobytes) {
        if (key == name) return kilobytes * 1024;
        lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    return 0;
}

class DeviceMemory final : public c10::DeviceAllocator {
public:
    c10::DataPtr allocate(size_t n_bytes) override {
        tpj_storage *storage = nullptr;
        tpj_glue_check(tpj_storage_create(tpj_glue_current_device(), n_bytes, &storage));
        return tpj_glue_data_ptr(storage);
    }

    /* The address is no memory, so PyTorch's raw_allocate has nothing to give out. */
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

    void copy_data(void *, const void *, std::size_t) const override {
        TORCH_CHECK_NOT_IMPLEMENTED(false,
                                    "memory of the tpu device cannot be copied by address; copy tensors instead");
    }

    bool initialized() override { return tpj_runtime_started(); }

    /* With a CPU plugin, memory that was freed may still belong to the process; give it back. */
    void emptyCache(c10::MempoolId_t) override {
#ifdef __GLIBC__
        if (tpj_runtime_started() && tpj_client_is_cpu(tpj_runtime_client())) malloc_trim(0);
#endif
    }

    /* All work of a device is in one order of launches, and a launch keeps its operands: no stream can be overtaken. */
    void recordStream(const c10::DataPtr &, c10::Stream) override {}

    DeviceStats getDeviceStats(c10::DeviceIndex index) override {
        const c10::DeviceIndex device = tpj_glue_device_index(index);
        constexpr auto all = static_cast<size_t>(StatType::AGGREGATE);
        tpj_memory memory;
        tpj_memory_get(device, &memory);
        DeviceStats stats;
        stats.allocation[all] = statistic(memory.live, memory.peak_live, memory.n_allocated, memory.n_freed);
        stats.active[all] = stats.allocation[all];
        stats.segment[all] = stats.allocation[all];
        stats.allocated_bytes[all] =
            statistic(memory.allocated, memory.peak, memory.allocated_total, memory.freed_total);
        stats.active_bytes[all] = stats.allocated_bytes[all];
        stats.requested_bytes[all] = stats.allocated_bytes[all];
        stats.reserved_bytes[all] = stats.allocated_bytes[all];
        stats.num_device_alloc = memory.n_allocated;
        stats.num_device_free = memory.n_freed;
        /* What the plugin holds: programs and temporaries too. */
        const tpj_memory_stats plugin = plugin_statistics(device);
        if (plugin.known && plugin.bytes_in_use >= 0) {
            stats.reserved_bytes[all].current = plugin.bytes_in_use;
            stats.reserved_bytes[all].peak = std::max(plugin.peak_bytes_in_use, plugin.bytes_in_use);
        }
        return stats;
    }

    void resetAccumulatedStats(c10::DeviceIndex device) override {
        tpj_memory_reset_accumulated(tpj_glue_device_index(device));
    }

    void resetPeakStats(c10::DeviceIndex device) override { tpj_memory_reset_peak(tpj_glue_device_index(device)); }

    /* Free and total bytes. A CPU plugin's device has the host's memory. */
    std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
        const c10::DeviceIndex device = tpj_glue_device_index(index);
        tpj_glue_check(tpj_runtime_start());
        const tpj_memory_stats plugin = plugin_statistics(device);
        if (plugin.known && plugin.bytes_limit > 0 && plugin.bytes_in_use >= 0) {
            const int64_t free = std::max<int64_t>(plugin.bytes_limit - plugin.bytes_in_use, 0);
            return {static_cast<size_t>(free), static_cast<size_t>(plugin.bytes_limit)};
        }
        const size_t total = tpj_client_is_cpu(tpj_runtime_client()) ? host_memory("MemTotal:") : 0;
        TORCH_CHECK_NOT_IMPLEMENTED(total != 0,
                                    "the plugin does not say how much memory tpu:", static_cast<int>(device), " has");
        return {host_memory("MemAvailable:"), total};
    }
};

DeviceMemory memory;
REGISTER_ALLOCATOR(tpj_glue_device_type, &memory);

} // namespace

c10::Allocator *tpj_glue_allocator() noexcept { return &memory; }
