#include "models/reply_reading.h"

#include <string.h>

#include "base/utf8.h"
#include "engine/backend.h"

/* ---- JSON ---- */

typedef struct json_cursor {
    const char *at, *end;
    bool in_text;
} json_cursor;

/* The character that an escape stands for; -1: not a JSON escape. */
static int32_t read_escape(json_cursor *c)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *letter;

    if (c->at == c->end)
        return -1;
    if (*c->at != 'u') {
        letter = *c->at ? strchr(letters, *c->at) : NULL;
        c->at++;
        return letter ? (unsigned char)meanings[letter - letters] : -1;
    }
    c->at++;
    return hth_utf16_escape(&c->at, c->end);
}

enum { JSON_END = -2, JSON_WRONG = -1, JSON_QUOTE = 0x200000, JSON_BLANK };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The next character: of a string, a quotation mark around it, or of other parts. */
static int32_t next_character(json_cursor *c)
{
    while (!c->in_text && c->at < c->end && is_blank(*c->at))
        c->at++;
    if (c->at == c->end)
        return c->in_text ? JSON_WRONG : JSON_END;
    if (*c->at == '"') {
        c->at++;
        c->in_text = !c->in_text;
        return JSON_QUOTE;
    }
    if (c->in_text && *c->at == '\\') {
        c->at++;
        return read_escape(c);
    }
    return (int32_t)hth_utf8_next(&c->at, c->end);
}

/* Does a number or word continue after this character? "1 2" is not "12". */
static bool goes_on(const json_cursor *c, int32_t character)
{
    return !c->in_text && character > 0 && character < 0x80 && !strchr("{}[]:,", character) && c->at < c->end &&
           !is_blank(*c->at) && !strchr("{}[]:,", *c->at);
}

bool hth_same_json(const char *a, size_t n_a, const char *b, size_t n_b)
{
    json_cursor x = { .at = a, .end = a + n_a }, y = { .at = b, .end = b + n_b };
    int32_t one, other;

    do {
        one = next_character(&x);
        other = next_character(&y);
        if (one != other || one == JSON_WRONG || goes_on(&x, one) != goes_on(&y, other))
            return false;
    } while (one != JSON_END);
    return true;
}

/* ---- replies ---- */

static bool same_bytes(const char *a, size_t n_a, const char *b, size_t n_b)
{
    return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a) == 0);
}

static bool same_replies(const hth_chat_reply *a, const hth_chat_reply *b)
{
    if (a->n_calls != b->n_calls || !same_bytes(a->reasoning, a->n_reasoning, b->reasoning, b->n_reasoning) ||
        !same_bytes(a->content, a->n_content, b->content, b->n_content))
        return false;
    for (size_t i = 0; i < a->n_calls; i++) {
        const hth_chat_reply_call *x = &a->calls[i], *y = &b->calls[i];

        if (strcmp(x->name, y->name) != 0 || !hth_same_json(x->arguments, x->n_arguments, y->arguments, y->n_arguments))
            return false;
    }
    return true;
}

bool hth_reply_says_the_same(const char *a, size_t n_a, const char *b, size_t n_b, void *user_data)
{
    hth_reply_reading *reading = user_data;
    const hth_backend *backend = reading->backend;
    hth_chat_reply one = { .n_calls = 0 }, other = { .n_calls = 0 };
    bool are_same;

    if (!reading->reader && backend->chat_reader_new(reading->parser, &reading->reader, NULL) != HEARTH_OK)
        return false;
    are_same = backend->chat_read(reading->reader, a, n_a, true, &one, NULL) == HEARTH_OK &&
               backend->chat_read(reading->reader, b, n_b, true, &other, NULL) == HEARTH_OK &&
               same_replies(&one, &other);
    hth_chat_reply_clear(&one);
    hth_chat_reply_clear(&other);
    return are_same;
}

void hth_reply_reading_end(hth_reply_reading *reading)
{
    if (reading->reader)
        reading->backend->chat_reader_free(reading->reader);
    reading->reader = NULL;
}
