/*
 * event_queue_test.c - events of a request come out in an order that keeps text next to its token
 */
#include <stdlib.h>
#include <string.h>

#include "models/model_inside.h"
#include "sched/result.h"
#include "support/cmocka_all.h"
#include "worker/event_queue.h"

enum { ID = 10 };

typedef struct fixture {
    hth_event_queue *queue;
    hth_request_events *events;
    hth_request_part part;
    hearth_request request; /* as the scheduler has it, with the callbacks that put events into the queue */
    hearth_model model;     /* of which a source needs a list */
} fixture;

static void fixture_init(fixture *f)
{
    hearth_error err = { .message = "" };

    assert_int_equal(hth_event_queue_new(&f->queue, &err), HEARTH_OK);
    f->events = hth_request_events_new(f->queue, 2, f);
    assert_non_null(f->events);
    f->part = (hth_request_part){ .events = f->events, .id = ID };
    f->request = hearth_request_default();
    f->request.n = 2;
    hth_request_part_connect(&f->part, &f->request);
    assert_int_equal(hth_events_connect(&f->model, &f->request, true, &f->part.source, &err), HEARTH_OK);
    hth_events_begin(f->part.source, ID);
    hth_request_part_open(&f->part);
}

/* The round is over, and the loop takes its events. */
static void take(fixture *f)
{
    hth_events_round(&f->model);
    hth_event_queue_collect(f->queue);
    assert_ptr_equal(hth_event_queue_take(f->queue), f->events);
}

static void fixture_deinit(fixture *f)
{
    hth_request_events_free(f->events);
    hth_event_queue_free(f->queue);
}

static void tell_token(fixture *f, uint32_t reply, hearth_token token, const char *text)
{
    const hearth_token_event event = { .token = token, .text = text, .n_bytes = strlen(text) };

    assert_true(f->request.on_token(ID + reply, &event, f->request.user_data));
}

static hth_counted_result *result_new(void)
{
    hth_counted_result *result = hth_counted_result_new();

    assert_non_null(result);
    result->shown.finish_reason = HEARTH_FINISH_STOP;
    result->shown.stop_number = 3;
    return result;
}

static void tell_end(fixture *f, uint32_t reply, const char *text)
{
    hth_counted_result *result = result_new();

    if (text[0])
        assert_true(f->request.on_text(ID + reply, text, strlen(text), f->request.user_data));
    f->request.on_done(ID + reply, &result->shown, f->request.user_data);
    hearth_result_unref(&result->shown);
}

static void expect(fixture *f, hth_reply_event_kind kind, uint32_t reply, const char *text)
{
    hth_reply_event event;

    assert_true(hth_event_queue_read(f->queue, &event));
    assert_int_equal(event.kind, kind);
    assert_int_equal(event.reply, reply);
    if (kind == HTH_REPLY_EVENT_TOKEN || kind == HTH_REPLY_EVENT_TEXT) {
        assert_int_equal(event.token.n_bytes, strlen(text));
        assert_string_equal(event.token.text, text);
    }
    if (kind == HTH_REPLY_EVENT_DONE)
        assert_int_equal(event.result->stop_number, 3);
}

TEST(text_held_back_to_the_end_comes_right_before_the_end)
{
    fixture f;
    hth_reply_event event;

    fixture_init(&f);
    tell_token(&f, 0, 'a', "a");
    tell_token(&f, 1, 'b', "b");
    tell_end(&f, 0, "held");
    tell_token(&f, 1, 'c', "c");
    tell_end(&f, 1, "more");
    take(&f);
    expect(&f, HTH_REPLY_EVENT_TOKEN, 0, "a");
    expect(&f, HTH_REPLY_EVENT_TOKEN, 1, "b");
    expect(&f, HTH_REPLY_EVENT_TEXT, 0, "held");
    expect(&f, HTH_REPLY_EVENT_DONE, 0, NULL);
    expect(&f, HTH_REPLY_EVENT_TOKEN, 1, "c");
    expect(&f, HTH_REPLY_EVENT_TEXT, 1, "more");
    expect(&f, HTH_REPLY_EVENT_DONE, 1, NULL);
    assert_false(hth_event_queue_read(f.queue, &event));
    assert_null(hth_event_queue_take(f.queue));
    fixture_deinit(&f);
}

TEST(text_by_itself_comes_right_before_its_token)
{
    fixture f;
    hth_reply_event event;

    fixture_init(&f);
    assert_true(f.request.on_text(ID, "echo", 4, f.request.user_data));
    tell_token(&f, 1, 'b', "b");
    tell_token(&f, 0, 'a', "a");
    take(&f);
    expect(&f, HTH_REPLY_EVENT_TOKEN, 1, "b");
    expect(&f, HTH_REPLY_EVENT_TEXT, 0, "echo");
    expect(&f, HTH_REPLY_EVENT_TOKEN, 0, "a");
    assert_false(hth_event_queue_read(f.queue, &event));
    tell_end(&f, 0, "");
    tell_end(&f, 1, "");
    take(&f);
    expect(&f, HTH_REPLY_EVENT_DONE, 0, NULL);
    expect(&f, HTH_REPLY_EVENT_DONE, 1, NULL);
    assert_false(hth_event_queue_read(f.queue, &event));
    fixture_deinit(&f);
}

TEST(what_a_part_tells_before_it_is_opened_waits)
{
    const hearth_token_event event = { .token = 'a', .text = "a", .n_bytes = 1 };
    fixture f;
    hth_request_part other = { .first = 1, .id = 77 };
    hearth_request request = hearth_request_default();
    hth_counted_result *result = result_new();
    hearth_error err;

    fixture_init(&f);
    other.events = f.events;
    hth_request_part_connect(&other, &request);
    assert_int_equal(hth_events_connect(&f.model, &request, true, &other.source, &err), HEARTH_OK);
    hth_events_begin(other.source, other.id);
    assert_true(request.on_token(other.id, &event, request.user_data));
    hth_events_round(&f.model);
    hth_event_queue_collect(f.queue);
    assert_null(hth_event_queue_take(f.queue));
    request.on_done(other.id, &result->shown, request.user_data);
    hearth_result_unref(&result->shown);
    hth_events_round(&f.model);
    hth_request_part_open(&other); /* when all of it has ended */
    take(&f);
    expect(&f, HTH_REPLY_EVENT_TOKEN, 1, "a");
    expect(&f, HTH_REPLY_EVENT_DONE, 1, NULL);
    tell_end(&f, 0, "");
    tell_end(&f, 1, "");
    hth_events_round(&f.model);
    hth_event_queue_collect(f.queue);
    assert_ptr_equal(hth_event_queue_take(f.queue), f.events);
    fixture_deinit(&f);
}
