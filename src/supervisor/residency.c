/*
 * A plan counts what the pools hold now (taken), the part of it that will be free (leaving), and the room that models
 * earlier in line wait for (claimed). A later plan can use what leaves; this one cannot.
 */
#include "supervisor/residency.h"

#include <assert.h>

#include "base/smaller.h"

enum { NONE = -1 };

typedef struct room {
    uint64_t bytes[HTH_POOLS_MAX];
    uint64_t places;
} room;

/* Kinds of room, one bit each: of pool k, 1 << k. */
typedef uint32_t kinds;

#define HOST UINT32_C(1)
#define PLACES (UINT32_C(1) << 31)
#define HOST_KEPT (UINT32_C(1) << 30) /* the part of the host's memory that kept weights take */

static_assert(HTH_POOLS_MAX <= 30, "a bit for each pool");

typedef struct plan {
    const hth_resident *models;
    size_t n, n_pools;
    hth_residency_order *orders;
    uint64_t now_ns;
    bool is_external;
    room limits, pinned;
    room pool; /* for all models that are not pinned: a pool of each kind */
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
    for (size_t k = 0; k < HTH_POOLS_MAX; k++)
        to->bytes[k] = sum(to->bytes[k], model->bytes[k]);
    to->places += model->place != HTH_PLACE_KEPT;
}

static void measure_pools(plan *p)
{
    for (size_t k = 0; k < p->n_pools; k++)
        p->pool.bytes[k] = hth_on_demand_budget(p->limits.bytes[k], p->pinned.bytes[k]);
    p->pool.places = less(p->limits.places, p->pinned.places);
    if (p->pool.places == 0)
        p->pool.places = 1; /* pinned models took everything: one other model at a time */
}

/* Every model is in the host's pool. */
static bool is_in_pool(const hth_resident *model, size_t k)
{
    return k == 0 || model->bytes[k] > 0;
}

static bool is_idle(const hth_resident *model)
{
    return model->n_uses == 0 && model->wanted_ns == 0;
}

/* Is it unlikely that its last client asks again at once? */
static bool has_stayed(const hth_resident *model, uint64_t now_ns)
{
    return now_ns - model->used_ns >= model->stay_ns;
}

/* Does the pool hold nothing but its own weights? Then it may be larger than the pool. */
static bool is_alone(const room *taken, const hth_resident *model, size_t k)
{
    return taken->bytes[k] <= (k == 0 && model->kept && !model->kept->is_pinned ? model->kept->bytes[0] : 0);
}

static bool has_bytes(const plan *p, const room *taken, const hth_resident *model, size_t k)
{
    if (is_alone(taken, model, k))
        return true;
    if (p->pool.bytes[k] == 0) /* pinned models took everything: one other model at a time */
        return !is_in_pool(model, k);
    return model->bytes[k] <= less(p->pool.bytes[k], taken->bytes[k]);
}

/* The kinds of room that a model lacks besides the taken room. */
static kinds lack_of(const plan *p, const room *taken, const hth_resident *model)
{
    kinds lack = less(p->pool.places, taken->places) == 0 ? PLACES : 0;

    for (size_t k = 0; k < p->n_pools; k++)
        if (!has_bytes(p, taken, model, k))
            lack |= HOST << k;
    return lack;
}

/* The kinds of room that a model frees when it leaves. */
static kinds gift_of(const plan *p, const hth_resident *model)
{
    kinds gift = model->place == HTH_PLACE_KEPT ? HOST_KEPT : PLACES;

    for (size_t k = 0; k < p->n_pools; k++)
        if (model->bytes[k] > 0)
            gift |= HOST << k;
    return gift;
}

/* The room that is taken once all leaving models have left and those earlier in line have entered. */
static room taken_later(const plan *p)
{
    room later = { .places = less(p->taken.places, p->leaving.places) + p->claimed.places };

    for (size_t k = 0; k < p->n_pools; k++)
        later.bytes[k] = sum(less(p->taken.bytes[k], p->leaving.bytes[k]), p->claimed.bytes[k]);
    return later;
}

