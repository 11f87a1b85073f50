/*
 * relay_body_test.c - replies that are no streams and larger than the front keeps: they leave as they come, and go on
 * in the next worker with the byte after the last that has left
 */
#include <string.h>

#include "support/relay_stage.h"

enum {
    BODY_BYTES = 3 << 20,
    N_TOKENS = 40,
    N_LOGPROBS = 3,
};

/* How a worker's body differs from the first one's. */
typedef enum body_kind { BODY_SAME, BODY_OTHER_BYTE, BODY_SHORTER, BODY_REFUSED } body_kind;

typedef struct body_stage {
    relay_stage relay;
    body_kind later;         /* the body of all runs but the first */
    size_t cut;              /* of the first run's reply; 0: it is whole */
    size_t n_known_tokens;   /* that the last run was told */
    bool knows_logprobs;     /* and as they were told */
    bool knows_outcome;      /* likewise */
    uint32_t n_token_frames; /* that the first run tells; 0: 1 */
} body_stage;

static void setup(body_stage *stage)
{
    relay_stage_open(&stage->relay);
}

static void teardown(body_stage *stage)
{
    relay_stage_close(&stage->relay);
}

#define STAGED(name) TEST_WITH(body_stage, stage, name, setup, teardown)

static char body_byte(size_t i)
{
    return (char)('a' + (i * i / 7 + i) % 26);
}

static hearth_logprob logprob(uint32_t i, uint32_t k)
{
    return (hearth_logprob){ .token = (hearth_token)(i + k), .logprob = -0.125f * (float)(i + 1) / (float)(k + 1) };
}

static void add_tokens(hth_buffer *out)
{
    const hth_frame_outcome outcome = { .finish = 2, .figures.n_reply_tokens = N_TOKENS, .figures.decode_ms = 12.75 };
    hearth_token ids[N_TOKENS];
    hearth_logprob logprobs[N_TOKENS * N_LOGPROBS];

    for (uint32_t i = 0; i < N_TOKENS; i++) {
        ids[i] = (hearth_token)i;
        for (uint32_t k = 0; k < N_LOGPROBS; k++)
            logprobs[i * N_LOGPROBS + k] = logprob(i, k);
    }
    hth_frame_add_outcome(out, 0, &outcome);
    hth_frame_add_step(out, 0, HTH_STEP_ENDS,
                       &(hth_frame_tokens){ .ids = ids, .n = N_TOKENS, .logprobs = logprobs, .n_logprobs = N_LOGPROBS },
                       NULL, 0);
}

/* What the run was told of the ones before it. */
static void note_known(body_stage *stage, const char *bytes, size_t n)
{
    stage->n_known_tokens = 0;
    stage->knows_logprobs = stage->knows_outcome = false;
    while (n > 0) {
        hth_frame frame;
        size_t n_used;

        assert_int_equal(hth_frame_read(bytes, n, &frame, &n_used), HTH_FRAME_OK);
        if (frame.kind == HTH_FRAME_OUTCOME)
            stage->knows_outcome = frame.outcome.finish == 2 && frame.outcome.figures.decode_ms == 12.75;
        for (uint32_t i = 0; i < frame.n_tokens; i++) {
            hearth_logprob expected = logprob(i, N_LOGPROBS - 1), told = hth_frame_logprob(&frame, i, N_LOGPROBS - 1);

            assert_int_equal(hth_frame_token(&frame, i), i);
            stage->knows_logprobs = told.token == expected.token && told.logprob == expected.logprob;
            stage->n_known_tokens++;
        }
        bytes += n_used;
        n -= n_used;
    }
}

static void add_body(hth_buffer *out, body_kind kind)
{
    size_t n = kind == BODY_SHORTER ? BODY_BYTES / 8 : BODY_BYTES;
    char *bytes = malloc(n);

    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = body_byte(i);
    if (kind == BODY_OTHER_BYTE)
        bytes[3]++;
    hth_frame_add_bytes(out, bytes, n);
    free(bytes);
}

