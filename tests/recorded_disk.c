/* For LD_PRELOAD: records every change of the files of one database, or ends the process by SIGKILL
   at one of the changes: before, in the middle of, or after it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { BEFORE, MIDDLE, AFTER };
static char database[4096];
static int record = -1, where;
static long left = -1, changes;

/* From now on, changes of this database are recorded to a file, unless it is -1. */
void watch(const char *path, int file) { strcpy(database, path); record = file; changes = 0; }

/* After `n` further changes the process dies, at the next. */
void die_at(long n, int w) { left = n; where = w; }

long changes_so_far(void) { return changes; }

/* 'd': the database, 'l': its log, 'm': the commit marker, 'j': what SQLite keeps while there is no
   log; 0: another file. */
static char which(const char *name) {
    size_t length = strlen(database);
    if (!length || strncmp(name, database, length)) return 0;
    name += length;
    if (!*name) return 'd';
    if (!strcmp(name, "-wal")) return 'l';
    if (!strcmp(name, "-journal")) return 'j';
    return strcmp(name, "-acknowledged") ? 0 : 'm';
}

static char which_open(int file) {
    char link[64], name[4096];
    if (!*database) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length <= 0) return 0;
    name[length] = 0;
    return which(name);
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, #name)

static void put(const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    if (record >= 0 && real(record, data, size) != (ssize_t)size) kill(getpid(), SIGABRT);
}

/* An entry: kind (w, s: forced to the disk, t: cut, u: deleted, a: acknowledged), file, place or
   number, bytes, and these. */
static void note(char kind, char file, int64_t place, const void *data, uint32_t size) {
    char head[14] = {kind, file};
    memcpy(head + 2, &place, 8);
    memcpy(head + 10, &size, 4);
    put(head, sizeof head);
    if (size) put(data, size);
}

void acknowledge(long number) { note('a', '-', number, 0, 0); }

static int dies(char file, int at) { return file && left == 0 && where == at; }

static void end(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

#define CHANGE(file, half, call, entry) \
    if (dies(file, BEFORE)) end(); \
    if (dies(file, MIDDLE)) { half; end(); } \
    long done = call; \
    if (file) { entry; if (left == 0) end(); changes++; if (left > 0) left--; } \
    return done

ssize_t pwrite64(int number, const void *data, size_t size, off64_t place) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    char file = which_open(number);
    CHANGE(file, real(number, data, size / 2, place), real(number, data, size, place),
           note('w', file, place, data, size));
}

ssize_t pwrite(int number, const void *data, size_t size, off_t place) {
    return pwrite64(number, data, size, place);
}

int fsync(int number) {
    REAL(int, fsync, int);
    char file = which_open(number);
    CHANGE(file, , real(number), note('s', file, 0, 0, 0));
}

int fdatasync(int number) {
    REAL(int, fdatasync, int);
    char file = which_open(number);
    CHANGE(file, , real(number), note('s', file, 0, 0, 0));
}

int ftruncate64(int number, off64_t length) {
    REAL(int, ftruncate64, int, off64_t);
    char file = which_open(number);
    CHANGE(file, , real(number, length), note('t', file, length, 0, 0));
}

int ftruncate(int number, off_t length) { return ftruncate64(number, length); }

int unlink(const char *name) {
    REAL(int, unlink, const char *);
    char file = which(name);
    CHANGE(file, , real(name), note('u', file, 0, 0, 0));
}
