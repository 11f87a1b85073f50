#include "console/units.h"

#include <stdio.h>

const char *hth_size_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

const char *hth_time_text(uint64_t ms, char text[32])
{
    static const struct {
        uint64_t ms;
        const char *name;
    } units[] = { { 86400000, "d" }, { 3600000, "h" }, { 60000, "min" } };

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (ms >= 2 * units[i].ms) {
            (void)snprintf(text, 32, "%llu %s", (unsigned long long)(ms / units[i].ms), units[i].name);
            return text;
        }
    }
    (void)snprintf(text, 32, "%llu s", (unsigned long long)(ms / 1000));
    return text;
}

const char *hth_count_text(uint64_t n, const char *thing, char text[32])
{
    (void)snprintf(text, 32, "%llu %s%s", (unsigned long long)n, thing, n == 1 ? "" : "s");
    return text;
}