/* A busy model finishes its requests first. */
static void leave(plan *p, size_t i)
{
    p->orders[i] = p->models[i].n_uses > 0 ? HTH_RESIDENCY_CLOSE : HTH_RESIDENCY_LEAVE;
    add(&p->leaving, &p->models[i]);
}

/* ---- models that leave ---- */

/*
 * Does a waiting victim come before the model in line? Of two requests that came at the same time, the one for the
 * model with the lower index is first. Kept weights wait with the models that would map them.
 */
static bool is_before_in_line(const plan *p, const hth_resident *victim, const hth_resident *model)
{
    if (victim->wanted_ns != model->wanted_ns || victim->place != HTH_PLACE_KEPT)
        return victim->wanted_ns <= model->wanted_ns;
    for (const hth_resident *other = p->models; other < model; other++)
        if (other->kept == victim && other->wanted_ns == model->wanted_ns)
            return true;
    return false;
}

/* May the i-th model leave, or be closed, for this model, or (NULL) because a pool holds too much? */
static bool is_victim(const plan *p, size_t i, const hth_resident *model, bool may_be_busy)
{
    const hth_resident *victim = &p->models[i];

    if (p->orders[i] != HTH_RESIDENCY_STAY || victim->is_pinned || (model && victim == model->kept))
        return false;
    if (model && victim->wanted_ns > 0 && (model->wanted_ns == 0 || is_before_in_line(p, victim, model)))
        return false; /* its own turn */
    if (victim->place == HTH_PLACE_KEPT)
        return victim->bytes[0] > 0;
    if (victim->place != HTH_PLACE_IN || p->is_external || (model && model->wanted_ns == 0))
        return false; /* for a model that is invited only kept weights leave */
    return may_be_busy || (is_idle(victim) && (!model || has_stayed(victim, p->now_ns)));
}

/* Idle models go first, in the order of their last use; then busy models, in the order in which they entered. */
static bool goes_before(const hth_resident *a, const hth_resident *b)
{
    if (is_idle(a) != is_idle(b))
        return is_idle(a);
    return is_idle(a) ? a->used_ns < b->used_ns : a->since_ns < b->since_ns;
}

/* The next victim that frees room of these kinds. */
static ptrdiff_t next_victim(const plan *p, const hth_resident *model, bool may_be_busy, kinds lack)
{
    ptrdiff_t first = NONE;

    for (size_t i = 0; i < p->n; i++)
        if (is_victim(p, i, model, may_be_busy) && (gift_of(p, &p->models[i]) & lack) != 0 &&
            (first == NONE || goes_before(&p->models[i], &p->models[first])))
            first = (ptrdiff_t)i;
    return first;
}

/* Would there be room for the model if all victims left? */
static bool can_make_room(const plan *p, const hth_resident *model, bool may_be_busy)
{
    plan all = *p; /* its orders are not changed */
    room later;

    for (size_t i = 0; i < p->n; i++)
        if (is_victim(p, i, model, may_be_busy))
            add(&all.leaving, &p->models[i]);
    later = taken_later(&all);
    return lack_of(p, &later, model) == 0;
}

/* Let victims leave, or close them, until the model fits later or no victim is left. */
static void make_room(plan *p, const hth_resident *model, bool may_be_busy)
{
    room later = taken_later(p);
    ptrdiff_t i;

    while ((i = next_victim(p, model, may_be_busy, lack_of(p, &later, model))) != NONE) {
        leave(p, (size_t)i);
        later = taken_later(p);
    }
}

static bool has_rested(const plan *p, const hth_resident *model)
{
    return !model->is_pinned && !p->is_external && model->keep_ns < UINT64_MAX &&
           p->now_ns - model->used_ns >= model->keep_ns;
}

