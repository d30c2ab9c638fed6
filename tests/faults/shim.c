/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a tool: counts the calls of a family and makes the n-th one fail, or kills the
 * process there. Configured by the environment (faults.py sets it):
 *
 *     REMAT_FAULT_FAMILY  memory, write, name, remove or sync, which are writes, too (below)
 *     REMAT_FAULT_AT      n, counted from 1; 0: count only
 *     REMAT_FAULT_MODE    once: only the n-th fails; on: all from it on; kill: SIGKILL there
 *     REMAT_FAULT_ERROR   errno of the failure, a number (of memory: always ENOMEM)
 *     REMAT_FAULT_FAT     set: there are neither hard links nor files without a name
 *     REMAT_FAULT_COUNT   a file for the counts, "memory 812\nwrite 4\n...", written at exit
 *
 * Counted is what happens within main, but for the dynamic loader. Within libc nothing calls write
 * or close by a name that a library could take, so streams opened for writing and standard output
 * are streams of ours; standard error is left alone. */
#undef _FILE_OFFSET_BITS /* or open would be another name of open64 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

/* What glibc exports of its own allocator. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *pointer, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

enum family { MEMORY, WRITE, NAME, REMOVE, SYNC, FAMILY_COUNT };
static const char *const families[] = {"memory", "write", "name", "remove", "sync"};
enum mode { ONCE, ON, KILL };
static const char *const modes[] = {"once", "on", "kill"};

static struct {
    int family, mode, error;
    uint64_t at;
    bool fat;
    const char *count_path;
} fault = {.family = -1};
static atomic_uint_fast64_t counts[FAMILY_COUNT];
static atomic_bool armed;
static _Thread_local int in_loader;

static int find(const char *const *names, int count, const char *name)
{
    for (int i = 0; name && i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* Counts a call; true when it has to fail, with errno set. */
static bool fails(enum family family)
{
    if (!atomic_load(&armed) || in_loader)
        return false;
    uint64_t number = atomic_fetch_add(&counts[family], 1) + 1;
    if ((int)family != fault.family || fault.at == 0 || number < fault.at ||
        (number > fault.at && fault.mode != ON))
        return false;
    if (fault.mode == KILL)
        syscall(SYS_kill, getpid(), SIGKILL);
    errno = family == MEMORY ? ENOMEM : fault.error;
    return true;
}

/* The next definition of a function. */
#define NEXT(type, name, ...)                                                                      \
    static type (*next)(__VA_ARGS__);                                                              \
    if (!next) {                                                                                   \
        in_loader++;                                                                               \
        *(void **)&next = dlsym(RTLD_NEXT, name);                                                  \
        in_loader--;                                                                               \
    }

/* --- memory --- */

PUBLIC void *malloc(size_t bytes)
{
    return fails(MEMORY) ? NULL : __libc_malloc(bytes);
}

PUBLIC void *calloc(size_t count, size_t bytes)
{
    return fails(MEMORY) ? NULL : __libc_calloc(count, bytes);
}

PUBLIC void *realloc(void *pointer, size_t bytes)
{
    return bytes > 0 && fails(MEMORY) ? NULL : __libc_realloc(pointer, bytes);
}

PUBLIC void *aligned_alloc(size_t alignment, size_t bytes)
{
    return fails(MEMORY) ? NULL : __libc_memalign(alignment, bytes);
}

PUBLIC void *memalign(size_t alignment, size_t bytes);
PUBLIC void *memalign(size_t alignment, size_t bytes)
{
    return aligned_alloc(alignment, bytes);
}

PUBLIC int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    int before = errno;
    void *block = aligned_alloc(alignment, bytes);
    errno = before;
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

/* --- the dynamic loader --- */

PUBLIC void *dlopen(const char *path, int flags)
{
    NEXT(void *, "dlopen", const char *, int)
    in_loader++;
    void *library = next(path, flags);
    in_loader--;
    return library;
}

PUBLIC int dlclose(void *library)
{
    NEXT(int, "dlclose", void *)
    in_loader++;
    int result = next(library);
    in_loader--;
    return result;
}

/* --- writes --- */

