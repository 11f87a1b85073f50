/*
 * index_test.c - the index alone: rows that are only metadata, without files
 */
#include "support/cmocka_all.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "cache/index.h"
#include "cache/owner.h"
#include "support/index_rows.h"
#include "support/support.h"

typedef struct fixture {
    char *directory;
    char index[4096];
    char owners[4096];
    hth_log log;
    unsigned n_warnings;
} fixture;

static void count_warning(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;

    (void)source;
    (void)message;
    if (level <= HEARTH_LOG_WARNING)
        f->n_warnings++;
}

static int fixture_setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->directory = hth_test_directory_new();
    (void)snprintf(f->index, sizeof(f->index), "%s/index", f->directory);
    (void)snprintf(f->owners, sizeof(f->owners), "%s/owners", f->directory);
    assert_int_equal(mkdir(f->owners, 0700), 0);
    f->log = (hth_log){ .level = HEARTH_LOG_WARNING, .write = count_warning, .user_data = f };
    *state = f;
    return 0;
}

static int fixture_teardown(void **state)
{
    fixture *f = *state;

    hth_test_directory_remove(f->directory);
    free(f);
    return 0;
}

static hth_index *open_boot(fixture *f, const char *boot_id, bool *rebuild_out)
{
    hth_index_options options = {
        .directory = f->index,
        .owners_directory = f->owners,
        .log = &f->log,
        .boot_id = boot_id,
    };
    hth_index *index = NULL;
    bool rebuild = false;

    assert_int_equal(hth_index_open(&options, &index, &rebuild, NULL), HEARTH_OK);
    if (rebuild_out)
        *rebuild_out = rebuild;
    return index;
}

static hth_index *open_complete(fixture *f)
{
    bool rebuild;
    hth_index *index = open_boot(f, NULL, &rebuild);

    if (rebuild)
        assert_int_equal(hth_index_rebuilt(index, NULL), HEARTH_OK);
    return index;
}

/* Row number i of a chain; position counts in rows of ten tokens. */
static hth_row_meta row_at(uint32_t chain, uint32_t i)
{
    hth_row_meta meta = { .id = { .kind = HTH_ROW_BLOCK } };

    hth_sha256_of(&(uint32_t[2]){ chain, i + 1 }, 8, meta.id.key.bytes);
    hth_sha256_of(&(uint32_t[2]){ chain, i }, 8, meta.parent.bytes);
    meta.first_position = i * 10;
    meta.n_tokens = 10;
    meta.bytes = 1000;
    meta.last_used_time = 100;
    meta.save_reason = HEARTH_SAVE_COLD;
    return meta;
}

static void publish(hth_index *index, const hth_row_meta *meta)
{
    assert_int_equal(test_index_publish(index, meta, 1), HEARTH_OK);
}

static bool has(hth_index *index, const hth_row_meta *meta)
{
    bool found = false;

    assert_int_equal(hth_index_get(index, &meta->id, NULL, &found, NULL), HEARTH_OK);
    return found;
}

static hth_reserve_result reserve(hth_index *index, const hth_row_meta *meta, uint32_t deadline_s)
{
    hth_reserve_result result;

    assert_int_equal(hth_index_reserve(index, &meta->id, 1, deadline_s, &result, NULL), HEARTH_OK);
    return result;
}

static hearth_status evict(hth_index *index, uint64_t bytes_max, hth_row_id *ids, size_t capacity, size_t *n_out)
{
    hth_row_meta rows[256];
    hearth_status status;

    assert_true(capacity <= 256);
    status = hth_index_evict(index, bytes_max, NULL, NULL, rows, capacity, n_out, NULL);
    for (size_t i = 0; i < *n_out; i++)
        ids[i] = rows[i].id;
    return status;
}

static uint64_t total_bytes(hth_index *index)
{
    hth_index_totals totals;

    assert_int_equal(hth_index_totals_get(index, &totals, NULL), HEARTH_OK);
    return totals.bytes;
}

/* Let a crash of this child be one: cmocka's handlers, which fork handed on, would go on with its tests. */
static void end_by_signals(void)
{
    static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGABRT };

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        (void)signal(signals[i], SIG_DFL);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_set_death_callback(abort); /* instead of an exit */
#endif
}

/* Run body in a child and wait for it; its exit status must be 0 unless it is killed by itself. */
static void in_child(fixture *f, void (*body)(fixture *f))
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        end_by_signals();
        body(f);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true((WIFEXITED(status) && WEXITSTATUS(status) == 0) || WIFSIGNALED(status));
}

/* ---- rows ---- */

