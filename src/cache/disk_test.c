#define _GNU_SOURCE /* mkdtemp, nftw */
#include "cache/disk.h"

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocation.h"
#include "base/log.h"
#include "cache/disk_prune.h"
#include "runner.h"

/* ---- a folder of its own for each test ---- */
static char folder[64];
static char found_path[256]; /* of the last program that the walk met */
static int n_programs, n_files;

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static int look_at_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status;
    if (kind != FTW_F) return 0;
    n_files++;
    if (strstr(path + walk->base, TPJ_DISK_SUFFIX) == NULL) return 0;
    n_programs++;
    snprintf(found_path, sizeof found_path, "%s", path);
    return 0;
}

static void look(void) {
    n_programs = n_files = 0;
    nftw(folder, look_at_one, 8, FTW_PHYS);
}

static tpj_disk *start(int64_t most_bytes) {
    snprintf(folder, sizeof folder, "/tmp/tpj_disk_XXXXXX");
    return mkdtemp(folder) != NULL ? tpj_disk_open(folder, most_bytes) : NULL;
}

static void finish(tpj_disk *disk) {
    tpj_disk_close(disk);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static tpj_disk_key key_of(const char *client, const char *module) {
    return (tpj_disk_key){client, module, strlen(client), strlen(module)};
}

static bool holds(tpj_disk *disk, tpj_disk_key key, const char *expected) {
    size_t n = 0;
    char *data = tpj_disk_find(disk, &key, &n);
    bool equal =
        expected == NULL ? data == NULL : data != NULL && n == strlen(expected) && memcmp(data, expected, n) == 0;
    free(data);
    return equal;
}

static void save(tpj_disk *disk, tpj_disk_key key, const char *data) { tpj_disk_save(disk, &key, data, strlen(data)); }

/* ---- tests ---- */
TEST(disk_keeps_programs_from_one_opening_to_the_next) {
    tpj_disk *disk = start(1 << 20);
    CHECK(disk != NULL);
    CHECK(holds(disk, key_of("c", "m"), NULL));
    save(disk, key_of("c", "m"), "program");
    save(disk, key_of("cm", ""), "the same bytes, divided otherwise");
    save(disk, key_of("c", "m2"), "");
    tpj_disk_close(disk);
    disk = tpj_disk_open(folder, 1 << 20);
    CHECK(holds(disk, key_of("c", "m"), "program"));
    CHECK(holds(disk, key_of("cm", ""), "the same bytes, divided otherwise"));
    CHECK(holds(disk, key_of("c", "m2"), ""));
    CHECK(holds(disk, key_of("c2", "m"), NULL));
    save(disk, key_of("c", "m"), "newer");
    CHECK(holds(disk, key_of("c", "m"), "newer"));
    tpj_disk_key key = key_of("c", "m");
    tpj_disk_remove(disk, &key);
    CHECK(holds(disk, key, NULL));
    finish(disk);
}

/* A file under the name of a key that is not its own: what two keys of one hash would see. */
TEST(disk_compares_the_whole_key) {
    tpj_disk *disk = start(1 << 20);
    char path[256];
    save(disk, key_of("c", "m"), "program");
    look();
    snprintf(path, sizeof path, "%s", found_path);
    tpj_disk_key key = key_of("c", "m");
    tpj_disk_remove(disk, &key);
    save(disk, key_of("d", "n"), "other");
    look();
    CHECK(n_programs == 1 && strcmp(path, found_path) != 0);
    char parent[256];
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    mkdir(parent, 0700);
    CHECK(rename(found_path, path) == 0);
    CHECK(holds(disk, key, NULL));
    look();
    CHECK_INT(n_programs, 1); /* another program's file is not damaged, and stays */
    finish(disk);
}

static bool write_whole(const char *path, const char *data, size_t n) {
    FILE *file = fopen(path, "w");
    if (file == NULL) return false;
    bool good = fwrite(data, 1, n, file) == n;
    return fclose(file) == 0 && good;
}

TEST(disk_takes_a_damaged_file_for_none_and_removes_it) {
    tpj_disk *disk = start(1 << 20);
    char good[256], bad[256];
    save(disk, key_of("client", "module"), "program");
    look();
    FILE *file = fopen(found_path, "r");
    size_t n = fread(good, 1, sizeof good, file);
    fclose(file);
    for (size_t i = 0; i < n; i++) { /* each byte another one */
        memcpy(bad, good, n);
        bad[i] ^= 0x40;
        CHECK(write_whole(found_path, bad, n));
        CHECK_OR(holds(disk, key_of("client", "module"), NULL), "byte %zu", i);
        CHECK_OR(access(found_path, F_OK) != 0, "byte %zu", i);
    }
    for (size_t i = 0; i <= n + 1; i++) { /* each length but its own */
        memcpy(bad, good, n);
        bad[n] = 0;
        CHECK(write_whole(found_path, bad, i));
        CHECK_OR(holds(disk, key_of("client", "module"), i == n ? "program" : NULL), "length %zu", i);
    }
    finish(disk);
}

TEST(disk_that_cannot_be_written_is_only_read) {
    tpj_log_set_level(TPJ_LOG_OFF);
    tpj_disk *disk = tpj_disk_open("/dev/null/folder", 1 << 20);
    tpj_disk_key key = key_of("c", "m");
    for (int i = 0; i < 2; i++) {
        save(disk, key, "program");
        CHECK(holds(disk, key, NULL));
        int lock = tpj_disk_lock(disk, &key);
        CHECK_INT(lock, -1);
        tpj_disk_unlock(lock);
    }
    tpj_disk_close(disk);
    save(NULL, key, "program");
    CHECK(holds(NULL, key, NULL));
    CHECK_INT(tpj_disk_lock(NULL, &key), -1);
    tpj_disk_close(NULL);
    tpj_log_set_level(TPJ_LOG_WARNING);
}

/* The bound holds, what was used lately stays, and drafts of dead processes go. */
TEST(disk_stays_within_its_bound) {
    enum { N = 100, SIZE = 1000, MOST = 20000 };
    char data[SIZE + 1], module[16], path[128];
    tpj_disk *disk = start(MOST);
    memset(data, 'x', SIZE);
    data[SIZE] = '\0';
    snprintf(path, sizeof path, "%s/" TPJ_DISK_DRAFT "1-1", folder);
    CHECK(write_whole(path, "half", 4));
    CHECK(utimensat(AT_FDCWD, path, (struct timespec[2]){{1, 0}, {1, 0}}, 0) == 0);
    for (int i = 0; i < N; i++) {
        snprintf(module, sizeof module, "m%d", i);
        usleep(10000); /* so that the clock of the file system has moved on */
        save(disk, key_of("c", module), data);
        CHECK_OR(holds(disk, key_of("c", module), data), "the newest, %d", i);
        look();
        CHECK_OR((int64_t)n_programs * SIZE <= MOST + MOST / 2, "%d programs after %d", n_programs, i);
    }
    look();
    CHECK(n_programs >= MOST / SIZE / 4);
    CHECK(access(path, F_OK) != 0);
    save(disk, key_of("c", "large"), "x");
    tpj_disk_key key = key_of("c", "larger than the bound");
    char *large = calloc(1, MOST + 1);
    tpj_disk_save(disk, &key, large, MOST + 1);
    free(large);
    CHECK(holds(disk, key, NULL) && holds(disk, key_of("c", "large"), "x"));
    finish(disk);
}

TEST(disk_prune_removes_the_least_recently_used) {
    enum { N = 10 };
    char module[16];
    tpj_disk *disk = start(-1);
    for (int i = 0; i < N; i++) {
        snprintf(module, sizeof module, "m%d", i);
        tpj_disk *alone = tpj_disk_open(folder, -1);
        save(alone, key_of("c", module), "program");
        tpj_disk_close(alone);
    }
    look();
    int64_t held = tpj_disk_prune(folder, INT64_MAX);
    CHECK_INT(n_programs, N);
    CHECK(held > N * 7 && tpj_disk_prune(folder, held) == held);
    int64_t each = held / N;
    CHECK(utimensat(AT_FDCWD, found_path, (struct timespec[2]){{5, 0}, {5, 0}}, 0) == 0);
    char oldest[256];
    snprintf(oldest, sizeof oldest, "%s", found_path);
    CHECK_INT(tpj_disk_prune(folder, each * 9 + each / 2), each * 7); /* a quarter of the bound is free */
    CHECK(access(oldest, F_OK) != 0);
    look();
    CHECK_INT(n_programs, 7);
    finish(disk);
}

/* ---- one compilation a key ---- */
static tpj_disk *contended;
static _Atomic int n_inside, most_inside;

static void *enter(void *context) {
    tpj_disk_key key = key_of("c", context);
    for (int i = 0; i < 20; i++) {
        int lock = tpj_disk_lock(contended, &key);
        int inside = atomic_fetch_add(&n_inside, 1) + 1;
        if (inside > atomic_load(&most_inside)) atomic_store(&most_inside, inside);
        usleep(200);
        atomic_fetch_sub(&n_inside, 1);
        tpj_disk_unlock(lock);
    }
    return NULL;
}

TEST(disk_lock_lets_one_thread_through) {
    pthread_t threads[4];
    contended = start(-1);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, enter, "m") == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK_INT(atomic_load(&most_inside), 1);
    tpj_disk_key one = key_of("c", "m"), other = key_of("c", "n");
    int first = tpj_disk_lock(contended, &one), second = tpj_disk_lock(contended, &other); /* does not wait */
    CHECK(first >= 0 && second >= 0);
    tpj_disk_unlock(first);
    tpj_disk_unlock(second);
    finish(contended);
}

TEST(disk_without_memory) {
    tpj_disk *disk = start(1 << 20);
    tpj_disk_key key = key_of("client", "module");
    save(disk, key, "program");
    long live = allocation_n_live();
    for (int nth = 1; nth < 4; nth++) {
        allocation_fail(nth, false);
        tpj_disk *other = tpj_disk_open(folder, 1 << 20);
        size_t n;
        char *data = tpj_disk_find(other, &key, &n);
        tpj_disk_save(other, &key, "program", 7);
        allocation_fail(0, false);
        CHECK(data == NULL || memcmp(data, "program", 7) == 0);
        free(data);
        tpj_disk_close(other);
        CHECK_INT(allocation_n_live(), live);
        CHECK(holds(disk, key, "program")); /* nothing was removed for want of memory */
    }
    finish(disk);
}
