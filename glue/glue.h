/* What the files of the glue share: errors, dtypes, and the way from a tensor to its storage in the core.
 *
 * Threads: everything here is thread-safe; the current device belongs to its thread. */
#ifndef TPJ_GLUE_GLUE_H
#define TPJ_GLUE_GLUE_H

#include <ATen/core/TensorBase.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "compat.h"
#include "eager/eager.h"

namespace c10 {
struct GeneratorImpl;
}

/* ---- the device ---- */
inline constexpr c10::DeviceType tpj_glue_device_type = c10::DeviceType::PrivateUse1;
inline constexpr c10::DispatchKeySet tpj_glue_keys{c10::DispatchKey::PrivateUse1};

/* The calling thread's current device. */
c10::DeviceIndex tpj_glue_current_device() noexcept;
/* The index that a device argument names: -1 is the current device. An index that does not exist raises. */
c10::DeviceIndex tpj_glue_device_index(c10::DeviceIndex index);
inline c10::Device tpj_glue_device(c10::DeviceIndex index) { return {tpj_glue_device_type, index}; }

/* ---- errors ---- */
/* Throws what the status' code maps to in Python, with its message; takes the status, which is not NULL. */
[[noreturn]] void tpj_glue_throw(tpj_status *status);
/* A Python exception is set on this thread, by a signal handler: lets it out. */
[[noreturn]] void tpj_glue_throw_interruption();
inline void tpj_glue_check(tpj_status *status) {
    if (C10_UNLIKELY(status != nullptr)) tpj_glue_throw(status);
}

/* ---- storages ---- */
/* Allocates on the current device. */
c10::Allocator *tpj_glue_allocator() noexcept;
/* A DataPtr that owns `storage`. */
c10::DataPtr tpj_glue_data_ptr(tpj_storage *storage);
/* Frees a DataPtr's context; the mark by which a storage of this device is known. */
void tpj_glue_delete_storage(void *context);
/* By address: PyTorch wraps its own storages through from_blob when it writes them to a file. An error when there is none. */
tpj_storage *tpj_glue_find_storage(const at::TensorBase &tensor);

/* The core's storage behind a PyTorch storage (NULL when that does not own one) or a tensor (an error then). Borrowed: it
 * lives until the PyTorch storage is resized or freed. */
inline tpj_storage *storage_of(c10::StorageImpl &storage) {
    const c10::DataPtr &data = storage._mutable_data_ptr_no_checks();
    return C10_LIKELY(data.get_deleter() == &tpj_glue_delete_storage) ? static_cast<tpj_storage *>(data.get_context())
                                                                      : nullptr;
}
inline tpj_storage *storage_of(const at::TensorBase &tensor) {
    const c10::Storage &storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    tpj_storage *found = C10_LIKELY(static_cast<bool>(storage)) ? storage_of(*storage.unsafeGetStorageImpl()) : nullptr;
    return C10_LIKELY(found != nullptr) ? found : tpj_glue_find_storage(tensor);
}

/* ---- dtypes ---- */
/* X(PyTorch's ScalarType, the core's dtype). What is not listed is an error, never an index into a table: PyTorch adds
 * dtypes in minor versions. */
#define TPJ_GLUE_DTYPES(X)             \
    X(Bool, TPJ_BOOL)                  \
    X(Byte, TPJ_U8)                    \
    X(Char, TPJ_I8)                    \
    X(Short, TPJ_I16)                  \
    X(Int, TPJ_I32)                    \
    X(Long, TPJ_I64)                   \
    X(UInt16, TPJ_U16)                 \
    X(UInt32, TPJ_U32)                 \
    X(UInt64, TPJ_U64)                 \
    X(Half, TPJ_F16)                   \
    X(BFloat16, TPJ_BF16)              \
    X(Float, TPJ_F32)                  \
    X(Double, TPJ_F64)                 \
    X(ComplexFloat, TPJ_C64)           \
    X(ComplexDouble, TPJ_C128)         \
    X(Float8_e4m3fn, TPJ_F8E4M3FN)     \
    X(Float8_e5m2, TPJ_F8E5M2)         \
    X(Float8_e4m3fnuz, TPJ_F8E4M3FNUZ) \
    X(Float8_e5m2fnuz, TPJ_F8E5M2FNUZ) \
    X(Float8_e8m0fnu, TPJ_F8E8M0FNU)   \
    X(ComplexHalf, TPJ_C32)            \
    X(Float4_e2m1fn_x2, TPJ_F4X2)      \
    X(Bits8, TPJ_BITS8)                \
    X(Bits16, TPJ_BITS16)              \
    X(Bits1x8, TPJ_BITS1X8)            \
    X(Bits2x4, TPJ_BITS2X4)            \
    X(Bits4x2, TPJ_BITS4X2)            \
    X(Int1, TPJ_BYTE_I1)               \
    X(Int2, TPJ_BYTE_I2)               \
    X(Int3, TPJ_BYTE_I3)               \
    X(Int4, TPJ_BYTE_I4)               \
    X(Int5, TPJ_BYTE_I5)               \
    X(Int6, TPJ_BYTE_I6)               \
    X(Int7, TPJ_BYTE_I7)               \
    X(UInt1, TPJ_BYTE_U1)              \
    X(UInt2, TPJ_BYTE_U2)              \
    X(UInt3, TPJ_BYTE_U3)              \
    X(UInt4, TPJ_BYTE_U4)              \
    X(UInt5, TPJ_BYTE_U5)              \
    X(UInt6, TPJ_BYTE_U6)              \
    X(UInt7, TPJ_BYTE_U7)

/* false when the device has no such dtype. */
inline bool dtype_find(c10::ScalarType type, tpj_dtype *out_dtype) {
    switch (type) {
#define TPJ_GLUE_CASE(scalar_type, dtype) \
    case c10::ScalarType::scalar_type: *out_dtype = dtype; return true;
        TPJ_GLUE_DTYPES(TPJ_GLUE_CASE)
#undef TPJ_GLUE_CASE
        default: return false;
    }
}
/* TypeError when the device has no such dtype. */
inline tpj_dtype dtype_of(c10::ScalarType type) {
    tpj_dtype dtype;
    TORCH_CHECK_TYPE(dtype_find(type, &dtype), "the tpu device has no dtype ", type);
    return dtype;
}
inline tpj_dtype dtype_of(const at::TensorBase &tensor) { return dtype_of(tensor.scalar_type()); }
inline c10::ScalarType scalar_type_of(tpj_dtype dtype) {
    switch (dtype) {
#define TPJ_GLUE_CASE(scalar_type, name) \
    case name: return c10::ScalarType::scalar_type;
        TPJ_GLUE_DTYPES(TPJ_GLUE_CASE)
#undef TPJ_GLUE_CASE
        default: TORCH_CHECK_TYPE(false, "PyTorch has no dtype ", tpj_dtype_name(dtype));
    }
}

/* ---- random numbers ---- */
/* Takes `count` numbers from a generator of this device (NULL: the device's default one): writes the seed and the offset
 * at which they start, and moves the offset on. A generator of another device raises. */
void tpj_generator_reserve(c10::GeneratorImpl *generator, c10::DeviceIndex device, uint64_t count,
                           uint64_t out_state[2]);

#endif