static void a_published_row_is_found_as_it_was(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta meta = row_at(1, 3), found;
    bool is_there = false;

    meta.hit_count = 7;
    meta.bytes = UINT64_C(1) << 33;
    publish(index, &meta);
    assert_int_equal(hth_index_get(index, &meta.id, &found, &is_there, NULL), HEARTH_OK);
    assert_true(is_there);
    assert_true(hth_row_id_equal(&found.id, &meta.id));
    assert_true(hth_key_equal(&found.parent, &meta.parent));
    assert_int_equal(found.first_position, 30);
    assert_int_equal(found.n_tokens, 10);
    assert_true(found.bytes == meta.bytes);
    assert_int_equal(found.last_used_time, 100);
    assert_int_equal(found.hit_count, 7);
    assert_int_equal(found.save_reason, HEARTH_SAVE_COLD);
    hth_index_close(index);
}

static void totals_follow_what_is_put_in_replaced_and_removed(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta a = row_at(1, 0), b = row_at(1, 1);
    hth_index_totals totals;

    b.id.kind = HTH_ROW_TAIL;
    publish(index, &a);
    publish(index, &b);
    a.bytes = 1500;
    publish(index, &a);
    assert_int_equal(hth_index_totals_get(index, &totals, NULL), HEARTH_OK);
    assert_int_equal(totals.rows, 2);
    assert_int_equal(totals.bytes, 2500);
    assert_int_equal(totals.rows_by_kind[HTH_ROW_BLOCK], 1);
    assert_int_equal(totals.rows_by_kind[HTH_ROW_TAIL], 1);
    assert_true(totals.complete);
    assert_int_equal(hth_index_remove(index, &a.id, 1, NULL), HEARTH_OK);
    assert_int_equal(hth_index_remove(index, &a.id, 1, NULL), HEARTH_OK);
    assert_int_equal(total_bytes(index), 1000);
    hth_index_close(index);
}

