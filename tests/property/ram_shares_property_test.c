/*
 * ram_shares_property_test.c - workers that share one budget for rows, ruled by hth_ram_shares_plan
 *
 * Requests, starts, ends, deaths, pins and new budgets come at random; workers obey late, and rows in use stay where
 * they are. Whatever happens: rows and quotas never exceed the budget, or what is left of an old one; rows of busy and
 * of pinned models keep a fair part; a model that alone computes rows gets all that others need not keep; and without
 * new rows nothing moves.
 *
 * HTH_STEPS: how many (default a million). HTH_SEED replays a run that printed it.
 */
#include "supervisor/ram_shares.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/smaller.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { MODELS = 6, BUDGET = 1600, STEPS = 16, LATE = 3, RECENT = 4, USE_MAX = 12, CALM = 400 };

typedef enum where { OUT, LOADING, READY } where;

typedef struct model {
    where where;
    uint64_t share, most; /* as the front knows them */
    uint64_t quota, used; /* as the worker has them */
    uint64_t locked;      /* of the rows, in use */
    uint64_t order;       /* under way; UINT64_MAX: none */
    uint64_t order_until, ready_at, busy_until, used_at, short_at;
    bool is_pinned;
} model;

typedef struct world {
    uint64_t random, now, budget, old_total, n_orders;
    model models[MODELS];
} world;

static uint64_t draw(world *w, uint64_t n)
{
    return hth_test_random(&w->random, n);
}

static void holders_of(const world *w, hth_ram_holder *out)
{
    for (size_t i = 0; i < MODELS; i++) {
        const model *m = &w->models[i];
        const uint64_t told = m->order != UINT64_MAX ? m->order : m->quota;

        out[i] = (hth_ram_holder){
            .share_bytes = m->share,
            .used_bytes = m->used,
            .coming_bytes = m->where != OUT && told < m->share ? m->share - told : 0,
            .most_bytes = m->most,
            .used_ns = m->used_at,
            .has_worker = m->where != OUT,
            .takes_orders = m->where != OUT && m->order == UINT64_MAX,
            .is_starting = m->where == LOADING,
            .is_busy = m->where == LOADING || w->now < m->busy_until + RECENT,
            .is_pinned = m->is_pinned,
            .is_short = m->where == READY && m->short_at > 0 && w->now < m->short_at + RECENT,
        };
    }
}

static uint64_t total_of(const world *w)
{
    uint64_t total = 0;

    for (size_t i = 0; i < MODELS; i++)
        total += w->models[i].share;
    return total;
}

static void check(world *w)
{
    const uint64_t total = total_of(w);

    assert_true(total <= w->budget || total <= w->old_total);
    w->old_total = total;
    for (size_t i = 0; i < MODELS; i++) {
        assert_true(w->models[i].quota <= w->models[i].share);
        assert_true(w->models[i].used <= w->models[i].share);
    }
}

static void evict(model *m)
{
    m->used = hth_smaller(m->used, hth_larger(m->quota, m->locked));
}

static void confirm(world *w, model *m)
{
    if (m->order == UINT64_MAX || w->now < m->order_until || m->where == LOADING)
        return;
    m->quota = m->order;
    m->order = UINT64_MAX;
    evict(m);
    m->share = hth_larger(m->quota, m->used);
}

static void end(model *m)
{
    m->where = OUT;
    m->order = UINT64_MAX;
    m->quota = m->locked = 0;
    m->share = m->used; /* they stay in memory */
}

static void begin(world *w, size_t i)
{
    hth_ram_holder holders[MODELS];
    model *m = &w->models[i];

    holders_of(w, holders);
    m->share = m->quota = hth_ram_share_at_start(holders, MODELS, w->budget, i);
    assert_true(m->share <= m->most);
    m->where = LOADING;
    m->ready_at = w->now + draw(w, 8);
    m->short_at = 0;
    evict(m);
}

static void compute_rows(world *w, model *m, uint64_t bytes)
{
    m->used_at = w->now;
    m->used += bytes;
    if (m->used > m->quota)
        m->short_at = w->now;
    if (m->used > m->quota)
        m->used = hth_larger(m->quota, m->locked);
}

static void tick_model(world *w, size_t i)
{
    model *m = &w->models[i];

    if (m->where == LOADING && w->now >= m->ready_at)
        m->where = READY;
    confirm(w, m);
    if (m->where != READY)
        return;
    if (w->now < m->busy_until)
        compute_rows(w, m, draw(w, 80));
    else
        m->locked = 0;
    evict(m);
    if (m->order == UINT64_MAX)
        m->share = hth_smaller(m->share, hth_larger(m->quota, m->used));
}

