/*
 * worker_post_test.c - what callbacks tell comes out of a box in an order that keeps together what belongs together
 */
#include <stdlib.h>
#include <string.h>

#include "server/worker_post.h"
#include "support/cmocka_all.h"

enum { ID = 10 };

typedef struct fixture {
    hth_post *post;
    hth_box *box;
    hth_box_part part;
    hearth_request request;
} fixture;

static void fixture_init(fixture *f)
{
    hearth_error err = { .message = "" };

    assert_int_equal(hth_post_new(&f->post, &err), HEARTH_OK);
    f->box = hth_box_new(f->post, 2, f);
    assert_non_null(f->box);
    f->part = (hth_box_part){ .box = f->box, .id = ID };
    f->request = hearth_request_default();
    hth_box_part_connect(&f->part, &f->request);
    hth_box_open(f->box);
}

static void fixture_deinit(fixture *f)
{
    hth_box_free(f->box);
    hth_post_free(f->post);
}

static void tell_token(fixture *f, uint32_t reply, hearth_token token, const char *text)
{
    const hearth_token_event event = { .token = token, .text = text, .n_bytes = strlen(text) };

    assert_true(f->request.on_token(ID + reply, &event, &f->part));
    if (event.n_bytes > 0)
        assert_true(f->request.on_text(ID + reply, text, event.n_bytes, &f->part));
}

static void tell_end(fixture *f, uint32_t reply, const char *text)
{
    static const hearth_stats stats = { .struct_size = sizeof(stats) };
    const hearth_result result = {
        .stats = &stats, .status = HEARTH_OK, .finish_reason = HEARTH_FINISH_STOP, .stop_number = 3
    };

    if (text[0])
        assert_true(f->request.on_text(ID + reply, text, strlen(text), &f->part));
    f->request.on_done(ID + reply, &result, &f->part);
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
    assert_ptr_equal(hth_post_take(f.post), f.box);
    expect(&f, HTH_NEWS_TOKEN, 0, "a");
    expect(&f, HTH_NEWS_TOKEN, 1, "b");
    expect(&f, HTH_NEWS_TOKEN, 1, "c");
    expect(&f, HTH_NEWS_TEXT, 0, "held");
    expect(&f, HTH_NEWS_DONE, 0, NULL);
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
    assert_true(f.request.on_text(ID, "echo", 4, &f.part));
    tell_token(&f, 1, 'b', "b");
    tell_token(&f, 0, 'a', "a");
    assert_ptr_equal(hth_post_take(f.post), f.box);
    expect(&f, HTH_NEWS_TOKEN, 1, "b");
    expect(&f, HTH_NEWS_TEXT, 0, "echo");
    expect(&f, HTH_NEWS_TOKEN, 0, "a");
    assert_false(hth_post_read(f.post, &news));
    tell_end(&f, 0, "");
    tell_end(&f, 1, "");
    assert_ptr_equal(hth_post_take(f.post), f.box);
    expect(&f, HTH_NEWS_DONE, 0, NULL);
    expect(&f, HTH_NEWS_DONE, 1, NULL);
    assert_false(hth_post_read(f.post, &news));
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_held_back_to_the_end_comes_right_before_the_end),
        cmocka_unit_test(text_by_itself_comes_right_before_its_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
