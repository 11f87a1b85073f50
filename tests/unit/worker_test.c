/*
 * worker_test.c - a worker by its socket: endpoints, refusals, clients that go away or are slow, its end
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"
#include "support/worker_stage.h"
#include "wire/status_page.h"

#define PROMPT "once upon a time there was an old man who lived by the sea and he had a boat"
#define CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"" PROMPT "\"}]"

enum { PATIENCE_MS = 120000 };

static void set_up(hth_test_worker *worker)
{
    hth_test_worker_init(worker, "stub:");
    hth_test_worker_start(worker);
}

/* One whose replies take long enough to see them on their way. */
static void set_up_slow(hth_test_worker *worker)
{
    hth_test_worker_init(worker, "stub:delay_us=2000");
    hth_test_worker_start(worker);
}

#define FIXTURE_TEST(name) TEST_WITH(hth_test_worker, worker, name, set_up, hth_test_worker_deinit)

static json_t *expect_json(hth_test_heard *heard, int status)
{
    json_t *body;

    if (heard->status != status)
        fail_msg("the status is %d, not %d: %s", heard->status, status, hth_buffer_text(&heard->body));
    assert_true(heard->is_complete);
    assert_non_null(strstr(heard->head, "Content-Type: application/json\r\n"));
    body = hth_test_json(hth_buffer_text(&heard->body));
    hth_test_heard_deinit(heard);
    return body;
}

static json_t *post(const hth_test_worker *worker, const char *target, const char *body, int status)
{
    hth_test_heard heard = hth_test_worker_post(worker, target, body);

    return expect_json(&heard, status);
}

static json_t *get(const hth_test_worker *worker, const char *target, int status)
{
    hth_test_heard heard = hth_test_worker_ask(worker, "GET", target, "", "", 0);

    return expect_json(&heard, status);
}

static void expect_text(json_t *body, const char *path, const char *text)
{
    assert_string_equal(hth_test_text_at(body, path), text);
}

/* ---- orders of the front ---- */

FIXTURE_TEST(an_order_to_evict_waits_for_a_new_quota)
{
    static const char orders[] = "ram 2097152\nevict 1048576 0\n";
    char text[512];
    const char *quota;
    size_t n = 0;

    assert_int_equal(write(worker->control, orders, sizeof(orders) - 1), sizeof(orders) - 1);
    do {
        const ssize_t m = read(worker->control, text + n, sizeof(text) - 1 - n);

        assert_true(m > 0);
        n += (size_t)m;
        text[n] = '\0';
    } while (!strstr(text, "evicted ") || !strchr(strstr(text, "evicted "), '\n'));
    quota = strstr(text, "ram 2097152 ");
    assert_true(quota && quota < strstr(text, "evicted "));
}

/* ---- endpoints ---- */

FIXTURE_TEST(every_endpoint_answers)
{
    static const char chat[] = "{\"model\":\"m\"," CHAT ",\"max_tokens\":4,\"temperature\":0}";
    static const char native[] = "{\"prompt\":\"" PROMPT "\",\"n_predict\":4,\"ignore_eos\":true}";

    expect_text(post(worker, "/v1/chat/completions", chat, 200), "object", "chat.completion");
    expect_text(post(worker, "/chat/completions", chat, 200), "choices.0.finish_reason", "length");
    expect_text(post(worker, "/v1/completions", "{\"model\":\"m\",\"prompt\":\"" PROMPT "\",\"max_tokens\":4}", 200),
                "object", "text_completion");
    expect_text(post(worker, "/v1/messages", chat, 200), "type", "message");
    expect_text(post(worker, "/completion", native, 200), "stop_type", "limit");
    expect_text(post(worker, "/completions", native, 200), "model", "stub:");
    (void)post(worker, "/v1/messages/count_tokens", "{\"model\":\"m\"," CHAT "}", 200);
    expect_text(post(worker, "/detokenize", "{\"tokens\":[104,105]}", 200), "content", "hi");
    (void)post(worker, "/tokenize", "{\"content\":\"hi\"}", 200);
    (void)post(worker, "/apply-template", "{" CHAT "}", 200);
    expect_text(get(worker, "/v1/models", 200), "data.0.id", "stub:");
    expect_text(get(worker, "/models", 200), "object", "list");
    expect_text(get(worker, "/v1/models/stub:", 200), "object", "model");
    expect_text(get(worker, "/props", 200), "model_alias", "stub:");
    (void)get(worker, "/slots", 200);
    expect_text(get(worker, "/health", 200), "status", "ok");
    expect_text(get(worker, "/v1/health", 200), "status", "ok");
    expect_text(get(worker, "/ready", 200), "status", "ok");
}

