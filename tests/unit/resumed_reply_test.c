/*
 * resumed_reply_test.c - replies of a real model whose worker is killed on the way, against the same in peace
 *
 * All of the front but its command: clients, the HTTP server, the proxy, the supervisor, and workers as processes.
 * Prompts are short and one request runs at a time, so that the engine computes the same bits each time.
 */
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/proxy.h"
#include "http/routes.h"
#include "support/cmocka_all.h"
#include "support/http_stage.h"
#include "support/support.h"

typedef struct chain {
    hth_test_http http; /* its event base and its clients; its server is not used */
    char *directory;
    hth_server_options options;
    hth_server_model model;
    const char *worker[16];
    char logged[256 << 10];
    size_t n_logged_bytes;
    hth_log log;
    hth_http_server *server;
    hth_upstream *upstream;
    hth_supervisor *supervisor;
    hth_places *places;
    hth_proxy *proxy;
    unsigned n_over;
    hth_access_record record;
    pid_t killed; /* the last one; 0: none */
} chain;

static void log_write(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    chain *c = user_data;
    int n = snprintf(c->logged + c->n_logged_bytes, sizeof(c->logged) - c->n_logged_bytes, "%d %s: %s\n", (int)level,
                     source, message);

    if (n > 0 && c->n_logged_bytes + (size_t)n < sizeof(c->logged))
        c->n_logged_bytes += (size_t)n;
}

static void on_over(const hth_access_record *record, void *user_data)
{
    chain *c = user_data;

    c->n_over++;
    c->record = *record;
}

static void relay(hth_http_exchange *exchange, void *user_data)
{
    chain *c = user_data;
    const char *path = hth_http_path(exchange);

    hth_proxy_relay(c->proxy, exchange,
                    &(hth_relay_request){
                        .model = "tiny",
                        .method = "POST",
                        .target = path,
                        .dialect = hth_path_dialect(path),
                        .generates = true,
                        .id = "always0the0same",
                        .on_over = on_over,
                        .user_data = c,
                    });
}

static int setup(void **state)
{
    static const char model[] = HTH_TEST_MODELS "/hearth-tiny.gguf";
    const char *const words[] = { "--model", model, "--ctx", "2048", "--threads", "1", "--ram", "64M", NULL };
    const hth_http_options http = hth_http_options_default();
    chain *c = calloc(1, sizeof(*c));
    hearth_error err = { .message = "" };

    assert_non_null(c);
    hth_test_http_open(&c->http, NULL);
    c->directory = hth_test_directory_new();
    memcpy(c->worker, words, sizeof(words));
    c->model = (hth_server_model){ .name = "tiny", .worker = c->worker, .ram_bytes = 64 << 20 };
    c->options = hth_server_options_default();
    c->options.models = &c->model;
    c->options.n_models = 1;
    c->options.healthy_ms = 1; /* deaths are no reason to pause for long */
    c->log = (hth_log){ .level = HEARTH_LOG_INFO, .write = log_write, .user_data = c };
    assert_int_equal(setenv("HEARTH_CACHE", c->directory, 1), 0);
    assert_int_equal(hth_http_server_new(c->http.base, &http, relay, c, &c->server, &err), HEARTH_OK);
    assert_int_equal(hth_http_listen_tcp(c->server, "127.0.0.1", 0, 0, NULL, NULL, &c->http.port, NULL, &err),
                     HEARTH_OK);
    assert_int_equal(hth_upstream_new(c->http.base, &c->upstream, &err), HEARTH_OK);
    assert_ok(hth_supervisor_new(c->http.base, HTH_TEST_HEARTH, &c->options, &c->log, NULL, &c->supervisor, &err), err);
    assert_ok(hth_places_new(&(hth_places_options){ .base = c->http.base, .supervisor = c->supervisor, .name = "" },
                             &c->places, &err),
              err);
    assert_int_equal(hth_proxy_new(&(hth_proxy_options){ .upstream = c->upstream,
                                                         .places = c->places,
                                                         .log = &c->log,
                                                         .limits = { .retries_max = 10, .wait_timeout_ms = 120000 } },
                                   &c->proxy, &err),
                     HEARTH_OK);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    chain *c = *state;

    hth_test_http_until(&c->http, hth_http_server_numbers(c->server).n_connections == 0);
    hth_http_server_free(c->server);
    hth_proxy_free(c->proxy);
    hth_places_free(c->places);
    hth_upstream_free(c->upstream);
    hth_supervisor_free(c->supervisor);
    hth_test_http_close(&c->http);
    hth_test_directory_remove(c->directory);
    free(c);
    return 0;
}

