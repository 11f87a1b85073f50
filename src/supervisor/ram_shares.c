/*
 * Shares move in steps of a sixteenth of the budget. A busy worker has two steps free before it asks for more, and asks
 * for four; a worker that gives unused bytes keeps two. So bytes that were just given are not asked back.
 */
#include "supervisor/ram_shares.h"

#include "base/smaller.h"

enum { STEPS = 16, KEPT_STEPS = 2, ASKED_STEPS = 4, NONE = -1 };

/* Why bytes are needed, the most urgent reason first. */
typedef enum urgency {
    URGENCY_DUE,     /* minimum shares, a smaller budget */
    URGENCY_SHORT,   /* of workers whose rows found no room */
    URGENCY_RESERVE, /* a minimum share for the next worker */
    URGENCY_EARLY,   /* of workers whose rows will soon find no room */
    N_URGENCIES,
} urgency;

typedef struct plan {
    const hth_ram_holder *holders;
    size_t n;
    uint64_t *shares;
    uint64_t step, least, fair, reserve;
    uint64_t free;                /* bytes in no share */
    uint64_t needed[N_URGENCIES]; /* beyond those */
    uint64_t needed_below_fair;   /* of the needs of short models, the part up to their fair parts */
    uint64_t taker_ns;            /* the last use of the short models; UINT64_MAX for a busy one */
} plan;

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static plan plan_of(const hth_ram_holder *holders, size_t n, uint64_t budget, uint64_t *shares, const size_t *starting)
{
    plan p = { .holders = holders, .n = n, .shares = shares, .step = budget / STEPS };
    uint64_t n_live = 0, total = 0;
    bool others_may_start = false;

    for (size_t i = 0; i < n; i++) {
        const bool starts = starting && *starting == i;

        if (holders[i].most_bytes > 0 && (holders[i].has_worker || starts))
            n_live++;
        else
            others_may_start |= holders[i].most_bytes > 0;
        if (!starts)
            total += holders[i].share_bytes;
    }
    p.least = hth_smaller(p.step, budget / (n_live + 1));
    p.reserve = others_may_start ? p.least : 0;
    p.fair = n_live > 0 ? less(budget, p.reserve) / n_live : 0;
    p.free = less(budget, total);
    p.needed[URGENCY_DUE] = less(total, budget);
    return p;
}

/* ---- models that get more ---- */

static uint64_t request_of(const plan *p, const hth_ram_holder *h, urgency *urgency_out)
{
    const uint64_t room = less(h->most_bytes, h->share_bytes), unused = less(h->share_bytes, h->used_bytes);
    const uint64_t due = less(hth_smaller(h->most_bytes, p->least), h->share_bytes);

    *urgency_out = due > 0 ? URGENCY_DUE : h->is_short || h->is_starting ? URGENCY_SHORT : URGENCY_EARLY;
    if (due > 0)
        return h->has_worker ? due : 0;
    if (!h->takes_orders)
        return 0;
    if (h->is_starting)
        return hth_smaller(room, less(ASKED_STEPS * p->step, h->share_bytes));
    if (h->is_short || (h->is_busy && unused < KEPT_STEPS * p->step))
        return hth_smaller(room, hth_larger(less(ASKED_STEPS * p->step, unused), p->step));
    return 0;
}

/* The next model after last with a need of this urgency; the most recently used first. */
static ptrdiff_t next_request(const plan *p, urgency wanted, ptrdiff_t last)
{
    ptrdiff_t next = NONE;

    for (size_t i = 0; i < p->n; i++) {
        const uint64_t used_ns = p->holders[i].used_ns;
        const uint64_t last_ns = last == NONE ? UINT64_MAX : p->holders[last].used_ns;
        urgency found;

        if (used_ns > last_ns || (last != NONE && used_ns == last_ns && (ptrdiff_t)i <= last))
            continue;
        if ((next == NONE || used_ns > p->holders[next].used_ns) && request_of(p, &p->holders[i], &found) > 0 &&
            found == wanted)
            next = (ptrdiff_t)i;
    }
    return next;
}

static void grant(plan *p, urgency wanted)
{
    ptrdiff_t i = NONE;
    urgency found;

    while ((i = next_request(p, wanted, i)) != NONE) {
        const hth_ram_holder *h = &p->holders[i];
        const uint64_t requested = request_of(p, h, &found);
        const uint64_t there = found == URGENCY_DUE ? p->free : less(p->free, p->reserve);
        const uint64_t given =
            h->takes_orders ? hth_smaller(requested, there) : 0; /* one that loads gets its part later */
        const uint64_t missing = less(requested, h->takes_orders ? given : p->free);

        p->shares[i] += given;
        p->free -= given;
        p->needed[wanted] += missing;
        if (wanted != URGENCY_SHORT || missing == 0)
            continue;
        p->needed_below_fair += hth_smaller(missing, less(p->fair, p->shares[i]));
        p->taker_ns = hth_larger(p->taker_ns, h->is_busy ? UINT64_MAX : h->used_ns);
    }
}

/* ---- models that give bytes ---- */

/* The bytes of a share that were not ordered back. */
static uint64_t left_of(const hth_ram_holder *h)
{
    return less(h->share_bytes, h->coming_bytes);
}

/* Unused bytes of a worker that does not ask for more itself. */
static uint64_t unused_of(const plan *p, const hth_ram_holder *h)
{
    const uint64_t kept = hth_larger(h->used_bytes + KEPT_STEPS * p->step, h->is_pinned ? p->fair : p->least);
    urgency found;

    return request_of(p, h, &found) == 0 ? less(left_of(h), kept) : 0;
}

