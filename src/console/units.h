/*
 * units.h - numbers as people read them
 */
#ifndef HTH_CONSOLE_UNITS_H
#define HTH_CONSOLE_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* "1.3 GiB". Written to text, and returned. */
const char *hth_size_text(uint64_t bytes, char text[32]);
/* "0 s", "90 s", "3 h": at least two of a larger unit, cut. Written to text, and returned. */
const char *hth_time_text(uint64_t ms, char text[32]);
/* "1 row", "2 rows". Written to text, and returned. */
const char *hth_count_text(uint64_t n, const char *thing, char text[32]);

#endif
