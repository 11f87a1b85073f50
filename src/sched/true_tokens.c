/*
 * true_tokens.c - see true_tokens.h
 */
#include "sched/true_tokens.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "engine/control_texts.h"
#include "engine/tokenize.h"
#include "sched/text_stream.h" /* of UTF-8 alone */

enum { CLOSE_MS = 5000 };

/* How the text of a span of tokens is made of their pieces: a set. */
enum {
    FORM_WITHOUT_FIRST = 1,       /* the first token was added: it begins every text */
    FORM_BLANK_FIRST = 2,         /* a blank was added at the beginning */
    FORM_BLANK_AFTER_CONTROL = 4, /* a blank was added behind each control token */
};

struct hth_true_tokens {
    const hth_backend *backend;
    const hth_engine_model *model;
    hth_control_texts *controls;
    hth_history *history;
    hth_history_files *files; /* NULL: in memory only */
};

/* hth_history_text_fn */
static char *text_of(const hearth_token *tokens, size_t n_tokens, unsigned form, size_t *n_out, void *user_data)
{
    const hth_true_tokens *known = user_data;
    bool loses_blank = form & FORM_BLANK_FIRST;
    char piece[HTH_PIECE_BYTES_MAX];
    char *text = NULL;
    size_t n_text = 0, capacity = 0, n;

    for (size_t i = form & FORM_WITHOUT_FIRST; i < n_tokens; i++) {
        bool is_control = hth_control_texts_is_control(known->controls, tokens[i]);
        const char *from = piece;
        char *grown;

        if (known->backend->piece(known->model, tokens[i], true, piece, sizeof(piece), &n, NULL) != HEARTH_OK)
            break;
        if (loses_blank && !is_control && n > 0 && *from == ' ') {
            from++;
            n--;
        }
        loses_blank = is_control && (form & FORM_BLANK_AFTER_CONTROL);
        grown = n > 0 ? hth_grown_by(text, n_text, n, &capacity, 1) : text;
        if (n > 0 && !grown)
            break;
        text = grown;
        if (n > 0)
            memcpy(text + n_text, from, n);
        n_text += n;
    }
    *n_out = n_text;
    return text;
}

hth_true_tokens *hth_true_tokens_new(const hth_true_tokens_options *options)
{
    hth_true_tokens *known = calloc(1, sizeof(*known));
    hearth_error err;

    if (!known)
        return NULL;
    known->backend = options->backend;
    known->model = options->model;
    known->controls = hth_control_texts_new(options->backend, options->model, options->n_vocab);
    known->history = hth_history_new(options->bytes_max, options->n_vocab);
    if (!known->controls || !known->history) {
        (void)hth_true_tokens_free(known); /* NOLINT(clang-analyzer-unix.Malloc): without files it frees all */
        return NULL;
    }
    if (options->directory) {
        hth_history_files_options files = {
            .history = known->history,
            .directory = options->directory,
            .bytes_max = options->bytes_max,
            .text_of = text_of,
            .user_data = known,
            .key = options->key,
            .fs = options->fs,
            .log = options->log,
        };

        if (hth_history_files_open(&files, &known->files, &err) != HEARTH_OK)
            hth_warn(options->log, "the tokens of conversations are known to this process alone: %s", err.message);
    }
    return known;
}

bool hth_true_tokens_free(hth_true_tokens *known)
{
    if (!known)
        return true;
    if (!hth_history_files_close(known->files, CLOSE_MS))
        return false;
    hth_history_free(known->history);
    hth_control_texts_free(known->controls);
    free(known);
    return true;
}

bool hth_true_tokens_flush(hth_true_tokens *known, uint32_t timeout_ms)
{
    return !known->files || hth_history_files_flush(known->files, timeout_ms);
}

