/* Loading plugins, and turning their errors into statuses. */
#define _GNU_SOURCE /* memmem */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "pjrt/internal.h"
#include "pjrt/plan_internal.h"

static tpj_lock plugins_lock = TPJ_LOCK_INIT(TPJ_RANK_PLUGIN, "plugins");
static pthread_cond_t plugins_changed = PTHREAD_COND_INITIALIZER;
static tpj_plugin *plugins; /* under the lock, as is the state of each */

/* ---- fork ---- */
static atomic_bool forked;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void note_fork(void) { atomic_store_explicit(&forked, true, memory_order_relaxed); }
static void watch_fork(void) { pthread_atfork(NULL, NULL, note_fork); }

bool tpj_plugin_is_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

tpj_status *tpj_pjrt_check_fork(void) {
    if (!tpj_plugin_is_forked()) return NULL;
    TPJ_ERROR(TPJ_UNAVAILABLE,
              "the device cannot be used in a process that was forked after its first use; "
              "start processes with the \"spawn\" or \"forkserver\" method, or fork before the device is used");
}

/* ---- errors ---- */
/* "loaded_executable_execute" as the interface spells it: "PJRT_LoadedExecutable_Execute". */
static void spell_function(const char *function, char *out_name, size_t n) {
    static const char *const objects[] = {"loaded_executable", "device_description", "topology_description"};
    size_t object = strcspn(function, "_"), length = 0;
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        if (strncmp(function, objects[i], strlen(objects[i])) == 0) object = strlen(objects[i]);
    for (const char *prefix = "PJRT_"; *prefix != '\0'; prefix++) out_name[length++] = *prefix;
    bool start = true;
    for (size_t i = 0; function[i] != '\0' && length + 2 < n; i++) {
        if (i == object) out_name[length++] = '_';
        if (function[i] != '_') out_name[length++] = (char)(start ? toupper((unsigned char)function[i]) : function[i]);
        start = function[i] == '_';
    }
    out_name[length] = '\0';
}

static const char *code_name(int code) {
    static const char *const names[] = {
        "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED"};
    return code >= 0 && (size_t)code < sizeof names / sizeof *names ? names[code] : "unknown code";
}

static tpj_code map_code(int code) {
    switch (code) {
        case PJRT_ERROR_CODE_RESOURCE_EXHAUSTED: return TPJ_OUT_OF_MEMORY;
        case PJRT_ERROR_CODE_UNIMPLEMENTED: return TPJ_NOT_IMPLEMENTED;
        case PJRT_ERROR_CODE_INVALID_ARGUMENT:
        case PJRT_ERROR_CODE_FAILED_PRECONDITION:
        case PJRT_ERROR_CODE_OUT_OF_RANGE: return TPJ_RUNTIME;
        case PJRT_ERROR_CODE_UNAVAILABLE:
        case PJRT_ERROR_CODE_NOT_FOUND: return TPJ_UNAVAILABLE;
        default: return TPJ_DEVICE;
    }
}

/* What a launch could not allocate is reported by what waits for it, as an internal error that cites the first. */
static bool is_out_of_memory(const char *message, size_t n) {
    static const char *const parts[] = {"Out of memory", "RESOURCE_EXHAUSTED"};
    for (size_t i = 0; message != NULL && i < sizeof parts / sizeof *parts; i++)
        if (memmem(message, n, parts[i], strlen(parts[i])) != NULL) return true;
    return false;
}

tpj_status *tpj_pjrt_status(const pjrt_api *api, const char *function, pjrt_error *error) {
    char name[96];
    spell_function(function, name, sizeof name);
    PJRT_ARGS(pjrt_error_message_args, message, .error = error);
    api->error_message(&message);
    PJRT_ARGS(pjrt_error_get_code_args, code, .error = error);
    pjrt_error *second = api->error_get_code(&code);
    if (second != NULL) {
        PJRT_ARGS(pjrt_error_destroy_args, destroy, .error = second);
        api->error_destroy(&destroy);
        code.code = PJRT_ERROR_CODE_UNKNOWN;
    }
    bool no_memory = is_out_of_memory(message.message, message.message_size);
    tpj_status *status = tpj_status_create(no_memory ? TPJ_OUT_OF_MEMORY : map_code(code.code), "%s: %.*s (%s)", name,
                                           (int)message.message_size, message.message == NULL ? "" : message.message,
                                           code_name(code.code));
    PJRT_ARGS(pjrt_error_destroy_args, destroy, .error = error);
    api->error_destroy(&destroy);
    return status;
}

