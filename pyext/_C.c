/* torch_pjrt._C: the core and the glue for Python, and nothing of their own. Limited API, one binary for every Python.
 *
 * The GIL is held, except around what may wait: creating the client. */
#define _POSIX_C_SOURCE 200809L /* strdup, strndup */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/interrupt.h"
#include "cache/disk_prune.h"
#include "eager/eager.h"
#include "exec/compile.h"
#include "exec/pool.h"
#include "glue/api.h"
#include "tpj/graph.h"
#include "tpj/lower.h"
#include "tpj/package.h"
#include "tpj/pjrt.h"

/* ---- errors ---- */
/* New reference. RuntimeError where torch is not to be had, which does not happen: it loaded this module. */
static PyObject *error_of(const char *module_name, const char *name) {
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *error = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    if (error != NULL) return error;
    PyErr_Clear();
    return Py_NewRef(PyExc_RuntimeError);
}

/* Sets the exception that the status maps to, takes the status, returns NULL. */
static PyObject *raise_status(tpj_status *status) {
    PyObject *error = NULL;
    switch (tpj_status_code(status)) {
        case TPJ_TYPE: error = Py_NewRef(PyExc_TypeError); break;
        case TPJ_VALUE: error = Py_NewRef(PyExc_ValueError); break;
        case TPJ_INDEX: error = Py_NewRef(PyExc_IndexError); break;
        case TPJ_NOT_IMPLEMENTED: error = Py_NewRef(PyExc_NotImplementedError); break;
        case TPJ_OUT_OF_MEMORY: error = error_of("torch", "OutOfMemoryError"); break;
        case TPJ_LINALG: error = error_of("torch.linalg", "LinAlgError"); break;
        case TPJ_OK:
        case TPJ_RUNTIME:
        case TPJ_UNAVAILABLE:
        case TPJ_DEVICE:
        case TPJ_INTERNAL: error = Py_NewRef(PyExc_RuntimeError); break;
        case TPJ_INTERRUPTED: tpj_status_destroy(status); return NULL; /* the exception is set */
    }
    PyErr_SetString(error, tpj_status_message(status));
    Py_DECREF(error);
    tpj_status_destroy(status);
    return NULL;
}

/* Asked by blocking waits, which hold neither the GIL nor a lock: whether a signal handler has raised. The exception stays set
 * on this thread. Handlers run on the main thread alone; on others the answer is no. */
static bool is_interrupted(void) {
    if (!Py_IsInitialized()) return false;
    PyGILState_STATE state = PyGILState_Ensure();
    bool raised = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return raised;
}

static PyObject *stop_compiling(PyObject *self, PyObject *args) {
    int milliseconds;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &milliseconds)) return NULL;
    Py_BEGIN_ALLOW_THREADS tpj_pool_stop(milliseconds);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *none_or_raise(tpj_status *status) {
    if (status != NULL) return raise_status(status);
    Py_RETURN_NONE;
}

/* Puts `value` (taken, may be NULL with an exception set) under `key`. */
static int set_item(PyObject *dict, const char *key, PyObject *value) {
    if (value == NULL) return -1;
    int result = PyDict_SetItemString(dict, key, value);
    Py_DECREF(value);
    return result;
}

/* ---- the runtime ---- */
static PyObject *configure(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *reason;
    int n_devices;
    if (!PyArg_ParseTuple(args, "ssi", &path, &reason, &n_devices)) return NULL;
    tpj_glue_configure(path, reason, n_devices);
    Py_RETURN_NONE;
}

static PyObject *start(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    tpj_status *status;
    Py_BEGIN_ALLOW_THREADS status = tpj_runtime_start();
    Py_END_ALLOW_THREADS return none_or_raise(status);
}

static PyObject *started(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    return PyBool_FromLong(tpj_runtime_started());
}

static PyObject *in_bad_fork(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    return PyBool_FromLong(tpj_runtime_in_bad_fork());
}

static PyObject *device_count(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    int n = 0;
    tpj_status *status;
    Py_BEGIN_ALLOW_THREADS status = tpj_runtime_n_devices(&n);
    Py_END_ALLOW_THREADS return status != NULL ? raise_status(status) : PyLong_FromLong(n);
}

