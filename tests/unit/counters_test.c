/*
 * counters_test.c - what was counted is there, by whichever thread and whoever resets meanwhile
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cache/counters.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static hth_counters *counters;
static hth_counters_snapshot snapshot;

static int set_up(void **state)
{
    (void)state;
    counters = calloc(1, sizeof(*counters)); /* zeros are a good set of counters */
    return counters ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    free(counters);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(void, no_fixture, name, set_up, tear_down)

/* ---- counting ---- */

FIXTURE_TEST(what_is_counted_is_found_under_its_name_only)
{
    hth_count(counters, HTH_COUNT_TOKENS_RESTORED, 256);
    hth_count(counters, HTH_COUNT_TOKENS_RESTORED, 1);
    hth_count_hit(counters, HEARTH_HIT_EXACT, HEARTH_TIER_DISK);
    hth_count_hit(counters, HEARTH_HIT_EXACT, HEARTH_TIER_RAM);
    hth_count_hit(counters, HEARTH_HIT_NONE, HEARTH_TIER_NONE);
    hth_count_save(counters, HEARTH_SAVE_FINISH);
    hth_histogram_add(counters, HTH_PATH_PACK, 5000);

    hth_counters_snapshot_get(counters, &snapshot);
    for (int i = 0; i < HTH_COUNTERS; i++)
        assert_true(snapshot.values[i] == (i == HTH_COUNT_TOKENS_RESTORED ? 257 : 0));
    assert_true(snapshot.hits[HEARTH_HIT_EXACT][HEARTH_TIER_DISK] == 1);
    assert_true(snapshot.hits[HEARTH_HIT_EXACT][HEARTH_TIER_RAM] == 1);
    assert_true(hth_counters_snapshot_hits(&snapshot, HEARTH_HIT_EXACT) == 2);
    assert_true(hth_counters_snapshot_hits(&snapshot, HEARTH_HIT_NONE) == 1);
    assert_true(hth_counters_snapshot_hits(&snapshot, HEARTH_HIT_LIVE) == 0);
    for (int i = 0; i < HTH_COUNTER_SAVES; i++)
        assert_true(snapshot.saves[i] == (i == HEARTH_SAVE_FINISH ? 1 : 0));
    for (int i = 0; i < HTH_PATHS; i++) {
        assert_true(snapshot.paths[i].count == (i == HTH_PATH_PACK ? 1 : 0));
        assert_true(snapshot.paths[i].sum_ns == (i == HTH_PATH_PACK ? 5000 : 0));
        assert_true(snapshot.paths[i].max_ns == (i == HTH_PATH_PACK ? 5000 : 0));
    }
    assert_true(hth_counted(counters, HTH_COUNT_TOKENS_RESTORED) == 257);
}

FIXTURE_TEST(a_reset_begins_snapshots_at_zero_and_leaves_the_totals)
{
    static const hth_counters_snapshot nothing;

    hth_count(counters, HTH_COUNT_ROWS_SAVED, 3);
    hth_histogram_add(counters, HTH_PATH_READ, 70000);
    hth_counters_reset(counters);
    hth_counters_snapshot_get(counters, &snapshot);
    assert_memory_equal(&snapshot, &nothing, sizeof(snapshot));
    assert_true(hth_counted(counters, HTH_COUNT_ROWS_SAVED) == 3);

    hth_count(counters, HTH_COUNT_ROWS_SAVED, 4);
    hth_histogram_add(counters, HTH_PATH_READ, 2000);
    hth_counters_snapshot_get(counters, &snapshot);
    assert_true(snapshot.values[HTH_COUNT_ROWS_SAVED] == 4);
    assert_true(snapshot.paths[HTH_PATH_READ].count == 1);
    assert_true(snapshot.paths[HTH_PATH_READ].max_ns == 2000);
    assert_true(hth_counted(counters, HTH_COUNT_ROWS_SAVED) == 7);
}

