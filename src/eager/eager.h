/* Eager execution: storages that own device memory, the signature cache, and the launch of one op at a time.
 *
 * The glue (PyTorch) describes a call as a key of 64-bit words and a list of operands; on a hit the calling thread launches
 * by itself. On a miss it builds the one-node graph and the program is compiled and remembered under the key.
 *
 * Threads: everything here is thread-safe. Launches on one device are put in one order by that device's lock, held from
 * fetching the operands' buffers until the results are stored, so that a donated buffer is never seen by another thread. */
#ifndef TPJ_EAGER_EAGER_H
#define TPJ_EAGER_EAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tpj/graph.h"
#include "tpj/pjrt.h"
#include "tpj/program.h"
#include "tpj/status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- runtime: the plugin and its client, created at the first use ---- */
/* Which plugin to use, decided by Python's discovery before the first use (path copied). "" : none, with the reason that
 * errors will give. May be called again until the client exists. */
void tpj_runtime_configure(const char *plugin_path, const char *reason_when_none, int n_devices);
/* Creates the client if there is none. Errors: no plugin, plugin unusable, or used after fork (says what to do). */
tpj_status *tpj_runtime_start(void) TPJ_MUST_USE;
bool tpj_runtime_started(void);
bool tpj_runtime_in_bad_fork(void); /* the client was created in a parent of this process */
/* Devices: known without a client for CPU plugins (the configured number); starts the client for a TPU. */
tpj_status *tpj_runtime_n_devices(int *out_n) TPJ_MUST_USE;
tpj_client *tpj_runtime_client(void); /* borrowed; NULL before start */
/* Waits for all work on a device (-1: all); raises what the device reported since the last wait, and index checks. */
tpj_status *tpj_runtime_synchronize(int device) TPJ_MUST_USE;

/* ---- storages: the context of a PyTorch storage's DataPtr ---- */
typedef struct tpj_storage tpj_storage;
/* Memory is not touched before the first write. n_bytes may be 0. Counted in the memory statistics. */
tpj_status *tpj_storage_create(int device, size_t n_bytes, tpj_storage **out_storage) TPJ_MUST_USE;
void tpj_storage_destroy(tpj_storage *storage);
/* A number unique among live storages, 64-byte aligned, that grows with the offset and must never be dereferenced. */
void *tpj_storage_address(const tpj_storage *storage);
/* The live storage that an address lies in, by a search; NULL when it lies in none. Borrowed: the caller keeps it alive. */
tpj_storage *tpj_storage_find(const void *address);
size_t tpj_storage_bytes(const tpj_storage *storage);
int tpj_storage_device(const tpj_storage *storage);
/* Whole-storage write from dense row-major host data of dims/dtype (its bytes must be the storage's). */
tpj_status *tpj_storage_from_host(tpj_storage *storage, tpj_dtype dtype, int rank, const int64_t *dims,
                                  const void *data) TPJ_MUST_USE;
/* Bytes [offset, offset + n) of the storage's linear memory. Waits. */
tpj_status *tpj_storage_to_host(tpj_storage *storage, size_t offset, void *data, size_t n_bytes) TPJ_MUST_USE;
/* dst's first min(bytes) bytes become src's (for resize). Same device. */
tpj_status *tpj_storage_copy_bytes(tpj_storage *dst, tpj_storage *src) TPJ_MUST_USE;
/* dst takes src's contents; other device; same byte size. */
tpj_status *tpj_storage_copy_across(tpj_storage *dst, tpj_storage *src) TPJ_MUST_USE;

/* ---- memory statistics (bytes of live storages; what the plugin says comes through tpj_client_memory_stats) ---- */
typedef struct tpj_memory {
    int64_t allocated, peak, n_allocated, n_freed, live, peak_live, allocated_total, freed_total;
} tpj_memory;
void tpj_memory_get(int device, tpj_memory *out_memory);
/* Who holds it, the largest first, a line each: "4096 bytes in 2 storages: mul.Tensor(f32[4, 8], number) (first called at
 * train.py:17)". malloc'ed, the caller frees; NULL without memory. */
char *tpj_memory_describe(int device, int most_lines);
void tpj_memory_reset_peak(int device);
void tpj_memory_reset_accumulated(int device);

/* ---- events: a point in the order of launches of a device ---- */
typedef struct tpj_event tpj_event;
tpj_status *tpj_event_create(tpj_event **out_event) TPJ_MUST_USE;
void tpj_event_destroy(tpj_event *event);
tpj_status *tpj_event_record(tpj_event *event, int device) TPJ_MUST_USE; /* everything launched so far on the device */
tpj_status *tpj_event_synchronize(tpj_event *event) TPJ_MUST_USE;
bool tpj_event_query(tpj_event *event);
/* Milliseconds between the completion of two recorded events; waits for neither: an error when one is not complete. */
tpj_status *tpj_event_elapsed(tpj_event *start, tpj_event *end, double *out_milliseconds) TPJ_MUST_USE;

/* ---- statistics of programs ---- */
typedef struct tpj_compile_stats {
    int64_t programs; /* made: compiled, or loaded from a folder of kept ones */
    int64_t loaded;   /* of these */
    int64_t hits;     /* launches that found their program */
    double seconds;   /* that making them took */
    int64_t launches;
} tpj_compile_stats;
tpj_status *tpj_compile_stats_get(tpj_compile_stats *out_stats) TPJ_MUST_USE; /* waits for programs being compiled */
void tpj_compile_stats_reset(void);

