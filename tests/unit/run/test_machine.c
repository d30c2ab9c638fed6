/* SPDX-License-Identifier: Apache-2.0 */
/* The least of what machine, control groups and limit leave, by files as Linux has them: version 1
 * and 2, limits above the process's own group, containers that see only their own; and what is free
 * where files are missing, cut or strange. Cores, and how busy they are. */
#include "check.h"
#include "machine.h"

#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define GB          UINT64_C(1000000000)
#define LIMIT_BYTES (100000 * GB) /* ASan's shadow memory fits */

static char root[] = "/tmp/remat-machine-XXXXXX";

static void put(const char *path, const char *text)
{
    char whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    MUST(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind;
    return walk->level ? remove(path) : 0;
}

static void clear(void)
{
    MUST(nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

static void expect(const char *what, uint64_t bytes, const char *by)
{
    struct free_memory found = machine_free_memory(root);
    CHECK(found.shared_bytes == bytes && strcmp(found.shared_by, by) == 0,
          "%s: %llu bytes by %s, expected %llu by %s", what, (unsigned long long)found.shared_bytes,
          found.shared_by, (unsigned long long)bytes, by);
    clear();
}

static void machine(void)
{
    put("/proc/meminfo", "MemTotal: 9000000 kB\nMemFree:  100 kB\nMemAvailable:    4000000 kB\n");
}

static void v2(const char *group, const char *limit, const char *used, const char *stat)
{
    char path[PATH_MAX];
    const char *const files[][2] = {
        {"memory.max", limit}, {"memory.current", used}, {"memory.stat", stat}};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, files[i][0]);
        put(path, files[i][1]);
    }
}

static void v1(const char *group, const char *limit, const char *used, const char *stat)
{
    char path[PATH_MAX];
    const char *const files[][2] = {
        {"memory.limit_in_bytes", limit}, {"memory.usage_in_bytes", used}, {"memory.stat", stat}};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/%s", group, files[i][0]);
        put(path, files[i][1]);
    }
}

#define PAGES "anon 1\ninactive_file 200000000\nactive_file 100000000\nfile 7\n"
#define PAGES_V1                                                                                   \
    "cache 5\ninactive_file 1\nactive_file 2\ntotal_inactive_file 200000000\n"                     \
    "total_active_file 100000000\n"

static void test_groups(void)
{
    machine();
    expect("no groups", 4000000 * UINT64_C(1024), "the machine");

    machine();
    put("/proc/self/cgroup", "0::/a/b\n");
    v2("/a/b", "2000000000\n", "1500000000\n", PAGES);
    v2("/a", "max\n", "1700000000\n", PAGES);
    expect("version 2", 2 * GB - (1500000000 - 300000000), "the control group");

    machine();
    put("/proc/self/cgroup", "0::/a/b\n");
    v2("/a/b", "max\n", "1500000000\n", PAGES);
    v2("/a", "2000000000\n", "1900000000\n", PAGES);
    expect("the group above", 2 * GB - 1600000000, "the control group");

    machine();
    put("/proc/self/cgroup", "0::/\n");
    v2("", "1000000000\n", "100\n", "anon 1\n");
    expect("a container of version 2", GB - 100, "the control group");

    machine();
    put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/a/b\n0::/y\n");
    v1("/a/b", "2000000000\n", "1500000000\n", PAGES_V1);
    v1("/a", "9223372036854771712\n", "1500000000\n", PAGES_V1);
    v1("", "9223372036854771712\n", "1500000000\n", PAGES_V1);
    expect("version 1", 2 * GB - 1200000000, "the control group");

    machine();
    put("/proc/self/cgroup", "4:memory:/docker/0123\n");
    v1("", "1500000000\n", "400000000\n", PAGES_V1);
    expect("a container of version 1", 1500000000 - 100000000, "the control group");

    machine();
    put("/proc/self/cgroup", "0::/a\n");
    v2("/a", "1000\n", "2000000000\n", "anon 1\n");
    expect("above its limit", 0, "the control group");

    machine();
    put("/proc/self/cgroup", "0::/a\n");
    v2("/a", "1000000000\n", "200000000\n", PAGES);
    expect("more pages than bytes", GB, "the control group");
}

static void test_strange(void)
{
    expect("nothing", UINT64_MAX, "the machine");
    put("/proc/meminfo", "MemTotal: 9000000 kB\n");
    expect("an old kernel", UINT64_MAX, "the machine");
    static const char *const lines[] = {"",
                                        "0",
                                        "0:",
                                        "0::",
                                        "0::a",
                                        ":::::\n\n",
                                        "0::/../../x\n",
                                        "memory",
                                        "1:memory",
                                        "1:memory:\n0::/none\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        machine();
        put("/proc/self/cgroup", lines[i]);
        expect(lines[i], 4000000 * UINT64_C(1024), "the machine");
    }
    machine();
    put("/proc/self/cgroup", "0::/a\n");
    v2("/a", "", "5\n", PAGES);
    expect("an empty limit", 4000000 * UINT64_C(1024), "the machine");
}

static void test_own(void)
{
    CHECK(machine_free_memory("").own_bytes == UINT64_MAX, "there is no limit");
    char text[64];
    struct rlimit limit = {LIMIT_BYTES, RLIM_INFINITY};
    long page = sysconf(_SC_PAGESIZE);
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
    snprintf(text, sizeof text, "%llu 7 7 1 0 9 0\n", (unsigned long long)(3 * GB) / page);
    put("/proc/self/statm", text);
    uint64_t own = machine_free_memory(root).own_bytes;
    CHECK(own >= LIMIT_BYTES - 3 * GB && own < LIMIT_BYTES - 3 * GB + (uint64_t)page, "%llu",
          (unsigned long long)own);
    clear();
    own = machine_free_memory("").own_bytes;
    CHECK(own > 0 && own < LIMIT_BYTES, "of this process: %llu", (unsigned long long)own);
}

static void test_cores(void)
{
    static const struct {
        const char *text;
        uint64_t ticks;
    } cases[] = {
        {"cpu  100 20 3000 77777 88888 4 50000 600000 7 8\ncpu0 1 1 1 1 1 1 1 1 1 1\n", 653124},
        {"cpu  1 2 3 4\n", 6}, /* an old kernel */
        {"intr 5\n", 0},
        {"cpu0 5 5 5 5 5 5 5 5 5 5\n", 0},
    };
    const uint64_t tick_ns = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    CHECK(machine_busy_ns(root) == 0, "no file");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("/proc/stat", cases[i].text);
        CHECK(machine_busy_ns(root) == cases[i].ticks * tick_ns, "%s: %llu", cases[i].text,
              (unsigned long long)machine_busy_ns(root));
        clear();
    }
    cpu_set_t set, one;
    MUST(sched_getaffinity(0, sizeof set, &set) == 0);
    CHECK(machine_cores() == (uint32_t)CPU_COUNT(&set), "%u cores", machine_cores());
    CPU_ZERO(&one);
    for (int c = 0; c < CPU_SETSIZE && !CPU_COUNT(&one); c++)
        if (CPU_ISSET(c, &set))
            CPU_SET(c, &one);
    MUST(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(machine_cores() == 1, "bound to one: %u", machine_cores());
}

int main(void)
{
    MUST(mkdtemp(root));
    struct free_memory here = machine_free_memory("");
    CHECK(here.shared_bytes > 0 && here.shared_bytes < UINT64_MAX, "of this machine");
    test_groups();
    test_strange();
    test_own();
    test_cores();
    rmdir(root);
    return check_exit();
}
