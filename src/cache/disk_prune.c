#define _GNU_SOURCE /* F_OFD_SETLK */
#include "cache/disk_prune.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_PATH = 4096 + 512, DRAFT_SECONDS = 3600 };

typedef struct program_file {
    char *path;
    int64_t n_bytes;
    struct timespec last_use;
} program_file;

typedef struct program_files {
    program_file *files;
    size_t n, capacity;
    int64_t n_bytes;
} program_files;

/* Without memory the list stays short, and less is removed than could be. */
static void add_file(program_files *all, const char *path, const struct stat *status) {
    if (all->n == all->capacity) {
        size_t capacity = all->capacity > 0 ? all->capacity * 2 : 1024;
        program_file *files = realloc(all->files, capacity * sizeof *files);
        if (files == NULL) return;
        all->files = files;
        all->capacity = capacity;
    }
    size_t n = strlen(path) + 1;
    char *copy = malloc(n);
    if (copy == NULL) return;
    memcpy(copy, path, n);
    all->files[all->n++] = (program_file){copy, (int64_t)status->st_size, status->st_mtim};
    all->n_bytes += (int64_t)status->st_size;
}

static bool ends_in(const char *name, const char *suffix) {
    size_t n = strlen(name), k = strlen(suffix);
    return n > k && strcmp(name + n - k, suffix) == 0;
}

/* Programs of one of the 256 folders. */
static void list_folder(const char *folder, program_files *all) {
    char path[LONGEST_PATH];
    struct stat status;
    DIR *listing = opendir(folder);
    if (listing == NULL) return;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        int n = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (n < 0 || (size_t)n >= sizeof path || !ends_in(entry->d_name, TPJ_DISK_SUFFIX)) continue;
        if (lstat(path, &status) == 0 && S_ISREG(status.st_mode)) add_file(all, path, &status);
    }
    closedir(listing);
}

static void list_programs(const char *folder, program_files *all) {
    char path[LONGEST_PATH];
    for (unsigned i = 0; i < 256; i++) {
        snprintf(path, sizeof path, "%s/%02x", folder, i);
        list_folder(path, all);
    }
}

static void remove_drafts(const char *folder) {
    char path[LONGEST_PATH];
    struct stat status;
    DIR *listing = opendir(folder);
    if (listing == NULL) return;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        if (strncmp(entry->d_name, TPJ_DISK_DRAFT, strlen(TPJ_DISK_DRAFT)) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (lstat(path, &status) == 0 && time(NULL) - status.st_mtime > DRAFT_SECONDS) unlink(path);
    }
    closedir(listing);
}

static int compare_use(const void *a, const void *b) {
    const struct timespec *left = &((const program_file *)a)->last_use, *right = &((const program_file *)b)->last_use;
    if (left->tv_sec != right->tv_sec) return left->tv_sec > right->tv_sec ? 1 : -1;
    return (left->tv_nsec > right->tv_nsec) - (left->tv_nsec < right->tv_nsec);
}

/* The last byte of the lock file, which is no key's. */
static int try_lock(const char *folder) {
    char path[LONGEST_PATH];
    snprintf(path, sizeof path, "%s/" TPJ_DISK_LOCK, folder);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(INT64_MAX - 1), .l_len = 1};
    if (file >= 0 && fcntl(file, F_OFD_SETLK, &lock) != 0) {
        close(file);
        file = -1;
    }
    return file;
}

int64_t tpj_disk_prune(const char *folder, int64_t most_bytes) {
    program_files all = {0};
    int lock = try_lock(folder);
    if (lock < 0) return most_bytes / 2;
    remove_drafts(folder);
    list_programs(folder, &all);
    if (all.n_bytes > most_bytes) {
        qsort(all.files, all.n, sizeof *all.files, compare_use);
        for (size_t i = 0; i < all.n && all.n_bytes > most_bytes / 4 * 3; i++)
            if (unlink(all.files[i].path) == 0) all.n_bytes -= all.files[i].n_bytes;
    }
    for (size_t i = 0; i < all.n; i++) free(all.files[i].path);
    free(all.files);
    close(lock);
    return all.n_bytes;
}
