#include "sched/spelling.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/utf8.h"
#include "engine/tokenize.h"

/* How the text of a span of tokens is made from their pieces: a set of flags. */
enum {
    FORM_WITHOUT_FIRST = 1,       /* the first token was added: it is the one that begins every text */
    FORM_BLANK_FIRST = 2,         /* a blank was added at the beginning */
    FORM_BLANK_AFTER_CONTROL = 4, /* a blank was added after each control token and user-defined token */
};

enum {
    WINDOW_TOKENS = 256, /* of the prompt, included in the count of tokens */
    MORE_TOKENS = 8,
};

bool hth_spelling_init(hth_spelling *s, const hth_backend *backend, const hth_engine_model *model, uint32_t n_vocab)
{
    hth_engine_model_info info;

    backend->model_info(model, &info);
    *s = (hth_spelling){
        .backend = backend,
        .model = model,
        .controls = hth_control_texts_new(backend, model, n_vocab),
        .n_vocab = n_vocab,
        .first = info.special[HEARTH_SPECIAL_BOS],
    };
    return s->controls != NULL;
}

void hth_spelling_deinit(hth_spelling *s)
{
    hth_control_texts_free(s->controls);
    s->controls = NULL;
}

/* ---- spelled tokens ---- */

static bool append(hth_spelled *s, const char *bytes, size_t n_bytes)
{
    char *grown = n_bytes > 0 ? hth_grown_by(s->bytes, s->n_bytes, n_bytes, &s->capacity, 1) : s->bytes;

    if (n_bytes == 0)
        return true;
    if (!grown)
        return false;
    s->bytes = grown;
    memcpy(grown + s->n_bytes, bytes, n_bytes);
    s->n_bytes += n_bytes;
    return true;
}

bool hth_spelled_init(const hth_spelling *spelling, const char *before, size_t n_before, const hearth_token *tokens,
                      size_t n_tokens, unsigned form, hth_spelled *out)
{
    bool loses_blank = form & FORM_BLANK_FIRST;
    char piece[HTH_PIECE_BYTES_MAX];
    size_t n = 0;

    *out = (hth_spelled){ .n_before = n_before, .tokens = tokens };
    out->ends = malloc((n_tokens ? n_tokens : 1) * sizeof(*out->ends));
    if (!out->ends || !append(out, before, n_before))
        return false;
    for (; out->n_tokens < n_tokens; out->n_tokens++) {
        hearth_token token = tokens[out->n_tokens];
        bool is_whole = hth_control_texts_is_whole(spelling->controls, token);
        size_t n_lost;

        if (spelling->backend->piece(spelling->model, token, true, piece, sizeof(piece), &n, NULL) != HEARTH_OK ||
            n == 0)
            return true;
        n_lost = loses_blank && !is_whole && piece[0] == ' ';
        if (!append(out, piece + n_lost, n - n_lost))
            return false;
        out->ends[out->n_tokens] = out->n_bytes;
        loses_blank = is_whole && (form & FORM_BLANK_AFTER_CONTROL);
    }
    return true;
}

void hth_spelled_deinit(hth_spelled *s)
{
    free(s->bytes);
    free(s->ends);
}

/* Does the text go on at *at with these bytes, perhaps after marks? *at is then behind them. */
static bool goes_on_with(const hth_spelled *s, size_t *at, const char *bytes, size_t n_bytes)
{
    size_t i = *at;

    for (size_t k = 0; k < n_bytes; k++, i++) {
        i += i < s->n_bytes && s->bytes[i] == HTH_PLAIN_MARK;
        if (i >= s->n_bytes || s->bytes[i] != bytes[k] || bytes[k] == HTH_PLAIN_MARK)
            return false;
    }
    *at = i;
    return true;
}

/* Find the end of each token's bytes in the text. Where both would do, the form decides whether a blank was added. */
static bool match(const hth_spelling *spelling, unsigned form, hth_spelled *s)
{
    bool may_lose = true, loses = form & FORM_BLANK_FIRST;
    char piece[HTH_PIECE_BYTES_MAX];
    size_t at = 0, n = 0;

    for (size_t i = 0; i < s->n_tokens; i++) {
        const bool is_whole = hth_control_texts_is_whole(spelling->controls, s->tokens[i]);
        bool has_blank;

        if (s->tokens[i] < 0 || (uint32_t)s->tokens[i] >= spelling->n_vocab ||
            spelling->backend->piece(spelling->model, s->tokens[i], true, piece, sizeof(piece), &n, NULL) !=
                HEARTH_OK ||
            n == 0)
            return false;
        has_blank = may_lose && !is_whole && piece[0] == ' ';
        if (!(has_blank && loses && goes_on_with(s, &at, piece + 1, n - 1)) && !goes_on_with(s, &at, piece, n) &&
            !(has_blank && goes_on_with(s, &at, piece + 1, n - 1)))
            return false;
        s->ends[i] = at;
        may_lose = is_whole;
        loses = form & FORM_BLANK_AFTER_CONTROL;
    }
    return at == s->n_bytes;
}

