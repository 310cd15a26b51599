/* Loaded before the C library: below one folder, the n-th write, sync, rename or new file fails
 * or brings a signal. Tests call fault_at; until then nothing happens.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static long strike_at, lasting;
static atomic_long reached;
static int with_error, with_signal, told;
static char folder[PATH_MAX];

void fault_at(long at, int error, int signal_number, int lasts, const char *below, int tell) {
    snprintf(folder, sizeof folder, "%s/", below);
    with_error = error;
    with_signal = signal_number;
    lasting = lasts;
    told = tell;
    strike_at = at;
}

static int strikes(int inside) {
    if (!strike_at || !inside) return 0;
    long now = ++reached;
    if (now < strike_at || (now > strike_at && !lasting)) return 0;
    if (now == strike_at) {
        syscall(SYS_write, told, "x", 1);
        if (with_signal) kill(getpid(), with_signal);
    }
    if (with_error) errno = with_error;
    return with_error != 0;
}

static int below(const char *path) {
    char whole[PATH_MAX];
    if (path[0] == '/') return !strncmp(path, folder, strlen(folder));
    if (!getcwd(whole, sizeof whole - 1)) return 0;
    strcat(whole, "/");
    return !strncmp(whole, folder, strlen(folder));
}

static int opened_below(int file) {
    char link[64], path[PATH_MAX];
    struct stat at;
    if (!strike_at || fstat(file, &at) || !(S_ISREG(at.st_mode) || S_ISDIR(at.st_mode))) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 2);
    if (length < 0) return 0;
    strcpy(path + length, "/");
    return below(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(type, name, parameters, inside, ...)            \
    type name parameters {                                   \
        if (strikes(inside)) return -1;                      \
        return REAL(name)(__VA_ARGS__);                      \
    }

WRAP(ssize_t, write, (int f, const void *b, size_t n), opened_below(f), f, b, n)
WRAP(ssize_t, pwrite, (int f, const void *b, size_t n, off_t o), opened_below(f), f, b, n, o)
WRAP(ssize_t, pwrite64, (int f, const void *b, size_t n, off64_t o), opened_below(f), f, b, n, o)
WRAP(ssize_t, writev, (int f, const struct iovec *v, int n), opened_below(f), f, v, n)
WRAP(int, fsync, (int f), opened_below(f), f)
WRAP(int, fdatasync, (int f), opened_below(f), f)
WRAP(int, ftruncate, (int f, off_t n), opened_below(f), f, n)
WRAP(int, ftruncate64, (int f, off64_t n), opened_below(f), f, n)
WRAP(int, rename, (const char *a, const char *b), below(b), a, b)
WRAP(int, renameat, (int d, const char *a, int e, const char *b), below(b), d, a, e, b)
WRAP(int, link, (const char *a, const char *b), below(b), a, b)
WRAP(int, linkat, (int d, const char *a, int e, const char *b, int f), below(b), d, a, e, b, f)

static int makes(const char *path, int flags) {
    return (flags & O_CREAT) && strike_at && below(path) && access(path, F_OK);
}

#define WRAP_OPEN(name)                                      \
    int name(const char *path, int flags, ...) {             \
        va_list more;                                        \
        va_start(more, flags);                               \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                        \
        if (strikes(makes(path, flags))) return -1;          \
        return REAL(name)(path, flags, mode);                \
    }
WRAP_OPEN(open)
WRAP_OPEN(open64)