/* Borrowed; NULL with an exception before the client exists. */
static tpj_client *client_or_raise(void) {
    tpj_client *client = tpj_runtime_started() ? tpj_runtime_client() : NULL;
    if (client == NULL) PyErr_SetString(PyExc_RuntimeError, "the tpu device has not been used yet");
    return client;
}

static PyObject *client_info(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    tpj_client *client = client_or_raise();
    PyObject *info = client == NULL ? NULL : PyDict_New();
    if (info == NULL) return NULL;
    int major = 0, minor = 0;
    tpj_plugin_api_version(tpj_client_plugin(client), &major, &minor);
    if (set_item(info, "platform", PyUnicode_FromString(tpj_client_platform(client))) < 0 ||
        set_item(info, "platform_version", PyUnicode_FromString(tpj_client_platform_version(client))) < 0 ||
        set_item(info, "is_cpu", PyBool_FromLong(tpj_client_is_cpu(client))) < 0 ||
        set_item(info, "plugin", PyUnicode_DecodeFSDefault(tpj_plugin_path(tpj_client_plugin(client)))) < 0 ||
        set_item(info, "api_version", PyUnicode_FromFormat("%d.%d", major, minor)) < 0) {
        Py_DECREF(info);
        return NULL;
    }
    return info;
}

static PyObject *device_info(PyObject *self, PyObject *args) {
    (void)self;
    int device;
    if (!PyArg_ParseTuple(args, "i", &device)) return NULL;
    tpj_client *client = client_or_raise();
    if (client == NULL) return NULL;
    if (device < 0 || device >= tpj_client_n_devices(client))
        return PyErr_Format(PyExc_RuntimeError, "there is no device tpu:%d", device);
    PyObject *info = PyDict_New();
    if (info == NULL) return NULL;
    if (set_item(info, "kind", PyUnicode_FromString(tpj_client_device_kind(client, device))) < 0 ||
        set_item(info, "id", PyLong_FromLong(tpj_client_device_id(client, device))) < 0) {
        Py_DECREF(info);
        return NULL;
    }
    return info;
}

/* ---- programs ---- */
static PyObject *compile_stats(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    tpj_compile_stats stats;
    tpj_status *status;
    Py_BEGIN_ALLOW_THREADS status = tpj_compile_stats_get(&stats);
    Py_END_ALLOW_THREADS if (status != NULL) return raise_status(status);
    PyObject *dict = PyDict_New();
    if (dict == NULL) return NULL;
    if (set_item(dict, "programs", PyLong_FromLongLong(stats.programs)) < 0 ||
        set_item(dict, "loaded", PyLong_FromLongLong(stats.loaded)) < 0 ||
        set_item(dict, "hits", PyLong_FromLongLong(stats.hits)) < 0 ||
        set_item(dict, "launches", PyLong_FromLongLong(stats.launches)) < 0 ||
        set_item(dict, "seconds", PyFloat_FromDouble(stats.seconds)) < 0) {
        Py_DECREF(dict);
        return NULL;
    }
    return dict;
}

static PyObject *memory_holders(PyObject *self, PyObject *args) {
    int device, most;
    (void)self;
    if (!PyArg_ParseTuple(args, "ii", &device, &most)) return NULL;
    char *lines;
    Py_BEGIN_ALLOW_THREADS lines = tpj_memory_describe(device, most);
    Py_END_ALLOW_THREADS PyObject *text = lines != NULL ? PyUnicode_FromString(lines) : PyErr_NoMemory();
    free(lines);
    return text;
}

static PyObject *reset_compile_stats(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    tpj_compile_stats_reset();
    Py_RETURN_NONE;
}

static PyObject *flush(PyObject *self, PyObject *args) {
    (void)self;
    int device = -1;
    if (!PyArg_ParseTuple(args, "|i", &device)) return NULL;
    tpj_status *status;
    Py_BEGIN_ALLOW_THREADS status = tpj_eager_flush(device);
    Py_END_ALLOW_THREADS return none_or_raise(status);
}

static PyObject *fusion_report(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    char *report = tpj_eager_fusion_report();
    if (report == NULL) return PyErr_NoMemory();
    PyObject *text = PyUnicode_DecodeFSDefault(report);
    free(report);
    return text;
}

