/*
 * carrier_test.c - a carrier that fetches: from a node that has the rows, from one that has none, and from liars
 *
 * The carrier is the real one, on a thread. The other node is a thread of the test that accepts connections, and gives
 * rows as a carrier does, or otherwise.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carrier/carrier.h"
#include "carrier/link.h"
#include "carrier/offer.h"
#include "carrier/serve.h"
#include "http/http_socket.h"
#include "support/cmocka_all.h"
#include "support/forest.h"
#include "support/support.h"
#include "wire/carrier_messages.h"

enum { PATIENCE_MS = 60000, N_KEYS = TEST_FOREST_BLOCKS };

typedef enum manner { HONEST, FLIPS_A_BIT, GIVES_ANOTHER_ROW, CLOSES, IS_A_STRANGER, IS_SILENT, IS_THE_CARRIER } manner;

typedef struct scene {
    char *directories[2]; /* of the other node, and of the carrier */
    char pem_path[2][300];
    hth_fleet_pem *pem, *strange_pem;
    hth_tiers *tiers[2];
    test_forest *forest;
    int listener;
    uint16_t port;
    atomic_int manner;
    atomic_bool stop;
    pthread_t other, carrier;
    int front, worker; /* the test's ends */
    int control;       /* the carrier's end */
    hearth_status carrier_status;
    uint64_t compute_ns;                         /* of the fetches; 0: unknown */
    uint8_t keys[N_KEYS][HTH_CARRIER_KEY_BYTES]; /* of the first prompt */
    hth_row_id blocks[N_KEYS];
    uint8_t buffer[HTH_CARRIER_MESSAGE_BYTES_MAX];
} scene;

/* ---- the other node ---- */

static bool goes_on(void *user_data)
{
    const scene *s = user_data;

    return !atomic_load(&s->stop);
}

/* The first block of the first prompt, wrong in one way. */
static void lie(scene *s, int fd, manner how)
{
    hth_link link = { .fd = -1, .goes_on = goes_on, .user_data = s };
    uint8_t request[HTH_ROW_REQUEST_BYTES + N_KEYS * HTH_ROW_WISH_BYTES], list[HTH_ROW_MANIFEST_BYTES],
        head[HTH_ROW_HEAD_BYTES], *bytes;
    hth_row_id id = s->blocks[0];
    size_t n = 0, n_read = 0;
    int file;

    if (how == GIVES_ANOTHER_ROW)
        for (size_t i = 0; i < s->forest->n_rows; i++)
            if (s->forest->rows[i].keyspace == &s->forest->keyspaces[1] &&
                s->forest->rows[i].meta.id.kind == HTH_ROW_BLOCK)
                id = s->forest->rows[i].meta.id;
    assert_int_equal(hth_tiers_open_file(s->tiers[0], &id, &file, &n, NULL), HEARTH_OK);
    bytes = malloc(n);
    assert_int_equal(hth_fs_read_full(hth_fs_system(), file, bytes, n, 0, &n_read), 0);
    hth_fs_close(hth_fs_system(), file);
    if (how == FLIPS_A_BIT)
        bytes[n - 1] ^= 1; /* of the image */
    hth_row_manifest_write(&(hth_row_manifest){ .n_rows = 1, .n_keys = 1, .n_bytes = n }, list);
    hth_row_frame_write(&(hth_row_frame){ .id = id, .n_bytes = n }, head);
    if (hth_link_accept(&link, hth_fleet_pem_context(s->pem), fd, NULL) == HEARTH_OK &&
        hth_link_read(&link, request, sizeof(request)) && hth_link_write(&link, list, sizeof(list)) &&
        hth_link_write(&link, head, sizeof(head)))
        (void)hth_link_write(&link, bytes, n);
    (void)hth_link_read(&link, head, 1); /* until the carrier closes */
    hth_link_close(&link);
    free(bytes);
}

/* To the carrier, as a front does. */
static void pass_on_take(const scene *s, int fd)
{
    assert_true(hth_carrier_send(s->front, &(hth_carrier_message){ .kind = HTH_CARRIER_SERVE }, fd));
    close(fd);
}