/* The kinds of room that are over-committed. The last model in a pool stays: it may be larger than the pool. */
static kinds excess(const plan *p)
{
    const room later = taken_later(p);
    kinds over = later.places > p->pool.places ? PLACES : 0;

    for (size_t k = 0; k < p->n_pools; k++) {
        size_t n = 0;

        for (size_t i = 0; i < p->n; i++)
            n += p->models[i].place == HTH_PLACE_IN && !p->models[i].is_pinned && p->orders[i] == HTH_RESIDENCY_STAY &&
                 is_in_pool(&p->models[i], k);
        if (later.bytes[k] <= p->pool.bytes[k])
            continue;
        if (n > 1)
            over |= HOST << k;
        else if (k == 0)
            over |= HOST_KEPT;
    }
    return over;
}

/* Models that are dismissed or past their keep_ns leave. Idle models leave while a pool holds too much. */
static void let_idle_leave(plan *p)
{
    ptrdiff_t i;

    for (size_t k = 0; k < p->n; k++) {
        const hth_resident *model = &p->models[k];

        if (model->place == HTH_PLACE_IN && (model->is_dismissed || (is_idle(model) && has_rested(p, model))))
            leave(p, k);
    }
    while ((i = next_victim(p, NULL, false, excess(p))) != NONE)
        leave(p, (size_t)i);
}

/* ---- models that enter ---- */

