/*
 * instant.h - points in time as text in UTC
 *
 *     2027-01-31             the beginning of the day
 *     2027-01-31T18:00Z      also with seconds, "T18:00:00Z"
 *     30d, 12h, 90min, 2w    relative to now, on a command line
 *     now, never             likewise
 */
#ifndef HTH_CONSOLE_INSTANT_H
#define HTH_CONSOLE_INSTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTH_INSTANT_BYTES = 32 };

/*
 * Read a text as Unix time; 0 is "never". now_s 0: only dates are allowed. False, with *out unchanged, if the text has
 * another form, or the time is before 1970 or after 9999.
 */
bool hth_instant_read(const char *text, int64_t now_s, int64_t *out);
/* Write the time as "2027-01-31T18:00:00Z"; 0 is "never". */
void hth_instant_write(int64_t unix_s, char text[HTH_INSTANT_BYTES]);

#endif
