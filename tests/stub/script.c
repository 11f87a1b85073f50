#include "stub/script.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { OUTSIDE, IN_HEAD, IN_REPLY, IN_VALUES };

static const char head[] = "assistant\n", no_thinking[] = "<think></think>";
static const char values_begin[] = "<values>", values_end[] = "</values>";
static const char first_line[] = "#script\n", between[] = "#reply\n";

typedef struct line {
    const char *text;
    size_t n_bytes;
} line;

struct hth_stub_script {
    char *text; /* owned */
    line *replies;
    size_t n_replies;
};

/* ---- the script ---- */

/* Cut the text at its marks, which stand at the beginning of lines; without replies, count them. */
static size_t cut(const char *text, line *replies)
{
    size_t n = 0;

    while (*text) {
        const char *end = text;

        while (*end && (strncmp(end, between, strlen(between)) != 0 || (end > text && end[-1] != '\n')))
            end++;
        if (replies)
            replies[n] = (line){ .text = text, .n_bytes = (size_t)(end - text) };
        if (replies && end > text && end[-1] == '\n')
            replies[n].n_bytes--; /* the line's end is none of the reply's */
        n++;
        text = *end ? end + strlen(between) : end;
    }
    return n;
}

hth_stub_script *hth_stub_script_new(const char *chat_template)
{
    hth_stub_script *script;

    if (!chat_template || strncmp(chat_template, first_line, strlen(first_line)) != 0)
        return NULL;
    script = calloc(1, sizeof(*script));
    if (!script)
        return NULL;
    script->text = strdup(chat_template + strlen(first_line));
    script->n_replies = script->text ? cut(script->text, NULL) : 0;
    script->replies = calloc(script->n_replies + 1, sizeof(*script->replies));
    if (!script->text || !script->replies) {
        hth_stub_script_free(script);
        return NULL;
    }
    (void)cut(script->text, script->replies); /* as many as before */
    return script;
}

void hth_stub_script_free(hth_stub_script *script)
{
    if (!script)
        return;
    free(script->text);
    free(script->replies);
    free(script);
}

/* ---- where a conversation stands ---- */

void hth_stub_place_read(const uint8_t bytes[HTH_STUB_PLACE_BYTES], hth_stub_place *out)
{
    *out = (hth_stub_place){
        .n_turns = hth_get_u32(bytes),
        .n_reply = hth_get_u32(bytes + 4),
        .where = bytes[8],
        .n_matched = bytes[9],
        .n_quiet = bytes[10],
        .n_values = bytes[11],
    };
}

void hth_stub_place_write(const hth_stub_place *place, uint8_t bytes[HTH_STUB_PLACE_BYTES])
{
    memset(bytes, 0, HTH_STUB_PLACE_BYTES);
    hth_put_u32(bytes, place->n_turns);
    hth_put_u32(bytes + 4, place->n_reply);
    bytes[8] = place->where;
    bytes[9] = place->n_matched;
    bytes[10] = place->n_quiet;
    bytes[11] = place->n_values;
}

static void enter(hth_stub_place *place, uint8_t where)
{
    *place = (hth_stub_place){ .n_turns = place->n_turns, .where = where };
}

/* Count the bytes of a mark that stands at the reply's beginning. */
static bool is_mark(const hth_stub_place *place, uint8_t *n, const char *mark, int token)
{
    *n += *n == place->n_reply && *n < strlen(mark) && token == mark[*n];
    return *n == strlen(mark) && *n == place->n_reply + 1;
}

/* What the prompt has before a reply looks like its beginning: the mark not to think, and variables. */
static void push_reply(hth_stub_place *place, int token)
{
    bool is_quiet = is_mark(place, &place->n_quiet, no_thinking, token);
    bool is_values = is_mark(place, &place->n_values, values_begin, token);

    place->n_reply++;
    if (is_quiet || is_values)
        enter(place, is_values ? IN_VALUES : IN_REPLY);
}

void hth_stub_place_push(hth_stub_place *place, int token)
{
    if (token < 0) {
        enter(place, token == HTH_STUB_TURN_BEGIN ? IN_HEAD : OUTSIDE);
    } else if (place->where == IN_HEAD) {
        if (token != head[place->n_matched]) {
            enter(place, OUTSIDE); /* somebody else's turn */
        } else if (++place->n_matched == strlen(head)) {
            place->n_turns++;
            enter(place, IN_REPLY);
        }
    } else if (place->where == IN_VALUES) {
        place->n_matched = token == values_end[place->n_matched] ? place->n_matched + 1 : token == values_end[0];
        if (place->n_matched == strlen(values_end))
            enter(place, IN_REPLY);
    } else if (place->where == IN_REPLY) {
        push_reply(place, token);
    }
}

int hth_stub_script_next(const hth_stub_script *script, const hth_stub_place *place)
{
    const line *reply;

    if (place->where != IN_REPLY || place->n_turns > script->n_replies)
        return HTH_STUB_OTHER;
    reply = &script->replies[place->n_turns - 1];
    return place->n_reply < reply->n_bytes ? (unsigned char)reply->text[place->n_reply] : HTH_STUB_TURN_END;
}
