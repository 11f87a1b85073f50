/*
 * worker_rows_test.c - a worker and its carrier, in whose place the test has the other end of the socket
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/api.h"
#include "support/api_run.h"
#include "rows/row.h"
#include "support/cmocka_all.h"
#include "support/support.h"
#include "support/worker_stage.h"
#include "wire/carrier_messages.h"

enum { PROMPT_BYTES = 3 * HTH_BLOCK_TOKENS + 20, PATIENCE_MS = 60000 };

#define HEADER HTH_HEADER_ROWS ": other\r\n"

typedef struct scene {
    hth_test_worker worker;
    int carrier; /* the carrier's end */
    char body[PROMPT_BYTES + 200];
    uint8_t buffer[HTH_CARRIER_MESSAGE_BYTES_MAX];
    hth_carrier_message got; /* its keys lie in buffer */
} scene;

static void tell(const scene *s, hth_carrier_kind kind, uint32_t number)
{
    const hth_carrier_message message = { .kind = kind, .number = number, .end = HTH_CARRIER_NOTHING };

    assert_true(hth_carrier_send(s->carrier, &message, -1));
}

/* Wait until the worker's loop has read all messages. */
static void take_what_was_told(const scene *s)
{
    struct pollfd unread = { .fd = s->worker.options.carrier_fd, .events = POLLIN };

    while (poll(&unread, 1, 0) > 0)
        ;
    (void)hth_test_worker_n_busy(&s->worker); /* another turn of the loop: what it read has had its effect */
}

static void set_up(scene *s)
{
    char *prompt = hth_test_prompt(PROMPT_BYTES, 5);
    int pair[2];

    assert_true(hth_carrier_pair(pair));
    hth_test_worker_init(&s->worker, "stub:");
    s->carrier = pair[0];
    s->worker.options.carrier_fd = pair[1];
    (void)snprintf(s->body, sizeof(s->body), "{\"prompt\":\"%.*s\",\"n_predict\":2}", PROMPT_BYTES, prompt);
    free(prompt);
    hth_test_worker_start(&s->worker);
    tell(s, HTH_CARRIER_HERE, 0);
    take_what_was_told(s);
}

static void close_carrier(scene *s)
{
    if (s->carrier >= 0)
        assert_int_equal(close(s->carrier), 0);
    s->carrier = -1;
}

static void tear_down(scene *s)
{
    hth_test_worker_stop(&s->worker);
    assert_int_equal(close(s->worker.options.carrier_fd), 0);
    hth_test_worker_deinit(&s->worker);
    close_carrier(s);
}

#define SCENE_TEST(name) TEST_WITH(scene, s, name, set_up, tear_down)

/* Send the request, whose reply hear reads. */
static int ask(const scene *s, const char *headers)
{
    int fd = hth_test_worker_connect(&s->worker);

    hth_test_worker_send(fd, "POST", "/completion", headers, s->body, strlen(s->body));
    return fd;
}

static uint32_t hear_cached(int fd)
{
    hth_test_heard heard = hth_test_worker_hear(fd);
    uint32_t n;
    json_t *body;

    if (heard.status != 200)
        fail_msg("%s", hth_buffer_text(&heard.body));
    body = hth_test_json(hth_buffer_text(&heard.body));
    n = (uint32_t)json_integer_value(json_object_get(json_object_get(body, "timings"), "cache_n"));
    hth_test_heard_deinit(&heard);
    close(fd);
    return n;
}

/* The next message to the carrier, within ms. */
static bool receive(scene *s, int ms)
{
    struct pollfd ready = { .fd = s->carrier, .events = POLLIN };
    int fd;

    if (poll(&ready, 1, ms) <= 0)
        return false;
    assert_int_equal(hth_carrier_receive(s->carrier, s->buffer, &s->got, &fd), HTH_CARRIER_GOT);
    assert_int_equal(fd, -1);
    return true;
}

static void expect(scene *s, hth_carrier_kind kind)
{
    assert_true(receive(s, PATIENCE_MS));
    assert_int_equal(s->got.kind, kind);
}

