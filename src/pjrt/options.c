/* Compile options, in the protocol-buffer form that compilers take. Numbers are the fields of CompileOptionsProto and of
 * the messages inside it. A compiler aborts the process when the replica and partition counts are missing or when a
 * device id is not one of its own, so both are made sure of here. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/protobuf.h"
#include "pjrt/internal.h"

enum compile_options_field { FIELD_BUILD = 3, FIELD_PORTABLE = 4, FIELD_OVERRIDES = 7 };
enum build_field {
    BUILD_DEVICE_ORDINAL = 1,
    BUILD_REPLICAS = 4,
    BUILD_PARTITIONS = 5,
    BUILD_SPMD = 6,
    BUILD_ASSIGNMENT = 9,
    BUILD_SHARDY = 19,
    BUILD_OPTIMIZATION_LEVEL = 24
};
enum assignment_field { ASSIGNMENT_REPLICAS = 1, ASSIGNMENT_PARTITIONS = 2, ASSIGNMENT_DEVICES = 3 };
enum devices_field { DEVICES_IDS = 1 };
enum entry_field { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum override_field { OVERRIDE_STRING = 1, OVERRIDE_BOOL = 2, OVERRIDE_INT = 3, OVERRIDE_DOUBLE = 4 };

static int compare_ids(const void *a, const void *b) {
    int left = *(const int *)a, right = *(const int *)b;
    return (left > right) - (left < right);
}

void tpj_ids_sort(int *ids, int n_ids) { qsort(ids, (size_t)n_ids, sizeof *ids, compare_ids); }

static bool is_known_id(int64_t id, const int *known_ids, int n_known_ids) {
    int low = 0, high = n_known_ids;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (known_ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_known_ids && known_ids[low] == id;
}

static tpj_status *check_counts(const tpj_compile_options *options, int n_replicas, int n_partitions) {
    if (n_replicas < 1 || n_partitions < 1)
        TPJ_ERROR(TPJ_VALUE, "compile options ask for %d replicas of %d partitions", n_replicas, n_partitions);
    if (options->portable && (n_replicas > 1 || n_partitions > 1 || options->device_ids != NULL))
        TPJ_ERROR(TPJ_VALUE,
                  "a portable program runs on one device at a time, %d replicas of %d partitions%s do not fit",
                  n_replicas, n_partitions, options->device_ids != NULL ? " on given devices" : "");
    return NULL;
}

static tpj_status *check_ids(const int64_t *ids, int64_t n, const int *known_ids, int n_known_ids) {
    for (int64_t i = 0; i < n; i++) {
        if (!is_known_id(ids[i], known_ids, n_known_ids))
            TPJ_ERROR(TPJ_VALUE, "compile options name device %" PRId64 ", which is none of the %d devices", ids[i],
                      n_known_ids);
        for (int64_t j = 0; n <= 64 && j < i; j++)
            if (ids[j] == ids[i]) TPJ_ERROR(TPJ_VALUE, "compile options name device %" PRId64 " twice", ids[i]);
    }
    return NULL;
}

/* Replicas are the outer dimension of device_ids; the proto holds one list of replicas for each partition. */
static void write_assignment(const tpj_compile_options *options, const int *known_ids, int n_replicas, int n_partitions,
                             tpj_text *build) {
    tpj_text assignment = {0}, devices = {0};
    tpj_protobuf_integer(&assignment, ASSIGNMENT_REPLICAS, n_replicas);
    tpj_protobuf_integer(&assignment, ASSIGNMENT_PARTITIONS, n_partitions);
    for (int partition = 0; partition < n_partitions; partition++) {
        tpj_text_clear(&devices);
        for (int replica = 0; replica < n_replicas; replica++) {
            int i = replica * n_partitions + partition;
            tpj_protobuf_integer(&devices, DEVICES_IDS,
                                 options->device_ids != NULL ? options->device_ids[i] : known_ids[i]);
        }
        tpj_protobuf_message(&assignment, ASSIGNMENT_DEVICES, &devices);
    }
    tpj_protobuf_message(build, BUILD_ASSIGNMENT, &assignment);
    tpj_text_destroy(&assignment);
    tpj_text_destroy(&devices);
}

void tpj_option_write(const tpj_option *option, tpj_text *proto) {
    tpj_text value = {0}, entry = {0};
    switch (option->kind) {
        case TPJ_OPTION_STRING: tpj_protobuf_string(&value, OVERRIDE_STRING, option->string_value); break;
        case TPJ_OPTION_BOOL: tpj_protobuf_integer(&value, OVERRIDE_BOOL, option->int_value != 0); break;
        case TPJ_OPTION_INT: tpj_protobuf_integer(&value, OVERRIDE_INT, option->int_value); break;
        case TPJ_OPTION_DOUBLE: tpj_protobuf_double(&value, OVERRIDE_DOUBLE, option->double_value); break;
    }
    tpj_protobuf_string(&entry, ENTRY_KEY, option->name);
    tpj_protobuf_message(&entry, ENTRY_VALUE, &value);
    tpj_protobuf_message(proto, FIELD_OVERRIDES, &entry);
    tpj_text_destroy(&value);
    tpj_text_destroy(&entry);
}

tpj_status *tpj_options_write(const tpj_compile_options *options, const int *known_ids, int n_known_ids,
                              bool assign_default, tpj_text *out_proto) {
    int n_replicas = options->n_replicas == 0 ? 1 : options->n_replicas;
    int n_partitions = options->n_partitions == 0 ? 1 : options->n_partitions;
    int64_t n_devices = (int64_t)n_replicas * n_partitions;
    TPJ_TRY(check_counts(options, n_replicas, n_partitions));
    if (n_devices > n_known_ids)
        TPJ_ERROR(TPJ_VALUE, "%d replicas of %d partitions need %" PRId64 " devices, there are %d", n_replicas,
                  n_partitions, n_devices, n_known_ids);
    if (options->device_ids != NULL) TPJ_TRY(check_ids(options->device_ids, n_devices, known_ids, n_known_ids));

    tpj_text build = {0};
    tpj_protobuf_integer(&build, BUILD_DEVICE_ORDINAL, -1); /* the assignment decides */
    tpj_protobuf_integer(&build, BUILD_REPLICAS, n_replicas);
    tpj_protobuf_integer(&build, BUILD_PARTITIONS, n_partitions);
    if (options->use_spmd) tpj_protobuf_integer(&build, BUILD_SPMD, 1);
    if (options->device_ids != NULL || (assign_default && !options->portable))
        write_assignment(options, known_ids, n_replicas, n_partitions, &build);
    if (options->use_shardy) tpj_protobuf_integer(&build, BUILD_SHARDY, 1);
    if (options->optimization_level != 0)
        tpj_protobuf_integer(&build, BUILD_OPTIMIZATION_LEVEL, options->optimization_level);
    tpj_protobuf_message(out_proto, FIELD_BUILD, &build);
    tpj_text_destroy(&build);
    if (options->portable) tpj_protobuf_integer(out_proto, FIELD_PORTABLE, 1);
    for (int i = 0; i < options->n_options; i++) tpj_option_write(&options->options[i], out_proto);
    if (out_proto->failed) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    return NULL;
}
