#include "glue.h"

#include <string>

extern "C" TPJ_API const char tpj_glue_mark[];
const char tpj_glue_mark[] = TPJ_GLUE_MARK;

void tpj_glue_throw(tpj_status *status) {
    const tpj_code code = tpj_status_code(status);
    std::string message = tpj_status_message(status);
    tpj_status_destroy(status);
    const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
    switch (code) {
        case TPJ_TYPE: throw c10::TypeError(here, std::move(message));
        case TPJ_VALUE: throw c10::ValueError(here, std::move(message));
        case TPJ_INDEX: throw c10::IndexError(here, std::move(message));
        case TPJ_LINALG: throw c10::LinAlgError(here, std::move(message));
        case TPJ_NOT_IMPLEMENTED: throw c10::NotImplementedError(here, std::move(message));
        case TPJ_OUT_OF_MEMORY: throw c10::OutOfMemoryError(here, std::move(message));
        case TPJ_OK:
        case TPJ_RUNTIME:
        case TPJ_UNAVAILABLE:
        case TPJ_DEVICE:
        case TPJ_INTERNAL: break;
        case TPJ_INTERRUPTED: tpj_glue_throw_interruption();
    }
    throw c10::Error(here, std::move(message));
}

tpj_storage *tpj_glue_find_storage(const at::TensorBase &tensor) {
    TORCH_CHECK(tensor.defined(), "expected a tensor on the tpu device, got an undefined one");
    TORCH_CHECK(tensor.device().type() == tpj_glue_device_type, "expected a tensor on the tpu device, got one on ",
                tensor.device());
    const c10::Storage &storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    const void *address = storage ? storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get() : nullptr;
    tpj_storage *found = address != nullptr ? tpj_storage_find(address) : nullptr;
    if (found != nullptr && tpj_storage_address(found) == address) return found;
    TORCH_CHECK_NOT_IMPLEMENTED(false, "this tensor on ", tensor.device(),
                                " does not keep its data in the tpu device's memory (layout ", tensor.layout(), ")");
}
