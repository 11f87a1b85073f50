/*
 * ram_shares.h - one budget for the rows in memory of all models
 *
 * Each worker has a share of the budget, the quota of its RAM tier. The rows of a model without a worker that stay in
 * memory are its share, too. A pure function plans from a snapshot of all models. The supervisor carries out the plan
 * after each change.
 *
 * Invariant: the shares never exceed the budget, except for rows that have not left yet after the budget became
 * smaller. A share grows at once, from free bytes. It shrinks when the worker has confirmed that the rows left; until
 * then the old share counts.
 *
 * A busy worker whose share is nearly full gets more. The bytes come from unused parts of other shares. If its rows
 * found no room lately, it also takes used parts: from idle models, the least recently used one first, and from models
 * with more than a fair part, up to its own fair part. A model whose rows all find room takes no rows of others, so
 * shares are stable while no model computes new rows. A worker that loads gets room for its first request in the same
 * way, as long as it has less than a quarter. Each worker keeps a minimum share. Pinned models keep a fair part.
 *
 * While models without a worker may start one, the bytes of a minimum share stay free for the next worker.
 */
#ifndef HTH_SUPERVISOR_RAM_SHARES_H
#define HTH_SUPERVISOR_RAM_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_ram_holder {
    uint64_t share_bytes;  /* the quota in force, or a larger one that was sent; without a worker, its rows */
    uint64_t used_bytes;   /* of the share, by rows */
    uint64_t coming_bytes; /* of the share, beyond the quota that was sent last; rows in use may delay their release */
    uint64_t most_bytes;   /* the largest share that the model may have; 0: it has no rows in memory */
    uint64_t used_ns;      /* the time of its last use */
    bool has_worker;       /* else its rows leave whole, and it may start one */
    bool takes_orders;     /* it has a worker that completed the last order and does not end */
    bool is_starting;      /* its worker loads: it counts as busy, and follows orders when it is ready */
    bool is_busy;          /* it is in use, or was recently */
    bool is_pinned;
    bool is_short; /* rows found no room in its share lately */
} hth_ram_holder;

/*
 * Write the new share of each model, [n]. A larger share is in force at once. A smaller one is an order to shrink, or
 * to drop the rows (0) of a model without a worker. Any thread; allocates nothing; takes at most O(n * n) time.
 */
void hth_ram_shares_plan(const hth_ram_holder *holders, size_t n, uint64_t budget_bytes, uint64_t *shares);

/* The share that model i, which has no worker yet, may start one with now. */
uint64_t hth_ram_share_at_start(const hth_ram_holder *holders, size_t n, uint64_t budget_bytes, size_t i);

#endif
