/*
 * controls.h - control characters, which can move a terminal's cursor and send it commands
 *
 * They are C0 (below U+0020), DEL, and C1 (U+0080 to U+009F), whose UTF-8 is two bytes. Text from a model, a hub, a
 * file or another server may contain them.
 */
#ifndef HTH_BASE_CONTROLS_H
#define HTH_BASE_CONTROLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The length of the control character at the start of n_bytes bytes of text; 0: none. */
static inline size_t hth_control_bytes(const char *text, size_t n_bytes)
{
    const unsigned char first = n_bytes > 0 ? (unsigned char)text[0] : ' ';

    if (first < 0x20 || first == 0x7f)
        return 1;
    return first == 0xc2 && n_bytes > 1 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xa0 ? 2 : 0;
}

/*
 * The length of a mark at the start of a text; 0: none. Such marks are invisible and can make a terminal or page
 * display a text misleadingly: direction marks (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), zero-width
 * spaces (U+200B, U+2060, U+FEFF), and line separators (U+2028, U+2029). U+200C and U+200D are not included, because
 * some scripts and emoji need them.
 */
static inline size_t hth_mark_bytes(const char *text, size_t n_bytes)
{
    const unsigned char *b = (const unsigned char *)text;

    if (n_bytes >= 2 && b[0] == 0xd8)
        return b[1] == 0x9c ? 2 : 0;
    if (n_bytes < 3)
        return 0;
    if (b[0] == 0xef)
        return b[1] == 0xbb && b[2] == 0xbf ? 3 : 0;
    if (b[0] != 0xe2)
        return 0;
    if (b[1] == 0x80)
        return b[2] == 0x8b || b[2] == 0x8e || b[2] == 0x8f || (b[2] >= 0xa8 && b[2] <= 0xae) ? 3 : 0;
    return b[1] == 0x81 && (b[2] == 0xa0 || (b[2] >= 0xa6 && b[2] <= 0xa9)) ? 3 : 0;
}

/* Does a text contain control characters or such marks? */
bool hth_has_controls(const char *text);

/*
 * Replace each byte of a control character or of such a mark with a space, so that untrusted text is safe to display.
 */
void hth_controls_blank(char *text);

/* Write text without its control characters, except newline and tab. False: it could not be written. */
bool hth_controls_leave_out(const char *text, size_t n_bytes, FILE *out);

#endif
