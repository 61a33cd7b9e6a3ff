/* A wall clock that a program moves for itself alone, preloaded: LD_PRELOAD.

   In: a file of eight bytes, which MOVED_CLOCK names: by how many nanoseconds the clock is ahead. Whoever writes to it moves
   the clock. Out: that time wherever the process asks for it, and on files that are put in their place by a rename or a link,
   as all of delta-rs' are: it tells by their times which of them are old. Clocks that count seconds go on as ever. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

static const volatile long long *ahead_ns;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("MOVED_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead_ns, PROT_READ, MAP_SHARED, file, 0);
    if (found == MAP_FAILED)
        abort();
    close(file);
    ahead_ns = found;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && ahead_ns != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long moved_ns = now->tv_sec * SECOND_NS + now->tv_nsec + *ahead_ns;
        now->tv_sec = moved_ns / SECOND_NS;
        now->tv_nsec = moved_ns % SECOND_NS;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now != NULL)
        *now = found.tv_sec;
    return found.tv_sec;
}

static int dated(int result, int folder, const char *path) {
    struct timespec times[2];
    if (result == 0) {
        clock_gettime(CLOCK_REALTIME, &times[0]);
        times[1] = times[0];
        utimensat(folder, path, times, 0);
    }
    return result;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    return dated((int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0), to_folder, to);
}

int rename(const char *from, const char *to) {
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    return dated((int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags), to_folder, to);
}

int link(const char *from, const char *to) {
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
