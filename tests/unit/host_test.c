/*
 * host_test.c - looking up names: with an answer, with none, and with nobody who answers
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "http/host.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { TURNS_MAX = 12000 }; /* a minute */

typedef struct scene {
    char *directory;
    char nameservers[300];
    int socket; /* of the server for names */
    atomic_bool stop;
    unsigned n_turns, n_turns_max;
} scene;

static void set_up(scene *s)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof(address);
    FILE *file;

    assert_int_equal(hth_host_allow_threads(NULL), HEARTH_OK);
    s->directory = hth_test_directory_new();
    s->n_turns_max = TURNS_MAX;
    s->socket = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(s->socket, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(s->socket, (struct sockaddr *)&address, &n), 0);
    (void)snprintf(s->nameservers, sizeof(s->nameservers), "%s/resolv.conf", s->directory);
    file = fopen(s->nameservers, "w");
    assert_non_null(file);
    (void)fprintf(file, "nameserver 127.0.0.1:%u\n", ntohs(address.sin_port));
    assert_int_equal(fclose(file), 0);
}

static void tear_down(scene *s)
{
    close(s->socket);
    hth_test_directory_remove(s->directory);
}

#define SCENE_TEST(name) TEST_WITH(scene, s, name, set_up, tear_down)

static bool goes_on(void *user_data)
{
    scene *s = user_data;

    return ++s->n_turns <= s->n_turns_max;
}

static hearth_status find(scene *s, const char *host, struct addrinfo **out)
{
    *out = NULL;
    return hth_host_find(host, "9430", s->nameservers, goes_on, s, out, NULL);
}

/* Has each name, with the address 10.0.0.9. */
static void *answer(void *user_data)
{
    static const uint8_t record[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 9 };
    scene *s = user_data;
    uint8_t bytes[1024];

    while (!atomic_load(&s->stop)) {
        struct pollfd ready = { .fd = s->socket, .events = POLLIN };
        struct sockaddr_in from;
        socklen_t n_from = sizeof(from);
        ssize_t n;

        if (poll(&ready, 1, 10) <= 0)
            continue;
        n = recvfrom(s->socket, bytes, 512, 0, (struct sockaddr *)&from, &n_from);
        if (n < 17)
            continue;
        bytes[2] = 0x81; /* an answer */
        bytes[3] = 0x80;
        if (bytes[n - 3] == 1) { /* for the question of an IPv4 address; there are no others */
            bytes[7] = 1;
            memcpy(bytes + n, record, sizeof(record));
            n += sizeof(record);
        }
        (void)sendto(s->socket, bytes, (size_t)n, 0, (struct sockaddr *)&from, n_from);
    }
    return NULL;
}

SCENE_TEST(a_name_has_the_addresses_that_its_server_tells)
{
    struct addrinfo *list;
    const struct sockaddr_in *found;
    pthread_t server;

    assert_int_equal(pthread_create(&server, NULL, answer, s), 0);
    assert_int_equal(find(s, "node.hearth.invalid", &list), HEARTH_OK);
    found = (const struct sockaddr_in *)list->ai_addr;
    assert_int_equal(found->sin_family, AF_INET);
    assert_int_equal(ntohl(found->sin_addr.s_addr), 0x0a000009);
    assert_int_equal(ntohs(found->sin_port), 9430);
    hth_host_free(list);
    atomic_store(&s->stop, true);
    pthread_join(server, NULL);
}

SCENE_TEST(a_server_that_does_not_answer_is_left_when_nobody_waits_any_more)
{
    struct addrinfo *list;

    s->n_turns_max = 3;
    assert_int_equal(find(s, "node.hearth.invalid", &list), HEARTH_TIMED_OUT);
    assert_null(list);
    s->n_turns = 0;
    s->n_turns_max = 0;
    assert_int_equal(find(s, "node.hearth.invalid", &list), HEARTH_TIMED_OUT);
}

SCENE_TEST(the_own_machine_needs_no_server)
{
    struct addrinfo *list;

    assert_int_equal(find(s, "localhost", &list), HEARTH_OK);
    assert_non_null(list);
    hth_host_free(list);
    assert_int_equal(find(s, "::1", &list), HEARTH_OK);
    assert_int_equal(list->ai_family, AF_INET6);
    hth_host_free(list);
}
