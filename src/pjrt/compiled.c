/* Compiling for a topology that is not there: what a TPU program would need, without a TPU. */
#include <stdlib.h>
#include <string.h>

#include "pjrt/internal.h"

struct tpj_compiled {
    const pjrt_api *api;
    pjrt_executable *handle;
};

tpj_status *tpj_topology_compile(tpj_topology *topology, const char *module, size_t module_length,
                                 const tpj_compile_options *options, tpj_compiled **out_compiled) {
    static const tpj_compile_options one_device = {0};
    const pjrt_api *api = topology->api;
    tpj_status *status = NULL;
    tpj_text proto = {0};
    tpj_compiled *compiled = malloc(sizeof *compiled);
    if (compiled == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    TPJ_TRY_GOTO(tpj_pjrt_check_fork());
    TPJ_TRY_GOTO(
        tpj_options_write(options == NULL ? &one_device : options, topology->ids, topology->n_ids, true, &proto));
    PJRT_ARGS(pjrt_program, program, .code = module, .code_size = module_length, .format = "mlir", .format_size = 4);
    PJRT_ARGS(pjrt_compile_args, args, .topology = topology->handle, .program = &program, .compile_options = proto.data,
              .compile_options_size = proto.length);
    TPJ_TRY_GOTO(PJRT_CALL(api, compile, &args));
    *compiled = (tpj_compiled){.api = api, .handle = args.executable};
    *out_compiled = compiled;
    compiled = NULL;
done:
    free(compiled);
    tpj_text_destroy(&proto);
    return status;
}

void tpj_compiled_destroy(tpj_compiled *compiled) {
    if (compiled == NULL) return;
    PJRT_ARGS(pjrt_executable_destroy_args, args, .executable = compiled->handle);
    tpj_pjrt_ignore(PJRT_CALL(compiled->api, executable_destroy, &args));
    free(compiled);
}

tpj_status *tpj_pjrt_memory_stats(const pjrt_api *api, pjrt_executable *handle, tpj_compiled_memory *out_memory) {
    /* A plugin that is older than a field leaves it as it is. */
    PJRT_ARGS(pjrt_executable_get_compiled_memory_stats_args, args, .executable = handle, .peak_memory_in_bytes = -1);
    TPJ_TRY(PJRT_CALL(api, executable_get_compiled_memory_stats, &args));
    *out_memory = (tpj_compiled_memory){.code_bytes = args.generated_code_size_in_bytes,
                                        .argument_bytes = args.argument_size_in_bytes,
                                        .output_bytes = args.output_size_in_bytes,
                                        .alias_bytes = args.alias_size_in_bytes,
                                        .temp_bytes = args.temp_size_in_bytes,
                                        .peak_bytes = args.peak_memory_in_bytes};
    return NULL;
}

/* Costs come as named numbers; a compiler that cannot tell gives a number below zero, or leaves the name out. */
static double find_property(const pjrt_named_value *properties, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++) {
        const pjrt_named_value *property = &properties[i];
        if (property->name_size != strlen(name) || memcmp(property->name, name, property->name_size) != 0) continue;
        if (property->type == PJRT_NAMED_VALUE_FLOAT) return (double)property->float_value;
        if (property->type == PJRT_NAMED_VALUE_INT64) return (double)property->int64_value;
    }
    return -1;
}

tpj_status *tpj_pjrt_cost_stats(const pjrt_api *api, pjrt_executable *handle, tpj_compiled_cost *out_cost) {
    PJRT_ARGS(pjrt_executable_get_cost_analysis_args, args, .executable = handle);
    TPJ_TRY(PJRT_CALL(api, executable_get_cost_analysis, &args));
    *out_cost =
        (tpj_compiled_cost){.flops = find_property(args.properties, args.num_properties, "flops"),
                            .bytes_accessed = find_property(args.properties, args.num_properties, "bytes accessed"),
                            .optimal_seconds = find_property(args.properties, args.num_properties, "optimal_seconds")};
    return NULL;
}

tpj_status *tpj_compiled_memory_stats(const tpj_compiled *compiled, tpj_compiled_memory *out_memory) {
    return tpj_pjrt_memory_stats(compiled->api, compiled->handle, out_memory);
}

tpj_status *tpj_compiled_cost_stats(const tpj_compiled *compiled, tpj_compiled_cost *out_cost) {
    return tpj_pjrt_cost_stats(compiled->api, compiled->handle, out_cost);
}

/* ---- the program as bytes ---- */
tpj_status *tpj_compiled_serialize(const tpj_compiled *compiled, void **out_data, size_t *out_n_bytes) {
    return tpj_pjrt_serialize(compiled->api, compiled->handle, out_data, out_n_bytes);
}

tpj_status *tpj_compiled_optimized_program(const tpj_compiled *compiled, void **out_data, size_t *out_n_bytes) {
    PJRT_ARGS(pjrt_program, program, .code = NULL);
    PJRT_ARGS(pjrt_executable_optimized_program_args, args, .executable = compiled->handle, .program = &program);
    TPJ_TRY(PJRT_CALL(compiled->api, executable_optimized_program, &args));
    char *code = malloc(program.code_size + 1);
    if (code == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    program.code = code;
    tpj_status *status = PJRT_CALL(compiled->api, executable_optimized_program, &args);
    if (status != NULL) {
        free(code);
        return status;
    }
    *out_data = code;
    *out_n_bytes = program.code_size;
    return NULL;
}
