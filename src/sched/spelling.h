/*
 * spelling.h - the text of tokens, and the tokens that are acceptable for a text
 *
 * The known tokens of a text must not mean more than the text. This file checks that for the replies of models and for
 * the files of the history: control tokens are exactly where the tokenizer reads them, and so are user-defined tokens;
 * every token has bytes; and a reply does not have many more tokens than the tokenizer makes from its text.
 */
#ifndef HTH_SCHED_SPELLING_H
#define HTH_SCHED_SPELLING_H

#include "engine/tokenize.h"
#include "history/history_entry.h"

typedef struct hth_spelling {
    const hth_backend *backend;
    const hth_engine_model *model;
    hth_control_texts *controls;
    uint32_t n_vocab;
    hearth_token first; /* the token that the tokenizer adds at the beginning; HTH_NO_TOKEN: none */
} hth_spelling;

/* The model outlives it. False if out of memory. */
bool hth_spelling_init(hth_spelling *spelling, const hth_backend *backend, const hth_engine_model *model,
                       uint32_t n_vocab);
void hth_spelling_deinit(hth_spelling *spelling); /* accepts zeros */

/* An hth_history_text_fn; user_data is an hth_spelling. The last byte of the space has the tokenizer's flags. */
char *hth_spelling_text(const hth_history_span *span, unsigned form, size_t *n_out, void *user_data);

/* A text, and the tokens that it ends with. */
typedef struct hth_spelled {
    char *bytes; /* [n_bytes]; released with hth_spelled_deinit, like ends */
    size_t n_bytes, capacity;
    size_t n_before;            /* bytes before the tokens */
    const hearth_token *tokens; /* [n_tokens], borrowed */
    size_t n_tokens;
    size_t *ends; /* [n_tokens], the end of each token's bytes */
} hth_spelled;

/*
 * Spell tokens after a text, up to the first token without bytes; n_tokens is then the number of tokens before it. With
 * a form (hth_history_text_fn), without the blanks that the form added. False if out of memory; *out must be released
 * in either case.
 */
bool hth_spelled_init(const hth_spelling *spelling, const char *before, size_t n_before, const hearth_token *tokens,
                      size_t n_tokens, unsigned form, hth_spelled *out);
void hth_spelled_deinit(hth_spelled *spelled);

/*
 * Do these tokens spell exactly this text from its beginning? Except for marks (HTH_PLAIN_MARK), and for the blanks and
 * the first token that a tokenizer adds (hth_history_text_fn). *out is then the text, and the tokens without an added
 * first one. It must be released in either case. False also if out of memory, and for a token outside the vocabulary.
 */
bool hth_spelled_match(const hth_spelling *spelling, const char *text, size_t n_bytes, const hearth_token *tokens,
                       size_t n_tokens, unsigned flags, hth_spelled *out);

/*
 * The number of leading tokens for which the tokenizer would read the same control tokens and user-defined tokens. It
 * reads no control token at a mark.
 */
size_t hth_spelling_n_alike(const hth_spelling *spelling, const hth_spelled *spelled, unsigned flags);

/*
 * Is the number of tokens at most one and a half times the tokenizer's, plus 8? The count includes up to 256 tokens of
 * the prompt, [n_prompt], so that many small replies cannot exceed what one may not. spelled has the text of the prompt
 * before its tokens.
 */
bool hth_spelling_is_usual(const hth_spelling *spelling, const hth_spelled *spelled, const hearth_token *prompt,
                           size_t n_prompt, unsigned flags);

#endif
