/*
 * worker_post_test.c - what callbacks tell comes out of a box in an order that keeps together what belongs together
 */
#include <stdlib.h>
#include <string.h>

#include "models/model_inside.h"
#include "sched/result.h"
#include "server/worker_post.h"
#include "support/cmocka_all.h"

enum { ID = 10 };

typedef struct fixture {
    hth_post *post;
    hth_box *box;
    hth_box_part part;
    hearth_request request; /* as the scheduler has it, with the callbacks that put events into the queue */
    hearth_model model;     /* of which a source needs a list */
} fixture;

static void fixture_init(fixture *f)
{
    hearth_error err = { .message = "" };

    assert_int_equal(hth_post_new(&f->post, &err), HEARTH_OK);
    f->box = hth_box_new(f->post, 2, f);
    assert_non_null(f->box);
    f->part = (hth_box_part){ .box = f->box, .id = ID };
    f->request = hearth_request_default();
    f->request.n = 2;
    f->model.told = NULL;
    hth_box_part_connect(&f->part, &f->request);
    assert_int_equal(hth_events_connect(&f->model, &f->request, true, &f->part.source, &err), HEARTH_OK);
    hth_events_begin(f->part.source, ID);
    hth_box_part_open(&f->part);
}

/* The round is over, and the loop takes what it has brought. */
static void take(fixture *f)
{
    hth_events_round(&f->model.told);
    hth_post_collect(f->post);
    assert_ptr_equal(hth_post_take(f->post), f->box);
}

static void fixture_deinit(fixture *f)
{
    hth_box_free(f->box);
    hth_post_free(f->post);
}

static void tell_token(fixture *f, uint32_t reply, hearth_token token, const char *text)
{
    const hearth_token_event event = { .token = token, .text = text, .n_bytes = strlen(text) };

    assert_true(f->request.on_token(ID + reply, &event, f->request.user_data));
    if (event.n_bytes > 0)
        assert_true(f->request.on_text(ID + reply, text, event.n_bytes, f->request.user_data));
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

static void expect(fixture *f, hth_news_kind kind, uint32_t reply, const char *text)
{
    hth_news news;

    assert_true(hth_post_read(f->post, &news));
    assert_int_equal(news.kind, kind);
    assert_int_equal(news.reply, reply);
    if (kind == HTH_NEWS_TOKEN || kind == HTH_NEWS_TEXT) {
        assert_int_equal(news.event.n_bytes, strlen(text));
        assert_string_equal(news.event.text, text);
    }
    if (kind == HTH_NEWS_DONE)
        assert_int_equal(news.result->stop_number, 3);
}

static void text_held_back_to_the_end_comes_right_before_the_end(void **state)
{
    fixture f;
    hth_news news;

    (void)state;
    fixture_init(&f);
    tell_token(&f, 0, 'a', "a");
    tell_token(&f, 1, 'b', "b");
    tell_end(&f, 0, "held");
    tell_token(&f, 1, 'c', "c");
    tell_end(&f, 1, "more");
    take(&f);
    expect(&f, HTH_NEWS_TOKEN, 0, "a");
    expect(&f, HTH_NEWS_TOKEN, 1, "b");
    expect(&f, HTH_NEWS_TEXT, 0, "held");
    expect(&f, HTH_NEWS_DONE, 0, NULL);
    expect(&f, HTH_NEWS_TOKEN, 1, "c");
    expect(&f, HTH_NEWS_TEXT, 1, "more");
    expect(&f, HTH_NEWS_DONE, 1, NULL);
    assert_false(hth_post_read(f.post, &news));
    assert_null(hth_post_take(f.post));
    fixture_deinit(&f);
}

static void text_by_itself_comes_right_before_its_token(void **state)
{
    fixture f;
    hth_news news;

    (void)state;
    fixture_init(&f);
    assert_true(f.request.on_text(ID, "echo", 4, f.request.user_data));
    tell_token(&f, 1, 'b', "b");
    tell_token(&f, 0, 'a', "a");
    take(&f);
    expect(&f, HTH_NEWS_TOKEN, 1, "b");
    expect(&f, HTH_NEWS_TEXT, 0, "echo");
    expect(&f, HTH_NEWS_TOKEN, 0, "a");
    assert_false(hth_post_read(f.post, &news));
    tell_end(&f, 0, "");
    tell_end(&f, 1, "");
    take(&f);
    expect(&f, HTH_NEWS_DONE, 0, NULL);
    expect(&f, HTH_NEWS_DONE, 1, NULL);
    assert_false(hth_post_read(f.post, &news));
    fixture_deinit(&f);
}

static void what_a_part_tells_before_it_is_opened_waits(void **state)
{
    const hearth_token_event event = { .token = 'a', .text = "a", .n_bytes = 1 };
    fixture f;
    hth_box_part other = { .first = 1, .id = 77 };
    hearth_request request = hearth_request_default();
    hth_counted_result *result = result_new();
    hearth_error err;

    (void)state;
    fixture_init(&f);
    other.box = f.box;
    hth_box_part_connect(&other, &request);
    assert_int_equal(hth_events_connect(&f.model, &request, true, &other.source, &err), HEARTH_OK);
    hth_events_begin(other.source, other.id);
    assert_true(request.on_token(other.id, &event, request.user_data));
    hth_events_round(&f.model.told);
    hth_post_collect(f.post);
    assert_null(hth_post_take(f.post));
    request.on_done(other.id, &result->shown, request.user_data);
    hearth_result_unref(&result->shown);
    hth_events_round(&f.model.told);
    hth_box_part_open(&other); /* when all of it has ended */
    take(&f);
    expect(&f, HTH_NEWS_TOKEN, 1, "a");
    expect(&f, HTH_NEWS_DONE, 1, NULL);
    tell_end(&f, 0, "");
    tell_end(&f, 1, "");
    hth_events_round(&f.model.told);
    hth_post_collect(f.post);
    assert_ptr_equal(hth_post_take(f.post), f.box);
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_held_back_to_the_end_comes_right_before_the_end),
        cmocka_unit_test(text_by_itself_comes_right_before_its_token),
        cmocka_unit_test(what_a_part_tells_before_it_is_opened_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
