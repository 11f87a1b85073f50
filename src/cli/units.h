/*
 * units.h - numbers as people read them
 */
#ifndef HTH_CLI_UNITS_H
#define HTH_CLI_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* "1.3 GiB". Written to text, and returned. */
const char *hth_size_text(uint64_t bytes, char text[32]);
/* "90 s", "3 h": at least two of a unit, cut. Written to text, and returned. */
const char *hth_time_text(uint64_t ms, char text[32]);

#endif
