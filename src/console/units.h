/*
 * units.h - numbers in a readable form
 */
#ifndef HTH_CONSOLE_UNITS_H
#define HTH_CONSOLE_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* Write "1.3 GiB" to text. Returns text. */
const char *hth_size_text(uint64_t bytes, char text[32]);
/* Write "0 s", "90 s" or "3 h" to text: at least two of a larger unit, rounded down. Returns text. */
const char *hth_time_text(uint64_t ms, char text[32]);
/* Write "1 row" or "2 rows" to text. Returns text. */
const char *hth_count_text(uint64_t n, const char *thing, char text[32]);

#endif
