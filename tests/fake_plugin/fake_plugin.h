/* A PJRT plugin that computes nothing, for tests: it reads the signature of a module in generic form, and its outputs are
 * copies of the inputs of their type, or zeros. It keeps count of every object that it hands out, fails on demand, and
 * can be as late as a device. Its controls are shared with the test, which finds them with dlsym. */
#ifndef TPJ_TESTS_FAKE_PLUGIN_H
#define TPJ_TESTS_FAKE_PLUGIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct fake_plugin_controls {
    atomic_int fail_call;      /* the Nth call from now on fails at once (destroying does not count); 0: none */
    atomic_int fail_execution; /* the Nth launch from now on fails on the device: its outputs have the error; 0: none */
    atomic_bool fail_compile;  /* every compilation fails */
    atomic_bool fail_destroy;  /* destroying does its work and then reports a failure */
    atomic_int n_calls;        /* calls that fail_call counts */
    atomic_int n_live;         /* objects that the plugin owns for its caller */
    atomic_int delay;     /* microseconds, at most, that each launch takes, at random; 0: it ends before it returns */
    atomic_int n_running; /* launches whose results are not there yet */
    atomic_int compile_delay;  /* microseconds that each compilation takes; 0: none */
    atomic_llong memory_limit; /* bytes that buffers may hold together; 0: no limit */
    atomic_llong memory_held;
    bool is_tpu;     /* clients made from now on: platform "tpu", layouts of its own, no pointers, no options */
    size_t api_size; /* when not 0, how many bytes of its table the plugin admits to */
} fake_plugin_controls;

/* Exported under this name. */
typedef fake_plugin_controls *fake_plugin_get_controls(void);

#endif
