/*
 * text_tail.h - the last bytes of a text that grows
 */
#ifndef HTH_BASE_TEXT_TAIL_H
#define HTH_BASE_TEXT_TAIL_H

#include <stddef.h>
#include <string.h>

/* Append to a text, [*n], and drop from its beginning what is more than n_max bytes. */
static inline void hth_text_keep_last(char *text, size_t *n, size_t n_max, const char *more, size_t n_more)
{
    if (n_more > n_max) {
        more += n_more - n_max;
        n_more = n_max;
    }
    if (*n + n_more > n_max) {
        size_t n_dropped = *n + n_more - n_max;

        memmove(text, text + n_dropped, *n - n_dropped);
        *n -= n_dropped;
    }
    memcpy(text + *n, more, n_more);
    *n += n_more;
}

#endif