static void children_come_most_recently_used_first(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta found[3], rows[5];
    size_t n = 0;

    for (uint32_t i = 0; i < 5; i++) {
        rows[i] = row_at(i, 1);
        rows[i].parent = row_at(9, 0).parent;
        rows[i].last_used_time = 100 + (i * 3) % 5;
    }
    assert_int_equal(test_index_publish(index, rows, 5), HEARTH_OK);
    assert_int_equal(hth_index_children(index, &rows[0].parent, found, 3, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 3);
    assert_int_equal(found[0].last_used_time, 104);
    assert_int_equal(found[1].last_used_time, 103);
    assert_int_equal(found[2].last_used_time, 102);
    assert_int_equal(hth_index_children(index, &rows[0].id.key, found, 3, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 0);
    hth_index_close(index);
}

typedef struct visited {
    uint64_t last_time;
    size_t n;
    size_t n_max;
} visited;

static bool visit_in_order(const hth_row_meta *meta, void *user_data)
{
    visited *v = user_data;

    assert_true(meta->last_used_time >= v->last_time);
    v->last_time = meta->last_used_time;
    return ++v->n < v->n_max;
}

static void a_visit_by_age_begins_with_the_least_recently_used(void **state)
{
    hth_index *index = open_complete(*state);
    visited v = { .n_max = 1000 };

    for (uint32_t i = 0; i < 20; i++) {
        hth_row_meta meta = row_at(i, 0);

        meta.last_used_time = 1000 + i * 7919 % 500;
        publish(index, &meta);
    }
    assert_int_equal(hth_index_visit(index, true, visit_in_order, &v, NULL), HEARTH_OK);
    assert_int_equal(v.n, 20);
    v = (visited){ .n_max = 3 };
    assert_int_equal(hth_index_visit(index, true, visit_in_order, &v, NULL), HEARTH_OK);
    assert_int_equal(v.n, 3);
    hth_index_close(index);
}

/* ---- uses and eviction ---- */

static void a_use_of_a_leaf_is_a_use_of_what_it_stands_on(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta rows[4], found;
    hth_index_use use = { .last_used_time = 500, .hits = 2 };
    bool is_there;

    for (uint32_t i = 0; i < 4; i++)
        rows[i] = row_at(1, i);
    assert_int_equal(test_index_publish(index, rows, 4), HEARTH_OK);
    use.id = rows[2].id;
    assert_int_equal(hth_index_touch(index, &use, 1, NULL), HEARTH_OK);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(hth_index_get(index, &rows[i].id, &found, &is_there, NULL), HEARTH_OK);
        assert_int_equal(found.last_used_time, i <= 2 ? 500 : 100);
        assert_int_equal(found.hit_count, i == 2 ? 2 : 0);
    }
    hth_index_close(index);
}

static void a_use_never_makes_a_row_older(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta meta = row_at(1, 0), found;
    hth_index_use use = { .id = meta.id, .last_used_time = 50, .hits = UINT32_MAX };
    bool is_there;

    publish(index, &meta);
    assert_int_equal(hth_index_touch(index, &use, 1, NULL), HEARTH_OK);
    assert_int_equal(hth_index_touch(index, &use, 1, NULL), HEARTH_OK);
    assert_int_equal(hth_index_get(index, &meta.id, &found, &is_there, NULL), HEARTH_OK);
    assert_int_equal(found.last_used_time, 100);
    assert_true(found.hit_count == UINT32_MAX);
    hth_index_close(index);
}

static void only_rows_without_children_are_evicted_the_oldest_first(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta old[3], recent = row_at(2, 0), logits = row_at(1, 2);
    hth_row_id ids[8];
    size_t n = 0;

    for (uint32_t i = 0; i < 3; i++) {
        old[i] = row_at(1, i);
        old[i].last_used_time = 10;
        publish(index, &old[i]);
    }
    publish(index, &recent);
    /* Logits stand on the row that ends where they are. */
    logits.id.kind = HTH_ROW_LOGITS;
    logits.parent = logits.id.key;
    logits.first_position = 30;
    logits.n_tokens = 0;
    logits.last_used_time = 20;
    publish(index, &logits);

    assert_int_equal(evict(index, 4000, ids, 8, &n), HEARTH_OK);
    assert_int_equal(n, 1);
    assert_true(hth_row_id_equal(&ids[0], &logits.id));
    assert_int_equal(evict(index, 1000, ids, 8, &n), HEARTH_OK);
    assert_int_equal(n, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(hth_row_id_equal(&ids[i], &old[2 - i].id));
    assert_true(has(index, &recent));
    assert_int_equal(total_bytes(index), 1000);
    hth_index_close(index);
}

static uint64_t last_use(hth_index *index, const hth_row_meta *meta)
{
    hth_row_meta found = { .last_used_time = 0 };
    bool is_there = false;

    assert_int_equal(hth_index_get(index, &meta->id, &found, &is_there, NULL), HEARTH_OK);
    assert_true(is_there);
    return found.last_used_time;
}

static void rows_of_a_clock_that_was_ahead_do_not_outlast_those_used_since(void **state)
{
    hth_index *index = open_complete(*state);
    uint64_t now = hth_os_unix_seconds();
    hth_row_meta ahead[3], recent = row_at(2, 0);
    hth_index_use use = { .id = recent.id,
                          .last_used_time = now + 30 }; /* by another process, whose clock is its own */
    hth_row_id ids[8];
    size_t n = 0;

    for (uint32_t i = 0; i < 3; i++) {
        ahead[i] = row_at(1, i);
        ahead[i].last_used_time = now + 1000000 * (i + 1);
        publish(index, &ahead[i]);
    }
    publish(index, &recent);
    assert_int_equal(evict(index, 4000, ids, 8, &n), HEARTH_OK);
    assert_int_equal(n, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_in_range(last_use(index, &ahead[i]), now, hth_os_unix_seconds());
    assert_int_equal(last_use(index, &recent), 100); /* the past stays as it was */
    assert_int_equal(hth_index_touch(index, &use, 1, NULL), HEARTH_OK);
    assert_int_equal(evict(index, 1000, ids, 8, &n), HEARTH_OK);
    assert_int_equal(n, 3);
    assert_true(has(index, &recent));
    assert_int_equal(last_use(index, &recent), now + 30);
    hth_index_close(index);
}

static void an_evicted_row_cannot_be_published_until_its_file_is_gone(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta meta = row_at(1, 0);
    hth_row_id id;
    size_t n;

    publish(index, &meta);
    assert_int_equal(evict(index, 0, &id, 1, &n), HEARTH_OK);
    assert_int_equal(n, 1);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVE_TAKEN);
    assert_int_equal(hth_index_release(index, &id, 1, NULL), HEARTH_OK);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVED);
    hth_index_close(index);
}

static void an_incomplete_index_evicts_nothing(void **state)
{
    bool rebuild;
    hth_index *index = open_boot(*state, NULL, &rebuild);
    hth_row_meta meta = row_at(1, 0);
    hth_row_id id;
    size_t n = 9;

    assert_true(rebuild);
    publish(index, &meta);
    assert_int_equal(evict(index, 0, &id, 1, &n), HEARTH_OK);
    assert_int_equal(n, 0);
    hth_index_close(index);
}

static void rows_that_name_each_other_as_parents_can_still_be_evicted(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta a = row_at(1, 0), b = row_at(1, 1);
    hth_row_id ids[2];
    size_t n;

    a.parent = b.id.key;
    publish(index, &a);
    publish(index, &b);
    assert_int_equal(evict(index, 0, ids, 2, &n), HEARTH_OK);
    assert_int_equal(n, 2);
    hth_index_close(index);
}

static void eviction_keeps_the_totals_and_the_rows_of_a_naive_model(void **state)
{
    uint64_t seed = hth_test_seed();
    hth_index *index = open_complete(*state);
    enum { N = 200 };
    bool is_there[N] = { false };
    hth_row_meta rows[N];

    for (uint32_t i = 0; i < N; i++)
        rows[i] = row_at(i / 5, i % 5);
    for (int round = 0; round < 300; round++) {
        uint32_t i = (uint32_t)hth_test_random(&seed, N);
        size_t n = 0, n_there = 0;
        hth_row_id ids[N];

        switch (hth_test_random(&seed, 4)) {
        case 0:
        case 1:
            rows[i].last_used_time = hth_test_random(&seed, 1000);
            publish(index, &rows[i]);
            is_there[i] = true;
            break;
        case 2:
            assert_int_equal(hth_index_remove(index, &rows[i].id, 1, NULL), HEARTH_OK);
            is_there[i] = false;
            break;
        case 3:
            assert_int_equal(evict(index, total_bytes(index) / 1000 * 900, ids, N, &n), HEARTH_OK);
            for (size_t k = 0; k < n; k++)
                for (uint32_t j = 0; j < N; j++)
                    if (hth_row_id_equal(&ids[k], &rows[j].id)) {
                        assert_true(is_there[j]);
                        is_there[j] = false;
                        /* It was a leaf, or what stood on it went before it. */
                        assert_false(j % 5 < 4 && is_there[j + 1]);
                    }
            assert_int_equal(hth_index_release(index, ids, n, NULL), HEARTH_OK);
            break;
        }
        for (uint32_t j = 0; j < N; j++) {
            assert_int_equal(has(index, &rows[j]), is_there[j]);
            n_there += is_there[j];
        }
        assert_int_equal(total_bytes(index), n_there * 1000);
    }
    hth_index_close(index);
}

/* ---- reservations ---- */

static void a_reservation_keeps_others_out_until_it_is_released(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta meta = row_at(1, 0);
    bool ours = false;

    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVED);
    assert_int_equal(hth_index_reservation_is_ours(index, &meta.id, &ours, NULL), HEARTH_OK);
    assert_true(ours);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVE_TAKEN);
    assert_int_equal(hth_index_release(index, &meta.id, 1, NULL), HEARTH_OK);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVED);
    publish(index, &meta);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVE_EXISTS);
    assert_int_equal(hth_index_reservation_is_ours(index, &meta.id, &ours, NULL), HEARTH_OK);
    assert_false(ours);
    hth_index_close(index);
}