FIXTURE_TEST(a_stream_comes_as_events)
{
    hth_test_heard heard = hth_test_worker_post(worker, "/v1/chat/completions",
                                                "{\"model\":\"m\"," CHAT ",\"max_tokens\":5,\"stream\":true}");
    json_t *events;

    assert_int_equal(heard.status, 200);
    assert_true(heard.is_complete);
    assert_non_null(strstr(heard.head, "Content-Type: text/event-stream\r\n"));
    events = hth_test_events(heard.body.text);
    assert_string_equal(json_string_value(json_array_get(events, json_array_size(events) - 1)), "[DONE]");
    hth_test_heard_deinit(&heard);
}

FIXTURE_TEST(a_reply_of_one_token_that_is_known_comes_in_one_piece)
{
    static const char *const bodies[] = {
        "{\"model\":\"m\"," CHAT ",\"max_tokens\":1}",
        "{\"model\":\"m\"," CHAT ",\"max_tokens\":1,\"stream\":true}",
    };

    for (int i = 0; i < 4; i++) { /* the first pays */
        hth_test_heard heard = hth_test_worker_post(worker, "/v1/chat/completions", bodies[i / 2]);

        assert_int_equal(heard.status, 200);
        assert_true(heard.has_length);
        hth_test_heard_deinit(&heard);
    }
}

FIXTURE_TEST(it_explains_what_the_cache_knows_of_a_prompt)
{
    static const char body[] = "{\"prompt\":\"" PROMPT " and it was old\",\"n_predict\":1}";
    json_t *about = post(worker, "/admin/explain?endpoint=/completion", body, 200);

    assert_int_equal(json_integer_value(json_object_get(about, "known_tokens")), 0);
    assert_string_equal(hth_test_text_at(about, "miss"), "never_seen");
    (void)post(worker, "/completion", body, 200);
    about = post(worker, "/admin/explain?endpoint=/completion", body, 200);
    assert_int_equal(json_integer_value(json_object_get(about, "known_tokens")),
                     json_integer_value(json_object_get(about, "prompt_tokens")));
    assert_true(json_is_true(json_object_get(about, "knows_logits")));
    assert_string_equal(hth_test_text_at(about, "tier"), "ram");
    /* Chat completions, unless another endpoint is named. */
    (void)post(worker, "/admin/explain", "{\"model\":\"m\"," CHAT "}", 200);
    (void)post(worker, "/admin/explain?endpoint=/tokenize", body, 400);
    (void)post(worker, "/admin/explain?endpoint=/completion", "{\"prompt\":7}", 400);
}

