/*
 * batch_costs.c - a table of means for few rows, one mean for many
 */
#include "sched/batch_costs.h"

#include "sched/sequence.h"

enum {
    BACK_DIVISOR = 16, /* a measured time drifts back by a sixteenth of the difference */
    ROW_DIVISOR = 4,   /* before prompts are measured, an extra row counts as a quarter of the mean row of the
                          smaller evaluation */
    MOST_TIMES = 2,    /* a time counts as at most this many times the mean: the machine may have stalled */
    GROUP = 16,        /* rows that engines compute at once */
    FILL_MAX = 7,      /* more rows cannot be worth it */
    FILL_DIVISOR = 16, /* padding must save a sixteenth of the time that it takes */
};

bool hth_batch_costs_knows(const hth_batch_costs *costs, uint32_t n_rows)
{
    return n_rows < HTH_CHUNK_MIN ? costs->few_ns[n_rows] > 0 : costs->row_ns > 0;
}

/* The minimum time that n_rows may take, from the measurements of other numbers. 0: unknown. */
static uint64_t least_of(const hth_batch_costs *costs, uint32_t n_rows)
{
    /* Without a measured single row: n_rows rows of a prompt, which leaves out the fixed cost of an evaluation. */
    uint64_t least = costs->few_ns[1] > 0 ? 0 : n_rows * costs->row_ns;

    for (uint32_t n = 1; n < HTH_CHUNK_MIN; n++) {
        uint64_t ns = costs->few_ns[n];
        uint64_t row = costs->row_ns > 0 ? costs->row_ns : ns / n / ROW_DIVISOR;

        if (ns == 0 || n == n_rows)
            continue;
        if (n < n_rows)
            ns += (n_rows - n) * row;
        if (least == 0 || ns < least)
            least = ns;
    }
    return least;
}

uint64_t hth_batch_costs_of(const hth_batch_costs *costs, uint32_t n_rows)
{
    if (n_rows < HTH_CHUNK_MIN)
        return costs->few_ns[n_rows] > 0 ? costs->few_ns[n_rows] : least_of(costs, n_rows);
    return costs->row_ns > 0 ? n_rows * costs->row_ns : least_of(costs, HTH_CHUNK_MIN);
}

static void move_back(hth_batch_costs *costs, uint32_t n_rows)
{
    uint64_t *ns = &costs->few_ns[n_rows], least = least_of(costs, n_rows);

    if (*ns > least && least > 0)
        *ns -= (*ns - least) / BACK_DIVISOR;
}

static void move(uint64_t *mean, uint64_t ns)
{
    hth_move_mean(mean, *mean > 0 && ns > MOST_TIMES * *mean ? MOST_TIMES * *mean : ns);
}

void hth_batch_costs_note(hth_batch_costs *costs, uint32_t n_rows, uint64_t ns)
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

uint32_t hth_batch_costs_fill(const hth_batch_costs *costs, uint32_t n_rows)
{
    uint32_t n = (n_rows + GROUP - 1) / GROUP * GROUP;
    uint64_t ns;

    if (n >= HTH_CHUNK_MIN || n == n_rows || n - n_rows > FILL_MAX)
        return n_rows;
    ns = hth_batch_costs_of(costs, n);
    return ns > 0 && ns + ns / FILL_DIVISOR < hth_batch_costs_of(costs, n_rows) ? n : n_rows;
}
