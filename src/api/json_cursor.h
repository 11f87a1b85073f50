/*
 * json_cursor.h - moves over a JSON text without parsing it
 *
 * A cursor stands in a text that belongs to the caller. Its functions move it over whole values, and read the few
 * values that the caller asks for. They skip strings with memchr from quote to quote, since strings make up most of a
 * long body; they skip arrays and objects by counting brackets, so no nesting makes them recurse. All take linear time
 * and allocate nothing. They do not validate: a text is malformed for them only where they cannot go on. Then they
 * return false, and the cursor stands somewhere in the text.
 */
#ifndef HTH_API_JSON_CURSOR_H
#define HTH_API_JSON_CURSOR_H

#include <stdbool.h>
#include <stddef.h>

enum { HTH_CURSOR_KEY_BYTES_MAX = 24 }; /* longer than any key that is searched for */

typedef struct hth_cursor {
    const char *at;
    const char *end;
} hth_cursor;

static inline bool hth_cursor_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline void hth_cursor_skip_space(hth_cursor *text)
{
    while (text->at < text->end && hth_cursor_is_space(*text->at))
        text->at++;
}

static inline bool hth_cursor_take(hth_cursor *text, char c)
{
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

/* Move from after the opening quote of a string to after its closing one. */
bool hth_cursor_skip_string(hth_cursor *text);
/* Move to after the value that begins here. */
bool hth_cursor_skip_value(hth_cursor *text);

/*
 * Decode a string into out, [n_max + 1], as far as it fits. text is after the opening quote and moves past the closing
 * one. *is_cut_out is set if the string did not fit.
 */
bool hth_cursor_read_string(hth_cursor *text, char *out, size_t n_max, bool *is_cut_out);

/*
 * Reads the value of a member, or skips it. Its key is "" if that is longer than HTH_CURSOR_KEY_BYTES_MAX. False ends
 * the search: the value is not JSON, or nothing more is wanted.
 */
typedef bool (*hth_cursor_member_fn)(hth_cursor *text, const char *key, void *user_data);
/* Read an object, starting after its opening brace. False if the search ended early. */
bool hth_cursor_read_members(hth_cursor *text, hth_cursor_member_fn read, void *user_data);
/* Read a text, [n], that is an object; a byte order mark before it is skipped. False if the search ended early. */
bool hth_cursor_read_body(const char *body, size_t n, hth_cursor_member_fn read, void *user_data);

/* Reads an element, or skips it; false as in hth_cursor_member_fn. */
typedef bool (*hth_cursor_element_fn)(hth_cursor *text, void *user_data);
/* Read an array, starting after its opening bracket. False if the search ended early. */
bool hth_cursor_read_elements(hth_cursor *text, hth_cursor_element_fn read, void *user_data);

#endif