FIXTURE_TEST(tenants_with_salts_share_nothing)
{
    static const char plain[] = "{\"prompt\":\"" PROMPT " of salt\",\"n_predict\":1}";
    static const char own[] = "{\"prompt\":\"" PROMPT " of salt\",\"n_predict\":1,\"cache_salt\":\"a\"}";
    static const struct {
        const char *headers, *body;
        bool is_known; /* because it is the one before once more */
    } requests[] = {
        { "", plain, false },
        { "", plain, true },
        { "Hearth-Salt: a\r\n", plain, false },
        { "Hearth-Salt: a\r\n", plain, true },
        { "", own, false },
        { "Hearth-Salt: a\r\n", own, false },
        { "Hearth-Salt: a\r\n", own, true },
        { "Hearth-Salt: b\r\n", own, false },
    };

    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        hth_test_heard heard = hth_test_worker_ask(worker, "POST", "/completion", requests[i].headers, requests[i].body,
                                                   strlen(requests[i].body));
        json_t *reply = expect_json(&heard, 200);
        json_int_t n_cached = json_integer_value(hth_test_at(reply, "timings.cache_n"));

        assert_int_equal(n_cached > 0, requests[i].is_known);
    }
}

/* ---- refusals ---- */

FIXTURE_TEST(what_is_wrong_is_said_in_the_shape_of_the_api)
{
    json_t *body;
    hth_test_heard heard;

    expect_text(post(worker, "/nowhere", "{}", 404), "error.type", "invalid_request_error");
    (void)post(worker, "/models/load", "{}", 404); /* orders, too */
    (void)get(worker, "/metrics", 404);            /* the front's, as the rest of the operators' pages */
    expect_text(get(worker, "/v1/models/other", 404), "error.code", "not_found");
    expect_text(post(worker, "/v1/messages/batches", "{}", 404), "error.type", "not_found_error");
    expect_text(post(worker, "/v1/chat/completions", "{", 400), "error.code", "invalid_json");
    expect_text(post(worker, "/v1/messages", "{}", 400), "type", "error");
    expect_text(post(worker, "/completion", "{}", 400), "error.type", "invalid_request_error");
    expect_text(post(worker, "/v1/completions", "{\"model\":\"m\",\"prompt\":[]}", 400), "error.type",
                "invalid_request_error");
    expect_text(post(worker, "/tokenize", "[]", 400), "error.type", "invalid_request_error");
    expect_text(post(worker, "/v1/completions",
                     "{\"model\":\"m\",\"prompt\":\"" PROMPT "\",\"parent_key\":\""
                     "0000000000000000000000000000000000000000000000000000000000000000\"}",
                     404),
                "error.code", "not_found");

    heard = hth_test_worker_ask(worker, "GET", "/v1/chat/completions", "", "", 0);
    assert_non_null(strstr(heard.head, "Allow: POST\r\n"));
    (void)expect_json(&heard, 405);
    heard = hth_test_worker_ask(worker, "POST", "/v1/models", "", "{}", 2);
    assert_non_null(strstr(heard.head, "Allow: GET, HEAD\r\n"));
    (void)expect_json(&heard, 405);
    heard = hth_test_worker_ask(worker, "GET", "/completion", "", "", 0);
    body = expect_json(&heard, 405);
    assert_int_equal(json_integer_value(hth_test_at(body, "error.code")), 405);
}

FIXTURE_TEST(compressed_bodies_are_refused_by_name)
{
    hth_test_heard heard =
        hth_test_worker_ask(worker, "POST", "/tokenize", "Content-Encoding: gzip\r\n", "{\"content\":\"hi\"}", 16);
    json_t *body = expect_json(&heard, 415);

    assert_int_equal(json_integer_value(hth_test_at(body, "error.code")), 415);
    assert_non_null(strstr(hth_test_text_at(body, "error.message"), "'gzip'"));
    heard =
        hth_test_worker_ask(worker, "POST", "/tokenize", "Content-Encoding: Identity\r\n", "{\"content\":\"hi\"}", 16);
    (void)expect_json(&heard, 200);
}