FIXTURE_TEST(counters_that_overflow_still_count_what_comes_after_a_reset)
{
    hth_count(counters, HTH_COUNT_BYTES_SAVED, UINT64_MAX - 1);
    hth_counters_reset(counters);
    hth_count(counters, HTH_COUNT_BYTES_SAVED, 10); /* wraps */
    hth_counters_snapshot_get(counters, &snapshot);
    assert_true(snapshot.values[HTH_COUNT_BYTES_SAVED] == 10);
    hth_counters_reset(counters);
    hth_counters_snapshot_get(counters, &snapshot);
    assert_true(snapshot.values[HTH_COUNT_BYTES_SAVED] == 0);
}

/* ---- histograms ---- */

FIXTURE_TEST(every_time_lies_in_its_bucket_and_buckets_are_at_most_a_quarter_wide)
{
    uint64_t random = hth_test_seed(), begin = 0;

    for (unsigned i = 0; i < HTH_HISTOGRAM_BUCKETS; i++) {
        uint64_t end = hth_histogram_bucket_end(i);

        assert_true(begin < end);
        assert_int_equal(hth_histogram_bucket(begin), i);
        assert_int_equal(hth_histogram_bucket(end - 1), i);
        if (i > 0 && i + 1 < HTH_HISTOGRAM_BUCKETS)
            assert_true(4 * (end - begin) <= begin);
        begin = end;
    }
    assert_int_equal(hth_histogram_bucket(UINT64_MAX), HTH_HISTOGRAM_BUCKETS - 1);
    assert_int_equal(hth_histogram_bucket_end(0), 1024);
    assert_true(hth_histogram_bucket_end(HTH_HISTOGRAM_BUCKETS - 2) > UINT64_C(100) * 1000 * 1000 * 1000);
    for (int i = 0; i < 100000; i++) {
        uint64_t ns = hth_test_random(&random, UINT64_MAX) >> hth_test_random(&random, 64);
        unsigned bucket = hth_histogram_bucket(ns);

        assert_true(ns < hth_histogram_bucket_end(bucket) || ns == UINT64_MAX);
        assert_true(bucket == 0 || ns >= hth_histogram_bucket_end(bucket - 1));
    }
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

enum { TIMES_MAX = 2000 };

FIXTURE_TEST(percentiles_are_those_of_the_sorted_times_up_to_a_quarter)
{
    static const double shares[] = { 0, 0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1 };
    static uint64_t times[TIMES_MAX];
    uint64_t random = hth_test_seed();

    for (int round = 0; round < 200; round++) {
        size_t n = 1 + hth_test_random(&random, TIMES_MAX);
        uint64_t bits = 1 + hth_test_random(&random, HTH_HISTOGRAM_MAX_BITS), total = 0;
        const hth_histogram *histogram = &snapshot.paths[HTH_PATH_LOOKUP];

        hth_counters_reset(counters);
        for (size_t i = 0; i < n; i++) {
            times[i] = hth_test_random(&random, UINT64_C(1) << bits);
            total += times[i];
            hth_histogram_add(counters, HTH_PATH_LOOKUP, times[i]);
        }
        qsort(times, n, sizeof(times[0]), ascending);
        hth_counters_snapshot_get(counters, &snapshot);
        assert_true(histogram->count == n);
        assert_true(histogram->sum_ns == total);
        assert_true(histogram->max_ns == times[n - 1]);
        for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
            size_t rank = 1;
            uint64_t exact, got = hth_histogram_percentile(histogram, shares[i]);

            while (rank < n && (double)rank < shares[i] * (double)n)
                rank++;
            exact = times[rank - 1];
            if (got < exact || got > exact + exact / 4 + 1023)
                fail_msg("share %g of %zu: %llu, exact %llu", shares[i], n, (unsigned long long)got,
                         (unsigned long long)exact);
        }
    }
}

FIXTURE_TEST(shares_outside_0_to_1_count_as_the_nearest)
{
    const hth_histogram *histogram = &snapshot.paths[HTH_PATH_WRITE];
    static const hth_histogram empty;

    hth_histogram_add(counters, HTH_PATH_WRITE, 3000);
    hth_histogram_add(counters, HTH_PATH_WRITE, 9000000);
    hth_counters_snapshot_get(counters, &snapshot);
    assert_true(hth_histogram_percentile(histogram, -1) == hth_histogram_percentile(histogram, 0));
    assert_true(hth_histogram_percentile(histogram, 7) == 9000000);
    assert_true(hth_histogram_percentile(histogram, strtod("nan", NULL)) == hth_histogram_percentile(histogram, 0));
    assert_true(hth_histogram_percentile(&empty, 0.5) == 0);
}

