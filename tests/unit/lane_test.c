/*
 * lane_test.c - clients take turns at the threads of a lane
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "worker/lane.h"

enum { WORKS_MAX = 64 };

/* Work is a letter: a capital one holds its thread until the stage opens. */
typedef struct stage {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_open;
    unsigned n_held;
    char done[WORKS_MAX + 1]; /* in the order of their beginning */
    unsigned n_done;
    hth_lane *lane;
} stage;

static char letters[] = "ABCabcdefgh";

static void run(void *work, void *user_data)
{
    stage *s = user_data;
    const char *letter = work;

    pthread_mutex_lock(&s->lock);
    s->done[s->n_done++] = *letter;
    pthread_cond_broadcast(&s->changed);
    if (*letter < 'a') {
        s->n_held++;
        while (!s->is_open)
            pthread_cond_wait(&s->changed, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

static void open_lane(stage *s, unsigned n_threads, unsigned n_waiting_max)
{
    const hth_lane_options options = {
        .n_threads = n_threads, .n_waiting_max = n_waiting_max, .gives_way = true, .run = run, .user_data = s
    };
    hearth_error err;

    *s = (stage){ .n_held = 0 };
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    assert_int_equal(hth_lane_new(&options, &s->lane, &err), HEARTH_OK);
}

static bool put(stage *s, const char *client, char letter)
{
    return hth_lane_put(s->lane, client, strchr(letters, letter));
}

static void wait_for(stage *s, const unsigned *number, unsigned least)
{
    pthread_mutex_lock(&s->lock);
    while (*number < least)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void close_lane(stage *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_open = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    hth_lane_end(s->lane);
    assert_false(put(s, NULL, 'a'));
    hth_lane_free(s->lane);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

TEST(a_lane_works_with_all_of_its_threads)
{
    stage s;

    open_lane(&s, 3, 10);
    for (int i = 0; i < 3; i++)
        assert_true(put(&s, NULL, 'A'));
    wait_for(&s, &s.n_held, 3);
    close_lane(&s);
}

TEST(a_client_with_a_name_leaves_a_thread_to_others)
{
    stage s;

    open_lane(&s, 3, 10);
    for (int i = 0; i < 5; i++)
        assert_true(put(&s, "long", 'A'));
    wait_for(&s, &s.n_held, 2);
    assert_true(put(&s, "short", 'b'));
    assert_true(put(&s, NULL, 'c'));
    wait_for(&s, &s.n_done, 4);
    assert_int_equal(s.n_held, 2);
    close_lane(&s);
    assert_int_equal(s.n_held, 5);
}

TEST(clients_take_turns_and_each_has_its_own_order)
{
    stage s;

    open_lane(&s, 1, 10);
    assert_true(put(&s, "x", 'A'));
    wait_for(&s, &s.n_held, 1);
    for (const char *c = "abc"; *c; c++)
        assert_true(put(&s, "x", *c));
    assert_true(put(&s, "y", 'd'));
    assert_true(put(&s, "z", 'e'));
    assert_true(put(&s, "y", 'f'));
    close_lane(&s);
    assert_string_equal(s.done, "Aadebfc");
}

TEST(more_work_than_may_wait_is_refused)
{
    stage s;

    open_lane(&s, 1, 2);
    assert_true(put(&s, "x", 'A'));
    wait_for(&s, &s.n_held, 1);
    assert_true(put(&s, "x", 'a'));
    assert_true(put(&s, "y", 'b'));
    assert_false(put(&s, "z", 'c'));
    close_lane(&s);
    assert_string_equal(s.done, "Aab");
}

typedef struct putter {
    stage *stage;
    int number;
} putter;

enum { PUTTERS = 4, EACH = 2000 };

static atomic_uint n_counted;

static void count(void *work, void *user_data)
{
    (void)work, (void)user_data;
    atomic_fetch_add(&n_counted, 1);
}

static void *put_many(void *context)
{
    putter *p = context;
    char name[16];

    for (int i = 0; i < EACH; i++) {
        (void)snprintf(name, sizeof(name), "%d", (p->number + i) % 7); /* fits */
        assert_true(hth_lane_put(p->stage->lane, i % 7 ? name : NULL, letters));
    }
    return NULL;
}

TEST(no_work_is_lost_between_threads)
{
    const hth_lane_options options = { .n_threads = 3, .n_waiting_max = PUTTERS * EACH, .run = count };
    stage s = { .n_held = 0 };
    putter putters[PUTTERS];
    pthread_t threads[PUTTERS];
    hearth_error err;

    assert_int_equal(hth_lane_new(&options, &s.lane, &err), HEARTH_OK);
    for (int i = 0; i < PUTTERS; i++) {
        putters[i] = (putter){ .stage = &s, .number = i };
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, &putters[i]), 0);
    }
    for (int i = 0; i < PUTTERS; i++)
        pthread_join(threads[i], NULL);
    hth_lane_free(s.lane);
    assert_int_equal(atomic_load(&n_counted), PUTTERS * EACH);
}
