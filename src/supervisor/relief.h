/*
 * relief.h - a plan that frees memory under pressure, in this order:
 *
 *   1. rows in memory of models without a worker
 *   2. rows in the RAM tier of idle models
 *   3. rows in files in memory (the RAM file tier) of idle models
 *   4. idle models
 *
 * The least recently used model is first, and the plan stops when the bytes suffice. Rows of a worker leave in part;
 * models, and rows without a worker, leave whole, so more may become free. Busy and pinned models keep everything.
 * Memory that is about to become free counts as free.
 */
#ifndef HTH_SUPERVISOR_RELIEF_H
#define HTH_SUPERVISOR_RELIEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_relief_model {
    uint64_t used_ns;          /* the time of its last use */
    uint64_t absent_row_bytes; /* rows that it left in memory without a worker */
    uint64_t ram_bytes;        /* rows that its worker can evict */
    uint64_t ram_file_bytes;
    const char *ram_file_folder; /* the folder of these rows, possibly shared with other models; NULL: its own */
    uint64_t model_bytes;        /* freed by its end, including its RAM tier but not its RAM files; 0: it stays */
    uint64_t coming_bytes;       /* that are about to become free */
    bool may_leave;              /* it is idle and not pinned, and its worker is ready */
    bool stays;                  /* its rows alone may leave (pressure.h) */
    bool keeps_rows;             /* it is pinned: its rows stay also without a worker */
} hth_relief_model;

typedef struct hth_relief_order {
    bool drops_rows; /* drop its rows; it has no worker */
    bool leaves;
    uint64_t ram_bytes; /* that its worker evicts */
    uint64_t ram_file_bytes;
} hth_relief_order;

/*
 * Write an order for each model, [n]. is_device: model_bytes and coming_bytes count memory of devices, and only models
 * leave, because rows take no device memory. Returns the bytes that will be free, including those that were coming. A
 * pure function, for any thread.
 */
uint64_t hth_relief_plan(const hth_relief_model *models, size_t n, uint64_t n_bytes, bool is_device,
                         hth_relief_order *orders);

#endif
