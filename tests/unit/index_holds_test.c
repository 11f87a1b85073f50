/*
 * index_holds_test.c - a row that one thread of a process has reserved is no other thread's until that one gives it up
 */
#include "support/cmocka_all.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cache/file_tier.h"
#include "support/child.h"
#include "support/index_rows.h"
#include "support/made_row.h"
#include "support/support.h"

typedef struct fixture {
    char *directory;
    char path[4096];
    char owners[4096];
    hth_fs fs;
    hth_log log;
    hth_index *index;
    /* Step hooks run inside the write transaction of whoever commits, one at a time. */
    unsigned n_commits_to_fail;
    hth_index *damaged_while_publishing; /* from the reservation until the row has its name; NULL: none */
    struct rlimit file_size;
} fixture;

/* Write zeros over all of the environment but its first two pages. */
static void damage(const fixture *f)
{
    char command[9000];

    (void)snprintf(command, sizeof(command),
                   "for f in %s/cache/index/v*/data.mdb; do dd if=/dev/zero of=$f bs=4096 seek=2 conv=notrunc "
                   "count=$(($(stat -c %%s $f) / 4096 - 2)) 2>/dev/null; done",
                   f->directory);
    assert_int_equal(system(command), 0);
}

/* LMDB's own files do not go through the table: a commit fails where the process may write no file of that length. */
static void at_step(void *context, const char *label)
{
    fixture *f = context;
    struct rlimit none = { .rlim_cur = 4096, .rlim_max = f->file_size.rlim_max };

    if (f->n_commits_to_fail > 0 && strcmp(label, "index commit") == 0)
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    if (f->n_commits_to_fail > 0 && strcmp(label, "index committed") == 0) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &f->file_size), 0);
        f->n_commits_to_fail--;
    }
    if (f->damaged_while_publishing && strcmp(label, "begin") == 0)
        damage(f);
    if (f->damaged_while_publishing && strcmp(label, "placed") == 0)
        (void)hth_index_maintain(f->damaged_while_publishing);
}

static void open_index(fixture *f)
{
    hth_index_options options = {
        .directory = f->path,
        .owners_directory = f->owners,
        .fs = &f->fs,
        .log = &f->log,
    };
    bool rebuild = false;

    assert_int_equal(hth_index_open(&options, &f->index, &rebuild, NULL), HEARTH_OK);
    if (rebuild)
        assert_int_equal(hth_index_rebuilt(f->index, NULL), HEARTH_OK);
}

static void setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    (void)snprintf(f->path, sizeof(f->path), "%s/index", f->directory);
    (void)snprintf(f->owners, sizeof(f->owners), "%s/owners", f->directory);
    assert_int_equal(mkdir(f->owners, 0700), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &f->file_size), 0);
    f->fs = *hth_fs_system();
    f->fs.context = f; /* the system's own operations have none */
    f->fs.step = at_step;
    open_index(f);
}

