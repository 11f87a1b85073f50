/*
 * history_entry.h - a record of the history as bytes of a file
 *
 *   offset  bytes
 *        0      8  "HTHHIST1"
 *        8      4  bytes of the whole entry
 *       12      4  n_tokens
 *       16      1  form: how the text is made of the tokens
 *       17      1  1: signed; 0: not
 *       18     33  the space
 *       51     16  the digest below
 *       67     16  the digest of the record
 *       83      1  zero
 *       84      4  bytes of the whole text, at its end, that a model wrote
 *       88         the tokens, 4 bytes each
 *               32 if signed: HMAC-SHA256 with the signing key of the cache over all bytes before it
 *                4 CRC32C of all bytes before it
 *
 * Integers are little-endian. The text is not in the entry. It is made of the tokens again, and the digest proves that
 * it is the same text. The function that makes the text refuses tokens that a record cannot have, so a crafted file
 * gives a text no other tokens than tokens of this text.
 *
 * An entry stands for itself: it is found and checked without the bytes around it. So an entry that was cut off, or a
 * damaged one, costs itself and the entries that stand on it. Checking costs at most a few times the bytes of a file,
 * whatever the file claims.
 */
#ifndef HTH_HISTORY_HISTORY_ENTRY_H
#define HTH_HISTORY_HISTORY_ENTRY_H

#include "history/history.h"
#include "rows/signing_key.h"

enum { HTH_HISTORY_FORMS = 8 }; /* 0 .. 7; their meaning is that of the function below */

/* Tokens whose text is asked for. */
typedef struct hth_history_span {
    const hth_history_space *space;
    const hth_history_end *before; /* the end of the text that they stand behind */
    const hearth_token *tokens;    /* [n_tokens] */
    size_t n_tokens;
} hth_history_span;

/*
 * The text of tokens in this form, [*n_out], released with free. NULL: no record behind that text can have these
 * tokens in this form, or there is no memory. Any thread.
 */
typedef char *(*hth_history_text_fn)(const hth_history_span *span, unsigned form, size_t *n_out, void *user_data);

typedef struct hth_history_entry {
    hth_history_space space;
    hth_history_digest below;
    hth_history_digest digest;
    unsigned form;
    hearth_token *tokens; /* [n_tokens] */
    size_t n_tokens;
    size_t n_reply_bytes;
} hth_history_entry;

/* The bytes of an entry with so many tokens. */
size_t hth_history_entry_bytes(size_t n_tokens, bool is_signed);
/*
 * Write the entry of a record behind a text, with a signature if there is a key. False, with nothing written, if no
 * form gives its text, or without memory.
 */
bool hth_history_entry_write(const hth_history_record *record, const hth_history_end *before,
                             const hth_signing_key *key, hth_history_text_fn text_of, void *user_data, uint8_t *bytes);

/* Reads the entries of a file. */
typedef struct hth_history_reader {
    const uint8_t *bytes; /* [n_bytes] */
    size_t n_bytes;
    const hth_signing_key *key; /* with a key, an entry without its signature is not sound */
    size_t at;                  /* 0 at first */
    uint64_t n_checked;         /* bytes whose checksum was computed; 0 at first */
    bool has_no_memory;         /* there was none before the end */
    bool has_given_up;          /* the file asks for too many checks */
} hth_history_reader;

/* The next sound entry. The caller frees out->tokens. False: there is none, or the reader ended early. */
bool hth_history_reader_next(hth_history_reader *reader, hth_history_entry *out);

#endif
