/*
 * kept_streams_property_test.c - a stream read in pieces, by clients that go away anywhere and workers that die
 * anywhere, is the stream read at once
 *
 * Each round makes a random stream of events, or of lines, and has a client read it that leaves after a random number
 * of bytes, comes back with the number of the last whole event that it has seen, and so on until its end; meanwhile
 * workers break off. Together it has seen each event once, in their order, numbered from 1 on.
 */
#include <string.h>

#include "base/draw.h"
#include "support/relay_stage.h"

enum { ROUNDS = 150, STEPS_MAX = 12, LEAVES_MAX = 4 };

typedef struct dice {
    uint64_t seed, n;
} dice;

static unsigned draw(dice *d, unsigned n)
{
    return (unsigned)(hth_draw_uniform(d->seed, d->n++) * n);
}

/* ---- a random stream ---- */

typedef struct story {
    script_step steps[STEPS_MAX];
    char texts[STEPS_MAX][512];
    reply_script script;
    bool has_lines;
    hth_buffer told; /* its events that tokens released, without pings */
} story;

static void make_story(dice *d, story *out)
{
    unsigned n_steps = 1 + draw(d, STEPS_MAX), n_events = 0;

    memset(out, 0, sizeof(*out));
    out->has_lines = draw(d, 3) == 0;
    for (unsigned i = 0; i < n_steps; i++) {
        script_step *step = &out->steps[i];
        char *text = out->texts[i];
        size_t n = 0;
        bool is_aside = i + 1 < n_steps && draw(d, 4) == 0; /* what no token released is said again by a next worker */

        for (unsigned k = 1 + draw(d, 3); k > 0; k--)
            n += (size_t)snprintf(text + n, sizeof(out->texts[i]) - n,
                                  out->has_lines    ? (is_aside ? " " : "{\"number\":%u}\n")
                                  : is_aside        ? (k % 2 ? ":\n\n" : "event: ping\ndata: {}\n\n")
                                  : draw(d, 2) == 0 ? "data: %u\n\n"
                                                    : "event: e\ndata: {\"number\":%u}\n\n",
                                  ++n_events);
        *step = (script_step){ .bytes = text, .has_ended = i + 1 == n_steps };
        if (is_aside)
            continue;
        step->n_tokens = 1 + draw(d, 3);
        for (uint32_t k = 0; k < step->n_tokens; k++)
            step->tokens[k] = (hearth_token)draw(d, 1000);
        hth_buffer_add_text(&out->told, text);
    }
    out->script = (reply_script){ .status = 200, .is_stream = true, .steps = out->steps, .n_steps = n_steps };
    out->script.content_type = out->has_lines ? "application/x-ndjson" : "text/event-stream";
}

/* ---- a reader ---- */

typedef struct reader {
    relay_stage *stage;
    bool has_lines;
    char id[64];
    uint64_t last;   /* number of the last event seen */
    hth_buffer seen; /* events without numbers and pings */
    bool is_over;
} reader;

/* Take the whole lines of what was heard. */
static void take_lines(reader *r, const char *text, size_t n)
{
    const char *end;

    for (; (end = memchr(text, '\n', n)); n -= (size_t)(end + 1 - text), text = end + 1) {
        size_t n_spaces = strspn(text, " ");

        hth_buffer_add(&r->seen, text + n_spaces, (size_t)(end + 1 - text) - n_spaces);
        r->last++;
    }
}

/* Take the whole events of what was heard. */
static void take_events(reader *r, const char *text, size_t n)
{
    const char *end;

    for (; (end = memmem(text, n, "\n\n", 2)); n -= (size_t)(end + 2 - text), text = end + 2) {
        char *after;

        if (text[0] == ':')
            continue;
        assert_true(strncmp(text, "id: ", 4) == 0);
        assert_int_equal(strtoull(text + 4, &after, 10), r->last + 1);
        r->last++;
        assert_int_equal(*after, '\n');
        if (strncmp(after + 1, "event: ping\n", 12) != 0)
            hth_buffer_add(&r->seen, after + 1, (size_t)(end + 2 - after - 1));
    }
}

