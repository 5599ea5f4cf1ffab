#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/writer.h"

tpj_status *hlo_create(tpj_hlo **out_builder) {
    tpj_hlo *h = calloc(1, sizeof *h);
    if (h == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "no memory for a module under construction");
    tpj_arena_init(&h->arena);
    for (int i = 0; i < 2 * HLO_SPARE_DIMS; i++) h->poison_dims[i] = 1;
    h->poison = (tpj_value){.id = -1, .n_of = 1, .type = {TPJ_F32, 0, h->poison_dims + HLO_SPARE_DIMS}};
    h->precision = "HIGHEST";
    *out_builder = h;
    return NULL;
}

void hlo_destroy(tpj_hlo *h) {
    if (h == NULL) return;
    tpj_arena_destroy(&h->arena);
    tpj_status_destroy(h->status);
    tpj_text_destroy(&h->body);
    tpj_text_destroy(&h->locations);
    tpj_text_destroy(&h->aliases);
    tpj_text_destroy(&h->functions);
    tpj_text_destroy(&h->scratch);
    free(h->parameters);
    free(h->interned);
    free(h);
}

tpj_value *hlo_fail(tpj_hlo *h, tpj_code code, const char *format, ...) {
    if (!h->failed) {
        va_list args;
        va_start(args, format);
        h->status = tpj_status_create_v(code, format, args);
        va_end(args);
        h->failed = true;
    }
    return &h->poison;
}

bool hlo_failed(const tpj_hlo *h) { return h->failed; }

tpj_status *hlo_take_status(tpj_hlo *h) {
    tpj_status *status = h->status;
    h->status = NULL;
    return status;
}

tpj_arena *hlo_arena(tpj_hlo *h) { return &h->arena; }

static tpj_value *out_of_memory(tpj_hlo *h) { return hlo_fail(h, TPJ_OUT_OF_MEMORY, "no memory to write a module"); }

int64_t *hlo_dims(tpj_hlo *h, int n) {
    int64_t *dims = TPJ_ARENA_ARRAY(&h->arena, int64_t, n > 0 ? n : 1);
    if (dims != NULL) return dims;
    out_of_memory(h);
    return n <= HLO_SPARE_DIMS ? h->spare_dims : NULL;
}

tpj_value *hlo_value(tpj_hlo *h, int id, int result, int n_of, tpj_dtype dtype, int rank, const int64_t *dims) {
    tpj_value *value = TPJ_ARENA_NEW(&h->arena, tpj_value);
    int64_t *own = TPJ_ARENA_ARRAY(&h->arena, int64_t, rank > 0 ? rank : 1);
    if (value == NULL || own == NULL) return out_of_memory(h);
    if (rank > 0) memcpy(own, dims, sizeof *own * (size_t)rank);
    *value = (tpj_value){.id = id, .result = result, .n_of = n_of, .type = {dtype, rank, own}};
    return value;
}

tpj_value *hlo_parameter(tpj_hlo *h, tpj_dtype dtype, int rank, const int64_t *dims) {
    if (h->failed) return &h->poison;
    if (h->n_parameters == h->capacity_parameters) {
        int capacity = h->capacity_parameters * 2 + 16;
        hlo_parameter_record *records = realloc(h->parameters, sizeof *records * (size_t)capacity);
        if (records == NULL) return out_of_memory(h);
        h->parameters = records;
        h->capacity_parameters = capacity;
    }
    tpj_value *value = hlo_value(h, h->next_id++, 0, 1, dtype, rank, dims);
    h->parameters[h->n_parameters++] = (hlo_parameter_record){.value = value};
    return value;
}

void hlo_donate(tpj_hlo *h, int parameter, int output) {
    if (h->failed) return;
    if (parameter < 0 || parameter >= h->n_parameters) {
        hlo_fail(h, TPJ_INTERNAL, "parameter %d of %d cannot be donated", parameter, h->n_parameters);
        return;
    }
    h->parameters[parameter].donated = true;
    h->parameters[parameter].output = output;
}

void hlo_set_precision(tpj_hlo *h, const char *precision) {
    const char *copy = tpj_arena_string(&h->arena, precision);
    if (copy == NULL)
        out_of_memory(h);
    else
        h->precision = copy;
}

void hlo_set_for_cpu(tpj_hlo *h, bool for_cpu) { h->for_cpu = for_cpu; }

/* ---- interned text ---- */

static uint64_t hash_string(const char *text) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

static hlo_intern_entry *intern_slot(hlo_intern_entry *entries, int capacity, uint64_t hash, const char *key) {
    size_t mask = (size_t)capacity - 1, i = (size_t)hash & mask;
    while (entries[i].key != NULL && (entries[i].hash != hash || strcmp(entries[i].key, key) != 0)) i = (i + 1) & mask;
    return &entries[i];
}

static bool intern_grow(tpj_hlo *h) {
    int capacity = h->capacity_interned == 0 ? 64 : h->capacity_interned * 2;
    hlo_intern_entry *entries = calloc((size_t)capacity, sizeof *entries);
    if (entries == NULL) return false;
    for (int i = 0; i < h->capacity_interned; i++) {
        hlo_intern_entry *old = &h->interned[i];
        if (old->key != NULL) *intern_slot(entries, capacity, old->hash, old->key) = *old;
    }
    free(h->interned);
    h->interned = entries;
    h->capacity_interned = capacity;
    return true;
}

