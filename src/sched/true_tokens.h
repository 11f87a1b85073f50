/*
 * true_tokens.h - a prompt that begins with a known conversation gets the tokens that the conversation had
 *
 * A model may have drawn other tokens for its reply than the tokenizer makes of the reply's text. When the text comes
 * back in the next prompt, rows and cells of the reply would not be found, and the model would read other tokens than
 * it wrote. So at the end of a request, the text of prompt and reply becomes a record of the history with its exact
 * tokens; and of a prompt that begins with a record's text, only the rest is tokenized.
 *
 * The result must be tokens of exactly this text, a control token must stand where the tokenizer would read one, and
 * nowhere else, and nobody must be able to force odd tokens on the text of another. design.md, "True tokens", has the
 * argument. In short:
 *
 *   - Texts are compared byte by byte. The bytes of a reply are those of its tokens, control tokens included.
 *   - The space of a record is the fingerprint of the model with its salts, the flags of the tokenizer, and whether the
 *     prompt was a rendered conversation.
 *   - A reply is recorded only if the tokenizer would read its control tokens and user-defined tokens, and no others,
 *     and if it is not many more tokens than the tokenizer's (spelling.h). The caller leaves out replies that were
 *     made under constraints of a client.
 *   - A record is used only if no text of such a token crosses its end in the prompt.
 *   - The rest is tokenized as behind the last known token. Behind such a token that is exact. Behind any other token
 *     the rest's tokens must have the bytes of the rest; otherwise the whole prompt is tokenized anew.
 */
#ifndef HTH_SCHED_TRUE_TOKENS_H
#define HTH_SCHED_TRUE_TOKENS_H

#include <stdatomic.h>

#include "engine/backend.h"
#include "history/history_files.h"
#include "sched/prompt_text.h"

typedef struct hth_true_tokens hth_true_tokens; /* any thread may call every function */

typedef struct hth_true_tokens_options {
    const hth_backend *backend;
    const hth_engine_model *model; /* outlives it */
    uint32_t n_vocab;
    size_t bytes_max;           /* of memory; the files of all models take about four times as much */
    const char *directory;      /* NULL: in memory only */
    const hth_signing_key *key; /* of the files; NULL: none */
    const hth_fs *fs;           /* NULL: the system's */
    const hth_log *log;
} hth_true_tokens_options;

/* Reads the files. NULL without memory. A directory that cannot be used costs the files and one warning. */
hth_true_tokens *hth_true_tokens_new(const hth_true_tokens_options *options);
/*
 * Write what is left. False when a device hangs for some seconds: then everything that the options named stays in use
 * until the process ends. Accepts NULL.
 */
bool hth_true_tokens_free(hth_true_tokens *known);

/*
 * The tokens of a prompt, n_bytes >= 1, under the fingerprint of the model with its salts. flags: those of the
 * tokenizer, and HTH_PROMPT_CHAT. *n_known_out: the leading tokens that are known. tokens_out is released with free.
 * is_gone and statuses as hth_tokenize.
 */
hearth_status hth_true_tokens_of(hth_true_tokens *known, const uint8_t fingerprint[32], const char *text,
                                 size_t n_bytes, unsigned flags, const atomic_bool *is_gone, hearth_token **tokens_out,
                                 size_t *n_out, size_t *n_known_out, hearth_error *err);

/* Do two replies say the same? Any thread. */
typedef bool (*hth_same_reply_fn)(const char *a, size_t n_a, const char *b, size_t n_b, void *user_data);

/*
 * A template may write an earlier reply otherwise than the model did. Put the model's own words, from a record, in the
 * place of the template's, where same says that both say the same. The ends of the replies must be the same tokens.
 * *out is the text then, [*n_out], released with free. NULL: it is the text that was given.
 */
void hth_true_tokens_own_words(hth_true_tokens *known, const uint8_t fingerprint[32], const char *text, size_t n_bytes,
                               unsigned flags, hth_same_reply_fn same, void *user_data, char **out, size_t *n_out);

/* A prompt with its tokens got this reply, whose last token may end it. What cannot be recorded is left out. */
void hth_true_tokens_note(hth_true_tokens *known, const uint8_t fingerprint[32], const hth_prompt_text *text,
                          const hearth_token *prompt, size_t n_prompt, const hearth_token *reply, size_t n_reply);

/* Wait until everything noted before is in files; false after timeout_ms. */
bool hth_true_tokens_flush(hth_true_tokens *known, uint32_t timeout_ms);

#endif
