/* The planning device: a plugin inside the core, which behaves like the TPU that is planned for and computes nothing. Buffers
 * know their type and no contents, programs their signature; what is compiled and launched is recorded, with the memory that
 * a device would hold at each moment. What is read back is zeros, or bools as tpj_plan_on_read says. With a CPU plugin behind it, that one computes, and runs
 * the programs that the TPU would get.
 *
 * It is a plugin and not a mode because then nothing above it is different: every launch goes the way that it goes on a TPU,
 * in all eager modes and from compiled graphs, and costs nothing where no plan is made.
 *
 * There is one in a process. Threads: thread-safe; what the functions return stays where it is until tpj_plan_begin. */
#ifndef TPJ_PJRT_PLAN_H
#define TPJ_PJRT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tpj/pjrt.h"
#include "tpj/status.h"

/* What tpj_plugin_open is given for the planning device. */
#define TPJ_PLAN_PATH "plan:"
enum { TPJ_PLAN_TYPES = 32 }; /* more than PJRT has element types */

typedef struct tpj_plan_target {
    const char *device_kind, *version; /* as the target's client would say */
    int n_devices;
    int64_t memory_bytes; /* of each device */
    const char *execute;  /* the path of a CPU plugin that computes; NULL: nothing is computed */
} tpj_plan_target;

typedef enum tpj_plan_what {
    TPJ_PLAN_UPLOAD,
    TPJ_PLAN_LAUNCH,
    TPJ_PLAN_READ,
    TPJ_PLAN_COPY,
    TPJ_PLAN_MARK
} tpj_plan_what;

typedef struct tpj_plan_event {
    int32_t what, device;
    int64_t subject;     /* of a launch: the program; of a mark: its number; of a read: what the callback returned */
    int64_t bytes;       /* uploaded, read or copied; of a launch: new results that no donated input gives its memory */
    int64_t live;        /* on the device afterwards */
    int64_t most;        /* on the device at once, without what the program needs for itself */
    int64_t nanoseconds; /* monotonic */
} tpj_plan_event;

typedef struct tpj_plan_program {
    const char *module, *options; /* StableHLO text, and a CompileOptionsProto */
    size_t module_length, options_length;
    int64_t n_launches, argument_bytes, output_bytes, alias_bytes;
    int64_t
        missed_bytes; /* of inputs that died right after a launch, and could have held its results; the most of any */
    int64_t nanoseconds; /* monotonic: when it was made */
} tpj_plan_program;

/* Before the device is used. Replaces the recording of an earlier call; the target of a client that exists stays. Copies.
 * Errors: those of opening the plugin that computes. */
TPJ_API tpj_status *tpj_plan_begin(const tpj_plan_target *target) TPJ_MUST_USE;
/* `read(n_bytes, is_bool)` is called on the thread that reads, without a lock, before each read. What it returns is kept with
 * the event, but for TPJ_PLAN_TRUE, which says that bools are to be true. NULL: nobody. */
#define TPJ_PLAN_TRUE (INT64_C(1) << 32)
TPJ_API void tpj_plan_on_read(int64_t (*read)(int64_t n_bytes, bool is_bool));
/* A point in the order of events, such as the end of a training step. */
TPJ_API void tpj_plan_mark(int64_t number);
/* Copies the events from `first` on, `most` of them at most; returns how many were copied. */
TPJ_API size_t tpj_plan_events(size_t first, size_t most, tpj_plan_event *out_events);
TPJ_API size_t tpj_plan_n_programs(void);
/* False: there is no such program. The text is borrowed. */
TPJ_API bool tpj_plan_program_get(size_t index, tpj_plan_program *out_program);
/* What the device held when it held most (without what programs need for themselves), by PJRT's number of the element type. */
TPJ_API void tpj_plan_peak(int device, int64_t out_bytes[TPJ_PLAN_TYPES]);

/* Whether nothing is computed, so that what is read means nothing. */
bool tpj_client_plans(const tpj_client *client);
/* Whether the client's programs can be serialized. */
bool tpj_client_keeps_programs(const tpj_client *client);

#endif
