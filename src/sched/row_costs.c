/*
 * row_costs.c - a table for few rows, a mean for many
 */
#include "sched/row_costs.h"

#include "sched/sequence.h"

enum {
    BACK_PART = 16, /* a measured time drifts back by this fraction of the difference */
    ROW_PART = 4,   /* before prompts are measured, an extra row counts as this fraction of the rows before */
    MOST_TIMES = 2, /* a time counts as at most this many times the mean: the machine may have stalled */
    GROUP = 16,     /* rows that engines compute at once */
    FILL_MAX = 7,   /* more rows cannot be worth it */
    FILL_PART = 16, /* padding must save this fraction of the time */
};

bool hth_row_costs_knows(const hth_row_costs *costs, uint32_t n_rows)
{
    return n_rows < HTH_CHUNK_MIN ? costs->few_ns[n_rows] > 0 : costs->row_ns > 0;
}

/* The minimum time that n_rows may take, from the measurements of other numbers. 0: unknown. */
static uint64_t least_of(const hth_row_costs *costs, uint32_t n_rows)
{
    uint64_t least = costs->few_ns[1] > 0 ? 0 : n_rows * costs->row_ns; /* excluding the time of one row */

    for (uint32_t n = 1; n < HTH_CHUNK_MIN; n++) {
        uint64_t ns = costs->few_ns[n];
        uint64_t row = costs->row_ns > 0 ? costs->row_ns : ns / n / ROW_PART;

        if (ns == 0 || n == n_rows)
            continue;
        if (n < n_rows)
            ns += (n_rows - n) * row;
        if (least == 0 || ns < least)
            least = ns;
    }
    return least;
}

uint64_t hth_row_costs_of(const hth_row_costs *costs, uint32_t n_rows)
{
    if (n_rows < HTH_CHUNK_MIN)
        return costs->few_ns[n_rows] > 0 ? costs->few_ns[n_rows] : least_of(costs, n_rows);
    return costs->row_ns > 0 ? n_rows * costs->row_ns : least_of(costs, HTH_CHUNK_MIN);
}

static void move_back(hth_row_costs *costs, uint32_t n_rows)
{
    uint64_t *ns = &costs->few_ns[n_rows], least = least_of(costs, n_rows);

    if (*ns > least && least > 0)
        *ns -= (*ns - least) / BACK_PART;
}

static void move(uint64_t *mean, uint64_t ns)
{
    hth_move_mean(mean, *mean > 0 && ns > MOST_TIMES * *mean ? MOST_TIMES * *mean : ns);
}

void hth_row_costs_note(hth_row_costs *costs, uint32_t n_rows, uint64_t ns)
{
    if (n_rows >= HTH_CHUNK_MIN) {
        move(&costs->row_ns, ns / n_rows + 1);
        return;
    }
    move(&costs->few_ns[n_rows], ns + 1);
    costs->moved_back = costs->moved_back % (HTH_CHUNK_MIN - 1) + 1;
    if (costs->moved_back != n_rows)
        move_back(costs, costs->moved_back);
}

uint32_t hth_row_costs_fill(const hth_row_costs *costs, uint32_t n_rows)
{
    uint32_t n = (n_rows + GROUP - 1) / GROUP * GROUP;
    uint64_t ns;

    if (n >= HTH_CHUNK_MIN || n == n_rows || n - n_rows > FILL_MAX)
        return n_rows;
    ns = hth_row_costs_of(costs, n);
    return ns > 0 && ns + ns / FILL_PART < hth_row_costs_of(costs, n_rows) ? n : n_rows;
}
