/*
 * past.h - memory of rows that are gone, and of other keyspaces that kept the beginning of a prompt
 *
 * A lookup that finds nothing cannot say why. These records can, for a while: they list which rows were evicted,
 * damaged or superseded, under shortened keys, and under which other models and parameters the same first tokens were
 * kept. The size and number of the records are bounded, and the oldest are forgotten. Losing all of them costs only an
 * explanation. These records belong to the process. The index of a directory remembers the events of its files in the
 * same form (index_past.c), so that a restart and other processes know them.
 *
 *   gone         row -> why and when it went, and the row that holds its content now
 *   ends         key of a block boundary -> how far beyond it lost rows of the next block reached. Without these, a
 *                lost tail of an earlier turn could not be found, because its key is not that of a boundary of the
 *                prompt
 *   beginnings   (scope of salts, digest of first tokens) -> the keyspaces that kept them. The scope comes first, so
 *                the owner of one salt never sees a record of another
 *
 * The first tokens are the first block of a prompt, or all tokens of a tail that begins at position 0.
 */
#ifndef HTH_INDEX_PAST_H
#define HTH_INDEX_PAST_H

#include <pthread.h>

#include "index/fifo_map.h"
#include "rows/row.h"

enum {
    HTH_PAST_DIGEST_BYTES = 16,
    HTH_PAST_NAME_BYTES = HTH_PAST_DIGEST_BYTES + 1,
    HTH_PAST_ENDS = 8,           /* kept for one boundary */
    HTH_PAST_SPACES = 4,         /* kept for one beginning */
    HTH_PAST_GONE_MAX = 1 << 16, /* rows */
    HTH_PAST_ENDS_MAX = 1 << 14, /* boundaries */
    HTH_PAST_BEGINNINGS_MAX = 1 << 13,
};

/* Half of a row's key, and its kind. */
typedef struct hth_past_name {
    uint8_t bytes[HTH_PAST_NAME_BYTES];
} hth_past_name;

void hth_past_name_of(const hth_row_id *id, hth_past_name *out);

/* Of two events, the later one counts; within one second, the one with the larger number. */
typedef enum hth_gone_reason {
    HTH_GONE_SUPERSEDED = 1, /* another row holds all of its content */
    HTH_GONE_EVICTED = 2,
    HTH_GONE_DAMAGED = 3,
} hth_gone_reason;

typedef struct hth_gone {
    hth_gone_reason reason;
    uint64_t time;           /* Unix seconds */
    hth_past_name successor; /* if superseded */
} hth_gone;

/* Does event a count if b is known, too? */
bool hth_gone_is_later(const hth_gone *a, const hth_gone *b);

/* Tokens from the boundary to the end of the row, 1 .. block - 1; 0 for rows that end elsewhere. */
uint8_t hth_past_end_of(const hth_row_meta *meta);
/* Ends at one boundary, the newest first, filled up with zeros. */
typedef struct hth_past_ends {
    uint8_t ends[HTH_PAST_ENDS];
} hth_past_ends;
/* Put an end at the front; false if it was already there. */
bool hth_past_ends_add(hth_past_ends *ends, uint8_t end);

/* A keyspace that kept a beginning, and the row that holds it. Keyspaces are shortened to their leading bytes. */
typedef struct hth_beginning_space {
    uint8_t base[HTH_PAST_DIGEST_BYTES];
    uint8_t fingerprint[HTH_PAST_DIGEST_BYTES];
    uint8_t parameters[HTH_PAST_DIGEST_BYTES];
    uint8_t key[HTH_KEY_BYTES];
    uint8_t kind;
    uint8_t is_used; /* 1; 0 in free slots */
} hth_beginning_space;

typedef struct hth_beginning_name {
    uint8_t scope[HTH_PAST_DIGEST_BYTES];
    uint8_t digest[HTH_PAST_DIGEST_BYTES];
} hth_beginning_name;

typedef struct hth_beginning {
    hth_beginning_space spaces[HTH_PAST_SPACES]; /* the newest first */
} hth_beginning;

void hth_beginning_name_of(const hth_keyspace *keyspace, const hearth_token *tokens, size_t n_tokens,
                           hth_beginning_name *out);
void hth_beginning_space_of(const hth_keyspace *keyspace, const hth_row_id *id, hth_beginning_space *out);
bool hth_beginning_space_is_same(const hth_beginning_space *a, const hth_beginning_space *b);
/* Put a space at the front; each keyspace has at most one slot. False if nothing changed. */
bool hth_beginning_add(hth_beginning *beginning, const hth_beginning_space *space);

/* Called for each beginning until it returns false. */
typedef bool (*hth_beginning_visit_fn)(const hth_beginning_name *name, const hth_beginning *beginning, void *user_data);

/* The records of a process. Any thread may call every function. */
typedef struct hth_past {
    pthread_mutex_t lock; /* innermost */
    /* Each may be NULL for lack of memory; then nothing of that kind is remembered. */
    hth_fifo_map *gone;
    hth_fifo_map *ends;
    hth_fifo_map *beginnings;
} hth_past;

void hth_past_init(hth_past *past);
void hth_past_deinit(hth_past *past);

/* The row is gone. successor (NULL: none) is the row that holds its content. */
void hth_past_note_gone(hth_past *past, const hth_row_meta *meta, hth_gone_reason reason, const hth_row_id *successor);
/* The row is there again. */
void hth_past_forget_gone(hth_past *past, const hth_row_id *id);
bool hth_past_gone(hth_past *past, const hth_past_name *name, hth_gone *out);
bool hth_past_ends_get(hth_past *past, const hth_key *boundary, hth_past_ends *out);

void hth_past_note_beginning(hth_past *past, const hth_beginning_name *name, const hth_beginning_space *space);
bool hth_past_beginning(hth_past *past, const hth_beginning_name *name, hth_beginning *out);
/* visit may not call these functions. */
void hth_past_visit_beginnings(hth_past *past, hth_beginning_visit_fn visit, void *user_data);

#endif
