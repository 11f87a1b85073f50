/*
 * A group's use includes its page cache and the kernel's own caches, so these are subtracted. Files in /dev/shm are not
 * page cache and stay counted. ZFS has its own cache (ARC), which the kernel counts as used: everything above its
 * minimum size counts as free.
 */
#include "base/memory_limits.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_LIMIT (UINT64_C(1) << 62) /* from here up: groups of version 1 print a huge number */

enum { TEXT_BYTES = 16384, PATH_BYTES = 1024 };

/* Names in a version of control groups. */
typedef struct group_version {
    const char *behind; /* the path of a group follows it in /proc/self/cgroup */
    const char *top;    /* the usual place of all groups */
    const char *max, *high, *used;
    const char *cached[3]; /* lines of memory.stat */
} group_version;

static const group_version versions[] = {
    { .behind = "0::",
      .top = "/sys/fs/cgroup",
      .max = "memory.max",
      .high = "memory.high",
      .used = "memory.current",
      .cached = { "inactive_file ", "active_file ", "slab_reclaimable " } },
    { .behind = ":memory:",
      .top = "/sys/fs/cgroup/memory",
      .max = "memory.limit_in_bytes",
      .high = "memory.limit_in_bytes",
      .used = "memory.usage_in_bytes",
      .cached = { "total_inactive_file ", "total_active_file ", "total_slab_reclaimable " } },
};

/* ---- files ---- */

/* The text of a file, "" if there is none. */
static const char *read_text(const char *root, const char *folder, const char *name, char text[TEXT_BYTES])
{
    char path[PATH_BYTES];
    size_t n_bytes = 0;
    ssize_t n;
    int fd;

    text[0] = '\0';
    if (snprintf(path, sizeof(path), "%s%s/%s", root, folder, name) >= (int)sizeof(path))
        return text;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return text;
    while (n_bytes < TEXT_BYTES - 1 && (n = read(fd, text + n_bytes, TEXT_BYTES - 1 - n_bytes)) > 0)
        n_bytes += (size_t)n;
    (void)close(fd); /* only read from */
    text[n_bytes] = '\0';
    return text;
}

/* The text after a word at the beginning of a line; NULL: none. */
static const char *text_behind(const char *text, const char *word)
{
    const size_t n = strlen(word);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, n) == 0)
            return line + n;
    }
    return NULL;
}

/* The number after a word at the beginning of a line. False, with 0: none. */
static bool number_behind(const char *text, const char *word, uint64_t *out)
{
    const char *at = text_behind(text, word);

    *out = at ? strtoull(at, NULL, 10) : 0;
    return at != NULL;
}

/* "some avg10=1.23 ..." */
static double stall_of(const char *text)
{
    const char *at = strncmp(text, "some ", 5) == 0 ? strstr(text, "avg10=") : NULL;

    return at ? strtod(at + strlen("avg10="), NULL) : 0;
}

/* ---- the machine ---- */

/* A ZFS statistic: "NAME TYPE VALUE". */
static uint64_t zfs_number(const char *text, const char *name)
{
    const char *at = text_behind(text, name);
    char *type_end = NULL;

    if (!at)
        return 0;
    (void)strtoull(at, &type_end, 10);
    return strtoull(type_end, NULL, 10);
}

/* Bytes in the ZFS cache that can be reclaimed. */
static uint64_t zfs_bytes(const char *root)
{
    char text[TEXT_BYTES];
    uint64_t size, least;

    (void)read_text(root, "/proc/spl/kstat/zfs", "arcstats", text);
    size = zfs_number(text, "size ");
    least = zfs_number(text, "c_min ");
    return size > least ? size - least : 0;
}