static PyObject *fallbacks(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    PyObject *dict = PyDict_New();
    const char *name;
    for (int i = 0; dict != NULL && (name = tpj_glue_fallbacks_name(i)) != NULL; i++)
        if (set_item(dict, name, PyLong_FromLongLong(tpj_glue_fallbacks_calls(i))) < 0) Py_CLEAR(dict);
    return dict;
}

static PyObject *reset_fallbacks(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    tpj_glue_fallbacks_reset();
    Py_RETURN_NONE;
}

/* The parameters of an op's row ("T self, T other, S alpha=1"), None for an op without a row. */
static PyObject *row(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "s#", &name, &length)) return NULL;
    const tpj_op_def *op = tpj_op_find(name, (size_t)length);
    if (op == NULL) Py_RETURN_NONE;
    return PyUnicode_FromString(tpj_op_params(op));
}

/* Whether an op with a row draws random numbers. */
static PyObject *is_random(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "s#", &name, &length)) return NULL;
    const tpj_op_def *op = tpj_op_find(name, (size_t)length);
    return PyBool_FromLong(op != NULL && tpj_op_is_random(op));
}

/* Whether the sizes of an op's results depend on data: a call counts first, which a graph cannot. */
static PyObject *is_sized(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "s#", &name, &length)) return NULL;
    const tpj_op_def *op = tpj_op_find(name, (size_t)length);
    return PyBool_FromLong(op != NULL && tpj_op_is_sized(op));
}

/* ---- captured graphs ---- */
/* One option for the compiler from a Python value; its texts live as long as `value` and `name` do. False: exception set. */
static bool read_option(PyObject *name, PyObject *value, tpj_option *out) {
    out->name = PyUnicode_AsUTF8AndSize(name, NULL);
    if (PyBool_Check(value)) {
        out->kind = TPJ_OPTION_BOOL;
        out->int_value = PyObject_IsTrue(value);
    } else if (PyLong_Check(value)) {
        out->kind = TPJ_OPTION_INT;
        out->int_value = PyLong_AsLongLong(value);
    } else if (PyFloat_Check(value)) {
        out->kind = TPJ_OPTION_DOUBLE;
        out->double_value = PyFloat_AsDouble(value);
    } else {
        out->kind = TPJ_OPTION_STRING;
        out->string_value = PyUnicode_AsUTF8AndSize(value, NULL);
    }
    return PyErr_Occurred() == NULL;
}

static int64_t *read_integers(PyObject *list, Py_ssize_t n) {
    int64_t *numbers = malloc(sizeof *numbers * (size_t)(n + 1));
    if (numbers == NULL) PyErr_NoMemory();
    for (Py_ssize_t i = 0; numbers != NULL && i < n; i++) numbers[i] = PyLong_AsLongLong(PyList_GetItem(list, i));
    return numbers;
}

static PyObject *graph_create(PyObject *self, PyObject *args) {
    (void)self;
    tpj_glue_graph_description d = {0};
    tpj_compile_options compiler = {0};
    PyObject *results, *options;
    int random, watched;
    if (!PyArg_ParseTuple(args, "ssiipiO!zziO!p", &d.name, &d.body, &d.n_tensors, &d.n_numbers, &random, &d.device,
                          &PyList_Type, &results, &d.precision, &d.dump_dir, &compiler.optimization_level, &PyDict_Type,
                          &options, &watched))
        return NULL;
    Py_ssize_t n_options = PyDict_Size(options), at = 0;
    d.n_results = (size_t)PyList_Size(results);
    int64_t *numbers = read_integers(results, PyList_Size(results));
    tpj_option *overrides = calloc((size_t)n_options + 1, sizeof *overrides);
    if (overrides == NULL && numbers != NULL) PyErr_NoMemory();
    PyObject *name, *value;
    for (int i = 0; overrides != NULL && PyErr_Occurred() == NULL && PyDict_Next(options, &at, &name, &value); i++)
        if (read_option(name, value, &overrides[i])) compiler.n_options = i + 1;
    compiler.options = overrides;
    d.results = numbers;
    d.random = random != 0;
    d.watched = watched != 0;
    d.compiler = &compiler;
    tpj_glue_graph *graph = NULL;
    tpj_status *status = PyErr_Occurred() == NULL ? tpj_glue_graph_create(&d, &graph) : NULL;
    free(numbers);
    free(overrides);
    if (status != NULL) return raise_status(status);
    return graph == NULL ? NULL : PyLong_FromVoidPtr(graph);
}

