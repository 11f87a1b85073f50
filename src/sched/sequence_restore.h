/*
 * sequence_restore.h - restore the rows of a lookup into a sequence, one row per step
 *
 * Rows are read ahead. Each step checks one row and puts it into the context, so a long restore can alternate with the
 * evaluations of other requests.
 */
#ifndef HTH_SCHED_SEQUENCE_RESTORE_H
#define HTH_SCHED_SEQUENCE_RESTORE_H

#include "sched/sequence.h"

typedef struct hth_restored {
    hearth_tier tier; /* the slowest tier that a row came from */
    uint32_t n_rows;
    uint64_t n_bytes;
} hth_restored;

typedef enum hth_restore_result {
    HTH_RESTORE_MORE,     /* there are rows left */
    HTH_RESTORE_DONE,     /* complete, or a part if the sequence can be shortened */
    HTH_RESTORE_ROW_LOST, /* a row is missing or corrupt; another lookup finds less */
    HTH_RESTORE_FAILED,   /* the engine or memory refused; the sequence is empty */
} hth_restore_result;

typedef struct hth_restore hth_restore;

/*
 * Begin to restore the rows of lookup beyond the current end. If the sequence cannot be shortened, that end must be a
 * block boundary. lookup and prompt are borrowed until hth_restore_end. NULL if out of memory.
 */
hth_restore *hth_restore_begin(hth_sequence *sequence, const hth_lookup *lookup, const hearth_token *prompt);
/* Unused cells that the next step needs. Without them the step ends the restore. */
uint32_t hth_restore_n_cells(const hth_restore *restore);
/*
 * Put one row into the context and add it to *out. At a row that cannot be used, a sequence that can be shortened keeps
 * the cells before it (hth_sequence_n_tokens); any other sequence is emptied. Any result other than HTH_RESTORE_MORE is
 * the last.
 */
hth_restore_result hth_restore_step(hth_restore *restore, hth_restored *out);
void hth_restore_end(hth_restore *restore); /* accepts NULL */

/*
 * Copy the saved logits after the prompt of lookup into logits [n_vocab], and add their row to *restored. False if the
 * row is missing or corrupt.
 */
bool hth_sequence_restore_logits(hth_sequence *sequence, const hth_lookup *lookup, float *logits,
                                 hth_restored *restored);

#endif
