/* What the checks of one launch found, told by the launch itself. On a CPU plugin a program calls a function of the host
 * (XLA's foreign function interface) that looks at its operand; a result of its own, which the host would have to fetch and
 * read, costs several times as much. Elsewhere checks are results (include/tpj/lower.h).
 *
 * A report belongs to one launch at a time: taken before it, read and given back when it is complete. Its operand is a
 * number in which the program finds it again.
 *
 * Threads: taking and giving back are thread-safe; the rest is the owner's, whatever thread the program runs on. */
#ifndef TPJ_PJRT_REPORT_H
#define TPJ_PJRT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "tpj/pjrt.h"

typedef struct tpj_report tpj_report;

/* The function's name in a program. Operands: a dense array of S32 or S64, and the report's number. Attributes, all i64:
 * "check", the number of the check in the program; "low" and "high", the least and the greatest element that is right. */
#define TPJ_REPORT_TARGET "torch_pjrt.check"

/* Whether programs of the client can report: else their checks are results. */
bool tpj_client_has_reports(const tpj_client *client);

/* For a launch of a program with n_checks checks on the device. From a store that keeps what was given back. */
tpj_status *tpj_report_take(tpj_client *client, int device, int n_checks, tpj_report **out_report) TPJ_MUST_USE;
/* Makes a report that was taken ready for the next launch of the same device. */
void tpj_report_reset(tpj_report *report, int n_checks);
/* NULL is allowed. Only when no launch can write to it any more. */
void tpj_report_give(tpj_report *report);
/* The program's operand: S64, rank 0. Borrowed. */
tpj_buffer *tpj_report_operand(const tpj_report *report);

/* tpj_executable_execute of a program with checks; a NULL report: of one without. Small programs run in the calling thread and have reported on return. */
tpj_status *tpj_executable_execute_reporting(tpj_executable *executable, int device, tpj_buffer *const *inputs,
                                             int n_inputs, tpj_buffer **outputs, int n_outputs,
                                             tpj_report *report) TPJ_MUST_USE;
/* Whether all checks have been made and all was well: nothing to wait for, nothing to say. */
bool tpj_report_is_clear(const tpj_report *report);
/* Waits until the launch is over. The number of the first check that found something, and the element that is furthest
 * outside; -1: none did. A launch that failed has checked nothing: its results say so. */
int tpj_report_await(tpj_report *report, int64_t *out_element);

#endif