static void teardown(fixture *f)
{
    hth_index_close(f->index);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static hth_row_meta row_at(uint32_t i)
{
    hth_row_meta meta = { .id = { .kind = HTH_ROW_BLOCK }, .n_tokens = 10, .bytes = 1000, .last_used_time = 100 };

    hth_sha256_of(&i, sizeof(i), meta.id.key.bytes);
    return meta;
}

static hth_reserve_result reserve(fixture *f, const hth_row_meta *row)
{
    hth_reserve_result result;

    assert_int_equal(hth_index_reserve(f->index, &row->id, 60, &result, NULL), HEARTH_OK);
    return result;
}

static hth_reserve_result take(fixture *f, const hth_row_meta *row)
{
    hth_reserve_result result;
    hth_row_meta meta;
    bool was_known;

    assert_int_equal(hth_index_take(f->index, &row->id, 60, &result, &was_known, &meta, NULL), HEARTH_OK);
    return result;
}

static size_t n_evicted(fixture *f, hearth_status expected)
{
    hth_row_meta rows[8];
    size_t n = 0;

    assert_int_equal(hth_index_evict(f->index, 0, NULL, NULL, rows, 8, &n, NULL), expected);
    return n;
}

/* The environment goes with all that it knows of reservations, and a new one takes its place. */
static void lose_environment(fixture *f)
{
    char command[9000];

    (void)snprintf(command, sizeof(command), "rm -r %s/v*", f->path);
    assert_int_equal(system(command), 0);
    if (hth_index_maintain(f->index))
        assert_int_equal(hth_index_rebuilt(f->index, NULL), HEARTH_OK);
}

/* ---- the environment is lost ---- */

FIXTURE_TEST(a_row_that_a_thread_has_reserved_stays_reserved_in_a_new_environment)
{
    hth_row_meta row = row_at(1);
    size_t n_adopted = 9;

    assert_int_equal(reserve(f, &row), HTH_RESERVED);
    lose_environment(f);
    assert_int_equal(reserve(f, &row), HTH_RESERVE_TAKEN);
    assert_int_equal(take(f, &row), HTH_RESERVE_TAKEN);
    assert_int_equal(test_index_adopt(f->index, &row, 1, &n_adopted), HEARTH_OK);
    assert_int_equal(n_adopted, 0);
    assert_int_equal(hth_index_wait(f->index, &row.id, 0), HTH_WAIT_TIMEOUT);
    assert_int_equal(hth_index_release(f->index, &row.id, 1, NULL), HEARTH_OK);
    assert_int_equal(reserve(f, &row), HTH_RESERVED);
}

/* Another process, which knows of no reservation of ours, puts rows in. */
static void publish_elsewhere(void *context)
{
    fixture *f = context;
    hth_row_meta rows[] = { row_at(1), row_at(2) };

    open_index(f);
    require(test_index_publish(f->index, rows, 2) == HEARTH_OK);
    hth_index_close(f->index);
}

FIXTURE_TEST(a_row_that_a_thread_has_reserved_is_not_evicted)
{
    hth_row_meta row = row_at(1);

    assert_int_equal(reserve(f, &row), HTH_RESERVED);
    lose_environment(f);
    hth_test_in_child(publish_elsewhere, f);
    assert_int_equal(n_evicted(f, HEARTH_OK), 1);
    assert_int_equal(hth_index_release(f->index, &row.id, 1, NULL), HEARTH_OK);
    assert_int_equal(n_evicted(f, HEARTH_OK), 1);
}

/* ---- a commit fails ---- */

FIXTURE_TEST(a_commit_that_fails_takes_no_hold_from_another_thread)
{
    hth_row_meta row = row_at(1), meta;
    hth_reserve_result result;
    bool was_known;

    assert_int_equal(reserve(f, &row), HTH_RESERVED);
    lose_environment(f);
    f->n_commits_to_fail = UINT32_MAX;
    (void)hth_index_reserve(f->index, &row.id, 60, &result, NULL);
    (void)hth_index_take(f->index, &row.id, 60, &result, &was_known, &meta, NULL);
    f->n_commits_to_fail = 0;
    assert_int_equal(reserve(f, &row), HTH_RESERVE_TAKEN);
    assert_int_equal(hth_index_release(f->index, &row.id, 1, NULL), HEARTH_OK);
    assert_int_equal(reserve(f, &row), HTH_RESERVED);
}

FIXTURE_TEST(what_a_failed_commit_was_to_reserve_is_free)
{
    hth_row_meta row = row_at(1), kept = row_at(2), meta;
    hth_reserve_result result;
    bool was_known;

    assert_int_equal(test_index_publish(f->index, &kept, 1), HEARTH_OK);
    f->n_commits_to_fail = UINT32_MAX;
    assert_int_not_equal(hth_index_reserve(f->index, &row.id, 60, &result, NULL), HEARTH_OK);
    assert_int_not_equal(hth_index_take(f->index, &row.id, 60, &result, &was_known, &meta, NULL), HEARTH_OK);
    (void)n_evicted(f, HEARTH_IO);
    f->n_commits_to_fail = 0;
    assert_int_equal(reserve(f, &row), HTH_RESERVED);
    assert_int_equal(n_evicted(f, HEARTH_OK), 1);
}

FIXTURE_TEST(a_row_that_is_written_without_a_reservation_leaves_that_of_another_thread_alone)
{
    char cache[4096];
    test_row row = test_row_make(1, 0, 1000);
    hth_file_tier_options options = { .directory = cache, .bytes_max = 1 << 20, .fs = &f->fs, .log = &f->log };
    hth_reserve_result result;
    hth_file_tier *tier;

    (void)snprintf(cache, sizeof(cache), "%s/cache", f->directory);
    assert_int_equal(hth_file_tier_open(&options, &tier, NULL), HEARTH_OK);
    hth_file_tier_settle(tier);
    assert_int_equal(hth_index_reserve(hth_file_tier_index(tier), &row.meta.id, 60, &result, NULL), HEARTH_OK);
    assert_int_equal(result, HTH_RESERVED);
    /* The index cannot say that it is reserved, so the link decides; then it works again. */
    f->damaged_while_publishing = hth_file_tier_index(tier);
    assert_int_equal(hth_file_tier_publish(tier, &row.meta, row.bytes, row.n_bytes, NULL, NULL), HEARTH_OK);
    f->damaged_while_publishing = NULL;
    assert_int_equal(hth_index_take(hth_file_tier_index(tier), &row.meta.id, 60, &result, &(bool){ false },
                                    &(hth_row_meta){ .n_tokens = 0 }, NULL),
                     HEARTH_OK);
    assert_int_equal(result, HTH_RESERVE_TAKEN);
    hth_file_tier_close(tier);
    test_row_free(&row);
}

/* ---- threads ---- */

enum { THREADS = 8, ROUNDS = 4000 };

typedef struct contest {
    fixture *f;
    hth_row_meta row;
    _Atomic int n_holders;
    _Atomic bool met;
} contest;

static void *contend(void *context)
{
    contest *c = context;

    for (int i = 0; i < ROUNDS; i++) {
        hth_reserve_result result = HTH_RESERVE_TAKEN;

        if (hth_index_reserve(c->f->index, &c->row.id, 60, &result, NULL) != HEARTH_OK || result != HTH_RESERVED)
            continue;
        if (atomic_fetch_add(&c->n_holders, 1) != 0)
            atomic_store(&c->met, true);
        atomic_fetch_sub(&c->n_holders, 1);
        (void)hth_index_release(c->f->index, &c->row.id, 1, NULL);
    }
    return NULL;
}

FIXTURE_TEST(no_two_threads_ever_hold_a_row)
{
    contest c = { .f = f, .row = row_at(1) };
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, contend, &c), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_false(atomic_load(&c.met));
    assert_int_equal(reserve(f, &c.row), HTH_RESERVED);
}
