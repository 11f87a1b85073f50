/*
 * fleet_sim.c - a simulated fleet under simulated load: what a policy of routing makes of the time to the first token
 *
 *   fleet_sim [--nodes N] [--load NAME] [--policy NAME] [--minutes M] [--use PERCENT] [--seed S]
 *   fleet_sim --check     a short run, in which the policies must have the order that is known
 *
 * Prints a table in Markdown: for each load and policy, percentiles of the time to the first token, the part of prompt
 * tokens that were cached, and the requests of the busiest node relative to the mean. Nothing here is measured: rates
 * and times are those of the model below. The policies `time`, `hash`, `least` and `round_robin` are the real
 * function (fleet/route.h); the others are what could be done, or what others do.
 *
 * A node has slots, a cache of blocks with LRU, one prefill at a time, and a rate for each reply. A request waits for a
 * slot, then for the prefills before it; then its missing blocks are computed. An entry knows of other nodes what they
 * told within the last half second, and what it sent itself since. Policies differ in what else they know:
 *
 *   round_robin, least, hash   the numbers of requests
 *   tree     what was sent to each node, as a tree of prefixes that forgets nothing, with a test of imbalance: the node
 *            with the longest known prefix if it is at least half of the prompt and the load is balanced, otherwise the
 *            least busy node (as the routers of SGLang do it)
 *   scores   which blocks each node has, a second ago: the best sum of the cached part and of the free part of its
 *            slots, in equal parts (as the scorers of llm-d do it)
 *   time     what was sent to each node, by anchors of prompts, which entries tell each other every tenth of a second,
 *            and of the page of each node its times for tokens and the tokens that it had to compute then: the real
 *            functions (fleet/route.h, fleet/credit.h)
 *   perfect  everything, now: the least time until the first token. It does not weigh what that takes from others
 */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "fleet/credit.h"
#include "fleet/route.h"

enum {
    NODES_MAX = 1000,
    BLOCK = 256,      /* tokens */
    BLOCKS_MAX = 256, /* of a prompt */
    ENTRIES = 5,
    MODELS = 50,
    RESIDENT = 6,   /* models that a node can have loaded */
    TEXT_BYTES = 4, /* of a token */
};

static const double page_s = 0.5;     /* between two pages of a node */
static const double exchange_s = 0.1; /* between two exchanges of credits */
static const double load_s = 8;       /* of a model */
static const double imbalance = 1.5;  /* of the tree: the greatest load relative to the least */
static const uint32_t imbalance_min = 8;

/* ---- chance ---- */

static uint64_t chance_state;

