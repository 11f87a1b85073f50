/*
 * thinking.h - a limit on the tokens of reasoning, after which the reasoning is closed
 *
 *   OUTSIDE -> INSIDE    the text that begins reasoning appeared, at the beginning of a line or as a control token
 *   INSIDE  -> OUTSIDE   the text that ends it appeared
 *   INSIDE  -> CLOSING   the budget is used up, and the text ends with a whole character
 *   CLOSING -> OUTSIDE   every closing token appeared
 *
 * In CLOSING, one token after another is forced. Everything is a function of the reply's tokens. Each further piece of
 * reasoning gets the whole budget again. A text is recognized in the text of tokens, or as the tokens that it becomes
 * when it is tokenized by itself, because control tokens have no text.
 */
#ifndef HTH_SAMPLING_THINKING_H
#define HTH_SAMPLING_THINKING_H

#include "engine/backend.h"
#include "engine/vocabulary.h"
#include "sampling/sampling.h"

enum { HTH_THINKING_TOKENS_MAX = 512 };

/* A text, and its tokens. */
typedef struct hth_thinking_mark {
    char text[HTH_THINKING_TEXT_BYTES_MAX + 1];
    hearth_token tokens[HTH_THINKING_TEXT_BYTES_MAX];
    size_t n_tokens;
} hth_thinking_mark;

typedef struct hth_thinking_parts {
    hth_thinking_mark begin, end;
    hearth_token closing[HTH_THINKING_TOKENS_MAX]; /* to be forced: a message and the end; at least one */
    size_t n_closing;
    uint32_t budget;
    bool is_inside; /* the prompt ends within reasoning */
} hth_thinking_parts;

typedef struct hth_thinking hth_thinking;

/*
 * The tokens of a text, in which names of control tokens are recognized. *n_out may exceed capacity; nothing is then
 * written.
 */
typedef hearth_status (*hth_thinking_tokenize_fn)(const void *model, const char *text, hearth_token *tokens,
                                                  size_t capacity, size_t *n_out, hearth_error *err);
/* Fill *out from sampling, which must limit reasoning. HEARTH_MISUSE if the message has too many tokens. */
hearth_status hth_thinking_read(const hearth_sampling *sampling, hth_thinking_tokenize_fn tokenize, const void *model,
                                hth_thinking_parts *out, hearth_error *err);

/* parts are copied, vocabulary is borrowed. NULL if out of memory. */
hth_thinking *hth_thinking_new(const hth_thinking_parts *parts, const hth_vocabulary *vocabulary);
const hth_thinking_parts *hth_thinking_parts_of(const hth_thinking *thinking);
void hth_thinking_free(hth_thinking *thinking); /* accepts NULL */

void hth_thinking_accept(hth_thinking *thinking, hearth_token token);
/* The token that must come next; HTH_NO_TOKEN: any token may. */
hearth_token hth_thinking_forced(const hth_thinking *thinking);

#endif
