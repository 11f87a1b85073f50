/*
 * cache_crash_test.c - processes that use the cache are killed or stopped anywhere, and the others do not notice
 *
 * Children save, borrow, supersede, evict and reject rows of a forest (support/forest.h) on shared file tiers. Each is
 * killed (SIGKILL) before a drawn step: a file operation, half a write, a point inside or between transactions of the
 * index, in its request thread or a writer's; or at any time by the parent. After each round every visible row is
 * checked to the last byte, the totals against the files, and that what was flushed is there. Then processes are
 * stopped (SIGSTOP) at steps of saving, while another one goes on.
 *
 * HTH_KILLS: how many children are killed, 500 by default. HTH_SEED replays the draws.
 */
#include "support/cmocka_all.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/lookup.h"
#include "support/forest.h"
#include "support/step_fs.h"
#include "support/support.h"
#include "support/tier_check.h"

enum { CHILDREN_MAX = 3, OPERATIONS = 30, STEPS_MAX = 350, STOPS = 60, STOP_STEPS_MAX = 120, FLUSH_MS = 600000 };
enum { HANG_S = 300, SMALL_BYTES = 100 << 10, LARGE_BYTES = 64 << 20 };

/* Steps after the opening are counted from here. */
static const uint64_t opened_step = UINT64_C(1) << 40;

typedef struct shared {
    /* Was flushed, and nothing that is allowed since takes it away. */
    _Atomic bool is_kept[TEST_FOREST_ROWS_MAX];
} shared;

#include "support/cache_processes.h" /* needs shared */

typedef struct plan {
    uint64_t kill_at; /* 0: not by itself */
    uint64_t stop_at; /* likewise */
    uint64_t random;
    uint64_t bytes_max;
    unsigned n_writers;
    bool removes;  /* rows may go in this round, so nothing is noted as kept */
    bool is_alone; /* no other process may be writing what it saves */
    bool no_unnamed;
} plan;

static hth_cache_options options_of(const fixture *f, const plan *p, const hth_fs *fs)
{
    return (hth_cache_options){
        .ram_memory_fd = -1,
        .ram_bytes_max = 8 << 20,
        .ram_file_directory = f->ram_files,
        .ram_file_bytes_max = p->bytes_max,
        .directory = f->disk,
        .disk_bytes_max = p->bytes_max,
        .n_writer_threads = p->n_writers,
        .write_limits = { .queue_rows_max = 1000, .queue_bytes_max = 16 << 20 },
        .fs = fs,
    };
}

/* ---- a child ---- */

static void borrow(const fixture *f, hth_cache *cache, const test_forest_row *row, bool must_be_there)
{
    hearth_error err = { .message = "" };
    hth_borrowed_row borrowed;
    hearth_status status = hth_cache_borrow(cache, row->keyspace, &row->meta, &borrowed, &err);
    const char *difference;

    (void)f;
    MUST(status == HEARTH_OK || (status == HEARTH_NOT_FOUND && !must_be_there), "status %d: %s", (int)status,
         err.message);
    if (status != HEARTH_OK)
        return;
    difference = test_forest_difference(row, &borrowed);
    MUST(!difference, "a row is not what was saved: %s", difference);
    hth_cache_return(cache, &borrowed);
}

/* Everything saved so far is in its file; note it for the parent. */
static void note_kept(const fixture *f, const plan *p, const bool *saved)
{
    for (size_t i = 0; i < f->forest.n_rows; i++) {
        char path[8192];

        if (!saved[i] || f->forest.rows[i].is_superseded)
            continue;
        test_forest_path(f->disk, &f->forest.rows[i].meta.id, path, sizeof(path));
        /* Where another process was writing the row, that one may be killed yet. */
        if (p->is_alone || access(path, R_OK) == 0)
            atomic_store(&f->shared->is_kept[i], true);
    }
}

static void operate(const fixture *f, plan *p, hth_cache *cache, bool *saved)
{
    size_t i = hth_test_random(&p->random, f->forest.n_rows);
    const test_forest_row *row = &f->forest.rows[i];
    uint64_t which = hth_test_random(&p->random, 20);
    uint64_t freed;

    if (which < 11) {
        saved[i] = test_forest_save(&f->forest, row, HEARTH_SAVE_COLD, cache);
    } else if (which < 15) {
        borrow(f, cache, row, false);
    } else if (which < 16) {
        hth_cache_touch(cache, &row->meta.id, 1);
    } else if (which < 17) {
        MUST(hth_cache_flush(cache, FLUSH_MS), "the writers are stuck");
        MUST(p->removes || hth_cache_n_lost(cache) == 0, "a row could not be written");
        if (!p->removes)
            note_kept(f, p, saved);
    } else if (p->removes && which < 18) {
        hth_cache_reject(cache, &row->meta.id, "the test says so");
    } else if (p->removes && which < 19) {
        (void)hth_cache_evict(cache, hth_test_random(&p->random, 200000), HEARTH_EVICT_RAM_FILE | HEARTH_EVICT_DISK,
                              &freed, NULL); /* others may be removing at the same time */
    } else {
        (void)hth_cache_evict(cache, UINT64_MAX, HEARTH_EVICT_RAM, &freed, NULL); /* so that files are read */
    }
}