static void disturb(world *w)
{
    const size_t i = draw(w, MODELS);
    model *m = &w->models[i];

    switch (draw(w, 40)) {
    case 0: w->budget = draw(w, 4) ? BUDGET : draw(w, 9) ? 96 + draw(w, 3 * BUDGET) : 0; break;
    case 1: m->is_pinned = !m->is_pinned && draw(w, 3) == 0; break;
    case 2:
    case 3: /* its worker ends or dies */
        if (m->where != OUT)
            end(m);
        if (draw(w, 3) == 0) { /* and its rows are dropped */
            m->used = m->where == OUT ? 0 : m->used;
            m->share = m->where == OUT ? 0 : m->share;
        }
        break;
    case 4:
        if (m->where == OUT)
            m->most = draw(w, 6) ? 1 + draw(w, 2 * BUDGET) : 0;
        m->share = m->where == OUT ? hth_smaller(m->share, m->most) : m->share;
        m->used = hth_smaller(m->used, m->share);
        break;
    default: /* a request */
        if (m->where == OUT && m->most > 0)
            begin(w, i);
        if (m->where != READY)
            break;
        m->busy_until = w->now + 1 + draw(w, USE_MAX);
        m->used_at = w->now;
        m->locked = draw(w, m->used + 1);
    }
}

/* A share may shrink by bytes without rows; by rows of models that were not used lately; else down to a fair part. */
static void check_shrinking(const world *w, const hth_ram_holder *h, uint64_t share, uint64_t n_live)
{
    const uint64_t reserve = w->budget / STEPS;

    if (h->has_worker)
        assert_true(h->takes_orders);
    else
        assert_int_equal(share, 0);
    if (share < h->used_bytes && h->has_worker && (h->is_busy || h->is_pinned))
        assert_true(share + 1 >= (w->budget - reserve) / n_live);
}

static void plan(world *w)
{
    hth_ram_holder holders[MODELS];
    uint64_t shares[MODELS], n_live = 0;

    holders_of(w, holders);
    hth_ram_shares_plan(holders, MODELS, w->budget, shares);
    for (size_t i = 0; i < MODELS; i++)
        n_live += holders[i].has_worker && holders[i].most_bytes > 0;
    for (size_t i = 0; i < MODELS; i++) {
        model *m = &w->models[i];

        if (shares[i] == m->share)
            continue;
        w->n_orders++;
        if (shares[i] < m->share) {
            check_shrinking(w, &holders[i], shares[i], n_live);
            assert_true(m->where == OUT || shares[i] < m->quota);
        } else {
            assert_true(holders[i].takes_orders);
            assert_true(shares[i] <= m->most);
        }
        if (m->where == OUT) {
            m->share = m->used = 0;
            continue;
        }
        m->order = shares[i];
        m->order_until = w->now + draw(w, LATE);
        if (shares[i] > m->share) {
            m->share = shares[i];
            m->short_at = 0;
        }
    }
}

static void step(world *w, bool is_calm)
{
    w->now++;
    if (!is_calm)
        disturb(w);
    for (size_t i = 0; i < MODELS; i++)
        tick_model(w, i);
    check(w);
    plan(w);
    check(w);
}

/* One model alone computes rows, for long: it gets what the others need not keep. Then nobody does: nothing moves. */
static void calm(world *w)
{
    const size_t busy = draw(w, MODELS);
    model *m = &w->models[busy];
    uint64_t kept = w->budget / STEPS, n_live = 1, n_orders;

    if (m->where == OUT && m->most > 0)
        begin(w, busy);
    for (int i = 0; i < CALM && m->most > 0; i++) {
        m->busy_until = w->now + 2;
        step(w, true);
    }
    for (size_t i = 0; i < MODELS; i++)
        n_live += i != busy && w->models[i].where != OUT && w->models[i].most > 0;
    for (size_t i = 0; i < MODELS; i++) {
        const model *other = &w->models[i];

        if (i == busy)
            continue;
        if (other->where != OUT && other->most > 0)
            kept += hth_larger(other->is_pinned ? hth_larger(w->budget / n_live, other->used) : 0, w->budget / STEPS);
        else if (other->is_pinned)
            kept += other->share;
    }
    if (m->most > 0 && kept < w->budget)
        assert_true(m->share >= hth_smaller(m->most, w->budget - kept));
    for (int i = 0; i < CALM; i++)
        step(w, true);
    n_orders = w->n_orders;
    for (int i = 0; i < CALM / 4; i++)
        step(w, true);
    assert_int_equal(w->n_orders, n_orders);
    assert_true(total_of(w) <= w->budget);
}

TEST(shares_stay_within_the_budget_and_go_where_rows_are_computed)
{
    world w = { .random = hth_test_seed(), .now = 10, .budget = BUDGET };
    const char *steps = getenv("HTH_STEPS");
    const uint64_t n_steps = steps ? strtoull(steps, NULL, 10) : 1000000;

    printf("seed %llu\n", (unsigned long long)w.random);
    for (size_t i = 0; i < MODELS; i++)
        w.models[i] = (model){ .most = 1 + draw(&w, 2 * BUDGET), .order = UINT64_MAX };
    for (uint64_t i = 0; w.now < n_steps; i++) {
        if (i % 5000 == 4999)
            calm(&w);
        step(&w, false);
    }
    printf("%llu orders\n", (unsigned long long)w.n_orders);
}
