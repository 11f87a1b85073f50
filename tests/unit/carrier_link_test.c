/*
 * carrier_link_test.c - carriers that end, and workers that must not wait for them
 */
#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/support.h"
#include "supervisor/carrier_link.h"
#include "wire/carrier_messages.h"

enum { PATIENCE_MS = 60000, TURN_MS = 5 };

static uint8_t buffer[HTH_CARRIER_MESSAGE_BYTES_MAX];

/* A program that is started as a carrier, and ends as soon as its folder has a file named "end". */
static void write_program(const char *directory, char path[300])
{
    FILE *file;

    (void)snprintf(path, 300, "%s/carrier.sh", directory);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "#!/bin/sh\nwhile [ ! -e '%s/end' ]; do sleep 0.02; done\n", directory);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

static void write_end(const char *directory)
{
    char path[300];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/end", directory);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

TEST(workers_hear_of_the_end_of_their_carrier)
{
    static const char *const none[] = { NULL };
    const struct timeval turn = { .tv_usec = (suseconds_t)TURN_MS * 1000 };
    char *directory = hth_test_directory_new(), program[300];
    struct event_base *base = event_base_new();
    hth_carrier_link *link = NULL;
    hth_carrier_message message = { .kind = HTH_CARRIER_FETCH, .name = "other", .number = 1 };
    struct pollfd worker = { .events = POLLIN };
    hearth_error err;
    int came, waited_ms = 0;

    write_program(directory, program);
    assert_ok(
        hth_carrier_link_new(
            &(hth_carrier_link_options){ .base = base, .program = program, .arguments = none, .no_sandbox = true },
            &link, &err),
        err);
    worker.fd = hth_carrier_link_attach(link, "m", none);
    assert_true(worker.fd >= 0);
    assert_true(hth_carrier_send(worker.fd, &message, -1));
    assert_int_equal(poll(&worker, 1, 0), 0);
    write_end(directory);
    for (; poll(&worker, 1, 0) == 0 && waited_ms < PATIENCE_MS; waited_ms += TURN_MS) {
        assert_int_equal(event_base_loopexit(base, &turn), 0);
        assert_true(event_base_dispatch(base) >= 0);
    }
    assert_int_equal(hth_carrier_receive(worker.fd, buffer, &message, &came), HTH_CARRIER_GOT);
    assert_int_equal(message.kind, HTH_CARRIER_GONE);
    close(worker.fd);
    hth_carrier_link_free(link);
    event_base_free(base);
    hth_test_directory_remove(directory);
}
