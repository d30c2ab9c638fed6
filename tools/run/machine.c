/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TEXT_BYTES = 8192 };

/* What files of the kernel say: as much as there is room for, "" where one cannot be read. */
struct kernel_text {
    char data[TEXT_BYTES];
};

static bool read_text(struct kernel_text *out, const char *root, const char *path)
{
    char whole[PATH_MAX];
    ssize_t bytes = -1;
    out->data[0] = 0;
    if (snprintf(whole, sizeof whole, "%s%s", root, path) >= (int)sizeof whole)
        return false;
    int file = open(whole, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        bytes = read(file, out->data, sizeof out->data - 1);
        close(file);
    }
    out->data[bytes > 0 ? bytes : 0] = 0;
    return bytes > 0;
}

/* NULL: there is no more. */
static const char *after_next(const char *text, char separator)
{
    const char *at = strchr(text, separator);
    return at ? at + 1 : NULL;
}

/* The number after a key at the begin of a line; 0 where there is none. */
static uint64_t number_of(const struct kernel_text *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = text->data; line; line = after_next(line, '\n'))
        if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == ':'))
            return strtoull(line + length + 1, NULL, 10);
    return 0;
}

/* --- control groups --- */

static const struct hierarchy {
    const char *controller; /* in /proc/self/cgroup; "" is that of version 2 */
    const char *mount, *limit, *used;
    const char *files[2]; /* pages of files, which the kernel drops before it kills */
} hierarchies[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}},
    {"memory",
     "/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file"}},
};

/* The group's path in a hierarchy: a line of /proc/self/cgroup is NUMBER:CONTROLLERS:PATH. */
static bool find_group(const char *root, const char *controller, char out[PATH_MAX])
{
    struct kernel_text text;
    read_text(&text, root, "/proc/self/cgroup");
    char *rest = NULL;
    for (char *line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path || path[1] != '/')
            continue;
        *path++ = 0;
        for (const char *name = names + 1; name; name = after_next(name, ',')) {
            size_t length = strcspn(name, ",");
            if (strlen(controller) != length || strncmp(name, controller, length) != 0)
                continue;
            snprintf(out, PATH_MAX, "%s", path);
            return true;
        }
    }
    return false;
}

/* UINT64_MAX: the group has no limit, or is not to be seen from this container. */
static uint64_t left_by(const char *root, const struct hierarchy *h, const char *group)
{
    struct kernel_text limit, used, pages;
    char path[PATH_MAX];
    const struct {
        const char *name;
        struct kernel_text *text;
    } files[] = {{h->limit, &limit}, {h->used, &used}, {"memory.stat", &pages}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        int length = snprintf(path, sizeof path, "%s%s/%s", h->mount, group, files[i].name);
        if (length >= (int)sizeof path || !read_text(files[i].text, root, path))
            return UINT64_MAX;
    }
    if (limit.data[0] < '0' || limit.data[0] > '9') /* "max" */
        return UINT64_MAX;
    uint64_t most = strtoull(limit.data, NULL, 10), taken = strtoull(used.data, NULL, 10);
    uint64_t dropped = number_of(&pages, h->files[0]) + number_of(&pages, h->files[1]);
    taken -= dropped < taken ? dropped : taken;
    return most > taken ? most - taken : 0;
}

/* Limits of the groups above hold too. In a container the path may be one of the host: then only
 * the hierarchy's own root is there, which is the container's group. */
static uint64_t left_by_groups(const char *root, const struct hierarchy *h)
{
    char group[PATH_MAX];
    uint64_t least = UINT64_MAX;
    if (!find_group(root, h->controller, group))
        return least;
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = 0;
        uint64_t left = left_by(root, h, group);
        least = left < least ? left : least;
    }
    return least;
}

/* --- the process --- */

static uint64_t left_by_limit(const char *root)
{
    struct kernel_text pages;
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        !read_text(&pages, root, "/proc/self/statm"))
        return UINT64_MAX;
    uint64_t taken = strtoull(pages.data, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    return limit.rlim_cur > taken ? limit.rlim_cur - taken : 0;
}

struct free_memory machine_free_memory(const char *root)
{
    struct free_memory out = {UINT64_MAX, "the machine", left_by_limit(root)};
    struct kernel_text memory;
    if (read_text(&memory, root, "/proc/meminfo") && strstr(memory.data, "MemAvailable:"))
        out.shared_bytes = number_of(&memory, "MemAvailable") * 1024;
    for (size_t i = 0; i < sizeof hierarchies / sizeof *hierarchies; i++) {
        uint64_t left = left_by_groups(root, &hierarchies[i]);
        if (left < out.shared_bytes) {
            out.shared_bytes = left;
            out.shared_by = "the control group";
        }
    }
    return out;
}

/* --- cores --- */

uint32_t machine_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return count > 0 ? (uint32_t)count : 1;
}

/* The first line has the ticks of all cores: user, nice, system, idle, iowait, irq, softirq and
 * steal. */
uint64_t machine_busy_ns(const char *root)
{
    enum { IDLE = 3, IOWAIT = 4, KINDS = 8 };
    struct kernel_text stat;
    uint64_t ticks = 0;
    if (!read_text(&stat, root, "/proc/stat") || strncmp(stat.data, "cpu ", 4) != 0)
        return 0;
    char *at = stat.data + 4;
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t spent = strtoull(at, &at, 10);
        ticks += kind == IDLE || kind == IOWAIT ? 0 : spent;
    }
    return ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

void machine_processor(char *out, size_t bytes)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(out, bytes, "cpu");
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value || strlen(value) < 4)
            continue;
        value[strcspn(value, "\n")] = 0;
        snprintf(out, bytes, "%s", value + 2);
        break;
    }
    if (file)
        fclose(file);
}
