/*
 * upkeep.h - what an operator does to a file tier: verify, gc, repair, remove
 *
 * All of it is safe while other processes read and write the tier. It runs on the calling thread, which must be one
 * that may write (not the scheduler's), and may take as long as reading every row does.
 */
#ifndef HTH_CACHE_UPKEEP_H
#define HTH_CACHE_UPKEEP_H

#include "cache/file_tier_set.h"

/* How far it is; totals are what is known at the time. On the calling thread; false ends it. */
typedef struct hth_upkeep_progress {
    uint64_t n_rows;
    uint64_t n_rows_total;
    uint64_t bytes;
    uint64_t bytes_total;
} hth_upkeep_progress;
typedef bool (*hth_upkeep_progress_fn)(const hth_upkeep_progress *progress, void *user_data);

typedef struct hth_verify_counts {
    uint64_t sound;
    uint64_t unverifiable; /* sound in itself, but what it stands on is not here: its key cannot be computed */
    uint64_t quarantined;
    uint64_t gone; /* in the index without a file, or removed by others meanwhile */
} hth_verify_counts;

/*
 * Read every row in full and check it: its head, its payload's checksum, that it is the row of its file's name, and its
 * key. The key of a row that starts later than token 0 is computed from its ancestors' tokens where they are here; that
 * of a state or of logits is right when a row of tokens ends with it. What fails is quarantined; entries of the index
 * without a file are dropped. *counts is written in any case.
 *
 * HEARTH_CANCELLED when progress (may be NULL) said so; HEARTH_NO_MEMORY; HEARTH_IO when the folder cannot be listed.
 */
hearth_status hth_file_tier_verify(hth_file_tier *tier, hth_upkeep_progress_fn progress, void *user_data,
                                   hth_verify_counts *counts, hearth_error *err);
/* The same for the n roots of one tier, where a row may stand on one in another root. */
hearth_status hth_file_tiers_verify(hth_file_tier *const *tiers, size_t n, hth_upkeep_progress_fn progress,
                                    void *user_data, hth_verify_counts *counts, hearth_error *err);

/* Remove what dead processes left, and evict until at most bytes_max bytes are left; *evicted_out (may be NULL) rows. */
hearth_status hth_file_tier_gc(hth_file_tier *tier, uint64_t bytes_max, uint64_t *evicted_out, hearth_error *err);
hearth_status hth_file_tier_set_gc(hth_file_tier_set *set, uint64_t bytes_max, uint64_t *evicted_out,
                                   hearth_error *err);

/*
 * Make the index anew from the files: adopts what it did not know, drops what is not there. Hit counts are what the
 * files say. HEARTH_CANCELLED when progress said so; HEARTH_IO when the index failed. After both it is incomplete, and
 * filled by whoever opens the tier or maintains it next.
 */
hearth_status hth_file_tier_repair(hth_file_tier *tier, hth_upkeep_progress_fn progress, void *user_data,
                                   hearth_error *err);

/*
 * Remove a row and all rows that stand on it, those that stand on others first; *removed_out (may be NULL) how many
 * went. As hth_file_tier_remove; a row that went meanwhile is no failure. HEARTH_CANCELLED when progress said so.
 */
hearth_status hth_file_tier_remove_tree(hth_file_tier *tier, const hth_row_id *id, hth_upkeep_progress_fn progress,
                                        void *user_data, uint64_t *removed_out, hearth_error *err);
/* The same in all n roots of one tier. */
hearth_status hth_file_tiers_remove_tree(hth_file_tier *const *tiers, size_t n, const hth_row_id *id,
                                         hth_upkeep_progress_fn progress, void *user_data, uint64_t *removed_out,
                                         hearth_error *err);

#endif
