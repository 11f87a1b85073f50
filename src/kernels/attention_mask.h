/*
 * attention_mask.h - the cells that the rows of an attention mask leave open
 *
 * A mask is read once and becomes groups of rows, each with the bits of its open cells. A group is one row, or up to 64
 * neighbouring rows of one sequence. The computation of a group only looks at its bits, from its first open cell to its
 * last, so cells of other sequences cost almost nothing.
 */
#ifndef HTH_KERNELS_ATTENTION_MASK_H
#define HTH_KERNELS_ATTENTION_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A mask's values are added to the scores; this one, minus infinity as f16, closes a cell. */
#define HTH_MASK_CLOSED 0xfc00u

/* Maximum number of rows in a chunk's group. */
#define HTH_CHUNK_ROWS ((size_t)64)
/* Minimum number of rows in a chunk. In a shorter run of one sequence, each row is its own group. */
#define HTH_RUN_ROWS ((size_t)16)

/* Fields hold offsets into the plan's words, because the words move while the plan is being made. */
typedef struct hth_mask_group {
    size_t row; /* the first */
    size_t n_rows;
    bool is_chunk;
    bool is_listed;    /* after hth_mask_plan_order: the cells are not in the order of their positions */
    size_t first_cell; /* first cell of the first word, a multiple of 64 */
    size_t n_words;
    size_t n_open;         /* number of cells that any row sees */
    size_t ordered;        /* [n_open], of a listed group: these cells by position */
    size_t first_position; /* after hth_mask_plan_order: the lowest of their positions */
    size_t any;            /* [n_words]: bits of the cells that any row sees */
    size_t all;            /* [n_words], of a chunk: bits of the cells that all rows see */
    size_t columns; /* [n_words], of a chunk: where any and all differ, offset of 64 words: row bits by cell; else 0 */
} hth_mask_group;

typedef struct hth_mask_plan {
    hth_mask_group *groups; /* in the order of the rows */
    size_t n_groups;
    size_t groups_capacity;
    uint64_t *words;
    size_t n_words;
    size_t words_capacity;
    uint32_t *ordered; /* the lists of groups */
    size_t n_ordered;
    size_t ordered_capacity;
    bool has_values; /* some open cell has a value other than 0 */
    bool is_ordered;
} hth_mask_plan;

/* Make the plan of a mask whose rows are row_bytes apart. plan may hold an older plan. False: no memory. */
bool hth_mask_plan_make(hth_mask_plan *plan, const void *mask, size_t row_bytes, size_t n_rows, size_t n_cells);
void hth_mask_plan_free(hth_mask_plan *plan); /* frees its contents; accepts a zeroed plan */

/*
 * Make walks go by the positions of cells, [n_cells]. The open cells of a group must have consecutive positions. False:
 * they do not (*has_gap), or no memory.
 */
bool hth_mask_plan_order(hth_mask_plan *plan, const uint32_t *positions, bool *has_gap);

/* A walk over the open cells of a group, in the order of the cells or, in an ordered plan, of their positions. */
typedef struct hth_open_cells {
    const uint32_t *ordered; /* NULL: in the order of the cells; otherwise [n_ordered], and the words are not used */
    size_t n_ordered;
    bool is_aligned;       /* in an ordered plan: stop before positions that are multiples of n_max */
    size_t position;       /* of the next cell */
    const uint64_t *words; /* [n_words] */
    size_t n_words;
    size_t first_cell;
    size_t next;   /* next word to examine */
    uint64_t open; /* cells of the word before next that are still to be returned */
} hth_open_cells;

static inline hth_open_cells hth_mask_group_walk(const hth_mask_plan *plan, const hth_mask_group *group)
{
    return (hth_open_cells){
        .ordered = plan->is_ordered && group->is_listed ? plan->ordered + group->ordered : NULL,
        .n_ordered = group->n_open,
        .is_aligned = plan->is_ordered,
        .position = group->first_position,
        .words = plan->words + group->any,
        .n_words = group->n_words,
        .first_cell = group->first_cell,
    };
}

/*
 * The next open cells, at most n_max of them; fewer only at the end. Returns their number. skip passes over n of them.
 * In an ordered plan, a call also stops before each position that is a multiple of n_max, and skip cannot be used.
 */
size_t hth_open_cells_next(hth_open_cells *walk, uint32_t *cells, size_t n_max);
void hth_open_cells_skip(hth_open_cells *walk, size_t n);

#endif