static void *be_other(void *user_data)
{
    scene *s = user_data;

    while (!atomic_load(&s->stop)) {
        struct pollfd ready = { .fd = s->listener, .events = POLLIN };
        hth_served served;
        atomic_bool is_member = false;
        int fd;

        if (poll(&ready, 1, 20) <= 0 || (fd = accept(s->listener, NULL, NULL)) < 0)
            continue;
        switch ((manner)atomic_load(&s->manner)) {
        case HONEST:
            hth_serve(s->tiers[0], hth_fleet_pem_context(s->pem), fd, &s->stop, NULL, &served, &is_member);
            break;
        case IS_A_STRANGER:
            hth_serve(s->tiers[0], hth_fleet_pem_context(s->strange_pem), fd, &s->stop, NULL, &served, &is_member);
            break;
        case CLOSES: close(fd); break;
        case IS_THE_CARRIER: pass_on_take(s, fd); break;
        case IS_SILENT:
            (void)read(fd, &served, sizeof(served)); /* the beginning */
            while (read(fd, &served, sizeof(served)) > 0)
                ;
            close(fd);
            break;
        case FLIPS_A_BIT:
        case GIVES_ANOTHER_ROW: lie(s, fd, (manner)atomic_load(&s->manner)); break;
        }
    }
    return NULL;
}

/* ---- the scene ---- */

static void *be_carrier(void *user_data)
{
    scene *s = user_data;

    s->carrier_status =
        hth_carrier_run(&(hth_carrier_options){ .tiers = s->tiers[1], .pem = s->pem, .control_fd = s->control }, NULL);
    return NULL;
}

static void fill(scene *s)
{
    hth_cache *cache;
    hearth_error err;

    assert_ok(
        hth_cache_open(&(hth_cache_options){ .ram_bytes_max = 64 << 20,
                                             .directory = s->directories[0],
                                             .disk_bytes_max = 64 << 20,
                                             .ram_memory_fd = -1,
                                             .write_limits = { .queue_rows_max = 1000, .queue_bytes_max = 64 << 20 } },
                       &cache, &err),
        err);
    for (size_t i = 0; i < s->forest->n_rows; i++)
        if (s->forest->rows[i].meta.id.kind == HTH_ROW_BLOCK)
            assert_true(test_forest_save(s->forest, &s->forest->rows[i], HEARTH_SAVE_EVICT, cache));
    assert_true(hth_cache_flush(cache, PATIENCE_MS));
    assert_true(hth_cache_close(cache, PATIENCE_MS));
}

/* The keys of the first prompt's blocks. */
static void find_keys(scene *s)
{
    for (uint32_t i = 0; i < N_KEYS; i++) {
        const test_forest_row *found = NULL;

        for (size_t k = 0; k < s->forest->n_rows; k++) {
            const test_forest_row *row = &s->forest->rows[k];

            if (row->keyspace == &s->forest->keyspaces[0] && row->meta.id.kind == HTH_ROW_BLOCK &&
                row->meta.first_position == i * HTH_BLOCK_TOKENS &&
                memcmp(row->tokens, s->forest->prompts[0] + (size_t)i * HTH_BLOCK_TOKENS,
                       HTH_BLOCK_TOKENS * sizeof(hearth_token)) == 0 &&
                (i == 0 || memcmp(row->meta.parent.bytes, s->keys[i - 1], HTH_CARRIER_KEY_BYTES) == 0))
                found = row;
        }
        if (!found) {
            fail_msg("the forest has no block %u of its first prompt", i);
            return;
        }
        s->blocks[i] = found->meta.id;
        memcpy(s->keys[i], found->meta.id.key.bytes, HTH_CARRIER_KEY_BYTES);
    }
}

static void tell_node(const scene *s, const char *name, uint16_t port)
{
    hth_carrier_message message = { .kind = HTH_CARRIER_NODE };

    (void)snprintf(message.name, sizeof(message.name), "%s", name);
    (void)snprintf(message.address, sizeof(message.address), "127.0.0.1:%u", port);
    assert_true(hth_carrier_send(s->front, &message, -1));
}

