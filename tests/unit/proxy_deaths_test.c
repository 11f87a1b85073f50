/*
 * proxy_deaths_test.c - requests that go on in the next worker, and all the ways in which that ends
 */
#include "support/relay_tests.h"

/* ---- workers that die ---- */

/* Break off the reply after every number of bytes, head of HTTP included. */
static void break_everywhere(relay_stage *stage, const reply_script *script, const char *text)
{
    size_t n_bytes;

    begin_with(stage, script);
    exchange_whole(stage);
    n_bytes = stage->n_reply_bytes;
    for (size_t cut = 1; cut < n_bytes; cut++) {
        bool is_over;

        begin_with(stage, script);
        stage->runs[0].cut = cut;
        exchange_whole(stage);
        /* Once END is there, what follows does not matter. */
        is_over = stage->n_runs == 1;
        if (!is_over)
            assert_int_equal(stage->n_runs, 2);
        if ((is_over && cut < n_bytes - 10) || !stage->reply.is_whole || stage->reply.status != 200)
            fail_msg("cut at %zu of %zu: %d, '%s'", cut, n_bytes, stage->reply.status,
                     hth_buffer_text(&stage->reply.body));
        assert_string_equal(hth_buffer_text(&stage->reply.body), text);
        /* libcurl asks again itself where a kept connection ends without a byte. */
        assert_true(stage->record.n_resumed == (is_over ? 0 : 1) || cut < 20);
    }
}

STAGED(a_stream_that_breaks_anywhere_goes_on_with_the_next_byte)
{
    break_everywhere(stage, &stream, stream_text);
}

STAGED(a_stream_of_several_replies_goes_on_with_each)
{
    break_everywhere(stage, &choices, choices_text);
}

STAGED(a_whole_reply_that_breaks_anywhere_is_whole)
{
    break_everywhere(stage, &whole, "{\"text\":\"all of it\"}");
}

STAGED(workers_may_die_one_after_the_other)
{
    uint64_t seed = hth_test_seed();

    stage->options.limits.retries_max = 20;
    set_options(stage);
    for (int i = 0; i < 300; i++) {
        begin_with(stage, i % 2 ? &stream : &choices);
        stage->supervisor.fate = i % 3 ? FATE_DEAD : FATE_DEAD_LATE;
        for (int run = 0; run < 10; run++)
            stage->runs[run].cut = 100 + hth_test_random(&seed, 900);
        exchange_whole(stage);
        assert_true(stage->reply.is_whole);
        assert_string_equal(hth_buffer_text(&stage->reply.body), i % 2 ? stream_text : choices_text);
    }
}

/* Whatever kills workers, a reply that comes further with each of them reaches its end. */
STAGED(a_reply_that_comes_further_survives_any_number_of_deaths)
{
    enum { N_STEPS = 40 };
    static script_step steps[N_STEPS];
    const reply_script script = {
        .status = 200, .is_stream = true, .content_type = stream.content_type, .steps = steps, .n_steps = N_STEPS
    };
    char bytes[N_STEPS][24];
    hth_buffer all = { .text = NULL };

    for (int i = 0; i < N_STEPS; i++) {
        (void)snprintf(bytes[i], sizeof(bytes[i]), "data: %d\n\n", i);
        steps[i] = (script_step){ .tokens = { i }, .n_tokens = 1, .bytes = bytes[i], .has_ended = i + 1 == N_STEPS };
        hth_buffer_add_text(&all, bytes[i]);
    }
    begin_with(stage, &script);
    for (int run = 0; run < RUNS_MAX; run++)
        stage->runs[run].cut = 250; /* one or two steps */
    stage->supervisor.fate = FATE_DEAD;
    exchange_whole(stage);
    assert_int_equal(stage->reply.status, 200);
    assert_true(stage->reply.is_whole);
    assert_string_equal(hth_buffer_text(&stage->reply.body), hth_buffer_text(&all));
    assert_true(stage->n_runs > 10);
    assert_true(stage->supervisor.n_served >= 1); /* by the worker that finished it */
    hth_buffer_deinit(&all);
}

STAGED(the_next_worker_gets_the_same_id_and_seed)
{
    static const char *const names[] = { HTH_HEADER_ID, HTH_HEADER_SEED, HTH_HEADER_CREATED, HTH_HEADER_SALT };

    begin_with(stage, &stream);
    stage->runs[0].cut = 300;
    exchange_whole(stage);
    assert_int_equal(stage->n_runs, 2);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char a[128], b[128];

        header(stage, 0, names[i], a, sizeof(a));
        header(stage, 1, names[i], b, sizeof(b));
        assert_string_equal(a, b);
    }
    assert_true(stage->n_known[1] > 0);
    assert_string_equal(stage->bodies[1], "{\"a\":1}");
}

