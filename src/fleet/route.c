#include "fleet/route.h"

#include <assert.h>
#include <math.h>

enum {
    PARALLEL_UNKNOWN = 8,
    BOUND_QUARTERS = 5,        /* the load that a place may have: so many quarters of the mean, and one more */
    PROMPT_TOKEN_NS = 1000000, /* while no place has told its times */
    REPLY_TOKEN_NS = 20000000,
    LOAD_MS = 10000,
};

const char *const hth_route_policy_names[] = { [HTH_ROUTE_BY_TIME] = "time",
                                               [HTH_ROUTE_BY_HASH] = "hash",
                                               [HTH_ROUTE_LEAST] = "least",
                                               [HTH_ROUTE_ROUND_ROBIN] = "round-robin",
                                               NULL };

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

/* The load and the size of all places that count. */
typedef struct sums {
    uint64_t n_load, n_parallel;
} sums;

static sums sums_of(const hth_route_place *places, size_t n, bool all)
{
    sums out = { 0 };

    for (size_t i = 0; i < n; i++) {
        out.n_load += all || places[i].is_ready ? places[i].n_load : 0;
        out.n_parallel += all || places[i].is_ready ? parallel_of(&places[i]) : 0;
    }
    return out;
}

/* Would one more request leave this place within the bound? The bound is its part of all requests, and some more. */
static bool is_within_bound(const hth_route_place *place, const sums *of)
{
    return 4 * (uint64_t)place->n_load * of->n_parallel <
           BOUND_QUARTERS * (of->n_load + 1) * parallel_of(place) + 4 * of->n_parallel;
}

static size_t choose_by_hash(const hth_route_question *question, const hth_route_place *places, size_t n, bool all)
{
    const sums of = sums_of(places, n, all);
    uint64_t best_rank = 0;
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < n; i++) {
        const uint64_t rank = mix(places[i].id ^ mix(question->beginning));

        if ((all || places[i].is_ready) && is_within_bound(&places[i], &of) && (best == SIZE_MAX || rank > best_rank)) {
            best = i;
            best_rank = rank;
        }
    }
    return best != SIZE_MAX ? best : choose_least(places, n, all, question->draw);
}

/* ---- by time ---- */

/* The times of place i for one token of a prompt and of a reply; what is unknown is as at the slowest place. */
typedef struct rates {
    uint64_t prompt_ns, reply_ns;
} rates;

static rates rates_of(const hth_route_place *places, size_t n, size_t i)
{
    rates own = { places[i].prompt_token_ns, places[i].reply_token_ns }, most = { 0 };

    for (size_t k = 0; (own.prompt_ns == 0 || own.reply_ns == 0) && k < n; k++) {
        most.prompt_ns = places[k].prompt_token_ns > most.prompt_ns ? places[k].prompt_token_ns : most.prompt_ns;
        most.reply_ns = places[k].reply_token_ns > most.reply_ns ? places[k].reply_token_ns : most.reply_ns;
    }
    if (own.prompt_ns == 0)
        own.prompt_ns = most.prompt_ns > 0 ? most.prompt_ns : PROMPT_TOKEN_NS;
    if (own.reply_ns == 0)
        own.reply_ns = most.reply_ns > 0 ? most.reply_ns : REPLY_TOKEN_NS;
    return own;
}

/* The tokens of the prompt that place i would get from another one, of n_missing: at least one is computed. */
static uint32_t n_pulled_of(const hth_route_place *place, uint32_t n_missing, const rates *own)
{
    const uint32_t n = place->n_elsewhere > place->n_cached ? place->n_elsewhere - place->n_cached : 0;

    if (place->pull_token_ns == 0 || place->pull_token_ns >= own->prompt_ns)
        return 0;
    return n < n_missing ? n : n_missing - 1;
}

