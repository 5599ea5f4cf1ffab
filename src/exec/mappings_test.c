#include "exec/mappings.h"

#include "runner.h"

/* That programs leave when mappings do run short is held by tests/python/test_memory.py: it takes 49,000 of them. */
TEST(mappings_do_not_run_short_in_a_small_process) {
    for (int i = 0; i < 2000; i++) CHECK(!tpj_mappings_run_short(1000));
}