STAGED(a_request_whose_workers_die_too_often_is_an_error)
{
    for (hth_api_dialect dialect = HTH_API_OPENAI; dialect <= HTH_API_NATIVE; dialect++) {
        for (int late = 0; late < 2; late++) {
            hth_test_client client;

            begin_with(stage, &whole);
            stage->dialect = dialect;
            stage->supervisor.fate = late ? FATE_DEAD_LATE : FATE_DEAD;
            for (int run = 0; run < 10; run++)
                stage->runs[run].cut = 150; /* before its first token */
            client_ask(&client, stage, "{}");
            client_hear(&client, &stage->reply);
            assert_int_equal(stage->reply.status, 500);
            assert_int_equal(stage->n_runs, 4); /* and three retries */
            assert_non_null(strstr(client.heard, "x-should-retry: false\r\n"));
            assert_null(strstr(client.heard, "SECRET"));
            assert_error_body(&stage->reply.body, dialect, "died 4 times");
            assert_error_body(&stage->reply.body, dialect, "signal 11");
            hth_test_client_close(&client);
        }
    }
}

STAGED(no_retries_are_none)
{
    begin_with(stage, &whole);
    hth_proxy_set_limits(stage->proxy, &(hth_relay_limits){ .wait_timeout_ms = 1000 });
    stage->runs[0].cut = 200;
    exchange_whole(stage);
    assert_int_equal(stage->reply.status, 500);
    assert_int_equal(stage->n_runs, 1);
}

STAGED(a_stream_that_has_begun_ends_with_the_error)
{
    static const char *const beginnings[] = { "data: {\"error\":{", "event: error\ndata: {", "data: {\"error\":{" };

    for (hth_api_dialect dialect = HTH_API_OPENAI; dialect <= HTH_API_NATIVE; dialect++) {
        const char *first = "data: one\n\n", *after;

        begin_with(stage, &stream);
        stage->dialect = dialect;
        stage->runs[0].cut = 250;
        for (int run = 1; run < 10; run++)
            stage->runs[run].cut = 150; /* nothing new */
        exchange_whole(stage);
        assert_int_equal(stage->reply.status, 200);
        assert_true(stage->reply.is_whole);
        assert_int_equal(strncmp(hth_buffer_text(&stage->reply.body), first, strlen(first)), 0);
        after = hth_buffer_text(&stage->reply.body) + strlen(first);
        if (strncmp(after, "data: two", 9) == 0)
            after = strstr(after, "\n\n") + 2;
        assert_int_equal(strncmp(after, beginnings[dialect], strlen(beginnings[dialect])), 0);
        assert_non_null(strstr(after, "died 4 times"));
        assert_null(strstr(after, "[DONE]"));
        assert_int_equal(stage->record.status, 500);
    }
}

STAGED(stops_in_order_are_not_held_against_a_request)
{
    begin_with(stage, &stream);
    hth_proxy_set_limits(stage->proxy, &(hth_relay_limits){ .wait_timeout_ms = 1000 });
    stage->supervisor.fate = FATE_STOPPED;
    for (int run = 0; run < 12; run++)
        stage->runs[run].cut = 200;
    exchange_whole(stage);
    assert_int_equal(stage->n_runs, 13);
    assert_string_equal(hth_buffer_text(&stage->reply.body), stream_text);
}

STAGED(too_many_stops_in_order_are_held_against_a_request)
{
    begin_with(stage, &whole);
    stage->supervisor.fate = FATE_STOPPED;
    for (int run = 0; run < RUNS_MAX; run++)
        stage->runs[run].cut = 200;
    exchange_whole(stage);
    assert_int_equal(stage->reply.status, 500);
    assert_error_body(&stage->reply.body, HTH_API_OPENAI, "broke off 36 times");
}

STAGED(a_connection_to_a_worker_that_is_well_is_made_again)
{
    begin_with(stage, &stream);
    stage->supervisor.fate = FATE_WELL;
    stage->runs[0].cut = 300;
    stage->runs[1].cut = 220;
    exchange_whole(stage);
    assert_int_equal(stage->n_runs, 3);
    assert_int_equal(stage->supervisor.generation, 1);
    assert_string_equal(hth_buffer_text(&stage->reply.body), stream_text);
}

