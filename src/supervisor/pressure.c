#include "supervisor/pressure.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/smaller.h"

/* percent of bytes, without overflow. */
static uint64_t part_of(uint64_t bytes, uint32_t percent)
{
    return bytes / 100 * percent + bytes % 100 * percent / 100;
}

uint64_t hth_pressure_decide(const hth_memory_limits *sample, const hth_pressure_marks *marks, bool *is_pressed)
{
    const uint32_t low_percent = marks->low_percent < marks->high_percent ? marks->low_percent : marks->high_percent;
    uint64_t over = 0;
    bool begins = false;

    for (size_t i = 0; i < sample->n; i++) {
        const hth_memory_limit *limit = &sample->at[i];
        const uint64_t low = part_of(limit->total_bytes, low_percent);
        const bool is_stalled = marks->stall_percent > 0 && limit->stall >= marks->stall_percent;

        if (limit->used_bytes <= low)
            continue;
        over = limit->used_bytes - low > over ? limit->used_bytes - low : over;
        begins |= is_stalled || limit->used_bytes >= part_of(limit->total_bytes, marks->high_percent);
    }
    *is_pressed = over > 0 && (begins || *is_pressed);
    if (!*is_pressed)
        return 0;
    return over > marks->evict_bytes_min ? over : marks->evict_bytes_min;
}

double hth_pressure_use(const hth_memory_limits *sample)
{
    double use = 0;

    for (size_t i = 0; i < sample->n; i++) {
        const hth_memory_limit *limit = &sample->at[i];
        const double of_limit = limit->total_bytes > 0 ? (double)limit->used_bytes / (double)limit->total_bytes : 0;

        use = of_limit > use ? of_limit : use;
    }
    return use;
}

/* ---- samples that programs print ---- */

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

/* ---- departures ---- */

enum { HELPS = 8 }; /* a mapped file counts for its model, but the system could have freed it before */

void hth_departures_judge(hth_departures *departures, uint64_t wanted_bytes, uint64_t coming_bytes)
{
    const uint64_t longest_ns = departures->first_ns << HTH_DEPARTURES_DOUBLINGS;

    if (wanted_bytes == 0) {
        *departures = (hth_departures){ .first_ns = departures->first_ns };
        return;
    }
    if (departures->leaving_bytes == 0 || coming_bytes > 0)
        return;
    if (wanted_bytes < departures->wanted_bytes &&
        departures->wanted_bytes - wanted_bytes >= departures->leaving_bytes / HELPS)
        departures->wait_ns = 0;
    else
        departures->wait_ns =
            departures->wait_ns == 0 ? departures->first_ns : hth_smaller(2 * departures->wait_ns, longest_ns);
    departures->leaving_bytes = 0;
}

void hth_departures_note(hth_departures *departures, uint64_t wanted_bytes, uint64_t leaving_bytes)
{
    if (departures->leaving_bytes == 0)
        departures->wanted_bytes = wanted_bytes;
    departures->leaving_bytes += leaving_bytes;
}

bool hth_departures_keep(const hth_departures *departures, uint64_t used_ns, uint64_t now_ns)
{
    return now_ns < used_ns || now_ns - used_ns < departures->wait_ns;
}
