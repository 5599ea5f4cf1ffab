#define _GNU_SOURCE /* F_OFD_SETLKW */
#include "cache/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "cache/disk_prune.h"

/* A file is this header, the client's text, the module, the program. Numbers are in the machine's byte order, which is
 * part of the magic number. */
typedef struct file_header {
    uint64_t magic, checksum; /* of all that follows the checksum */
    uint64_t client_length, module_length, program_length;
} file_header;
#define MAGIC UINT64_C(0x315045434A505401) /* the format's number is the last byte: raise it when the format changes */

enum { LONGEST_PATH = 4096, LONGEST_NAME = 64, PRUNE_INTERVAL = 64 * 1024 * 1024 };

struct tpj_disk {
    int64_t most_bytes;
    _Atomic int64_t bytes_until_prune; /* zero: look at the folder when something is saved next */
    _Atomic bool read_only;            /* a write failed */
    char folder[];
};

tpj_disk *tpj_disk_open(const char *folder, int64_t most_bytes) {
    size_t n = strlen(folder) + 1;
    if (n + LONGEST_NAME > LONGEST_PATH) {
        tpj_log(TPJ_LOG_WARNING, "no program cache: the path of its folder is too long");
        return NULL;
    }
    tpj_disk *disk = malloc(sizeof *disk + n);
    if (disk == NULL) return NULL;
    *disk = (tpj_disk){.most_bytes = most_bytes};
    memcpy(disk->folder, folder, n);
    return disk;
}

void tpj_disk_close(tpj_disk *disk) { free(disk); }

/* ---- names ---- */
typedef struct key_hash {
    uint64_t high, low;
} key_hash;

static key_hash hash_key(const tpj_disk_key *key) {
    key_hash hash = {1, 2};
    hash.high =
        tpj_hash_bytes(tpj_hash_bytes(hash.high, key->client, key->client_length), key->module, key->module_length);
    hash.low =
        tpj_hash_bytes(tpj_hash_bytes(hash.low, key->client, key->client_length), key->module, key->module_length);
    return hash;
}

/* Folders of a 256th each: some file systems are slow with very many files in one. */
static void write_path(const tpj_disk *disk, key_hash hash, char path[LONGEST_PATH]) {
    snprintf(path, LONGEST_PATH, "%s/%02x/%014" PRIx64 "%016" PRIx64 TPJ_DISK_SUFFIX, disk->folder,
             (unsigned)(hash.high >> 56), hash.high & (UINT64_MAX >> 8), hash.low);
}

/* ---- reading ---- */
static bool read_all(int file, void *data, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t got = read(file, (char *)data + at, n - at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += (size_t)got;
    }
    return true;
}

static uint64_t checksum_of(const file_header *header, const void *text, size_t n) {
    const uint64_t lengths[] = {header->client_length, header->module_length, header->program_length};
    return tpj_hash_bytes(tpj_hash_words(header->magic, lengths, 3), text, n);
}

/* NULL: a file that is not whole or not ours, or (not `out_damaged`) no memory. */
static char *read_file(int file, file_header *out_header, bool *out_damaged) {
    struct stat status;
    *out_damaged = true;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return NULL;
    uint64_t left = (uint64_t)status.st_size;
    if (left < sizeof *out_header || !read_all(file, out_header, sizeof *out_header)) return NULL;
    left -= sizeof *out_header;
    uint64_t client = out_header->client_length, module = out_header->module_length;
    if (out_header->magic != MAGIC || client > left || module > left - client ||
        out_header->program_length != left - client - module)
        return NULL;
    char *text = malloc((size_t)left + 1);
    *out_damaged = text != NULL && (!read_all(file, text, (size_t)left) ||
                                    checksum_of(out_header, text, (size_t)left) != out_header->checksum);
    if (*out_damaged) {
        free(text);
        text = NULL;
    }
    return text;
}

static bool is_key(const file_header *header, const char *text, const tpj_disk_key *key) {
    return header->client_length == key->client_length && header->module_length == key->module_length &&
           memcmp(text, key->client, key->client_length) == 0 &&
           memcmp(text + key->client_length, key->module, key->module_length) == 0;
}

/* The time of a file says when it was used last, to the hour: a write for each read would cost more than the read. */
static void mark_used(int file) {
    struct stat status;
    if (fstat(file, &status) == 0 && time(NULL) - status.st_mtime > 3600) (void)!futimens(file, NULL);
}