static void send_noise(fake_connection *connection, const fake_request *request, void *user_data)
{
    relay_stage *stage = user_data;
    hth_buffer out = { .text = NULL }, frame = { .text = NULL };
    unsigned run = note_run(stage, request);
    const hth_frame_summary summary = { .status = 200 };

    script_head(&out, HTH_FRAMES_CONTENT_TYPE);
    switch (run % 5) {
    case 0: hth_buffer_add_text(&frame, "\xff\xff\xff\xff\x01 no frame"); break;
    case 1:
        hth_frame_add_head(&frame, 200, true, 0, events, NULL);
        hth_frame_add_step(&frame, 128, 0, NULL, "x", 1); /* no such reply */
        break;
    case 2: hth_frame_add_step(&frame, 0, 0, NULL, "x", 1); break; /* no head */
    case 3:
        hth_frame_add_head(&frame, 200, true, 0, events, NULL);
        hth_frame_add_head(&frame, 200, true, 0, events, NULL);
        break;
    default: hth_frame_add_end(&frame, &summary); break;
    }
    script_chunk(&out, &frame);
    fake_write(connection, out.text, out.n);
    hth_buffer_deinit(&frame);
    hth_buffer_deinit(&out);
    if (run == 4)
        stage->supervisor.handler = play;
}

STAGED(what_is_no_frame_counts_as_a_broken_connection)
{
    stage->supervisor.handler = send_noise;
    stage->options.limits.retries_max = 5;
    set_options(stage);
    begin_with(stage, &stream);
    exchange_whole(stage);
    assert_int_equal(stage->n_runs, 6);
    assert_string_equal(hth_buffer_text(&stage->reply.body), stream_text);
}

/* The reply of two runs of the same script, the first of which breaks off so many bytes before its end. */
static void exchange_cut(relay_stage *stage, const reply_script *script, size_t n_missing)
{
    size_t n_bytes;

    begin_with(stage, script);
    exchange_whole(stage);
    n_bytes = stage->n_reply_bytes;
    begin_with(stage, script);
    stage->runs[0].cut = n_bytes - n_missing;
    exchange_whole(stage);
}

/* What a worker says without a token is not an error for that: only the worker knows. */
STAGED(text_that_no_token_released_does_not_end_a_stream)
{
    static const script_step steps[] = {
        { .tokens = { 1 }, .n_tokens = 1, .bytes = "data: one\n\n" },
        { .reply = 1, .bytes = "data: text\n\n" },
        { .tokens = { 2 }, .n_tokens = 1, .bytes = "data: two\n\n", .has_ended = true },
        { .reply = 1, .bytes = "data: [DONE]\n\n", .has_ended = true },
    };
    static const reply_script script = {
        .status = 200, .is_stream = true, .content_type = events, .steps = steps, .n_steps = 4
    };

    exchange_cut(stage, &script, 120); /* in the frame of the second token, or the end's */
    assert_int_equal(stage->n_runs, 2);
    assert_true(stage->reply.is_whole);
    assert_non_null(strstr(hth_buffer_text(&stage->reply.body), "data: [DONE]\n\n"));
    assert_int_equal(stage->record.status, 200);
}

STAGED(a_stream_that_has_its_error_is_not_gone_on_with)
{
    static const script_step steps[] = {
        { .tokens = { 1 }, .n_tokens = 1, .bytes = "data: one\n\n" },
        { .bytes = "data: error\n\n", .has_ended = true, .has_failed = true },
    };
    static const reply_script script = {
        .status = 200, .is_stream = true, .content_type = events, .steps = steps, .n_steps = 2
    };

    exchange_cut(stage, &script, 20); /* in END */
    assert_int_equal(stage->n_runs, 1);
    assert_true(stage->reply.is_whole);
    assert_string_equal(hth_buffer_text(&stage->reply.body), "data: one\n\ndata: error\n\n");
    assert_int_equal(stage->record.status, 500);
}

STAGED(a_stream_that_no_worker_takes_ends_with_the_reason)
{
    stage->supervisor.handler = refuse_later;
    begin_with(stage, &stream);
    stage->runs[0].cut = 300;
    exchange_whole(stage);
    assert_true(stage->reply.is_whole);
    assert_non_null(strstr(hth_buffer_text(&stage->reply.body), "data: {\"error\":{"));
    assert_non_null(strstr(hth_buffer_text(&stage->reply.body), "too many wait"));
    assert_int_equal(stage->record.status, 503);
}