static PyObject *register_kernel(PyObject *self, PyObject *args) {
    (void)self;
    const char *name, *overload;
    if (!PyArg_ParseTuple(args, "ss", &name, &overload)) return NULL;
    return none_or_raise(tpj_glue_register_kernel(name, overload));
}

static PyObject *graph_destroy(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *number;
    if (!PyArg_ParseTuple(args, "O!", &PyLong_Type, &number)) return NULL;
    tpj_glue_graph_destroy(PyLong_AsVoidPtr(number));
    Py_RETURN_NONE;
}

/* ---- kept programs ---- */
static PyObject *cache_folder(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    char path[4096];
    if (!tpj_compile_folder(path, sizeof path)) Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(path);
}

static PyObject *cache_prune(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *folder;
    long long n_bytes;
    if (!PyArg_ParseTuple(args, "O&L", PyUnicode_FSConverter, &folder, &n_bytes)) return NULL;
    const char *path = PyBytes_AsString(folder);
    PyObject *left = path == NULL ? NULL : PyLong_FromLongLong(tpj_disk_prune(path, n_bytes));
    Py_DECREF(folder);
    return left;
}

/* ---- export ---- */
/* The inputs that the module's parameters are. */
static PyObject *parameters_of(const tpj_lowered *lowered) {
    PyObject *list = PyList_New(0);
    for (int i = 0; i < lowered->n_parameters && list != NULL; i++) {
        if (lowered->parameters[i].kind != TPJ_INPUT_BUFFER) {
            PyErr_SetString(PyExc_NotImplementedError, "the graph takes numbers or random state at each run");
            Py_CLEAR(list);
            break;
        }
        PyObject *number = PyLong_FromLong(lowered->parameters[i].input);
        if (number == NULL || PyList_Append(list, number) != 0) Py_CLEAR(list);
        Py_XDECREF(number);
    }
    return list;
}

