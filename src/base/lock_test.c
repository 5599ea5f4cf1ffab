#define _POSIX_C_SOURCE 200809L
#include "base/lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"

static tpj_lock outer = TPJ_LOCK_INIT(TPJ_RANK_CACHE, "outer");
static tpj_lock inner = TPJ_LOCK_INIT(TPJ_RANK_LOG, "inner");
static int counter;

static void *count(void *unused) {
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        tpj_lock_acquire(&outer);
        counter++;
        tpj_lock_release(&outer);
    }
    return NULL;
}

TEST(lock_excludes) {
    pthread_t threads[2];
    counter = 0;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK_INT(counter, 40000);
}

TEST(lock_nests_in_the_order_of_ranks) {
    tpj_lock made;
    tpj_lock_init(&made, TPJ_RANK_PLUGIN, "made");
    for (int i = 0; i < 2; i++) { /* releasing in either order leaves nothing held */
        tpj_lock_acquire(&outer);
        tpj_lock_acquire(&made);
        tpj_lock_acquire(&inner);
        tpj_lock_release(i == 0 ? &inner : &outer);
        tpj_lock_release(&made);
        tpj_lock_release(i == 0 ? &outer : &inner);
    }
    tpj_lock_destroy(&made);
}

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *signal_once(void *unused) {
    (void)unused;
    tpj_lock_acquire(&inner);
    counter = 1;
    pthread_cond_signal(&changed);
    tpj_lock_release(&inner);
    return NULL;
}

TEST(lock_waits_for_a_condition) {
    pthread_t thread;
    counter = 0;
    tpj_lock_acquire(&inner);
    pthread_create(&thread, NULL, signal_once, NULL);
    while (counter == 0) tpj_lock_wait(&inner, &changed);
    tpj_lock_release(&inner);
    pthread_join(thread, NULL);
    CHECK_INT(counter, 1);
}

#ifdef TPJ_DEBUG
/* What became of a child that broke a rule: true when it was aborted. */
static bool aborts(void (*break_rule)(void)) {
    int state = 0;
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        break_rule();
        _exit(0);
    }
    waitpid(child, &state, 0);
    return WIFSIGNALED(state) || (WIFEXITED(state) && WEXITSTATUS(state) != 0);
}

static void take_in_wrong_order(void) {
    tpj_lock_acquire(&inner);
    tpj_lock_acquire(&outer);
}

static void take_twice(void) {
    tpj_lock_acquire(&outer);
    tpj_lock_acquire(&outer);
}

static void release_what_is_not_held(void) { tpj_lock_release(&outer); }
static void obey(void) {
    tpj_lock_acquire(&outer);
    tpj_lock_release(&outer);
}

TEST(lock_order_is_checked) {
    CHECK(aborts(take_in_wrong_order));
    CHECK(aborts(take_twice));
    CHECK(aborts(release_what_is_not_held));
    CHECK(!aborts(obey));
}
#endif
