/*
 * row.h - the identity and the metadata of a row
 *
 * A row is one cached piece of a prefix: a block, a tail, a whole snapshot, a recurrent state, or the logits at the end
 * of a prompt. Its name is (key, kind); the key is that of the prefix that ends with the row.
 */
#ifndef HTH_ROWS_ROW_H
#define HTH_ROWS_ROW_H

#include <string.h>

#include "rows/key.h"

/* Tokens in a block. Part of the meaning of rows, so ctx_params_hash contains it. */
#define HTH_BLOCK_TOKENS 256u

typedef enum hth_row_kind {
    HTH_ROW_BLOCK = 0,    /* the state of block_tokens tokens at an aligned position */
    HTH_ROW_TAIL = 1,     /* the state of the tokens after the last full block */
    HTH_ROW_SNAPSHOT = 2, /* the whole state of a sequence, from position 0 */
    HTH_ROW_STATE = 3,    /* the recurrent part of the state at a boundary; no tokens of its own */
    HTH_ROW_LOGITS = 4,   /* logits after the last token of the prefix, f32; no tokens of its own */
    HTH_ROW_KINDS = 5,
} hth_row_kind;

typedef struct hth_row_id {
    hth_key key;
    hth_row_kind kind;
} hth_row_id;

/* A row as the index and `hearth cache ls` know it. */
typedef struct hth_row_meta {
    hth_row_id id;
    hth_key parent;          /* key of the prefix [0, first_position), which is empty if that is 0 */
    uint32_t first_position; /* position of the row's first token; for rows without tokens: of the next token */
    uint32_t n_tokens;       /* the row's own tokens */
    uint64_t bytes;          /* size of the whole KVC file */
    uint64_t last_used_time; /* Unix seconds */
    uint32_t hit_count;
    uint8_t save_reason; /* hearth_save_reason */
} hth_row_meta;

/* Can part of the row cover a prompt that continues its parent? If so, its tokens are worth storing. */
static inline bool hth_row_can_be_leaf(const hth_row_id *id, uint32_t n_tokens)
{
    return (id->kind == HTH_ROW_BLOCK || id->kind == HTH_ROW_TAIL) && n_tokens > 0 && n_tokens <= HTH_BLOCK_TOKENS;
}

/* Facts from the head of a row: its meta and, if it can be a leaf, its own tokens. */
typedef struct hth_row_head {
    hth_row_meta meta;
    bool has_tokens;
    hearth_token tokens[HTH_BLOCK_TOKENS]; /* [meta.n_tokens] */
} hth_row_head;

/* The names by kind; the last entry is NULL. */
extern const char *const hth_row_kind_names[HTH_ROW_KINDS + 1];
/* "block", "tail", "snapshot", "state", "logits"; "unknown" for other values. A static string. */
const char *hth_row_kind_name(hth_row_kind kind);

/* Rows that are collected one by one; initialise to zeros. Release rows with free(). */
typedef struct hth_row_list {
    hth_row_meta *rows; /* [n] */
    size_t n;
    size_t capacity;
    bool out_of_memory; /* a row was not added */
} hth_row_list;

/* False: out of memory. */
bool hth_row_list_add(hth_row_list *list, const hth_row_meta *meta);

/* Insert meta into out[n of capacity], ordered by use, the most recently used first. Returns the new n. */
size_t hth_row_insert_by_age(hth_row_meta *out, size_t n, size_t capacity, const hth_row_meta *meta);

static inline bool hth_row_id_equal(const hth_row_id *a, const hth_row_id *b)
{
    return a->kind == b->kind && hth_key_equal(&a->key, &b->key);
}

/* The order by key, then by kind, as qsort wants it. */
static inline int hth_row_id_compare(const hth_row_id *a, const hth_row_id *b)
{
    int order = memcmp(a->key.bytes, b->key.bytes, HTH_KEY_BYTES);

    return order ? order : (int)a->kind - (int)b->kind;
}

/*
 * ---- the row that covers most of the tokens after a block boundary of a prompt ----
 *
 * A search goes from tier to tier. Each tier shows it the rows that begin at the boundary, with their tokens. The
 * tokens come from the head of a row in memory or from a record of an index, and have not been verified. So the result
 * is only a candidate: the user of the row reads it whole, verifies it, and compares its tokens with the prompt again.
 * Wrong tokens can lead to a bad choice, but never to a wrong row.
 */

typedef struct hth_leaf_search {
    /* The question. */
    hth_key boundary;
    uint32_t position;          /* of the boundary */
    const hearth_token *tokens; /* of the prompt after the boundary, [n_tokens] */
    size_t n_tokens;
    uint32_t n_window; /* a longer row can only be used as a whole; 0: any part of any row can be used */
    size_t n_rows_max; /* limit on the children of the boundary that one tier compares */
    /* True excludes a row; NULL: no row is excluded. Called inside transactions of the index. */
    bool (*is_out)(const hth_row_id *id, void *user_data);
    void *user_data;

    /* The result so far. */
    uint32_t n_shared; /* tokens shared by the row and the prompt; 0: no row was found */
    hth_row_meta row;
    uint32_t n_agreed; /* tokens that any row shares with the prompt, usable or not */
    bool is_cut;       /* a tier had more children than it looked at */
} hth_leaf_search;

/* Is it certain that nothing better can be found? */
bool hth_leaf_search_is_done(const hth_leaf_search *search);
/* Could a row with these properties be better than the result so far? */
bool hth_leaf_search_wants(const hth_leaf_search *search, const hth_row_id *id, uint32_t first_position,
                           uint32_t n_tokens);
/*
 * Compare a wanted row; tokens are u32 little-endian, [n_tokens]. True: it is the best one so far, and the caller sets
 * search->row.
 */
bool hth_leaf_search_compare(hth_leaf_search *search, const uint8_t *tokens, uint32_t n_tokens);

#endif