void *tpj_disk_find(tpj_disk *disk, const tpj_disk_key *key, size_t *out_n_bytes) {
    char path[LONGEST_PATH];
    file_header header;
    if (disk == NULL) return NULL;
    write_path(disk, hash_key(key), path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    bool damaged;
    char *text = read_file(file, &header, &damaged);
    if (text != NULL && is_key(&header, text, key)) {
        mark_used(file);
        *out_n_bytes = (size_t)header.program_length;
        memmove(text, text + key->client_length + key->module_length, (size_t)header.program_length);
    } else {
        free(text);
        text = NULL;
    }
    close(file);
    if (damaged) {
        tpj_log(TPJ_LOG_INFO, "%s is damaged or of another version and is removed", path);
        unlink(path);
    }
    return text;
}

/* ---- writing ---- */
static bool write_all(int file, const void *data, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t put = write(file, (const char *)data + at, n - at);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += (size_t)put;
    }
    return true;
}

static bool make_folder(const char *path) { return mkdir(path, 0700) == 0 || errno == EEXIST; }

/* The folders of a path, up to its last '/'. Those that are made are the user's alone. */
static bool make_folders(char *path) {
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        bool made = make_folder(path);
        *at = '/';
        if (!made) return false;
    }
    return true;
}

static void give_up_writing(tpj_disk *disk, int error) {
    if (!atomic_exchange(&disk->read_only, true))
        tpj_log(TPJ_LOG_WARNING, "compiled programs are not kept in %s: %s", disk->folder, strerror(error));
}

/* A file that no other writer has; renamed to `path` when it is whole. */
static bool write_file(tpj_disk *disk, char *path, const file_header *header, const char *text, size_t n) {
    static _Atomic unsigned n_written;
    char draft[LONGEST_PATH + LONGEST_NAME];
    if (!make_folders(path)) return false;
    snprintf(draft, sizeof draft, "%s/" TPJ_DISK_DRAFT "%ld-%u", disk->folder, (long)getpid(),
             atomic_fetch_add(&n_written, 1));
    int file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return false;
    bool good = write_all(file, header, sizeof *header) && write_all(file, text, n);
    int error = errno;
    if (close(file) != 0 && good) {
        error = errno;
        good = false;
    }
    if (good && rename(draft, path) != 0) {
        error = errno;
        good = false;
    }
    if (!good) unlink(draft);
    errno = error;
    return good;
}

static void prune_sometimes(tpj_disk *disk, size_t n_bytes) {
    if (disk->most_bytes < 0 || atomic_fetch_sub(&disk->bytes_until_prune, (int64_t)n_bytes) > (int64_t)n_bytes) return;
    int64_t left = disk->most_bytes - tpj_disk_prune(disk->folder, disk->most_bytes);
    int64_t interval = left < PRUNE_INTERVAL ? left / 2 : PRUNE_INTERVAL; /* others write too */
    atomic_store(&disk->bytes_until_prune, interval);
}

void tpj_disk_save(tpj_disk *disk, const tpj_disk_key *key, const void *data, size_t n_bytes) {
    char path[LONGEST_PATH];
    if (disk == NULL || atomic_load_explicit(&disk->read_only, memory_order_relaxed)) return;
    file_header header = {MAGIC, 0, key->client_length, key->module_length, n_bytes};
    size_t n = key->client_length + key->module_length + n_bytes;
    if (disk->most_bytes >= 0 && n > (uint64_t)disk->most_bytes) return;
    char *text = malloc(n + 1);
    if (text == NULL) return;
    memcpy(text, key->client, key->client_length);
    memcpy(text + key->client_length, key->module, key->module_length);
    memcpy(text + key->client_length + key->module_length, data, n_bytes);
    header.checksum = checksum_of(&header, text, n);
    write_path(disk, hash_key(key), path);
    if (!write_file(disk, path, &header, text, n)) give_up_writing(disk, errno);
    free(text);
    prune_sometimes(disk, n);
}

void tpj_disk_remove(tpj_disk *disk, const tpj_disk_key *key) {
    char path[LONGEST_PATH];
    if (disk == NULL) return;
    write_path(disk, hash_key(key), path);
    unlink(path);
}

/* ---- one compilation a key ----
 * A byte of one file for each key, locked for as long as the file is open: nothing to clean up after a process that died,
 * and threads exclude each other as processes do. */
int tpj_disk_lock(tpj_disk *disk, const tpj_disk_key *key) {
    char path[LONGEST_PATH];
    if (disk == NULL || atomic_load_explicit(&disk->read_only, memory_order_relaxed)) return -1;
    snprintf(path, sizeof path, "%s/" TPJ_DISK_LOCK, disk->folder);
    int file = make_folders(path) ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0) return -1;
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(hash_key(key).low >> 2), .l_len = 1};
    while (fcntl(file, F_OFD_SETLKW, &lock) != 0) {
        if (errno == EINTR) continue;
        close(file);
        return -1;
    }
    return file;
}

void tpj_disk_unlock(int lock) {
    if (lock >= 0) close(lock);
}
