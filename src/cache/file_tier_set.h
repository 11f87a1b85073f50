/*
 * file_tier_set.h - several roots that look like one file tier
 *
 * Each root is a hth_file_tier of its own, with its own index, quota and locks, on a device of its own. A row lies in
 * one of them: beside its parent where there is room, so that a prefix is read from one device and evicted as a whole,
 * otherwise in the root that rendezvous hashing of its key gives among those with room. A root that cannot be opened,
 * or fails later, costs what lies in it and nothing else.
 *
 * A row on which rows stand in any root is not evicted from its own. The check is made inside the evicting transaction
 * of the one root, which cannot hold the others still: a child that is published in another root at that very moment may
 * be left without its parent, and then ages out unused. Two processes may write the same row to two roots at once; both
 * copies are rows, and counted.
 *
 * What is not said here is as in file_tier.h, threads included. A set of one root is that root.
 */
#ifndef HTH_CACHE_FILE_TIER_SET_H
#define HTH_CACHE_FILE_TIER_SET_H

#include "cache/file_tier.h"

#define HTH_FILE_TIER_ROOTS_MAX 16

typedef struct hth_file_tier_set hth_file_tier_set;

/*
 * Open n roots (1 to HTH_FILE_TIER_ROOTS_MAX). is_needed and user_data of the options are the set's own and must be
 * NULL. A root that cannot be opened leaves a warning; when none can, the first one's status and message. So does one
 * that is the same directory as one before it, under whatever name; it is opened once.
 */
hearth_status hth_file_tier_set_open(const hth_file_tier_options *roots, size_t n, hth_file_tier_set **out,
                                     hearth_error *err);
void hth_file_tier_set_close(hth_file_tier_set *set); /* accepts NULL */
void hth_file_tier_set_settle(hth_file_tier_set *set);

/* Is path, under whatever name, the directory of a root? What cannot be looked at is none. Any thread. */
bool hth_file_tier_set_is_in(const hth_file_tier_set *set, const char *path);

/* The roots that are open; borrowed. For `hearth cache`, with upkeep.h. */
size_t hth_file_tier_set_n_roots(const hth_file_tier_set *set);
hth_file_tier *const *hth_file_tier_set_roots(const hth_file_tier_set *set);

/* ---- any thread ---- */

bool hth_file_tier_set_has(hth_file_tier_set *set, const hth_row_id *id, hth_row_meta *out);
bool hth_file_tier_set_look(hth_file_tier_set *set, const hth_row_id *id, hth_row_meta *out, unsigned *n_names);
void hth_file_tier_set_find_leaf(hth_file_tier_set *set, hth_leaf_search *search);
size_t hth_file_tier_set_tokens(hth_file_tier_set *set, const hth_row_id *id, hearth_token *out, size_t capacity);
size_t hth_file_tier_set_has_many(hth_file_tier_set *set, const hth_row_id *ids, size_t n, hth_row_meta *out,
                                  bool *found);
bool hth_file_tier_set_wait(hth_file_tier_set *set, const hth_row_id *id, uint32_t timeout_ms);
/* Of all roots, the most recently used first; each row once. */
size_t hth_file_tier_set_children(hth_file_tier_set *set, const hth_key *parent, hth_row_meta *out, size_t capacity);
/* A root that fails is passed over where another one has the row. */
hearth_status hth_file_tier_set_open_file(hth_file_tier_set *set, const hth_row_id *id, int *fd_out,
                                          size_t *n_bytes_out, hearth_error *err);
hearth_status hth_file_tier_set_read(hth_file_tier_set *set, const hth_row_id *id, hth_file_tier_buffer_fn buffer,
                                     void *user_data, size_t *n_out, hearth_error *err);
/* In the index of the first root: a note of one prompt is wanted once. */
void hth_file_tier_set_note_beginning(hth_file_tier_set *set, const hth_index_sighting *sighting);
/* With several roots this looks for the ancestors in all of them: about a microsecond for each. */
void hth_file_tier_set_touch(hth_file_tier_set *set, const hth_row_id *ids, size_t n);
/* Sums over the roots; complete when all are. HEARTH_IO when a root's index cannot be read: then it is left out. */
hearth_status hth_file_tier_set_totals(hth_file_tier_set *set, hth_index_totals *out, hearth_error *err);
void hth_file_tier_set_counts_get(const hth_file_tier_set *set, hth_file_tier_counts *out);

/* The first root into which n_bytes more fit without anything having to go; hth_file_tier_set_n_roots: none. */
size_t hth_file_tier_set_with_room(const hth_file_tier_set *set, uint64_t n_bytes);

/* ---- pins: any thread that may block on files ---- */

/* What is pinned now. */
typedef struct hth_pin_totals {
    uint64_t prefixes;
    uint64_t rows;      /* that end them or that they stand on; those that several share once */
    uint64_t bytes;     /* of these */
    uint64_t bytes_max; /* half of the quota; UINT64_MAX: no quota is known */
} hth_pin_totals;
hearth_status hth_file_tier_set_pin_totals(hth_file_tier_set *set, hth_pin_totals *out, hearth_error *err);

/*
 * Pin the prefix of that key, in each root that has a row at its end: eviction passes over these rows and so over all
 * that they stand on. HEARTH_NOT_FOUND: the prefix is not whole; HEARTH_FULL: more than half of the quota, or
 * HTH_PINS_MAX prefixes, would be pinned; others as hth_pin_add. One that is pinned already is HEARTH_OK.
 */
hearth_status hth_file_tier_set_pin(hth_file_tier_set *set, const hth_key *key, hearth_error *err);
/* HEARTH_NOT_FOUND: it is not pinned. */
hearth_status hth_file_tier_set_unpin(hth_file_tier_set *set, const hth_key *key, hearth_error *err);
/* One look at a name for each root. */
bool hth_file_tier_set_is_pinned(hth_file_tier_set *set, const hth_key *key);

/* ---- writer threads only ---- */

/* The next root is tried where one is full or fails; the status is that of the last. */
hearth_status hth_file_tier_set_publish(hth_file_tier_set *set, const hth_row_meta *meta, const uint8_t *bytes,
                                        size_t n_bytes, bool *published_out, hearth_error *err);
/* In every root that has it; false when one may have the bad row still. */
bool hth_file_tier_set_quarantine(hth_file_tier_set *set, const hth_row_id *id, const char *reason);
void hth_file_tier_set_quarantine_if(hth_file_tier_set *set, const hth_row_id *id, hth_file_tier_judge_fn is_bad,
                                     void *user_data, const char *reason);
hearth_status hth_file_tier_set_remove(hth_file_tier_set *set, const hth_row_id *id, hearth_error *err);
hearth_status hth_file_tier_set_remove_superseded(hth_file_tier_set *set, const hth_row_id *id,
                                                  const hth_row_id *successor, hearth_error *err);
void hth_file_tier_set_maintain(hth_file_tier_set *set);
/* Every root gives in proportion to what it holds. */
hearth_status hth_file_tier_set_evict_to(hth_file_tier_set *set, uint64_t bytes_max, uint64_t *evicted_out,
                                         hearth_error *err);

#endif
