#include "pjrt/report.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "pjrt/internal.h"

struct tpj_report {
    tpj_report *next; /* in the store */
    tpj_client *client;
    int device;
    tpj_buffer *operand;
    pjrt_event *complete; /* of the launch; NULL: it was over when it returned */
    int n_checks;
    atomic_int n_made;
    tpj_lock lock; /* of what was found, which is rare */
    int found;     /* the first check that found something; -1 */
    int64_t element;
};

/* ---- the function that programs call ---- */

enum { ATTRIBUTE_CHECK, ATTRIBUTE_HIGH, ATTRIBUTE_LOW, N_ATTRIBUTES }; /* in the order of their names */

static int64_t attribute(const xla_ffi_call_frame *frame, int i) {
    return *(const int64_t *)((const xla_ffi_scalar *)frame->attrs.attrs[i])->value;
}

/* Whether any element lies outside of [low, high], where low <= 0 and high >= -1. The sign of x - low or high - x says so:
 * where one of them wraps around, x is outside and the other one is negative, or it is itself. Blocks of eight, for the
 * compiler to make vectors of. */
#define DEFINE_ANY_OUTSIDE(name, type, unsigned_type, target)                                       \
    target static bool name(const type *x, int64_t n, type low, type high) {                        \
        enum { BLOCK = 8 };                                                                         \
        unsigned_type seen[BLOCK] = {0}, least = (unsigned_type)low, most = (unsigned_type)high;    \
        int64_t i = 0;                                                                              \
        for (; i + BLOCK <= n; i += BLOCK)                                                          \
            for (int k = 0; k < BLOCK; k++) {                                                       \
                unsigned_type value = (unsigned_type)x[i + k];                                      \
                seen[k] |= (value - least) | (most - value);                                        \
            }                                                                                       \
        for (; i < n; i++) seen[0] |= ((unsigned_type)x[i] - least) | (most - (unsigned_type)x[i]); \
        for (int k = 1; k < BLOCK; k++) seen[0] |= seen[k];                                         \
        return (type)seen[0] < 0;                                                                   \
    }
DEFINE_ANY_OUTSIDE(any_outside_64, int64_t, uint64_t, )
DEFINE_ANY_OUTSIDE(any_outside_32, int32_t, uint32_t, )
#ifdef __x86_64__
/* Half to a third of the time, as long as the array lies in a cache. */
#define TARGET_AVX2 __attribute__((target("avx2")))
DEFINE_ANY_OUTSIDE(any_outside_64_avx2, int64_t, uint64_t, TARGET_AVX2)
DEFINE_ANY_OUTSIDE(any_outside_32_avx2, int32_t, uint32_t, TARGET_AVX2)
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") != 0; }
#else
#define any_outside_64_avx2 any_outside_64
#define any_outside_32_avx2 any_outside_32
static bool has_avx2(void) { return false; }
#endif

static bool any_outside(const xla_ffi_buffer *array, int64_t n, int64_t low, int64_t high) {
    if (array->dtype == XLA_FFI_DATA_TYPE_S32)
        return (has_avx2() ? any_outside_32_avx2 : any_outside_32)(array->data, n, (int32_t)low, (int32_t)high);
    return (has_avx2() ? any_outside_64_avx2 : any_outside_64)(array->data, n, low, high);
}

/* Seen as unsigned and from `low` on, the largest. */
static int64_t furthest(const xla_ffi_buffer *array, int64_t n, int64_t low) {
    uint64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t element = array->dtype == XLA_FFI_DATA_TYPE_S32 ? ((const int32_t *)array->data)[i]
                                                                : ((const int64_t *)array->data)[i];
        uint64_t distance = (uint64_t)element - (uint64_t)low;
        if (distance > most) most = distance;
    }
    return (int64_t)(most + (uint64_t)low);
}

static void note(tpj_report *report, int check, int64_t element) {
    tpj_lock_acquire(&report->lock);
    if (report->found < 0 || check < report->found) {
        report->found = check;
        report->element = element;
    }
    tpj_lock_release(&report->lock);
}

static void make_check(const xla_ffi_call_frame *frame) {
    const xla_ffi_buffer *array = frame->args.args[0], *number = frame->args.args[1];
    tpj_report *report = (tpj_report *)(uintptr_t)*(const uint64_t *)number->data;
    int64_t n = 1, low = attribute(frame, ATTRIBUTE_LOW), high = attribute(frame, ATTRIBUTE_HIGH);
    for (int64_t i = 0; i < array->rank; i++) n *= array->dims[i];
    if (any_outside(array, n, low, high)) note(report, (int)attribute(frame, ATTRIBUTE_CHECK), furthest(array, n, low));
    atomic_fetch_add_explicit(&report->n_made, 1, memory_order_release);
}