FIXTURE_TEST(forms_are_refused_unless_their_body_is_json)
{
    static const char form[] = "Content-Type: application/x-www-form-urlencoded\r\n";
    hth_test_heard heard = hth_test_worker_ask(worker, "POST", "/tokenize", form, "content=hi", 10);

    (void)expect_json(&heard, 415);
    heard = hth_test_worker_ask(worker, "POST", "/tokenize", form, " {\"content\":\"hi\"}", 17);
    (void)expect_json(&heard, 200);
    heard =
        hth_test_worker_ask(worker, "POST", "/tokenize", "Content-Type: multipart/form-data; boundary=x\r\n", "{}", 2);
    (void)expect_json(&heard, 415);
    heard =
        hth_test_worker_ask(worker, "POST", "/tokenize", "Content-Type: text/plain\r\n", "{\"content\":\"hi\"}", 16);
    (void)expect_json(&heard, 200);
}

TEST(a_body_beyond_its_limit_is_413)
{
    hth_test_worker worker;
    char *body = hth_test_prompt(5000, 1);
    hth_test_heard heard;

    hth_test_worker_init(&worker, "stub:");
    worker.options.settings.requests.body_bytes_max = 4000;
    hth_test_worker_start(&worker);
    heard = hth_test_worker_post(&worker, "/v1/chat/completions", body);
    expect_text(expect_json(&heard, 413), "error.code", "request_too_large");
    free(body);
    hth_test_worker_deinit(&worker);
}

/* ---- what takes long to prepare ---- */

/* A conversation of n bytes, as the body of a request. Released with free. */
static char *long_body(size_t n, const char *rest)
{
    char *text = hth_test_prompt(n, 2), *body = malloc(n + 256);

    (void)snprintf(body, n + 256, "{\"model\":\"m\",\"prompt\":\"%s\",%s}", text, rest);
    free(text);
    return body;
}

FIXTURE_TEST(large_and_complicated_requests_are_answered_too)
{
    char *body = long_body(3000, "\"n_predict\":3"), *huge = long_body(100000, "\"n_predict\":3");
    static const char grammar[] = "{\"prompt\":\"" PROMPT "\",\"n_predict\":20,\"grammar\":\"root ::= \\\"yes\\\"\"}";

    expect_text(post(worker, "/completion", grammar, 200), "content", "yes");
    (void)post(worker, "/completion", "{\"prompt\":\"x\",\"grammar\":\"root ::= (\"}", 400);
    (void)post(worker, "/completion", body, 200);
    expect_text(post(worker, "/completion", huge, 400), "error.type", "exceed_context_size_error");
    free(body);
    free(huge);
}

FIXTURE_TEST(a_client_that_leaves_while_its_request_is_prepared_harms_nobody)
{
    char *body = long_body(60000, "\"n_predict\":3");

    for (int i = 0; i < 20; i++) {
        int fd = hth_test_worker_connect(worker);

        hth_test_worker_send(fd, "POST", "/completion", "", body, strlen(body));
        close(fd);
    }
    expect_text(get(worker, "/health", 200), "status", "ok");
    free(body);
}

/* ---- clients that go away or are slow ---- */

static void wait_until_idle(const hth_test_worker *worker)
{
    uint64_t until = hth_os_monotonic_ns() + PATIENCE_MS * UINT64_C(1000000);

    while (hth_test_worker_n_busy(worker) > 0)
        assert_true(hth_os_monotonic_ns() < until);
}

TEST_WITH(hth_test_worker, worker, a_request_ends_when_its_client_goes_away, set_up_slow, hth_test_worker_deinit)
{
    static const char *const bodies[] = {
        "{\"prompt\":\"" PROMPT "\",\"n_predict\":3000,\"ignore_eos\":true,\"stream\":true}",
        "{\"prompt\":\"" PROMPT "\",\"n_predict\":3000,\"ignore_eos\":true}",
        "{\"prompt\":\"" PROMPT "\",\"n_predict\":1000,\"ignore_eos\":true,\"n\":3,\"stream\":true}",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        int fd = hth_test_worker_connect(worker);

        hth_test_worker_send(fd, "POST", "/completion", "", bodies[i], strlen(bodies[i]));
        while (hth_test_worker_n_busy(worker) == 0)
            ;
        close(fd);
        wait_until_idle(worker); /* long before 3000 tokens of 2 ms */
    }
}

