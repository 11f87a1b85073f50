/*
 * credit.h - which node has probably cached how much of a prompt
 *
 * The front does not know the tokens of a prompt. It knows anchors: digests of the text so far, at many places of a
 * body (api/anchors.h). A node that computed a prompt has cached the text up to each of its anchors; that is its
 * credit. The credit of a later prompt is the deepest of its anchors that the node has.
 *
 *   anchor -> tokens up to there, and the holders that have them
 *
 * A holder is a cache, named by a number that is another one when the cache is lost (hth_node_holder). So what is known
 * of a lost cache is never used again. Nodes exchange their credits through the store: export has what this front noted
 * since the last export, and import takes that of others.
 *
 * A wrong credit costs time, never a wrong answer: only the worker decides what is cached. The table has a fixed size
 * and forgets what was used least recently. One thread.
 */
#ifndef HTH_FLEET_CREDIT_H
#define HTH_FLEET_CREDIT_H

#include "api/anchors.h"
#include "api/buffer.h"
#include "base/status.h"

enum {
    HTH_CREDIT_HOLDERS_MAX = 64,
    HTH_CREDIT_RECORD_BYTES = 20, /* of export: holder, digest, tokens and bit 30: exactly; little-endian */
    HTH_CREDIT_EXPORT_MAX = 4096, /* records that wait for export; older ones are lost */
};

typedef struct hth_credit hth_credit;

/* The table takes 32 bytes for each of n_anchors, rounded up to a power of two, as far as used. HEARTH_NO_MEMORY. */
hearth_status hth_credit_new(size_t n_anchors, hth_credit **out, hearth_error *err);
void hth_credit_free(hth_credit *credit); /* accepts NULL */

typedef struct hth_credit_answer {
    uint32_t n_prompt;  /* the probable number of its tokens, at least 1 */
    uint32_t n_popular; /* tokens of a beginning that is so common that more holders should have it; 0: none */
} hth_credit_answer;
/*
 * A prompt with these anchors, [n], has come. n_cached_out, [n_holders]: the tokens of it that each holder probably
 * has. n 0: nothing is known of the prompt.
 */
hth_credit_answer hth_credit_ask(hth_credit *credit, const uint64_t *holders, size_t n_holders,
                                 const hth_anchor *anchors, size_t n, uint32_t *n_cached_out);
/* The holder was sent the prompt with these anchors (n_tokens 0), or has computed it (its true number of tokens). */
void hth_credit_note(hth_credit *credit, uint64_t holder, const hth_anchor *anchors, size_t n, uint32_t n_tokens);

/*
 * Of a prompt, a question predicted n_predicted cached tokens, and the holder had n_cached. Later predictions for it
 * are scaled by that, so that holders that often lack what they should have count for less.
 */
void hth_credit_learn(hth_credit *credit, uint64_t holder, uint32_t n_predicted, uint32_t n_cached);

/* Append the sums of what hth_credit_learn was told to a page of Prometheus' format. */
void hth_credit_write_metrics(const hth_credit *credit, hth_buffer *out);

/* Make a holder known, so that import takes records about it. Questions and notes do so, too. 0 is no holder. */
void hth_credit_add_holder(hth_credit *credit, uint64_t holder);
/* The number of holders ever added. When it has grown, records that import ignored before may count now. */
uint64_t hth_credit_n_holders(const hth_credit *credit);

/*
 * Append what became known here since the last export, HTH_CREDIT_RECORD_BYTES each: new holders of an anchor, and
 * better numbers of tokens. Nothing is repeated. out->failed without memory: it is lost.
 */
void hth_credit_export(hth_credit *credit, hth_buffer *out);
/* Take records of another front. Those of holders that are not known are ignored, and so is a cut one at the end. */
void hth_credit_import(hth_credit *credit, const void *bytes, size_t n);

#endif
