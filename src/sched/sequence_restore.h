/*
 * sequence_restore.h - bringing the rows that a lookup found into a sequence, a row at a time
 *
 * All rows are read ahead; each step checks one and puts it into the context, so that a long restore can take turns with
 * the evaluations of others.
 */
#ifndef HTH_SCHED_SEQUENCE_RESTORE_H
#define HTH_SCHED_SEQUENCE_RESTORE_H

#include "sched/sequence.h"

typedef struct hth_restored {
    hearth_tier tier; /* the slowest that served a row */
    uint32_t n_rows;
    uint64_t n_bytes;
} hth_restored;

typedef enum hth_restore_result {
    HTH_RESTORE_MORE,     /* there are rows left */
    HTH_RESTORE_DONE,     /* as far as the lookup said, or as far as it came where any prefix is of use */
    HTH_RESTORE_ROW_LOST, /* a row is no longer to be had; another lookup finds less */
    HTH_RESTORE_FAILED,   /* the engine or memory refused; the sequence is empty */
} hth_restore_result;

typedef struct hth_restore hth_restore;

/*
 * Begin with the rows of lookup that lie beyond the present end. Where the sequence cannot be shortened, present cells
 * must end at a block boundary. lookup and prompt are borrowed until the end. NULL without memory.
 */
hth_restore *hth_restore_begin(hth_sequence *sequence, const hth_lookup *lookup, const hearth_token *prompt);
/* Unused cells that the next step needs; without them it is the last. */
uint32_t hth_restore_n_cells(const hth_restore *restore);
/*
 * Put one row into the context and add it to *out. Where the sequence can be shortened, it keeps what came before a row
 * that cannot be used, and hth_sequence_n_tokens tells how far it came; otherwise it is empty then. Any other result than
 * HTH_RESTORE_MORE is the last.
 */
hth_restore_result hth_restore_step(hth_restore *restore, hth_restored *out);
void hth_restore_end(hth_restore *restore); /* accepts NULL */

/*
 * Copy the saved logits after lookup's prompt into logits [n_vocab]. False when they cannot be had (any more). The tier
 * is added to *restored.
 */
bool hth_sequence_restore_logits(hth_sequence *sequence, const hth_lookup *lookup, float *logits,
                                 hth_restored *restored);

#endif