static PyObject *checks_of(const tpj_lowered *lowered) {
    PyObject *list = PyList_New(0);
    for (int i = 0; i < lowered->n_checks && list != NULL; i++) {
        const tpj_index_check *check = &lowered->checks[i];
        PyObject *entry =
            Py_BuildValue("(sLLis)", check->op != NULL ? check->op : "", (long long)check->low, (long long)check->size,
                          (int)check->code, check->message != NULL ? check->message : "");
        if (entry == NULL || PyList_Append(list, entry) != 0) Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

static PyObject *lower_text(PyObject *self, PyObject *args) {
    (void)self;
    const char *text, *precision;
    Py_ssize_t length;
    tpj_graph *graph = NULL;
    tpj_lowered *lowered = NULL;
    if (!PyArg_ParseTuple(args, "s#z", &text, &length, &precision)) return NULL;
    tpj_lower_options options = {.check_index = TPJ_CHECK_RESULT, .precision = precision};
    tpj_status *status = tpj_graph_parse(text, (size_t)length, &graph);
    if (status == NULL) status = tpj_lower_graph(graph, &options, &lowered);
    tpj_graph_destroy(graph);
    if (status != NULL) return raise_status(status);
    PyObject *parameters = parameters_of(lowered), *checks = parameters != NULL ? checks_of(lowered) : NULL;
    PyObject *result = checks == NULL ? NULL
                                      : Py_BuildValue("(s#OO)", lowered->module, (Py_ssize_t)lowered->module_length,
                                                      parameters, checks);
    Py_XDECREF(parameters);
    Py_XDECREF(checks);
    tpj_lowered_destroy(lowered);
    return result;
}

static PyObject *compile_module(PyObject *self, PyObject *args) {
    (void)self;
    const char *module;
    Py_ssize_t length;
    void *data = NULL;
    size_t n = 0;
    char *identity = NULL;
    if (!PyArg_ParseTuple(args, "s#", &module, &length)) return NULL;
    tpj_client *client = client_or_raise();
    if (client == NULL) return NULL;
    tpj_status *status;
    Py_BEGIN_ALLOW_THREADS status = tpj_package_compile(client, module, (size_t)length, &data, &n, &identity);
    Py_END_ALLOW_THREADS if (status != NULL) return raise_status(status);
    PyObject *result = Py_BuildValue("(sy#)", identity, (const char *)data, (Py_ssize_t)n);
    free(data);
    free(identity);
    return result;
}

/* ---- settings ---- */
static PyObject *load_settings(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    return none_or_raise(tpj_config_load());
}

/* The current value: str, int or bool. */
static PyObject *setting_value(const tpj_setting *setting) {
    switch (setting->kind) {
        case TPJ_SETTING_STRING:
        case TPJ_SETTING_CHOICE: return PyUnicode_DecodeFSDefault(tpj_config_string(setting));
        case TPJ_SETTING_INT: return PyLong_FromLongLong(tpj_config_integer(setting));
        case TPJ_SETTING_BOOL: return PyBool_FromLong(tpj_config_integer(setting) != 0);
    }
    return PyErr_Format(PyExc_SystemError, "setting %s is of no known kind", setting->name);
}

static const tpj_setting *find_setting(const char *name) {
    const tpj_setting *setting = tpj_config_find(name);
    if (setting == NULL) PyErr_Format(PyExc_AttributeError, "there is no setting '%s'", name);
    return setting;
}

static PyObject *get_setting(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    const tpj_setting *setting = find_setting(name);
    return setting == NULL ? NULL : setting_value(setting);
}

static PyObject *set_setting(PyObject *self, PyObject *args) {
    (void)self;
    const char *name, *value;
    if (!PyArg_ParseTuple(args, "ss", &name, &value)) return NULL;
    const tpj_setting *setting = find_setting(name);
    return setting == NULL ? NULL : none_or_raise(tpj_config_set(setting, value));
}

/* [(name, environment variable, default, choices or None, documentation)] */
static PyObject *settings(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < tpj_config_n_settings(); i++) {
        const tpj_setting *setting = tpj_config_setting(i);
        PyObject *row_ =
            Py_BuildValue("(ssszs)", setting->name, setting->env, setting->initial, setting->choices, setting->doc);
        if (row_ == NULL || PyList_Append(list, row_) < 0) Py_CLEAR(list);
        Py_XDECREF(row_);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"configure", configure, METH_VARARGS, "configure(plugin_path, reason_when_none, n_devices)"},
    {"start", start, METH_NOARGS, "Create the client if there is none."},
    {"started", started, METH_NOARGS, "Whether the client exists."},
    {"in_bad_fork", in_bad_fork, METH_NOARGS, "Whether the client was created in a parent of this process."},
    {"device_count", device_count, METH_NOARGS, "The number of devices."},
    {"client_info", client_info, METH_NOARGS, "Platform, versions and plugin."},
    {"device_info", device_info, METH_VARARGS, "device_info(device)"},
    {"compile_stats", compile_stats, METH_NOARGS, "Programs made and launched."},
    {"memory_holders", memory_holders, METH_VARARGS,
     "Which programs made what a device's storages hold: lines of text."},
    {"stop_compiling", stop_compiling, METH_VARARGS,
     "Before the process ends: waits for running compilations, so many milliseconds at most; the others never begin."},
    {"reset_compile_stats", reset_compile_stats, METH_NOARGS, NULL},
    {"flush", flush, METH_VARARGS, "flush(device=-1): launch what fused mode has gathered"},
    {"fusion_report", fusion_report, METH_NOARGS, "The windows of fused mode, as JSON."},
    {"cache_folder", cache_folder, METH_NOARGS, "Where compiled programs are kept; None: nowhere."},
    {"cache_prune", cache_prune, METH_VARARGS, "cache_prune(folder, n_bytes): the bytes that stay"},
    {"fallbacks", fallbacks, METH_NOARGS, "Ops that ran on the CPU, and how often."},
    {"reset_fallbacks", reset_fallbacks, METH_NOARGS, NULL},
    {"row", row, METH_VARARGS, "row(op): the parameters of an op's row, None when it has none"},
    {"is_random", is_random, METH_VARARGS, "is_random(op): whether an op with a row draws random numbers"},
    {"is_sized", is_sized, METH_VARARGS, "is_sized(op): whether the sizes of an op's results depend on data"},
    {"graph_create", graph_create, METH_VARARGS,
     "graph_create(name, body, n_tensors, n_numbers, random, device, results, precision, dump_dir, optimization_level, "
     "compiler_options, watched): a handle for torch.ops.torch_pjrt.run_graph"},
    {"graph_destroy", graph_destroy, METH_VARARGS, "graph_destroy(graph)"},
    {"register_kernel", register_kernel, METH_VARARGS,
     "register_kernel(name, overload): torch_pjrt.kernels writes the StableHLO of the op"},
    {"lower_text", lower_text, METH_VARARGS,
     "lower_text(graph, precision): the StableHLO module, the inputs that its parameters are, and its index checks as "
     "(op, low, size, code, message), which are one more result"},
    {"compile_module", compile_module, METH_VARARGS, "compile_module(module): what may load it, and the program"},
    {"load_settings", load_settings, METH_NOARGS, "Read the settings from the environment, once."},
    {"get_setting", get_setting, METH_VARARGS, "get_setting(name)"},
    {"set_setting", set_setting, METH_VARARGS, "set_setting(name, text)"},
    {"settings", settings, METH_NOARGS,
     "All settings as (name, environment variable, default, choices, documentation)"},
    {NULL, NULL, 0, NULL},
};

/* ---- what the glue asks of Python ---- */
/* Folders of files that are not the user's; kept for the life of the process. */
static char *torch_folder, *own_folder;

static bool starts_with(const char *text, const char *prefix) {
    return prefix != NULL && strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Names of attributes, made once: a launch with index checks walks the frames. */
static PyObject *co_filename, *f_back;

/* The file of a frame as UTF-8, kept alive by *out_owner (new reference). NULL when it is not the user's. */
static const char *user_file(PyFrameObject *frame, PyObject **out_owner) {
    PyObject *code = (PyObject *)PyFrame_GetCode(frame);
    *out_owner = PyObject_GetAttr(code, co_filename);
    Py_DECREF(code);
    const char *file = *out_owner == NULL ? NULL : PyUnicode_AsUTF8AndSize(*out_owner, NULL);
    if (file == NULL || starts_with(file, torch_folder) || starts_with(file, own_folder) ||
        starts_with(file, "<frozen "))
        return NULL;
    return file;
}

/* A walk over the frames that call each other, from the inside out. On a miss, an error, and a launch with checks only. */
static int find_user_line(char *out_file, size_t n_file, int *out_line) {
    if (!Py_IsInitialized() || n_file == 0) return 0;
    int found = 0;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame != NULL && frame != Py_None && !found) {
        PyObject *owner;
        const char *file = user_file((PyFrameObject *)frame, &owner);
        if (file != NULL) {
            strncpy(out_file, file, n_file - 1);
            out_file[n_file - 1] = '\0';
            *out_line = PyFrame_GetLineNumber((PyFrameObject *)frame);
            found = 1;
        }
        Py_XDECREF(owner);
        PyObject *caller = PyObject_GetAttr(frame, f_back);
        Py_DECREF(frame);
        frame = caller;
    }
    Py_XDECREF(frame);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(gil);
    return found;
}

/* torch_pjrt._trace.trace(request), malloc'ed. NULL for None and for an exception, which is dropped: the CPU takes over. */
static char *trace(const char *request) {
    if (!Py_IsInitialized()) return NULL;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *tracer = PyImport_ImportModule("torch_pjrt._trace");
    PyObject *answer = tracer == NULL ? NULL : PyObject_CallMethod(tracer, "trace", "s", request);
    const char *text = answer == NULL || answer == Py_None ? NULL : PyUnicode_AsUTF8AndSize(answer, NULL);
    char *copy = text == NULL ? NULL : strdup(text);
    Py_XDECREF(answer);
    Py_XDECREF(tracer);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(gil);
    return copy;
}

/* "ValueError: no such thing" of the exception that is set, which is cleared; malloc'ed. */
static char *describe_exception(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *name = type == NULL ? NULL : PyObject_GetAttrString(type, "__name__");
    PyObject *text = name == NULL ? NULL : PyUnicode_FromFormat("%U: %S", name, value);
    const char *utf8 = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);
    char *copy = strdup(utf8 != NULL ? utf8 : "an exception that has no text");
    Py_XDECREF(text);
    Py_XDECREF(name);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyErr_Clear();
    return copy;
}

