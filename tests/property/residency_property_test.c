/*
 * residency_property_test.c - a machine with two devices whose memory is too small for its models, ruled by
 * hth_residency_plan
 *
 * Requests, deaths, growth, pins, orders of operators, pressure and the external mode come and go at random. Whatever
 * happens: no model enters without room on the host and its devices, unless it is alone there; no busy or pinned model
 * leaves, and no pinned rows; those that leave are the least recently used, or use a device that those who stay do not
 * use; no model leaves soon after its last use to make room, unless the turn of another one has come; a plan that was
 * obeyed asks for nothing more; and every request begins within a bounded time. In the external
 * mode, models enter and leave by orders only, none is closed, and a request for a model that is not there, or an order
 * to load one without room, is refused within a bounded time.
 *
 * HTH_STEPS: how many (default a million). HTH_SEED replays a run that printed it.
 */
#include "supervisor/residency.h"

#include <stdio.h>

#include "support/cmocka_all.h"
#include "support/support.h"

enum {
    MODELS = 7,
    POOLS = 3, /* the host, then devices */
    POOL = 100,
    TURN = 20,
    USE_MAX = 10, /* ticks, as the next three */
    LOAD_MAX = 4,
    LEAVE_MAX = 3,
    STAY = 6,
    KEEP = 30,
    PATIENCE = MODELS * (TURN + USE_MAX + LOAD_MAX + LEAVE_MAX + 4),
    WAITING_MAX = 4,
};

typedef struct world {
    uint64_t random, now;
    size_t n_places;
    bool is_held, is_external;
    hth_resident models[2 * MODELS]; /* the second half: kept weights of those in the first */
    hth_residency_order orders[2 * MODELS];
    bool is_ready[MODELS], is_closed[MODELS];
    uint64_t until[MODELS];   /* STARTING and LEAVING: the end of that */
    uint64_t use_end[MODELS]; /* of the longest use */
    uint64_t n_served, n_left, n_closed, n_refused, n_dismissed, n_stayed, longest_wait;
} world;

static uint64_t draw(world *w, uint64_t n)
{
    return hth_test_random(&w->random, n);
}

/* The bytes that a model takes of each pool. Half of the models take no device. */
static void draw_bytes(world *w, hth_resident *m)
{
    m->bytes[0] = 1 + draw(w, draw(w, 8) ? 60 : 2 * POOL);
    for (size_t k = 1; k < POOLS; k++)
        m->bytes[k] = draw(w, 2) ? 0 : draw(w, draw(w, 8) ? 60 : 2 * POOL);
}

static void begin_use(world *w, size_t i)
{
    uint64_t end = w->now + 1 + draw(w, USE_MAX);

    w->models[i].n_uses++;
    if (end > w->use_end[i])
        w->use_end[i] = end;
    w->n_served++;
}

static void serve_waiting(world *w, size_t i)
{
    hth_resident *m = &w->models[i];
    uint64_t waited;

    if (m->place != HTH_PLACE_IN || !w->is_ready[i] || w->is_closed[i] || m->wanted_ns == 0)
        return;
    waited = w->now - m->wanted_ns;
    if (waited > w->longest_wait)
        w->longest_wait = waited;
    m->wanted_ns = 0;
    begin_use(w, i);
}

static void tick_model(world *w, size_t i)
{
    hth_resident *m = &w->models[i];

    if (m->n_uses > 0 && w->now >= w->use_end[i]) {
        m->n_uses = 0;
        m->used_ns = w->now;
    }
    if (m->place == HTH_PLACE_IN && !w->is_ready[i] && w->now >= w->until[i])
        w->is_ready[i] = true;
    if (m->place == HTH_PLACE_LEAVING && w->now >= w->until[i])
        m->place = HTH_PLACE_OUT;
    m[MODELS].used_ns = m->used_ns;
    serve_waiting(w, i);
}

/* A request, which brings the model in; or in the external mode an order, which then does the same. */
static void ask(world *w, size_t i, bool is_order)
{
    hth_resident *m = &w->models[i];

    m->used_ns = w->now;
    if (m->place == HTH_PLACE_IN && w->is_ready[i] && !w->is_closed[i])
        begin_use(w, i);
    else if (w->is_external && !is_order && m->place != HTH_PLACE_IN && m->wanted_ns == 0)
        w->n_refused++;
    else if (m->wanted_ns == 0)
        m->wanted_ns = w->now;
}

