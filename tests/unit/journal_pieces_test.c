/*
 * journal_pieces_test.c - a reply that another node goes on with: what is written of it is read again, or not at all
 */
#include <string.h>

#include "front/journal_pieces.h"
#include "support/cmocka_all.h"
#include "wire/frames.h"

static const hth_journaled request = { .model = "tiny",
                                       .target = "/v1/chat/completions",
                                       .body_type = "application/json",
                                       .id = "0123",
                                       .request_id = "r-1",
                                       .traceparent = "00-1-2-01",
                                       .salt = "a salt",
                                       .adapter = "",
                                       .names_adapter = true,
                                       .digest = "d1",
                                       .keyspace = "k1",
                                       .seed = UINT64_MAX - 5,
                                       .created_s = 1700000000,
                                       .key = { 1, 2, 255 },
                                       .status = 200,
                                       .content_type = "text/event-stream",
                                       .body = "{\"a\":\0 1}",
                                       .n_body = 9,
                                       .past = "past",
                                       .n_past = 4,
                                       .begun = "",
                                       .n_begun = 0 };

TEST(a_request_is_read_as_it_was_written)
{
    hth_buffer text = { .text = NULL };
    hth_journaled read;

    hth_journaled_write(&request, &text);
    assert_false(text.failed);
    assert_true(hth_journaled_read(text.text, text.n, &read));
    assert_string_equal(read.model, request.model);
    assert_string_equal(read.target, request.target);
    assert_string_equal(read.body_type, request.body_type);
    assert_string_equal(read.id, request.id);
    assert_string_equal(read.request_id, request.request_id);
    assert_string_equal(read.traceparent, request.traceparent);
    assert_string_equal(read.salt, request.salt);
    assert_string_equal(read.adapter, "");
    assert_true(read.names_adapter);
    assert_string_equal(read.digest, "d1");
    assert_string_equal(read.keyspace, "k1");
    assert_true(read.seed == request.seed);
    assert_true(read.created_s == request.created_s);
    assert_memory_equal(read.key, request.key, sizeof(read.key));
    assert_int_equal(read.status, 200);
    assert_string_equal(read.content_type, request.content_type);
    assert_int_equal(read.n_body, 9);
    assert_memory_equal(read.body, request.body, 9);
    assert_int_equal(read.n_past, 4);
    assert_memory_equal(read.past, "past", 4);
    assert_int_equal(read.n_begun, 0);
    hth_journaled_deinit(&read);
    hth_buffer_deinit(&text);
}

TEST(a_request_that_is_cut_or_longer_is_none)
{
    hth_buffer text = { .text = NULL };
    hth_journaled read;

    hth_journaled_write(&request, &text);
    for (size_t n = 0; n < text.n; n++)
        assert_false(hth_journaled_read(text.text, n, &read));
    hth_buffer_add(&text, "x", 1);
    assert_false(hth_journaled_read(text.text, text.n, &read));
    hth_buffer_deinit(&text);
}

/* Replace what, of the same length, in the text, and read it. */
static bool reads_with(const char *what, const char *by)
{
    hth_buffer text = { .text = NULL };
    hth_journaled read;
    char *at;
    bool ok;

    hth_journaled_write(&request, &text);
    at = memmem(text.text, text.n, what, strlen(what));
    assert_non_null(at);
    assert_int_equal(strlen(what), strlen(by));
    memcpy(at, by, strlen(by)); /* NOLINT(bugprone-not-null-terminated-result): within a text */
    ok = hth_journaled_read(text.text, text.n, &read);
    if (ok)
        hth_journaled_deinit(&read);
    hth_buffer_deinit(&text);
    return ok;
}

TEST(another_version_or_form_of_replies_is_refused)
{
    assert_true(reads_with("\"tiny\"", "\"tony\""));
    assert_false(reads_with("\"version\":1", "\"version\":2"));
    assert_false(reads_with("\"format\":1", "\"format\":9"));
    assert_false(reads_with("\"id\":\"0123\"", "\"id\":123456"));
    assert_false(reads_with("\"key\":\"0102ff", "\"key\":\"0102fg"));
}

static void add(hth_buffer *out, hth_piece_kind kind, const char *bytes, size_t n)
{
    uint8_t head[HTH_PIECE_HEAD_BYTES];

    hth_piece_head(kind, n, head);
    hth_buffer_add(out, (const char *)head, sizeof(head));
    hth_buffer_add(out, bytes, n);
}

static void add_token(hth_buffer *out, hearth_token token)
{
    hth_buffer frame = { .text = NULL };

    hth_frame_add_step(&frame, 0, 0, &(hth_frame_tokens){ .ids = &token, .n = 1 }, NULL, 0);
    add(out, HTH_PIECE_TOKENS, frame.text, frame.n);
    hth_buffer_deinit(&frame);
}

TEST(tokens_of_one_reply_become_one_frame_and_events_their_bytes)
{
    hth_buffer text = { .text = NULL };
    hth_journal_rest rest;
    hth_frame frame;
    size_t n_used = 0;

    for (hearth_token token = 1; token <= 3; token++) {
        add_token(&text, token);
        add(&text, HTH_PIECE_EVENTS, "data: x\n\n", 9);
    }
    assert_true(hth_journal_rest_read(text.text, text.n, &rest));
    assert_int_equal(rest.n_tokens, 3);
    assert_false(rest.is_whole);
    assert_string_equal(hth_buffer_text(&rest.events), "data: x\n\ndata: x\n\ndata: x\n\n");
    assert_int_equal(hth_frame_read(rest.known.text, rest.known.n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(n_used, rest.known.n);
    assert_int_equal(frame.n_tokens, 3);
    assert_int_equal(hth_frame_token(&frame, 2), 3);
    hth_journal_rest_deinit(&rest);
    add(&text, HTH_PIECE_END, "", 0);
    assert_true(hth_journal_rest_read(text.text, text.n, &rest));
    assert_true(rest.is_whole);
    hth_journal_rest_deinit(&rest);
    hth_buffer_deinit(&text);
}

TEST(pieces_that_are_none_are_refused)
{
    hth_buffer text = { .text = NULL };
    hth_journal_rest rest;

    assert_true(hth_journal_rest_read("", 0, &rest));
    hth_journal_rest_deinit(&rest);
    add_token(&text, 5);
    for (size_t n = 1; n < text.n; n++)
        assert_false(hth_journal_rest_read(text.text, n, &rest));
    hth_buffer_clear(&text);
    add(&text, (hth_piece_kind)9, "x", 1);
    assert_false(hth_journal_rest_read(text.text, text.n, &rest));
    hth_buffer_clear(&text);
    add(&text, HTH_PIECE_TOKENS, "no frame", 8);
    assert_false(hth_journal_rest_read(text.text, text.n, &rest));
    hth_buffer_deinit(&text);
}
