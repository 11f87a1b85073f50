/*
 * prompt_text.h - the text that a prompt's tokens were made from
 *
 * It accompanies the tokens from the tokenizer to the end of the request, where text and tokens become a record of the
 * history (true_tokens.h). It never changes, and its holders share it by reference.
 */
#ifndef HTH_SCHED_PROMPT_TEXT_H
#define HTH_SCHED_PROMPT_TEXT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { HTH_PROMPT_CHAT = 128 }; /* in addition to HEARTH_TOKENIZE_...: the text is a rendered conversation */

typedef struct hth_prompt_text {
    unsigned flags;          /* HEARTH_TOKENIZE_..., HTH_PROMPT_CHAT */
    uint32_t n_known;        /* leading tokens that were taken from the history */
    uint8_t fingerprint[32]; /* of the model with the salts: identifies the tenant that owns the records */
    size_t n_bytes;
    atomic_uint references;
    char bytes[]; /* [n_bytes] */
} hth_prompt_text;

/* A copy of the text with one reference; NULL if out of memory. */
hth_prompt_text *hth_prompt_text_new(const char *text, size_t n_bytes, unsigned flags, uint32_t n_known);
/* Take another reference. Accepts NULL. */
hth_prompt_text *hth_prompt_text_ref(hth_prompt_text *text);
void hth_prompt_text_unref(hth_prompt_text *text); /* accepts NULL */

#endif
