/*
 * token_memo.h - the tokens of texts that were tokenized lately
 *
 * A prompt that is seen again is tokenized again, which for a short one costs more than everything else that an exact hit
 * does. The memo maps whole texts to their tokens, exactly: texts are compared byte by byte. Bounded in bytes, least
 * recently used first out. Thread-safe; its lock is held for a lookup and a copy, no other is taken inside.
 */
#ifndef HTH_MODELS_TOKEN_MEMO_H
#define HTH_MODELS_TOKEN_MEMO_H

#include <stdbool.h>
#include <stddef.h>

#include "hearth.h"

typedef struct hth_token_memo hth_token_memo;

enum {
    HTH_TOKEN_MEMO_TEXT_MIN = 16,      /* shorter texts are tokenized faster than found */
    HTH_TOKEN_MEMO_TEXT_MAX = 1 << 20, /* longer ones would push out too many */
};

/* bytes_max: of texts, tokens and bookkeeping together. NULL without memory. */
hth_token_memo *hth_token_memo_new(size_t bytes_max);
void hth_token_memo_free(hth_token_memo *memo); /* accepts NULL */

/* A new array of the tokens that text has under flags (HEARTH_TOKENIZE_...); false: not known, or no memory for a copy. */
bool hth_token_memo_find(hth_token_memo *memo, const char *text, size_t n_bytes, unsigned flags,
                         hearth_token **tokens_out, size_t *n_out);
/* Remember them, copied. Without memory nothing is remembered. */
void hth_token_memo_add(hth_token_memo *memo, const char *text, size_t n_bytes, unsigned flags,
                        const hearth_token *tokens, size_t n);

#endif
