/* Running a program on buffers and numbers that the caller holds. The eager launch (src/eager/launch.c) has its own way,
 * which keeps numbers on the device and fetches buffers from storages under the device's lock. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "exec/program.h"
#include "lower/view.h"

typedef struct run {
    tpj_program *program;
    int device;
    const tpj_feed *feeds;
    const uint64_t *random;
    tpj_buffer **inputs;  /* one per parameter of the module */
    tpj_buffer **made;    /* one per parameter: inputs that the run made and releases */
    tpj_buffer **results; /* of the module */
    tpj_report *report;   /* NULL: no checks, or they are a result */
} run;

static void add_type(tpj_text *text, tpj_dtype dtype, int rank, const int64_t *dims) {
    tpj_text_printf(text, "%s[", tpj_dtype_name(dtype));
    tpj_text_integers(text, dims, (size_t)rank);
    tpj_text_add(text, "]");
}

static tpj_status *wrong_type(int input, const tpj_type *expected, tpj_dtype dtype, int rank, const int64_t *dims) {
    tpj_text text = {0};
    tpj_text_printf(&text, "input %%%d is ", input);
    add_type(&text, expected->dtype, expected->rank, expected->dims);
    tpj_text_add(&text, ", the buffer that was given is ");
    add_type(&text, dtype, rank, dims);
    tpj_status *status = tpj_status_create(TPJ_TYPE, "%s", tpj_text_string(&text));
    tpj_text_destroy(&text);
    return status;
}

/* A plugin may read past the end of a buffer that is not what its program was compiled for: nothing goes there unchecked. */
static tpj_status *check_buffer(const run *r, int input, const tpj_type *expected) {
    const tpj_buffer *buffer = r->feeds[input].buffer;
    tpj_dtype dtype;
    int rank;
    const int64_t *dims;
    if (buffer == NULL) TPJ_ERROR(TPJ_TYPE, "input %%%d is an array, and no buffer was given for it", input);
    if (tpj_buffer_device(buffer) != r->device)
        TPJ_ERROR(TPJ_VALUE, "the buffer for input %%%d is on device %d, the program runs on device %d", input,
                  tpj_buffer_device(buffer), r->device);
    TPJ_TRY(tpj_buffer_type(buffer, &dtype, &rank, &dims));
    size_t n_bytes = sizeof *dims * (size_t)rank;
    if (dtype != tpj_dtype_carrier(expected->dtype) || rank != expected->rank ||
        (rank > 0 && memcmp(dims, expected->dims, n_bytes) != 0))
        return wrong_type(input, expected, dtype, rank, dims);
    return NULL;
}

static bool is_buffer_parameter(const tpj_lowered *lowered, int input) {
    for (int i = 0; i < lowered->n_parameters; i++)
        if (lowered->parameters[i].kind == TPJ_INPUT_BUFFER && lowered->parameters[i].input == input) return true;
    return false;
}

/* A buffer that is written is consumed, so it can be no other input's as well. */
static tpj_status *check_target(const run *r, int target) {
    const tpj_lowered *lowered = r->program->lowered;
    if (!is_buffer_parameter(lowered, target)) return NULL; /* overwritten without a look, or `same=` as another */
    for (int i = 0; i < lowered->n_parameters; i++) {
        int input = lowered->parameters[i].input;
        if (lowered->parameters[i].kind != TPJ_INPUT_BUFFER || input == target) continue;
        if (r->feeds[input].buffer == r->feeds[target].buffer)
            TPJ_ERROR(
                TPJ_VALUE,
                "inputs %%%d and %%%d are one buffer, of which the first is written: the graph has to say so, with "
                "'same='",
                target, input);
    }
    return NULL;
}

static tpj_status *check_numbers(const run *r) {
    for (int i = 0; i < r->program->lowered->n_requirements; i++) {
        const tpj_requirement *requirement = &r->program->lowered->requirements[i];
        const tpj_number *other = requirement->other >= 0 ? &r->feeds[requirement->other].number : NULL;
        TPJ_TRY(tpj_requirement_check(requirement, &r->feeds[requirement->input].number, other));
    }
    return NULL;
}

static tpj_status *check_offsets(const run *r) {
    for (int i = 0; i < r->program->lowered->n_floating; i++) {
        const tpj_floating *floating = &r->program->lowered->floating[i];
        const tpj_number *number = &r->feeds[floating->input].number;
        if (number->kind != TPJ_NUMBER_INT) TPJ_ERROR(TPJ_TYPE, "input %%%d is an offset: an int", floating->input);
        if (!tpj_offset_fits(number->integer, floating->n, floating->units, floating->most))
            TPJ_ERROR(TPJ_VALUE, "input %%%d: the program was not planned for an offset of %lld", floating->input,
                      (long long)number->integer);
    }
    return NULL;
}

