/* Everything in the glue that depends on PyTorch's version: 2.12, 2.13 and 2.14. No other file tests the version. */
#ifndef TPJ_GLUE_COMPAT_H
#define TPJ_GLUE_COMPAT_H

#include <torch/headeronly/version.h>

#define TPJ_TORCH_AT_LEAST(major, minor) \
    (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if !TPJ_TORCH_AT_LEAST(2, 12)
#error "torch_pjrt needs PyTorch 2.12 or newer"
#endif

#endif
