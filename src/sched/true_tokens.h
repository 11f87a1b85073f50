/*
 * true_tokens.h - gives a prompt that begins with a known conversation that conversation's tokens
 *
 * The tokens that a model draws for its reply may differ from those that the tokenizer makes from the reply's text.
 * When the text comes back in the next prompt, rows and cells of the reply would not be found, and the model would read
 * different tokens than it wrote. So at the end of a request, the text of prompt and reply becomes a record of the
 * history with its exact tokens. Of a prompt that begins with a record's text, only the rest is tokenized.
 *
 * The result must be tokens of exactly this text, with control tokens exactly where the tokenizer would read them. A
 * user-defined token is text, but the tokenizer reads it as a whole in every prompt, so the same rule applies to it.
 * "Whole tokens" below means both kinds. The argument, for a prompt P = B R, where B is the text of a record:
 *
 *   1. B is compared byte by byte with the text that was recorded: the bytes of the earlier prompt, then the bytes of
 *      each token of the reply, control tokens included. The earlier prompt's tokens came from the tokenizer or, by the
 *      same argument, from a shorter record.
 *   2. The space of a record is the fingerprint of the model with its salts, the flags of the tokenizer, and whether
 *      the prompt was a rendered conversation. So a prompt in which names of control tokens are read as control tokens
 *      (HEARTH_TOKENIZE_SPECIAL) matches only records of such prompts, and other prompts match only theirs.
 *   3. A tokenizer finds the texts of whole tokens first, wherever they stand, longer texts before shorter ones;
 *      without the flag, only those of user-defined tokens. A reply is recorded only if each such text in it, even one
 *      that begins in the prompt, is exactly one whole token of the reply or is inside one, and each whole token is
 *      found by its text. So tokenizing B finds the whole tokens that the record has. Without the flag, a reply with a
 *      control token is not recorded.
 *   4. A record is used only if no text of a whole token in P begins in B and ends in R. So the whole tokens of P are
 *      those of B and those of R. The record also ends between whole characters.
 *   5. R is tokenized as if it followed the record's last token. If that is a whole token, its text is tokenized before
 *      R, so that blanks are treated as in every prompt. Otherwise the tokens of R up to its first whole token must
 *      have exactly the bytes of R. If they do not, even with a line end before R (some tokenizers put a blank before a
 *      text), the whole prompt is tokenized again.
 *
 * Rules 3 and 4 are checked again for each entry of a file. Clients with the same salt share records, so a client must
 * not be able to force unusual tokens on the text of another:
 *
 *   - A completion, whose prompt may be any text, never provides tokens for a conversation (rule 2).
 *   - The caller leaves out replies whose tokenization the client could influence: with biases, or with its own grammar
 *     or schema. The grammar of a template's calls does not count, because it allows every tokenization of a call.
 *   - A reply is not recorded if it has more than one and a half times the tokens that the tokenizer makes from its
 *     text, plus 8 (spelling.h). The last 256 tokens of the prompt are counted with it, so many small replies cannot
 *     exceed what one may not.
 *   - The tokens of a known text are replaced only by tokens that are no more numerous.
 *
 * A process of another node may know a conversation that comes here (hth_known_text). That node is no authority: its
 * tokens become records here only if they spell the text that comes with them, and rule 3 holds for all of that text.
 *
 * Where a client's text has the name of a control token, the prompt of a conversation has the byte 0xFF before the
 * name. The byte never occurs in UTF-8, and the tokenizer reads no control token there. Records have these marks, too.
 * A text that is cut between two control tokens is tokenized in one piece, as the engine does, so only the names
 * differ. The text of a prompt with marks, or whose tokenizer drops blanks next to control tokens, cannot be
 * reconstructed from its tokens; its record stays in memory.
 */
#ifndef HTH_SCHED_TRUE_TOKENS_H
#define HTH_SCHED_TRUE_TOKENS_H

#include <stdatomic.h>

#include "engine/backend.h"
#include "history/history_files.h"

enum { HTH_PROMPT_CHAT = 128 }; /* in addition to HEARTH_TOKENIZE_...: the text is a rendered conversation */