bool hth_spelled_match(const hth_spelling *spelling, const char *text, size_t n_bytes, const hearth_token *tokens,
                       size_t n_tokens, unsigned flags, hth_spelled *out)
{
    const bool may_skip = (flags & HEARTH_TOKENIZE_BOS) && n_tokens > 1 && tokens[0] == spelling->first;

    *out = (hth_spelled){ .n_before = 0 };
    out->ends = malloc((n_tokens ? n_tokens : 1) * sizeof(*out->ends));
    if (!out->ends || n_tokens == 0 || !append(out, text, n_bytes))
        return false;
    for (unsigned form = 0; form < HTH_HISTORY_FORMS; form++) {
        const size_t n_skipped = form & FORM_WITHOUT_FIRST;

        if (n_skipped && !may_skip)
            continue;
        out->tokens = tokens + n_skipped;
        out->n_tokens = n_tokens - n_skipped;
        if (match(spelling, form, out))
            return true;
    }
    return false;
}

size_t hth_spelling_n_alike(const hth_spelling *spelling, const hth_spelled *s, unsigned flags)
{
    const hth_control_texts *controls = spelling->controls;
    bool reads_controls = flags & HEARTH_TOKENIZE_SPECIAL;
    size_t begin = s->n_before, n = 0;

    if (hth_control_texts_cross(controls, reads_controls, s->bytes, s->n_bytes, s->n_before))
        return 0;
    for (; n < s->n_tokens; begin = s->ends[n++]) {
        bool is_whole = hth_control_texts_is_whole(controls, s->tokens[n]);
        size_t end = s->ends[n];

        while (begin < end && s->bytes[begin] == HTH_PLAIN_MARK)
            begin++;
        if ((hth_control_texts_is_control(controls, s->tokens[n]) && !reads_controls) || (is_whole && begin == end))
            return n;
        /* The tokenizer must read the same whole token, or none, in place of these bytes. */
        for (size_t i = begin; i < end; i++) {
            const bool is_marked = i > 0 && s->bytes[i - 1] == HTH_PLAIN_MARK;
            size_t whole_end = hth_control_texts_end(controls, reads_controls && !is_marked, s->bytes, s->n_bytes, i);

            if (i == begin && is_whole ? whole_end != end : whole_end > (is_whole ? end : 0))
                return n;
        }
    }
    return n;
}

/* ---- entries of files ---- */

/* May tokens after this text have the form? */
static bool allows_form(const hth_spelling *s, const hth_history_span *span, unsigned form, unsigned flags)
{
    bool is_first = span->before->n_bytes == 0;

    if ((form & FORM_WITHOUT_FIRST) &&
        !(is_first && (flags & HEARTH_TOKENIZE_BOS) && span->n_tokens > 1 && span->tokens[0] == s->first))
        return false;
    return !(form & FORM_BLANK_FIRST) || is_first || hth_control_texts_is_whole(s->controls, span->before->last);
}

char *hth_spelling_text(const hth_history_span *span, unsigned form, size_t *n_out, void *user_data)
{
    const hth_spelling *spelling = user_data;
    unsigned flags = span->space->bytes[HTH_HISTORY_SPACE_BYTES - 1];
    size_t n_skipped = form & FORM_WITHOUT_FIRST, n_tokens = span->n_tokens - n_skipped;
    hth_spelled s = { .bytes = NULL };
    char *text = NULL;

    if (allows_form(spelling, span, form, flags) &&
        hth_spelled_init(spelling, span->before->bytes, span->before->n_bytes, span->tokens + n_skipped, n_tokens, form,
                         &s) &&
        s.n_tokens == n_tokens && s.n_bytes > s.n_before &&
        hth_utf8_is_valid(s.bytes + s.n_before, s.n_bytes - s.n_before) &&
        hth_spelling_n_alike(spelling, &s, flags) == s.n_tokens) {
        text = s.bytes;
        *n_out = s.n_bytes - s.n_before;
        memmove(text, text + s.n_before, *n_out);
        s.bytes = NULL;
    }
    hth_spelled_deinit(&s);
    return text;
}

/* ---- the number of tokens ---- */

bool hth_spelling_is_usual(const hth_spelling *spelling, const hth_spelled *s, const hearth_token *prompt,
                           size_t n_prompt, unsigned flags)
{
    char piece[HTH_PIECE_BYTES_MAX];
    size_t at = s->n_before, n_window = 0, n_fresh, n = 0;
    hearth_token *fresh;

    for (; n_window < WINDOW_TOKENS && n_window < n_prompt; n_window++) { /* go back over the prompt's last tokens */
        if (spelling->backend->piece(spelling->model, prompt[n_prompt - 1 - n_window], true, piece, sizeof(piece), &n,
                                     NULL) != HEARTH_OK ||
            n > at)
            break;
        at -= n;
    }
    while (at < s->n_bytes && hth_utf8_goes_on(s->bytes[at]))
        at++; /* skip the rest of a character that a prompt token splits */
    if (hth_tokenize(spelling->backend, spelling->model, s->bytes + at, s->n_bytes - at,
                     flags & (unsigned)~HEARTH_TOKENIZE_BOS, NULL, &fresh, &n_fresh, NULL) != HEARTH_OK)
        return false;
    free(fresh);
    return n_window + s->n_tokens <= n_fresh + n_fresh / 2 + MORE_TOKENS;
}