static void read_machine(const char *root, hth_memory_limits *out)
{
    char text[TEXT_BYTES];
    uint64_t total, available, used, zfs;
    double stall = stall_of(read_text(root, "/proc", "pressure/memory", text));

    (void)read_text(root, "/proc", "meminfo", text);
    if (!number_behind(text, "MemTotal:", &total) || !number_behind(text, "MemAvailable:", &available) ||
        available > total || total > UINT64_MAX / 1024)
        return;
    used = (total - available) * 1024;
    zfs = zfs_bytes(root);
    used -= zfs < used ? zfs : 0; /* it may be larger than the use: a container sees the cache of its host */
    hth_memory_limits_add(out, used, total * 1024, stall);
}

/* ---- groups ---- */

/* A number in a file; NO_LIMIT: none. */
static uint64_t read_number(const char *root, const char *folder, const char *name)
{
    char text[TEXT_BYTES];
    uint64_t number;

    if (!isdigit((unsigned char)*read_text(root, folder, name, text)))
        return NO_LIMIT;
    number = strtoull(text, NULL, 10);
    return number < NO_LIMIT ? number : NO_LIMIT;
}

static void read_group(const char *root, const char *folder, const group_version *version, hth_memory_limits *out)
{
    const uint64_t max = read_number(root, folder, version->max), high = read_number(root, folder, version->high);
    const uint64_t limit = max < high ? max : high, used = read_number(root, folder, version->used);
    uint64_t cached = 0, bytes;
    char text[TEXT_BYTES];

    if (limit == NO_LIMIT || used == NO_LIMIT)
        return;
    (void)read_text(root, folder, "memory.stat", text);
    for (size_t i = 0; i < sizeof(version->cached) / sizeof(version->cached[0]); i++)
        if (number_behind(text, version->cached[i], &bytes))
            cached += bytes;
    hth_memory_limits_add(out, used > cached ? used - cached : 0, limit,
                          stall_of(read_text(root, folder, "memory.pressure", text)));
}

/* The process's own group and all above it. */
static void read_groups(const char *root, const group_version *version, hth_memory_limits *out)
{
    char text[TEXT_BYTES], folder[PATH_BYTES];
    const char *own = strstr(read_text(root, "/proc", "self/cgroup", text), version->behind);
    char *slash;

    own = own ? own + strlen(version->behind) : "";
    if (*own != '/' ||
        snprintf(folder, sizeof(folder), "%s%.*s", version->top, (int)strcspn(own, "\n"), own) >= (int)sizeof(folder))
        return;
    if (folder[strlen(folder) - 1] == '/')
        folder[strlen(folder) - 1] = '\0';
    while (strlen(folder) >= strlen(version->top)) {
        read_group(root, folder, version, out);
        slash = strrchr(folder, '/');
        *slash = '\0';
    }
}

/* ---- limits ---- */

void hth_memory_limits_read(const char *root, hth_memory_limits *out)
{
    out->n = 0;
    read_machine(root, out);
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        read_groups(root, &versions[i], out);
}

void hth_memory_limits_add(hth_memory_limits *to, uint64_t used, uint64_t total, double stall)
{
    if (total > 0 && to->n < HTH_MEMORY_LIMITS_MAX)
        to->at[to->n++] = (hth_memory_limit){ .used_bytes = used, .total_bytes = total, .stall = stall };
}

uint64_t hth_memory_limits_total_bytes(const hth_memory_limits *limits)
{
    uint64_t least = limits->n > 0 ? limits->at[0].total_bytes : 0;

    for (size_t i = 1; i < limits->n; i++)
        least = limits->at[i].total_bytes < least ? limits->at[i].total_bytes : least;
    return least;
}

uint64_t hth_memory_limits_free_bytes(const hth_memory_limits *limits)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < limits->n; i++) {
        const hth_memory_limit *limit = &limits->at[i];
        const uint64_t rest = limit->used_bytes < limit->total_bytes ? limit->total_bytes - limit->used_bytes : 1;

        least = rest < least ? rest : least;
    }
    return limits->n > 0 ? least : 0;
}