static uint64_t chance(void)
{
    uint64_t x = chance_state += 0x9e3779b97f4a7c15u; /* SplitMix64 */

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double uniform(void)
{
    return (double)(chance() >> 11) / 9007199254740992.0;
}

static double exponential(double mean)
{
    return -mean * log(1 - uniform());
}

/* A number below n; small ones are likelier (Zipf, exponent 1). */
static unsigned skewed(unsigned n)
{
    return (unsigned)(pow((double)n + 1, uniform()) - 1);
}

/* ---- requests ---- */

typedef struct request {
    double at_s;
    unsigned model;
    unsigned n_blocks;
    uint64_t blocks[BLOCKS_MAX]; /* each names itself and all before it */
    uint64_t beginning;          /* as the front sees it: instructions and first message */
    unsigned n_tail;             /* tokens behind the last block */
    unsigned n_reply;
    unsigned entry;
    double first_s; /* out: the first token */
    unsigned n_cached;
} request;

static void chain(request *r, uint64_t seed, unsigned n)
{
    for (unsigned i = 0; i < n && r->n_blocks < BLOCKS_MAX; i++) {
        const uint64_t before = r->n_blocks > 0 ? r->blocks[r->n_blocks - 1] : r->model + 1;
        const uint64_t parts[] = { before, seed, i };

        r->blocks[r->n_blocks++] = hth_route_digest(parts, sizeof(parts));
    }
}

/* ---- loads ---- */

typedef struct load {
    const char *name;
    double (*make)(request *r, double now_s); /* the next request; returns the time to the one after it, for rate 1 */
    double mean_work_s;                       /* of a request, roughly: for the choice of the rate */
    bool is_mixed;                            /* half of the nodes are five times slower */
} load;

/* 200 system prompts of 8 to 23 blocks, some used much more; a question and a short reply. */
static double make_prefixes(request *r, double now_s)
{
    const unsigned system = skewed(200);

    *r = (request){ .at_s = now_s,
                    .n_tail = 100 + (unsigned)(chance() % 150),
                    .n_reply = 50 + (unsigned)(chance() % 200) };
    chain(r, system + 1, 8 + system % 16);
    r->beginning = chance() | 1;
    return exponential(1);
}

/* Conversations of agents: they begin with one of 20 system prompts, and each turn adds to them. */
typedef struct agent {
    uint64_t id;
    unsigned system, n_turns, n_added;
} agent;

enum { AGENTS = 2000, TURNS_MIN = 12, TURNS_MORE = 20 };
static agent agents[AGENTS];

static double make_agents(request *r, double now_s)
{
    agent *a = &agents[chance() % AGENTS];

    if (a->n_turns > TURNS_MIN + a->id % TURNS_MORE)
        *a = (agent){ .id = chance() | 1, .system = skewed(20) };
    *r = (request){ .at_s = now_s, .n_tail = (unsigned)(chance() % BLOCK), .n_reply = 30 + (unsigned)(chance() % 250) };
    chain(r, a->system + 1, 12 + a->system);
    a->n_added += 1 + (unsigned)(chance() % 4);
    chain(r, a->id, a->n_added);
    a->n_turns++;
    r->beginning = a->id;
    return exponential(1);
}

/* Everybody has one system prompt. */
static double make_one(request *r, double now_s)
{
    *r = (request){ .at_s = now_s, .n_tail = 120, .n_reply = 100 };
    chain(r, 1, 16);
    r->beginning = chance() | 1;
    return exponential(1);
}

/* 50 models, some used much more, of which a node has room for some. */
static double make_models(request *r, double now_s)
{
    const unsigned model = skewed(MODELS), system = skewed(10);

    *r = (request){ .at_s = now_s, .model = model, .n_tail = 120, .n_reply = 50 + (unsigned)(chance() % 100) };
    chain(r, system + 1, 4 + system);
    r->beginning = chance() | 1;
    return exponential(1);
}

static const load loads[] = {
    { "prefixes", make_prefixes, 0.9, false },    { "agents", make_agents, 0.9, false },
    { "mixed hardware", make_agents, 0.9, true }, { "one prompt", make_one, 0.6, false },
    { "50 models", make_models, 0.6, false },
};

/* ---- nodes ---- */

typedef struct cached {
    uint64_t block;
    double made_s; /* others know of it a second later */
    UT_hash_handle hh;
} cached;

typedef struct resident {
    unsigned model;
    double ready_s, used_s; /* used_s 0: there is none */
} resident;

typedef struct running {
    double ends_s;
    struct running *next;
} running;

typedef struct node {
    double prefill, decode; /* tokens a second: of a prefill, of one reply */
    unsigned n_slots, n_blocks_max;
    cached *cache; /* in the order of use, the least recently used first */
    cached *tree;  /* of the policy `tree`: all that was sent there */
    running *at_work;
    unsigned n_at_work;
    double prefill_free_s; /* the prefills that it has end then */
    double slot_free_s[64];
    resident models[RESIDENT];
    resident page_models[RESIDENT]; /* as it told them last */
    unsigned n_page;                /* requests at work when it told them last */
    double page_left;               /* tokens of prompts that it had to compute then */
    unsigned n_sent[ENTRIES];
    uint64_t n_sent_tokens[ENTRIES]; /* of prompts that were sent since, as the entry expects it */
    uint64_t n_requests;
} node;

static node nodes[NODES_MAX];
static unsigned n_nodes = 50;
static double page_at_s; /* of the last pages */

static void forget_ended(node *n, double now_s)
{
    for (running **at = &n->at_work; *at;) {
        running *r = *at;

        if (r->ends_s > now_s) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        free(r);
        n->n_at_work--;
    }
}

/* The blocks of the request that the node has. made_by: only those that it had then. */
static unsigned n_known(cached *of, const request *r, double made_by_s)
{
    unsigned n = 0;

    for (; n < r->n_blocks; n++) {
        cached *found;

        HASH_FIND(hh, of, &r->blocks[n], sizeof(r->blocks[n]), found);
        if (!found || found->made_s > made_by_s)
            break;
    }
    return n;
}

/* A use makes them the most recently used ones, and adds those that are missing. */
static void use_blocks(cached **of, const request *r, double now_s, unsigned n_max)
{
    for (unsigned i = 0; i < r->n_blocks; i++) {
        cached *found;

        HASH_FIND(hh, *of, &r->blocks[i], sizeof(r->blocks[i]), found);
        if (found) {
            HASH_DEL(*of, found);
        } else {
            found = malloc(sizeof(*found));
            assert(found);
            *found = (cached){ .block = r->blocks[i], .made_s = now_s };
        }
        HASH_ADD(hh, *of, block, sizeof(found->block), found);
        while (n_max > 0 && HASH_COUNT(*of) > n_max) {
            cached *oldest = *of;

            HASH_DEL(*of, oldest);
            free(oldest);
        }
    }
}

static unsigned first_free_slot(const node *n)
{
    unsigned best = 0;

    for (unsigned i = 1; i < n->n_slots; i++)
        if (n->slot_free_s[i] < n->slot_free_s[best])
            best = i;
    return best;
}

static double seconds_of_prefill(const node *n, const request *r, unsigned n_cached)
{
    return ((r->n_blocks - n_cached) * (double)BLOCK + r->n_tail) / n->prefill;
}

/* When the model is loaded, if it is asked for now. */
static double model_ready_s(const resident *models, unsigned model, double now_s)
{
    for (unsigned i = 0; i < RESIDENT; i++)
        if (models[i].used_s > 0 && models[i].model == model)
            return models[i].ready_s > now_s ? models[i].ready_s : now_s;
    return now_s + load_s;
}

/* The model is used: one that was used least recently makes room for it. */
static void use_model(resident *models, unsigned model, double now_s)
{
    const double ready_s = model_ready_s(models, model, now_s);
    unsigned at = 0;

    for (unsigned i = 0; i < RESIDENT; i++)
        if (models[i].used_s > 0 && models[i].model == model) {
            models[i].used_s = now_s;
            return;
        } else if (models[i].used_s < models[at].used_s) {
            at = i;
        }
    models[at] = (resident){ .model = model, .ready_s = ready_s, .used_s = now_s };
}

/* When the prefill of a new request would begin, if its model is loaded. */
static double begin_s(const node *n, double now_s)
{
    const double slot_s = n->slot_free_s[first_free_slot(n)], later_s = slot_s > now_s ? slot_s : now_s;

    return later_s > n->prefill_free_s ? later_s : n->prefill_free_s;
}

/* The time of the first token if the node got it now, with these blocks cached. */
static double first_token_s(const node *n, const request *r, unsigned n_cached, double now_s)
{
    return fmax(begin_s(n, now_s), model_ready_s(n->models, r->model, now_s)) + seconds_of_prefill(n, r, n_cached);
}

static void serve(node *n, request *r, double now_s)
{
    const unsigned slot = first_free_slot(n), n_cached = n_known(n->cache, r, now_s);
    running *at_work = malloc(sizeof(*at_work));

    assert(at_work);
    r->n_cached = n_cached;
    r->first_s = first_token_s(n, r, n_cached, now_s);
    if (model_ready_s(n->models, r->model, now_s) <= now_s) /* others do not wait for the load of a model */
        n->prefill_free_s = r->first_s;
    use_model(n->models, r->model, now_s);
    n->slot_free_s[slot] = r->first_s + r->n_reply / n->decode;
    *at_work = (running){ .ends_s = n->slot_free_s[slot], .next = n->at_work };
    n->at_work = at_work;
    n->n_at_work++;
    n->n_requests++;
    n->n_sent[r->entry]++;
    use_blocks(&n->cache, r, r->first_s, n->n_blocks_max);
}

/* ---- policies ---- */

/* What the entry of the request believes of the load. */
static uint32_t load_of(const node *n, const request *r)
{
    return n->n_page + n->n_sent[r->entry];
}

/* Had it the model, as it told? */
static bool was_ready(const node *n, const request *r)
{
    return model_ready_s(n->page_models, r->model, r->at_s) <= r->at_s;
}

static uint32_t load_left_ms(const node *n, const request *r)
{
    return (uint32_t)((model_ready_s(n->page_models, r->model, r->at_s) - r->at_s) * 1000) + 1;
}

static size_t by_route(const request *r, hth_route_policy policy)
{
    static hth_route_place places[NODES_MAX];
    static uint64_t turns;
    const hth_route_question question = {
        .policy = policy, .beginning = r->beginning, .draw = chance(), .turn = turns++
    };

    for (unsigned i = 0; i < n_nodes; i++)
        places[i] = (hth_route_place){ .id = hth_route_digest(&i, sizeof(i)),
                                       .n_load = load_of(&nodes[i], r),
                                       .n_parallel = nodes[i].n_slots,
                                       .is_ready = was_ready(&nodes[i], r) };
    return hth_route_choose(&question, places, n_nodes);
}

static size_t by_turn(const request *r)
{
    return by_route(r, HTH_ROUTE_ROUND_ROBIN);
}

static size_t by_load(const request *r)
{
    return by_route(r, HTH_ROUTE_LEAST);
}

static size_t by_hash(const request *r)
{
    return by_route(r, HTH_ROUTE_BY_HASH);
}

static size_t by_tree(const request *r)
{
    uint32_t least = UINT32_MAX, most = 0;
    unsigned best = 0, n_best = 0, idlest = 0;

    for (unsigned i = 0; i < n_nodes; i++) {
        const uint32_t n_load = load_of(&nodes[i], r);
        const unsigned n = n_known(nodes[i].tree, r, INFINITY);

        if (n_load < least) {
            least = n_load;
            idlest = i;
        }
        most = n_load > most ? n_load : most;
        if (n > n_best) {
            n_best = n;
            best = i;
        }
    }
    if (2 * n_best < r->n_blocks || (most - least > imbalance_min && most > imbalance * least))
        best = idlest;
    use_blocks(&nodes[best].tree, r, 0, 0);
    return best;
}

static size_t by_scores(const request *r)
{
    double best_score = -2;
    unsigned best = 0;

    for (unsigned i = 0; i < n_nodes; i++) {
        const double cached_part = (double)n_known(nodes[i].cache, r, r->at_s - page_s) / (r->n_blocks + 1),
                     load_part = (double)load_of(&nodes[i], r) / nodes[i].n_slots,
                     score = cached_part + (load_part < 1 ? 1 - load_part : 0) + 1e-6 * uniform() -
                             !was_ready(&nodes[i], r);

        if (score > best_score) {
            best_score = score;
            best = i;
        }
    }
    return best;
}

/* ---- by time: the real function, with what an entry can know ---- */

static hth_credit *credits[ENTRIES];
static double exchanged_s;

/* Each entry tells the others what it noted. */
static void exchange_credits(void)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        hth_buffer records = { .text = NULL };

        hth_credit_export(credits[i], &records);
        for (size_t k = 0; k < ENTRIES; k++)
            if (k != i)
                hth_credit_import(credits[k], hth_buffer_text(&records), records.n);
        hth_buffer_deinit(&records);
    }
}