/* One of the things that happen to models. */
static void disturb(world *w)
{
    const size_t i = draw(w, MODELS);
    hth_resident *m = &w->models[i];

    switch (draw(w, 62)) {
    case 0: /* its process dies; its requests come back */
        if (m->place != HTH_PLACE_IN)
            break;
        w->is_ready[i] = false;
        w->until[i] = w->now + 1 + draw(w, LOAD_MAX);
        if (m->n_uses > 0 && m->wanted_ns == 0)
            m->wanted_ns = w->now;
        m->n_uses = 0;
        break;
    case 1: /* it turns out to be larger or smaller */ draw_bytes(w, m); break;
    case 2: m->is_pinned = !m->is_pinned && draw(w, 3) == 0; break;
    case 3: /* an operator's order */
        if (m->place == HTH_PLACE_IN && m->n_uses == 0) {
            m->place = HTH_PLACE_LEAVING;
            w->until[i] = w->now + 1 + draw(w, LEAVE_MAX);
        }
        break;
    case 4: w->n_places = draw(w, 2) ? SIZE_MAX : 1 + draw(w, 4); break;
    case 6: w->is_held = draw(w, 4) == 0; break;
    case 5: m->keep_ns = draw(w, 3) ? UINT64_MAX : KEEP; break;
    case 11: m->stay_ns = draw(w, 4) ? STAY : 0; break;
    case 7: w->is_external = draw(w, 3) == 0; break;
    case 8: /* a part of it that it left in memory, pinned or not */
        if (m->place == HTH_PLACE_OUT) {
            const uint64_t all = m->bytes[0] + m[MODELS].bytes[0];

            m[MODELS].bytes[0] = draw(w, all < 20 ? all : 20);
            m->bytes[0] = all - m[MODELS].bytes[0];
        }
        m[MODELS].is_pinned = draw(w, 4) == 0;
        break;
    case 9: m->is_dismissed = draw(w, 2); break;
    case 10: ask(w, i, true); break;
    default: ask(w, i, false);
    }
}

/* A model has entered. Is there room in the pool for all in it, or no more than one that is not pinned? */
static void check_pool(const world *w, size_t k)
{
    uint64_t bytes = 0;
    size_t n = 0, n_not_pinned = 0;

    for (size_t i = 0; i < MODELS; i++) {
        const hth_resident *m = &w->models[i];

        bytes += k == 0 ? m[MODELS].bytes[0] : 0;
        if (m->place == HTH_PLACE_OUT || (k > 0 && m->bytes[k] == 0))
            continue;
        bytes += m->bytes[k];
        n++;
        n_not_pinned += !m->is_pinned;
    }
    assert_true(n_not_pinned <= 1 || (bytes <= POOL && (k > 0 || n <= w->n_places)));
}

/* Does the model take a device that the other does not take? */
static bool takes_more_devices(const hth_resident *m, const hth_resident *other)
{
    for (size_t k = 1; k < POOLS; k++)
        if (m->bytes[k] > 0 && other->bytes[k] == 0)
            return true;
    return false;
}

/* Is there more in a pool, or are there more models, than there should be? */
static bool is_overfull(const world *w)
{
    size_t n = 0;

    for (size_t k = 0; k < POOLS; k++) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < (size_t)2 * MODELS; i++)
            bytes += w->models[i].place == HTH_PLACE_OUT ? 0 : w->models[i].bytes[k];
        if (bytes > POOL)
            return true;
    }
    for (size_t i = 0; i < MODELS; i++)
        n += w->models[i].place != HTH_PLACE_OUT;
    return n > w->n_places;
}

static bool has_one_its_turn(const world *w)
{
    for (size_t i = 0; i < MODELS; i++)
        if (w->models[i].place == HTH_PLACE_OUT && w->models[i].wanted_ns > 0 &&
            w->now - w->models[i].wanted_ns >= TURN)
            return true;
    return false;
}

static bool is_staying(const world *w, const hth_resident *m)
{
    return w->now - m->used_ns < m->stay_ns;
}

static void check_leaving(world *w, size_t left)
{
    const hth_resident *m = &w->models[left];

    assert_int_equal(m->place, HTH_PLACE_IN);
    assert_int_equal(m->n_uses, 0);
    if (m->is_dismissed)
        return;
    assert_false(m->is_pinned);
    assert_false(w->is_external);
    if (m->wanted_ns > 0 || (m->keep_ns != UINT64_MAX && w->now - m->used_ns >= m->keep_ns))
        return;
    if (!is_overfull(w) && !has_one_its_turn(w)) {
        assert_false(is_staying(w, m));
        w->n_stayed += m->stay_ns > 0;
    }
    for (size_t i = 0; i < MODELS; i++) {
        const hth_resident *other = &w->models[i];

        if (other->place == HTH_PLACE_IN && !other->is_pinned && other->n_uses == 0 && other->wanted_ns == 0 &&
            w->orders[i] == HTH_RESIDENCY_STAY)
            assert_true(other->used_ns >= m->used_ns || takes_more_devices(m, other) ||
                        (is_staying(w, other) && !is_staying(w, m)));
    }
}