SCENE_TEST(a_request_waits_for_the_answer_of_the_carrier)
{
    const hth_carrier_message junk = { .kind = HTH_CARRIER_FETCHED, .number = 77 };
    uint8_t first_key[HTH_CARRIER_KEY_BYTES];
    uint32_t first;
    int fd = ask(s, HEADER);

    expect(s, HTH_CARRIER_FETCH);
    assert_string_equal(s->got.name, "other");
    assert_int_equal(s->got.n_tokens, 0);
    assert_in_range(s->got.n_rows, PROMPT_BYTES, PROMPT_BYTES + 1);
    assert_int_equal(s->got.ns, 0);
    assert_int_equal(s->got.n_keys, 3);
    first = s->got.number;
    memcpy(first_key, s->got.keys, sizeof(first_key));
    assert_int_equal(send(s->carrier, "nonsense", 8, 0), 8);
    assert_true(hth_carrier_send(s->carrier, &junk, -1));
    while (hth_test_worker_n_busy(&s->worker) == 0) /* it is for a minute: no time is known */
        ;
    tell(s, HTH_CARRIER_FETCHED, first);
    assert_int_equal(hear_cached(fd), 0);
    assert_int_equal(hear_cached(ask(s, "")), PROMPT_BYTES + 1); /* with the token of the beginning */
    assert_false(receive(s, 0));             /* its fetch was over; and the next had no node, and nothing was missing */
    s->body[strlen("{\"prompt\":\"")] = '#'; /* another prompt, for which the time is known */
    fd = ask(s, HEADER);
    expect(s, HTH_CARRIER_FETCH);
    assert_int_not_equal(s->got.number, first);
    assert_memory_not_equal(s->got.keys, first_key, sizeof(first_key));
    assert_true(s->got.ns > 0);
    assert_int_equal(hear_cached(fd), 1); /* the token of the beginning, without an answer */
    expect(s, HTH_CARRIER_DROP);
}

SCENE_TEST(a_request_without_a_node_asks_nobody)
{
    assert_int_equal(hear_cached(ask(s, "")), 0);
    assert_false(receive(s, 0));
}

SCENE_TEST(a_request_whose_client_goes_away_drops_its_fetch)
{
    int fd = ask(s, HEADER);
    uint32_t number;

    expect(s, HTH_CARRIER_FETCH);
    number = s->got.number;
    close(fd);
    expect(s, HTH_CARRIER_DROP);
    assert_int_equal(s->got.number, number);
    tell(s, HTH_CARRIER_FETCHED, number); /* too late for anybody */
    while (hth_test_worker_n_busy(&s->worker) > 0)
        ;
}

SCENE_TEST(without_a_carrier_requests_compute)
{
    int fd = ask(s, HEADER);

    expect(s, HTH_CARRIER_FETCH);
    close_carrier(s);
    assert_int_equal(hear_cached(fd), 0);
    s->body[strlen("{\"prompt\":\"")] = '#';
    assert_int_equal(hear_cached(ask(s, HEADER)), 1); /* the token of the beginning */
}

SCENE_TEST(the_end_of_the_carrier_ends_all_waits_until_there_is_another)
{
    int fd = ask(s, HEADER);

    expect(s, HTH_CARRIER_FETCH); /* for a minute: no time is known */
    tell(s, HTH_CARRIER_GONE, 0);
    assert_int_equal(hear_cached(fd), 0);
    s->body[strlen("{\"prompt\":\"")] = '#';
    assert_int_equal(hear_cached(ask(s, HEADER)), 1); /* the token of the beginning */
    assert_false(receive(s, 0));
    tell(s, HTH_CARRIER_HERE, 0);
    take_what_was_told(s);
    s->body[strlen("{\"prompt\":\"")] = '+';
    fd = ask(s, HEADER);
    expect(s, HTH_CARRIER_FETCH);
    tell(s, HTH_CARRIER_FETCHED, s->got.number);
    assert_int_equal(hear_cached(fd), 1);
}
