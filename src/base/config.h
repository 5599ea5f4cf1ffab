/* Settings: the rows of config.def, read from the environment once and changeable at run time.
 *
 * Threads: everything is thread-safe; an accessor is one relaxed load. Strings that accessors return live until the
 * process ends, so a reader may keep one across a change. */
#ifndef TPJ_BASE_CONFIG_H
#define TPJ_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tpj_config_<name>(): the current value. The default before tpj_config_load. */
#define TPJ_STRING(name, env, initial, doc) TPJ_API const char *tpj_config_##name(void);
#define TPJ_CHOICE(name, env, initial, choices, doc) TPJ_API const char *tpj_config_##name(void);
#define TPJ_INT(name, env, initial, least, greatest, doc) TPJ_API int64_t tpj_config_##name(void);
#define TPJ_BOOL(name, env, initial, doc) TPJ_API bool tpj_config_##name(void);
#include "base/config.def"
#undef TPJ_STRING
#undef TPJ_CHOICE
#undef TPJ_INT
#undef TPJ_BOOL

/* Reads the environment. Only the first call that succeeds has an effect. TPJ_VALUE names the variable whose value does
 * not fit, and nothing is changed then. Variables TORCH_PJRT_* that are no setting are warned of. */
TPJ_API tpj_status *tpj_config_load(void) TPJ_MUST_USE;

/* The folder in which programs may keep files between runs, $XDG_CACHE_HOME or ~/.cache, into `out_path`. False when the
 * environment names none or it does not fit. */
bool tpj_config_user_cache(char *out_path, size_t n);

/* ---- by name or number, for the Python layer and the documentation ---- */
typedef enum tpj_setting_kind {
    TPJ_SETTING_STRING,
    TPJ_SETTING_CHOICE,
    TPJ_SETTING_INT,
    TPJ_SETTING_BOOL
} tpj_setting_kind;

typedef struct tpj_setting {
    const char *name, *env;
    tpj_setting_kind kind;
    const char *initial; /* the default, as text */
    const char *choices; /* "a|b|c" of a choice, else NULL */
    int64_t least, greatest;
    const char *doc;
} tpj_setting;

TPJ_API int tpj_config_n_settings(void);
/* Static. NULL when there is no such setting. */
TPJ_API const tpj_setting *tpj_config_setting(int index);
TPJ_API const tpj_setting *tpj_config_find(const char *name);
/* The current value of a string or choice; of an integer or bool. */
TPJ_API const char *tpj_config_string(const tpj_setting *setting);
TPJ_API int64_t tpj_config_integer(const tpj_setting *setting);
/* `value` as in the environment: integers may end in K, M, G or T (powers of 1024); bools are 0, 1, true, false, on, off,
 * yes or no. TPJ_VALUE for one that does not fit. */
TPJ_API tpj_status *tpj_config_set(const tpj_setting *setting, const char *value) TPJ_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
