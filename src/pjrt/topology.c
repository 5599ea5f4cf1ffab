/* Topologies: slices of TPUs that are described, and need not be there. */
#include <stdlib.h>
#include <string.h>

#include "pjrt/internal.h"

/* What all devices of a topology have in common. */
static tpj_status *read_device(tpj_topology *topology, pjrt_device_description *description) {
    static const char limit[] = "device_memory_bytes_limit";
    PJRT_ARGS(pjrt_device_description_kind_args, kind, .device_description = description);
    TPJ_TRY(PJRT_CALL(topology->api, device_description_kind, &kind));
    TPJ_TRY(tpj_pjrt_copy_text(kind.device_kind, kind.device_kind_size, &topology->device_kind));
    PJRT_ARGS(pjrt_device_description_attributes_args, args, .device_description = description);
    if (!PJRT_HAS(topology->api, device_description_attributes)) return NULL;
    TPJ_TRY(PJRT_CALL(topology->api, device_description_attributes, &args));
    for (size_t i = 0; i < args.num_attributes; i++) {
        const pjrt_named_value *attribute = &args.attributes[i];
        if (attribute->name_size == strlen(limit) && memcmp(attribute->name, limit, strlen(limit)) == 0 &&
            attribute->type == PJRT_NAMED_VALUE_INT64)
            topology->memory_bytes = attribute->int64_value;
    }
    return NULL;
}

static tpj_status *read_devices(tpj_topology *topology) {
    PJRT_ARGS(pjrt_topology_description_get_device_descriptions_args, args, .topology = topology->handle);
    TPJ_TRY(PJRT_CALL(topology->api, topology_description_get_device_descriptions, &args));
    topology->ids = calloc(args.num_descriptions + 1, sizeof *topology->ids);
    if (topology->ids == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    topology->n_ids = (int)args.num_descriptions;
    for (int i = 0; i < topology->n_ids; i++) {
        PJRT_ARGS(pjrt_device_description_id_args, id, .device_description = args.descriptions[i]);
        TPJ_TRY(PJRT_CALL(topology->api, device_description_id, &id));
        topology->ids[i] = id.id;
    }
    tpj_ids_sort(topology->ids, topology->n_ids);
    return args.num_descriptions > 0 ? read_device(topology, args.descriptions[0]) : NULL;
}

static tpj_status *read_version(tpj_topology *topology) {
    PJRT_ARGS(pjrt_topology_description_platform_version_args, args, .topology = topology->handle);
    if (PJRT_HAS(topology->api, topology_description_platform_version))
        TPJ_TRY(PJRT_CALL(topology->api, topology_description_platform_version, &args));
    return tpj_pjrt_copy_text(args.platform_version, args.platform_version_size, &topology->version);
}

/* Programs see a v4 chip as one device, and libtpu describes one as two unless it is asked for this. */
static const pjrt_named_value one_device_a_chip = {.struct_size = sizeof(pjrt_named_value),
                                                   .name = "chip_config_name",
                                                   .name_size = 16,
                                                   .type = PJRT_NAMED_VALUE_STRING,
                                                   .string_value = "megacore",
                                                   .value_size = 8};

tpj_status *tpj_topology_create(tpj_plugin *plugin, const char *name, tpj_topology **out_topology) {
    tpj_status *status = NULL;
    tpj_topology *topology = calloc(1, sizeof *topology);
    if (topology == NULL) TPJ_ERROR(TPJ_OUT_OF_MEMORY, "out of host memory");
    topology->api = plugin->api;
    topology->memory_bytes = -1;
    PJRT_ARGS(pjrt_topology_description_create_args, args, .topology_name = name, .topology_name_size = strlen(name),
              .create_options = &one_device_a_chip, .num_options = strncmp(name, "v4:", 3) == 0);
    TPJ_TRY_GOTO(tpj_pjrt_check_fork());
    TPJ_TRY_GOTO(PJRT_CALL(plugin->api, topology_description_create, &args));
    topology->handle = args.topology;
    TPJ_TRY_GOTO(read_devices(topology));
    TPJ_TRY_GOTO(read_version(topology));
    *out_topology = topology;
    topology = NULL;
done:
    tpj_topology_destroy(topology);
    return tpj_status_annotate(status, "topology \"%s\"", name);
}

void tpj_topology_destroy(tpj_topology *topology) {
    if (topology == NULL) return;
    if (topology->handle != NULL) {
        PJRT_ARGS(pjrt_topology_description_destroy_args, args, .topology = topology->handle);
        tpj_pjrt_ignore(PJRT_CALL(topology->api, topology_description_destroy, &args));
    }
    free(topology->ids);
    free(topology->version);
    free(topology->device_kind);
    free(topology);
}

int tpj_topology_n_devices(const tpj_topology *topology) { return topology->n_ids; }
int tpj_topology_device_id(const tpj_topology *topology, int n) { return topology->ids[n]; }
const char *tpj_topology_version(const tpj_topology *topology) { return topology->version; }
const char *tpj_topology_device_kind(const tpj_topology *topology) {
    return topology->device_kind == NULL ? "" : topology->device_kind;
}
int64_t tpj_topology_memory_bytes(const tpj_topology *topology) { return topology->memory_bytes; }
