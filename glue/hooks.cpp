/* What PyTorch asks of an accelerator as a whole. */
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <algorithm>
#include <atomic>

#include "api.h"
#include "generator.h"
#include "glue.h"
#include "guard.h"
#include "pinned.h"

namespace {

/* Whether discovery found a plugin. Known without a client, because PyTorch asks long before the device is used. */
std::atomic<bool> available{false};

class Hooks final : public at::PrivateUse1HooksInterface {
public:
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return available.load(std::memory_order_relaxed); }
    void init() const override { tpj_glue_check(tpj_runtime_start()); }
    bool hasPrimaryContext(c10::DeviceIndex index) const override {
        return tpj_runtime_started() && !tpj_runtime_in_bad_fork() && index >= 0 && index < tpj_glue_n_devices();
    }

    c10::DeviceIndex deviceCount() const override { return tpj_glue_n_devices(); }
    c10::DeviceIndex getCurrentDevice() const override { return tpj_glue_current_device(); }
    void setCurrentDevice(c10::DeviceIndex index) const override { tpj_glue_exchange_device(index); }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return tpj_glue_exchange_device(index); }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
        return tpj_glue_exchange_device(index);
    }

    at::Allocator *getPinnedMemoryAllocator() const override { return tpj_glue_pinned_allocator(); }
    bool isPinnedPtr(const void *address) const override { return tpj_glue_is_pinned(address); }
    at::Device getDeviceFromPtr(void *address) const override {
        const tpj_storage *storage = tpj_storage_find(address);
        TORCH_CHECK(storage != nullptr, "the address ", address, " lies in no live tensor of the tpu device");
        return tpj_glue_device(static_cast<c10::DeviceIndex>(tpj_storage_device(storage)));
    }

    const at::Generator &getDefaultGenerator(c10::DeviceIndex index) const override {
        return tpj_glue_default_generator(index);
    }
    at::Generator getNewGenerator(c10::DeviceIndex index) const override { return tpj_glue_new_generator(index); }

    void resizePrivateUse1Bytes(const c10::Storage &storage, size_t n_bytes) const override {
        c10::StorageImpl &impl = *storage.unsafeGetStorageImpl();
        if (impl.nbytes() == n_bytes) return;
        tpj_storage *old = storage_of(impl);
        TORCH_CHECK(old != nullptr, "this storage is not in the tpu device's memory and cannot be resized");
        tpj_storage *made = nullptr;
        tpj_glue_check(tpj_storage_create(tpj_storage_device(old), n_bytes, &made));
        c10::DataPtr data = tpj_glue_data_ptr(made);
        if (n_bytes != 0 && impl.nbytes() != 0) tpj_glue_check(tpj_storage_copy_bytes(made, old));
        impl.set_data_ptr_noswap(std::move(data));
        impl.set_nbytes(n_bytes);
    }
};

[[maybe_unused]] const bool registered = [] {
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    return true;
}();

} // namespace

void tpj_glue_configure(const char *plugin_path, const char *reason_when_none, int n_devices) {
    available.store(plugin_path[0] != '\0', std::memory_order_relaxed);
    tpj_runtime_configure(plugin_path, reason_when_none, n_devices);
}
