#include "sched/true_tokens.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "engine/tokenize.h"
#include "sched/spelling.h"

enum { CLOSE_MS = 5000 };

hth_prompt_text *hth_prompt_text_new(const char *text, size_t n_bytes, unsigned flags, uint32_t n_known)
{
    hth_prompt_text *made = malloc(sizeof(*made) + n_bytes);

    if (!made)
        return NULL;
    made->flags = flags;
    made->n_known = n_known;
    made->n_bytes = n_bytes;
    atomic_init(&made->references, 1);
    memcpy(made->bytes, text, n_bytes);
    return made;
}

hth_prompt_text *hth_prompt_text_ref(hth_prompt_text *text)
{
    if (text)
        atomic_fetch_add_explicit(&text->references, 1, memory_order_relaxed);
    return text;
}

void hth_prompt_text_unref(hth_prompt_text *text)
{
    if (text && atomic_fetch_sub_explicit(&text->references, 1, memory_order_acq_rel) == 1)
        free(text);
}

struct hth_true_tokens {
    hth_spelling spelling;
    hth_history *history;
    hth_history_files *files; /* NULL: in memory only */
};

hth_true_tokens *hth_true_tokens_new(const hth_true_tokens_options *options)
{
    hth_true_tokens *known = calloc(1, sizeof(*known));
    hearth_error err;

    if (!known)
        return NULL;
    known->history = hth_history_new(options->bytes_max, options->n_vocab);
    if (!hth_spelling_init(&known->spelling, options->backend, options->model, options->n_vocab) || !known->history) {
        (void)hth_true_tokens_free(known); /* NOLINT(clang-analyzer-unix.Malloc): without files it frees all */
        return NULL;
    }
    if (options->directory) {
        hth_history_files_options files = {
            .history = known->history,
            .directory = options->directory,
            .bytes_max = options->bytes_max,
            .text_of = hth_spelling_text,
            .user_data = &known->spelling,
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
    hth_spelling_deinit(&known->spelling);
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
    static_assert(HTH_PROMPT_CHAT <= UINT8_MAX, "the flags are a byte");
    memcpy(space.bytes, fingerprint, 32);
    space.bytes[32] = (uint8_t)flags;
    return space;
}

/* ---- prompts ---- */

typedef struct prompt {
    const hth_spelling *spelling;
    const char *text;
    size_t n_bytes;
    unsigned flags; /* the tokenizer's only */
    const atomic_bool *is_gone;
} prompt;

static hearth_status tokenize(const prompt *p, const char *text, size_t n_bytes, unsigned flags, hearth_token **out,
                              size_t *n_out, hearth_error *err)
{
    return hth_tokenize(p->spelling->backend, p->spelling->model, text, n_bytes, flags, p->is_gone, out, n_out, err);
}

/*
 * An hth_history_fits_fn: true between whole characters, and not inside a text that the tokenizer reads as one token.
 */
static bool fits(size_t n_bytes, void *user_data)
{
    const prompt *p = user_data;

    if (n_bytes == p->n_bytes)
        return true;
    return !hth_utf8_goes_on(p->text[n_bytes]) &&
           !hth_control_texts_cross(p->spelling->controls, p->flags & HEARTH_TOKENIZE_SPECIAL, p->text, p->n_bytes,
                                    n_bytes);
}

/*
 * The tokens of text after an anchor: the first *skip_out of them belong to the anchor or precede it. With an anchor, a
 * tokenizer that puts a blank before a text does not put it before this one.
 */
static bool tokens_behind(const prompt *p, const char *anchor, size_t n_anchor, const char *text, size_t n_bytes,
                          hearth_token **out, size_t *n_out)
{
    char *joined = malloc(n_anchor + n_bytes);
    bool ok;

    if (!joined)
        return false;
    memcpy(joined, anchor, n_anchor);
    memcpy(joined + n_anchor, text, n_bytes);
    ok = tokenize(p, joined, n_anchor + n_bytes, p->flags & (unsigned)~HEARTH_TOKENIZE_BOS, out, n_out, NULL) ==
         HEARTH_OK;
    free(joined);
    return ok;
}

/*
 * Do the tokens have exactly these bytes, except for marks? Checked up to the first whole token: after it, the
 * tokenizer continues as in every prompt, possibly with one blank more or less than the text.
 */
static bool have_bytes(const hth_spelling *spelling, const hearth_token *tokens, size_t n_tokens, const char *text,
                       size_t n_bytes)
{
    char piece[HTH_PIECE_BYTES_MAX];
    size_t at = 0, n;

    for (size_t i = 0; i < n_tokens; i++) {
        if (spelling->backend->piece(spelling->model, tokens[i], true, piece, sizeof(piece), &n, NULL) != HEARTH_OK)
            return false;
        for (size_t k = 0; k < n; k++, at++) {
            at += at < n_bytes && text[at] == HTH_PLAIN_MARK;
            if (at >= n_bytes || text[at] != piece[k])
                return false;
        }
        if (hth_control_texts_is_whole(spelling->controls, tokens[i]))
            return true;
    }
    return at == n_bytes;
}

/* Remove the first n tokens. */
static void drop(hearth_token *tokens, size_t *n_tokens, size_t n)
{
    *n_tokens -= n;
    memmove(tokens, tokens + n, *n_tokens * sizeof(*tokens));
}

/* After a whole token: the tokenizer reads that token again and continues as it does after it. */
static bool rest_behind_whole(const prompt *p, hearth_token last, const char *rest, size_t n_rest, hearth_token **out,
                              size_t *n_out)
{
    char piece[HTH_PIECE_BYTES_MAX];
    size_t n = 0;

    if (p->spelling->backend->piece(p->spelling->model, last, true, piece, sizeof(piece), &n, NULL) != HEARTH_OK ||
        !tokens_behind(p, piece, n, rest, n_rest, out, n_out))
        return false;
    if (*n_out > 0 && (*out)[0] == last) {
        drop(*out, n_out, 1);
        return true;
    }
    free(*out);
    return false;
}

/* After text: the tokens must have the bytes of the rest. */
static bool rest_behind_text(const prompt *p, const char *rest, size_t n_rest, hearth_token **out, size_t *n_out)
{
    static const char *const anchors[] = { "", "\n" };

    for (size_t i = 0; i < sizeof(anchors) / sizeof(anchors[0]); i++) {
        size_t n_anchor = strlen(anchors[i]);

        if (!tokens_behind(p, anchors[i], n_anchor, rest, n_rest, out, n_out))
            return false;
        /* The anchor is a token of its own, possibly after a token for a blank. */
        for (size_t n_skip = 0; n_skip <= 2 && n_skip <= *n_out; n_skip++)
            if ((n_skip > 0) == (n_anchor > 0) &&
                have_bytes(p->spelling, *out + n_skip, *n_out - n_skip, rest, n_rest)) {
                drop(*out, n_out, n_skip);
                return true;
            }
        free(*out);
        *out = NULL;
    }
    return false;
}

/* Append the tokens of the text after the known beginning. False if they cannot be determined, or if out of memory. */
static bool complete(const prompt *p, hth_history_found *found)
{
    const char *rest = p->text + found->n_bytes;
    size_t n_rest = p->n_bytes - found->n_bytes, n = 0;
    hearth_token last = found->tokens[found->n_tokens - 1], *tokens = NULL, *joined;
    bool ok;

    if (n_rest == 0)
        return true;
    ok = hth_control_texts_is_whole(p->spelling->controls, last) ? rest_behind_whole(p, last, rest, n_rest, &tokens, &n)
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
                                 size_t n_bytes, unsigned flags, const atomic_bool *is_gone, hearth_token **tokens_out,
                                 size_t *n_out, size_t *n_known_out, hearth_error *err)
{
    const hth_history_space space = space_of(fingerprint, flags);
    prompt p = {
        .spelling = &known->spelling,
        .text = text,
        .n_bytes = n_bytes,
        .flags = flags & (unsigned)~HTH_PROMPT_CHAT,
        .is_gone = is_gone,
    };
    hth_history_found found;
    size_t n_known;

    *n_known_out = 0;
    if (!hth_history_find(known->history, &space, text, n_bytes, fits, &p, &found) || found.n_bytes == 0)
        return tokenize(&p, text, n_bytes, p.flags, tokens_out, n_out, err);
    n_known = found.n_tokens;
    if (!complete(&p, &found)) {
        free(found.tokens);
        return tokenize(&p, text, n_bytes, p.flags, tokens_out, n_out, err);
    }
    *tokens_out = found.tokens;
    *n_out = found.n_tokens;
    *n_known_out = n_known;
    return HEARTH_OK;
}

/* ---- the model's own words ---- */

/* The text with [begin, end) replaced by words; NULL if out of memory. */
static char *replaced(const char *text, size_t n_bytes, size_t begin, size_t end, const char *words, size_t n_words,
                      size_t *n_out)
{
    char *made = malloc(n_bytes - (end - begin) + n_words);

    if (!made)
        return NULL;
    memcpy(made, text, begin);
    memcpy(made + begin, words, n_words);
    memcpy(made + begin + n_words, text + end, n_bytes - end);
    *n_out = n_bytes - (end - begin) + n_words;
    return made;
}

/* Find the part of the text that means the same as the reply, up to the token that ended it. False if there is none. */
static bool find_place(const hth_spelling *spelling, const hth_history_reply *reply, const char *text, size_t n_bytes,
                       hth_same_reply_fn same, void *user_data, size_t *n_words_out, size_t *end_out)
{
    char piece[HTH_PIECE_BYTES_MAX];
    const char *from = text + reply->at, *end;
    size_t n = 0;

    if (!spelling->backend->is_end(spelling->model, reply->last) ||
        spelling->backend->piece(spelling->model, reply->last, true, piece, sizeof(piece), &n, NULL) != HEARTH_OK ||
        n == 0 || n > reply->n_bytes)
        return false;
    end = memmem(from, n_bytes - reply->at, piece, n);
    if (!end || !same(reply->bytes, reply->n_bytes - n, from, (size_t)(end - from), user_data))
        return false;
    *n_words_out = reply->n_bytes - n;
    *end_out = (size_t)(end - text);
    return true;
}

void hth_true_tokens_own_words(hth_true_tokens *known, const uint8_t fingerprint[32], const char *text, size_t n_bytes,
                               unsigned flags, hth_same_reply_fn same, void *user_data, char **out, size_t *n_out)
{
    enum { PLACES_MAX = 1000 };

    const hth_history_space space = space_of(fingerprint, flags);
    char *made = NULL;
    bool has_changed = true;

    for (int i = 0; i < PLACES_MAX && has_changed; i++) {
        hth_history_reply replies[HTH_HISTORY_REPLIES_MAX];
        const char *now = made ? made : text;
        size_t n = hth_history_replies(known->history, &space, now, n_bytes, replies), n_words, end, n_made = 0;
        char *next = NULL;

        for (size_t k = 0; k < n; k++) {
            if (!next && find_place(&known->spelling, &replies[k], now, n_bytes, same, user_data, &n_words, &end))
                next = replaced(now, n_bytes, replies[k].at, end, replies[k].bytes, n_words, &n_made);
            free(replies[k].bytes);
        }
        has_changed = next != NULL;
        if (next) {
            free(made);
            made = next;
            n_bytes = n_made;
        }
    }
    *out = made;
    *n_out = n_bytes;
}

/* ---- replies ---- */

/* Record the prompt with the first n tokens of the reply. */
static void record(hth_true_tokens *known, const hth_history_space *space, const hth_spelled *s,
                   const hearth_token *tokens, size_t n_prompt, size_t n)
{
    if (n > 0)
        hth_history_add(known->history, space, s->bytes, s->ends[n - 1], s->ends[n - 1] - s->n_before, tokens,
                        n_prompt + n);
}

void hth_true_tokens_note(hth_true_tokens *known, const uint8_t fingerprint[32], const hth_prompt_text *text,
                          const hearth_token *of_prompt, size_t n_prompt, const hearth_token *reply, size_t n_reply)
{
    const hth_spelling *spelling = &known->spelling;
    const hth_history_space space = space_of(fingerprint, text->flags);
    unsigned flags = text->flags & (unsigned)~HTH_PROMPT_CHAT; /* the tokenizer's */
    hearth_token *tokens = n_reply > 0 ? malloc((n_prompt + n_reply) * sizeof(*tokens)) : NULL;
    hth_spelled s = { .bytes = NULL };
    size_t n_alike, n_text;

    if (!tokens)
        return;
    memcpy(tokens, of_prompt, n_prompt * sizeof(*tokens));
    memcpy(tokens + n_prompt, reply, n_reply * sizeof(*tokens));
    if (!hth_spelled_init(spelling, text->bytes, text->n_bytes, tokens + n_prompt, n_reply, 0, &s))
        goto out;
    n_alike = hth_spelling_n_alike(spelling, &s, flags);
    n_text = n_reply - spelling->backend->is_end(spelling->model, reply[n_reply - 1]); /* without the end */
    if (n_alike < n_text || !hth_utf8_is_valid(s.bytes + s.n_before, s.n_bytes - s.n_before) ||
        !hth_spelling_is_usual(spelling, &s, tokens, n_prompt, flags))
        goto out;
    /* A template may end the turn differently than the model did, or continue inside the turn. */
    if (n_text < n_reply)
        record(known, &space, &s, tokens, n_prompt, n_text);
    if (n_alike == n_reply)
        record(known, &space, &s, tokens, n_prompt, n_reply);
    hth_history_files_wake(known->files);
out:
    hth_spelled_deinit(&s);
    free(tokens);
}

/* ---- what other nodes know ---- */

void hth_known_text_deinit(hth_known_text *text)
{
    free(text->text);
    free(text->tokens);
    free(text->turns);
    *text = (hth_known_text){ .n_bytes = 0 };
}

bool hth_true_tokens_known(hth_true_tokens *known, const uint8_t fingerprint[32], const char *text, size_t n_bytes,
                           unsigned flags, hth_known_text *out)
{
    const hth_history_space space = space_of(fingerprint, flags);
    prompt p = {
        .spelling = &known->spelling, .text = text, .n_bytes = n_bytes, .flags = flags & (unsigned)~HTH_PROMPT_CHAT
    };
    hth_history_found found;

    *out = (hth_known_text){ .n_bytes = 0 };
    if (!hth_history_find_turns(known->history, &space, text, n_bytes, fits, &p, &found, &out->turns, &out->n_turns)) {
        out->n_turns = 0;
        return false;
    }
    if (found.n_bytes == 0)
        return true;
    out->n_bytes = found.n_bytes;
    out->tokens = found.tokens;
    out->n_tokens = found.n_tokens;
    out->text = malloc(found.n_bytes);
    if (!out->text) {
        hth_known_text_deinit(out);
        return false;
    }
    memcpy(out->text, text, found.n_bytes);
    return true;
}

/* hth_history_fits_fn: only the whole text. */
static bool is_all(size_t n_bytes, void *user_data)
{
    return n_bytes == *(const size_t *)user_data;
}

static bool has_same_tokens(hth_history *history, const hth_history_space *space, const hth_known_text *text)
{
    size_t n_bytes = text->n_bytes;
    hth_history_found found;
    bool is_same;

    if (!hth_history_find(history, space, text->text, text->n_bytes, is_all, &n_bytes, &found) || found.n_bytes == 0)
        return false;
    is_same = found.n_tokens == text->n_tokens &&
              memcmp(found.tokens, text->tokens, found.n_tokens * sizeof(*found.tokens)) == 0;
    free(found.tokens);
    return is_same;
}

/* Valid UTF-8 but for marks. */
static bool is_marked_text(const char *text, size_t n_bytes)
{
    size_t n;

    for (; n_bytes > 0; text += n, n_bytes -= n) {
        const char *mark = memchr(text, HTH_PLAIN_MARK, n_bytes);

        n = mark ? (size_t)(mark - text) : n_bytes;
        if (!hth_utf8_is_valid(text, n))
            return false;
        n += mark != NULL;
    }
    return true;
}

/* Does each turn end between two tokens, and between two characters, and the last one at the end of all? */
static bool are_turns(const hth_known_text *text, const hth_spelled *s)
{
    const size_t n_added = text->n_tokens - s->n_tokens; /* a first token without text */
    const hth_history_turn *turns = text->turns;

    for (size_t i = 0; i < text->n_turns; i++)
        if (turns[i].n_tokens <= (i > 0 ? turns[i - 1].n_tokens : n_added) || turns[i].n_tokens > text->n_tokens ||
            turns[i].n_bytes != s->ends[turns[i].n_tokens - n_added - 1] ||
            turns[i].n_bytes <= (i > 0 ? turns[i - 1].n_bytes : 0) || turns[i].n_reply_bytes > turns[i].n_bytes ||
            (turns[i].n_bytes < text->n_bytes && hth_utf8_goes_on(text->text[turns[i].n_bytes])))
            return false;
    return text->n_turns > 0 && turns[text->n_turns - 1].n_tokens == text->n_tokens;
}

bool hth_true_tokens_learn(hth_true_tokens *known, const uint8_t fingerprint[32], const hth_known_text *text,
                           unsigned flags)
{
    const hth_spelling *spelling = &known->spelling;
    const hth_history_space space = space_of(fingerprint, flags);
    const unsigned of_tokenizer = flags & (unsigned)~HTH_PROMPT_CHAT;
    hth_spelled s = { .bytes = NULL };
    bool ok;

    if (text->n_bytes == 0 || has_same_tokens(known->history, &space, text))
        return false;
    ok = is_marked_text(text->text, text->n_bytes) &&
         hth_spelled_match(spelling, text->text, text->n_bytes, text->tokens, text->n_tokens, of_tokenizer, &s) &&
         hth_spelling_n_alike(spelling, &s, of_tokenizer) == s.n_tokens && are_turns(text, &s) &&
         hth_spelling_is_usual(spelling, &s, NULL, 0, of_tokenizer);
    for (size_t i = 0; ok && i < text->n_turns; i++)
        hth_history_add(known->history, &space, text->text, text->turns[i].n_bytes, text->turns[i].n_reply_bytes,
                        text->tokens, text->turns[i].n_tokens);
    if (ok)
        hth_history_files_wake(known->files);
    hth_spelled_deinit(&s);
    return ok;
}