static tpj_status *make_number(run *r, int at) {
    const tpj_parameter *parameter = &r->program->lowered->parameters[at];
    if (parameter->input == TPJ_REPORT) {
        TPJ_TRY(tpj_report_take(r->program->client, r->device, r->program->lowered->n_checks, &r->report));
        tpj_buffer_retain(r->made[at] = tpj_report_operand(r->report));
        return NULL;
    }
    const tpj_feed *feed = &r->feeds[parameter->input];
    uint64_t bits[2];
    if (feed->buffer != NULL)
        TPJ_ERROR(TPJ_TYPE, "input %%%d is a number, and a buffer was given for it", parameter->input);
    tpj_number_encode(&feed->number, parameter->dtype, bits);
    return tpj_buffer_from_host(r->program->client, r->device, parameter->dtype, 0, NULL, bits, &r->made[at]);
}

static tpj_status *gather_inputs(run *r) {
    const tpj_lowered *lowered = r->program->lowered;
    for (int i = 0; i < lowered->n_parameters; i++) {
        const tpj_parameter *parameter = &lowered->parameters[i];
        switch (parameter->kind) {
            case TPJ_INPUT_BUFFER: TPJ_TRY(check_buffer(r, parameter->input, &parameter->type)); break;
            case TPJ_INPUT_SCALAR: TPJ_TRY(make_number(r, i)); break;
            case TPJ_INPUT_RANDOM:
                if (r->random == NULL) TPJ_ERROR(TPJ_VALUE, "the program draws random numbers, and no state was given");
                TPJ_TRY(tpj_random_state_create(r->program->client, r->device, r->random, &r->made[i]));
                break;
        }
        r->inputs[i] = r->made[i] != NULL ? r->made[i] : r->feeds[parameter->input].buffer;
    }
    for (int i = 0; i < lowered->n_results; i++)
        if (lowered->results[i].target >= 0) TPJ_TRY(check_target(r, lowered->results[i].target));
    TPJ_TRY(check_numbers(r));
    return check_offsets(r);
}

/* Moves the results to the caller and waits for the checks behind them. */
static tpj_status *take_results(run *r, tpj_buffer **outputs) {
    const tpj_lowered *lowered = r->program->lowered;
    tpj_checks checks = {.report = r->report};
    if (lowered->n_checks > 0 && r->report == NULL) checks.result = r->results[r->program->n_outputs - 1];
    int check = -1;
    int64_t element;
    if (lowered->n_checks > 0) TPJ_TRY(tpj_program_read_checks(r->program, &checks, &check, &element));
    if (check >= 0) return tpj_program_check_error(r->program, check, element, NULL, 0);
    for (int i = 0, at = 0; i < lowered->n_results; i++) {
        outputs[i] = NULL;
        if (lowered->results[i].none) continue;
        outputs[i] = r->results[at];
        r->results[at++] = NULL;
    }
    return NULL;
}

tpj_status *tpj_program_run(tpj_program *program, int device, const tpj_feed *feeds, int n_feeds,
                            const uint64_t random[2], tpj_buffer **outputs) {
    const int n_inputs = program->lowered->n_parameters, n_results = program->n_outputs;
    if (n_feeds != program->n_inputs)
        TPJ_ERROR(TPJ_VALUE, "the graph has %d inputs, %d were given", program->n_inputs, n_feeds);
    tpj_status *status = NULL;
    tpj_buffer **all = calloc((size_t)(2 * n_inputs + n_results + 1), sizeof *all);
    if (all == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    run r = {program, device, feeds, random, all, all + n_inputs, all + 2 * n_inputs, NULL};
    TPJ_TRY_GOTO(gather_inputs(&r));
    status = tpj_executable_execute_reporting(program->executable, device, r.inputs, n_inputs, r.results, n_results,
                                              r.report);
    if (status != NULL) {
        status = tpj_program_annotate(status, program);
        goto done;
    }
    status = take_results(&r, outputs);
done:
    for (int i = 0; i < n_inputs; i++) tpj_buffer_release(r.made[i]);
    for (int i = 0; i < n_results; i++) tpj_buffer_release(r.results[i]);
    tpj_report_give(r.report);
    free(all);
    return status;
}
