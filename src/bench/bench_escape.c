/*
 * bench_escape.c - see bench_escape.h
 */
#include "bench/bench_escape.h"

#include <string.h>

void hth_bench_escape_add(hth_buffer *out, const char *text)
{
    static const struct {
        char plain;
        const char *escaped;
    } escapes[] = { { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" }, { '\'', "&#39;" } };

    while (*text) {
        const size_t n = strcspn(text, "&<>\"'");

        hth_buffer_add(out, text, n);
        text += n;
        for (size_t i = 0; *text && i < sizeof(escapes) / sizeof(escapes[0]); i++)
            if (*text == escapes[i].plain)
                hth_buffer_add_text(out, escapes[i].escaped);
        text += *text != '\0';
    }
}