static void a_reservation_of_a_stopped_process_whose_deadline_passed_is_taken_over(void **state)
{
    hth_row_meta meta = row_at(1, 0);
    pid_t child = fork();
    hth_index *index;
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        index = open_complete(*state);
        if (reserve(index, &meta, 0) != HTH_RESERVED)
            _exit(1);
        (void)raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    index = open_complete(*state);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVED);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVE_TAKEN);
    hth_index_close(index);
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void a_reservation_that_a_thread_of_ours_holds_has_no_deadline(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta meta = row_at(1, 0);

    assert_int_equal(reserve(index, &meta, 0), HTH_RESERVED);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVE_TAKEN);
    assert_int_equal(hth_index_release(index, &meta.id, 1, NULL), HEARTH_OK);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVED);
    hth_index_close(index);
}

static void reserve_and_die(fixture *f)
{
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0);

    if (reserve(index, &meta, 600) == HTH_RESERVED)
        (void)kill(getpid(), SIGKILL);
}

static void a_reservation_of_a_dead_owner_is_taken_over(void **state)
{
    fixture *f = *state;
    hth_row_meta meta = row_at(1, 0);
    hth_row_id orphan;
    hth_index *index;
    size_t n = 0;

    in_child(f, reserve_and_die);
    index = open_complete(f);
    assert_int_equal(hth_index_orphans(index, &orphan, 1, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 1);
    assert_true(hth_row_id_equal(&orphan, &meta.id));
    assert_int_equal(reserve(index, &meta, 600), HTH_RESERVED);
    assert_int_equal(hth_index_orphans(index, &orphan, 1, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 0);
    hth_index_close(index);
}

static void an_adopted_row_does_not_displace_the_one_that_is_known(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta known = row_at(1, 0), rows[2] = { row_at(1, 0), row_at(1, 1) }, found;
    size_t n_adopted = 9;
    bool is_there;

    known.hit_count = 5;
    publish(index, &known);
    assert_int_equal(test_index_adopt(index, rows, 2, &n_adopted), HEARTH_OK);
    assert_int_equal(n_adopted, 1);
    assert_int_equal(hth_index_get(index, &known.id, &found, &is_there, NULL), HEARTH_OK);
    assert_int_equal(found.hit_count, 5);
    assert_true(has(index, &rows[1]));
    hth_index_close(index);
}

static void a_row_that_somebody_is_writing_is_not_adopted(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta meta = row_at(1, 0);
    size_t n_adopted = 9;

    assert_int_equal(reserve(index, &meta, 600), HTH_RESERVED);
    assert_int_equal(test_index_adopt(index, &meta, 1, &n_adopted), HEARTH_OK);
    assert_int_equal(n_adopted, 0);
    assert_false(has(index, &meta));
    hth_index_close(index);
}

/* ---- life ---- */

static void an_index_stays_what_it_was_when_it_is_opened_again(void **state)
{
    hth_index *index = open_complete(*state);
    hth_row_meta meta = row_at(1, 0);
    bool rebuild = true;
    uint64_t quota = 0;

    publish(index, &meta);
    assert_int_equal(hth_index_set_quota(index, 12345, NULL), HEARTH_OK);
    hth_index_close(index);
    index = open_boot(*state, NULL, &rebuild);
    assert_false(rebuild);
    assert_true(has(index, &meta));
    assert_int_equal(hth_index_quota(index, &quota, NULL), HEARTH_OK);
    assert_int_equal(quota, 12345);
    hth_index_close(index);
}

static void an_index_of_another_boot_is_made_anew(void **state)
{
    fixture *f = *state;
    bool rebuild = false;
    hth_index *index = open_boot(f, "boot-1", &rebuild);
    hth_row_meta meta = row_at(1, 0);
    char path[8192];

    publish(index, &meta);
    assert_int_equal(hth_index_rebuilt(index, NULL), HEARTH_OK);
    hth_index_close(index);
    index = open_boot(f, "boot-2", &rebuild);
    assert_true(rebuild);
    assert_false(has(index, &meta));
    hth_index_close(index);
    (void)snprintf(path, sizeof(path), "%s/v3-boot-1", f->index);
    assert_int_equal(access(path, F_OK), -1);
}

static void a_rebuild_that_was_not_finished_is_given_to_the_next_who_opens(void **state)
{
    bool rebuild = false;
    hth_index *index = open_boot(*state, NULL, &rebuild), *second;

    assert_true(rebuild);
    second = open_boot(*state, NULL, &rebuild);
    assert_false(rebuild); /* somebody is at it */
    hth_index_close(second);
    hth_index_close(index);
    index = open_boot(*state, NULL, &rebuild);
    assert_true(rebuild);
    assert_int_equal(hth_index_rebuilt(index, NULL), HEARTH_OK);
    assert_false(hth_index_maintain(index));
    hth_index_close(index);
}

static void a_second_open_in_one_process_shares_the_first(void **state)
{
    hth_index *first = open_complete(*state), *second = open_complete(*state);
    hth_row_meta meta = row_at(1, 0);

    assert_ptr_equal(first, second);
    hth_index_close(first);
    publish(second, &meta);
    assert_true(has(second, &meta));
    hth_index_close(second);
}

/* Overwrite n_bytes of the data file at offset with noise. */
static void damage(const fixture *f, off_t offset, size_t n_bytes)
{
    char command[9000], path[8192];
    uint8_t noise[65536];
    FILE *found;
    int fd;

    (void)snprintf(command, sizeof(command), "ls -d %s/v3-*", f->index);
    found = popen(command, "r");
    assert_non_null(found);
    assert_non_null(fgets(path, sizeof(path) - 16, found));
    (void)pclose(found);
    path[strcspn(path, "\n")] = '\0';
    strcat(path, "/data.mdb");
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_true(n_bytes <= sizeof(noise));
    hth_os_random(noise, n_bytes);
    assert_int_equal(pwrite(fd, noise, n_bytes, offset), n_bytes);
    close(fd);
}

static void an_index_with_damaged_meta_pages_is_made_anew_with_no_loss_but_its_rows(void **state)
{
    fixture *f = *state;
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0);
    bool rebuild = false;

    publish(index, &meta);
    hth_index_close(index);
    damage(f, 0, 16384);
    index = open_boot(f, NULL, &rebuild);
    assert_true(rebuild);
    assert_false(has(index, &meta));
    publish(index, &meta);
    assert_true(has(index, &meta));
    hth_index_close(index);
}

static void use_damaged(fixture *f)
{
    hth_row_meta meta = row_at(1, 50), found[4];
    hth_index *index;
    bool is_there;
    size_t n;

    /* LMDB may end the process at any of these; what matters is that it does not do so for ever. */
    (void)freopen("/dev/null", "w", stderr);
    index = open_boot(f, NULL, NULL);
    (void)hth_index_get(index, &meta.id, found, &is_there, NULL);
    (void)hth_index_children(index, &meta.parent, found, 4, &n, NULL);
    (void)test_index_publish(index, &meta, 1);
    (void)hth_index_maintain(index);
    hth_index_close(index);
}

static void an_index_full_of_noise_is_given_up_after_a_few_crashes_at_most(void **state)
{
    fixture *f = *state;
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0), rows[200];

    for (uint32_t i = 0; i < 200; i++)
        rows[i] = row_at(1, i);
    assert_int_equal(test_index_publish(index, rows, 200), HEARTH_OK);
    hth_index_close(index);
    damage(f, 8192, 49152); /* all but the two meta pages */
    for (int i = 0; i < 4; i++)
        in_child(f, use_damaged);

    index = open_complete(f);
    (void)hth_index_maintain(index);
    publish(index, &meta);
    assert_true(has(index, &meta));
    hth_index_close(index);
}

