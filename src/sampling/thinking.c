#include "sampling/thinking.h"

#include <stdlib.h>
#include <string.h>

#include "base/text_tail.h"

enum { TAIL_BYTES = 2 * HTH_THINKING_TEXT_BYTES_MAX };

typedef enum thinking_state { OUTSIDE, INSIDE, CLOSING } thinking_state;

struct hth_thinking {
    hth_thinking_parts parts;
    const hth_vocabulary *vocabulary;
    thinking_state state;
    uint32_t n_left; /* INSIDE */
    size_t n_closed; /* CLOSING: closing tokens that have appeared */
    /* The end of the text since the state changed. */
    char tail[TAIL_BYTES];
    size_t n_tail;
    bool is_tail_cut; /* the text is longer */
    /* The latest tokens since then, the last one at the end. */
    hearth_token latest[HTH_THINKING_TEXT_BYTES_MAX];
    size_t n_latest;
};

static void change(hth_thinking *t, thinking_state state)
{
    t->state = state;
    t->n_left = t->parts.budget;
    t->n_closed = 0;
    t->n_tail = 0;
    t->is_tail_cut = false;
    t->n_latest = 0;
    if (state == INSIDE && t->n_left == 0)
        t->state = CLOSING;
}

static hearth_status read_mark(const char *text, hth_thinking_tokenize_fn tokenize, const void *model,
                               hth_thinking_mark *out, hearth_error *err)
{
    size_t capacity = sizeof(out->tokens) / sizeof(out->tokens[0]);
    hearth_status status = HEARTH_OK;

    memset(out, 0, sizeof(*out));
    if (!text)
        return HEARTH_OK;
    memcpy(out->text, text, strlen(text));
    status = tokenize(model, text, out->tokens, capacity, &out->n_tokens, err);
    if (out->n_tokens > capacity)
        out->n_tokens = 0; /* only the text is searched for */
    return status;
}

hearth_status hth_thinking_read(const hearth_sampling *sampling, hth_thinking_tokenize_fn tokenize, const void *model,
                                hth_thinking_parts *out, hearth_error *err)
{
    size_t n_message = 0;
    hearth_status status = read_mark(sampling->thinking_begin, tokenize, model, &out->begin, err);

    if (status == HEARTH_OK)
        status = read_mark(sampling->thinking_end, tokenize, model, &out->end, err);
    if (status == HEARTH_OK && sampling->thinking_message)
        status = tokenize(model, sampling->thinking_message, out->closing, HTH_THINKING_TOKENS_MAX, &n_message, err);
    if (status != HEARTH_OK)
        return status;
    if (out->end.n_tokens == 0)
        return hth_fail(err, HEARTH_MISUSE,
                        "sampling: thinking_end has no tokens in this model, so it cannot be forced");
    if (n_message + out->end.n_tokens > HTH_THINKING_TOKENS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "sampling: thinking_message has %zu tokens; it must be at most %zu",
                        n_message, HTH_THINKING_TOKENS_MAX - out->end.n_tokens);
    memcpy(out->closing + n_message, out->end.tokens, out->end.n_tokens * sizeof(out->closing[0]));
    out->n_closing = n_message + out->end.n_tokens;
    out->budget = (uint32_t)sampling->thinking_budget;
    out->is_inside = sampling->starts_thinking;
    return HEARTH_OK;
}

hth_thinking *hth_thinking_new(const hth_thinking_parts *parts, const hth_vocabulary *vocabulary)
{
    hth_thinking *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->parts = *parts;
    t->vocabulary = vocabulary;
    change(t, parts->is_inside ? INSIDE : OUTSIDE);
    return t;
}

const hth_thinking_parts *hth_thinking_parts_of(const hth_thinking *thinking)
{
    return &thinking->parts;
}

void hth_thinking_free(hth_thinking *t)
{
    free(t);
}

static void note(hth_thinking *t, hearth_token token)
{
    const hth_piece *piece = &t->vocabulary->pieces[token];

    t->is_tail_cut |= t->n_tail + piece->n_bytes > sizeof(t->tail);
    hth_text_keep_last(t->tail, &t->n_tail, sizeof(t->tail), (const char *)piece->bytes, piece->n_bytes);
    if (t->n_latest == HTH_THINKING_TEXT_BYTES_MAX)
        memmove(t->latest, t->latest + 1, --t->n_latest * sizeof(t->latest[0]));
    t->latest[t->n_latest++] = token;
}

/* Have the tokens appeared? */
static bool tokens_have_come(const hth_thinking *t, const hth_thinking_mark *mark)
{
    return mark->n_tokens > 0 && mark->n_tokens <= t->n_latest &&
           memcmp(t->latest + t->n_latest - mark->n_tokens, mark->tokens, mark->n_tokens * sizeof(t->latest[0])) == 0;
}

/* Does a line begin here in the tail, ignoring blanks? */
static bool is_line_begin(const hth_thinking *t, size_t at)
{
    while (at > 0 && (t->tail[at - 1] == ' ' || t->tail[at - 1] == '\t'))
        at--;
    return at > 0 ? t->tail[at - 1] == '\n' : !t->is_tail_cut;
}

/* Has the text appeared? A text that is longer than a token may have begun in earlier tokens. */
static bool text_has_come(const hth_thinking *t, const hth_thinking_mark *mark, bool begins_line)
{
    size_t n = strlen(mark->text);

    for (size_t i = 0; n > 0 && i + n <= t->n_tail; i++)
        if (memcmp(t->tail + i, mark->text, n) == 0 && (!begins_line || is_line_begin(t, i)))
            return true;
    return false;
}

static bool has_come(const hth_thinking *t, const hth_thinking_mark *mark)
{
    return tokens_have_come(t, mark) || text_has_come(t, mark, false);
}

/*
 * Does reasoning begin? A control token, which has no text, begins it anywhere. A text, which a reply may quote, begins
 * it only at the beginning of a line.
 */
static bool begins(const hth_thinking *t, const hth_thinking_mark *mark)
{
    return text_has_come(t, mark, true) ||
           (tokens_have_come(t, mark) && t->vocabulary->pieces[mark->tokens[0]].n_bytes == 0);
}

/* Does the tail end at the end of a character? */
static bool is_between_characters(const hth_thinking *t)
{
    for (size_t back = 1; back <= 3 && back <= t->n_tail; back++) {
        uint8_t byte = (uint8_t)t->tail[t->n_tail - back];

        if ((byte & 0xc0) != 0x80) /* a character begins here */
            return back >= (byte >= 0xf0 ? 4u : byte >= 0xe0 ? 3u : byte >= 0xc0 ? 2u : 1u);
    }
    return true; /* a whole character of four bytes, or an invalid one */
}

void hth_thinking_accept(hth_thinking *t, hearth_token token)
{
    note(t, token);
    switch (t->state) {
    case OUTSIDE:
        if (begins(t, &t->parts.begin))
            change(t, INSIDE);
        break;
    case INSIDE:
        t->n_left -= t->n_left > 0;
        if (has_come(t, &t->parts.end))
            change(t, OUTSIDE);
        else if (t->n_left == 0 && is_between_characters(t))
            change(t, CLOSING);
        break;
    case CLOSING:
        t->n_closed += token == t->parts.closing[t->n_closed];
        if (t->n_closed == t->parts.n_closing || has_come(t, &t->parts.end))
            change(t, OUTSIDE);
        break;
    }
}

hearth_token hth_thinking_forced(const hth_thinking *t)
{
    return t->state == CLOSING ? t->parts.closing[t->n_closed] : HTH_NO_TOKEN;
}
