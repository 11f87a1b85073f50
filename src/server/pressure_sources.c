/*
 * pressure_sources.c - see pressure_sources.h
 *
 * A group's use includes its page cache, which is freed when memory is wanted; so its files are subtracted, and the
 * kernel's own caches. Rows in /dev/shm are no such files, and stay counted.
 */
#include "server/pressure_sources.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 8192, PATH_BYTES = 1024 };

/* ---- files ---- */

/* The text of a file, "" if there is none. */
static const char *read_text(const char *root, const char *folder, const char *name, char text[TEXT_BYTES])
{
    char path[PATH_BYTES];
    ssize_t n = -1;
    int fd;

    text[0] = '\0';
    if (snprintf(path, sizeof(path), "%s%s/%s", root, folder, name) >= (int)sizeof(path))
        return text;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, TEXT_BYTES - 1);
        (void)close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* The number behind a word at the beginning of a line. False: there is none. */
static bool number_behind(const char *text, const char *word, uint64_t *out)
{
    const size_t n = strlen(word);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, n) == 0) {
            *out = strtoull(line + n, NULL, 10);
            return true;
        }
    }
    *out = 0;
    return false;
}

/* "some avg10=1.23 ..." */
static double stall_of(const char *text)
{
    const char *at = strncmp(text, "some ", 5) == 0 ? strstr(text, "avg10=") : NULL;

    return at ? strtod(at + strlen("avg10="), NULL) : 0;
}

static void add_limit(hth_pressure_sample *out, uint64_t used, uint64_t total, double stall)
{
    if (total > 0 && out->n < HTH_PRESSURE_LIMITS_MAX)
        out->limits[out->n++] = (hth_pressure_limit){ .used_bytes = used, .total_bytes = total, .stall = stall };
}

/* ---- the system ---- */

static void read_machine(const char *root, hth_pressure_sample *out)
{
    char text[TEXT_BYTES];
    uint64_t total, available;
    double stall = stall_of(read_text(root, "/proc", "pressure/memory", text));

    (void)read_text(root, "/proc", "meminfo", text);
    if (number_behind(text, "MemTotal:", &total) && number_behind(text, "MemAvailable:", &available) &&
        available <= total)
        add_limit(out, (total - available) * 1024, total * 1024, stall);
}

/* A limit in a file; UINT64_MAX: none. */
static uint64_t read_limit(const char *root, const char *folder, const char *name)
{
    char text[TEXT_BYTES];

    return isdigit((unsigned char)*read_text(root, folder, name, text)) ? strtoull(text, NULL, 10) : UINT64_MAX;
}

static void read_group(const char *root, const char *folder, hth_pressure_sample *out)
{
    const uint64_t max = read_limit(root, folder, "memory.max"), high = read_limit(root, folder, "memory.high");
    uint64_t used = read_limit(root, folder, "memory.current");
    uint64_t inactive, active, slab, cached;
    char text[TEXT_BYTES];

    if ((max == UINT64_MAX && high == UINT64_MAX) || used == UINT64_MAX)
        return;
    (void)read_text(root, folder, "memory.stat", text);
    (void)number_behind(text, "inactive_file ", &inactive); /* 0 without, here and below */
    (void)number_behind(text, "active_file ", &active);
    (void)number_behind(text, "slab_reclaimable ", &slab);
    cached = inactive + active + slab;
    used = used > cached ? used - cached : 0;
    add_limit(out, used, max < high ? max : high, stall_of(read_text(root, folder, "memory.pressure", text)));
}

void hth_pressure_read_system(const char *root, hth_pressure_sample *out)
{
    static const char top[] = "/sys/fs/cgroup";
    char text[TEXT_BYTES], folder[PATH_BYTES];
    const char *own;
    char *slash;

    out->n = 0;
    read_machine(root, out);
    own = strstr(read_text(root, "/proc", "self/cgroup", text), "0::/");
    if (!own)
        return;
    own += strlen("0::");
    if (snprintf(folder, sizeof(folder), "%s%.*s", top, (int)strcspn(own, "\n"), own) >= (int)sizeof(folder))
        return;
    if (folder[strlen(folder) - 1] == '/')
        folder[strlen(folder) - 1] = '\0';
    while (strlen(folder) >= strlen(top)) {
        read_group(root, folder, out);
        slash = strrchr(folder, '/');
        *slash = '\0';
    }
}

/* ---- programs ---- */

/* A number at the beginning of *at, which is put behind it, and behind any of the characters that follow. */
static bool take_number(const char **at, const char *behind, uint64_t *out)
{
    char *end = NULL;

    if (!isdigit((unsigned char)**at))
        return false;
    *out = strtoull(*at, &end, 10);
    *at = end + strspn(end, behind);
    return true;
}

bool hth_pressure_read_devices(const char *text, hth_pressure_sample *out)
{
    uint64_t used, total;

    out->n = 0;
    while (*text) {
        if (!take_number(&text, ", ", &used) || !take_number(&text, " \r\n", &total) || used > total ||
            total > UINT32_MAX)
            return false;
        add_limit(out, used << 20, total << 20, 0);
    }
    return out->n > 0;
}

bool hth_pressure_read_command(const char *text, uint64_t total_bytes, hth_pressure_sample *out)
{
    const char *at = text;
    char *end = NULL;
    uint64_t used, total;
    double share;

    out->n = 0;
    if (take_number(&at, " ", &used) && take_number(&at, " \r\n", &total) && !*at) {
        add_limit(out, used, total, 0);
        return out->n > 0;
    }
    share = strtod(text, &end);
    if (end == text || end[strspn(end, " \r\n")] || !(share >= 0 && share <= 1) || total_bytes == 0)
        return false;
    add_limit(out, (uint64_t)(share * (double)total_bytes), total_bytes, 0);
    return true;
}