/* Pages full of zeros: what a lengthened or torn file has. */
static void zero_pages(const fixture *f, off_t from)
{
    char command[9000];

    (void)snprintf(command, sizeof(command), "truncate -s %ld %s/v3-*/data.mdb", (long)from, f->index);
    assert_int_equal(system(command), 0);
}

static void an_index_that_lost_its_end_is_replaced_at_the_first_sign_of_damage(void **state)
{
    fixture *f = *state;
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0), rows[100];
    bool rebuild, found;
    hth_index_totals totals;
    hearth_status status;

    for (uint32_t i = 0; i < 100; i++)
        rows[i] = row_at(2, i);
    assert_int_equal(test_index_publish(index, rows, 100), HEARTH_OK);
    hth_index_close(index);
    zero_pages(f, 8192); /* only the two meta pages are left */

    index = open_boot(f, NULL, &rebuild);
    status = hth_index_get(index, &meta.id, NULL, &found, NULL);
    assert_true(status == HEARTH_OK || status == HEARTH_CORRUPT || status == HEARTH_IO);
    if (!rebuild)
        rebuild = hth_index_maintain(index);
    assert_true(rebuild);
    assert_true(f->n_warnings <= 1);
    publish(index, &meta);
    assert_int_equal(hth_index_totals_get(index, &totals, NULL), HEARTH_OK);
    assert_int_equal(totals.rows, 1);
    hth_index_close(index);
}

