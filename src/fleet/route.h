/*
 * route.h - which of several places takes a request: pure functions
 *
 * A conversation stays where its beginning was read, as long as that place is not much busier than the others: the
 * places have an order for each beginning (rendezvous hashing), and the first place whose load is within the bound
 * takes the request (consistent hashing with bounded loads: Mirrokni, Thorup and Zadimoghaddam, SODA 2018). So equal
 * beginnings meet, one beginning that everybody has spreads out, and a place that leaves moves only its own requests.
 */
#ifndef HTH_FLEET_ROUTE_H
#define HTH_FLEET_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum hth_route_policy {
    HTH_ROUTE_BY_HASH,     /* as above */
    HTH_ROUTE_LEAST,       /* the place with the least load for its size */
    HTH_ROUTE_ROUND_ROBIN, /* each place in turn */
} hth_route_policy;

typedef struct hth_route_place {
    uint64_t id;         /* of the node, the same on all machines */
    uint32_t n_load;     /* requests at work and waiting */
    uint32_t n_parallel; /* requests that it runs at once; 0: unknown */
    bool is_ready;       /* its model is loaded; others count only while none is ready, or all of these are full */
} hth_route_place;

typedef struct hth_route_question {
    hth_route_policy policy;
    uint64_t beginning; /* a digest of the prompt's beginning; 0: unknown */
    uint64_t draw;      /* a random number: decides between equal places */
    uint64_t turn;      /* number of earlier requests, for ROUND_ROBIN */
} hth_route_question;

/* The index of the place that takes the request; n at least 1. */
size_t hth_route_choose(const hth_route_question *question, const hth_route_place *places, size_t n);

/* A digest of a text, the same on all machines; never 0. Not secure. */
uint64_t hth_route_digest(const void *bytes, size_t n);

#endif