static hth_carrier_message receive(scene *s, int fd, hth_carrier_kind kind)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    hth_carrier_message message;
    int came;

    assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
    assert_int_equal(hth_carrier_receive(fd, s->buffer, &message, &came), HTH_CARRIER_GOT);
    assert_int_equal(message.kind, kind);
    return message;
}

static void set_up(scene *s)
{
    char print[HTH_FLEET_PRINT_BYTES];
    hearth_error err;
    int front[2] = { -1, -1 }, worker[2] = { -1, -1 };

    (void)signal(SIGPIPE, SIG_IGN); /* as in a carrier, whose clients may leave at any time */
    s->forest = malloc(sizeof(*s->forest));
    test_forest_init(s->forest);
    for (int i = 0; i < 2; i++) {
        s->directories[i] = hth_test_directory_new();
        (void)snprintf(s->pem_path[i], sizeof(s->pem_path[i]), "%s/fleet.pem", s->directories[i]);
        assert_ok(hth_fleet_pem_make(s->pem_path[i], print, &err), err);
        assert_ok(hth_fleet_pem_read(s->pem_path[i], i == 0 ? &s->pem : &s->strange_pem, &err), err);
    }
    fill(s);
    find_keys(s);
    for (int i = 0; i < 2; i++)
        assert_ok(
            hth_tiers_open(
                &(hth_cache_options){ .directory = s->directories[i], .disk_bytes_max = 64 << 20, .ram_memory_fd = -1 },
                &s->tiers[i], &err),
            err);
    assert_ok(hth_http_bind_tcp("127.0.0.1", 0, &s->listener, &s->port, &err), err);
    assert_true(hth_carrier_pair(front) && hth_carrier_pair(worker));
    s->front = front[0];
    s->control = front[1];
    s->worker = worker[0];
    assert_int_equal(pthread_create(&s->other, NULL, be_other, s), 0);
    assert_int_equal(pthread_create(&s->carrier, NULL, be_carrier, s), 0);
    assert_true(
        hth_carrier_send(s->front, &(hth_carrier_message){ .kind = HTH_CARRIER_WORKER, .name = "m" }, worker[1]));
    close(worker[1]);
    tell_node(s, "other", s->port);
    (void)receive(s, s->worker, HTH_CARRIER_HERE);
}

static void tear_down(scene *s)
{
    close(s->front); /* the carrier ends */
    pthread_join(s->carrier, NULL);
    assert_int_equal(s->carrier_status, HEARTH_OK);
    atomic_store(&s->stop, true);
    pthread_join(s->other, NULL);
    close(s->control);
    close(s->worker);
    close(s->listener);
    for (int i = 0; i < 2; i++) {
        hth_tiers_close(s->tiers[i]);
        hth_test_directory_remove(s->directories[i]);
    }
    hth_fleet_pem_free(s->pem);
    hth_fleet_pem_free(s->strange_pem);
    free(s->forest);
}

#define SCENE_TEST(name) TEST_WITH(scene, s, name, set_up, tear_down)

/* Fetch the first prompt's blocks; the worker's answer, which is also the front's. */
static hth_carrier_message fetch(scene *s, const char *node, const uint8_t *keys, uint32_t number)
{
    hth_carrier_message order = {
        .kind = HTH_CARRIER_FETCH, .number = number, .ns = s->compute_ns, .keys = keys, .n_keys = N_KEYS
    };
    hth_carrier_message out;

    (void)snprintf(order.name, sizeof(order.name), "%s", node);
    assert_true(hth_carrier_send(s->worker, &order, -1));
    out = receive(s, s->worker, HTH_CARRIER_FETCHED);
    assert_int_equal(out.number, number);
    assert_int_equal(receive(s, s->front, HTH_CARRIER_PULLED).end, out.end);
    return out;
}

static bool has(const scene *s, uint32_t i)
{
    hth_row_meta meta;
    unsigned n_names = 1;

    return hth_tiers_look(s->tiers[1], &s->blocks[i], &meta, &n_names);
}