static void a_file_in_the_place_of_the_index_leaves_one_warning_and_statuses(void **state)
{
    fixture *f = *state;
    char path[8192], boot[64];
    hth_row_meta meta = row_at(1, 0);
    hth_reserve_result result;
    hth_index *index;
    bool rebuild = true, found;

    assert_int_equal(mkdir(f->index, 0700), 0);
    assert_true(hth_os_boot_id(boot, sizeof(boot)));
    (void)snprintf(path, sizeof(path), "%s/v3-%s", f->index, boot);
    assert_true(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);

    index = open_boot(f, NULL, &rebuild);
    assert_false(rebuild);
    assert_int_equal(hth_index_get(index, &meta.id, NULL, &found, NULL), HEARTH_IO);
    assert_int_equal(test_index_publish(index, &meta, 1), HEARTH_IO);
    assert_int_equal(hth_index_reserve(index, &meta.id, 1, 60, &result, NULL), HEARTH_IO);
    assert_int_equal(f->n_warnings, 1);
    /* Once the cause is gone, it works. */
    assert_int_equal(unlink(path), 0);
    assert_true(hth_index_maintain(index));
    publish(index, &meta);
    assert_true(has(index, &meta));
    hth_index_close(index);
}

static void an_index_that_another_process_replaced_is_followed(void **state)
{
    fixture *f = *state;
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0);
    char command[9000];

    publish(index, &meta);
    (void)snprintf(command, sizeof(command), "rm -r %s/v3-*", f->index);
    assert_int_equal(system(command), 0);
    assert_true(has(index, &meta)); /* the old one, which is no harm */
    assert_true(hth_index_maintain(index));
    assert_false(has(index, &meta));
    publish(index, &meta);
    assert_true(has(index, &meta));
    hth_index_close(index);
}

static void open_and_die(fixture *f)
{
    hth_index *index = open_complete(f);

    if (index)
        (void)kill(getpid(), SIGKILL);
}

