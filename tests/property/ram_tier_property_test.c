/*
 * ram_tier_property_test.c - random operations on the RAM tier, against what must hold
 *
 * Rows are filled with a pattern made from their id, so that any mix-up of slabs shows when one is read. Several
 * threads work on one tier; each checks what it reads, and at the end nothing is held and nothing has leaked.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cache/arena.h"
#include "cache/ram_tier.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { THREADS = 4, ROUNDS = 4000, IDS = 200, HELD_MAX = 6 };

static const uint64_t tier_bytes = UINT64_C(24) << 20;

static hearth_status open_tier(uint64_t bytes_max, bool warm, hth_ram_tier **out)
{
    hth_ram_tier_options options = { .bytes_max = bytes_max, .warm = warm, .memory_fd = -1 };

    return hth_ram_tier_open(&options, out, NULL);
}

static hth_row_meta meta_of(uint64_t n)
{
    hth_row_meta meta;

    memset(&meta, 0, sizeof(meta));
    memcpy(meta.id.key.bytes, &n, sizeof(n));
    meta.id.kind = (hth_row_kind)(n % 3);
    meta.parent.bytes[0] = (uint8_t)(n % 7);
    meta.parent.bytes[31] = 1; /* the key of no row: nothing stands on another */
    meta.n_tokens = (uint32_t)n;
    return meta;
}

static hth_ram_row *pin(hth_ram_tier *tier, uint64_t n)
{
    hth_row_meta meta = meta_of(n);

    return hth_ram_tier_pin(tier, &meta.id);
}

static size_t bytes_of(uint64_t n)
{
    return 1000 + n * n * 13 % 900000;
}

static void fill(hth_ram_row *row, uint64_t n)
{
    memset(hth_ram_row_image(row), (int)(n * 31 % 251), hth_ram_row_bytes(row));
}

static void check(hth_ram_row *row)
{
    uint64_t n = hth_ram_row_meta(row)->n_tokens;
    const uint8_t *image = hth_ram_row_image(row);
    uint8_t expected = (uint8_t)(n * 31 % 251);

    if (hth_ram_row_bytes(row) != bytes_of(n) || image[0] != expected || image[bytes_of(n) / 2] != expected ||
        image[bytes_of(n) - 1] != expected)
        abort(); /* cmocka's assertions belong to the main thread */
}

typedef struct worker {
    hth_ram_tier *tier;
    uint64_t seed;
} worker;

static void *work(void *context)
{
    worker *w = context;
    hth_ram_row *held[HELD_MAX] = { NULL };

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t n = hth_test_random(&w->seed, IDS);
        hth_row_meta meta = meta_of(n);
        size_t place = hth_test_random(&w->seed, HELD_MAX);
        hth_ram_row *row;

        switch (hth_test_random(&w->seed, 5)) {
        case 0:
        case 1:
            row = hth_ram_tier_reserve(w->tier, bytes_of(n));
            if (!row)
                break;
            fill(row, n);
            if (hth_test_random(&w->seed, 8) == 0) {
                hth_ram_tier_unpin(w->tier, row); /* given up before it was visible */
                break;
            }
            row = hth_ram_tier_insert(w->tier, row, &meta);
            check(row);
            hth_ram_tier_unpin(w->tier, held[place]);
            held[place] = row;
            break;
        case 2:
            row = hth_ram_tier_pin(w->tier, &meta.id);
            if (!row)
                break;
            check(row);
            hth_ram_tier_unpin(w->tier, held[place]);
            held[place] = row;
            break;
        case 3: hth_ram_tier_remove(w->tier, &meta.id); break;
        default: {
            hth_row_meta children[IDS];
            size_t n_children = hth_ram_tier_children(w->tier, &meta.parent, children, IDS);

            for (size_t i = 0; i < n_children; i++)
                if (memcmp(&children[i].parent, &meta.parent, sizeof(meta.parent)) != 0)
                    abort();
        }
        }
        for (int i = 0; i < HELD_MAX; i++)
            if (held[i])
                check(held[i]); /* whatever the others evict or remove, a pinned row stays as it is */
    }
    for (int i = 0; i < HELD_MAX; i++)
        hth_ram_tier_unpin(w->tier, held[i]);
    return NULL;
}