FIXTURE_TEST(a_clock_that_went_back_does_not_spoil_the_sum)
{
    hth_histogram_add(counters, HTH_PATH_READ, UINT64_MAX);
    hth_histogram_add(counters, HTH_PATH_READ, UINT64_MAX);
    hth_counters_snapshot_get(counters, &snapshot);
    assert_true(snapshot.paths[HTH_PATH_READ].sum_ns == 2 * HTH_HISTOGRAM_NS_MAX);
    assert_true(hth_histogram_percentile(&snapshot.paths[HTH_PATH_READ], 0.5) == HTH_HISTOGRAM_NS_MAX);
}

TEST(paths_have_names)
{
    assert_string_equal(hth_path_name(HTH_PATH_LOOKUP), "lookup");
    assert_string_equal(hth_path_name(HTH_PATH_WRITE), "write");
    assert_string_equal(hth_path_name(HTH_PATHS), "unknown");
}

/* ---- threads ---- */

enum { N_THREADS = 24, N_ADDS = 20000 };

static void *add_much(void *user_data)
{
    uint64_t n = (uint64_t)(uintptr_t)user_data;

    for (uint64_t i = 0; i < N_ADDS; i++) {
        hth_count(counters, HTH_COUNT_BYTES_RESTORED, n);
        hth_count_hit(counters, HEARTH_HIT_PREFIX, HEARTH_TIER_RAM);
        hth_histogram_add(counters, HTH_PATH_UNPACK, 1000 * n + i);
    }
    return NULL;
}

static void start(pthread_t *threads)
{
    for (uintptr_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_much, (void *)(i + 1)), 0);
}

static void join(pthread_t *threads)
{
    for (size_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

FIXTURE_TEST(what_many_threads_count_adds_up_after_they_ended)
{
    const hth_histogram *histogram = &snapshot.paths[HTH_PATH_UNPACK];
    pthread_t threads[N_THREADS];

    start(threads);
    join(threads);
    hth_counters_snapshot_get(counters, &snapshot);
    assert_true(snapshot.values[HTH_COUNT_BYTES_RESTORED] == (uint64_t)N_ADDS * N_THREADS * (N_THREADS + 1) / 2);
    assert_true(hth_counters_snapshot_hits(&snapshot, HEARTH_HIT_PREFIX) == (uint64_t)N_ADDS * N_THREADS);
    assert_true(histogram->count == (uint64_t)N_ADDS * N_THREADS);
    assert_true(histogram->sum_ns == 1000 * (uint64_t)N_ADDS * N_THREADS * (N_THREADS + 1) / 2 +
                                         (uint64_t)N_THREADS * N_ADDS * (N_ADDS - 1) / 2);
    assert_true(histogram->max_ns == 1000 * N_THREADS + N_ADDS - 1);
}

FIXTURE_TEST(nothing_is_lost_or_negative_while_others_count_and_reset)
{
    pthread_t threads[N_THREADS];
    uint64_t in_total;

    start(threads);
    for (int i = 0; i < 200; i++) {
        hth_counters_snapshot_get(counters, &snapshot);
        /* A difference that went below zero would be huge. */
        assert_true(snapshot.values[HTH_COUNT_BYTES_RESTORED] < UINT64_C(1) << 40);
        assert_true(snapshot.paths[HTH_PATH_UNPACK].count <= (uint64_t)N_ADDS * N_THREADS);
        assert_true(hth_histogram_percentile(&snapshot.paths[HTH_PATH_UNPACK], 1) <= 1000 * N_THREADS + N_ADDS);
        if (i % 4 == 0)
            hth_counters_reset(counters);
    }
    join(threads);
    in_total = hth_counted(counters, HTH_COUNT_BYTES_RESTORED);
    assert_true(in_total == (uint64_t)N_ADDS * N_THREADS * (N_THREADS + 1) / 2);

    hth_counters_reset(counters);
    start(threads);
    join(threads);
    hth_counters_snapshot_get(counters, &snapshot);
    assert_true(snapshot.values[HTH_COUNT_BYTES_RESTORED] == in_total);
}
