#include "fleet/route.h"

#include <assert.h>

enum {
    PARALLEL_UNKNOWN = 8,
    BOUND_QUARTERS = 5, /* the load that a place may have: so many quarters of the mean, and one more */
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t hth_route_digest(const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t digest = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++)
        digest = (digest ^ at[i]) * 0x100000001b3u; /* FNV-1a */
    digest = mix(digest);
    return digest ? digest : 1;
}

static uint32_t parallel_of(const hth_route_place *place)
{
    return place->n_parallel > 0 ? place->n_parallel : PARALLEL_UNKNOWN;
}

static bool is_full(const hth_route_place *place)
{
    return place->n_load >= parallel_of(place);
}

/* Do places without the model loaded count? If none with it has room. */
static bool all_count(const hth_route_place *places, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (places[i].is_ready && !is_full(&places[i]))
            return false;
    return true;
}

/* Has a less load for its size than b? Equal places: by the draw. */
static bool is_idler(const hth_route_place *a, const hth_route_place *b, uint64_t draw)
{
    const uint64_t load_a = (uint64_t)a->n_load * parallel_of(b), load_b = (uint64_t)b->n_load * parallel_of(a);

    return load_a != load_b ? load_a < load_b : mix(a->id ^ draw) < mix(b->id ^ draw);
}

static size_t choose_least(const hth_route_place *places, size_t n, bool all, uint64_t draw)
{
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < n; i++)
        if ((all || places[i].is_ready) && (best == SIZE_MAX || is_idler(&places[i], &places[best], draw)))
            best = i;
    return best;
}

static size_t choose_in_turn(const hth_route_place *places, size_t n, bool all, uint64_t turn)
{
    size_t n_counted = 0, i = 0;

    for (size_t k = 0; k < n; k++)
        n_counted += all || places[k].is_ready;
    turn %= n_counted; /* one counts at least */
    while (!(all || places[i].is_ready) || turn-- > 0)
        i++;
    return i;
}

/* Would one more request leave this place within the bound? The bound is its part of all requests, and some more. */
static bool is_within_bound(const hth_route_place *place, uint64_t n_load, uint64_t n_parallel)
{
    return 4 * (uint64_t)place->n_load * n_parallel <
           BOUND_QUARTERS * (n_load + 1) * parallel_of(place) + 4 * n_parallel;
}

static size_t choose_by_hash(const hth_route_question *question, const hth_route_place *places, size_t n, bool all)
{
    uint64_t n_load = 0, n_parallel = 0, best_rank = 0;
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < n; i++) {
        n_load += all || places[i].is_ready ? places[i].n_load : 0;
        n_parallel += all || places[i].is_ready ? parallel_of(&places[i]) : 0;
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t rank = mix(places[i].id ^ mix(question->beginning));

        if ((all || places[i].is_ready) && is_within_bound(&places[i], n_load, n_parallel) &&
            (best == SIZE_MAX || rank > best_rank)) {
            best = i;
            best_rank = rank;
        }
    }
    return best != SIZE_MAX ? best : choose_least(places, n, all, question->draw);
}

size_t hth_route_choose(const hth_route_question *question, const hth_route_place *places, size_t n)
{
    const bool all = all_count(places, n);

    assert(n > 0);
    if (question->policy == HTH_ROUTE_ROUND_ROBIN)
        return choose_in_turn(places, n, all, question->turn);
    if (question->policy == HTH_ROUTE_LEAST || question->beginning == 0)
        return choose_least(places, n, all, question->draw);
    return choose_by_hash(question, places, n, all);
}
