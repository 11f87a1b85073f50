/*
 * history_entry.h - a record of the history in the form of a file
 *
 *   offset  bytes
 *        0      8  "HTHHIST1"
 *        8      4  bytes of the whole entry
 *       12      4  n_tokens
 *       16      1  form: how the text is derived from the tokens
 *       17      1  1: signed; 0: not
 *       18     33  the space
 *       51     16  the digest below
 *       67     16  the digest of the record
 *       83      1  zero
 *       84      4  bytes at the end of the whole text that a model wrote
 *       88         the tokens, 4 bytes each
 *               32 if signed: HMAC-SHA256 with the signing key of the cache over all bytes before it
 *                4 CRC32C of all bytes before it
 *
 * Integers are little-endian. The text is not in the entry. It is derived again from the tokens, and the digest proves
 * that it is the same text. The function that derives the text refuses tokens that a record cannot have, so even a
 * crafted file can only give a text tokens of that text.
 *
 * An entry is self-contained: it is found and checked without the bytes around it. So a truncated or damaged entry
 * costs only itself and the entries that stand on it. Checking reads at most a few times the bytes of a file, whatever
 * the file claims.
 */
#ifndef HTH_HISTORY_HISTORY_ENTRY_H
#define HTH_HISTORY_HISTORY_ENTRY_H

#include "history/history.h"
#include "rows/signing_key.h"

enum { HTH_HISTORY_FORMS = 8 }; /* 0 .. 7; the function below defines their meaning */

/* Tokens whose text is wanted. */
typedef struct hth_history_span {
    const hth_history_space *space;
    const hth_history_end *before; /* the end of the text that precedes them */
    const hearth_token *tokens;    /* [n_tokens] */
    size_t n_tokens;
} hth_history_span;

/*
 * The text of tokens in this form, [*n_out], released with free. NULL: no record after that text can have these tokens
 * in this form, or memory is short. Any thread.
 */
typedef char *(*hth_history_text_fn)(const hth_history_span *span, unsigned form, size_t *n_out, void *user_data);

typedef struct hth_history_entry {
    hth_history_record record; /* without its text; its tokens are `tokens` */
    hth_history_digest digest;
    unsigned form;
    hearth_token *tokens; /* the caller's, released with free */
} hth_history_entry;

/* The size of an entry with n_tokens tokens. */
size_t hth_history_entry_bytes(size_t n_tokens, bool is_signed);
/*
 * Write the entry of a record that follows a text, with a signature if there is a key. False, with nothing written, if
 * no form gives its text, or without memory.
 */
bool hth_history_entry_write(const hth_history_record *record, const hth_history_end *before,
                             const hth_signing_key *key, hth_history_text_fn text_of, void *user_data, uint8_t *bytes);

/* Reads the entries of a file. */
typedef struct hth_history_reader {
    const uint8_t *bytes; /* [n_bytes] */
    size_t n_bytes;
    const hth_signing_key *key; /* with a key, an entry must have its signature to be sound */
    size_t at;                  /* 0 at first */
    uint64_t n_checked;         /* bytes whose checksum was computed; 0 at first */
    bool has_no_memory;         /* memory ran out before the end */
    bool has_given_up;          /* the file asks for too many checks */
} hth_history_reader;

/* The next sound entry. False: no more, or the reader ended early. */
bool hth_history_reader_next(hth_history_reader *reader, hth_history_entry *out);

#endif