/* ---- calling an op ---- */
/* One program operand of a call, in the order of the graph's inputs. */
typedef struct tpj_operand {
    tpj_storage *storage; /* NULL for a number */
    tpj_number number;
} tpj_operand;

/* The program remembered under the key, retained for the caller, or NULL. */
tpj_program *tpj_eager_find(const uint64_t *key, int n_words);
/* Lowers `graph` (its outputs, or all results of its last node where it has none) for `device`, has it compiled by the
 * compile threads (src/exec/pool.h) and remembers it: it can be run at once, what the compiler may refuse is the error of
 * its calls' results. In fused mode it is lowered only. Takes the graph, also on error. The program is retained for the caller. What `options` say must be in the key; index checks follow
 * the setting, whatever they say. */
tpj_status *tpj_eager_compile(const uint64_t *key, int n_words, int device, tpj_graph *graph,
                              const tpj_lower_options *options, tpj_program **out_program) TPJ_MUST_USE;
/* The same, compiled in every mode and never part of a window, with options for the compiler as tpj_program_compile takes
 * them. Borrows the graph. */
tpj_status *tpj_eager_compile_with(const uint64_t *key, int n_words, int device, const tpj_graph *graph,
                                   const tpj_lower_options *options, const tpj_compile_options *compiler,
                                   tpj_program **out_program) TPJ_MUST_USE;

/* ---- fused mode ---- */
bool tpj_eager_is_fused(void);
/* Launches what was recorded on a device (-1: all). */
tpj_status *tpj_eager_flush(int device) TPJ_MUST_USE;
/* The windows that programs were made for, as JSON, malloc'ed; NULL: out of memory. [{"ops": 3, "hits": 7, "seconds": 0.1,
 * "inputs": 2, "results": 1, "cuts": {"read": 8}, "calls": [["add.Tensor", "train.py", 17], ..]}, ..]; a file may be null. */
char *tpj_eager_fusion_report(void);

/* ---- views whose offset changes ----
 * `w[i] += 1` for many i must not compile for each i. Calls that differ only in the offsets of their views are a family.
 * Its first calls are compiled for their own offsets (a fixed slice is the best program, and most views have few offsets);
 * from the third on, one program takes the offsets as operands. Such a program is right for offsets that move each view
 * inside its plan (tpj_floating); where one does not fit, a second form is compiled for it, a few times at most.
 *
 * What a miss of tpj_eager_find does about it. `key`: the call's, its offsets replaced by -1 and one more word at the end,
 * which is ours to write. `operands`: the call's and behind them the offsets, as integers. Returns the program to launch
 * with them, retained, or NULL. Then *out_float says what to compile: the graph with offset inputs, under `key` as it is
 * then; or the graph as it is, under the call's own key. */
tpj_program *tpj_eager_find_floating(uint64_t *key, int n_words, const tpj_operand *operands, bool *out_float);
/* Whether a program whose values float, just compiled, serves the call's own. */
bool tpj_eager_fits(const tpj_program *program, const tpj_operand *operands);
/* Launches, or queues the call up behind those that wait for their program (backlog.h), or in fused mode records the call, whose results are then written when the window is flushed: by a read of one
 * of them, or at the places that docs/fused.md names. `random` is the generator's (seed, offset) for programs that draw. `out_storages[i]` receives a new storage
 * for each result with target -1 (NULL for targets and for none). Nothing is written on error. */
tpj_status *tpj_eager_run(tpj_program *program, int device, const tpj_operand *operands, int n_operands,
                          const uint64_t random[2], tpj_storage **out_storages) TPJ_MUST_USE;
/* Whether it should be said where the latest launch of the program was called from, because it leaves index checks behind or
 * is part of a window that was not seen before; and to say so (copied). */
bool tpj_eager_wants_line(int device, const tpj_program *program);
void tpj_eager_called_at(int device, const tpj_program *program, const char *file, int line);
/* For errors: the op with its operands; the StableHLO of the program into a new file, in the folder that dump_dir names or
 * in the one for temporary files. False: it cannot be written. */
const char *tpj_eager_description(const tpj_program *program);
bool tpj_eager_write_module(const tpj_program *program, char *out_path, size_t n);
/* For keys: the storage's base shape is exactly these dims and dtype in row-major order (or it was never written and its
 * size fits), so that a tensor of that shape at offset 0 needs no view. Otherwise the base has to be in the key:
 * tpj_storage_base copies it. */
bool tpj_storage_is_plain(const tpj_storage *storage, tpj_dtype dtype, int rank, const int64_t *sizes);
/* Writes dtype, rank and dims (at most 64) of the base; returns the rank. */
int tpj_storage_base(const tpj_storage *storage, tpj_dtype *out_dtype, int64_t *out_dims);
/* Declares the base shape of a storage that was never written, so that a partial write needs no reinterpretation. */
void tpj_storage_set_base(tpj_storage *storage, tpj_dtype dtype, int rank, const int64_t *dims);
/* Moves the contents of a freshly made storage into dst (same device and bytes) and destroys src, also on error: how out=
 * takes a result. */
tpj_status *tpj_storage_adopt(tpj_storage *dst, tpj_storage *src) TPJ_MUST_USE;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