static json_int_t number_of_slot(const hth_test_worker *worker, size_t i, const char *path)
{
    return json_integer_value(hth_test_at(json_array_get(get(worker, "/slots", 200), i), path));
}

TEST_WITH(hth_test_worker, worker, slots_show_what_runs_and_what_ran, set_up_slow, hth_test_worker_deinit)
{
    static const char running[] = "{\"prompt\":\"" PROMPT "\",\"n_predict\":3000,\"ignore_eos\":true,\"stream\":true,"
                                  "\"id_slot\":1}";
    static const char ended[] = "{\"prompt\":\"" PROMPT "\",\"n_predict\":4,\"ignore_eos\":true,\"temperature\":0.5,"
                                "\"id_slot\":0,\"stop\":[\"a secret word\"]}";
    json_t *slot = json_array_get(get(worker, "/slots", 200), 1);
    uint64_t until = hth_os_monotonic_ns() + PATIENCE_MS * UINT64_C(1000000);
    int fd = hth_test_worker_connect(worker);
    hth_test_heard heard;

    assert_null(json_object_get(slot, "id_task")); /* nothing has run there */
    assert_true(json_is_false(json_object_get(slot, "speculative")));
    hth_test_worker_send(fd, "POST", "/completion", "", running, strlen(running));
    while (number_of_slot(worker, 1, "next_token.0.n_decoded") == 0)
        assert_true(hth_os_monotonic_ns() < until);
    slot = json_array_get(get(worker, "/slots", 200), 1);
    assert_true(json_is_true(json_object_get(slot, "is_processing")));
    assert_int_equal(json_integer_value(json_object_get(slot, "id_task")), 1);
    assert_true(json_is_true(hth_test_at(slot, "next_token.0.has_next_token")));
    assert_int_equal(json_integer_value(hth_test_at(slot, "next_token.0.n_decoded")) +
                         json_integer_value(hth_test_at(slot, "next_token.0.n_remain")),
                     3000);
    assert_int_equal(json_integer_value(json_object_get(slot, "n_prompt_tokens")),
                     json_integer_value(json_object_get(slot, "n_prompt_tokens_processed")));
    assert_int_equal(json_integer_value(hth_test_at(slot, "params.n_predict")), 3000);
    close(fd);
    wait_until_idle(worker);

    (void)post(worker, "/completion", ended, 200);
    heard = hth_test_worker_ask(worker, "GET", "/slots", "", "", 0);
    assert_null(strstr(hth_buffer_text(&heard.body), "secret"));
    hth_test_heard_deinit(&heard);
    heard = hth_test_worker_ask(worker, "GET", "/slots", "Hearth-Salt: a\r\n", "", 0);
    assert_null(strstr(hth_buffer_text(&heard.body), "id_task")); /* another tenant sees nothing of it */
    hth_test_heard_deinit(&heard);
    slot = json_array_get(get(worker, "/slots", 200), 0);
    assert_true(json_is_false(json_object_get(slot, "is_processing")));
    assert_int_equal(json_integer_value(json_object_get(slot, "id_task")), 2);
    assert_int_equal(json_integer_value(hth_test_at(slot, "next_token.0.n_decoded")), 4);
    assert_int_equal(json_integer_value(hth_test_at(slot, "next_token.0.n_remain")), 0);
    assert_true(json_is_false(hth_test_at(slot, "next_token.0.has_next_token")));
    assert_true(json_integer_value(json_object_get(slot, "n_prompt_tokens_cache")) > 0);
    assert_true(json_real_value(hth_test_at(slot, "params.temperature")) == 0.5);
}

/* How many tokens were generated, by the status page. */
static uint64_t n_generated(const hth_status_page *page)
{
    hth_status *status = calloc(1, sizeof(*status));
    uint64_t n;

    hth_status_page_read(page, status);
    n = status->has_numbers && status->info.n_running > 0 ? status->info.n_done : 0;
    free(status);
    return n;
}

