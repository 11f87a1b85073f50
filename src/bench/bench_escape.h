/*
 * bench_escape.h - text in an HTML page
 */
#ifndef HTH_BENCH_BENCH_ESCAPE_H
#define HTH_BENCH_BENCH_ESCAPE_H

#include "api/buffer.h"

/* Append text with the characters of HTML escaped. */
void hth_bench_escape_add(hth_buffer *out, const char *text);

#endif