static hth_history_space space_of(const uint8_t fingerprint[32], unsigned flags)
{
    hth_history_space space;

    static_assert(sizeof(space.bytes) == 33, "a fingerprint and the flags");
    memcpy(space.bytes, fingerprint, 32);
    space.bytes[32] = (uint8_t)flags;
    return space;
}

/* ---- prompts ---- */

typedef struct prompt {
    const hth_true_tokens *known;
    const char *text;
    size_t n_bytes;
    unsigned flags;
} prompt;

/* hth_history_fits_fn: between whole characters, and not inside the text of a control token */
static bool fits(size_t n_bytes, void *user_data)
{
    const prompt *p = user_data;

    if (n_bytes == p->n_bytes)
        return true;
    return ((unsigned char)p->text[n_bytes] & 0xC0) != 0x80 &&
           (!(p->flags & HEARTH_TOKENIZE_SPECIAL) ||
            !hth_control_texts_cross(p->known->controls, p->text, p->n_bytes, n_bytes));
}

/*
 * The tokens of text behind an anchor: *skip_out of them are the anchor's, or lead there. With an anchor, a tokenizer
 * that puts a blank before a text does not put it before this one.
 */
static hearth_status tokens_behind(const prompt *p, const char *anchor, size_t n_anchor, const char *text,
                                   size_t n_bytes, hearth_token **out, size_t *n_out, hearth_error *err)
{
    char *joined = malloc(n_anchor + n_bytes);
    hearth_status status;

    if (!joined)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt");
    memcpy(joined, anchor, n_anchor);
    memcpy(joined + n_anchor, text, n_bytes);
    status = hth_tokenize(p->known->backend, p->known->model, joined, n_anchor + n_bytes,
                          p->flags & (unsigned)~HEARTH_TOKENIZE_BOS, out, n_out, err);
    free(joined);
    return status;
}

/*
 * Do the tokens have exactly these bytes? Asked up to the first control token: behind it, the tokenizer goes on as it
 * does there in every prompt, perhaps with a blank more or less than the text.
 */
static bool have_bytes(const hth_true_tokens *known, const hearth_token *tokens, size_t n_tokens, const char *text,
                       size_t n_bytes)
{
    char piece[HTH_PIECE_BYTES_MAX];
    size_t at = 0, n;

    for (size_t i = 0; i < n_tokens; i++) {
        if (known->backend->piece(known->model, tokens[i], true, piece, sizeof(piece), &n, NULL) != HEARTH_OK ||
            n > n_bytes - at || memcmp(text + at, piece, n) != 0)
            return false;
        if (hth_control_texts_is_control(known->controls, tokens[i]))
            return true;
        at += n;
    }
    return at == n_bytes;
}

/* Remove the first n tokens. */
static void drop(hearth_token *tokens, size_t *n_tokens, size_t n)
{
    *n_tokens -= n;
    memmove(tokens, tokens + n, *n_tokens * sizeof(*tokens));
}

/* Behind a control token: the tokenizer reads it again, and goes on as it does behind it. */
static bool rest_behind_control(const prompt *p, hearth_token last, const char *rest, size_t n_rest, hearth_token **out,
                                size_t *n_out)
{
    char piece[HTH_PIECE_BYTES_MAX];
    size_t n = 0;

    if (p->known->backend->piece(p->known->model, last, true, piece, sizeof(piece), &n, NULL) != HEARTH_OK ||
        tokens_behind(p, piece, n, rest, n_rest, out, n_out, NULL) != HEARTH_OK)
        return false;
    if (*n_out > 0 && (*out)[0] == last) {
        drop(*out, n_out, 1);
        return true;
    }
    free(*out);
    return false;
}