static void three_processes_in_a_row_that_die_cost_the_index(void **state)
{
    fixture *f = *state;
    hth_index *index = open_complete(f);
    bool rebuild = false;

    hth_index_close(index);
    in_child(f, open_and_die);
    in_child(f, open_and_die);
    index = open_boot(f, NULL, &rebuild);
    assert_false(rebuild);
    hth_index_close(index); /* a process that ended well begins the count anew */
    in_child(f, open_and_die);
    in_child(f, open_and_die);
    in_child(f, open_and_die);
    index = open_boot(f, NULL, &rebuild);
    assert_true(rebuild);
    hth_index_close(index);
}

static hth_index *index_of_parent;

static void use_index_of_parent(fixture *f)
{
    hth_row_meta meta = row_at(1, 0);
    hth_index *own;
    bool found;

    if (hth_index_get(index_of_parent, &meta.id, NULL, &found, NULL) != HEARTH_MISUSE ||
        test_index_publish(index_of_parent, &meta, 1) != HEARTH_MISUSE || hth_index_maintain(index_of_parent))
        _exit(1);
    own = open_complete(f);
    if (own == index_of_parent || !has(own, &meta))
        _exit(2);
    hth_index_close(own);
    hth_index_close(index_of_parent);
}

static void the_child_of_a_fork_cannot_use_its_parents_index_but_opens_its_own(void **state)
{
    hth_row_meta meta = row_at(1, 0), other = row_at(1, 1);

    index_of_parent = open_complete(*state);
    publish(index_of_parent, &meta);
    in_child(*state, use_index_of_parent);
    publish(index_of_parent, &other);
    assert_true(has(index_of_parent, &meta));
    hth_index_close(index_of_parent);
}

/* ---- growth and threads ---- */

enum { GROWTH_BATCHES = 260, GROWTH_BATCH_ROWS = 256 };

static void fill(hth_index *index, uint32_t chain)
{
    hth_row_meta *rows = calloc(GROWTH_BATCH_ROWS, sizeof(*rows));

    assert_non_null(rows);
    for (uint32_t batch = 0; batch < GROWTH_BATCHES; batch++) {
        for (uint32_t i = 0; i < GROWTH_BATCH_ROWS; i++)
            rows[i] = row_at(chain, batch * GROWTH_BATCH_ROWS + i);
        assert_int_equal(test_index_publish(index, rows, GROWTH_BATCH_ROWS), HEARTH_OK);
    }
    free(rows);
}

typedef struct reader {
    hth_index *index;
    _Atomic bool stop;
    size_t n_reads;
} reader;

static void *read_all_the_time(void *context)
{
    reader *r = context;
    hth_row_meta meta = row_at(77, 0), found;

    while (!atomic_load(&r->stop)) {
        bool is_there = false;
        hearth_status status = hth_index_get(r->index, &meta.id, &found, &is_there, NULL);

        if (status != HEARTH_OK || !is_there || found.bytes != meta.bytes)
            break;
        r->n_reads++;
    }
    return r;
}

static void the_map_grows_while_other_threads_read(void **state)
{
    fixture *f = *state;
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(77, 0);
    reader readers[3];
    pthread_t threads[3];

    publish(index, &meta);
    for (int i = 0; i < 3; i++) {
        readers[i] = (reader){ .index = index };
        assert_int_equal(pthread_create(&threads[i], NULL, read_all_the_time, &readers[i]), 0);
    }
    fill(index, 1);
    for (int i = 0; i < 3; i++) {
        atomic_store(&readers[i].stop, true);
        pthread_join(threads[i], NULL);
        assert_true(readers[i].n_reads > 0);
    }
    assert_true(has(index, &meta));
    assert_int_equal(total_bytes(index), (UINT64_C(1) + GROWTH_BATCHES * GROWTH_BATCH_ROWS) * 1000);
    assert_int_equal(f->n_warnings, 0);
    hth_index_close(index);
}

static void fill_in_child(fixture *f)
{
    hth_index *index = open_complete(f);

    fill(index, 2);
    hth_index_close(index);
}

