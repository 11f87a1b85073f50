/*
 * carrier_messages_test.c - messages pass the socket whole, with their descriptors, and no bytes are read wrongly
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "wire/carrier_messages.h"

static uint8_t buffer[HTH_CARRIER_MESSAGE_BYTES_MAX];
static uint8_t keys[HTH_CARRIER_KEYS_MAX * HTH_CARRIER_KEY_BYTES];

static hth_carrier_message longest(void)
{
    hth_carrier_message message = { .kind = HTH_CARRIER_FETCH,
                                    .end = HTH_CARRIER_SLOW,
                                    .number = 7,
                                    .n_tokens = 256,
                                    .n_rows = 70000,
                                    .ns = UINT64_C(1) << 40,
                                    .n_bytes = UINT64_C(3) << 33,
                                    .keys = keys,
                                    .n_keys = HTH_CARRIER_KEYS_MAX };

    memset(message.name, 'n', sizeof(message.name) - 1);
    memset(message.address, 'a', sizeof(message.address) - 1);
    for (size_t i = 0; i < sizeof(keys); i++)
        keys[i] = (uint8_t)(i * 7 + i / 256);
    return message;
}

static void assert_same(const hth_carrier_message *a, const hth_carrier_message *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->n_rows, b->n_rows);
    assert_true(a->ns == b->ns && a->n_bytes == b->n_bytes);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->address, b->address);
    assert_int_equal(a->n_keys, b->n_keys);
    assert_memory_equal(a->keys, b->keys, (size_t)a->n_keys * HTH_CARRIER_KEY_BYTES);
}

TEST(the_longest_message_passes_the_socket)
{
    const hth_carrier_message sent = longest();
    hth_carrier_message got;
    int pair[2], fd;

    assert_true(hth_carrier_pair(pair));
    assert_int_equal(hth_carrier_receive(pair[1], buffer, &got, &fd), HTH_CARRIER_NONE);
    assert_true(hth_carrier_send(pair[0], &sent, -1));
    assert_int_equal(hth_carrier_receive(pair[1], buffer, &got, &fd), HTH_CARRIER_GOT);
    assert_int_equal(fd, -1);
    assert_same(&got, &sent);
    close(pair[0]);
    assert_int_equal(hth_carrier_receive(pair[1], buffer, &got, &fd), HTH_CARRIER_CLOSED);
    assert_false(hth_carrier_send(pair[1], &sent, -1));
    close(pair[1]);
}

TEST(a_descriptor_passes_with_its_message)
{
    const hth_carrier_message serve = { .kind = HTH_CARRIER_SERVE };
    hth_carrier_message got;
    int pair[2], end[2], fd;
    char byte = 0;

    assert_true(hth_carrier_pair(pair));
    assert_int_equal(pipe(end), 0);
    assert_true(hth_carrier_send(pair[0], &serve, end[1]));
    close(end[1]);
    assert_int_equal(hth_carrier_receive(pair[1], buffer, &got, &fd), HTH_CARRIER_GOT);
    assert_int_equal(got.kind, HTH_CARRIER_SERVE);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(end[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(fd);
    close(end[0]);
    close(pair[0]);
    close(pair[1]);
}

TEST(a_full_socket_refuses_and_loses_nothing)
{
    const hth_carrier_message sent = longest();
    hth_carrier_message got;
    int pair[2], fd;
    unsigned n_sent = 0, n_got = 0;

    assert_true(hth_carrier_pair(pair));
    while (n_sent < 1000 && hth_carrier_send(pair[0], &sent, -1))
        n_sent++;
    assert_in_range(n_sent, 1, 999);
    while (hth_carrier_receive(pair[1], buffer, &got, &fd) == HTH_CARRIER_GOT)
        n_got++;
    assert_int_equal(n_got, n_sent);
    close(pair[0]);
    close(pair[1]);
}

TEST(malformed_messages_are_refused)
{
    hth_carrier_message message = { .kind = HTH_CARRIER_NODE, .name = "b", .address = "10.0.0.2:9430" }, got;
    const size_t n = hth_carrier_write(&message, buffer);
    uint8_t *exact;

    assert_int_equal(n, 36 + 1 + 13);
    assert_true(hth_carrier_read(buffer, n, &got));
    assert_same(&got, &message);
    for (size_t i = 0; i < n; i++) { /* cut, in memory of just that length */
        exact = malloc(i + 1);
        memcpy(exact, buffer, i);
        assert_false(hth_carrier_read(exact, i, &got));
        free(exact);
    }
    assert_false(hth_carrier_read(buffer, n + 1, &got));
    for (unsigned kind = 0; kind < 256; kind++) {
        buffer[0] = (uint8_t)kind;
        assert_int_equal(hth_carrier_read(buffer, n, &got), kind >= 1 && kind < HTH_CARRIER_KINDS);
    }
    buffer[0] = HTH_CARRIER_NODE;
    buffer[36] = '\0'; /* a name with an end inside */
    assert_false(hth_carrier_read(buffer, n, &got));
    message.n_keys = HTH_CARRIER_KEYS_MAX + 1;
    assert_int_equal(hth_carrier_write(&message, buffer), 0);
}
