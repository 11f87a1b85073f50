/*
 * wholes.h - do known tokens have the control tokens and user-defined tokens that the tokenizer reads in their text?
 */
#ifndef HTH_FUZZ_WHOLES_H
#define HTH_FUZZ_WHOLES_H

#include <assert.h>
#include <stdlib.h>

#include "engine/tokenize.h"
#include "sched/spelling.h"
#include "stub/backend.h"

enum { N_VOCAB = 400 };

static const hth_spelling *the_spelling(void)
{
    static hth_spelling spelling;
    static const hth_log silent = { .level = HEARTH_LOG_ERROR };
    hth_engine_model_params params = { .log = &silent };
    hth_engine_model *model;

    if (!spelling.controls &&
        (hth_backend_stub()->model_load("stub:vocab=400,defined=1", &params, &model, NULL) != HEARTH_OK ||
         !hth_spelling_init(&spelling, hth_backend_stub(), model, N_VOCAB)))
        abort();
    return &spelling;
}

/* The next token that is read as a whole, from *i on; -1: none. */
static hearth_token next_whole(const hth_spelling *s, const hearth_token *tokens, size_t n, size_t *i)
{
    for (; *i < n; (*i)++)
        if (hth_control_texts_is_whole(s->controls, tokens[*i]))
            return tokens[(*i)++];
    return -1;
}

static bool have_same_wholes(const hth_spelling *s, const hearth_token *known, size_t n_known,
                             const hearth_token *tokens, size_t n)
{
    size_t i = 0, k = 0;
    hearth_token one;

    do {
        one = next_whole(s, known, n_known, &i);
        if (one != next_whole(s, tokens, n, &k))
            return false;
    } while (one >= 0);
    return true;
}

/* Check it, where the text can be tokenized. The first known token may have been added. */
static void check_wholes(const hth_spelling *s, const char *text, size_t n_bytes, const hearth_token *known,
                         size_t n_known, unsigned flags)
{
    hearth_token *tokens;
    size_t n;

    if (hth_tokenize(s->backend, s->model, text, n_bytes, flags & HEARTH_TOKENIZE_SPECIAL, NULL, &tokens, &n, NULL) !=
        HEARTH_OK)
        return;
    assert(have_same_wholes(s, known, n_known, tokens, n) || (known[0] == s->first && (flags & HEARTH_TOKENIZE_BOS) &&
                                                              have_same_wholes(s, known + 1, n_known - 1, tokens, n)));
    free(tokens);
}

#endif