tpj_status *tpj_pjrt_missing(const pjrt_api *api, const char *function) {
    char name[96];
    spell_function(function, name, sizeof name);
    return tpj_status_create(TPJ_NOT_IMPLEMENTED, "the plugin (PJRT API %d.%d) has no %s", api->version.major_version,
                             api->version.minor_version, name);
}

void tpj_pjrt_ignore(tpj_status *status) {
    if (status != NULL) tpj_log(TPJ_LOG_INFO, "ignored: %s", tpj_status_message(status));
    tpj_status_destroy(status);
}

void tpj_pjrt_event_destroy(const pjrt_api *api, pjrt_event *event) {
    if (event == NULL) return;
    PJRT_ARGS(pjrt_event_destroy_args, args, .event = event);
    tpj_pjrt_ignore(PJRT_CALL(api, event_destroy, &args));
}

tpj_status *tpj_pjrt_await(const pjrt_api *api, pjrt_event *event) {
    if (event == NULL) return NULL;
    PJRT_ARGS(pjrt_event_await_args, await, .event = event);
    tpj_status *status = PJRT_CALL(api, event_await, &await);
    tpj_pjrt_event_destroy(api, event);
    return status;
}

tpj_status *tpj_pjrt_copy_text(const char *text, size_t n, char **out_string) {
    char *copy = malloc(n + 1);
    if (copy == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    if (n > 0) memcpy(copy, text, n);
    copy[n] = '\0';
    *out_string = copy;
    return NULL;
}

/* ---- loading ---- */
/* Each only where the user has not set it. */
static void set_environment(bool for_compile_only) {
    /* Plugins report each option that they are given, and CPU plugins each program that they load again, in long lines on
     * stderr. What matters comes back as an error; what is fatal is still printed. */
    setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
    if (!for_compile_only) return;
    /* libtpu looks for the machine that it runs on before it compiles for another: without these it asks a metadata
     * server for minutes, lets one process at a time load it, and logs what it missed. */
    setenv("TPU_SKIP_MDS_QUERY", "1", 0);
    setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 0);
    setenv("TPU_WORKER_HOSTNAMES", "localhost", 0);
    setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4", 0);
    setenv("TPU_LOG_DIR", "disabled", 0);
}

/* What everything here relies on; a plugin without one of them is too old. */
static bool has_what_is_needed(const pjrt_api *api) {
    return PJRT_HAS(api, error_destroy) && PJRT_HAS(api, error_message) && PJRT_HAS(api, error_get_code) &&
           PJRT_HAS(api, event_destroy) && PJRT_HAS(api, event_await) && PJRT_HAS(api, client_create) &&
           PJRT_HAS(api, client_compile) && PJRT_HAS(api, client_buffer_from_host_buffer) &&
           PJRT_HAS(api, loaded_executable_execute) && PJRT_HAS(api, buffer_ready_event) &&
           PJRT_HAS(api, buffer_to_host_buffer) && PJRT_HAS(api, buffer_destroy);
}

