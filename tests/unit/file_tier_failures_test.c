/*
 * file_tier_failures_test.c - a file tier whose calls fail, each in turn, and one that many use at once
 */
#include "support/file_tier_scene.h"

/* ---- every call fails in turn ---- */

/*
 * One error at each step of publishing, in turn, until the publish goes through untouched. Whatever happens: a status,
 * no half-written row, no temporary file once the tier was opened again, and the same row can be published afterwards.
 */
static void publish_with_each_step_failing(fixture *f, int errnum, bool from_then_on)
{
    uint64_t n_last = 0, n_evicted = 0; /* rows that went because a device had no room for another one */

    for (uint64_t n = 1;; n++) {
        test_row row = test_row_make((uint32_t)n, 0, IMAGE_BYTES);
        hth_file_tier_counts counts;
        hearth_error err = { .message = "" };
        hearth_status status;
        bool published = false;
        buffer b = { .bytes = NULL };

        open_tier(f);
        atomic_store(&f->step.n_steps, 0);
        f->step.fail_errnum = errnum;
        f->step.fail_from_then_on = from_then_on;
        atomic_store(&f->step.fail_at, n);
        status = hth_file_tier_publish(f->tier, &row.meta, row.bytes, row.n_bytes, &published, &err);
        n_last = atomic_load(&f->step.n_steps);
        atomic_store(&f->step.fail_at, 0);
        if (status != HEARTH_OK)
            assert_true(err.message[0] != '\0');
        if (read_row(f, &row.meta.id, &b) == HEARTH_OK)
            assert_true(test_row_verifies(&row.meta.id, b.bytes, b.n_bytes));
        free(b.bytes);
        hth_file_tier_maintain(f->tier);
        assert_int_equal(publish(f, &row, &published), HEARTH_OK);
        assert_reads_back(f, &row);
        test_row_free(&row);
        hth_file_tier_counts_get(f->tier, &counts);
        n_evicted += counts.rows_evicted;
        assert_true(n_evicted == 0 || errnum == ENOSPC);
        assert_int_equal(index_rows(f), n - n_evicted);
        close_tier(f);
        open_tier(f);
        assert_int_equal(n_files(f, "temporary"), 0);
        assert_int_equal(n_files(f, "rows"), n - n_evicted);
        close_tier(f);
        if (n_last < n)
            break;
        assert_true(n < 200);
    }
    assert_true(n_last > 8);
}

CLOSED(an_error_at_any_step_of_publishing_leaves_nothing_half_done)
{
    const int errnums[] = { EIO, ENOSPC, EACCES, ENOMEM, EINTR };

    for (size_t i = 0; i < sizeof(errnums) / sizeof(errnums[0]); i++) {
        (void)snprintf(f->cache, sizeof(f->cache), "%s/once-%d", f->directory, errnums[i]);
        publish_with_each_step_failing(f, errnums[i], false);
    }
}

CLOSED(a_device_that_fails_for_good_leaves_nothing_half_done)
{
    const int errnums[] = { EIO, ENOSPC, EROFS };

    for (size_t i = 0; i < sizeof(errnums) / sizeof(errnums[0]); i++) {
        (void)snprintf(f->cache, sizeof(f->cache), "%s/all-%d", f->directory, errnums[i]);
        publish_with_each_step_failing(f, errnums[i], true);
    }
}

CLOSED(an_error_at_any_step_with_temporary_names_leaves_nothing_half_done)
{
    f->step.no_unnamed = true;
    (void)snprintf(f->cache, sizeof(f->cache), "%s/link", f->directory);
    publish_with_each_step_failing(f, EIO, false);
    f->step.no_link = true;
    (void)snprintf(f->cache, sizeof(f->cache), "%s/rename", f->directory);
    publish_with_each_step_failing(f, EIO, false);
}

