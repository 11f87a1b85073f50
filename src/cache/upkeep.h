/*
 * upkeep.h - maintenance of a file tier by an operator: verify, gc, repair, remove
 *
 * All are safe while other processes read and write the tier. They run on the calling thread, which must be allowed to
 * write to indexes (so never a scheduler's thread), and may take as long as reading every row.
 */
#ifndef HTH_CACHE_UPKEEP_H
#define HTH_CACHE_UPKEEP_H

#include "cache/file_tier_set.h"

/*
 * Progress so far; the totals are current estimates. The callback runs on the calling thread; false ends the operation.
 */
typedef struct hth_upkeep_progress {
    uint64_t n_rows;
    uint64_t n_rows_total;
    uint64_t bytes;
    uint64_t bytes_total;
} hth_upkeep_progress;
typedef bool (*hth_upkeep_progress_fn)(const hth_upkeep_progress *progress, void *user_data);

typedef struct hth_verify_counts {
    uint64_t sound;
    uint64_t
        unverifiable; /* sound in itself, but its key cannot be computed: the rows that it stands on are not here */
    uint64_t quarantined;
    uint64_t gone; /* in the index without a file, or removed by another process in the meantime */
} hth_verify_counts;

/*
 * Read every row in the n roots of a tier in full and check its head, the checksum of its image, the name of its file,
 * and its key. If the row starts after token 0, its key is computed from the tokens of its ancestors, if they are here.
 * The key of a state or of logits is right if a row of tokens ends with it. A row that fails is quarantined; index
 * entries without a file are dropped. *counts is written in any case.
 *
 * HEARTH_CANCELLED if progress (may be NULL) returned false; HEARTH_NO_MEMORY; HEARTH_IO if the folder cannot be
 * listed.
 */
hearth_status hth_file_tiers_verify(hth_file_tier *const *tiers, size_t n, hth_upkeep_progress_fn progress,
                                    void *user_data, hth_verify_counts *counts, hearth_error *err);

/*
 * Clean up after dead processes, and evict until at most bytes_max bytes are left; one tier also until its quota holds.
 * *evicted_out (may be NULL): evicted rows.
 */
hearth_status hth_file_tier_gc(hth_file_tier *tier, uint64_t bytes_max, uint64_t *evicted_out, hearth_error *err);
hearth_status hth_file_tier_set_gc(hth_file_tier_set *set, uint64_t bytes_max, uint64_t *evicted_out,
                                   hearth_error *err);

/*
 * Rebuild the index from the files: adopts unknown rows, drops entries without a file. Hit counts are those of the
 * files. HEARTH_CANCELLED if progress returned false; HEARTH_IO if the index failed. After either, the index is
 * incomplete, and the next process that opens or maintains the tier fills it.
 */
hearth_status hth_file_tier_repair(hth_file_tier *tier, hth_upkeep_progress_fn progress, void *user_data,
                                   hearth_error *err);

/*
 * Remove a row and all rows that stand on it from the n roots of a tier; rows that stand on others go first.
 * *removed_out (may be NULL): removed rows. The pin of a prefix is removed with the last row that ends it. Statuses as
 * hth_file_tier_remove, but it is not an error if another process removes a row in the meantime. HEARTH_CANCELLED if
 * progress returned false.
 */
hearth_status hth_file_tiers_remove_tree(hth_file_tier *const *tiers, size_t n, const hth_row_id *id,
                                         hth_upkeep_progress_fn progress, void *user_data, uint64_t *removed_out,
                                         hearth_error *err);

#endif