/* Its log probabilities make a stream of megabytes, of which nothing is read for a while. */
TEST(a_slow_reader_makes_its_reply_wait_and_gets_all_of_it)
{
    enum { TOKENS = 3000 };
    static const char body[] = "{\"prompt\":\"" PROMPT "\",\"n_predict\":3000,\"ignore_eos\":true,\"n_probs\":20,"
                               "\"stream\":true}";
    hth_status_page *page;
    hth_test_worker worker;
    hth_test_heard heard;
    uint64_t n_before = 0, until = hth_os_monotonic_ns() + PATIENCE_MS * UINT64_C(1000000);
    json_t *events;
    hearth_error err;
    int fd, page_fd;

    assert_ok(hth_status_page_new(&page, &page_fd, &err), err);
    hth_test_worker_init(&worker, "stub:delay_us=300"); /* slower than its events are written */
    worker.options.status_fd = page_fd;
    worker.options.http.write_timeout_ms = 0; /* a slow machine may take long to fill what is buffered */
    hth_test_worker_start(&worker);
    fd = hth_test_worker_connect(&worker);
    hth_test_worker_send(fd, "POST", "/completion", "", body, strlen(body));
    for (int n_same = 0; n_same < 3;) { /* numbers are published each second: until they do not change any more */
        uint64_t n = n_generated(page);

        assert_true(hth_os_monotonic_ns() < until);
        assert_true(n < TOKENS);
        n_same = n > 0 && n == n_before ? n_same + 1 : 0;
        n_before = n;
        usleep(1100000);
    }
    heard = hth_test_worker_hear(fd);
    assert_true(heard.is_complete);
    events = hth_test_events(heard.body.text);
    assert_string_equal(hth_test_text_at(json_array_get(events, json_array_size(events) - 1), "stop_type"), "limit");
    assert_int_equal(
        json_integer_value(hth_test_at(json_array_get(events, json_array_size(events) - 1), "tokens_predicted")),
        TOKENS);
    hth_test_heard_deinit(&heard);
    close(fd);
    hth_test_worker_deinit(&worker);
    hth_status_page_free(page);
    close(page_fd);
}

/* Long before the prompt is read, and without anything to say. */
TEST(a_stream_begins_though_its_first_token_is_far)
{
    hth_test_worker worker;
    char *body = long_body(3000, "\"n_predict\":3,\"stream\":true"), heard[4096] = "";
    size_t n = 0;
    int fd;

    hth_test_worker_init(&worker, "stub:delay_us=20000"); /* a minute */
    worker.options.silence_ms = 1;
    hth_test_worker_start(&worker);
    fd = hth_test_worker_connect(&worker);
    hth_test_worker_send(fd, "POST", "/completion", "", body, strlen(body));
    while (!strstr(heard, "\r\n:\n\n")) {
        ssize_t m = read(fd, heard + n, sizeof(heard) - 1 - n);

        assert_true(m > 0);
        n += (size_t)m;
    }
    assert_non_null(strstr(heard, "HTTP/1.1 200 "));
    assert_non_null(strstr(heard, "Content-Type: text/event-stream\r\n"));
    assert_null(strstr(heard, "data:"));
    close(fd);
    free(body);
    hth_test_worker_deinit(&worker);
}

/* ---- many at once ---- */

typedef struct crowd {
    const hth_test_worker *worker;
    unsigned number;
    int n_wrong;
} crowd;

