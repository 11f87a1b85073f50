/*
 * residency.c - see residency.h
 *
 * A plan counts what the pool holds now (taken), the part of it that is about to leave (leaving), and the room that
 * those before in line wait for (claimed). Room that leaves now is free at a later plan.
 */
#include "server/residency.h"

#include "server/budget.h"

enum { NONE = -1 };

typedef struct room {
    uint64_t bytes;
    uint64_t places;
} room;

typedef struct plan {
    const hth_resident *models;
    size_t n;
    hth_residency_order *orders;
    uint64_t now_ns;
    room limits, pinned;
    room pool; /* of all models that are not pinned */
    room taken, leaving, claimed;
} plan;

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void add(room *to, const hth_resident *model)
{
    to->bytes = sum(to->bytes, model->bytes);
    to->places += model->residence != HTH_RESIDENCE_ROWS;
}

static void measure_pool(plan *p)
{
    p->pool.bytes = hth_on_demand_budget(p->limits.bytes, p->pinned.bytes);
    p->pool.places = less(p->limits.places, p->pinned.places);
    if (p->pool.places == 0)
        p->pool.places = 1; /* pinned models took all: one other at a time */
}

/* A model that is larger than the pool takes all of it. */
static room need_of(const plan *p, const hth_resident *model)
{
    return (room){ .bytes = model->bytes < p->pool.bytes ? model->bytes : p->pool.bytes, .places = 1 };
}

static bool is_idle(const hth_resident *model)
{
    return model->n_uses == 0 && model->wanted_ns == 0;
}

/* Is there this much room besides what is taken? */
static bool fits(const plan *p, const room *taken, const room *need)
{
    const bool has_bytes = need->bytes > 0 || p->pool.bytes > 0
                             ? need->bytes <= less(p->pool.bytes, taken->bytes)
                             : taken->bytes == 0; /* pinned models took all: one other at a time */

    return has_bytes && need->places <= less(p->pool.places, taken->places);
}

/* The room that is taken once all have left that are to leave, and those before in line have entered. */
static room taken_later(const plan *p)
{
    return (room){ .bytes = sum(less(p->taken.bytes, p->leaving.bytes), p->claimed.bytes),
                   .places = less(p->taken.places, p->leaving.places) + p->claimed.places };
}

static void leave(plan *p, size_t i)
{
    p->orders[i] = HTH_RESIDENCY_LEAVE;
    add(&p->leaving, &p->models[i]);
}

/* ---- those that leave ---- */

/* May this model leave, or be closed, for one whose oldest request came at wanted_ns? */
static bool is_victim(const plan *p, size_t i, uint64_t wanted_ns, bool may_be_busy)
{
    const hth_resident *model = &p->models[i];

    if (p->orders[i] != HTH_RESIDENCY_STAY || model->is_pinned)
        return false;
    if (model->residence == HTH_RESIDENCE_ROWS)
        return model->bytes > 0;
    if (model->residence != HTH_RESIDENCE_IN)
        return false;
    if (model->wanted_ns > 0 && model->wanted_ns <= wanted_ns)
        return false; /* its own turn */
    return may_be_busy || is_idle(model);
}

/* Idle models go first, in the order of their last use; then busy ones, the one first that entered first. */
static bool goes_before(const hth_resident *a, const hth_resident *b)
{
    if (is_idle(a) != is_idle(b))
        return is_idle(a);
    return is_idle(a) ? a->used_ns < b->used_ns : a->since_ns < b->since_ns;
}

static ptrdiff_t next_victim(const plan *p, uint64_t wanted_ns, bool may_be_busy, bool rows_only)
{
    ptrdiff_t first = NONE;

    for (size_t i = 0; i < p->n; i++)
        if (is_victim(p, i, wanted_ns, may_be_busy) && (!rows_only || p->models[i].residence == HTH_RESIDENCE_ROWS) &&
            (first == NONE || goes_before(&p->models[i], &p->models[first])))
            first = (ptrdiff_t)i;
    return first;
}

/* Would there be room if all victims left? */
static bool can_make_room(const plan *p, const room *need, uint64_t wanted_ns, bool may_be_busy)
{
    plan all = *p; /* its orders are not changed */
    room later;

    for (size_t i = 0; i < p->n; i++)
        if (is_victim(p, i, wanted_ns, may_be_busy))
            add(&all.leaving, &p->models[i]);
    later = taken_later(&all);
    return fits(p, &later, need);
}

/* Let victims leave, or close them, until need fits later or no victim is left. */
static void make_room(plan *p, const room *need, uint64_t wanted_ns, bool may_be_busy)
{
    room later = taken_later(p);
    ptrdiff_t i;

    while (!fits(p, &later, need) && (i = next_victim(p, wanted_ns, may_be_busy, false)) != NONE) {
        leave(p, (size_t)i);
        if (p->models[i].n_uses > 0)
            p->orders[i] = HTH_RESIDENCY_CLOSE;
        later = taken_later(p);
    }
}