/* Behind text: the tokens must have the bytes of the rest. */
static bool rest_behind_text(const prompt *p, const char *rest, size_t n_rest, hearth_token **out, size_t *n_out)
{
    static const char *const anchors[] = { "", "\n" };

    for (size_t i = 0; i < sizeof(anchors) / sizeof(anchors[0]); i++) {
        size_t n_anchor = strlen(anchors[i]);

        if (tokens_behind(p, anchors[i], n_anchor, rest, n_rest, out, n_out, NULL) != HEARTH_OK)
            return false;
        /* The anchor is its own token, perhaps with a token of a blank before it. */
        for (size_t n_skip = 0; n_skip <= 2 && n_skip <= *n_out; n_skip++)
            if ((n_skip > 0) == (n_anchor > 0) && have_bytes(p->known, *out + n_skip, *n_out - n_skip, rest, n_rest)) {
                drop(*out, n_out, n_skip);
                return true;
            }
        free(*out);
        *out = NULL;
    }
    return false;
}

/* Append the tokens of the text behind the known beginning. False: they cannot be had, or there is no memory. */
static bool complete(const prompt *p, hth_history_found *found)
{
    const char *rest = p->text + found->n_bytes;
    size_t n_rest = p->n_bytes - found->n_bytes, n = 0;
    hearth_token last = found->tokens[found->n_tokens - 1], *tokens = NULL, *joined;
    bool ok;

    if (n_rest == 0)
        return true;
    ok = hth_control_texts_is_control(p->known->controls, last)
           ? rest_behind_control(p, last, rest, n_rest, &tokens, &n)
           : rest_behind_text(p, rest, n_rest, &tokens, &n);
    joined = ok ? realloc(found->tokens, (found->n_tokens + n + 1) * sizeof(*joined)) : NULL;
    if (joined) {
        memcpy(joined + found->n_tokens, tokens, n * sizeof(*joined));
        found->tokens = joined;
        found->n_tokens += n;
    }
    if (ok)
        free(tokens);
    return joined != NULL;
}

hearth_status hth_true_tokens_of(hth_true_tokens *known, const uint8_t fingerprint[32], const char *text,
                                 size_t n_bytes, unsigned flags, hearth_token **tokens_out, size_t *n_out,
                                 size_t *n_known_out, hearth_error *err)
{
    const hth_history_space space = space_of(fingerprint, flags);
    prompt p = { .known = known, .text = text, .n_bytes = n_bytes, .flags = flags };
    hth_history_found found;
    size_t n_known;

    *n_known_out = 0;
    if (!hth_history_find(known->history, &space, text, n_bytes, fits, &p, &found) || found.n_bytes == 0)
        return hth_tokenize(known->backend, known->model, text, n_bytes, flags, tokens_out, n_out, err);
    n_known = found.n_tokens;
    if (!complete(&p, &found)) {
        free(found.tokens);
        return hth_tokenize(known->backend, known->model, text, n_bytes, flags, tokens_out, n_out, err);
    }
    *tokens_out = found.tokens;
    *n_out = found.n_tokens;
    *n_known_out = n_known;
    return HEARTH_OK;
}

/* ---- replies ---- */

/* A prompt and its reply, as text and as tokens. */
typedef struct conversation {
    char *bytes; /* [n_bytes] */
    size_t n_bytes, capacity;
    hearth_token *tokens; /* [n_prompt + n_reply] */
    size_t n_prompt, n_reply;
    size_t *ends; /* [n_reply], of the bytes of the reply's tokens */
} conversation;

static bool append(conversation *c, const char *bytes, size_t n_bytes)
{
    char *grown = n_bytes > 0 ? hth_grown_by(c->bytes, c->n_bytes, n_bytes, &c->capacity, 1) : c->bytes;

    if (n_bytes == 0)
        return true;
    if (!grown)
        return false;
    c->bytes = grown;
    memcpy(grown + c->n_bytes, bytes, n_bytes);
    c->n_bytes += n_bytes;
    return true;
}

static bool append_reply(const hth_true_tokens *known, conversation *c)
{
    char piece[HTH_PIECE_BYTES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < c->n_reply; i++) {
        if (known->backend->piece(known->model, c->tokens[c->n_prompt + i], true, piece, sizeof(piece), &n, NULL) !=
                HEARTH_OK ||
            !append(c, piece, n))
            return false;
        c->ends[i] = c->n_bytes;
    }
    return true;
}

