/* Writes down what processes do with the files below ROOT, into TRACE: loaded before libc, by LD_PRELOAD.
 *
 * Each record is written at once and appended, so that those of several processes have one order: what
 * one process did before another did something stands before it. `disk.py` reads them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FILES 65536

struct record {
    uint32_t size; /* of what follows this struct */
    uint8_t what;
    uint8_t filler[3];
    uint64_t time; /* CLOCK_MONOTONIC, ns */
    uint64_t inode;
    uint64_t offset; /* of a write, or the length that is left; else the length of the first name */
};

static uint64_t inodes[FILES]; /* by descriptor: the file below ROOT that it writes to, or 0 */
static pid_t mine; /* a child made by vfork has our memory, and closes its descriptors, not ours */

static void begun(void)
{
    mine = getpid();
}

__attribute__((constructor)) static void begin(void)
{
    begun();
    pthread_atfork(NULL, NULL, begun);
}

static int trace(void)
{
    static int file = -1;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (file < 0) {
        int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
        int low = real(TRACE, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        file = fcntl(low, F_DUPFD_CLOEXEC, 900); /* out of the way of who counts on low numbers */
        ((int (*)(int))dlsym(RTLD_NEXT, "close"))(low);
    }
    pthread_mutex_unlock(&lock);
    return file;
}

static void put(char what, uint64_t inode, uint64_t offset, const void *a, size_t na, const void *b, size_t nb)
{
    int kept = errno;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct record head = {.size = (uint32_t)(na + nb), .what = (uint8_t)what, .inode = inode, .offset = offset,
                          .time = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)a, na}, {(void *)b, nb}};
    ssize_t (*real)(int, const struct iovec *, int) =
        (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
    if (real(trace(), parts, 3) != (ssize_t)(sizeof head + na + nb))
        abort();
    errno = kept;
}

/* The whole name of a path that stands in a folder; whether it is below ROOT. */
static int whole(int folder, const char *path, char *out)
{
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
    } else {
        char link[64], base[PATH_MAX];
        if (folder == AT_FDCWD)
            snprintf(link, sizeof link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t n = readlink(link, base, sizeof base - 1);
        if (n < 0)
            return 0;
        base[n] = 0;
        if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX)
            return 0;
    }
    size_t n = strlen(ROOT);
    return !strncmp(out, ROOT, n) && (out[n] == '/' || !out[n]);
}

static void names(char what, const char *a, const char *b)
{
    put(what, 0, strlen(a), a, strlen(a), b, strlen(b));
}

static int opened(int file, const char *path, int flags, int was)
{
    int kept = errno;
    struct stat facts;
    if (file >= 0 && file < FILES) {
        inodes[file] = 0;
        if ((flags & O_ACCMODE) != O_RDONLY && !fstat(file, &facts) && S_ISREG(facts.st_mode)) {
            inodes[file] = facts.st_ino;
            if (!was)
                put('C', facts.st_ino, 0, path, strlen(path), "", 0);
            else if (flags & O_TRUNC)
                put('T', facts.st_ino, 0, "", 0, "", 0);
        }
    }
    errno = kept;
    return file;
}

#define OPEN(name, folder, first, ...)                                                       \
    {                                                                                        \
        int mode = 0;                                                                        \
        if (flags & (O_CREAT | O_TMPFILE)) {                                                 \
            va_list rest;                                                                    \
            va_start(rest, flags);                                                           \
            mode = va_arg(rest, int);                                                        \
            va_end(rest);                                                                    \
        }                                                                                    \
        REAL(name);                                                                          \
        char full[PATH_MAX];                                                                 \
        if (!whole(folder, path, full)) {                                                    \
            int file = real(first __VA_ARGS__, flags, mode);                                 \
            if (file >= 0 && file < FILES)                                                   \
                inodes[file] = 0;                                                            \
            return file;                                                                     \
        }                                                                                    \
        int kept = errno, was = !access(full, F_OK);                                         \
        errno = kept;                                                                        \
        return opened(real(first __VA_ARGS__, flags, mode), full, flags, was);               \
    }

int open(const char *path, int flags, ...) OPEN(open, AT_FDCWD, , path)
int open64(const char *path, int flags, ...) OPEN(open64, AT_FDCWD, , path)
int openat(int folder, const char *path, int flags, ...) OPEN(openat, folder, folder, , path)
int openat64(int folder, const char *path, int flags, ...) OPEN(openat64, folder, folder, , path)