/*
 * Models beyond their keep_ns leave; and idle ones while the pool holds more than it should, but for the last model,
 * which may be larger than the pool.
 */
static void let_idle_leave(plan *p)
{
    room later;
    size_t n_in = 0;
    ptrdiff_t i;

    for (size_t k = 0; k < p->n; k++) {
        const hth_resident *model = &p->models[k];

        if (model->residence != HTH_RESIDENCE_IN || model->is_pinned)
            continue;
        if (is_idle(model) && model->keep_ns < UINT64_MAX && p->now_ns - model->used_ns >= model->keep_ns)
            leave(p, k);
        else
            n_in++;
    }
    for (;;) {
        later = taken_later(p);
        i = next_victim(p, 0, false, n_in <= 1);
        if ((later.bytes <= p->pool.bytes && later.places <= p->pool.places) || i == NONE)
            return;
        n_in -= p->models[i].residence == HTH_RESIDENCE_IN;
        leave(p, (size_t)i);
    }
}

/* ---- those that enter ---- */

/* The next waiting model behind (last_ns, at), in the order of oldest requests, then of indexes. */
static ptrdiff_t next_in_line(const plan *p, uint64_t last_ns, ptrdiff_t at)
{
    ptrdiff_t first = NONE;

    for (size_t i = 0; i < p->n; i++) {
        const hth_resident *model = &p->models[i];

        if (model->residence != HTH_RESIDENCE_OUT || model->wanted_ns == 0 || model->wanted_ns < last_ns ||
            (model->wanted_ns == last_ns && (ptrdiff_t)i <= at))
            continue;
        if (first == NONE || model->wanted_ns < p->models[first].wanted_ns)
            first = (ptrdiff_t)i;
    }
    return first;
}

static void enter(plan *p, size_t i)
{
    p->orders[i] = HTH_RESIDENCY_ENTER;
    add(p->models[i].is_pinned ? &p->pinned : &p->taken, &p->models[i]);
    measure_pool(p);
}

/* Does need fit now, without the room that models before it in line wait for? */
static bool fits_now(const plan *p, const room *need)
{
    const room later = taken_later(p);

    return fits(p, &p->taken, need) && fits(p, &later, need);
}

static void serve_line(plan *p, uint64_t turn_ns)
{
    ptrdiff_t i = NONE;

    while ((i = next_in_line(p, i == NONE ? 0 : p->models[i].wanted_ns, i)) != NONE) {
        const uint64_t wanted_ns = p->models[i].wanted_ns;
        const bool is_strict = p->now_ns - wanted_ns >= turn_ns && p->now_ns >= wanted_ns;
        const room need = need_of(p, &p->models[i]);

        if (!fits_now(p, &need)) {
            /* Before its turn, nobody leaves for it in vain. In its turn, it takes the room that there is. */
            if (!can_make_room(p, &need, wanted_ns, is_strict) && !is_strict)
                continue; /* others may pass */
            make_room(p, &need, wanted_ns, is_strict);
        }
        if (fits_now(p, &need)) {
            enter(p, (size_t)i);
            continue;
        }
        p->claimed.bytes += need.bytes;
        p->claimed.places += need.places;
        if (is_strict)
            return;
    }
    for (size_t k = 0; k < p->n; k++) {
        const room need = need_of(p, &p->models[k]);

        if (p->models[k].residence == HTH_RESIDENCE_OUT && p->models[k].is_invited && p->models[k].wanted_ns == 0 &&
            fits_now(p, &need) && (need.bytes == p->models[k].bytes || p->taken.bytes == 0) && p->pool.bytes > 0)
            enter(p, k);
    }
}

void hth_residency_plan(const hth_resident *models, size_t n, const hth_residency_limits *limits, uint64_t now_ns,
                        hth_residency_order *orders)
{
    plan p = {
        .models = models,
        .n = n,
        .orders = orders,
        .now_ns = now_ns,
        .limits = { .bytes = limits->bytes, .places = limits->n_models },
    };

    for (size_t i = 0; i < n; i++) {
        const bool is_out = models[i].residence == HTH_RESIDENCE_OUT;

        orders[i] = HTH_RESIDENCY_STAY;
        if (!is_out)
            add(models[i].is_pinned ? &p.pinned : &p.taken, &models[i]);
        if (models[i].residence == HTH_RESIDENCE_LEAVING && !models[i].is_pinned)
            add(&p.leaving, &models[i]);
    }
    measure_pool(&p);
    let_idle_leave(&p);
    if (limits->is_held) { /* as if pinned models took all: one other at a time */
        p.limits.bytes = 0;
        measure_pool(&p);
    }
    serve_line(&p, limits->turn_ns);
}