/*
 * Would a prompt of this text read a control token, or none, where the reply has the token with these bytes? The text
 * goes on behind end.
 */
static bool is_read_so(const hth_control_texts *controls, const conversation *c, size_t begin, size_t end,
                       bool is_control)
{
    for (size_t i = begin; i < end; i++) {
        size_t control_end = hth_control_texts_end(controls, c->bytes, c->n_bytes, i);

        if (i == begin && is_control ? control_end != end : control_end > (is_control ? end : 0))
            return false;
    }
    return true;
}

/*
 * The number of the reply's leading tokens whose control tokens, and no others, a prompt of this text would read. A
 * token without bytes does not show in the text, so it ends them.
 */
static size_t n_read_alike(const hth_true_tokens *known, const conversation *c, size_t n_prompt_bytes, unsigned flags)
{
    bool reads_controls = flags & HEARTH_TOKENIZE_SPECIAL;
    size_t begin = n_prompt_bytes, n = 0;

    if (reads_controls && hth_control_texts_cross(known->controls, c->bytes, c->n_bytes, n_prompt_bytes))
        return 0;
    for (; n < c->n_reply; n++) {
        bool is_control = hth_control_texts_is_control(known->controls, c->tokens[c->n_prompt + n]);

        if (c->ends[n] == begin)
            break;
        if (reads_controls ? !is_read_so(known->controls, c, begin, c->ends[n], is_control) : is_control)
            break;
        begin = c->ends[n];
    }
    return n;
}

/* Record the prompt with the first n tokens of the reply. */
static void record(hth_true_tokens *known, const hth_history_space *space, const conversation *c, size_t n)
{
    if (n > 0)
        hth_history_add(known->history, space, c->bytes, c->ends[n - 1], c->tokens, c->n_prompt + n);
}

static void note(hth_true_tokens *known, const hth_history_space *space, const hth_prompt_text *text, conversation *c)
{
    size_t n_text = c->n_reply; /* tokens before the one that ends the reply */
    size_t n_alike;

    if (!append(c, text->bytes, text->n_bytes) || !append_reply(known, c))
        return;
    if (known->backend->is_end(known->model, c->tokens[c->n_prompt + c->n_reply - 1]))
        n_text--;
    n_alike = n_read_alike(known, c, text->n_bytes, text->flags);
    if (n_alike < n_text || !hth_utf8_is_valid(c->bytes + text->n_bytes, c->n_bytes - text->n_bytes))
        return;
    /* A template may write another end of the turn than the model did, or go on inside the turn. */
    if (n_text < c->n_reply)
        record(known, space, c, n_text);
    if (n_alike == c->n_reply)
        record(known, space, c, c->n_reply);
    hth_history_files_wake(known->files);
}

void hth_true_tokens_note(hth_true_tokens *known, const uint8_t fingerprint[32], const hth_prompt_text *text,
                          const hearth_token *of_prompt, size_t n_prompt, const hearth_token *reply, size_t n_reply)
{
    const hth_history_space space = space_of(fingerprint, text->flags);
    conversation c = { .n_prompt = n_prompt, .n_reply = n_reply };

    if (n_reply == 0)
        return;
    c.tokens = malloc((n_prompt + n_reply) * sizeof(*c.tokens));
    c.ends = malloc(n_reply * sizeof(*c.ends));
    if (c.tokens && c.ends) {
        memcpy(c.tokens, of_prompt, n_prompt * sizeof(*c.tokens));
        memcpy(c.tokens + n_prompt, reply, n_reply * sizeof(*c.tokens));
        note(known, &space, text, &c);
    }
    free(c.ends);
    free(c.tokens);
    free(c.bytes);
}
