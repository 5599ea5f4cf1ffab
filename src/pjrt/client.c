/* The client: devices of one plugin. */
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/config.h"
#include "base/log.h"
#include "pjrt/plan_internal.h"

/* ---- memory of CPU plugins ---- */
/* CPU plugins take device memory from malloc. glibc returns large blocks to the system when they are freed, and the next
 * operator then faults every page in again: 50 ms for 64 MB. One arena, because the others return theirs whatever is set;
 * before the client exists, because a thread keeps the arena that it begins with. libtpu is told by its name: platforms
 * have names only once there is a client, and elsewhere a wrong guess does no harm. */
static void tune_malloc(const tpj_plugin *plugin) {
#ifdef __GLIBC__
    enum { TOP_PAD = 64 << 20 };
    const char *slash = strrchr(plugin->path, '/');
    const char *file = slash == NULL ? plugin->path : slash + 1;
    if (!tpj_config_cpu_malloc_tuning() || strncmp(file, "libtpu", 6) == 0 || plugin->library == NULL) return;
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_TOP_PAD, TOP_PAD);
    mallopt(M_ARENA_MAX, 1);
#else
    (void)plugin;
#endif
}

/* ---- create ---- */
static tpj_status *create_handle(tpj_client *client, int n_devices) {
    static const char option_name[] = "cpu_device_count";
    PJRT_ARGS(pjrt_named_value, option, .name = option_name, .name_size = sizeof option_name - 1,
              .type = PJRT_NAMED_VALUE_INT64, .value_size = 1);
    option.int64_value = n_devices;
    PJRT_ARGS(pjrt_client_create_args, args, .create_options = &option, .num_options = n_devices > 0);
    TPJ_TRY(PJRT_CALL(client->api, client_create, &args));
    client->handle = args.client;
    return NULL;
}

static tpj_status *read_platform(tpj_client *client) {
    PJRT_ARGS(pjrt_client_platform_name_args, name, .client = client->handle);
    TPJ_TRY(PJRT_CALL(client->api, client_platform_name, &name));
    TPJ_TRY(tpj_pjrt_copy_text(name.platform_name, name.platform_name_size, &client->platform));
    PJRT_ARGS(pjrt_client_platform_version_args, version, .client = client->handle);
    TPJ_TRY(PJRT_CALL(client->api, client_platform_version, &version));
    TPJ_TRY(tpj_pjrt_copy_text(version.platform_version, version.platform_version_size, &client->platform_version));
    client->is_cpu = strcmp(client->platform, "cpu") == 0;
    return NULL;
}

/* Plugins differ in the options that they know. A CPU plugin knows the number of devices; one that refuses it may have
 * devices of its own, and is asked again without. */
static tpj_status *connect_to_plugin(tpj_client *client, int n_devices) {
    tpj_status *refusal = create_handle(client, n_devices), *status = NULL;
    if (refusal != NULL && (n_devices == 0 || tpj_status_code(refusal) != TPJ_RUNTIME)) return refusal;
    if (refusal != NULL) TPJ_TRY_GOTO(create_handle(client, 0));
    TPJ_TRY_GOTO(read_platform(client));
    if (client->is_cpu) {
        status = refusal; /* so the number was what it refused */
        refusal = NULL;
    }
done:
    tpj_status_destroy(refusal);
    return status;
}

static tpj_status *describe_device(const pjrt_api *api, pjrt_device *device, int *out_id,
                                   pjrt_device_description **out_description) {
    PJRT_ARGS(pjrt_device_get_description_args, get, .device = device);
    TPJ_TRY(PJRT_CALL(api, device_get_description, &get));
    PJRT_ARGS(pjrt_device_description_id_args, id, .device_description = get.device_description);
    TPJ_TRY(PJRT_CALL(api, device_description_id, &id));
    *out_id = id.id;
    *out_description = get.device_description;
    return NULL;
}

