/*
 * store_socket_test.c - a connection that is closed while the name of its server is looked up
 *
 * The sanitizer of leaks tells whether the lookup has ended.
 */
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "store/store_socket.h"
#include "support/cmocka_all.h"

TEST(closing_ends_a_lookup)
{
    struct event_base *base = event_base_new();
    const struct timeval a_moment = { .tv_usec = 100000 };

    assert_non_null(base);
    for (int i = 0; i < 3; i++) {
        hth_store_socket socket;

        assert_int_equal(hth_store_socket_open(base, &(hth_store_server){ .host = "store.hearth.invalid", .port = 1 },
                                               NULL, &socket, NULL),
                         HEARTH_OK);
        if (i > 0)
            (void)event_base_loop(base, EVLOOP_NONBLOCK); /* the questions are on their way */
        hth_store_socket_close(&socket);
        assert_null(socket.bev);
        (void)event_base_loopexit(base, &a_moment);
        (void)event_base_dispatch(base);
    }
    event_base_free(base);
}