static void run_child(const fixture *f, plan *p)
{
    test_step_fs step = { .fs = { 0 } };
    hth_cache_options options = options_of(f, p, &step.fs);
    bool saved[TEST_FOREST_ROWS_MAX] = { false };
    hearth_error err = { .message = "" };
    hth_cache *cache = NULL;

    test_step_fs_init(&step, NULL);
    step.kill_at = p->kill_at;
    step.stop_at = p->stop_at;
    step.no_unnamed = p->no_unnamed;
    (void)alarm(HANG_S);
    MUST(hth_cache_open(&options, &cache, &err) == HEARTH_OK, "%s", err.message);
    atomic_store(&step.n_steps, opened_step);
    for (unsigned i = 0; i < OPERATIONS; i++)
        operate(f, p, cache, saved);
    hth_cache_close(cache, FLUSH_MS);
    _exit(0);
}

static pid_t start(const fixture *f, plan *p)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        run_child(f, p);
    return child;
}

/* ---- rounds of kills ---- */

static void check_tiers(const fixture *f)
{
    const char *directories[] = { f->ram_files, f->disk };

    for (size_t i = 0; i < 2; i++) {
        test_tier_census census;

        test_tier_check(&f->forest, directories[i], &census);
        assert_int_equal(census.verified.quarantined, 0);
        assert_int_equal(census.verified.gone, 0);
    }
    for (size_t i = 0; i < f->forest.n_rows; i++) {
        char path[8192];

        test_forest_path(f->disk, &f->forest.rows[i].meta.id, path, sizeof(path));
        if (atomic_load(&f->shared->is_kept[i]) && access(path, R_OK) != 0)
            fail_msg("'%s' was flushed and is not there", path);
    }
}

static plan draw_plan(fixture *f)
{
    uint64_t step = 1 + hth_test_random(&f->random, STEPS_MAX);

    return (plan){
        .kill_at = hth_test_random(&f->random, 4) ? opened_step + step : step % 100,
        .random = hth_test_random(&f->random, UINT64_MAX),
        .bytes_max = LARGE_BYTES,
        .n_writers = 1 + (unsigned)hth_test_random(&f->random, 3),
        .no_unnamed = hth_test_random(&f->random, 4) == 0,
    };
}

static void lose_an_index(fixture *f)
{
    char command[8192];

    (void)snprintf(command, sizeof(command), "rm -rf %s/index",
                   hth_test_random(&f->random, 2) ? f->ram_files : f->disk);
    assert_int_equal(system(command), 0);
}

/* Whether it was killed, as it was to be. */
static bool await(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("a process ended with status 0x%x", status);
    return false;
}

static uint64_t a_round_of_kills(fixture *f)
{
    size_t n = hth_test_random(&f->random, 3) ? CHILDREN_MAX : 1;
    bool removes = hth_test_random(&f->random, 2) == 0;
    bool small = removes && hth_test_random(&f->random, 3) == 0;
    struct timespec time = { .tv_nsec = (long)hth_test_random(&f->random, UINT64_C(40) * 1000000) };
    pid_t children[CHILDREN_MAX];
    uint64_t n_kills = 0;

    if (removes)
        for (size_t i = 0; i < TEST_FOREST_ROWS_MAX; i++)
            atomic_store(&f->shared->is_kept[i], false);
    for (size_t i = 0; i < n; i++) {
        plan p = draw_plan(f);

        p.removes = removes;
        p.is_alone = n == 1;
        if (small)
            p.bytes_max = SMALL_BYTES;
        if (i == 2)
            p.kill_at = 0; /* by the clock */
        children[i] = start(f, &p);
    }
    if (n == CHILDREN_MAX) {
        (void)nanosleep(&time, NULL);
        assert_int_equal(kill(children[2], SIGKILL), 0);
    }
    for (size_t i = 0; i < n; i++)
        n_kills += await(children[i]);
    if (hth_test_random(&f->random, 10) == 0)
        lose_an_index(f);
    check_tiers(f);
    return n_kills;
}

FIXTURE_TEST(kills_anywhere_leave_whole_rows_and_right_totals)
{
    uint64_t n_wanted = hth_test_number("HTH_KILLS", 500), n_kills = 0, n_rounds = 0;

    while (n_kills < n_wanted) {
        n_kills += a_round_of_kills(f);
        n_rounds++;
    }
    printf("%llu kills in %llu rounds\n", (unsigned long long)n_kills, (unsigned long long)n_rounds);
}

/* ---- stops ---- */