static tpj_status *read_addressable_devices(tpj_client *client) {
    const pjrt_api *api = client->api;
    PJRT_ARGS(pjrt_client_addressable_devices_args, args, .client = client->handle);
    TPJ_TRY(PJRT_CALL(api, client_addressable_devices, &args));
    int n = (int)args.num_addressable_devices;
    if (n == 0) TPJ_ERROR(TPJ_UNAVAILABLE, "the plugin has no device in this process");
    client->devices = calloc((size_t)n, sizeof *client->devices);
    if (client->devices == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    client->n_devices = n;
    for (int i = 0; i < n; i++) {
        tpj_device *device = &client->devices[i];
        pjrt_device_description *description;
        device->handle = args.addressable_devices[i];
        TPJ_TRY(describe_device(api, device->handle, &device->id, &description));
        PJRT_ARGS(pjrt_device_description_kind_args, kind, .device_description = description);
        TPJ_TRY(PJRT_CALL(api, device_description_kind, &kind));
        TPJ_TRY(tpj_pjrt_copy_text(kind.device_kind, kind.device_kind_size, &device->kind));
    }
    return NULL;
}

static tpj_status *read_global_ids(tpj_client *client) {
    PJRT_ARGS(pjrt_client_devices_args, args, .client = client->handle);
    TPJ_TRY(PJRT_CALL(client->api, client_devices, &args));
    client->global_ids = calloc(args.num_devices + 1, sizeof *client->global_ids);
    if (client->global_ids == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    client->n_global_ids = (int)args.num_devices;
    for (int i = 0; i < client->n_global_ids; i++) {
        pjrt_device_description *description;
        TPJ_TRY(describe_device(client->api, args.devices[i], &client->global_ids[i], &description));
    }
    tpj_ids_sort(client->global_ids, client->n_global_ids);
    return NULL;
}

tpj_status *tpj_client_create(tpj_plugin *plugin, int n_devices, tpj_client **out_client) {
    tpj_status *status = NULL;
    tpj_client *client = calloc(1, sizeof *client);
    if (client == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    client->plugin = plugin;
    client->api = plugin->api;
    TPJ_TRY_GOTO(tpj_pjrt_check_fork());
    tune_malloc(plugin);
    TPJ_TRY_GOTO(connect_to_plugin(client, n_devices));
    TPJ_TRY_GOTO(read_addressable_devices(client));
    TPJ_TRY_GOTO(read_global_ids(client));
    client->reports = tpj_report_register(client);
    client->plans = client->api == tpj_plan_api() && tpj_plan_inner() == NULL;
    client->keeps = PJRT_HAS(client->api, executable_serialize);
    tpj_log(TPJ_LOG_INFO, "%s: %d device(s) \"%s\" on platform %s", plugin->path, client->n_devices,
            client->devices[0].kind, client->platform);
    *out_client = client;
    client = NULL;
done:
    tpj_client_destroy(client);
    return tpj_status_annotate(status, "%s", plugin->path);
}

void tpj_client_destroy(tpj_client *client) {
    if (client == NULL) return;
    for (int i = 0; i < client->n_devices; i++) tpj_report_destroy_all(client->devices[i].reports);
    if (client->handle != NULL && !tpj_plugin_is_forked()) {
        PJRT_ARGS(pjrt_client_destroy_args, args, .client = client->handle);
        tpj_pjrt_ignore(PJRT_CALL(client->api, client_destroy, &args));
    }
    for (int i = 0; i < client->n_devices; i++) free(client->devices[i].kind);
    free(client->devices);
    free(client->global_ids);
    free(client->platform);
    free(client->platform_version);
    free(atomic_load(&client->identity));
    free(client);
}

/* ---- what it is ---- */
const char *tpj_client_platform(const tpj_client *client) { return client->platform; }
const char *tpj_client_platform_version(const tpj_client *client) { return client->platform_version; }
bool tpj_client_is_cpu(const tpj_client *client) { return client->is_cpu; }
bool tpj_client_plans(const tpj_client *client) { return client->plans; }
bool tpj_client_keeps_programs(const tpj_client *client) { return client->keeps; }
bool tpj_client_has_reports(const tpj_client *client) { return client->reports; }
int tpj_client_n_devices(const tpj_client *client) { return client->n_devices; }
tpj_plugin *tpj_client_plugin(const tpj_client *client) { return client->plugin; }
const char *tpj_client_device_kind(const tpj_client *client, int device) { return client->devices[device].kind; }
int tpj_client_device_id(const tpj_client *client, int device) { return client->devices[device].id; }

tpj_status *tpj_client_memory_stats(const tpj_client *client, int device, tpj_memory_stats *out_stats) {
    *out_stats = (tpj_memory_stats){.bytes_in_use = -1, .peak_bytes_in_use = -1, .bytes_limit = -1};
    TPJ_TRY(tpj_pjrt_check_fork());
    if (!PJRT_HAS(client->api, device_memory_stats)) return NULL;
    PJRT_ARGS(pjrt_device_memory_stats_args, args, .device = client->devices[device].handle);
    tpj_status *status = PJRT_CALL(client->api, device_memory_stats, &args);
    if (tpj_status_code(status) == TPJ_NOT_IMPLEMENTED) { /* CPU plugins */
        tpj_status_destroy(status);
        return NULL;
    }
    TPJ_TRY(status);
    out_stats->known = true;
    out_stats->bytes_in_use = args.bytes_in_use;
    if (args.peak_bytes_in_use_is_set) out_stats->peak_bytes_in_use = args.peak_bytes_in_use;
    if (args.bytes_limit_is_set) out_stats->bytes_limit = args.bytes_limit;
    return NULL;
}