static void pinned_rows_keep_their_bytes_whatever_happens_around_them(void **state)
{
    hth_ram_tier *tier;
    hth_ram_tier_totals totals;
    worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t seed = hth_test_seed();

    (void)state;
    assert_int_equal(open_tier(tier_bytes, true, &tier), HEARTH_OK);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){ .tier = tier, .seed = seed + (uint64_t)i };
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    hth_ram_tier_totals_get(tier, &totals);
    assert_true(totals.bytes <= tier_bytes);
    assert_true(totals.rows_evicted > 0);
    for (uint64_t n = 0; n < IDS; n++) {
        hth_row_meta meta = meta_of(n);

        hth_ram_tier_remove(tier, &meta.id);
    }
    hth_ram_tier_totals_get(tier, &totals);
    assert_int_equal(totals.rows, 0);
    assert_int_equal(totals.bytes, 0);
    hth_ram_tier_close(tier);
}

static void the_least_recently_used_row_goes_first_and_a_pinned_one_never(void **state)
{
    hth_ram_tier *tier;
    hth_ram_row *pinned;

    (void)state;
    assert_int_equal(open_tier(10 * 4096, false, &tier), HEARTH_OK);
    for (uint64_t n = 0; n < 10; n++) {
        hth_ram_row *row = hth_ram_tier_reserve(tier, 4096);
        hth_row_meta meta = meta_of(n);

        assert_non_null(row);
        hth_ram_tier_unpin(tier, hth_ram_tier_insert(tier, row, &meta));
    }
    pinned = pin(tier, 0);
    assert_non_null(pinned);
    hth_ram_tier_unpin(tier, pin(tier, 1)); /* used again */

    hth_ram_row *large = hth_ram_tier_reserve(tier, 3 * 4096);
    assert_non_null(large);
    assert_null(pin(tier, 2));
    assert_null(pin(tier, 3));
    assert_null(pin(tier, 4));
    hth_ram_tier_unpin(tier, pin(tier, 1));
    assert_null(hth_ram_tier_reserve(tier, 11 * 4096)); /* larger than the tier */
    assert_null(hth_ram_tier_reserve(tier, 7 * 4096));  /* what is pinned leaves less */
    assert_non_null(pin(tier, 0));
    hth_ram_tier_unpin(tier, pinned);
    hth_ram_tier_unpin(tier, pinned);
    hth_ram_tier_unpin(tier, large);
    hth_ram_tier_close(tier);
}

static void slabs_never_overlap_and_all_memory_comes_back(void **state)
{
    enum { SLABS = 300 };
    hth_arena *arena;
    hth_arena_totals totals;
    struct {
        uint8_t *bytes;
        size_t n;
        uint8_t mark;
    } slabs[SLABS] = { { NULL, 0, 0 } };
    uint64_t seed = hth_test_seed();

    (void)state;
    assert_int_equal(hth_arena_open(&(hth_arena_options){ .bytes_max = UINT64_C(256) << 20, .fd = -1 }, &arena, NULL),
                     HEARTH_OK);
    for (int round = 0; round < 6000; round++) {
        size_t i = hth_test_random(&seed, SLABS);

        if (slabs[i].bytes) {
            assert_int_equal(slabs[i].bytes[0], slabs[i].mark);
            assert_int_equal(slabs[i].bytes[slabs[i].n - 1], slabs[i].mark);
            hth_arena_give(arena, slabs[i].bytes, slabs[i].n);
            slabs[i].bytes = NULL;
            continue;
        }
        slabs[i].n = 1 + hth_test_random(&seed, hth_test_random(&seed, 20) ? 1 << 20 : 80 << 20);
        slabs[i].bytes = hth_arena_take(arena, slabs[i].n, NULL);
        slabs[i].mark = (uint8_t)round;
        if (slabs[i].bytes) {
            assert_int_equal((uintptr_t)slabs[i].bytes % 4096, 0);
            slabs[i].bytes[0] = slabs[i].bytes[slabs[i].n - 1] = slabs[i].mark;
        }
        hth_arena_totals_get(arena, &totals);
        assert_true(totals.used_bytes <= totals.mapped_bytes);
        assert_true(totals.mapped_bytes <= UINT64_C(256) << 20);
    }
    for (int i = 0; i < SLABS; i++)
        if (slabs[i].bytes)
            hth_arena_give(arena, slabs[i].bytes, slabs[i].n);
    hth_arena_totals_get(arena, &totals);
    assert_int_equal(totals.used_bytes, 0);
    assert_true(totals.mapped_bytes <= 100 << 20); /* one spare segment is kept */
    hth_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_rows_keep_their_bytes_whatever_happens_around_them),
        cmocka_unit_test(the_least_recently_used_row_goes_first_and_a_pinned_one_never),
        cmocka_unit_test(slabs_never_overlap_and_all_memory_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