/* Its weights are a part of the model again: it has entered and maps them, or they have left. */
static void take_kept(hth_resident *m)
{
    m->bytes[0] += m[MODELS].bytes[0];
    m[MODELS].bytes[0] = 0;
}

/* Obey. Returns whether anything changed. */
static bool plan(world *w)
{
    const hth_residency_limits limits = {
        .n_pools = POOLS,
        .bytes = { POOL, POOL, POOL },
        .n_models = w->n_places,
        .turn_ns = TURN,
        .is_held = w->is_held,
        .is_external = w->is_external,
    };
    bool changed = false, has_entered[POOLS] = { false }, is_some_free_soon = false;

    for (size_t i = 0; i < MODELS; i++) {
        hth_resident *m = &w->models[i];

        m->kept = m->place == HTH_PLACE_OUT && m[MODELS].bytes[0] > 0 ? &m[MODELS] : NULL;
        m[MODELS].wanted_ns = m->kept ? m->wanted_ns : 0;
    }
    hth_residency_plan(w->models, 2 * MODELS, &limits, w->now, w->orders);
    for (size_t i = 0; i < MODELS; i++)
        if (w->orders[i] == HTH_RESIDENCY_LEAVE)
            check_leaving(w, i);
    for (size_t i = 0; i < MODELS; i++) {
        hth_resident *m = &w->models[i];

        w->is_closed[i] = w->orders[i] == HTH_RESIDENCY_CLOSE;
        w->n_closed += w->is_closed[i];
        assert_false(w->is_closed[i] && w->is_external && !m->is_dismissed);
        if (w->orders[i] == HTH_RESIDENCY_ENTER) {
            assert_int_equal(m->place, HTH_PLACE_OUT);
            m->place = HTH_PLACE_IN;
            take_kept(m);
            m->since_ns = w->now;
            w->is_ready[i] = false;
            w->until[i] = w->now + 1 + draw(w, LOAD_MAX);
            for (size_t k = 0; k < POOLS; k++)
                has_entered[k] |= k == 0 || m->bytes[k] > 0;
            changed = true;
        } else if (w->orders[i] == HTH_RESIDENCY_LEAVE) {
            m->place = HTH_PLACE_LEAVING;
            w->until[i] = w->now + 1 + draw(w, LEAVE_MAX);
            w->n_left++;
            w->n_dismissed += m->is_dismissed;
            m->is_dismissed = false;
            changed = true;
        }
    }
    for (size_t i = MODELS; i < (size_t)2 * MODELS; i++)
        if (w->orders[i] != HTH_RESIDENCY_STAY) {
            assert_int_equal(w->orders[i], HTH_RESIDENCY_LEAVE);
            assert_false(w->models[i].is_pinned);
            take_kept(&w->models[i - MODELS]);
            changed = is_some_free_soon = true;
        }
    for (size_t i = 0; i < MODELS; i++)
        is_some_free_soon |= w->models[i].place == HTH_PLACE_LEAVING;
    for (size_t i = 0; i < MODELS && w->is_external && !is_some_free_soon; i++)
        if (w->models[i].place == HTH_PLACE_OUT && w->models[i].wanted_ns > 0) { /* the caller gives it up */
            w->models[i].wanted_ns = 0;
            w->n_refused++;
        }
    for (size_t k = 0; k < POOLS; k++)
        if (has_entered[k])
            check_pool(w, k);
    return changed;
}

TEST(memory_is_enough_and_every_request_begins)
{
    world w = { .random = hth_test_seed(), .now = 1000, .n_places = SIZE_MAX };
    const uint64_t n_steps = hth_test_number("HTH_STEPS", 1000000);

    for (size_t i = 0; i < MODELS; i++) {
        w.models[i] = (hth_resident){ .keep_ns = UINT64_MAX, .stay_ns = STAY, .is_pinned = i == 0 };
        draw_bytes(&w, &w.models[i]);
    }
    for (size_t i = MODELS; i < (size_t)2 * MODELS; i++)
        w.models[i] = (hth_resident){ .place = HTH_PLACE_KEPT };
    for (uint64_t step = 0; step < n_steps; step++) {
        w.now++;
        for (size_t i = 0; i < MODELS; i++)
            tick_model(&w, i);
        for (uint64_t n = draw(&w, step / 1000 % 2 ? 4 : 2); n > 0; n--)
            disturb(&w);
        for (unsigned n = 0; plan(&w); n++) /* rows leave first; then those enter that wait for their room */
            assert_in_range(n, 0, MODELS);
        for (size_t i = 0; i < MODELS; i++) {
            serve_waiting(&w, i); /* one that is closed no more */
            assert_true(w.models[i].wanted_ns == 0 || w.now - w.models[i].wanted_ns <= PATIENCE);
        }
    }
    print_message("%llu requests, %llu departures, longest wait %llu of %d\n", (unsigned long long)w.n_served,
                  (unsigned long long)w.n_left, (unsigned long long)w.longest_wait, PATIENCE);
    assert_true(w.n_left > n_steps / 100);
    assert_true(w.n_closed > 0);
    assert_true(w.n_refused > n_steps / 1000);
    assert_true(w.n_dismissed > n_steps / 1000);
    assert_true(w.n_stayed > n_steps / 1000);
}