CLOSED(an_error_at_any_step_of_opening_is_a_status_or_no_matter)
{
    const int errnums[] = { EIO, ENOSPC, EACCES, EINTR };

    for (size_t i = 0; i < sizeof(errnums) / sizeof(errnums[0]); i++) {
        for (uint64_t n = 1; n < 60; n++) {
            hth_file_tier_options options = options_of(f);
            hearth_error err = { .message = "" };
            hearth_status status;

            (void)snprintf(f->cache, sizeof(f->cache), "%s/open-%d-%u", f->directory, errnums[i], (unsigned)n);
            atomic_store(&f->step.n_steps, 0);
            f->step.fail_errnum = errnums[i];
            atomic_store(&f->step.fail_at, n);
            status = hth_file_tier_open(&options, &f->tier, &err);
            if (status == HEARTH_OK)
                hth_file_tier_settle(f->tier);
            else
                assert_true(err.message[0] != '\0' && err.status == status);
            atomic_store(&f->step.fail_at, 0);
            close_tier(f);
            open_tier(f);
            hth_file_tier_maintain(f->tier);
            hth_file_tier_settle(f->tier);
            assert_int_equal(index_rows(f), 0);
            close_tier(f);
        }
    }
}

/* ---- a limit on file sizes ---- */

CLOSED(rows_beyond_the_limit_on_file_sizes_cost_no_other_row)
{
    const size_t large = (size_t)5 << 20;
    test_row row = test_row_make(1, 0, large), small = test_row_make(2, 0, 100);
    hearth_error err = { .message = "" };
    hth_file_tier_counts counts;
    uint64_t before;

    before = hth_test_limit_file_size(large);
    open_tier(f);
    assert_published(f, &small);
    f->step.fail_only = "open_unnamed"; /* counted, not failing */
    atomic_store(&f->step.n_steps, 0);
    assert_int_equal(hth_file_tier_publish(f->tier, &row.meta, row.bytes, row.n_bytes, NULL, &err), HEARTH_IO);
    assert_non_null(strstr(err.message, "limit on file sizes (ulimit -f)"));
    assert_int_equal(atomic_load(&f->step.n_steps), 0);
    (void)hth_test_limit_file_size(before);
    hth_file_tier_counts_get(f->tier, &counts);
    assert_int_equal(counts.rows_evicted, 0);
    assert_reads_back(f, &small);
    test_row_free(&row);
    test_row_free(&small);
}

/* ---- many at once ---- */

enum { RACERS = 4, RACE_ROWS = 60 };

typedef struct racer {
    hth_file_tier *tier;
    unsigned n_published;
    bool failed;
} racer;

static void *race(void *context)
{
    racer *r = context;

    for (uint32_t i = 0; i < RACE_ROWS; i++) {
        test_row row = test_row_make(3, i, 200);
        bool published = false;
        buffer b = { .bytes = NULL };
        size_t n;

        if (hth_file_tier_publish(r->tier, &row.meta, row.bytes, row.n_bytes, &published, NULL) != HEARTH_OK)
            r->failed = true;
        r->n_published += published;
        if (hth_file_tier_has(r->tier, &row.meta.id, NULL)) {
            hearth_status status = hth_file_tier_read(r->tier, &row.meta.id, buffer_take, &b, &n, NULL);

            if (status != HEARTH_OK || !test_row_verifies(&row.meta.id, b.bytes, n))
                r->failed = true;
            free(b.bytes);
        }
        hth_file_tier_touch(r->tier, &row.meta.id, 1);
        if (i % 16 == 0)
            hth_file_tier_maintain(r->tier);
        test_row_free(&row);
    }
    return NULL;
}

OPEN(threads_that_publish_the_same_rows_write_each_once)
{
    racer racers[RACERS];
    pthread_t threads[RACERS];
    unsigned n_published = 0;

    for (int i = 0; i < RACERS; i++) {
        racers[i] = (racer){ .tier = f->tier };
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(racers[i].failed);
        n_published += racers[i].n_published;
    }
    assert_int_equal(n_published, RACE_ROWS);
    assert_int_equal(index_rows(f), RACE_ROWS);
    assert_int_equal(n_files(f, "rows"), RACE_ROWS);
}

CLOSED(processes_that_publish_the_same_rows_write_each_once)
{
    pid_t children[RACERS];

    for (int i = 0; i < RACERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            racer r = { .failed = false };

            open_tier(f);
            r.tier = f->tier;
            (void)race(&r);
            hth_file_tier_close(f->tier);
            _exit(r.failed ? 1 : 0);
        }
    }
    for (int i = 0; i < RACERS; i++) {
        int status;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    open_tier(f);
    assert_int_equal(index_rows(f), RACE_ROWS);
    assert_int_equal(n_files(f, "rows"), RACE_ROWS);
}
