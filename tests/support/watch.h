/*
 * watch.h - an engine with a watch on it: what it was asked, which cells it must have, and failures on demand
 *
 * A backend that passes every call on to another one. On the way it keeps its own account of the cells, which knows
 * nothing of the scheduler's books: every position of a sequence has a numbered cell, decoding and setting state make
 * new ones, copying shares them, removing drops them. Calls can be counted, recorded, made to fail, and made to take
 * time on the test's own clock.
 */
#ifndef HTH_TEST_WATCH_H
#define HTH_TEST_WATCH_H

#include "engine/backend.h"

typedef enum test_decode_answer {
    TEST_DECODE_GOES,
    TEST_DECODE_FAILS,        /* HEARTH_ENGINE, nothing evaluated */
    TEST_DECODE_FAILS_INSIDE, /* HEARTH_ENGINE, after the first half of the rows */
    TEST_DECODE_NO_ROOM,
    TEST_DECODE_ABORTS, /* after the first half of the rows */
} test_decode_answer;

typedef struct test_watch test_watch;

/* Each may be NULL. */
typedef struct test_watch_hooks {
    test_decode_answer (*before_decode)(test_watch *watch, const hth_batch_row *rows, size_t n_rows, void *user_data);
    void (*after_decode)(test_watch *watch, const hth_batch_row *rows, size_t n_rows,
                         void *user_data); /* it went well */
    void (*on_remove)(test_watch *watch, uint32_t sequence, uint32_t begin, uint32_t end, void *user_data);
    /* Called when it went well. */
    void (*on_copy)(test_watch *watch, uint32_t from, uint32_t to, uint32_t begin, uint32_t end, void *user_data);
    void (*on_set)(test_watch *watch, uint32_t sequence, hth_state_part part, const uint8_t *bytes, size_t n_bytes,
                   uint32_t begin, uint32_t end, void *user_data);
    bool (*refuses_set)(test_watch *watch, void *user_data);
    bool (*refuses_copy)(test_watch *watch, void *user_data);
    void *user_data;
} test_watch_hooks;

struct test_watch {
    const hth_backend *inner;
    hth_engine_context *context; /* the inner one */
    hth_backend backend;         /* that watches; its contexts are watches */
    hth_model_kind kind;
    test_watch_hooks hooks;
    uint64_t *clock_ns; /* advanced by decoding */
    uint64_t row_ns;    /* so much a row */
    uint64_t decode_ns; /* and so much an evaluation */

    uint64_t n_decodes;                                /* that went well */
    uint64_t n_rows;                                   /* of those */
    uint64_t n_no_room;                                /* that the inner one answered */
    hth_engine_adapter_use adapters[HTH_ADAPTERS_MAX]; /* [n_adapters], that are applied */
    size_t n_adapters;
    uint64_t n_changes; /* of those */
    uint32_t n_sequences;
    uint32_t n_ctx;
    uint32_t *cells;  /* [n_sequences][n_ctx], 1 + number of the cell; 0: there is none */
    uint32_t *ends;   /* [n_sequences], one more than the highest position */
    uint16_t *owners; /* [n_cells] */
    uint32_t *unused; /* [n_unused], a stack */
    uint32_t n_cells;
    uint32_t n_unused;
};

/* Watch a context of inner, which stays the caller's. Fails the test where there is no memory. */
void test_watch_init(test_watch *watch, const hth_backend *inner, hth_engine_context *context, hth_model_kind kind);
void test_watch_deinit(test_watch *watch);
/* For a workplace: the context that goes with watch->backend. */
hth_engine_context *test_watch_context(test_watch *watch);

uint32_t test_watch_n_used(const test_watch *watch);
uint32_t test_watch_n_tokens(const test_watch *watch, uint32_t sequence);
/* Different cells of these sequences together. */
uint32_t test_watch_n_cells_of(const test_watch *watch, const uint32_t *sequences, size_t n);

#endif