/* Fills library and api. The library stays loaded after an error too: plugins start threads when they are loaded. */
static tpj_status *load_plugin(tpj_plugin *plugin, bool for_compile_only) {
    pthread_once(&fork_once, watch_fork);
    if (strcmp(plugin->path, TPJ_PLAN_PATH) == 0) {
        plugin->api = tpj_plan_api();
        return NULL;
    }
    if (access(plugin->path, R_OK) != 0)
        TPJ_ERROR(TPJ_UNAVAILABLE,
                  "cannot read the PJRT plugin %s: %s; check TORCH_PJRT_PLUGIN, or reinstall the package "
                  "that the file belongs to",
                  plugin->path, strerror(errno));
    set_environment(for_compile_only);
    plugin->library = dlopen(plugin->path, RTLD_NOW | RTLD_LOCAL);
    if (plugin->library == NULL) {
        const char *reason = dlerror();
        TPJ_ERROR(TPJ_UNAVAILABLE, "cannot load the PJRT plugin %s: %s; check that the file was built for this machine",
                  plugin->path, reason == NULL ? "unknown reason" : reason);
    }
    const pjrt_api *(*get_api)(void);
    *(void **)&get_api = dlsym(plugin->library, "GetPjrtApi");
    if (get_api == NULL) TPJ_ERROR(TPJ_UNAVAILABLE, "%s is not a PJRT plugin: it exports no GetPjrtApi", plugin->path);
    const pjrt_api *api = get_api();
    if (api == NULL) TPJ_ERROR(TPJ_UNAVAILABLE, "%s: GetPjrtApi returned nothing", plugin->path);
    if (api->struct_size < offsetof(pjrt_api, error_destroy) || api->version.major_version != 0 ||
        !has_what_is_needed(api))
        TPJ_ERROR(TPJ_UNAVAILABLE,
                  "%s implements PJRT API %d.%d, and 0.81 or a later 0.x is needed; install another "
                  "version of the plugin",
                  plugin->path, api->version.major_version, api->version.minor_version);
    if (PJRT_HAS(api, plugin_initialize)) {
        PJRT_ARGS(pjrt_plugin_initialize_args, args, .extension_start = NULL);
        TPJ_TRY(tpj_status_annotate(PJRT_CALL(api, plugin_initialize, &args), "%s", plugin->path));
    }
    plugin->api = api;
    return NULL;
}

static tpj_plugin *create_plugin(const char *path) {
    tpj_plugin *plugin = calloc(1, sizeof *plugin);
    char *copy = malloc(strlen(path) + 1);
    if (plugin == NULL || copy == NULL) {
        free(plugin);
        free(copy);
        return NULL;
    }
    plugin->path = strcpy(copy, path);
    return plugin;
}

static void remove_plugin(tpj_plugin *plugin) {
    for (tpj_plugin **link = &plugins; *link != NULL; link = &(*link)->next)
        if (*link == plugin) {
            *link = plugin->next;
            break;
        }
    free(plugin->path);
    free(plugin);
}

/* Under the lock: the plugin of that path once it is ready, or a new one in the list that the caller has to load. */
static tpj_plugin *find_or_add(const char *path, bool *out_is_new) {
    *out_is_new = false;
    for (tpj_plugin *plugin = plugins; plugin != NULL;) {
        if (strcmp(plugin->path, path) != 0) {
            plugin = plugin->next;
        } else if (plugin->state == TPJ_PLUGIN_READY) {
            return plugin;
        } else {
            tpj_lock_wait(&plugins_lock, &plugins_changed);
            plugin = plugins; /* the one that was being loaded may be gone */
        }
    }
    tpj_plugin *plugin = create_plugin(path);
    if (plugin == NULL) return NULL;
    *out_is_new = true;
    plugin->next = plugins;
    return plugins = plugin;
}

tpj_status *tpj_plugin_open(const char *path, bool for_compile_only, tpj_plugin **out_plugin) {
    bool is_new;
    tpj_lock_acquire(&plugins_lock);
    tpj_plugin *plugin = find_or_add(path, &is_new);
    tpj_lock_release(&plugins_lock);
    if (plugin == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "%s: out of host memory", path);
    if (is_new) {
        tpj_status *status = load_plugin(plugin, for_compile_only);
        tpj_lock_acquire(&plugins_lock);
        if (status == NULL)
            plugin->state = TPJ_PLUGIN_READY;
        else
            remove_plugin(plugin);
        pthread_cond_broadcast(&plugins_changed);
        tpj_lock_release(&plugins_lock);
        TPJ_TRY(status);
        tpj_log(TPJ_LOG_INFO, "loaded %s, PJRT API %d.%d", path, plugin->api->version.major_version,
                plugin->api->version.minor_version);
    }
    *out_plugin = plugin;
    return NULL;
}

const char *tpj_plugin_path(const tpj_plugin *plugin) { return plugin->path; }

void tpj_plugin_api_version(const tpj_plugin *plugin, int *out_major, int *out_minor) {
    *out_major = plugin->api->version.major_version;
    *out_minor = plugin->api->version.minor_version;
}