static void ask(reader *r, hth_test_client *client, dice *d)
{
    char head[256];

    if (!r->id[0]) {
        client_ask(client, r->stage, "{\"a\":1}");
        return;
    }
    hth_test_client_open(client, &r->stage->http);
    if (draw(d, 2) == 0)
        (void)snprintf(head, sizeof(head), "GET /v1/streams/%s?after=%llu HTTP/1.1\r\nHost: h\r\n\r\n", r->id,
                       (unsigned long long)r->last);
    else
        (void)snprintf(head, sizeof(head), "GET /v1/streams/%s HTTP/1.1\r\nHost: h\r\nLast-Event-ID: %llu\r\n\r\n",
                       r->id, (unsigned long long)r->last);
    hth_test_client_say(client, head);
}

/* Read, until the end or for a while. */
static void read_some(reader *r, dice *d, bool to_the_end)
{
    hth_test_client client;
    client_reply *reply = &r->stage->reply;
    size_t wanted = draw(d, 600);
    const char *id;

    ask(r, &client, d);
    hth_test_http_until(&r->stage->http, (client_reply_read(&client, reply), reply->status > 0));
    assert_int_equal(reply->status, 200);
    id = strstr(client.heard, HTH_HEADER_STREAM ": ");
    assert_non_null(id);
    (void)snprintf(r->id, sizeof(r->id), "%.*s", (int)strcspn(id + sizeof(HTH_HEADER_STREAM ": ") - 1, "\r"),
                   id + sizeof(HTH_HEADER_STREAM ": ") - 1);
    hth_test_http_until(&r->stage->http,
                        (client_reply_read(&client, reply),
                         reply->is_whole || client.is_at_end || (!to_the_end && reply->body.n >= wanted)));
    if (!to_the_end && reply->body.n > wanted)
        reply->body.n = wanted; /* the rest did not arrive */
    r->is_over = reply->is_whole && (to_the_end || reply->body.n < wanted);
    (r->has_lines ? take_lines : take_events)(r, hth_buffer_text(&reply->body), reply->body.n);
    hth_test_client_close(&client);
    for (unsigned i = draw(d, 3); i > 0; i--)
        hth_test_http_turn(&r->stage->http);
}

static void play_round(uint64_t seed)
{
    dice d = { .seed = seed };
    relay_stage stage;
    story told;
    reader r = { .stage = &stage };

    make_story(&d, &told);
    r.has_lines = told.has_lines;
    relay_stage_open(&stage);
    relay_stage_keep(&stage, &(hth_kept_options){ .keep_ms = 60000, .bytes_max = 1 << 20, .total_bytes_max = 1 << 22 });
    stage.script = &told.script;
    for (unsigned i = 0; i < 3; i++) /* fewer than are tried */
        stage.runs[i].cut = draw(&d, 2) ? 1 + draw(&d, 900) : 0;
    worker_start(&stage.supervisor);
    for (unsigned i = draw(&d, LEAVES_MAX); i > 0 && !r.is_over; i--)
        read_some(&r, &d, false);
    if (!r.is_over)
        read_some(&r, &d, true);
    assert_true(r.is_over);
    assert_string_equal(hth_buffer_text(&r.seen), hth_buffer_text(&told.told));
    relay_stage_close(&stage);
    hth_buffer_deinit(&r.seen);
    hth_buffer_deinit(&told.told);
}

TEST(what_was_seen_before_and_after_is_the_whole_stream)
{
    uint64_t seed = hth_test_seed(), n_rounds = hth_test_number("HTH_ROUNDS", ROUNDS);

    for (uint64_t i = 0; i < n_rounds; i++)
        play_round(seed + i);
}
