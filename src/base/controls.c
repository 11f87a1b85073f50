/*
 * All functions go through the text once, and treat the two bytes of a C1 character as one. So neither byte is left
 * over, and all other UTF-8 is passed through byte for byte, even where it is malformed.
 */
#include "base/controls.h"

#include <string.h>

/* The length of a control character or a mark; 0: none. */
static size_t strange_bytes(const char *text, size_t n)
{
    const size_t n_control = hth_control_bytes(text, n);

    return n_control > 0 ? n_control : hth_mark_bytes(text, n);
}

bool hth_has_controls(const char *text)
{
    for (size_t n = strlen(text); n > 0; text++, n--)
        if (strange_bytes(text, n) > 0)
            return true;
    return false;
}

void hth_controls_blank(char *text)
{
    size_t n = strlen(text);

    while (n > 0) {
        const size_t n_control = strange_bytes(text, n), n_step = n_control > 0 ? n_control : 1;

        memset(text, ' ', n_control);
        text += n_step;
        n -= n_step;
    }
}

bool hth_controls_leave_out(const char *text, size_t n_bytes, FILE *out)
{
    size_t begin = 0;
    bool written = true;

    for (size_t i = 0; i < n_bytes; i++) {
        const size_t n_control = hth_control_bytes(text + i, n_bytes - i);

        if (n_control == 0 || text[i] == '\n' || text[i] == '\t')
            continue;
        written &= fwrite(text + begin, 1, i - begin, out) == i - begin;
        begin = i + n_control;
        i = begin - 1;
    }
    return fwrite(text + begin, 1, n_bytes - begin, out) == n_bytes - begin && written;
}
