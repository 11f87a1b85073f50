/*
 * file_tier_set.h - several roots that look like one file tier
 *
 * Each root is a hth_file_tier with its own index, quota and locks, on its own device. A row lies in one root: beside
 * its parent if there is room, so that a prefix is read from one device and evicted as a whole. Otherwise rendezvous
 * hashing of the row's key chooses a root among those with room. A root that cannot be opened, or fails later, costs
 * its own rows and nothing else.
 *
 * A row is not evicted while rows in any root stand on it. The check runs inside the evicting transaction of one root,
 * which does not block the other roots. So a child that is published in another root at that moment may lose its
 * parent; the child then ages out unused. Two processes may write the same row to two roots at once; both copies are
 * valid and counted.
 *
 * Everything else, including threading, is as in file_tier.h. A set of one root behaves like that root.
 */
#ifndef HTH_CACHE_FILE_TIER_SET_H
#define HTH_CACHE_FILE_TIER_SET_H

#include "cache/file_tier.h"

#define HTH_FILE_TIER_ROOTS_MAX 16

typedef struct hth_file_tier_set hth_file_tier_set;

/*
 * Open n roots (1 to HTH_FILE_TIER_ROOTS_MAX). The set itself fills is_needed and user_data of the options: pass NULL.
 * A root that cannot be opened causes a warning; if no root can be opened, the call fails with the status and message
 * of the first. A root that is the same directory as an earlier one, under any name, also causes a warning and is
 * opened only once.
 */
hearth_status hth_file_tier_set_open(const hth_file_tier_options *roots, size_t n, hth_file_tier_set **out,
                                     hearth_error *err);
void hth_file_tier_set_close(hth_file_tier_set *set); /* accepts NULL */
void hth_file_tier_set_settle(hth_file_tier_set *set);

/* True when path is the directory of a root, under any name. False when path cannot be examined. Any thread. */
bool hth_file_tier_set_is_in(const hth_file_tier_set *set, const char *path);

/* The open roots, borrowed; `hearth cache` uses them with upkeep.h. */
size_t hth_file_tier_set_n_roots(const hth_file_tier_set *set);
hth_file_tier *const *hth_file_tier_set_roots(const hth_file_tier_set *set);

/* ---- any thread ---- */

bool hth_file_tier_set_has(hth_file_tier_set *set, const hth_row_id *id, hth_row_meta *out);
bool hth_file_tier_set_look(hth_file_tier_set *set, const hth_row_id *id, hth_row_meta *out, unsigned *n_names);
void hth_file_tier_set_find_leaf(hth_file_tier_set *set, hth_leaf_search *search);
size_t hth_file_tier_set_tokens(hth_file_tier_set *set, const hth_row_id *id, hearth_token *out, size_t capacity);
/* The children in all roots, the most recently used first; each row once. */
size_t hth_file_tier_set_children(hth_file_tier_set *set, const hth_key *parent, hth_row_meta *out, size_t capacity);
/* A root that fails is skipped when another root has the row. */
hearth_status hth_file_tier_set_open_file(hth_file_tier_set *set, const hth_row_id *id, int *fd_out,
                                          size_t *n_bytes_out, hearth_error *err);
/* Writes to the index of the first root only: one note per prompt is enough. */
void hth_file_tier_set_note_beginning(hth_file_tier_set *set, const hth_index_sighting *sighting);
/* With several roots this looks for the ancestors in all of them: about a microsecond for each. */
void hth_file_tier_set_touch(hth_file_tier_set *set, const hth_row_id *ids, size_t n);
/*
 * Sums over the roots; complete if all roots are complete. HEARTH_IO when a root's index cannot be read: the sums then
 * omit that root.
 */
hearth_status hth_file_tier_set_totals(hth_file_tier_set *set, hth_index_totals *out, hearth_error *err);
void hth_file_tier_set_counts_get(const hth_file_tier_set *set, hth_file_tier_counts *out);

/* The first root that has room for n_bytes more without eviction; hth_file_tier_set_n_roots if none has. */
size_t hth_file_tier_set_with_room(const hth_file_tier_set *set, uint64_t n_bytes);

/* ---- pins: any thread that may block on files ---- */

/* Everything that is pinned now. */
typedef struct hth_pin_totals {
    uint64_t prefixes;  /* broken ones too */
    uint64_t rows;      /* the rows that end the prefixes and the rows below them; a shared row counts once */
    uint64_t bytes;     /* total size of these rows */
    uint64_t bytes_max; /* half of the quota; UINT64_MAX if no quota is known */
} hth_pin_totals;
/*
 * Count the pins. *broken (initially zeros) gets the pins of prefixes with missing rows; such pins protect nothing. The
 * caller releases it with hth_pins_deinit, whatever the status. Statuses as hth_pins_read.
 */
hearth_status hth_file_tier_set_pin_totals(hth_file_tier_set *set, hth_pins *broken, hth_pin_totals *out,
                                           hearth_error *err);
/* The pins of all roots; as hth_pins_read. */
hearth_status hth_file_tier_set_pins(hth_file_tier_set *set, hth_pins *pins, hearth_error *err);

/*
 * Pin the prefix of that key: eviction in every root spares the rows that end it, and so all rows that they stand on.
 * HEARTH_NOT_FOUND: the prefix is not whole; HEARTH_FULL: more than half of the quota, or more than HTH_PINS_MAX
 * prefixes, would be pinned; HEARTH_BUSY: a row at its end is being written or removed; others as hth_pin_add.
 * HEARTH_OK also when the prefix is already pinned; any other status means that no pin was added.
 */
hearth_status hth_file_tier_set_pin(hth_file_tier_set *set, const hth_key *key, hearth_error *err);
/* HEARTH_NOT_FOUND: the prefix is not pinned. */
hearth_status hth_file_tier_set_unpin(hth_file_tier_set *set, const hth_key *key, hearth_error *err);
/* Looks up one name in each root. True if the answer is unknown. */
bool hth_file_tier_set_is_pinned(hth_file_tier_set *set, const hth_key *key);

/* ---- writer threads only ---- */

/* When a root is full or fails, the next root is tried; the status is that of the last root tried. */
hearth_status hth_file_tier_set_publish(hth_file_tier_set *set, const hth_row_meta *meta, const uint8_t *bytes,
                                        size_t n_bytes, bool *published_out, hearth_error *err);
/* Acts in every root that has the row; false when a root may still have the bad row. */
bool hth_file_tier_set_review(hth_file_tier_set *set, const hth_row_id *id);
bool hth_file_tier_set_quarantine(hth_file_tier_set *set, const hth_row_id *id, const char *reason);
void hth_file_tier_set_quarantine_if(hth_file_tier_set *set, const hth_row_id *id, hth_file_tier_judge_fn is_bad,
                                     void *user_data, const char *reason);
hearth_status hth_file_tier_set_remove(hth_file_tier_set *set, const hth_row_id *id, hearth_error *err);
/* Remove a row as hth_file_tier_remove_unwanted, from all roots; successor may be NULL. */
hearth_status hth_file_tier_set_remove_unwanted(hth_file_tier_set *set, const hth_row_id *id,
                                                const hth_row_id *successor, hearth_error *err);
void hth_file_tier_set_maintain(hth_file_tier_set *set);
/* Every root evicts in proportion to the bytes that it holds. */
hearth_status hth_file_tier_set_evict_to(hth_file_tier_set *set, uint64_t bytes_max, uint64_t *evicted_out,
                                         hearth_error *err);

#endif
