/*
 * index_test.c - the index alone: rows that are only metadata, without files
 */
#include "support/index_damage.h"
#include "support/index_scene.h"

/* ---- rows ---- */

IN_FIXTURE(a_published_row_is_found_as_it_was)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(totals_follow_what_is_put_in_replaced_and_removed)
{
    hth_index *index = open_complete(f);
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
    assert_int_equal(hth_index_remove_lost(index, &a.id, 1, NULL, NULL, NULL, NULL), HEARTH_OK);
    assert_int_equal(hth_index_remove_lost(index, &a.id, 1, NULL, NULL, NULL, NULL), HEARTH_OK);
    assert_int_equal(total_bytes(index), 1000);
    hth_index_close(index);
}

IN_FIXTURE(children_come_most_recently_used_first)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(a_visit_by_age_begins_with_the_least_recently_used)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(a_use_of_a_leaf_is_a_use_of_what_it_stands_on)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(a_use_never_makes_a_row_older)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(only_rows_without_children_are_evicted_the_oldest_first)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(rows_of_a_clock_that_was_ahead_do_not_outlast_those_used_since)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(an_evicted_row_cannot_be_published_until_its_file_is_gone)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(an_incomplete_index_evicts_nothing)
{
    bool rebuild;
    hth_index *index = open_boot(f, NULL, &rebuild);
    hth_row_meta meta = row_at(1, 0);
    hth_row_id id;
    size_t n = 9;

    assert_true(rebuild);
    publish(index, &meta);
    assert_int_equal(evict(index, 0, &id, 1, &n), HEARTH_OK);
    assert_int_equal(n, 0);
    hth_index_close(index);
}

IN_FIXTURE(rows_that_name_each_other_as_parents_can_still_be_evicted)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(eviction_keeps_the_totals_and_the_rows_of_a_naive_model)
{
    uint64_t seed = hth_test_seed();
    hth_index *index = open_complete(f);
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
            assert_int_equal(hth_index_remove_lost(index, &rows[i].id, 1, NULL, NULL, NULL, NULL), HEARTH_OK);
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

IN_FIXTURE(a_reservation_keeps_others_out_until_it_is_released)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(a_reservation_of_a_stopped_process_whose_deadline_passed_is_taken_over)
{
    hth_row_meta meta = row_at(1, 0);
    pid_t child = fork();
    hth_index *index;
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        index = open_complete(f);
        if (reserve(index, &meta, 0) != HTH_RESERVED)
            _exit(1);
        (void)raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    index = open_complete(f);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVED);
    assert_int_equal(reserve(index, &meta, 60), HTH_RESERVE_TAKEN);
    hth_index_close(index);
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

IN_FIXTURE(a_reservation_that_a_thread_of_ours_holds_has_no_deadline)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(a_reservation_of_a_dead_owner_is_taken_over)
{
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

IN_FIXTURE(an_adopted_row_does_not_displace_the_one_that_is_known)
{
    hth_index *index = open_complete(f);
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

IN_FIXTURE(a_row_that_somebody_is_writing_is_not_adopted)
{
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0);
    size_t n_adopted = 9;

    assert_int_equal(reserve(index, &meta, 600), HTH_RESERVED);
    assert_int_equal(test_index_adopt(index, &meta, 1, &n_adopted), HEARTH_OK);
    assert_int_equal(n_adopted, 0);
    assert_false(has(index, &meta));
    hth_index_close(index);
}

/* ---- leaves ---- */

static bool damage_one_row(fixture *f, size_t i)
{
    uint64_t random = 1;
    char text[200];

    return test_index_damage_record(f->directory, i, TEST_RECORD_LOST, &random, text, sizeof(text));
}

/* A child in memory was found first, and the index has a longer one whose record is lost. */
IN_FIXTURE(a_search_that_meets_a_lost_record_keeps_what_it_had_found)
{
    hth_index *index = open_complete(f);
    hth_row_head head = { .meta = row_at(1, 3), .has_tokens = true };
    hth_leaf_search search = { .boundary = head.meta.parent, .position = 30, .n_tokens = 10, .n_rows_max = 8 };
    hearth_token tokens[10];

    head.meta.id.kind = HTH_ROW_TAIL;
    for (int i = 0; i < 10; i++)
        tokens[i] = head.tokens[i] = 100 + i;
    assert_int_equal(hth_index_publish(index, &head, 1, NULL), HEARTH_OK);
    hth_index_close(index);
    assert_true(damage_one_row(f, 0));

    index = open_complete(f);
    search.tokens = tokens;
    search.n_shared = 4;
    search.row = row_at(2, 3);
    search.row.n_tokens = 4;
    assert_int_equal(hth_index_find_leaf(index, &search, NULL), HEARTH_CORRUPT);
    assert_int_equal(search.n_shared, 4);
    assert_int_equal(search.row.n_tokens, 4);
    hth_index_close(index);
}