static void a_map_that_another_process_grew_is_grown_here_too(void **state)
{
    fixture *f = *state;
    hth_row_meta meta = row_at(1, 0), theirs = row_at(2, GROWTH_BATCHES * GROWTH_BATCH_ROWS - 1);
    hth_index *index;
    pid_t child;
    int status;

    index = open_complete(f);
    publish(index, &meta);
    child = fork();
    if (child == 0) {
        fill_in_child(f);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(has(index, &theirs)); /* a read takes the new size */
    publish(index, &theirs);          /* so does a write */
    assert_true(has(index, &meta));
    hth_index_close(index);
}

/* ---- owners ---- */

static void an_owner_lives_while_its_file_is_locked(void **state)
{
    fixture *f = *state;
    hth_owner *first = NULL, *second = NULL;
    uint64_t token;

    assert_int_equal(hth_owner_open(hth_fs_system(), f->owners, &first, NULL), HEARTH_OK);
    assert_int_equal(hth_owner_open(hth_fs_system(), f->owners, &second, NULL), HEARTH_OK);
    token = hth_owner_token(first);
    assert_true(token != hth_owner_token(second));
    assert_true(hth_owner_lives(second, token));
    assert_true(hth_owner_lives(first, token));
    assert_int_equal(hth_owner_sweep(second), 0);
    hth_owner_close(first);
    assert_false(hth_owner_lives(second, token));
    assert_false(hth_owner_lives(second, 12345));
    hth_owner_close(second);
}

static void die_as_owner(fixture *f)
{
    hth_owner *owner;

    if (hth_owner_open(hth_fs_system(), f->owners, &owner, NULL) == HEARTH_OK)
        (void)kill(getpid(), SIGKILL);
}

static void files_of_dead_owners_are_swept(void **state)
{
    fixture *f = *state;
    hth_owner *owner;

    in_child(f, die_as_owner);
    in_child(f, die_as_owner);
    assert_int_equal(hth_owner_open(hth_fs_system(), f->owners, &owner, NULL), HEARTH_OK);
    assert_int_equal(hth_owner_sweep(owner), 2);
    assert_int_equal(hth_owner_sweep(owner), 0);
    hth_owner_close(owner);
}

#define IN_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FIXTURE(a_published_row_is_found_as_it_was),
        IN_FIXTURE(totals_follow_what_is_put_in_replaced_and_removed),
        IN_FIXTURE(children_come_most_recently_used_first),
        IN_FIXTURE(a_visit_by_age_begins_with_the_least_recently_used),
        IN_FIXTURE(a_use_of_a_leaf_is_a_use_of_what_it_stands_on),
        IN_FIXTURE(a_use_never_makes_a_row_older),
        IN_FIXTURE(only_rows_without_children_are_evicted_the_oldest_first),
        IN_FIXTURE(rows_of_a_clock_that_was_ahead_do_not_outlast_those_used_since),
        IN_FIXTURE(an_evicted_row_cannot_be_published_until_its_file_is_gone),
        IN_FIXTURE(an_incomplete_index_evicts_nothing),
        IN_FIXTURE(rows_that_name_each_other_as_parents_can_still_be_evicted),
        IN_FIXTURE(eviction_keeps_the_totals_and_the_rows_of_a_naive_model),
        IN_FIXTURE(a_reservation_keeps_others_out_until_it_is_released),
        IN_FIXTURE(a_reservation_of_a_stopped_process_whose_deadline_passed_is_taken_over),
        IN_FIXTURE(a_reservation_that_a_thread_of_ours_holds_has_no_deadline),
        IN_FIXTURE(a_reservation_of_a_dead_owner_is_taken_over),
        IN_FIXTURE(an_adopted_row_does_not_displace_the_one_that_is_known),
        IN_FIXTURE(a_row_that_somebody_is_writing_is_not_adopted),
        IN_FIXTURE(an_index_stays_what_it_was_when_it_is_opened_again),
        IN_FIXTURE(an_index_of_another_boot_is_made_anew),
        IN_FIXTURE(a_rebuild_that_was_not_finished_is_given_to_the_next_who_opens),
        IN_FIXTURE(a_second_open_in_one_process_shares_the_first),
        IN_FIXTURE(an_index_with_damaged_meta_pages_is_made_anew_with_no_loss_but_its_rows),
        IN_FIXTURE(an_index_full_of_noise_is_given_up_after_a_few_crashes_at_most),
        IN_FIXTURE(an_index_that_lost_its_end_is_replaced_at_the_first_sign_of_damage),
        IN_FIXTURE(a_file_in_the_place_of_the_index_leaves_one_warning_and_statuses),
        IN_FIXTURE(an_index_that_another_process_replaced_is_followed),
        IN_FIXTURE(three_processes_in_a_row_that_die_cost_the_index),
        IN_FIXTURE(the_child_of_a_fork_cannot_use_its_parents_index_but_opens_its_own),
        IN_FIXTURE(the_map_grows_while_other_threads_read),
        IN_FIXTURE(a_map_that_another_process_grew_is_grown_here_too),
        IN_FIXTURE(an_owner_lives_while_its_file_is_locked),
        IN_FIXTURE(files_of_dead_owners_are_swept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