#define CHAIN_TEST(name) TEST_IN(chain, c, name, NULL, NULL)

static pid_t pid_of_worker(const chain *c)
{
    hth_worker_view view;

    hth_supervisor_view(c->supervisor, 0, &view);
    return view.pid;
}

static void kill_worker(chain *c)
{
    const pid_t pid = pid_of_worker(c);

    if (pid <= 0)
        return;
    assert_int_equal(kill(pid, SIGKILL), 0);
    c->killed = pid;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

/* What two runs may differ in: when it was, how long it took, and what was in the cache when it began. */
static void forget_chance(char *text)
{
    static const char *const numbers[] = { "\"created\":", "cached_tokens\":", "\"tokens_cached\":",
                                           "input_tokens\":" };
    char *from, *to;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        for (char *at = strstr(text, numbers[i]); at; at = strstr(at + 1, numbers[i])) {
            char *digits = at + strlen(numbers[i]);
            size_t n = strspn(digits, "0123456789");

            memmove(digits, digits + n, strlen(digits + n) + 1);
        }
    for (from = strstr(text, "_duration\":"); from; from = strstr(from + 1, "_duration\":")) {
        char *digits = from + strlen("_duration\":");
        size_t n = strspn(digits, "0123456789");

        memmove(digits, digits + n, strlen(digits + n) + 1);
    }
    for (from = strstr(text, "\"created_at\":\""); from; from = strstr(from + 1, "\"created_at\":\""))
        memset(from + strlen("\"created_at\":\""), '0', strlen("2026-01-31T12:00:00Z"));
    for (from = strstr(text, "\"timings\":{"); from && (to = strchr(from, '}'));
         from = strstr(from + 1, "\"timings\":{"))
        memmove(from + strlen("\"timings\":{"), to, strlen(to) + 1);
    for (from = strstr(text, "\"cache\":{\"hit\""); from && (to = strchr(from, '}'));
         from = strstr(from + 1, "\"cache\":{\"hit\""))
        memmove(from + strlen("\"cache\":{"), to, strlen(to) + 1);
}

/* What a message says of the cache at its beginning and at its end is one thing, whichever workers said it. */
static void expect_one_usage(const char *text)
{
    static const char name[] = "\"cache_read_input_tokens\":";
    const char *first = strstr(text, name);

    for (const char *at = first; at; at = strstr(at + 1, name))
        if (strtoul(at + strlen(name), NULL, 10) != strtoul(first + strlen(name), NULL, 10))
            fail_msg("of the cache it says first %.40s and then %.40s", first, at);
}

/* The body of the reply, joined where it came in chunks; the caller's. */
static char *body_of(const hth_test_client *client)
{
    const char *at = hth_test_client_body(client);
    char *body = calloc(1, client->n_heard + 1), *to = body;

    assert_non_null(body);
    if (!strstr(client->heard, "chunked")) {
        memcpy(body, at, strlen(at));
        return body;
    }
    for (;;) {
        char *after;
        size_t n = strtoul(at, &after, 16);

        if (n == 0)
            return body;
        memcpy(to, after + 2, n);
        to += n;
        at = after + 2 + n + 2;
    }
}

/* One request. Its worker is killed after every n_events further events, or after the n_events-th turn. */
static char *ask(chain *c, const char *path, const char *request, size_t n_events, unsigned n_kills)
{
    hth_test_client client;
    char head[256], *body;
    unsigned n_over = c->n_over;
    size_t n_turns = 0;

    hth_test_client_open(&client, &c->http);
    (void)snprintf(head, sizeof(head),
                   "POST %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n", path,
                   strlen(request));
    hth_test_client_say(&client, head);
    hth_test_client_say(&client, request);
    while (c->n_over == n_over) {
        size_t n_seen;

        hth_test_http_turn(&c->http);
        hth_test_client_listen(&client);
        n_seen = strstr(client.heard, "x-ndjson")   ? count(client.heard, "}\n")
               : strstr(request, "\"stream\":true") ? count(client.heard, "data: ")
                                                    : ++n_turns / 20;
        if (n_kills > 0 && n_seen >= n_events) {
            kill_worker(c);
            n_kills--;
            n_events += n_seen;
        }
    }
    hth_test_client_hear_end(&client);
    /* A worker that was killed after its last event must not get the next request. */
    hth_test_http_until(&c->http, c->killed == 0 || pid_of_worker(c) != c->killed);
    assert_int_equal(strncmp(client.heard, "HTTP/1.1 200", 12), 0);
    body = body_of(&client);
    expect_one_usage(body);
    forget_chance(body);
    hth_test_client_close(&client);
    return body;
}

/* The events of each choice one behind the other: how choices take turns is chance. */
static void order_choices(char *text)
{
    size_t n = strlen(text);
    char *ordered = calloc(1, n + 1), *to = ordered;

    assert_non_null(ordered);
    for (int choice = 0; choice < 4; choice++) {
        char index[32];

        (void)snprintf(index, sizeof(index), "\"index\":%d,", choice); /* fits */
        for (const char *at = text, *end; (end = strstr(at, "\n\n")) != NULL; at = end + 2) {
            const char *found = strstr(at, index);

            if (!found || found > end)
                continue;
            memcpy(to, at, (size_t)(end + 2 - at));
            to += end + 2 - at;
        }
    }
    memcpy(text, ordered, (size_t)(to - ordered) + 1);
    free(ordered);
}

static void compare(chain *c, const char *path, const char *request, bool has_choices)
{
    char *calm = ask(c, path, request, 0, 0);

    assert_int_equal(c->record.n_resumed, 0);
    if (has_choices)
        order_choices(calm);
    for (size_t n_events = 1; n_events < 16; n_events += 5) {
        char *broken = ask(c, path, request, n_events, 2);

        if (has_choices)
            order_choices(broken);
        if (strcmp(calm, broken) != 0)
            fail_msg("%s, killed after %zu events:\n%s\ninstead of\n%s\nthe log:\n%s", path, n_events, broken, calm,
                     c->logged);
        free(broken);
    }
    assert_true(c->record.has_summary && c->record.summary.figures.n_reply_tokens > 0);
    free(calm);
}

CHAIN_TEST(chats_go_on_where_they_were)
{
    compare(c, "/v1/chat/completions",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"Once upon a time\"}],\"stream\":true,\"max_tokens\":40,"
            "\"temperature\":0.8,\"seed\":7,\"stream_options\":{\"include_usage\":true}}",
            false);
}

CHAIN_TEST(several_replies_go_on_each)
{
    compare(
        c, "/v1/completions",
        "{\"prompt\":[\"The king\",\"A fox\"],\"n\":2,\"stream\":true,\"max_tokens\":20,\"temperature\":1,\"seed\":3}",
        true);
}

CHAIN_TEST(anthropics_events_go_on)
{
    compare(c, "/v1/messages",
            "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"A stone\"}],\"stream\":true,"
            "\"max_tokens\":40,\"temperature\":0}",
            false);
}

CHAIN_TEST(ollamas_lines_go_on)
{
    compare(c, "/api/chat",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"A river\"}],\"stream\":true,\"logprobs\":true,"
            "\"options\":{\"num_predict\":40,\"temperature\":0.8,\"seed\":7}}",
            false);
    /* With the tokens of the whole conversation at the end. */
    compare(c, "/api/generate",
            "{\"prompt\":\"A hill\",\"stream\":true,\"options\":{\"num_predict\":40,\"temperature\":0}}", false);
    compare(c, "/api/generate",
            "{\"prompt\":\"A bird\",\"stream\":false,\"options\":{\"num_predict\":40,\"temperature\":0}}", false);
}

/* The first worker finds nothing of it in the cache, the second one what the first has left. */
CHAIN_TEST(what_was_said_of_the_cache_stays_true)
{
    static const char head[] = "{\"model\":\"tiny\",\"stream\":true,\"max_tokens\":60,\"temperature\":0,\"messages\":[{"
                               "\"role\":\"user\",\"content\":\"";
    hth_buffer request = { .text = NULL };
    char *text;

    hth_buffer_add_text(&request, head);
    for (int i = 0; i < 60; i++)
        hth_buffer_add_text(&request, "Nobody has told of this king. ");
    hth_buffer_add_text(&request, "\"}]}");
    text = ask(c, "/v1/messages", request.text, 6, 1);
    assert_int_equal(c->record.n_resumed, 1);
    assert_int_equal(count(text, "\"cache_read_input_tokens\":"), 2); /* ask has compared them */
    assert_in_range(c->record.summary.figures.n_cached_tokens, 0, 8);
    free(text);
    hth_buffer_deinit(&request);
}

CHAIN_TEST(seeds_of_the_front_are_kept)
{
    char *text = ask(c, "/v1/completions",
                     "{\"prompt\":\"It was\",\"stream\":true,\"max_tokens\":40,\"temperature\":1.5}", 5, 2);

    assert_int_equal(count(text, "data: [DONE]"), 1);
    free(text);
}

CHAIN_TEST(whole_replies_are_whole)
{
    compare(c, "/completion", "{\"prompt\":\"In the wood\",\"n_predict\":60,\"temperature\":0.7,\"seed\":11}", false);
}

GROUP(with_texts, setup, teardown)
