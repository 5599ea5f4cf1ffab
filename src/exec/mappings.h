/* The kernel bounds the memory mappings of a process (vm.max_map_count, 65,530 by default). Each program that a CPU plugin
 * compiles holds about three, and at the bound mmap fails inside the plugin's code generator, which then crashes. So the
 * owner of a program cache asks after each compilation whether programs have to leave.
 *
 * Threads: any. */
#ifndef TPJ_EXEC_MAPPINGS_H
#define TPJ_EXEC_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>

/* True when three quarters of the mappings that the process may have are in use; false where the kernel has no such list.
 * To be asked after each compilation, with the length of the module. The list is read again when the programs since then may
 * have added a 64th of the bound, and where they run short more often, a thousand lines for each program: reading it takes a
 * third of a millisecond at best, and meanwhile the threads that compile cannot map memory, which they do all the time. */
bool tpj_mappings_run_short(size_t module_length);

#endif
