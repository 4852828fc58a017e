/* For LD_PRELOAD: lets writing or forcing a SQLite log ("-wal") to the disk fail, on command. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SYNC, WRITE };
static int kind = -1, code, times;
static long left;

/* After `n` calls of a kind (0: fsync, 1: pwrite) the next `t` of them fail with errno `c`. */
void fail(int k, long n, int c, int t) { kind = k; left = n; code = c; times = t; }

/* How many failures are still to come. */
int to_come(void) { return kind < 0 ? 0 : times; }

static int is_log(int file) {
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name);
    return length > 4 && !memcmp(name + length - 4, "-wal", 4);
}

static int fails(int k, int file) {
    if (k != kind || !is_log(file)) return 0;
    if (left > 0) { left--; return 0; }
    if (--times == 0) kind = -1;
    errno = code;
    return 1;
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, #name)

int fsync(int file) { REAL(int, fsync, int); return fails(SYNC, file) ? -1 : real(file); }

int fdatasync(int file) { REAL(int, fdatasync, int); return fails(SYNC, file) ? -1 : real(file); }

ssize_t pwrite64(int file, const void *data, size_t size, off64_t place) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    if (!fails(WRITE, file)) return real(file, data, size, place);
    int error = errno; /* half of it is written all the same */
    real(file, data, size / 2, place);
    errno = error;
    return -1;
}

ssize_t pwrite(int file, const void *data, size_t size, off_t place) {
    return pwrite64(file, data, size, place);
}
