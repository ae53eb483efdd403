/* Preloaded into the server: kills it on one side of a chosen commit of its SQLite database.
 *
 * KILL_AT_COMMIT names a file. Once it exists, its text, such as "before 3" or "after 3", names the side and the commit,
 * counted from then on. A commit is a sync of the write-ahead log; the first write to the log after the sync before it is
 * the moment in which the commit is decided but not yet on disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int armed, before, commit, syncs;

static int is_wal(int fd) {
    char link[32], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    return length > 4 && memcmp(path + length - 4, "-wal", 4) == 0;
}

static void arm(void) {
    const char *name = getenv("KILL_AT_COMMIT");
    FILE *file = name ? fopen(name, "r") : NULL;
    char side[8];
    if (!file) return;
    if (fscanf(file, "%7s %d", side, &commit) == 2) {
        before = strcmp(side, "before") == 0;
        armed = 1;
    }
    fclose(file);
}

static void pass_write(int fd) {
    if (!is_wal(fd)) return;
    if (!armed) arm();
    if (armed && before && syncs + 1 >= commit) kill(getpid(), SIGKILL);
}

static void pass_sync(int fd) {
    if (!armed || !is_wal(fd)) return;
    syncs++;
    if (!before && syncs >= commit) kill(getpid(), SIGKILL);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    pass_write(fd);
    return real(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t write(int fd, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    pass_write(fd);
    return real(fd, data, size);
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    int result = real(fd);
    pass_sync(fd);
    return result;
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    int result = real(fd);
    pass_sync(fd);
    return result;
}
