/*
 * controls.h - control characters, which move a terminal's cursor, and command it
 *
 * They are C0 (below U+0020), DEL, and C1 (U+0080 to U+009F), whose UTF-8 is two bytes. Text of a model, a hub, a file
 * or another server may have them.
 */
#ifndef HTH_BASE_CONTROLS_H
#define HTH_BASE_CONTROLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The bytes of the control character at the beginning of n_bytes bytes of text; 0: there is none. */
static inline size_t hth_control_bytes(const char *text, size_t n_bytes)
{
    const unsigned char first = n_bytes > 0 ? (unsigned char)text[0] : ' ';

    if (first < 0x20 || first == 0x7f)
        return 1;
    return first == 0xc2 && n_bytes > 1 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xa0 ? 2 : 0;
}

bool hth_has_controls(const char *text);

/* Replace each byte of a control character by a space. */
void hth_controls_blank(char *text);

/* Write text without its control characters other than newline and tab. False: it could not be written. */
bool hth_controls_leave_out(const char *text, size_t n_bytes, FILE *out);

#endif