/* What a process beside a stopped one does: all that a request needs, but nothing that may wait for a device. */
static void run_beside(const fixture *f, const plan *p)
{
    hth_cache_options options = options_of(f, p, NULL);
    hearth_error err = { .message = "" };
    hth_cache *cache = NULL;

    (void)alarm(HANG_S);
    MUST(hth_cache_open(&options, &cache, &err) == HEARTH_OK, "%s", err.message);
    for (size_t i = 0; i < f->forest.n_rows; i++) {
        const test_forest_row *row = &f->forest.rows[i];

        if (atomic_load(&f->shared->is_kept[i])) {
            MUST(hth_cache_find(cache, &row->meta.id, NULL) > HEARTH_TIER_RAM, "a kept row is not found");
            borrow(f, cache, row, true);
        }
    }
    for (size_t i = 0; i < f->forest.n_rows; i++) {
        const test_forest_row *row = &f->forest.rows[i];

        MUST(test_forest_save(&f->forest, row, HEARTH_SAVE_COLD, cache), "a save has no room");
        MUST(hth_cache_find(cache, &row->meta.id, NULL) == HEARTH_TIER_RAM, "a saved row is not found");
        borrow(f, cache, row, true);
    }
    for (size_t k = 0; k < TEST_FOREST_KEYSPACES; k++) {
        hth_key_stream *stream = hth_key_stream_new(&f->forest.keyspaces[k]);
        hth_lookup lookup;

        MUST(stream, "no memory");
        MUST(hth_lookup_init(&lookup, cache, &f->forest.keyspaces[k], stream,
                             &(hth_lookup_options){ .way = HTH_LOOKUP_CELLS, .n_limit = TEST_FOREST_TOKENS },
                             f->forest.prompts[5], TEST_FOREST_TOKENS, NULL) == HEARTH_OK,
             "no memory");
        MUST(lookup.n_cached == TEST_FOREST_TOKENS, "only %u tokens are found", lookup.n_cached);
        hth_lookup_deinit(&lookup);
        hth_key_stream_free(stream);
    }
    (void)hth_cache_flush(cache, 20); /* the writers may be waiting for the one that is stopped: that is theirs to do */
    (void)kill(getpid(), SIGKILL);    /* closing would wait for them */
}

/*
 * One that is stopped while it opens the index may hold the index's lock. Others then do without it for as long as they
 * run; what they wrote is found by its name, and counted when the index is made anew.
 */
static void repair_tiers(const fixture *f)
{
    const char *directories[] = { f->ram_files, f->disk };

    for (size_t i = 0; i < 2; i++) {
        hth_file_tier_options options = { .directory = directories[i], .bytes_max = UINT64_MAX };
        hth_file_tier *tier = NULL;

        assert_int_equal(hth_file_tier_open(&options, &tier, NULL), HEARTH_OK);
        assert_int_equal(hth_file_tier_repair(tier, NULL, NULL, NULL), HEARTH_OK);
        hth_file_tier_close(tier);
    }
}

static void a_stop(fixture *f, uint64_t step)
{
    plan stopped = draw_plan(f), beside = draw_plan(f);
    pid_t first, second;
    int status;

    stopped.kill_at = 0;
    stopped.stop_at = hth_test_random(&f->random, 4) ? opened_step + step : step;
    first = start(f, &stopped);
    assert_int_equal(waitpid(first, &status, WUNTRACED), first);
    if (WIFSTOPPED(status)) {
        second = fork();
        assert_true(second >= 0);
        if (second == 0)
            run_beside(f, &beside);
        assert_true(await(second)); /* at its very end */
        assert_int_equal(kill(first, hth_test_random(&f->random, 2) ? SIGCONT : SIGKILL), 0);
        (void)await(first);
    } else {
        assert_true(WIFEXITED(status)); /* it had fewer steps */
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    if (stopped.stop_at < opened_step)
        repair_tiers(f);
    check_tiers(f);
}

/* So that the next one has something to write. */
static void make_room(fixture *f)
{
    hth_file_tier_options options = { .bytes_max = LARGE_BYTES };
    const char *directories[] = { f->ram_files, f->disk };

    for (size_t i = 0; i < 2; i++) {
        hth_file_tier *tier = NULL;

        options.directory = directories[i];
        assert_int_equal(hth_file_tier_open(&options, &tier, NULL), HEARTH_OK);
        hth_file_tier_settle(tier);
        assert_int_equal(hth_file_tier_evict_to(tier, SMALL_BYTES, NULL, NULL), HEARTH_OK);
        hth_file_tier_close(tier);
    }
    for (size_t i = 0; i < TEST_FOREST_ROWS_MAX; i++)
        atomic_store(&f->shared->is_kept[i], false);
}

FIXTURE_TEST(a_process_that_is_stopped_anywhere_blocks_no_other)
{
    for (uint64_t i = 1; i <= STOPS; i++) {
        a_stop(f, 1 + i * STOP_STEPS_MAX / STOPS + hth_test_random(&f->random, 3));
        if (i % 3 == 0)
            make_room(f);
    }
}
