/*
 * past.h - what is remembered of rows that are not there any more, and of who else has seen a prompt's beginning
 *
 * A lookup that finds nothing cannot tell why. This can, for a while: which rows were evicted, damaged or superseded,
 * under names cut from their keys; and under which other models and parameters the same first tokens were kept. Every
 * record is bounded in size and in number, the oldest are forgotten, and losing all of them costs an explanation and
 * nothing else. The process remembers here; what happened to files is remembered in their index, in the same form
 * (index_past.h), so that a restart and other processes know it.
 *
 *   gone         row -> why and when it went, and which row holds its content now
 *   ends         key of a block boundary -> how far beyond it lost rows of the next block reached: without it, a lost
 *                tail of an earlier turn would have to be asked for by a key that the prompt's boundaries do not give
 *   beginnings   (scope of salts, digest of first tokens) -> the keyspaces that kept them. The scope leads: whoever has
 *                one salt never meets a record of another
 *
 * The first tokens are a prompt's first block, or all tokens of a tail that begins at position 0.
 */
#ifndef HTH_CACHE_PAST_H
#define HTH_CACHE_PAST_H

#include <pthread.h>

#include "cache/fifo_map.h"
#include "cache/row.h"

enum {
    HTH_PAST_DIGEST_BYTES = 16,
    HTH_PAST_NAME_BYTES = HTH_PAST_DIGEST_BYTES + 1,
    HTH_PAST_ENDS = 8,           /* remembered of one boundary */
    HTH_PAST_SPACES = 4,         /* of one beginning */
    HTH_PAST_GONE_MAX = 1 << 16, /* rows */
    HTH_PAST_ENDS_MAX = 1 << 14, /* boundaries */
    HTH_PAST_BEGINNINGS_MAX = 1 << 13,
};

/* Half of a row's key, and its kind. */
typedef struct hth_past_name {
    uint8_t bytes[HTH_PAST_NAME_BYTES];
} hth_past_name;

void hth_past_name_of(const hth_row_id *id, hth_past_name *out);

/* The later of two events is what counts; in one second, the larger of two numbers. */
typedef enum hth_gone_reason {
    HTH_GONE_SUPERSEDED = 1, /* another row holds all of it */
    HTH_GONE_EVICTED = 2,
    HTH_GONE_DAMAGED = 3,
} hth_gone_reason;

typedef struct hth_gone {
    hth_gone_reason reason;
    uint64_t time;           /* Unix seconds */
    hth_past_name successor; /* where superseded */
} hth_gone;

/* Is a what counts where b is known, too? */
bool hth_gone_is_later(const hth_gone *a, const hth_gone *b);

/* Tokens from the boundary to the row's end, 1 .. block - 1; 0 for rows that do not end inside the block. */
uint8_t hth_past_end_of(const hth_row_meta *meta);
/* Ends of one boundary, the newest first, filled up with zeros. */
typedef struct hth_past_ends {
    uint8_t ends[HTH_PAST_ENDS];
} hth_past_ends;
/* Put one in at the front; false when it led already. */
bool hth_past_ends_add(hth_past_ends *ends, uint8_t end);

/* A keyspace that kept a beginning, and the row in which it did. Of keyspaces, leading bytes are enough. */
typedef struct hth_beginning_space {
    uint8_t base[HTH_PAST_DIGEST_BYTES];
    uint8_t fingerprint[HTH_PAST_DIGEST_BYTES];
    uint8_t parameters[HTH_PAST_DIGEST_BYTES];
    uint8_t key[HTH_KEY_BYTES];
    uint8_t kind;
    uint8_t is_used; /* 1; 0 in places that are free */
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
/* Put one in at the front, where a keyspace has one place; false when nothing changed. */
bool hth_beginning_add(hth_beginning *beginning, const hth_beginning_space *space);

/* Told of each beginning that is remembered, until false. */
typedef bool (*hth_beginning_visit_fn)(const hth_beginning_name *name, const hth_beginning *beginning, void *user_data);

/* What a process remembers. Every function may be called from any thread. */
typedef struct hth_past {
    pthread_mutex_t lock; /* innermost */
    /* Each may be NULL, for want of memory: then nothing of the kind is remembered. */
    hth_fifo_map *gone;
    hth_fifo_map *ends;
    hth_fifo_map *beginnings;
} hth_past;

void hth_past_init(hth_past *past);
void hth_past_deinit(hth_past *past);

/* The row went. successor (NULL: none) is the row that holds its content. */
void hth_past_note_gone(hth_past *past, const hth_row_meta *meta, hth_gone_reason reason, const hth_row_id *successor);
/* The row is there again. */
void hth_past_forget_gone(hth_past *past, const hth_row_id *id);
bool hth_past_gone(hth_past *past, const hth_past_name *name, hth_gone *out);
bool hth_past_ends_get(hth_past *past, const hth_key *boundary, hth_past_ends *out);

void hth_past_note_beginning(hth_past *past, const hth_beginning_name *name, const hth_beginning_space *space);
bool hth_past_beginning(hth_past *past, const hth_beginning_name *name, hth_beginning *out);
/* No callback may come back here. */
void hth_past_visit_beginnings(hth_past *past, hth_beginning_visit_fn visit, void *user_data);

#endif
