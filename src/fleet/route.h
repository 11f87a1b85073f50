/*
 * route.h - which of several places takes a request: pure functions, for any thread
 *
 * BY_HASH: the places have an order for each beginning of a prompt (rendezvous hashing), and the first one whose load
 * is within the bound takes the request (consistent hashing with bounded loads: Mirrokni, Thorup and Zadimoghaddam,
 * SODA 2018). So a conversation stays where its beginning was read, equal beginnings meet, one beginning that everybody
 * has spreads out, and a place that leaves moves only its own requests. An unknown beginning goes to the least load.
 *
 * BY_TIME: the place with the least cost, in seconds. The cost is the time until the first token, as far as that can be
 * known, with weights:
 *
 *     HTH_ROUTE_LOAD_WEIGHT x time until its model is loaded
 *   + wait until it can begin with the prompt
 *   + time for the rows of the prompt that come from another place, where that is faster than computing
 *   + HTH_ROUTE_WORK_WEIGHT x time for the tokens of the prompt that it has to compute
 *
 * A load may make another model leave. Computing takes the time of other requests, and makes a second copy of what
 * another place has. Among places within HTH_ROUTE_NEAR_PERCENT of the least cost, the one that has most of the prompt
 * wins; then those within the bound; then the order of BY_HASH.
 *
 * A popular beginning gets copies: if every place that has it is busier than its share, only places within the bound
 * count, and the tokens of that beginning are no work at the others.
 */
#ifndef HTH_FLEET_ROUTE_H
#define HTH_FLEET_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum hth_route_policy {
    HTH_ROUTE_BY_TIME, /* these two as above */
    HTH_ROUTE_BY_HASH,
    HTH_ROUTE_LEAST,       /* the place with the least load for its size */
    HTH_ROUTE_ROUND_ROBIN, /* each place in turn */
} hth_route_policy;

extern const char *const hth_route_policy_names[]; /* by policy, and then NULL: "time" */

enum {
    HTH_ROUTE_WORK_WEIGHT = 4,
    HTH_ROUTE_LOAD_WEIGHT = 2,
    HTH_ROUTE_NEAR_PERCENT = 10, /* times that differ by less are nearly equal */
};

typedef struct hth_route_place {
    uint64_t id;         /* of the node, the same on all machines */
    uint32_t n_load;     /* requests at work and waiting */
    uint32_t n_parallel; /* requests that it runs at once; 0: unknown */
    bool is_ready;       /* its model is loaded. Without BY_TIME, others count only if every ready place is full */
    /* For BY_TIME. */
    uint32_t n_cached;        /* tokens of this prompt that it probably has */
    uint64_t n_prompt_left;   /* tokens of other prompts that it still has to compute */
    uint64_t prompt_token_ns; /* for one of a prompt; 0: unknown, and taken to be that of the slowest place */
    uint64_t reply_token_ns;  /* for one of a reply; likewise */
    uint32_t load_ms;         /* until its model is loaded, if it is not; 0: unknown, and taken to be long */
    uint32_t n_elsewhere;     /* tokens of this prompt that a place probably has from which it can get them */
    uint32_t pull_token_ns;   /* for one of them; 0: unknown, and taken to be no faster than computing */
} hth_route_place;

typedef struct hth_route_question {
    hth_route_policy policy;
    uint64_t beginning; /* a digest of the prompt's beginning; 0: unknown */
    uint64_t draw;      /* a random number: decides between equal places */
    uint64_t turn;      /* number of earlier requests, for ROUND_ROBIN */
    /* For BY_TIME. */
    uint32_t n_prompt;  /* tokens */
    uint32_t n_popular; /* of them, tokens that more places should have: their computation is no loss */
    uint32_t n_reply;   /* expected tokens of a reply */
} hth_route_question;

/* The index of the place that takes the request; n at least 1. */
size_t hth_route_choose(const hth_route_question *question, const hth_route_place *places, size_t n);

/* The times of place i that BY_TIME compares, in seconds. */
typedef struct hth_route_time {
    double load_s;
    double wait_s;   /* until it can begin with the prompt */
    double prompt_s; /* for the prompt, counted once, with pull_s */
    double pull_s;   /* for rows that come from another place */
    double cost_s;   /* weighted as above, without the tokens of a popular beginning */
} hth_route_time;
hth_route_time hth_route_time_of(const hth_route_question *question, const hth_route_place *places, size_t n, size_t i);

/* A digest of a text, the same on all machines; never 0. Not secure. */
uint64_t hth_route_digest(const void *bytes, size_t n);

#endif