STAGED(a_whole_reply_that_no_worker_takes_is_the_refusal)
{
    stage->supervisor.handler = refuse_later;
    begin_with(stage, &whole);
    stage->runs[0].cut = 200;
    exchange_whole(stage);
    assert_int_equal(stage->reply.status, 503);
    assert_string_equal(hth_buffer_text(&stage->reply.body), "{\"error\":{\"message\":\"too many wait\"}}");
}

/* ---- requests that kill ---- */

enum { LONG_STEPS = 80, STEPS_A_RUN = 10, OTHERS = 12 };

/* A long stream, of which workers send some more steps each time, until nobody kills them any more. */
typedef struct killing {
    relay_stage *stage;
    script_step steps[LONG_STEPS];
    reply_script script;
    hth_buffer text;
    unsigned n_runs, n_kills, n_kills_max;
    bool is_silent; /* requests are held without an answer */
    fake_connection *held[64];
    size_t n_held;
} killing;

static killing *killing_new(relay_stage *stage)
{
    killing *all = calloc(1, sizeof(*all));

    assert_non_null(all);
    all->stage = stage;
    for (int i = 0; i < LONG_STEPS; i++) {
        all->steps[i] = (script_step){ .tokens = { i },
                                       .n_tokens = 1,
                                       .bytes = i % 2 ? "data: odd\n\n" : "data: even\n\n",
                                       .has_ended = i == LONG_STEPS - 1 };
        hth_buffer_add_text(&all->text, all->steps[i].bytes);
    }
    all->script = (reply_script){
        .status = 200, .is_stream = true, .content_type = events, .steps = all->steps, .n_steps = LONG_STEPS
    };
    return all;
}

static void killing_free(killing *all)
{
    hth_buffer_deinit(&all->text);
    free(all);
}

static void live_or_die(fake_connection *connection, const fake_request *request, void *user_data)
{
    killing *all = user_data;
    char number[32];
    size_t n_known =
        fake_request_header(request, HTH_HEADER_KNOWN, number, sizeof(number)) ? strtoul(number, NULL, 10) : 0;
    hth_buffer out = { .text = NULL };
    const char *at;

    all->n_runs++;
    if (all->is_silent) {
        assert_true(all->n_held < 64);
        all->held[all->n_held++] = connection;
        return;
    }
    if (strcmp(request->body + n_known, "kill") == 0) {
        all->n_kills++;
        fake_end(connection);
        return;
    }
    script_write(&all->script, request->body, n_known, &out);
    if (all->n_kills < all->n_kills_max) {
        at = out.text;
        for (int i = 0; i < STEPS_A_RUN && at; i++)
            at = memmem(at + 1, (size_t)(out.text + out.n - at - 1), "data: ", 6);
        assert_non_null(at);
        fake_write(connection, out.text, (size_t)(at + 20 - out.text)); /* into the next frame */
    } else {
        fake_write(connection, out.text, out.n);
    }
    hth_buffer_deinit(&out);
}

STAGED(one_request_that_kills_is_told_from_those_that_were_there)
{
    killing *all = killing_new(stage);
    hth_test_client others[OTHERS], killer;

    all->n_kills_max = 4;
    stage->supervisor.handler = live_or_die;
    stage->supervisor.user_data = all;
    for (int i = 0; i < OTHERS; i++) {
        client_ask(&others[i], stage, "{}");
        if (i == OTHERS / 2)
            client_ask(&killer, stage, "kill");
    }
    turn(stage);
    worker_start(&stage->supervisor);
    client_hear(&killer, &stage->reply);
    assert_int_equal(stage->reply.status, 500);
    assert_int_equal(all->n_kills, 4);
    assert_error_body(&stage->reply.body, HTH_API_OPENAI, "died 4 times");
    hth_test_client_close(&killer);
    for (int i = 0; i < OTHERS; i++) {
        client_hear(&others[i], &stage->reply);
        assert_true(stage->reply.is_whole);
        assert_string_equal(hth_buffer_text(&stage->reply.body), hth_buffer_text(&all->text));
        hth_test_client_close(&others[i]);
    }
    killing_free(all);
}

/* Two deaths, and clients that were there both times; the third worker says nothing. */
static killing *suspects_open(relay_stage *stage, hth_test_client *clients, size_t n)
{
    killing *all = killing_new(stage);

    all->is_silent = true;
    stage->supervisor.handler = live_or_die;
    stage->supervisor.user_data = all;
    stage->supervisor.fate = FATE_GONE;
    for (int death = 0; death < 2; death++) {
        worker_start(&stage->supervisor);
        for (size_t i = 0; i < n && death == 0; i++)
            client_ask(&clients[i], stage, "{}");
        hth_test_http_until(&stage->http, all->n_held == n);
        worker_end(&stage->supervisor, HTH_WORKER_READY); /* nobody has seen it yet */
        hth_test_http_until(&stage->http, stage->supervisor.waiters.n == n);
        stage->supervisor.n_deaths++;
        all->n_held = 0;
    }
    all->n_runs = 0;
    worker_start(&stage->supervisor);
    turn(stage);
    return all;
}