/* The next waiting model after (last_ns, at), in the order of oldest requests, then of indexes. */
static ptrdiff_t next_in_line(const plan *p, uint64_t last_ns, ptrdiff_t at)
{
    ptrdiff_t first = NONE;

    for (size_t i = 0; i < p->n; i++) {
        const hth_resident *model = &p->models[i];

        if (model->place != HTH_PLACE_OUT || model->wanted_ns == 0 || model->wanted_ns < last_ns ||
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
    measure_pools(p);
}

/* Do the weights that it would map leave? Then it needs their room, too, which the next plan counts. */
static bool loses_weights(const plan *p, const hth_resident *model)
{
    return model->kept && p->orders[model->kept - p->models] != HTH_RESIDENCY_STAY;
}

/* Is there room now, apart from the room that models earlier in line wait for? */
static bool fits_now(const plan *p, const hth_resident *model)
{
    const room later = taken_later(p);

    return !loses_weights(p, model) && lack_of(p, &p->taken, model) == 0 && lack_of(p, &later, model) == 0;
}

/*
 * May a model enter without a request? Not if pinned models took everything. A model that is larger than the pool
 * enters alone.
 */
static bool is_welcome(const plan *p, const hth_resident *model)
{
    for (size_t k = 0; k < p->n_pools; k++)
        if (is_in_pool(model, k) &&
            (p->pool.bytes[k] == 0 || (model->bytes[k] > p->pool.bytes[k] && !is_alone(&p->taken, model, k))))
            return false;
    return fits_now(p, model);
}

/* A part that is larger than its pool takes all of it. If pinned models took everything, any part keeps others out. */
static void claim(plan *p, const hth_resident *model)
{
    for (size_t k = 0; k < p->n_pools; k++) {
        const uint64_t pool = p->pool.bytes[k];

        p->claimed.bytes[k] = sum(p->claimed.bytes[k], pool > 0 ? hth_smaller(model->bytes[k], pool) : model->bytes[k]);
    }
    p->claimed.places++;
}

/* Let waiting models enter. True if one waits although it is its turn: then no other model enters. */
static bool serve_line(plan *p, uint64_t turn_ns)
{
    ptrdiff_t i = NONE;

    while ((i = next_in_line(p, i == NONE ? 0 : p->models[i].wanted_ns, i)) != NONE) {
        const hth_resident *model = &p->models[i];
        const bool has_its_turn = p->now_ns >= model->wanted_ns && p->now_ns - model->wanted_ns >= turn_ns;

        if (!fits_now(p, model)) {
            /*
             * Before its turn, no model leaves unless that makes enough room. In its turn, models leave even if that
             * makes too little room for now.
             */
            if (!can_make_room(p, model, has_its_turn) && !has_its_turn)
                continue; /* others may pass */
            make_room(p, model, has_its_turn);
        }
        if (fits_now(p, model)) {
            enter(p, (size_t)i);
            continue;
        }
        claim(p, model);
        if (has_its_turn)
            return true;
    }
    return false;
}

static void admit_invited(plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const hth_resident *model = &p->models[i];

        if (model->place != HTH_PLACE_OUT || !model->is_invited || model->wanted_ns > 0)
            continue;
        if (p->pool.bytes[0] > 0 && !fits_now(p, model) && can_make_room(p, model, false))
            make_room(p, model, false);
        if (is_welcome(p, model))
            enter(p, i);
    }
}

void hth_residency_plan(const hth_resident *models, size_t n, const hth_residency_limits *limits, uint64_t now_ns,
                        hth_residency_order *orders)
{
    plan p = {
        .models = models,
        .n = n,
        .n_pools = limits->n_pools,
        .orders = orders,
        .now_ns = now_ns,
        .is_external = limits->is_external,
        .limits = { .places = limits->n_models },
    };

    assert(limits->n_pools >= 1);
    assert(limits->n_pools <= HTH_POOLS_MAX);
    for (size_t k = 0; k < limits->n_pools; k++)
        p.limits.bytes[k] = limits->bytes[k];
    for (size_t i = 0; i < n; i++) {
        const bool is_out = models[i].place == HTH_PLACE_OUT;

        orders[i] = HTH_RESIDENCY_STAY;
        if (!is_out)
            add(models[i].is_pinned ? &p.pinned : &p.taken, &models[i]);
        if (models[i].place == HTH_PLACE_LEAVING && !models[i].is_pinned)
            add(&p.leaving, &models[i]);
    }
    measure_pools(&p);
    let_idle_leave(&p);
    if (limits->is_held) { /* as if pinned models took everything: one other model at a time */
        p.limits.bytes[0] = 0;
        measure_pools(&p);
    }
    if (!serve_line(&p, limits->turn_ns))
        admit_invited(&p);
}

uint64_t hth_residency_stay_end(const hth_resident *models, size_t n, const hth_residency_limits *limits,
                                uint64_t now_ns)
{
    uint64_t end_ns = UINT64_MAX;
    bool is_any_wanted = false;

    for (size_t i = 0; i < n; i++) {
        const hth_resident *model = &models[i];

        is_any_wanted |= model->place == HTH_PLACE_OUT && model->wanted_ns > 0;
        if (model->place == HTH_PLACE_IN && is_idle(model) && !model->is_pinned && !has_stayed(model, now_ns))
            end_ns = hth_smaller(end_ns, sum(model->used_ns, model->stay_ns));
    }
    return is_any_wanted && !limits->is_external ? end_ns : UINT64_MAX;
}

/* ---- the budget ---- */

/* A part of a number of bytes. UINT64_MAX (no limit) stays UINT64_MAX. */
static uint64_t part_of(uint64_t bytes, double part)
{
    if (part <= 0)
        return 0;
    return part >= 1 || bytes == UINT64_MAX ? bytes : (uint64_t)((double)bytes * part);
}

uint64_t hth_budget_of(const hth_budget_terms *terms)
{
    const uint64_t ceiling = part_of(terms->arena_bytes, 1 - terms->wiggle);
    const uint64_t fraction = part_of(terms->arena_bytes, terms->fraction);
    const uint64_t scratch = terms->max_scratch_bytes < ceiling / 2 ? terms->max_scratch_bytes : ceiling / 2;
    const uint64_t beside_scratch = ceiling - scratch;
    const uint64_t most = fraction < beside_scratch ? fraction : beside_scratch;

    return hth_on_demand_budget(most, terms->row_bytes);
}
