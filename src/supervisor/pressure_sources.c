/*
 * pressure_sources.c - see pressure_sources.h
 */
#include "supervisor/pressure_sources.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Read a number at the beginning of *at. *at then moves past it, and past any of these characters after it. */
static bool take_number(const char **at, const char *behind, uint64_t *out)
{
    char *end = NULL;

    if (!isdigit((unsigned char)**at))
        return false;
    *out = strtoull(*at, &end, 10);
    *at = end + strspn(end, behind);
    return true;
}

bool hth_pressure_read_devices(const char *text, hth_memory_limits *out)
{
    uint64_t used, total;

    out->n = 0;
    while (*text) {
        if (!take_number(&text, ", ", &used) || !take_number(&text, " \r\n", &total) || used > total ||
            total > UINT32_MAX)
            return false;
        hth_memory_limits_add(out, used << 20, total << 20, 0);
    }
    return out->n > 0;
}

bool hth_pressure_read_command(const char *text, uint64_t total_bytes, hth_memory_limits *out)
{
    const char *at = text;
    char *end = NULL;
    uint64_t used, total;
    double share;

    out->n = 0;
    if (take_number(&at, " ", &used) && take_number(&at, " \r\n", &total) && !*at) {
        hth_memory_limits_add(out, used, total, 0);
        return out->n > 0;
    }
    share = strtod(text, &end);
    if (end == text || end[strspn(end, " \r\n")] || !(share >= 0 && share <= 1) || total_bytes == 0)
        return false;
    hth_memory_limits_add(out, (uint64_t)(share * (double)total_bytes), total_bytes, 0);
    return true;
}