/*
 * The text that a prompt's tokens were made from. It accompanies them from the tokenizer to the end of the request. It
 * never changes, and its holders share it by reference.
 */
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

typedef struct hth_true_tokens hth_true_tokens; /* any thread may call every function */

typedef struct hth_true_tokens_options {
    const hth_backend *backend;
    const hth_engine_model *model; /* outlives it */
    uint32_t n_vocab;
    size_t bytes_max;           /* of memory; the files of all models together take about four times as much */
    const char *directory;      /* NULL: in memory only */
    const hth_signing_key *key; /* of the files; NULL: none */
    const hth_fs *fs;           /* NULL: the system's */
    const hth_log *log;
} hth_true_tokens_options;

/* Reads the files. NULL if out of memory. If the directory cannot be used, there are no files, and one warning. */
hth_true_tokens *hth_true_tokens_new(const hth_true_tokens_options *options);
/*
 * Write pending records and free. False if a device hangs for some seconds: everything that the options refer to then
 * stays in use until the process ends. Accepts NULL.
 */
bool hth_true_tokens_free(hth_true_tokens *known);

/*
 * The tokens of a prompt, n_bytes >= 1, under the fingerprint of the model with its salts. flags are the tokenizer's,
 * and HTH_PROMPT_CHAT. *n_known_out is the number of known leading tokens. The caller frees tokens_out. is_gone and
 * statuses are as for hth_tokenize.
 */
hearth_status hth_true_tokens_of(hth_true_tokens *known, const uint8_t fingerprint[32], const char *text,
                                 size_t n_bytes, unsigned flags, const atomic_bool *is_gone, hearth_token **tokens_out,
                                 size_t *n_out, size_t *n_known_out, hearth_error *err);

/* Do two replies mean the same? Any thread. */
typedef bool (*hth_same_reply_fn)(const char *a, size_t n_a, const char *b, size_t n_b, void *user_data);

/*
 * A template may write an earlier reply differently than the model did. Replace the template's words by the model's
 * own, from a record, where same returns true for both. The replies must end with the same tokens. *out is then the new
 * text, [*n_out], which the caller frees. NULL: the text is unchanged.
 */
void hth_true_tokens_own_words(hth_true_tokens *known, const uint8_t fingerprint[32], const char *text, size_t n_bytes,
                               unsigned flags, hth_same_reply_fn same, void *user_data, char **out, size_t *n_out);

/*
 * Record that a prompt with its tokens got this reply, whose last token may be an end token. Parts that cannot be
 * recorded are left out.
 */
void hth_true_tokens_note(hth_true_tokens *known, const uint8_t fingerprint[32], const hth_prompt_text *text,
                          const hearth_token *prompt, size_t n_prompt, const hearth_token *reply, size_t n_reply);

/* A known text with its tokens, for a process of another node. All zeros: none. */
typedef struct hth_known_text {
    char *text; /* [n_bytes], with marks; the owner frees all three */
    size_t n_bytes;
    hearth_token *tokens; /* [n_tokens] */
    size_t n_tokens;
    hth_history_turn *turns; /* [n_turns], the last with all bytes and tokens */
    size_t n_turns;
} hth_known_text;
void hth_known_text_deinit(hth_known_text *text); /* zeros afterwards */

/* The longest known beginning of a prompt; arguments as for hth_true_tokens_of. False without memory. */
bool hth_true_tokens_known(hth_true_tokens *known, const uint8_t fingerprint[32], const char *text, size_t n_bytes,
                           unsigned flags, hth_known_text *out);

/*
 * Record a text that another node knows. True: it was not known here before. False also if anything about it is wrong:
 * then it is ignored whole.
 */
bool hth_true_tokens_learn(hth_true_tokens *known, const uint8_t fingerprint[32], const hth_known_text *text,
                           unsigned flags);

/* Wait until everything noted so far is in files; false after timeout_ms. */
bool hth_true_tokens_flush(hth_true_tokens *known, uint32_t timeout_ms);

#endif