/* The bytes of an idle model, used or not; of a pinned one, only the unused bytes. */
static uint64_t idle_of(const plan *p, const hth_ram_holder *h)
{
    if (h->is_busy || (h->is_pinned && !h->has_worker))
        return 0;
    if (h->is_pinned)
        return less(left_of(h), hth_larger(h->used_bytes, p->fair));
    return h->has_worker ? less(left_of(h), p->least) : h->share_bytes;
}

static uint64_t idle_worker_of(const plan *p, const hth_ram_holder *h)
{
    return h->has_worker ? idle_of(p, h) : 0;
}

static uint64_t above_fair(const plan *p, const hth_ram_holder *h)
{
    return less(left_of(h), p->fair);
}

/* Rows without a worker can only leave together, so those of pinned models and of models about to start again stay. */
static uint64_t cuttable_above_fair(const plan *p, const hth_ram_holder *h)
{
    return h->has_worker || (!h->is_busy && !h->is_pinned) ? above_fair(p, h) : 0;
}

typedef uint64_t (*source)(const plan *p, const hth_ram_holder *h);

static ptrdiff_t next_giver(const plan *p, source from, uint64_t before_ns)
{
    ptrdiff_t next = NONE;

    for (size_t i = 0; i < p->n; i++) {
        const hth_ram_holder *h = &p->holders[i];

        if ((h->has_worker && !h->takes_orders) || p->shares[i] != h->share_bytes || from(p, h) == 0 ||
            h->used_ns >= before_ns)
            continue;
        if (next == NONE || h->used_ns < p->holders[next].used_ns)
            next = (ptrdiff_t)i;
    }
    return next;
}

/* Take bytes, in whole steps where possible, from models last used before a time. Returns the bytes taken. */
static uint64_t take(plan *p, uint64_t wanted, source from, uint64_t before_ns)
{
    uint64_t taken = 0;
    ptrdiff_t i;

    while (taken < wanted && (i = next_giver(p, from, before_ns)) != NONE) {
        const hth_ram_holder *h = &p->holders[i];
        const uint64_t there = from(p, h);
        const uint64_t part = h->has_worker ? hth_smaller(there, hth_larger(wanted - taken, p->step)) : h->share_bytes;

        p->shares[i] = left_of(h) - part;
        taken += part;
    }
    return taken;
}

/* These bytes become free: subtract them from the needs, the most urgent first, up to last. */
static void satisfy(plan *p, uint64_t bytes, urgency last)
{
    for (urgency u = URGENCY_DUE; u <= last; u++) {
        const uint64_t part = hth_smaller(bytes, p->needed[u]);

        p->needed[u] -= part;
        bytes -= part;
        if (u == URGENCY_SHORT)
            p->needed_below_fair = less(p->needed_below_fair, part);
    }
}

static void collect(plan *p)
{
    uint64_t all = 0;

    for (urgency u = URGENCY_DUE; u < N_URGENCIES; u++)
        all += p->needed[u];
    satisfy(p, take(p, all, unused_of, UINT64_MAX), URGENCY_EARLY);
    satisfy(p, take(p, p->needed[URGENCY_DUE], idle_of, UINT64_MAX), URGENCY_RESERVE);
    satisfy(p, take(p, p->needed[URGENCY_SHORT], idle_of, p->taker_ns), URGENCY_RESERVE);
    satisfy(p, take(p, p->needed[URGENCY_RESERVE], idle_worker_of, UINT64_MAX), URGENCY_RESERVE);
    satisfy(p, take(p, p->needed[URGENCY_DUE], above_fair, UINT64_MAX), URGENCY_SHORT);
    satisfy(p, take(p, p->needed_below_fair, cuttable_above_fair, UINT64_MAX), URGENCY_SHORT);
}

void hth_ram_shares_plan(const hth_ram_holder *holders, size_t n, uint64_t budget_bytes, uint64_t *shares)
{
    plan p = plan_of(holders, n, budget_bytes, shares, NULL);
    uint64_t coming = 0, coming_of_askers = 0;
    urgency asked;

    for (size_t i = 0; i < n; i++) {
        shares[i] = holders[i].share_bytes;
        *(request_of(&p, &holders[i], &asked) > 0 ? &coming_of_askers : &coming) += holders[i].coming_bytes;
    }
    for (urgency u = URGENCY_DUE; u < N_URGENCIES; u++)
        grant(&p, u);
    p.needed[URGENCY_RESERVE] = less(p.reserve, p.free);
    /*
     * The release of bytes by a model that also asks for more waits for rows in use, which belong to the requests that
     * need the bytes.
     */
    satisfy(&p, coming_of_askers, URGENCY_DUE);
    satisfy(&p, coming, URGENCY_EARLY);
    collect(&p);
}

uint64_t hth_ram_share_at_start(const hth_ram_holder *holders, size_t n, uint64_t budget_bytes, size_t i)
{
    const plan p = plan_of(holders, n, budget_bytes, NULL, &i);
    const uint64_t own = hth_smaller(holders[i].share_bytes, p.free), beside_reserve = less(p.free, p.reserve);
    uint64_t n_models = 0, requested;

    for (size_t k = 0; k < n; k++)
        n_models += holders[k].most_bytes > 0;
    requested = n_models > 0 ? hth_larger(budget_bytes / n_models, p.step) : 0;
    requested = hth_larger(hth_smaller(requested, beside_reserve), hth_smaller(p.least, p.free));
    return hth_smaller(holders[i].most_bytes, hth_larger(requested, own));
}