/* ---- clients that ask again as soon as they have a reply ---- */

enum { CLIENTS = 4, USE = 3, LOAD = 5, LEAVE = 2 };

typedef struct client {
    uint64_t ready, end; /* the time at which its model is ready; at which its use ends or, 0, it asks again */
    uint64_t longest_wait;
} client;

/* One place. Each client uses its own model, and asks again so long after its reply. Returns the number of swaps. */
static uint64_t take_turns(size_t n_clients, uint64_t pause, uint64_t n_steps, client *clients)
{
    const hth_residency_limits limits = { .n_pools = 1, .bytes = { POOL }, .n_models = 1, .turn_ns = TURN * 10 };
    hth_resident models[CLIENTS];
    hth_residency_order orders[CLIENTS];
    uint64_t n_swaps = 0;

    for (size_t i = 0; i < n_clients; i++)
        models[i] = (hth_resident){ .bytes[0] = POOL, .keep_ns = UINT64_MAX, .stay_ns = STAY, .wanted_ns = 1 };
    for (uint64_t now = 1; now < n_steps; now++) {
        for (size_t i = 0; i < n_clients; i++) {
            hth_resident *m = &models[i];
            client *c = &clients[i];

            if (m->n_uses > 0 && now >= c->end) {
                m->n_uses = 0;
                m->used_ns = now;
            }
            if (m->n_uses == 0 && m->wanted_ns == 0 && now >= c->end + pause)
                m->wanted_ns = m->used_ns = now;
            if (m->place == HTH_PLACE_LEAVING && now >= c->ready)
                m->place = HTH_PLACE_OUT;
            if (m->place == HTH_PLACE_IN && now >= c->ready && m->wanted_ns > 0 && orders[i] != HTH_RESIDENCY_CLOSE) {
                c->longest_wait = now - m->wanted_ns > c->longest_wait ? now - m->wanted_ns : c->longest_wait;
                *m = (hth_resident){ .place = HTH_PLACE_IN,
                                     .bytes[0] = POOL,
                                     .keep_ns = UINT64_MAX,
                                     .stay_ns = STAY,
                                     .n_uses = 1,
                                     .used_ns = now,
                                     .since_ns = m->since_ns };
                c->end = now + USE;
            }
        }
        hth_residency_plan(models, n_clients, &limits, now, orders);
        for (size_t i = 0; i < n_clients; i++) {
            if (orders[i] == HTH_RESIDENCY_ENTER) {
                models[i].place = HTH_PLACE_IN;
                models[i].since_ns = now;
                clients[i].ready = now + LOAD;
                n_swaps++;
            } else if (orders[i] == HTH_RESIDENCY_LEAVE) {
                models[i].place = HTH_PLACE_LEAVING;
                clients[i].ready = now + LEAVE;
            }
        }
    }
    return n_swaps;
}

TEST(models_of_clients_that_ask_again_soon_change_places_once_in_a_turn)
{
    const uint64_t n_steps = 100000, turn = (uint64_t)TURN * 10;

    for (size_t n = 2; n <= CLIENTS; n++)
        for (uint64_t pause = 1; pause < STAY; pause++) {
            client clients[CLIENTS] = { { 0 } };
            const uint64_t n_swaps = take_turns(n, pause, n_steps, clients);

            /* All others of the line come before the same model has its turn again: so with two, once in a turn. */
            assert_true(n_swaps > 2 * n);
            assert_true(n > 2 || n_swaps <= n_steps / turn + 1);
            for (size_t i = 0; i < n; i++)
                assert_true(clients[i].longest_wait <= n * (turn + USE + LOAD + LEAVE + 1));
        }
}

TEST(a_client_that_goes_from_model_to_model_waits_for_a_short_stay_only)
{
    client clients[CLIENTS] = { { 0 } };

    /* It comes back to none of them soon, so each swap takes no longer than the stay. */
    assert_true(take_turns(2, 10 * STAY, 100000, clients) > 1000);
    for (size_t i = 0; i < 2; i++)
        assert_true(clients[i].longest_wait <= STAY + 2 * (USE + LOAD + LEAVE + 1));
}
