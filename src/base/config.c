#include "base/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/lock.h"
#include "base/log.h"

extern char **environ;

#define PREFIX "TORCH_PJRT_"

enum setting_index {
#define TPJ_STRING(name, ...) SETTING_##name,
#define TPJ_CHOICE TPJ_STRING
#define TPJ_INT TPJ_STRING
#define TPJ_BOOL TPJ_STRING
#include "base/config.def"
#undef TPJ_STRING
#undef TPJ_CHOICE
#undef TPJ_INT
#undef TPJ_BOOL
    N_SETTINGS
};

static const tpj_setting settings[N_SETTINGS] = {
#define TPJ_STRING(name, env, initial, doc) {#name, #env, TPJ_SETTING_STRING, initial, NULL, 0, 0, doc},
#define TPJ_CHOICE(name, env, initial, choices, doc) {#name, #env, TPJ_SETTING_CHOICE, initial, choices, 0, 0, doc},
#define TPJ_INT(name, env, initial, least, greatest, doc) \
    {#name, #env, TPJ_SETTING_INT, #initial, NULL, least, greatest, doc},
#define TPJ_BOOL(name, env, initial, doc) {#name, #env, TPJ_SETTING_BOOL, #initial, NULL, 0, 1, doc},
#include "base/config.def"
#undef TPJ_STRING
#undef TPJ_CHOICE
#undef TPJ_INT
#undef TPJ_BOOL
};

/* A setting uses one of the two. */
typedef struct setting_value {
    _Atomic(const char *) string;
    _Atomic(int64_t) integer;
} setting_value;

static setting_value values[N_SETTINGS] = {
#define TPJ_STRING(name, env, initial, ...) {.string = initial},
#define TPJ_CHOICE TPJ_STRING
#define TPJ_INT(name, env, initial, ...) {.integer = initial},
#define TPJ_BOOL TPJ_INT
#include "base/config.def"
#undef TPJ_STRING
#undef TPJ_CHOICE
#undef TPJ_INT
#undef TPJ_BOOL
};

#define LOAD(name, field) atomic_load_explicit(&values[SETTING_##name].field, memory_order_acquire)
#define TPJ_STRING(name, ...) \
    const char *tpj_config_##name(void) { return LOAD(name, string); }
#define TPJ_CHOICE TPJ_STRING
#define TPJ_INT(name, ...) \
    int64_t tpj_config_##name(void) { return LOAD(name, integer); }
#define TPJ_BOOL(name, ...) \
    bool tpj_config_##name(void) { return LOAD(name, integer) != 0; }
#include "base/config.def"

static tpj_lock lock = TPJ_LOCK_INIT(TPJ_RANK_CONFIG, "config");
static bool loaded; /* under lock */

/* Strings that were ever set, so that accessors can lend them for good. Under lock. */
typedef struct kept_string {
    struct kept_string *next;
    char text[];
} kept_string;
static kept_string *kept_strings;

static const char *keep_string(const char *text) {
    for (const kept_string *kept = kept_strings; kept != NULL; kept = kept->next)
        if (strcmp(kept->text, text) == 0) return kept->text;
    size_t n = strlen(text) + 1;
    kept_string *kept = malloc(sizeof *kept + n);
    if (kept == NULL) return NULL;
    memcpy(kept->text, text, n);
    kept->next = kept_strings;
    kept_strings = kept;
    return kept->text;
}

int tpj_config_n_settings(void) { return N_SETTINGS; }

const tpj_setting *tpj_config_setting(int index) { return index >= 0 && index < N_SETTINGS ? &settings[index] : NULL; }

const tpj_setting *tpj_config_find(const char *name) {
    for (int i = 0; i < N_SETTINGS; i++)
        if (strcmp(settings[i].name, name) == 0) return &settings[i];
    return NULL;
}

const char *tpj_config_string(const tpj_setting *setting) {
    const char *string = atomic_load_explicit(&values[setting - settings].string, memory_order_acquire);
    return string == NULL ? "" : string;
}

int64_t tpj_config_integer(const tpj_setting *setting) {
    return atomic_load_explicit(&values[setting - settings].integer, memory_order_acquire);
}

/* ---- parsing ---- */
static bool parse_bool(const char *text, int64_t *out_value) {
    static const char *const words[2][4] = {{"0", "false", "off", "no"}, {"1", "true", "on", "yes"}};
    for (int value = 0; value < 2; value++)
        for (int i = 0; i < 4; i++)
            if (strcasecmp(text, words[value][i]) == 0) {
                *out_value = value;
                return true;
            }
    return false;
}

static bool parse_integer(const char *text, int64_t *out_value) {
    static const char suffixes[] = "KMGT";
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || errno == ERANGE) return false;
    const char *suffix = *end == '\0' ? NULL : strchr(suffixes, *end);
    if (*end != '\0' && (suffix == NULL || end[1] != '\0')) return false;
    int64_t scale = suffix == NULL ? 1 : (int64_t)1 << 10 * (suffix - suffixes + 1);
    return !__builtin_mul_overflow((int64_t)value, scale, out_value);
}

static bool is_choice(const char *choices, const char *text) {
    size_t n = strlen(text);
    for (const char *choice = choices; choice != NULL; choice = strchr(choice, '|'), choice += choice != NULL)
        if (strcspn(choice, "|") == n && memcmp(choice, text, n) == 0) return true;
    return false;
}