static void let_go(killing *all, size_t i)
{
    hth_buffer out = { .text = NULL };

    script_write(&all->script, "", 0, &out);
    fake_write(all->held[i], out.text, out.n);
    hth_buffer_deinit(&out);
}

STAGED(suspects_run_one_after_the_other)
{
    enum { N = 5 };
    hth_test_client clients[N];
    killing *all = suspects_open(stage, clients, N);

    for (size_t i = 0; i < N; i++) {
        turn(stage);
        assert_int_equal(all->n_runs, i + 1);
        let_go(all, i);
        hth_test_http_until(&stage->http, stage->n_over == i + 1);
    }
    for (size_t i = 0; i < N; i++) {
        client_hear(&clients[i], &stage->reply);
        assert_string_equal(hth_buffer_text(&stage->reply.body), hth_buffer_text(&all->text));
        hth_test_client_close(&clients[i]);
    }
    killing_free(all);
}

STAGED(suspects_wait_for_a_bounded_time)
{
    enum { N = 4 };
    hth_test_client clients[N];
    unsigned n_refused = 0;
    killing *all;

    stage->options.limits.wait_timeout_ms = 30;
    set_options(stage);
    all = suspects_open(stage, clients, N);
    hth_test_http_until(&stage->http, stage->n_over == N - 1);
    assert_int_equal(all->n_runs, 1);
    let_go(all, 0);
    for (size_t i = 0; i < N; i++) {
        client_hear(&clients[i], &stage->reply);
        n_refused += stage->reply.status == 503;
        if (stage->reply.status == 503)
            assert_error_body(&stage->reply.body, HTH_API_OPENAI, "waited too long");
        else
            assert_string_equal(hth_buffer_text(&stage->reply.body), hth_buffer_text(&all->text));
        hth_test_client_close(&clients[i]);
    }
    assert_int_equal(n_refused, N - 1);
    killing_free(all);
}

STAGED(suspects_that_leave_make_room)
{
    enum { N = 4 };
    hth_test_client clients[N];
    killing *all = suspects_open(stage, clients, N);

    assert_int_equal(all->n_runs, 1);
    for (size_t i = 0; i < N; i++) {
        hth_test_client_close(&clients[i]); /* in line or on its turn */
        hth_test_http_until(&stage->http, stage->n_over == i + 1);
        assert_int_equal(stage->record.status, 499);
        turn(stage);
    }
    assert_int_equal(hth_proxy_n_relays(stage->proxy), 0);
    killing_free(all);
}

/* ---- many at once ---- */

STAGED(many_streams_survive_workers_that_die_at_random)
{
    enum { N = 100 };
    hth_test_client *clients = calloc(N, sizeof(*clients));
    uint64_t seed = hth_test_seed();
    killing *all = killing_new(stage);

    assert_non_null(clients);
    stage->options.limits.retries_max = 100;
    set_options(stage);
    all->n_kills_max = 1; /* steps come in parts */
    stage->supervisor.handler = live_or_die;
    stage->supervisor.user_data = all;
    worker_start(&stage->supervisor);
    for (int i = 0; i < N; i++)
        client_ask(&clients[i], stage, "{}");
    for (int death = 0; death < 6; death++) {
        for (uint64_t n = hth_test_random(&seed, 40); n > 0; n--)
            hth_test_http_turn(&stage->http);
        stage->supervisor.fate = hth_test_random(&seed, 2) ? FATE_DEAD : FATE_DEAD_LATE;
        hth_supervisor_note_broken(&stage->supervisor, "tiny", stage->supervisor.generation);
        hth_test_http_until(&stage->http, stage->supervisor.worker != NULL);
    }
    all->n_kills_max = 0;
    turn(stage);
    hth_supervisor_note_broken(&stage->supervisor, "tiny", stage->supervisor.generation);
    for (int i = 0; i < N; i++) {
        client_hear(&clients[i], &stage->reply);
        assert_true(stage->reply.is_whole);
        assert_string_equal(hth_buffer_text(&stage->reply.body), hth_buffer_text(&all->text));
        hth_test_client_close(&clients[i]);
    }
    free(clients);
    killing_free(all);
}