void **hlo_intern(tpj_hlo *h, const char *key) {
    if ((h->n_interned + 1) * 4 > h->capacity_interned * 3 && !intern_grow(h)) {
        out_of_memory(h);
        return NULL;
    }
    uint64_t hash = hash_string(key);
    hlo_intern_entry *entry = intern_slot(h->interned, h->capacity_interned, hash, key);
    if (entry->key == NULL) {
        const char *own = tpj_arena_string(&h->arena, key);
        if (own == NULL) {
            out_of_memory(h);
            return NULL;
        }
        *entry = (hlo_intern_entry){.hash = hash, .key = own};
        h->n_interned++;
    }
    return &entry->value;
}

/* ---- locations ---- */

static void write_quoted(tpj_text *text, const char *string) {
    tpj_text_add(text, "\"");
    for (; *string != '\0'; string++) {
        unsigned char c = (unsigned char)*string;
        if (c == '"' || c == '\\')
            tpj_text_printf(text, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            tpj_text_printf(text, "\\%02X", c);
        else
            tpj_text_append(text, string, 1);
    }
    tpj_text_add(text, "\"");
}

void hlo_location(tpj_hlo *h, const char *name, const char *file, int line) {
    if (h->failed) return;
    if (name == NULL) {
        h->location = 0;
        return;
    }
    tpj_text *text = &h->scratch;
    tpj_text_clear(text);
    tpj_text_add(text, "loc(");
    write_quoted(text, name);
    if (file != NULL) {
        tpj_text_add(text, "(");
        write_quoted(text, file);
        tpj_text_printf(text, ":%d:0)", line < 0 ? 0 : line);
    }
    tpj_text_add(text, ")");
    const char *key = tpj_text_string(text);
    void **slot = hlo_intern(h, key);
    if (slot == NULL) return;
    if (*slot == NULL) {
        *slot = (void *)(intptr_t)++h->n_locations;
        tpj_text_printf(&h->locations, "#loc%d = %s\n", h->n_locations, key);
    }
    h->location = (int)(intptr_t)*slot;
}

/* ---- the module ---- */

static void write_types(tpj_text *text, tpj_value *const *values, int n) {
    tpj_text_add(text, "(");
    for (int i = 0; i < n; i++) {
        if (i > 0) tpj_text_add(text, ", ");
        hlo_write_type(text, &values[i]->type);
    }
    tpj_text_add(text, ")");
}

static void write_parameter_attributes(const tpj_hlo *h, tpj_text *text) {
    bool any = false;
    for (int i = 0; i < h->n_parameters; i++) any |= h->parameters[i].donated;
    if (!any) return;
    tpj_text_add(text, "arg_attrs = [");
    for (int i = 0; i < h->n_parameters; i++) {
        const hlo_parameter_record *parameter = &h->parameters[i];
        if (i > 0) tpj_text_add(text, ", ");
        if (!parameter->donated)
            tpj_text_add(text, "{}");
        else if (parameter->output < 0)
            tpj_text_add(text, "{jax.buffer_donor = true}");
        else
            tpj_text_printf(text, "{tf.aliasing_output = %d : i32}", parameter->output);
    }
    tpj_text_add(text, "], ");
}

static void write_module(tpj_hlo *h, tpj_text *text, const char *name, tpj_value *const *results, int n_results) {
    tpj_value **parameters = TPJ_ARENA_ARRAY(&h->arena, tpj_value *, h->n_parameters + 1);
    if (parameters == NULL) return;
    for (int i = 0; i < h->n_parameters; i++) parameters[i] = h->parameters[i].value;
    tpj_text_append(text, tpj_text_string(&h->aliases), h->aliases.length);
    tpj_text_add(text, "\"builtin.module\"() <{sym_name = ");
    write_quoted(text, name);
    tpj_text_add(text, "}> ({\n\"func.func\"() <{");
    write_parameter_attributes(h, text);
    tpj_text_add(text, "function_type = ");
    write_types(text, parameters, h->n_parameters);
    tpj_text_add(text, " -> ");
    write_types(text, results, n_results);
    /* XLA's entry point is the function "main" whatever the module is called. */
    tpj_text_add(text, ", sym_name = \"main\", sym_visibility = \"public\"}> ({\n");
    if (h->n_parameters > 0) {
        tpj_text_add(text, "^bb0(");
        for (int i = 0; i < h->n_parameters; i++) {
            tpj_text_printf(text, i == 0 ? "%%%d: " : ", %%%d: ", parameters[i]->id);
            hlo_write_type(text, &parameters[i]->type);
        }
        tpj_text_add(text, "):\n");
    }
    tpj_text_append(text, tpj_text_string(&h->body), h->body.length);
    tpj_text_add(text, "}) : () -> ()\n");
    tpj_text_append(text, tpj_text_string(&h->functions), h->functions.length);
    tpj_text_add(text, "}) : () -> ()\n");
    tpj_text_append(text, tpj_text_string(&h->locations), h->locations.length);
}

tpj_status *hlo_finish(tpj_hlo *h, const char *function_name, tpj_value *const *results, int n_results,
                       char **out_module, size_t *out_length) {
    tpj_text text = {0};
    h->location = 0;
    if (hlo_ready(h, results, n_results)) {
        int id = hlo_open(h, "func.return", results, n_results, 0);
        hlo_close(h, id, NULL, results, n_results, NULL, 0, NULL);
        write_module(h, &text, function_name, results, n_results);
    }
    const bool texts_failed = h->body.failed || h->locations.failed || h->scratch.failed || h->aliases.failed ||
                              h->functions.failed || text.failed;
    if (h->arena.failed || texts_failed) out_of_memory(h);
    if (h->failed) {
        tpj_text_destroy(&text);
        tpj_status *status = hlo_take_status(h);
        if (status == NULL)
            status = tpj_status_create(TPJ_INTERNAL, "the module failed before, and its error was taken");
        return status;
    }
    *out_module = text.data;
    *out_length = text.length;
    return NULL;
}
