/* The kernel bounds the memory mappings of a process (vm.max_map_count, 65,530 by default). Each program that a CPU plugin
 * compiles holds about three, and at the bound mmap fails inside the plugin's code generator, which then crashes. So the
 * owner of a program cache asks after each compilation whether programs have to leave.
 *
 * Threads: any. */
#ifndef TPJ_EXEC_MAPPINGS_H
#define TPJ_EXEC_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>

/* True when three quarters of the mappings that the process may have are in use; false where the kernel has no such list.
 * To be asked after each compilation: the list is read once for a number of compilations that grows with its length, so
 * that a question costs about a thousand of its lines, a percent of a small compilation. */
bool tpj_mappings_run_short(void);

#endif