static void *ask_often(void *context)
{
    crowd *c = context;
    int fd = hth_test_worker_connect(c->worker);

    for (unsigned i = 0; i < 40; i++) {
        static const char *const shapes[] = {
            "{\"prompt\":\"%u " PROMPT "\",\"n_predict\":%u}",
            "{\"prompt\":\"%u " PROMPT "\",\"n_predict\":%u,\"stream\":true}",
            "{\"prompt\":\"%u " PROMPT "\",\"n_predict\":%u,\"grammar\":\"root ::= [a-z ]*\"}",
            "{\"prompt\":[\"%u " PROMPT "\",\"" PROMPT "\"],\"n_predict\":%u,\"n\":2}",
        };
        char body[512];
        hth_test_heard heard;

        (void)snprintf(body, sizeof(body), shapes[(i + c->number) % 4], i % 5, 1 + i % 7);
        hth_test_worker_send(fd, "POST", "/completion", "", body, strlen(body));
        heard = hth_test_worker_hear(fd); /* on one connection */
        c->n_wrong += heard.status != 200 || !heard.is_complete;
        hth_test_heard_deinit(&heard);
    }
    close(fd);
    return NULL;
}

FIXTURE_TEST(many_clients_are_served_at_once)
{
    enum { CLIENTS = 12 };
    pthread_t threads[CLIENTS];
    crowd crowds[CLIENTS];

    for (unsigned i = 0; i < CLIENTS; i++) {
        crowds[i] = (crowd){ .worker = worker, .number = i };
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &crowds[i]), 0);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(crowds[i].n_wrong, 0);
    }
    wait_until_idle(worker);
}

TEST(a_full_queue_is_told_with_a_time_to_come_again)
{
    static const char body[] = "{\"prompt\":\"" PROMPT "\",\"n_predict\":2000,\"ignore_eos\":true}";
    enum { CLIENTS = 4 };
    hth_test_worker worker;
    int fds[CLIENTS];
    hth_test_heard heard;

    hth_test_worker_init(&worker, "stub:delay_us=2000");
    worker.model.n_parallel = 1;
    worker.model.queue_max = CLIENTS - 1;
    hth_test_worker_start(&worker);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = hth_test_worker_connect(&worker);
        hth_test_worker_send(fds[i], "POST", "/completion", "", body, strlen(body));
    }
    do { /* until they have all been read */
        heard = hth_test_worker_post(&worker, "/v1/completions", "{\"model\":\"m\",\"prompt\":\"x\",\"max_tokens\":1}");
        if (heard.status == 503)
            break;
        hth_test_heard_deinit(&heard);
    } while (true);
    assert_non_null(strstr(heard.head, "Retry-After: "));
    expect_text(expect_json(&heard, 503), "error.code", "overloaded");
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    hth_test_worker_deinit(&worker);
}

/* ---- its life ---- */

TEST(a_worker_that_cannot_load_says_why)
{
    hth_test_worker worker;
    char text[1024] = "";
    int ends[2];

    hth_test_worker_init(&worker, "/nowhere/model.gguf");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    worker.options.control_fd = ends[1];
    worker.options.runtime = &worker.runtime;
    worker.options.model = &worker.model;
    assert_int_equal(hth_worker_run(&worker.options, &worker.err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(worker.err.message, "/nowhere/model.gguf"));
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "failed "));
    assert_non_null(strstr(text, "/nowhere/model.gguf"));
    assert_int_not_equal(access(worker.socket_path, F_OK), 0);
    close(ends[0]);
    close(ends[1]);
    hth_test_worker_deinit(&worker);
}

FIXTURE_TEST(a_second_worker_does_not_take_the_socket)
{
    hth_test_worker second;

    hth_test_worker_init(&second, "stub:");
    second.options.socket_path = worker->socket_path;
    second.options.control_fd = -1;
    second.options.runtime = &second.runtime;
    second.options.model = &second.model;
    assert_int_equal(hth_worker_run(&second.options, &second.err), HEARTH_BUSY);
    hth_test_worker_deinit(&second);
    expect_text(get(worker, "/health", 200), "status", "ok");
}

