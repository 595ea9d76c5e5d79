/* The wall clock of a process, moved: loaded before libc, by LD_PRELOAD.
 *
 * The file that CAMPAIGN_CLOCK names holds by how many nanoseconds, as a number of 8 bytes; whoever
 * writes it moves the clock of all processes that have it. Waits until a moment of the wall clock
 * last as long as without this: the moment is moved back. A moment since the start of the machine is
 * told from one since 1970 by its size.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define SINCE_1970 1000000000LL

static const volatile long long *moved;

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("CAMPAIGN_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *at = mmap(NULL, sizeof *moved, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED)
        moved = at;
}

static void move(struct timespec *time, int direction)
{
    if (!moved)
        return;
    long long all = time->tv_sec * SECOND + time->tv_nsec + direction * *moved;
    time->tv_sec = all / SECOND;
    time->tv_nsec = all % SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real ? real(clock, time) : (int)syscall(SYS_clock_gettime, clock, time);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        move(time, 1);
    return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *given)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (given)
        *given = now.tv_sec;
    return now.tv_sec;
}

static const struct timespec *until(const struct timespec *given, struct timespec *made)
{
    if (!given || given->tv_sec < SINCE_1970)
        return given;
    *made = *given;
    move(made, -1);
    return made;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict end)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec made;
    if (!real) {
        /* An older symbol of the same name takes another structure. */
        real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        if (!real)
            real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    }
    return real(condition, lock, until(end, &made));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict lock, const struct timespec *restrict end)
{
    static int (*real)(pthread_mutex_t *, const struct timespec *);
    struct timespec made;
    if (!real)
        real = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    return real(lock, until(end, &made));
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict end)
{
    static int (*real)(sem_t *, const struct timespec *);
    struct timespec made;
    if (!real)
        real = dlsym(RTLD_NEXT, "sem_timedwait");
    return real(semaphore, until(end, &made));
}
