/*
 * spelling.h - the text of tokens, and tokens that a text could have
 *
 * Tokens that are known of a text must not say more than the text. This file decides it for the replies of models and
 * for the files of the history: a control token stands where the tokenizer reads one, and nowhere else; a user-defined
 * token likewise; every token has bytes; and a reply has not many more tokens than the tokenizer makes of its text.
 */
#ifndef HTH_SCHED_SPELLING_H
#define HTH_SCHED_SPELLING_H

#include "engine/control_texts.h"
#include "history/history_entry.h"

typedef struct hth_spelling {
    const hth_backend *backend;
    const hth_engine_model *model;
    hth_control_texts *controls;
    hearth_token first; /* the token that the tokenizer adds at the beginning; HTH_NO_TOKEN: none */
} hth_spelling;

/* The model outlives it. False without memory. */
bool hth_spelling_init(hth_spelling *spelling, const hth_backend *backend, const hth_engine_model *model,
                       uint32_t n_vocab);
void hth_spelling_deinit(hth_spelling *spelling); /* accepts zeros */

/* hth_history_text_fn with an hth_spelling. The last byte of the space has the flags of the tokenizer. */
char *hth_spelling_text(const hth_history_span *span, unsigned form, size_t *n_out, void *user_data);

/* A text, and the tokens that it ends with. */
typedef struct hth_spelled {
    char *bytes; /* [n_bytes]; released with hth_spelled_deinit, like ends */
    size_t n_bytes, capacity;
    size_t n_before;            /* bytes before the tokens */
    const hearth_token *tokens; /* [n_tokens], borrowed */
    size_t n_tokens;
    size_t *ends; /* [n_tokens], of the bytes of each token */
} hth_spelled;

/*
 * Spell tokens behind a text, up to the first token without bytes: *n_tokens is the number of tokens then. False
 * without memory; *out may be released all the same.
 */
bool hth_spelled_init(const hth_spelling *spelling, const char *before, size_t n_before, const hearth_token *tokens,
                      size_t n_tokens, hth_spelled *out);
void hth_spelled_deinit(hth_spelled *spelled);

/* The number of leading tokens where the tokenizer would read control tokens and user-defined ones as these are. */
size_t hth_spelling_n_alike(const hth_spelling *spelling, const hth_spelled *spelled, unsigned flags);

/*
 * Are the tokens at most half as many again as the tokenizer's, and 8? Counted together with up to 256 tokens of the
 * prompt, [n_prompt], so that many small pieces cannot do what one must not. spelled has the text of the prompt before
 * its tokens.
 */
bool hth_spelling_is_usual(const hth_spelling *spelling, const hth_spelled *spelled, const hearth_token *prompt,
                           size_t n_prompt, unsigned flags);

#endif