TEST(running_requests_end_with_a_worker_whose_front_is_gone_and_what_they_read_is_saved)
{
    static const char body[] = "{\"prompt\":\"" PROMPT "\",\"n_predict\":2000,\"ignore_eos\":true,\"stream\":true}";
    hth_test_worker worker;
    char begun[16];
    int fd;

    hth_test_worker_init(&worker, "stub:delay_us=2000");
    hth_test_worker_start(&worker);
    fd = hth_test_worker_connect(&worker);
    hth_test_worker_send(fd, "POST", "/completion", "", body, strlen(body));
    assert_true(read(fd, begun, sizeof(begun)) > 0);
    hth_test_worker_stop(&worker);
    close(fd);
    assert_true(hth_test_n_files(worker.directory, ".kvc") > 0);
    hth_test_worker_deinit(&worker);
}

TEST(its_status_page_says_that_it_lives_and_what_it_has_done)
{
    hth_test_worker worker;
    hth_status *status = calloc(1, sizeof(*status));
    hth_status_page *page;
    hearth_error err;
    int fd;
    uint64_t until;

    assert_ok(hth_status_page_new(&page, &fd, &err), err);
    hth_test_worker_init(&worker, "stub:");
    worker.options.status_fd = fd;
    hth_test_worker_start(&worker);
    (void)post(&worker, "/completion", "{\"prompt\":\"" PROMPT "\",\"n_predict\":2}", 200);
    until = hth_os_monotonic_ns() + PATIENCE_MS * UINT64_C(1000000);
    do {
        assert_true(hth_os_monotonic_ns() < until);
        usleep(10000);
        hth_status_page_read(page, status);
    } while (!status->has_numbers || status->counters.requests == 0);
    assert_int_equal(status->counters.requests, 1);
    assert_string_equal(status->info.name, "stub:");
    assert_true(status->loop_ns < PATIENCE_MS * UINT64_C(1000000));
    assert_int_equal(status->n_restoring, 0);
    hth_test_worker_deinit(&worker);
    hth_status_page_free(page);
    close(fd);
    free(status);
}

static bool note_key(const hearth_row *row, void *user_data)
{
    memcpy(user_data, row->key, sizeof(row->key));
    return false;
}

static bool count_row(const hearth_row *row, void *user_data)
{
    (void)row;
    ++*(size_t *)user_data;
    return true;
}

TEST(rows_under_suspicion_are_set_aside_before_anything_else)
{
    hth_test_worker worker;
    hth_status_page *page;
    hearth_runtime *runtime;
    uint8_t key[1][32];
    size_t n_before = 0, n_after = 0;
    hearth_error err;
    int fd;

    assert_ok(hth_status_page_new(&page, &fd, &err), err);
    hth_test_worker_init(&worker, "stub:");
    hth_test_worker_start(&worker);
    (void)post(&worker, "/completion", "{\"prompt\":\"" PROMPT "\",\"n_predict\":2}", 200);
    hth_test_worker_stop(&worker);
    runtime = hth_test_runtime_open(&worker.runtime);
    assert_int_equal(hearth_runtime_rows(runtime, count_row, &n_before, &err), HEARTH_OK);
    assert_int_equal(hearth_runtime_rows(runtime, note_key, key[0], &err), HEARTH_OK);
    hearth_runtime_close(runtime);
    assert_true(n_before > 0);

    hth_status_page_suspects_add(page, (const uint8_t(*)[32])key, 1);
    worker.options.status_fd = fd;
    hth_test_worker_start(&worker);
    assert_int_equal(hth_status_page_suspects(page, key, 1), 0);
    hth_test_worker_stop(&worker);
    runtime = hth_test_runtime_open(&worker.runtime);
    assert_int_equal(hearth_runtime_rows(runtime, count_row, &n_after, &err), HEARTH_OK);
    hearth_runtime_close(runtime);
    assert_true(n_after < n_before);
    hth_test_worker_deinit(&worker);
    hth_status_page_free(page);
    close(fd);
}
