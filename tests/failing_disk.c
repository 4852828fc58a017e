/* For LD_PRELOAD: lets writing, reading or forcing a SQLite database (".db") or its log ("-wal") to
   the disk fail, on command, and leaves of the log what a loss of power would. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SYNC, WRITE, READ, KINDS };
static int kind = -1, code, times, fired;
static long left;

/* After `n` calls of a kind (0: fsync, 1: pwrite, 2: pread of the log; 3, 4, 5: of the database) the
   next `t` of them fail with errno `c`. */
void fail(int k, long n, int c, int t) { kind = k; left = n; code = c; times = t; }

/* How many calls have failed. */
int failures(void) { return fired; }

static int ends_with(int file, const char *ending) {
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name), size = strlen(ending);
    return length > size && !memcmp(name + length - size, ending, size);
}

static int is_log(int file) { return ends_with(file, "-wal"); }

static int fails(int k, int file) {
    if (kind < 0 || k != kind % KINDS || !ends_with(file, kind < KINDS ? "-wal" : ".db")) return 0;
    if (left > 0) { left--; return 0; }
    if (--times == 0) kind = -1;
    fired++;
    errno = code;
    return 1;
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, #name)

/* What of a log has reached the disk: shared by all processes, as the disk is. A page that could not
   be forced to the disk counts as clean from then on, as in Linux: it is read, but never written. */
enum { PAGE = 4096, PAGES = 1024 };
static struct disk {
    unsigned char pages[PAGES * PAGE], dirty[PAGES];
    off_t length, durable;
} *disk;

/* From now on, until the power is lost: an empty disk. */
void watch(void) {
    if (!disk)
        disk = mmap(0, sizeof *disk, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(disk, 0, sizeof *disk);
}

static void wrote(int file, off_t place, size_t size) {
    if (!disk || !size || !is_log(file)) return;
    for (off_t page = place / PAGE; page <= (off_t)(place + size - 1) / PAGE; page++)
        disk->dirty[page] = 1;
    if (disk->length < (off_t)(place + size)) disk->length = place + size;
}

static ssize_t plain_pread(int file, void *data, size_t size, off64_t place) {
    REAL(ssize_t, pread64, int, void *, size_t, off64_t);
    return real(file, data, size, place);
}

static int synced(int file, int result) {
    if (!disk || !is_log(file)) return result;
    for (off_t page = 0; page < PAGES; page++)
        if (disk->dirty[page]) {
            disk->dirty[page] = 0;
            unsigned char *to = disk->pages + page * PAGE;
            if (!result && plain_pread(file, to, PAGE, page * PAGE) < 0) abort();
        }
    if (!result) disk->durable = disk->length;
    return result;
}

/* Leaves of a log what has reached the disk. */
void power_loss(const char *log) {
    int file = open(log, O_WRONLY | O_TRUNC);
    if (file < 0 || write(file, disk->pages, disk->durable) != disk->durable) abort();
    close(file);
    munmap(disk, sizeof *disk);
    disk = 0;
}

int fsync(int file) {
    REAL(int, fsync, int);
    return synced(file, fails(SYNC, file) ? -1 : real(file));
}

int fdatasync(int file) {
    REAL(int, fdatasync, int);
    return synced(file, fails(SYNC, file) ? -1 : real(file));
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t place) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    int failed = fails(WRITE, file), error = errno;
    ssize_t done = real(file, data, failed ? size / 2 : size, place); /* half of it in any case */
    if (done > 0) wrote(file, place, done);
    errno = failed ? error : errno;
    return failed ? -1 : done;
}

ssize_t pread64(int file, void *data, size_t size, off64_t place) {
    return fails(READ, file) ? -1 : plain_pread(file, data, size, place);
}

ssize_t pread(int file, void *data, size_t size, off_t place) {
    return pread64(file, data, size, place);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t place) {
    return pwrite64(file, data, size, place);
}
