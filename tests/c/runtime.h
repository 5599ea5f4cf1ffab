/* The eager runtime of the process, on two devices of the fake plugin. Its client is never destroyed, so it gets a copy of
 * the plugin for itself: the counters of the other tests stay their own. */
#ifndef TPJ_TESTS_RUNTIME_H
#define TPJ_TESTS_RUNTIME_H

#include "fake.h"

/* Starts it once; NULL when that fails, and the reason is printed. */
fake_plugin_controls *runtime_controls(void);

#endif
