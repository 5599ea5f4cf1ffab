/* The current device and the number of devices, for hooks.cpp and generator.cpp. */
#ifndef TPJ_GLUE_GUARD_H
#define TPJ_GLUE_GUARD_H

#include <c10/core/Device.h>

/* Makes a device the calling thread's current one (-1 changes nothing) and returns the previous one. */
c10::DeviceIndex tpj_glue_exchange_device(c10::DeviceIndex index);
/* 0 when there is none or it cannot be known. Does not throw. */
c10::DeviceIndex tpj_glue_n_devices() noexcept;

#endif
