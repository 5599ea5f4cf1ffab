/* Everything in the glue that depends on PyTorch's version: 2.12, 2.13 and 2.14. No other file tests the version. */
#ifndef TPJ_GLUE_COMPAT_H
#define TPJ_GLUE_COMPAT_H

#include <torch/headeronly/version.h>

#define TPJ_TORCH_AT_LEAST(major, minor) \
    (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if !TPJ_TORCH_AT_LEAST(2, 12)
#error "torch_pjrt needs PyTorch 2.12 or newer"
#endif

/* "2.13". The loader reads it from the library's file, because a library for another version must not be loaded at all: its
 * static initialisers would register tables of virtual functions that do not fit. */
#define TPJ_TORCH_QUOTE(text) #text
#define TPJ_TORCH_VERSION_TEXT(major, minor) TPJ_TORCH_QUOTE(major) "." TPJ_TORCH_QUOTE(minor)
#define TPJ_GLUE_MARK "torch_pjrt glue for torch " TPJ_TORCH_VERSION_TEXT(TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR) ";"

#endif
