/*
 * relief.h - what leaves memory under pressure, in this order:
 *
 *   1. rows in memory of models without a worker
 *   2. rows in the RAM tier of idle models
 *   3. rows in files in memory (the RAM file tier) of idle models
 *   4. idle models
 *
 * Within each, the model first that was used least recently, and no more than is asked for. Busy and pinned models
 * keep everything. Memory that is about to be free counts as free. A pure function decides; any thread.
 */
#ifndef HTH_SERVER_RELIEF_H
#define HTH_SERVER_RELIEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_relief_model {
    uint64_t used_ns;          /* the time of its last use */
    uint64_t absent_row_bytes; /* rows that it left in memory without a worker */
    uint64_t ram_bytes;        /* rows that its worker can evict */
    uint64_t ram_file_bytes;
    uint64_t model_bytes;  /* that its end would free, all rows in RAM included; 0: it has no worker */
    uint64_t coming_bytes; /* that are about to be free */
    bool may_leave;        /* it is idle and not pinned, and its worker is ready */
    bool keeps_rows;       /* it is pinned: also without a worker */
} hth_relief_model;

typedef struct hth_relief_order {
    bool drops_rows; /* those without a worker */
    bool leaves;
    uint64_t ram_bytes; /* that its worker shall evict */
    uint64_t ram_file_bytes;
} hth_relief_order;

/*
 * Write an order for each model, [n]. is_device: memory of devices is wanted, which rows do not take. Returns the bytes
 * that will be free, those that were coming included.
 */
uint64_t hth_relief_plan(const hth_relief_model *models, size_t n, uint64_t n_bytes, bool is_device,
                         hth_relief_order *orders);

#endif