/* As of a body of TEXT_BYTES for each token: at strides, and at the ends of messages, of which each has two blocks. */
static size_t anchors_of(const request *r, hth_anchor out[HTH_ANCHORS_MAX])
{
    unsigned stride = 1;
    size_t n = 0;

    while (r->n_blocks / stride > 24)
        stride *= 2;
    for (unsigned i = 1; i <= r->n_blocks; i++)
        if (i % stride == 0 || i == r->n_blocks || (i + 64 > r->n_blocks && (r->n_blocks - i) % 2 == 0))
            out[n++] = (hth_anchor){ .digest = r->blocks[i - 1], .n_bytes = i * BLOCK * TEXT_BYTES };
    return n;
}

static uint64_t holder_of(unsigned i)
{
    return hth_route_digest(&i, sizeof(i));
}

static size_t by_time(const request *r)
{
    static hth_route_place places[NODES_MAX];
    static uint64_t holders[NODES_MAX];
    static uint32_t n_cached[NODES_MAX];
    hth_anchor anchors[HTH_ANCHORS_MAX];
    const size_t n = anchors_of(r, anchors);
    hth_route_question question = { .policy = HTH_ROUTE_BY_TIME, .beginning = r->beginning, .n_reply = 150 };
    hth_credit_answer answer;
    size_t best;

    for (unsigned i = 0; i < n_nodes; i++)
        holders[i] = holder_of(i);
    answer = hth_credit_ask(credits[r->entry], holders, n_nodes, anchors, n, n_cached);
    question.n_prompt = answer.n_prompt;
    question.n_popular = answer.n_popular;
    for (unsigned i = 0; i < n_nodes; i++) {
        const double done = (r->at_s - page_at_s) * nodes[i].prefill;
        const double left = nodes[i].page_left + (double)nodes[i].n_sent_tokens[r->entry] - done;

        places[i] = (hth_route_place){ .id = holders[i],
                                       .n_load = load_of(&nodes[i], r),
                                       .n_parallel = nodes[i].n_slots,
                                       .is_ready = was_ready(&nodes[i], r),
                                       .load_ms = was_ready(&nodes[i], r) ? 0 : load_left_ms(&nodes[i], r),
                                       .n_cached = n_cached[i],
                                       .n_prompt_left = left > 0 ? (uint64_t)left : 0,
                                       .prompt_token_ns = (uint64_t)(1e9 / nodes[i].prefill),
                                       .reply_token_ns = (uint64_t)(1e9 / nodes[i].decode) };
    }
    best = hth_route_choose(&question, places, n_nodes);
    nodes[best].n_sent_tokens[r->entry] += question.n_prompt > n_cached[best] ? question.n_prompt - n_cached[best] : 1;
    hth_credit_note(credits[r->entry], holders[best], anchors, n, r->n_blocks * BLOCK + r->n_tail);
    return best;
}

