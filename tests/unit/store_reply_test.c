/*
 * store_reply_test.c - replies of a store, whole and in pieces, and bytes that are none
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store_reply.h"
#include "support/cmocka_all.h"

static hth_store_reply *read_next(hth_store_reader *reader)
{
    hth_store_reply *reply;

    assert_int_equal(hth_store_reader_next(reader, &reply, NULL), HEARTH_OK);
    return reply;
}

TEST(each_type_is_read)
{
    static const char text[] = "+OK\r\n-ERR no\r\n:-42\r\n$-1\r\n$4\r\na\0b\n\r\n$0\r\n\r\n*-1\r\n*0\r\n"
                               "*3\r\n:1\r\n*2\r\n$1\r\nx\r\n$-1\r\n-WRONG in\r\n";
    hth_store_reader *reader = hth_store_reader_new();
    hth_store_reply *all[9];

    assert_non_null(reader);
    assert_int_equal(hth_store_reader_feed(reader, text, sizeof(text) - 1, NULL), HEARTH_OK);
    for (size_t i = 0; i < 9; i++)
        assert_non_null(all[i] = read_next(reader));
    assert_null(read_next(reader));
    assert_string_equal(hth_store_reply_text(all[0]), "OK");
    assert_int_equal(all[1]->type, HTH_STORE_ERROR);
    assert_string_equal(all[1]->text, "ERR no");
    assert_string_equal(hth_store_reply_text(all[1]), "");
    assert_int_equal(hth_store_reply_integer(all[2]), -42);
    assert_int_equal(all[3]->type, HTH_STORE_NIL);
    assert_int_equal(all[4]->n, 4);
    assert_memory_equal(all[4]->text, "a\0b\n", 5);
    assert_int_equal(all[5]->n, 0);
    assert_int_equal(all[6]->type, HTH_STORE_NIL);
    assert_int_equal(all[7]->n, 0);
    assert_null(hth_store_reply_at(all[7], 0));
    assert_int_equal(all[8]->n, 3);
    assert_int_equal(hth_store_reply_integer(hth_store_reply_at(all[8], 0)), 1);
    assert_string_equal(hth_store_reply_text(hth_store_reply_at(hth_store_reply_at(all[8], 1), 0)), "x");
    assert_int_equal(hth_store_reply_at(hth_store_reply_at(all[8], 1), 1)->type, HTH_STORE_NIL);
    assert_int_equal(hth_store_reply_at(all[8], 2)->type, HTH_STORE_ERROR);
    assert_null(hth_store_reply_at(all[8], 3));
    for (size_t i = 0; i < 9; i++)
        hth_store_reply_free(all[i]);
    hth_store_reader_free(reader);
}

TEST(what_is_not_there_reads_as_nothing)
{
    assert_null(hth_store_reply_at(NULL, 0));
    assert_string_equal(hth_store_reply_text(NULL), "");
    assert_int_equal(hth_store_reply_integer(NULL), 0);
}

TEST(a_reply_may_come_byte_by_byte)
{
    static const char text[] = "*2\r\n$3\r\nabc\r\n:7\r\n";
    hth_store_reader *reader = hth_store_reader_new();
    hth_store_reply *reply = NULL;

    assert_non_null(reader);
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        assert_null(reply);
        assert_int_equal(hth_store_reader_feed(reader, text + i, 1, NULL), HEARTH_OK);
        reply = read_next(reader);
    }
    assert_non_null(reply);
    assert_string_equal(hth_store_reply_text(hth_store_reply_at(reply, 0)), "abc");
    hth_store_reply_free(reply);
    hth_store_reader_free(reader);
}

/* Reading these bytes fails. */
static void refuse(const char *bytes, size_t n)
{
    hth_store_reader *reader = hth_store_reader_new();
    hth_store_reply *reply = NULL;
    hearth_error err = { .message = "" };
    hearth_status status;

    assert_non_null(reader);
    status = hth_store_reader_feed(reader, bytes, n, &err);
    while (status == HEARTH_OK && (status = hth_store_reader_next(reader, &reply, &err)) == HEARTH_OK && reply)
        hth_store_reply_free(reply);
    if (status != HEARTH_CORRUPT)
        fail_msg("'%.40s' is accepted", bytes);
    assert_true(err.message[0] != '\0');
    hth_store_reader_free(reader);
}

TEST(other_bytes_are_refused)
{
    static const char *const texts[] = { "HTTP/1.1 400 Bad Request\r\n\r\n", ":x\r\n", "*99999999\r\n",
                                         "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
                                         "*2\r\n:1\r\n?\r\n" };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        refuse(texts[i], strlen(texts[i]));
}

TEST(a_reply_has_bounds)
{
    const size_t n_part = (size_t)4 * (HTH_STORE_REPLY_PARTS_MAX / 2 + 1);
    char *text = malloc(2 * n_part + 64), *at = text;
    char *long_one = calloc(1, HTH_STORE_REPLY_BYTES_MAX + 1);

    assert_non_null(text);
    assert_non_null(long_one);
    /* Two lists, each within the bounds, and together beyond them. */
    at += sprintf(at, "*2\r\n");
    for (int list = 0; list < 2; list++) {
        at += sprintf(at, "*%d\r\n", HTH_STORE_REPLY_PARTS_MAX / 2 + 1);
        for (size_t i = 0; i < HTH_STORE_REPLY_PARTS_MAX / 2 + 1; i++, at += 4)
            memcpy(at, ":1\r\n", 4);
    }
    refuse(text, (size_t)(at - text));
    refuse(long_one, HTH_STORE_REPLY_BYTES_MAX + 1);
    free(text);
    free(long_one);
}

/* Feed texts of a list, as pieces that are read before the next one comes. Returns how the last one was read. */
static hearth_status feed_texts(hth_store_reader *reader, size_t n, size_t n_each, hth_store_reply **out)
{
    char *text = calloc(1, n_each + 32);
    hearth_status status = HEARTH_OK;
    int n_head;

    assert_non_null(text);
    n_head = sprintf(text, "*%zu\r\n", n);
    assert_int_equal(hth_store_reader_feed(reader, text, (size_t)n_head, NULL), HEARTH_OK);
    assert_null(read_next(reader));
    n_head = sprintf(text, "$%zu\r\n", n_each);
    memset(text + n_head, 'x', n_each);
    memcpy(text + (size_t)n_head + n_each, "\r\n", 3);
    for (size_t i = 0; i < n && status == HEARTH_OK; i++) {
        assert_int_equal(hth_store_reader_feed(reader, text, (size_t)n_head + n_each + 2, NULL), HEARTH_OK);
        status = hth_store_reader_next(reader, out, NULL);
    }
    free(text);
    return status;
}

TEST(all_parts_of_a_reply_count_together)
{
    const size_t n_each = HTH_STORE_REPLY_BYTES_MAX / 8;
    hth_store_reader *reader = hth_store_reader_new();
    hth_store_reply *reply;

    assert_non_null(reader);
    for (int i = 0; i < 2; i++) { /* each reply has its own bound */
        assert_int_equal(feed_texts(reader, 7, n_each, &reply), HEARTH_OK);
        assert_non_null(reply);
        hth_store_reply_free(reply);
    }
    assert_int_equal(feed_texts(reader, 9, n_each, &reply), HEARTH_CORRUPT);
    hth_store_reader_free(reader);
}

TEST(types_that_nobody_asked_for_are_refused)
{
    static const char *const texts[] = { ",1.5\r\n", "#t\r\n", "*1\r\n,2\r\n" };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        refuse(texts[i], strlen(texts[i]));
}