/* torch_pjrt.kernels._write(op, arguments): the text, or the exception as a status. */
static tpj_status *write_kernel(void *context, const char *op, const char *arguments, char **out_text) {
    (void)context;
    if (!Py_IsInitialized()) return tpj_status_create(TPJ_RUNTIME, "Python has ended");
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *kernels = PyImport_ImportModule("torch_pjrt.kernels");
    PyObject *answer = kernels == NULL ? NULL : PyObject_CallMethod(kernels, "_write", "ss", op, arguments);
    const char *text = answer == NULL ? NULL : PyUnicode_AsUTF8AndSize(answer, NULL);
    tpj_status *status = NULL;
    if (text != NULL) {
        *out_text = strdup(text);
        if (*out_text == NULL) status = tpj_status_create(TPJ_OUT_OF_MEMORY, "out of host memory");
    } else {
        char *what = describe_exception();
        status = tpj_status_create(TPJ_RUNTIME, "%s", what != NULL ? what : "out of host memory");
        free(what);
    }
    Py_XDECREF(answer);
    Py_XDECREF(kernels);
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(gil);
    return status;
}

/* torch_pjrt.compile._watch.program(graph, module, facts), whose exceptions are printed as ignored. */
static void watch_program(const char *graph, const char *module, size_t n_module, const tpj_compiled_memory *memory,
                          const tpj_compiled_cost *cost) {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *watch = PyImport_ImportModule("torch_pjrt.compile._watch");
    PyObject *done =
        watch == NULL
            ? NULL
            : PyObject_CallMethod(
                  watch, "program", "ss#{sLsLsLsLsLsLsdsdsd}", graph, module, (Py_ssize_t)n_module, "code_bytes",
                  (long long)memory->code_bytes, "argument_bytes", (long long)memory->argument_bytes, "output_bytes",
                  (long long)memory->output_bytes, "alias_bytes", (long long)memory->alias_bytes, "temp_bytes",
                  (long long)memory->temp_bytes, "peak_bytes", (long long)memory->peak_bytes, "flops", cost->flops,
                  "bytes_accessed", cost->bytes_accessed, "optimal_seconds", cost->optimal_seconds);
    if (done == NULL) PyErr_WriteUnraisable(watch);
    Py_XDECREF(done);
    Py_XDECREF(watch);
    PyGILState_Release(gil);
}