static void answer(fake_connection *connection, const fake_request *request, void *user_data)
{
    body_stage *stage = user_data;
    unsigned run = note_run(&stage->relay, request);
    body_kind kind = run == 0 ? BODY_SAME : stage->later;
    const hth_frame_summary summary = { .status = 200 };
    hth_buffer out = { .text = NULL }, frames = { .text = NULL };

    note_known(stage, request->body, stage->relay.n_known[run]);
    script_head(&out, HTH_FRAMES_CONTENT_TYPE);
    for (uint32_t i = 0; i < (stage->n_token_frames ? stage->n_token_frames : 1) && stage->n_known_tokens == 0; i++)
        add_tokens(&frames);
    if (kind == BODY_REFUSED) {
        hth_frame_add_head(&frames, 503, false, 1, "application/json", NULL);
        hth_frame_add_bytes(&frames, "{}", 2);
    } else {
        hth_frame_add_head(&frames, 200, false, 0, "application/json", NULL);
        add_body(&frames, kind);
    }
    hth_frame_add_end(&frames, &summary);
    script_chunk(&out, &frames);
    hth_buffer_clear(&frames);
    script_chunk(&out, &frames);
    stage->relay.n_reply_bytes = out.n;
    if (run == 0 && stage->cut > 0) {
        fake_write(connection, out.text, stage->cut);
        fake_end(connection);
    } else {
        fake_write(connection, out.text, out.n);
    }
    hth_buffer_deinit(&frames);
    hth_buffer_deinit(&out);
}

static void exchange_body(body_stage *stage)
{
    forget_runs(&stage->relay);
    if (!stage->relay.supervisor.worker) {
        stage->relay.supervisor.handler = answer;
        stage->relay.supervisor.user_data = stage;
        worker_start(&stage->relay.supervisor);
    }
    exchange_whole(&stage->relay);
}

static void expect_whole(const client_reply *reply)
{
    assert_int_equal(reply->status, 200);
    assert_true(reply->is_whole);
    assert_int_equal(reply->body.n, BODY_BYTES);
    for (size_t i = 0; i < BODY_BYTES; i++)
        if (reply->body.text[i] != body_byte(i))
            fail_msg("byte %zu is another", i);
}

STAGED(a_long_body_leaves_as_it_comes)
{
    exchange_body(stage);
    expect_whole(&stage->relay.reply);
    assert_true(stage->relay.reply.is_chunked);
    assert_false(stage->relay.record.is_stream); /* nobody asked for one */
    assert_int_equal(stage->relay.record.bytes_out, BODY_BYTES);
}

STAGED(a_long_body_that_breaks_goes_on_with_the_next_byte)
{
    size_t n_bytes;

    exchange_body(stage);
    n_bytes = stage->relay.n_reply_bytes;
    for (size_t cut = 200; cut < n_bytes; cut += n_bytes / 9) {
        stage->cut = cut;
        exchange_body(stage);
        assert_int_equal(stage->relay.n_runs, 2);
        expect_whole(&stage->relay.reply);
        if (cut > n_bytes / 2) {
            assert_int_equal(stage->n_known_tokens, N_TOKENS);
            assert_true(stage->knows_logprobs && stage->knows_outcome);
        }
    }
}

/* Nothing is made up of two replies: what does not go on byte for byte is seen to be broken off. */
STAGED(a_body_that_comes_out_differently_is_cut_off)
{
    static const body_kind kinds[] = { BODY_OTHER_BYTE, BODY_SHORTER, BODY_REFUSED };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        stage->later = kinds[i];
        stage->cut = BODY_BYTES / 2;
        exchange_body(stage);
        assert_false(stage->relay.reply.is_whole);
        assert_true(stage->relay.reply.body.n < BODY_BYTES);
        assert_true(stage->relay.record.status >= 500);
    }
}

/* What has not left yet may come out as the next worker makes it. */
STAGED(a_body_of_which_nothing_has_left_is_the_next_workers)
{
    stage->later = BODY_OTHER_BYTE;
    stage->cut = 100 << 10;
    exchange_body(stage);
    assert_true(stage->relay.reply.is_whole);
    assert_int_equal(stage->relay.reply.body.n, BODY_BYTES);
    assert_int_equal(stage->relay.reply.body.text[3], body_byte(3) + 1);
}

/* Its tokens are too many to be remembered: the next worker begins anew, since nobody has seen any of it. */
STAGED(a_reply_too_long_to_be_remembered_begins_anew)
{
    hth_buffer tokens = { .text = NULL };

    add_tokens(&tokens);
    stage->n_token_frames = (uint32_t)(HTH_KNOWN_BYTES_MAX / tokens.n) + 2;
    stage->cut = HTH_KNOWN_BYTES_MAX + 2 * tokens.n;
    exchange_body(stage);
    assert_int_equal(stage->relay.n_runs, 2);
    assert_int_equal(stage->n_known_tokens, 0);
    expect_whole(&stage->relay.reply);
    hth_buffer_deinit(&tokens);
}

