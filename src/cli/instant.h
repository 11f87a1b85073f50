/*
 * instant.h - points in time as people write them, in UTC
 *
 *     2027-01-31             its beginning
 *     2027-01-31T18:00Z      with seconds, "T18:00:00Z", too
 *     30d, 12h, 90min, 2w    so long after now, on a command line
 *     now, never             likewise
 */
#ifndef HTH_CLI_INSTANT_H
#define HTH_CLI_INSTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTH_INSTANT_BYTES = 32 };

/*
 * Unix time of a text; 0 is "never". now_s 0: only dates. False, with *out unchanged: it is no such text, or lies
 * before 1970 or beyond 9999.
 */
bool hth_instant_read(const char *text, int64_t now_s, int64_t *out);
/* As "2027-01-31T18:00:00Z"; 0 is "never". */
void hth_instant_write(int64_t unix_s, char text[HTH_INSTANT_BYTES]);

#endif
