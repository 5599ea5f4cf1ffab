/* The fake plugin (tests/fake_plugin), which lies beside the test program. */
#ifndef TPJ_TESTS_FAKE_H
#define TPJ_TESTS_FAKE_H

#include "../fake_plugin/fake_plugin.h"

const char *fake_path(void);
/* Ends the process when the plugin cannot be loaded. */
fake_plugin_controls *fake_controls(void);

#endif