static size_t perfectly(const request *r)
{
    double best_s = INFINITY;
    unsigned best = 0;

    for (unsigned i = 0; i < n_nodes; i++) {
        const double s = first_token_s(&nodes[i], r, n_known(nodes[i].cache, r, r->at_s), r->at_s);

        if (s < best_s) {
            best_s = s;
            best = i;
        }
    }
    return best;
}

static const struct policy {
    const char *name;
    size_t (*choose)(const request *r);
} policies[] = {
    { "round_robin", by_turn }, { "least", by_load }, { "hash", by_hash },      { "tree", by_tree },
    { "scores", by_scores },    { "time", by_time },  { "perfect", perfectly },
};

/* ---- one run ---- */

typedef struct outcome {
    double p50_s, p90_s, p99_s, cached_part, most_to_mean;
} outcome;

static void clear(cached **of)
{
    cached *one, *next;

    HASH_ITER(hh, *of, one, next)
    {
        HASH_DEL(*of, one);
        free(one);
    }
}

static void make_nodes(const load *l)
{
    for (unsigned i = 0; i < n_nodes; i++) {
        const bool is_slow = l->is_mixed && i % 2 == 1;

        for (running *r = nodes[i].at_work, *next; r; r = next) {
            next = r->next;
            free(r);
        }
        clear(&nodes[i].cache);
        clear(&nodes[i].tree);
        nodes[i] = (node){ .prefill = is_slow ? 1200 : 6000,
                           .decode = is_slow ? 12 : 60,
                           .n_slots = 16,
                           .n_blocks_max = 2500,
                           .models = { { .used_s = 1e-9 } } };
    }
    for (unsigned i = 0; i < AGENTS; i++) { /* each is somewhere in its conversation, of which nothing is cached yet */
        const unsigned n_turns = (unsigned)(chance() % (TURNS_MIN + TURNS_MORE / 2));

        agents[i] = (agent){ .id = chance() | 1, .system = skewed(20), .n_turns = n_turns, .n_added = n_turns * 5 / 2 };
    }
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static outcome run(const load *l, const struct policy *policy, double minutes, double use, uint64_t seed)
{
    const double end_s = minutes * 60, warm_s = end_s / 4;
    /* As many requests as this part of the fleet could serve for ever, if all prompts were known. */
    const double strength = l->is_mixed ? 0.6 : 1;
    const double rate = use * n_nodes * strength * 16 / (150.0 / 60 + l->mean_work_s * 0.3);
    double *times = malloc(((size_t)(rate * end_s * 1.2) + 1000) * sizeof(*times));
    double now_s = 0, next_page_s = 0;
    uint64_t n_tokens = 0, n_cached = 0, most = 0, n_all = 0;
    size_t n = 0, n_max = (size_t)(rate * end_s * 1.2) + 1000;
    outcome out;

    assert(times);
    chance_state = seed;
    exchanged_s = 0;
    make_nodes(l);
    for (size_t i = 0; i < ENTRIES; i++) {
        hth_credit_free(credits[i]);
        if (hth_credit_new(1 << 19, &credits[i], NULL) != HEARTH_OK)
            abort();
    }
    while (now_s < end_s && n < n_max) {
        request r;
        const double gap = l->make(&r, now_s) / rate;
        node *chosen;

        for (; next_page_s <= now_s; next_page_s += page_s)
            for (unsigned i = 0; i < n_nodes; i++) {
                forget_ended(&nodes[i], next_page_s);
                nodes[i].n_page = nodes[i].n_at_work;
                memcpy(nodes[i].page_models, nodes[i].models, sizeof(nodes[i].models));
                nodes[i].page_left = fmax(nodes[i].prefill_free_s - next_page_s, 0) * nodes[i].prefill;
                memset(nodes[i].n_sent, 0, sizeof(nodes[i].n_sent));
                memset(nodes[i].n_sent_tokens, 0, sizeof(nodes[i].n_sent_tokens));
                page_at_s = next_page_s;
            }
        for (; exchanged_s <= now_s; exchanged_s += exchange_s)
            exchange_credits();
        r.entry = (unsigned)(chance() % ENTRIES);
        chosen = &nodes[policy->choose(&r)];
        serve(chosen, &r, now_s);
        if (now_s >= warm_s) {
            times[n++] = r.first_s - now_s;
            n_tokens += (uint64_t)r.n_blocks * BLOCK + r.n_tail;
            n_cached += (uint64_t)r.n_cached * BLOCK;
        }
        now_s += gap;
    }
    qsort(times, n, sizeof(times[0]), compare_numbers);
    for (unsigned i = 0; i < n_nodes; i++) {
        most = nodes[i].n_requests > most ? nodes[i].n_requests : most;
        n_all += nodes[i].n_requests;
    }
    out = (outcome){ .p50_s = times[n / 2],
                     .p90_s = times[n * 9 / 10],
                     .p99_s = times[n * 99 / 100],
                     .cached_part = (double)n_cached / (double)n_tokens,
                     .most_to_mean = (double)most * n_nodes / (double)n_all };
    free(times);
    return out;
}

/* ---- the program ---- */

static bool is_wanted(const char *wanted, const char *name)
{
    return !wanted || strcmp(wanted, name) == 0;
}

/* A short run in which the policies have the order that they must have. */
static int check(void)
{
    enum { ROUND_ROBIN = 0, HASH = 2, TIME = 5, N = sizeof(policies) / sizeof(policies[0]) };
    outcome of[N];
    int n_wrong = 0;

    n_nodes = 20;
    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
        const char *name = loads[i].name;

        for (size_t k = 0; k < N; k++)
            of[k] = run(&loads[i], &policies[k], 4, 0.25, 1);
        if (loads[i].make == make_agents && of[HASH].cached_part < of[ROUND_ROBIN].cached_part + 0.1) {
            printf("%s: cached by hash %.2f, by round_robin %.2f\n", name, of[HASH].cached_part,
                   of[ROUND_ROBIN].cached_part);
            n_wrong++;
        }
        if (of[HASH].most_to_mean > 1.3 && !loads[i].is_mixed && loads[i].make != make_models) {
            printf("%s: with hash, the busiest node has %.2f times the mean\n", name, of[HASH].most_to_mean);
            n_wrong++;
        }
        if (of[TIME].p90_s > of[HASH].p90_s * 1.01) {
            printf("%s: p90 of time %.2f s, of hash %.2f s\n", name, of[TIME].p90_s, of[HASH].p90_s);
            n_wrong++;
        }
    }
    return n_wrong == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *load_name = NULL, *policy_name = NULL;
    double minutes = 10, use = 0.25;
    uint64_t seed = 1;

    if (argc == 2 && strcmp(argv[1], "--check") == 0)
        return check();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--nodes") == 0)
            n_nodes = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--load") == 0)
            load_name = argv[i + 1];
        else if (strcmp(argv[i], "--policy") == 0)
            policy_name = argv[i + 1];
        else if (strcmp(argv[i], "--minutes") == 0)
            minutes = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--use") == 0)
            use = strtod(argv[i + 1], NULL) / 100;
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else
            argc = 0;
    }
    if (argc % 2 == 0 || n_nodes == 0 || n_nodes > NODES_MAX) {
        (void)fprintf(stderr,
                      "usage: fleet_sim [--nodes N (1 to %d)] [--load NAME] [--policy NAME] [--minutes M] "
                      "[--use PERCENT] [--seed S] | --check\n",
                      NODES_MAX);
        return 2;
    }
    printf("| load | policy | first token p50 | p90 | p99 | cached | busiest node |\n"
           "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
        for (size_t k = 0; k < sizeof(policies) / sizeof(policies[0]); k++) {
            outcome o;

            if (!is_wanted(load_name, loads[i].name) || !is_wanted(policy_name, policies[k].name))
                continue;
            o = run(&loads[i], &policies[k], minutes, use, seed);
            printf("| %s | %s | %.2f s | %.2f s | %.2f s | %.0f %% | %.2f x |\n", loads[i].name, policies[k].name,
                   o.p50_s, o.p90_s, o.p99_s, 100 * o.cached_part, o.most_to_mean);
        }
    return 0;
}