xla_ffi_error *tpj_report_handle(xla_ffi_call_frame *frame) {
    if (frame->extension_start != NULL && frame->extension_start->type == XLA_FFI_EXTENSION_METADATA) {
        xla_ffi_metadata *metadata = ((xla_ffi_metadata_extension *)frame->extension_start)->metadata;
        metadata->api_version.major_version = 0;
        metadata->api_version.minor_version = 1; /* plugins register nothing for 0, and say nothing */
        metadata->traits = 0;
    } else if (frame->stage == XLA_FFI_EXECUTION_STAGE_EXECUTE) {
        make_check(frame);
    }
    return NULL;
}

static const pjrt_ffi_extension *ffi_extension(const pjrt_api *api) {
    pjrt_extension_base *extension = api->extension_start;
    while (extension != NULL && extension->type != PJRT_EXTENSION_TYPE_FFI) extension = extension->next;
    const pjrt_ffi_extension *ffi = (const pjrt_ffi_extension *)extension;
    return ffi != NULL && ffi->base.struct_size >= sizeof *ffi ? ffi : NULL;
}

bool tpj_report_register(const tpj_client *client) {
    static const char target[] = TPJ_REPORT_TARGET, platform[] = "Host";
    const pjrt_ffi_extension *ffi = client->is_cpu ? ffi_extension(client->api) : NULL;
    if (ffi == NULL) return false;
    xla_ffi_error *(*const handler)(xla_ffi_call_frame *) = tpj_report_handle;
    pjrt_ffi_register_handler_args args = {.struct_size = sizeof args,
                                           .target_name = target,
                                           .target_name_size = sizeof target - 1,
                                           .platform_name = platform,
                                           .platform_name_size = sizeof platform - 1};
    memcpy(&args.handler, &handler, sizeof handler); /* ISO C converts no function pointer to an object's */
    tpj_status *status = tpj_pjrt_check(client->api, "ffi_register_handler", ffi->register_handler(&args));
    bool registered = status == NULL;
    tpj_pjrt_ignore(status);
    return registered;
}

/* ---- the store ---- */

static tpj_lock store_lock = TPJ_LOCK_INIT(TPJ_RANK_CLIENT, "reports");

static tpj_status *create(tpj_client *client, int device, tpj_report **out_report) {
    tpj_report *report = calloc(1, sizeof *report);
    if (report == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    report->client = client;
    report->device = device;
    tpj_lock_init(&report->lock, TPJ_RANK_CLIENT, "report");
    uint64_t number = (uintptr_t)report;
    tpj_status *status = tpj_buffer_from_host(client, device, TPJ_I64, 0, NULL, &number, &report->operand);
    if (status != NULL)
        free(report);
    else
        *out_report = report;
    return status;
}

tpj_status *tpj_report_take(tpj_client *client, int device, int n_checks, tpj_report **out_report) {
    tpj_report **first = &client->devices[device].reports;
    tpj_lock_acquire(&store_lock);
    tpj_report *report = *first;
    if (report != NULL) *first = report->next;
    tpj_lock_release(&store_lock);
    if (report == NULL) TPJ_TRY(create(client, device, &report));
    tpj_report_reset(report, n_checks);
    *out_report = report;
    return NULL;
}

/* The event of a launch that nobody had to wait for. */
static void drop_event(tpj_report *report) {
    tpj_pjrt_event_destroy(report->client->api, report->complete);
    report->complete = NULL;
}

void tpj_report_reset(tpj_report *report, int n_checks) {
    drop_event(report);
    report->n_checks = n_checks;
    report->found = -1;
    atomic_store_explicit(&report->n_made, 0, memory_order_relaxed);
}

void tpj_report_give(tpj_report *report) {
    if (report == NULL) return;
    tpj_report **first = &report->client->devices[report->device].reports;
    tpj_lock_acquire(&store_lock);
    report->next = *first;
    *first = report;
    tpj_lock_release(&store_lock);
}

void tpj_report_destroy_all(tpj_report *first) {
    while (first != NULL) {
        tpj_report *next = first->next;
        drop_event(first);
        tpj_buffer_release(first->operand);
        tpj_lock_destroy(&first->lock);
        free(first);
        first = next;
    }
}

/* ---- a launch's ---- */

tpj_buffer *tpj_report_operand(const tpj_report *report) { return report->operand; }

bool tpj_report_is_complete(const tpj_report *report) {
    return atomic_load_explicit(&report->n_made, memory_order_acquire) == report->n_checks;
}

bool tpj_report_is_clear(const tpj_report *report) { return tpj_report_is_complete(report) && report->found < 0; }

void tpj_report_completes_with(tpj_report *report, pjrt_event *complete) { report->complete = complete; }

int tpj_report_await(tpj_report *report, int64_t *out_element) {
    pjrt_event *complete = report->complete;
    report->complete = NULL;
    tpj_status_destroy(tpj_pjrt_await(report->client->api, complete)); /* whoever reads the results gets the error */
    *out_element = report->element;
    return report->found;
}
