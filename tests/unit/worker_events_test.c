/*
 * worker_events_test.c - what operators are told while a worker loads its model and hashes the model's file
 */
#include "supervisor/event_feed.h"
#include "support/supervisor_stage.h"

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static char told[4096]; /* "EVENT PROGRESS\n" of each one but residency */

/* In place of the feed's. */
void hth_event_feed_tell_take(hth_event_feed *feed, const char *name, json_t *value)
{
    const json_t *progress = json_object_get(value, "progress");
    const size_t n = strlen(told);

    (void)feed;
    if (strcmp(name, "residency") != 0)
        (void)snprintf(told + n, sizeof(told) - n, progress ? "%s %.2f\n" : "%s\n", name, json_real_value(progress));
    json_decref(value);
}

static bool was_told(const char *event)
{
    return strstr(told, event) != NULL;
}

FIXTURE_TEST(events_tell_how_far_a_model_is_loaded_and_then_how_far_its_file_is_hashed)
{
    told[0] = '\0';
    (void)add(f, "m", WORDS("say=loading 0.25", "say=loading 0.62", "ready", "say=hashing 0.62", "say=hashing 1"));
    start(f);
    run_until(f, was_told("hashing 1.00\n"));
    assert_string_equal(told, "load\nprogress 0.25\nprogress 0.60\nready\nhashing 0.60\nhashing 1.00\n");
}

FIXTURE_TEST(events_of_hashing_come_in_steps_of_a_twentieth_at_least)
{
    told[0] = '\0';
    (void)add(f, "m",
              WORDS("ready", "say=hashing 0.04", "say=hashing 0.06", "say=hashing 0.07", "say=hashing 0.09",
                    "say=hashing 0.12", "say=hashing 0.99"));
    start(f);
    run_until(f, was_told("hashing 0.95\n"));
    assert_string_equal(told, "load\nready\nhashing 0.05\nhashing 0.10\nhashing 0.95\n");
}

FIXTURE_TEST(each_process_of_a_model_tells_its_own_hashing)
{
    told[0] = '\0';
    (void)add(f, "m", WORDS("ready", "say=hashing 0.25"));
    start(f);
    run_until(f, was_told("hashing 0.25\n"));
    send_signal(view(f, 0).pid, SIGKILL);
    run_until(f, was_told("death\n"));
    told[0] = '\0';
    run_until(f, was_told("hashing 0.25\n"));
    assert_string_equal(told, "load\nready\nhashing 0.25\n");
}