PUBLIC ssize_t write(int fd, const void *data, size_t bytes)
{
    bool kills = fault.mode == KILL && fault.family == WRITE;
    if (kills && atomic_load(&armed) && fd != STDERR_FILENO &&
        atomic_load(&counts[WRITE]) + 1 == fault.at)
        syscall(SYS_write, fd, data, bytes / 2); /* killed in the middle */
    return fd != STDERR_FILENO && fails(WRITE) ? -1 : syscall(SYS_write, fd, data, bytes);
}

PUBLIC ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    return fails(WRITE) ? -1 : syscall(SYS_pwrite64, fd, data, bytes, at);
}

PUBLIC ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at)
{
    return pwrite(fd, data, bytes, at);
}

PUBLIC ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return fd != STDERR_FILENO && fails(WRITE) ? -1 : syscall(SYS_writev, fd, parts, count);
}

PUBLIC int ftruncate(int fd, off_t bytes)
{
    return fails(WRITE) ? -1 : (int)syscall(SYS_ftruncate, fd, bytes);
}

PUBLIC int ftruncate64(int fd, off_t bytes)
{
    return ftruncate(fd, bytes);
}

PUBLIC int fsync(int fd)
{
    return fails(SYNC) || fails(WRITE) ? -1 : (int)syscall(SYS_fsync, fd);
}

PUBLIC int fdatasync(int fd)
{
    return fails(SYNC) || fails(WRITE) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

/* Of what was open for writing. It is closed whatever is said of it. */
PUBLIC int close(int fd)
{
    int flags = fcntl(fd, F_GETFL), error = 0;
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fd != STDERR_FILENO && fails(WRITE))
        error = errno;
    int result = (int)syscall(SYS_close, fd);
    if (error)
        errno = error;
    return error ? -1 : result;
}

/* --- names --- */

