/* The random state of a device, for hooks.cpp. */
#ifndef TPJ_GLUE_GENERATOR_H
#define TPJ_GLUE_GENERATOR_H

#include <ATen/core/Generator.h>

/* Lives until the process ends. An index that does not exist raises. */
const at::Generator &tpj_glue_default_generator(c10::DeviceIndex index);
at::Generator tpj_glue_new_generator(c10::DeviceIndex index);

#endif