/* The value of an integer or bool; checks a choice. `source` is what the message blames. */
static tpj_status *parse_value(const tpj_setting *setting, const char *text, const char *source, int64_t *out_integer) {
    *out_integer = 0;
    switch (setting->kind) {
        case TPJ_SETTING_STRING: return NULL;
        case TPJ_SETTING_CHOICE:
            if (is_choice(setting->choices, text)) return NULL;
            TPJ_ERROR(TPJ_VALUE, "%s=%s: expected one of %s", source, text, setting->choices);
        case TPJ_SETTING_BOOL:
            if (parse_bool(text, out_integer)) return NULL;
            TPJ_ERROR(TPJ_VALUE, "%s=%s: expected 0 or 1", source, text);
        case TPJ_SETTING_INT:
            if (parse_integer(text, out_integer) && *out_integer >= setting->least && *out_integer <= setting->greatest)
                return NULL;
            TPJ_ERROR(TPJ_VALUE, "%s=%s: expected an integer from %" PRId64 " to %" PRId64, source, text,
                      setting->least, setting->greatest);
    }
    TPJ_ERROR(TPJ_INTERNAL, "%s: setting of no known kind", source);
}

static void apply_log_level(void) {
    const char *name = tpj_config_log_level();
    for (int level = TPJ_LOG_DEBUG; level <= TPJ_LOG_OFF; level++)
        if (strcmp(name, tpj_log_level_name((tpj_log_level)level)) == 0) tpj_log_set_level((tpj_log_level)level);
}

/* Under lock, with a text that parse_value accepted. */
static tpj_status *store_value(const tpj_setting *setting, const char *text, int64_t integer) {
    setting_value *value = &values[setting - settings];
    if (setting->kind == TPJ_SETTING_STRING || setting->kind == TPJ_SETTING_CHOICE) {
        const char *kept = keep_string(text);
        if (kept == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "%s: out of host memory", setting->name);
        atomic_store_explicit(&value->string, kept, memory_order_release);
    } else {
        atomic_store_explicit(&value->integer, integer, memory_order_release);
    }
    if (setting == &settings[SETTING_log_level]) apply_log_level();
    return NULL;
}

tpj_status *tpj_config_set(const tpj_setting *setting, const char *value) {
    int64_t integer;
    TPJ_TRY(parse_value(setting, value, setting->name, &integer));
    tpj_lock_acquire(&lock);
    tpj_status *status = store_value(setting, value, integer);
    tpj_lock_release(&lock);
    return status;
}

/* ---- environment ---- */
/* Single-character edits between two short names (Levenshtein). */
static int edit_distance(const char *a, const char *b) {
    enum { LONGEST = 63 };
    int row[LONGEST + 1];
    int n = (int)strlen(b);
    if (n > LONGEST) return LONGEST;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1] != '\0'; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int insert = row[j - 1] + 1, erase = row[j] + 1;
            row[j] = insert < erase ? insert : erase;
            if (replace < row[j]) row[j] = replace;
        }
    }
    return row[n];
}

static const tpj_setting *find_env(const char *entry, size_t n) {
    for (int i = 0; i < N_SETTINGS; i++)
        if (strlen(settings[i].env) == n && memcmp(settings[i].env, entry, n) == 0) return &settings[i];
    return NULL;
}

static void warn_of_unknown(void) {
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        size_t n = strcspn(*entry, "=");
        if (strncmp(*entry, PREFIX, strlen(PREFIX)) != 0 || find_env(*entry, n) != NULL) continue;
        char name[64];
        if (n >= sizeof name) n = sizeof name - 1;
        memcpy(name, *entry, n);
        name[n] = '\0';
        const tpj_setting *nearest = &settings[0];
        for (int i = 1; i < N_SETTINGS; i++)
            if (edit_distance(name, settings[i].env) < edit_distance(name, nearest->env)) nearest = &settings[i];
        tpj_log(TPJ_LOG_WARNING, "%s is no setting; did you mean %s?", name, nearest->env);
    }
}

/* All values are parsed before one is stored. An empty variable counts as unset. */
static tpj_status *read_environment(void) {
    const char *texts[N_SETTINGS];
    int64_t integers[N_SETTINGS];
    for (int i = 0; i < N_SETTINGS; i++) {
        texts[i] = getenv(settings[i].env);
        if (texts[i] != NULL && texts[i][0] == '\0') texts[i] = NULL;
        if (texts[i] != NULL) TPJ_TRY(parse_value(&settings[i], texts[i], settings[i].env, &integers[i]));
    }
    for (int i = 0; i < N_SETTINGS; i++)
        if (texts[i] != NULL) TPJ_TRY(store_value(&settings[i], texts[i], integers[i]));
    return NULL;
}

bool tpj_config_user_cache(char *out_path, size_t n) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = 0;
    if (cache != NULL && cache[0] == '/') /* the specification: relative paths are to be ignored */
        length = snprintf(out_path, n, "%s", cache);
    else if (home != NULL && home[0] == '/')
        length = snprintf(out_path, n, "%s/.cache", home);
    return length > 0 && (size_t)length < n;
}

tpj_status *tpj_config_load(void) {
    tpj_lock_acquire(&lock);
    bool first = !loaded;
    tpj_status *status = first ? read_environment() : NULL;
    loaded = loaded || status == NULL;
    tpj_lock_release(&lock);
    if (first && status == NULL) warn_of_unknown();
    return status;
}
