#include "api/json_cursor.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

bool hth_cursor_skip_string(hth_cursor *text)
{
    const char *begin = text->at;

    for (;;) {
        const char *quote = text->at < text->end ? memchr(text->at, '"', (size_t)(text->end - text->at)) : NULL;
        size_t n_escapes = 0;

        if (!quote)
            return false;
        text->at = quote + 1;
        while (quote - n_escapes > begin && *(quote - n_escapes - 1) == '\\')
            n_escapes++;
        if (n_escapes % 2 == 0)
            return true;
    }
}

/* Skip an array or an object, starting after its opening bracket. */
static bool skip_nested(hth_cursor *text)
{
    size_t depth = 1;

    while (depth > 0 && text->at < text->end) {
        char c = *text->at++;

        if (c == '"' && !hth_cursor_skip_string(text))
            return false;
        if (c == '[' || c == '{')
            depth++;
        else if (c == ']' || c == '}')
            depth--;
    }
    return depth == 0;
}

/* Can c be part of a number, true, false or null? */
static bool is_of_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' ||
           c == '.';
}

bool hth_cursor_skip_value(hth_cursor *text)
{
    const char *begin = text->at;

    if (hth_cursor_take(text, '"'))
        return hth_cursor_skip_string(text);
    if (hth_cursor_take(text, '{') || hth_cursor_take(text, '['))
        return skip_nested(text);
    while (text->at < text->end && is_of_word(*text->at))
        text->at++;
    return text->at > begin;
}

/* Read the rest of an escape, starting after its backslash. */
static bool read_escape(hth_cursor *text, uint32_t *out)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *name;
    int32_t character;

    if (text->at == text->end)
        return false;
    if (*text->at == 'u') {
        text->at++;
        character = hth_utf16_escape(&text->at, text->end);
        *out = (uint32_t)character;
        return character > 0; /* NUL is refused */
    }
    name = *text->at ? strchr(names, *text->at) : NULL;
    if (!name)
        return false;
    text->at++;
    *out = (uint32_t)meanings[name - names];
    return true;
}

bool hth_cursor_read_string(hth_cursor *text, char *out, size_t n_max, bool *is_cut_out)
{
    size_t n = 0;
    bool is_cut = false;

    while (text->at < text->end && *text->at != '"') {
        char bytes[4];
        size_t n_bytes = 1;
        uint32_t character;

        if ((unsigned char)*text->at < ' ')
            return false;
        if (hth_cursor_take(text, '\\')) {
            if (!read_escape(text, &character))
                return false;
            n_bytes = hth_utf8_put(character, bytes);
        } else {
            bytes[0] = *text->at++;
        }
        is_cut = is_cut || n + n_bytes > n_max;
        if (is_cut)
            continue;
        memcpy(out + n, bytes, n_bytes);
        n += n_bytes;
    }
    out[n] = '\0';
    *is_cut_out = is_cut;
    return hth_cursor_take(text, '"');
}

/* Read the name of a member ("" if it is too long) and the colon after it. */
static bool read_key(hth_cursor *text, char key[HTH_CURSOR_KEY_BYTES_MAX + 1])
{
    bool is_cut;

    hth_cursor_skip_space(text);
    if (!hth_cursor_take(text, '"') || !hth_cursor_read_string(text, key, HTH_CURSOR_KEY_BYTES_MAX, &is_cut))
        return false;
    if (is_cut)
        key[0] = '\0';
    hth_cursor_skip_space(text);
    if (!hth_cursor_take(text, ':'))
        return false;
    hth_cursor_skip_space(text);
    return true;
}

bool hth_cursor_read_members(hth_cursor *text, hth_cursor_member_fn read, void *user_data)
{
    char key[HTH_CURSOR_KEY_BYTES_MAX + 1];

    hth_cursor_skip_space(text);
    if (hth_cursor_take(text, '}'))
        return true;
    do {
        if (!read_key(text, key) || !read(text, key, user_data))
            return false;
        hth_cursor_skip_space(text);
    } while (hth_cursor_take(text, ','));
    return hth_cursor_take(text, '}');
}

bool hth_cursor_read_elements(hth_cursor *text, hth_cursor_element_fn read, void *user_data)
{
    hth_cursor_skip_space(text);
    if (hth_cursor_take(text, ']'))
        return true;
    do {
        hth_cursor_skip_space(text);
        if (!read(text, user_data))
            return false;
        hth_cursor_skip_space(text);
    } while (hth_cursor_take(text, ','));
    return hth_cursor_take(text, ']');
}

/* The text without a byte order mark at its beginning. */
static hth_cursor begin_text(const char *body, size_t n)
{
    bool has_mark = n >= 3 && memcmp(body, "\xEF\xBB\xBF", 3) == 0;

    return (hth_cursor){ .at = body + (has_mark ? 3 : 0), .end = body + n };
}

bool hth_cursor_read_body(const char *body, size_t n, hth_cursor_member_fn read, void *user_data)
{
    hth_cursor text = begin_text(body, n);

    hth_cursor_skip_space(&text);
    return hth_cursor_take(&text, '{') && hth_cursor_read_members(&text, read, user_data);
}
