/*
 * history.h - texts whose tokens are known
 *
 * A record states that a text, from its beginning, is tokenized as a list of tokens. It ends where a reply ended. A
 * record stands on the longest record that its text and its tokens begin with, and keeps only the bytes and tokens
 * after that one. So a conversation of many turns is kept once.
 *
 * The texts of a space form a radix tree: edges hold bytes, the edges of a node begin with different bytes, and records
 * lie at nodes. So a search compares the bytes of the text once, exactly, and hashes nothing. Records of different
 * spaces never mix. A space is a vocabulary, a tenant and the way in which texts are tokenized; see true_tokens.h.
 *
 * Memory is bounded: the least recently used records are dropped first. A use of a record counts as a slightly later
 * use of the records that it stands on, so the oldest record is always one that no other stands on. Losing records only
 * costs time.
 *
 * A record has a digest for files (history_entry.h): SHA-256 over the digest of the record below, its bytes and its
 * tokens, cut to 16 bytes. For the first record of a text, the digest below is that of the space.
 */
#ifndef HTH_HISTORY_HISTORY_H
#define HTH_HISTORY_HISTORY_H

#include "base/status.h"

enum {
    HTH_HISTORY_SPACE_BYTES = 33,
    HTH_HISTORY_DIGEST_BYTES = 16,
    HTH_HISTORY_SPAN_BYTES_MAX = 16 << 20, /* per record; a longer text is not kept */
};

typedef struct hth_history_space {
    uint8_t bytes[HTH_HISTORY_SPACE_BYTES];
} hth_history_space;

typedef struct hth_history_digest {
    uint8_t bytes[HTH_HISTORY_DIGEST_BYTES];
} hth_history_digest;

/* Any thread may call every function but hth_history_free. Texts, tokens and names are read only during a call. */
typedef struct hth_history hth_history;

/*
 * The caller owns it. bytes_max: limit of memory; the least recently used records are dropped first. n_vocab: a record
 * with tokens outside 0 .. n_vocab-1 is not kept. NULL without memory.
 */
hth_history *hth_history_new(size_t bytes_max, uint32_t n_vocab);
void hth_history_free(hth_history *history); /* once no thread uses it any more; accepts NULL */

/*
 * Can a known beginning of n_bytes be used? Called on the thread of the search, under the lock of the history: it must
 * not call the history.
 */
typedef bool (*hth_history_fits_fn)(size_t n_bytes, void *user_data);

typedef struct hth_history_found {
    size_t n_bytes;       /* of the known beginning; 0: nothing is known */
    hearth_token *tokens; /* [n_tokens], the caller's, released with free; NULL when nothing is known */
    size_t n_tokens;
} hth_history_found;

/*
 * Find the longest record that the text begins with and that fits. It counts as used. False without memory; *out is
 * then as if nothing were known.
 */
bool hth_history_find(hth_history *history, const hth_history_space *space, const char *text, size_t n_bytes,
                      hth_history_fits_fn fits, void *user_data, hth_history_found *out);

/* The end of a record, from the beginning of the text. */
typedef struct hth_history_turn {
    uint32_t n_bytes, n_tokens; /* up to its end */
    uint32_t n_reply_bytes;     /* before its end, which a model wrote */
} hth_history_turn;

/*
 * The same, with the ends of the records that it stands on and its own, [*n_turns_out], the shortest first. The caller
 * frees them; NULL when nothing is known. Nothing is known of a text whose length exceeds 32 bits.
 */
bool hth_history_find_turns(hth_history *history, const hth_history_space *space, const char *text, size_t n_bytes,
                            hth_history_fits_fn fits, void *user_data, hth_history_found *out,
                            hth_history_turn **turns_out, size_t *n_turns_out);

/*
 * Note that a whole text, n_bytes >= 1, is these tokens, n_tokens >= 1. If the text is known with other tokens, the new
 * ones replace them, unless there are more of them or other records stand on the old ones. The last n_reply_bytes of
 * the text were written by a model. Never fails: without memory, or for a text that is too long, nothing is noted.
 */
void hth_history_add(hth_history *history, const hth_history_space *name, const char *text, size_t n_bytes,
                     size_t n_reply_bytes, const hearth_token *tokens, size_t n_tokens);

enum { HTH_HISTORY_REPLIES_MAX = 16 };

/* A reply that was given after the beginning of a text. */
typedef struct hth_history_reply {
    size_t at;   /* where it begins in the text */
    char *bytes; /* [n_bytes], the caller's, released with free */
    size_t n_bytes;
    hearth_token last; /* the last token of the reply */
} hth_history_reply;

/*
 * Copy the replies that begin where the text is known but continue differently from the text. Returns their number;
 * without room or memory, some are left out.
 */
size_t hth_history_replies(hth_history *history, const hth_history_space *name, const char *text, size_t n_bytes,
                           hth_history_reply out[HTH_HISTORY_REPLIES_MAX]);

/* The bytes of memory in use, and the number of records. */
size_t hth_history_bytes(hth_history *history);
size_t hth_history_count(hth_history *history);

/* ---- single records, for files ---- */

/* A record. Its pointers are borrowed by functions that take one. */
typedef struct hth_history_record {
    hth_history_space space;
    hth_history_digest below; /* the digest of the record that it stands on, or of the space */
    const char *text;         /* [n_bytes], after that record */
    size_t n_bytes;
    const hearth_token *tokens; /* [n_tokens], likewise */
    size_t n_tokens;
    size_t n_reply_bytes; /* bytes at the end of the whole text that a model wrote */
} hth_history_record;

/* Compute the digest of a record. False without memory, with *out unchanged. */
bool hth_history_digest_of(const hth_history_record *of, hth_history_digest *out);
/* Compute the digest that stands below the first record of a text. */
void hth_history_space_digest(const hth_history_space *name, hth_history_digest *out);

enum { HTH_HISTORY_END_BYTES = 256 };

/* The end of a text. */
typedef struct hth_history_end {
    char bytes[HTH_HISTORY_END_BYTES]; /* [n_bytes] */
    size_t n_bytes;                    /* 0: the text begins here */
    hearth_token last;                 /* -1: none */
} hth_history_end;

/*
 * Copy the end of the text of a record, by its digest or that of the space. False: the record is unknown, and *out is
 * empty.
 */
bool hth_history_end_of(hth_history *history, const hth_history_space *name, const hth_history_digest *digest,
                        hth_history_end *out);

/*
 * Add a copy of a record from a file, with its digest. A record that stands on an unknown one is ignored, and so is a
 * text that is already known. Without memory nothing is added.
 */
void hth_history_add_record(hth_history *history, const hth_history_record *from, const hth_history_digest *digest);

/*
 * Take a copy of the next record that was added by hth_history_add and not taken yet; a record comes before those that
 * stand on it. *out is one allocation, which the caller releases with free. NULL: no memory, and the record is skipped.
 * False: no record is new, and *out is unchanged.
 */
bool hth_history_take_new(hth_history *history, hth_history_record **out);
/* Make hth_history_take_new return all records again. */
void hth_history_all_are_new(hth_history *history);

#endif