/* ---- what workers send that no worker sends ---- */

static void send_nonsense(fake_connection *connection, const fake_request *request, void *user_data)
{
    body_stage *stage = user_data;
    const hth_frame_summary summary = { .status = 200 };
    hth_buffer out = { .text = NULL }, frames = { .text = NULL };
    unsigned run = note_run(&stage->relay, request);

    script_head(&out, HTH_FRAMES_CONTENT_TYPE);
    switch (run) {
    case 0: hth_frame_add_bytes(&frames, "x", 1); break; /* before the head */
    case 1:
        hth_frame_add_head(&frames, 200, false, 0, "application/json", NULL);
        hth_frame_add_step(&frames, 0, 0, NULL, "x", 1); /* a body's bytes belong to no step */
        break;
    case 2: hth_frame_add_outcome(&frames, 128, &(hth_frame_outcome){ .finish = 1 }); break; /* no such reply */
    default:
        hth_frame_add_head(&frames, 200, true, 0, "text/event-stream", NULL);
        hth_frame_add_bytes(&frames, "data: x", 7); /* which no step follows */
        hth_frame_add_end(&frames, &summary);
        stage->relay.supervisor.handler = play;
        stage->relay.supervisor.user_data = &stage->relay;
    }
    script_chunk(&out, &frames);
    fake_write(connection, out.text, out.n);
    hth_buffer_deinit(&frames);
    hth_buffer_deinit(&out);
}

STAGED(frames_out_of_place_count_as_a_broken_connection)
{
    static const script_step steps[] = {
        { .tokens = { 1 }, .n_tokens = 1, .bytes = "data: one\n\n", .has_ended = true }
    };
    static const reply_script script = {
        .status = 200, .is_stream = true, .content_type = "text/event-stream", .steps = steps, .n_steps = 1
    };

    stage->relay.script = &script;
    stage->relay.supervisor.handler = send_nonsense;
    stage->relay.supervisor.user_data = stage;
    hth_proxy_set_limits(stage->relay.proxy, &(hth_relay_limits){ .retries_max = 10, .wait_timeout_ms = 60000 });
    worker_start(&stage->relay.supervisor);
    exchange_whole(&stage->relay);
    assert_int_equal(stage->relay.n_runs, 5);
    assert_string_equal(hth_buffer_text(&stage->relay.reply.body), "data: one\n\n");
}

/* An event that needs more than a frame comes with its token, or not at all. */
static void send_long_event(fake_connection *connection, const fake_request *request, void *user_data)
{
    body_stage *stage = user_data;
    const hth_frame_summary summary = { .status = 200 };
    hth_buffer out = { .text = NULL }, frames = { .text = NULL };
    unsigned run = note_run(&stage->relay, request);
    char *event = malloc(BODY_BYTES);

    assert_non_null(event);
    memset(event, 'e', BODY_BYTES);
    script_head(&out, HTH_FRAMES_CONTENT_TYPE);
    hth_frame_add_head(&frames, 200, true, 0, "text/event-stream", NULL);
    hth_frame_add_step(&frames, 0, HTH_STEP_ENDS, &(hth_frame_tokens){ .ids = &(hearth_token){ 1 }, .n = 1 }, event,
                       BODY_BYTES);
    hth_frame_add_end(&frames, &summary);
    script_chunk(&out, &frames);
    hth_buffer_clear(&frames);
    script_chunk(&out, &frames);
    fake_write(connection, out.text, run == 0 ? (size_t)BODY_BYTES / 2 : out.n);
    if (run == 0)
        fake_end(connection);
    free(event);
    hth_buffer_deinit(&frames);
    hth_buffer_deinit(&out);
}

STAGED(an_event_longer_than_a_frame_is_not_split_by_a_death)
{
    stage->relay.supervisor.handler = send_long_event;
    stage->relay.supervisor.user_data = stage;
    worker_start(&stage->relay.supervisor);
    exchange_whole(&stage->relay);
    assert_int_equal(stage->relay.n_runs, 2);
    assert_int_equal(stage->relay.n_known[1], 0);
    assert_true(stage->relay.reply.is_whole);
    assert_int_equal(stage->relay.reply.body.n, BODY_BYTES);
}