PUBLIC int rename(const char *from, const char *to)
{
    return fails(NAME) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

PUBLIC int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return fails(NAME) ? -1 : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

PUBLIC int renameat2(int from_folder, const char *from, int to_folder, const char *to,
                     unsigned int flags)
{
    return fails(NAME) ? -1 : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

PUBLIC int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    if (fails(NAME))
        return -1;
    if (fault.fat) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

PUBLIC int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

PUBLIC int mkdir(const char *path, mode_t mode)
{
    return fails(NAME) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

PUBLIC int mkdirat(int folder, const char *path, mode_t mode)
{
    return fails(NAME) ? -1 : (int)syscall(SYS_mkdirat, folder, path, mode);
}

static int open_file(int folder, const char *path, int flags, va_list arguments)
{
    bool creates = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
    mode_t mode = creates ? va_arg(arguments, mode_t) : 0;
    if (creates && fails(NAME))
        return -1;
    if (fault.fat && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define OPEN(name)                                                                                 \
    PUBLIC int name(const char *path, int flags, ...)                                              \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        int fd = open_file(AT_FDCWD, path, flags, arguments);                                      \
        va_end(arguments);                                                                         \
        return fd;                                                                                 \
    }
#define OPEN_AT(name)                                                                              \
    PUBLIC int name(int folder, const char *path, int flags, ...)                                  \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        int fd = open_file(folder, path, flags, arguments);                                        \
        va_end(arguments);                                                                         \
        return fd;                                                                                 \
    }
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

/* --- names that go --- */

PUBLIC int unlink(const char *path)
{
    return fails(REMOVE) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

PUBLIC int unlinkat(int folder, const char *path, int flags)
{
    return fails(REMOVE) ? -1 : (int)syscall(SYS_unlinkat, folder, path, flags);
}

PUBLIC int rmdir(const char *path)
{
    return fails(REMOVE) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

PUBLIC int remove(const char *path)
{
    int result = unlink(path);
    return result != 0 && errno == EISDIR ? rmdir(path) : result;
}

/* --- streams: their descriptor is their cookie --- */

enum { STREAMS_MAX = 64 };
static struct {
    FILE *stream;
    int fd;
} streams[STREAMS_MAX];

static ssize_t stream_write(void *cookie, const char *data, size_t bytes)
{
    ssize_t written = write((int)(intptr_t)cookie, data, bytes);
    return written < 0 ? 0 : written; /* how a cookie says that it failed */
}

static int stream_seek(void *cookie, off64_t *at, int whence)
{
    *at = lseek((int)(intptr_t)cookie, *at, whence);
    return *at < 0 ? -1 : 0;
}

static int stream_close(void *cookie)
{
    for (int i = 0; i < STREAMS_MAX; i++)
        if (streams[i].stream && streams[i].fd == (int)(intptr_t)cookie)
            streams[i].stream = NULL;
    return close((int)(intptr_t)cookie);
}

static FILE *make_stream(int fd, const char *mode)
{
    cookie_io_functions_t functions = {
        .write = stream_write, .seek = stream_seek, .close = stream_close};
    FILE *stream = fopencookie((void *)(intptr_t)fd, mode, functions);
    for (int i = 0; stream && i < STREAMS_MAX; i++)
        if (!streams[i].stream) {
            streams[i].stream = stream;
            streams[i].fd = fd;
            break;
        }
    return stream;
}

PUBLIC FILE *fdopen(int fd, const char *mode)
{
    NEXT(FILE *, "fdopen", int, const char *)
    return *mode == 'r' ? next(fd, mode) : make_stream(fd, mode);
}

PUBLIC FILE *fopen(const char *path, const char *mode)
{
    NEXT(FILE *, "fopen", const char *, const char *)
    if (*mode == 'r')
        return next(path, mode);
    int flags = O_WRONLY | O_CREAT | (*mode == 'a' ? O_APPEND : O_TRUNC);
    int fd = open(path, flags | (strchr(mode, 'x') ? O_EXCL : 0), 0666);
    FILE *stream = fd < 0 ? NULL : make_stream(fd, mode);
    if (fd >= 0 && !stream) {
        int error = errno;
        syscall(SYS_close, fd);
        errno = error;
    }
    return stream;
}

PUBLIC FILE *fopen64(const char *path, const char *mode)
{
    return fopen(path, mode);
}

PUBLIC int fileno(FILE *stream)
{
    NEXT(int, "fileno", FILE *)
    for (int i = 0; i < STREAMS_MAX; i++)
        if (streams[i].stream == stream)
            return streams[i].fd;
    return next(stream);
}

/* --- main --- */

static int (*tool_main)(int argc, char **argv, char **environment);

static void write_counts(void)
{
    char text[256];
    int length = 0;
    for (int f = 0; f < FAMILY_COUNT; f++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s %llu\n", families[f],
                           (unsigned long long)atomic_load(&counts[f]));
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, fault.count_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    syscall(SYS_write, fd, text, length);
    syscall(SYS_close, fd);
}

static void end(void)
{
    if (atomic_exchange(&armed, false) && fault.count_path)
        write_counts();
}

static int counted_main(int argc, char **argv, char **environment)
{
    const char *at = getenv("REMAT_FAULT_AT"), *error = getenv("REMAT_FAULT_ERROR");
    int mode = find(modes, KILL + 1, getenv("REMAT_FAULT_MODE"));
    fault.family = find(families, FAMILY_COUNT, getenv("REMAT_FAULT_FAMILY"));
    fault.mode = mode < 0 ? ONCE : mode;
    fault.at = at ? strtoull(at, NULL, 10) : 0;
    fault.error = error ? atoi(error) : ENOSPC;
    fault.fat = getenv("REMAT_FAULT_FAT");
    fault.count_path = getenv("REMAT_FAULT_COUNT");
    FILE *stream = make_stream(STDOUT_FILENO, "w");
    if (stream)
        stdout = stream;
    atexit(end);
    atomic_store(&armed, true);
    return tool_main(argc, argv, environment);
}

PUBLIC int __libc_start_main(int (*entry)(int, char **, char **), int argc, char **argv,
                             void (*init)(void), void (*finish)(void), void (*loader)(void),
                             void *stack);
PUBLIC int __libc_start_main(int (*entry)(int, char **, char **), int argc, char **argv,
                             void (*init)(void), void (*finish)(void), void (*loader)(void),
                             void *stack)
{
    NEXT(int, "__libc_start_main", int (*)(int, char **, char **), int, char **, void (*)(void),
         void (*)(void), void (*)(void), void *)
    tool_main = entry;
    return next(counted_main, argc, argv, init, finish, loader, stack);
}