static void expect_all(scene *s, uint32_t number)
{
    const hth_carrier_message got = fetch(s, "other", s->keys[0], number);

    assert_int_equal(got.end, HTH_CARRIER_WELL);
    assert_int_equal(got.n_tokens, N_KEYS * HTH_BLOCK_TOKENS);
    for (uint32_t i = 0; i < N_KEYS; i++)
        assert_true(has(s, i));
}

SCENE_TEST(blocks_that_another_node_has_are_here_afterwards)
{
    assert_false(has(s, 0));
    expect_all(s, 7);
    assert_int_equal(fetch(s, "other", s->keys[0], 8).n_rows, 0); /* nothing is sent twice */
}

SCENE_TEST(what_nobody_has_and_nobody_knows_is_not_waited_for)
{
    uint8_t unknown[N_KEYS][HTH_CARRIER_KEY_BYTES];

    memset(unknown, 7, sizeof(unknown));
    assert_int_equal(fetch(s, "other", unknown[0], 1).end, HTH_CARRIER_NOTHING);
    assert_int_equal(fetch(s, "nobody", s->keys[0], 2).end, HTH_CARRIER_REFUSED);
    expect_all(s, 3);
}

SCENE_TEST(liars_and_strangers_give_nothing_and_keep_nobody_from_others)
{
    static const manner manners[] = { FLIPS_A_BIT, GIVES_ANOTHER_ROW, CLOSES, IS_A_STRANGER };

    for (uint32_t i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
        atomic_store(&s->manner, manners[i]);
        assert_int_equal(fetch(s, "other", s->keys[0], i + 1).end, HTH_CARRIER_BROKEN);
        assert_false(has(s, 0));
    }
    atomic_store(&s->manner, HONEST);
    expect_all(s, 9);
}

SCENE_TEST(a_node_that_is_gone_is_no_reason_to_wait)
{
    tell_node(s, "other", 1);
    assert_int_equal(fetch(s, "other", s->keys[0], 1).end, HTH_CARRIER_BROKEN);
    tell_node(s, "other", s->port);
    expect_all(s, 2);
}

SCENE_TEST(a_node_that_is_silent_is_left_alone_for_a_while)
{
    atomic_store(&s->manner, IS_SILENT);
    s->compute_ns = UINT64_C(1000000000);
    assert_int_equal(fetch(s, "other", s->keys[0], 1).end, HTH_CARRIER_SLOW);
    atomic_store(&s->manner, HONEST);
    assert_int_equal(fetch(s, "other", s->keys[0], 2).end, HTH_CARRIER_REFUSED); /* for half a minute */
    s->compute_ns = 0;                                                           /* there is more time */
    expect_all(s, 3);
}

SCENE_TEST(strangers_who_say_nothing_keep_no_member_out)
{
    const hth_row_wish wish = { .kinds_there = 0 };
    hth_link link = { .fd = -1, .goes_on = goes_on, .user_data = s };
    uint8_t request[HTH_ROW_REQUEST_BYTES + HTH_ROW_WISH_BYTES], list[HTH_ROW_MANIFEST_BYTES];
    int strangers[HTH_CARRIER_SERVED_MAX];
    char address[32];
    hearth_error err;

    for (size_t i = 0; i < HTH_CARRIER_SERVED_MAX; i++) {
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        pass_on_take(s, pair[1]);
        strangers[i] = pair[0];
    }
    atomic_store(&s->manner, IS_THE_CARRIER);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", s->port);
    assert_ok(hth_link_connect(&link, hth_fleet_pem_context(s->pem), address, &err), err);
    hth_row_request_write(1, request);
    hth_row_wish_write(&wish, request + HTH_ROW_REQUEST_BYTES);
    assert_true(hth_link_write(&link, request, sizeof(request)));
    assert_true(hth_link_read(&link, list, sizeof(list)));
    hth_link_close(&link);
    for (size_t i = 0; i < HTH_CARRIER_SERVED_MAX; i++)
        close(strangers[i]);
}