hth_route_time hth_route_time_of(const hth_route_question *question, const hth_route_place *places, size_t n, size_t i)
{
    const hth_route_place *place = &places[i];
    const uint32_t n_parallel = parallel_of(place), n_popular = question->n_popular, n_prompt = question->n_prompt,
                   n_before = place->n_load >= n_parallel ? place->n_load - n_parallel + 1 : 0,
                   n_missing = n_prompt > place->n_cached ? n_prompt - place->n_cached : 1,
                   n_copied = n_popular > place->n_cached ? n_popular - place->n_cached : 0;
    const rates own = rates_of(places, n, i);
    const uint32_t n_pulled = n_pulled_of(place, n_missing, &own), n_cheap = n_copied > n_pulled ? n_copied : n_pulled;
    const double token_s = (double)own.prompt_ns / 1e9, reply_s = question->n_reply * ((double)own.reply_ns / 1e9);
    hth_route_time out = { .pull_s = n_pulled * ((double)place->pull_token_ns / 1e9) };

    out.prompt_s = out.pull_s + (n_missing - n_pulled) * token_s;
    if (!place->is_ready)
        out.load_s = (place->load_ms > 0 ? place->load_ms : LOAD_MS) / 1e3;
    /* Replies end in turn: of n_parallel that run, one makes room each n_parallel-th of a reply's time. */
    out.wait_s = (double)place->n_prompt_left * token_s + n_before * reply_s / n_parallel;
    out.cost_s = HTH_ROUTE_LOAD_WEIGHT * out.load_s + out.wait_s + out.pull_s +
                 HTH_ROUTE_WORK_WEIGHT * (n_missing > n_cheap ? n_missing - n_cheap : 1) * token_s;
    return out;
}

/* Of two places with nearly equal times: should a rather take the request than b? */
static bool is_better(const hth_route_place *a, const hth_route_place *b, const sums *of, uint64_t beginning)
{
    const bool a_is_within = is_within_bound(a, of), b_is_within = is_within_bound(b, of);

    return a->n_cached != b->n_cached ? a->n_cached > b->n_cached
         : a_is_within != b_is_within ? a_is_within
                                      : mix(a->id ^ mix(beginning)) > mix(b->id ^ mix(beginning));
}

/* Has it more than its part of all requests, and more than one? */
static bool is_busier(const hth_route_place *place, const sums *of)
{
    return place->n_load > 1 && place->n_load * of->n_parallel > of->n_load * parallel_of(place);
}

/* Should the popular part of the prompt have another copy? If all that have it are busy, and more than others. */
static bool needs_copy(const hth_route_question *question, const hth_route_place *places, size_t n, const sums *of)
{
    for (size_t i = 0; i < n; i++)
        if (places[i].n_cached >= question->n_popular && !is_busier(&places[i], of))
            return false;
    return question->n_popular > 0;
}

static size_t choose_by_time(const hth_route_question *question, const hth_route_place *places, size_t n)
{
    const uint64_t beginning = question->beginning ? question->beginning : question->draw;
    const sums of = sums_of(places, n, true);
    const double near = 1 + HTH_ROUTE_NEAR_PERCENT / 100.0;
    hth_route_question asked = *question;
    double least_s = HUGE_VAL;
    size_t best = SIZE_MAX;

    if (!needs_copy(question, places, n, &of))
        asked.n_popular = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++) {
            const double cost_s = hth_route_time_of(&asked, places, n, i).cost_s;

            if (asked.n_popular > 0 && !is_within_bound(&places[i], &of))
                continue;
            if (pass == 0)
                least_s = fmin(least_s, cost_s);
            else if (cost_s <= least_s * near &&
                     (best == SIZE_MAX || is_better(&places[i], &places[best], &of, beginning)))
                best = i;
        }
    return best != SIZE_MAX ? best : choose_least(places, n, true, question->draw);
}

size_t hth_route_choose(const hth_route_question *question, const hth_route_place *places, size_t n)
{
    const bool all = all_count(places, n);

    assert(n > 0);
    if (question->policy == HTH_ROUTE_BY_TIME)
        return choose_by_time(question, places, n);
    if (question->policy == HTH_ROUTE_ROUND_ROBIN)
        return choose_in_turn(places, n, all, question->turn);
    if (question->policy == HTH_ROUTE_LEAST || question->beginning == 0)
        return choose_least(places, n, all, question->draw);
    return choose_by_hash(question, places, n, all);
}