int creat(const char *path, mode_t mode)
{
    return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int close(int file)
{
    REAL(close);
    if (file >= 0 && file < FILES && getpid() == mine)
        inodes[file] = 0;
    return real(file);
}

static uint64_t inode_of(int file)
{
    return file >= 0 && file < FILES ? inodes[file] : 0;
}

static void wrote(int file, const void *data, ssize_t n, off_t at)
{
    if (n > 0 && inode_of(file))
        put('W', inode_of(file), (uint64_t)(at < 0 ? lseek(file, 0, SEEK_CUR) - n : at), data, (size_t)n, "", 0);
}

ssize_t write(int file, const void *data, size_t n)
{
    REAL(write);
    ssize_t done = real(file, data, n);
    wrote(file, data, done, -1);
    return done;
}

ssize_t pwrite(int file, const void *data, size_t n, off_t at)
{
    REAL(pwrite);
    ssize_t done = real(file, data, n, at);
    wrote(file, data, done, at);
    return done;
}

ssize_t pwrite64(int file, const void *data, size_t n, off_t at)
{
    return pwrite(file, data, n, at);
}

ssize_t writev(int file, const struct iovec *parts, int n)
{
    REAL(writev);
    ssize_t done = real(file, parts, n), left = done;
    off_t at = inode_of(file) && done > 0 ? lseek(file, 0, SEEK_CUR) - done : 0;
    for (int i = 0; i < n && left > 0; i++) {
        ssize_t size = (ssize_t)parts[i].iov_len < left ? (ssize_t)parts[i].iov_len : left;
        wrote(file, parts[i].iov_base, size, at);
        at += size;
        left -= size;
    }
    return done;
}

int ftruncate(int file, off_t size)
{
    REAL(ftruncate);
    int failed = real(file, size);
    if (!failed && inode_of(file))
        put('T', inode_of(file), (uint64_t)size, "", 0, "", 0);
    return failed;
}

int ftruncate64(int file, off_t size)
{
    return ftruncate(file, size);
}

static int synced(int file, int failed)
{
    char link[64], path[PATH_MAX], full[PATH_MAX];
    struct stat facts;
    int kept = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (!failed && n > 0 && !fstat(file, &facts)) {
        path[n] = 0;
        if (whole(AT_FDCWD, path, full))
            put(S_ISDIR(facts.st_mode) ? 'F' : 'S', facts.st_ino, 0, path, (size_t)n, "", 0);
    }
    errno = kept;
    return failed;
}

int fsync(int file)
{
    REAL(fsync);
    return synced(file, real(file));
}

int fdatasync(int file)
{
    REAL(fdatasync);
    return synced(file, real(file));
}

int renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
    REAL(renameat2);
    char one[PATH_MAX], other[PATH_MAX];
    int mine = whole(from, a, one) & whole(to, b, other);
    int failed = real(from, a, to, b, flags);
    if (!failed && mine)
        names(flags & RENAME_EXCHANGE ? 'X' : 'R', one, other);
    return failed;
}

int renameat(int from, const char *a, int to, const char *b)
{
    return renameat2(from, a, to, b, 0);
}

int rename(const char *a, const char *b)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, 0);
}

int unlinkat(int folder, const char *path, int flags)
{
    REAL(unlinkat);
    char full[PATH_MAX];
    int mine = whole(folder, path, full);
    int failed = real(folder, path, flags);
    if (!failed && mine)
        names(flags & AT_REMOVEDIR ? 'D' : 'U', full, "");
    return failed;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int remove(const char *path)
{
    int failed = unlink(path);
    return failed && (errno == EISDIR || errno == EPERM) ? rmdir(path) : failed;
}

int linkat(int from, const char *a, int to, const char *b, int flags)
{
    REAL(linkat);
    char one[PATH_MAX], other[PATH_MAX];
    int mine = whole(from, a, one) & whole(to, b, other);
    int failed = real(from, a, to, b, flags);
    if (!failed && mine)
        names('L', one, other);
    return failed;
}

int link(const char *a, const char *b)
{
    return linkat(AT_FDCWD, a, AT_FDCWD, b, 0);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
    REAL(mkdirat);
    char full[PATH_MAX];
    int mine = whole(folder, path, full);
    int failed = real(folder, path, mode);
    if (!failed && mine)
        names('M', full, "");
    return failed;
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}