/* The folder of a module with the separator at its end, malloc'ed. NULL with an exception set when it has none. */
static char *folder_of(const char *module_name) {
    PyObject *imported = PyImport_ImportModule(module_name);
    PyObject *file = imported == NULL ? NULL : PyObject_GetAttrString(imported, "__file__");
    const char *path = file == NULL ? NULL : PyUnicode_AsUTF8AndSize(file, NULL);
    const char *end = path == NULL ? NULL : strrchr(path, '/');
    char *folder = end == NULL ? NULL : strndup(path, (size_t)(end - path) + 1);
    if (folder == NULL && !PyErr_Occurred()) PyErr_Format(PyExc_ImportError, "%s lies in no folder", module_name);
    Py_XDECREF(file);
    Py_XDECREF(imported);
    return folder;
}

static int execute(PyObject *self) {
    (void)self;
    if (co_filename == NULL && (co_filename = PyUnicode_InternFromString("co_filename")) == NULL) return -1;
    if (f_back == NULL && (f_back = PyUnicode_InternFromString("f_back")) == NULL) return -1;
    if (torch_folder == NULL && (torch_folder = folder_of("torch")) == NULL) return -1;
    if (own_folder == NULL && (own_folder = folder_of("torch_pjrt")) == NULL) return -1;
    tpj_glue_set_line_finder(find_user_line);
    tpj_glue_set_tracer(trace);
    tpj_glue_set_kernel_writer(write_kernel);
    tpj_glue_set_program_watcher(watch_program);
    tpj_interrupt_set(is_interrupted);
    tpj_glue_register();
    return 0;
}

/* The core's state belongs to the process, so the module is one per process. */
static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};
static PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "torch_pjrt._C",
    .m_doc = "The core and the glue of torch_pjrt.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__C(void) { return PyModuleDef_Init(&module); }
