/*
 * devices_test.c - what the engine computes on: what it finds, and what it says where devices are missing or wrong
 *
 * RPC servers are played by threads of this test, which listen on loopback and answer the engine's greeting as they are
 * told; rpc/... runs with real ones. No test needs a GPU: where there is one, those that need its absence say so.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/backend.h"
#include "engine/engine_options.h"
#include "support/cmocka_all.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

enum { DEVICES_MAX = 64 };

static const hth_backend *llama;

static int open_engine(void **state)
{
    hearth_error err = { .message = "" };

    (void)state;
    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &llama, &err) == HEARTH_OK)
        return 0;
    print_error("%s\n", err.message);
    return 1;
}

/* Warnings, counted; the last one is kept. */
static struct {
    size_t n;
    char last[1024];
} warnings;

static void count_warning(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    (void)source;
    (void)user_data;
    if (level != HEARTH_LOG_WARNING)
        return;
    warnings.n++;
    (void)snprintf(warnings.last, sizeof(warnings.last), "%s", message);
}

static const hth_log counting = { .level = HEARTH_LOG_WARNING, .write = count_warning };

static hearth_status load(int32_t n_gpu_layers, const char *rpc_servers, hth_engine_model **out, hearth_error *err)
{
    hth_engine_model_params params = { .n_gpu_layers = n_gpu_layers, .rpc_servers = rpc_servers, .log = &counting };

    err->message[0] = '\0';
    warnings.n = 0;
    return llama->model_load(MODEL, &params, out, err);
}

/* ---- what there is ---- */

static size_t list(hth_engine_device *devices)
{
    size_t n = 0;
    hearth_error err;

    assert_ok(llama->devices(devices, DEVICES_MAX, &n, &err), err);
    return n;
}

static bool has_gpu(void)
{
    hth_engine_device devices[DEVICES_MAX];
    size_t n = list(devices);

    for (size_t i = 0; i < n; i++)
        if (devices[i].name[0] && strcmp(devices[i].backend, "CPU") != 0)
            return true;
    return false;
}

TEST(the_processor_is_among_the_devices_with_its_name_and_memory)
{
    hth_engine_device devices[DEVICES_MAX];
    size_t n = list(devices);
    size_t n_found = 0;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(devices[i].backend, "CPU") != 0)
            continue;
        n_found++;
        assert_string_equal(devices[i].name, "CPU");
        assert_string_not_equal(devices[i].description, "");
        assert_true(devices[i].memory_bytes > 0);
    }
    assert_int_equal(n_found, 1);
}

TEST(no_more_devices_are_listed_than_there_is_room_for)
{
    hth_engine_device devices[DEVICES_MAX];
    size_t n = DEVICES_MAX;
    hearth_error err;

    assert_int_equal(llama->devices(NULL, 0, &n, &err), HEARTH_OK);
    assert_int_equal(n, 0);
    assert_int_equal(llama->devices(devices, 1, &n, &err), HEARTH_OK);
    assert_int_equal(n, 1);
    assert_int_equal(llama->devices(NULL, 1, &n, &err), HEARTH_MISUSE);
    assert_int_equal(llama->devices(devices, 1, NULL, &err), HEARTH_MISUSE);
}

/* ---- layers without a device ---- */

TEST(layers_for_a_gpu_that_is_not_there_are_warned_of_once)
{
    hth_engine_model *model = NULL;
    hearth_error err;

    if (has_gpu())
        skip();
    assert_int_equal(load(7, NULL, &model, &err), HEARTH_OK);
    assert_int_equal(warnings.n, 1);
    assert_non_null(strstr(warnings.last, "no GPU for 7 layers"));
    llama->model_free(model);
}

TEST(all_layers_that_fit_nowhere_else_are_the_processor_s_without_a_word)
{
    hth_engine_model *model = NULL;
    hearth_error err;

    for (int32_t n = -1; n <= 0; n++) {
        assert_int_equal(load(n, NULL, &model, &err), HEARTH_OK);
        assert_int_equal(warnings.n, 0);
        llama->model_free(model);
    }
}

TEST(what_the_processor_computes_has_one_name_however_it_was_asked_for)
{
    char texts[2][sizeof(((hth_engine_context_info *)NULL)->params_text)];

    if (has_gpu())
        skip();
    for (int32_t i = 0; i < 2; i++) {
        hth_engine_context_params params = { .n_ctx = 256, .n_batch = 64, .n_seq_max = 2, .n_threads = 1 };
        hth_engine_context_info info;
        hth_engine_context *context = NULL;
        hth_engine_model *model = NULL;
        hearth_error err;

        assert_int_equal(load(-i, NULL, &model, &err), HEARTH_OK);
        assert_int_equal(llama->context_new(model, &params, &context, &err), HEARTH_OK);
        llama->context_info(context, &info);
        memcpy(texts[i], info.params_text, sizeof(texts[i]));
        llama->context_free(context);
        llama->model_free(model);
    }
    assert_string_equal(texts[0], texts[1]);
    assert_null(strstr(texts[0], "devices="));
}

/* ---- addresses ---- */

TEST(addresses_are_read_in_their_order)
{
    hth_rpc_addresses addresses;
    hearth_error err;

    assert_int_equal(hth_rpc_addresses_read("localhost:1,10.0.0.2:65535", &addresses, &err), HEARTH_OK);
    assert_int_equal(addresses.n, 2);
    assert_string_equal(addresses.texts[0], "localhost:1");
    assert_string_equal(addresses.texts[1], "10.0.0.2:65535");
    assert_int_equal(addresses.ports[0], 1);
    assert_int_equal(addresses.ports[1], 65535);
}

TEST(what_is_no_address_is_misuse_and_names_it)
{
    static const char *const wrong[] = {
        "",     "localhost", ":1",   "a:",   "a:0",      "a:65536", "a:1x",
        "a:-1", "a: 1",      "a:1,", ",a:1", "a:1,,b:2", "[::1]:5", "a:99999999999999999999"
    };
    hth_engine_model *model = NULL;
    hth_rpc_addresses addresses;
    hearth_error err;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(hth_rpc_addresses_read(wrong[i], &addresses, &err), HEARTH_MISUSE);
        assert_non_null(strstr(err.message, "is no address"));
        assert_int_equal(load(-1, wrong[i], &model, &err), HEARTH_MISUSE);
    }
    assert_int_equal(hth_rpc_addresses_read("a:1,b:1,a:1", &addresses, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "'a:1' is named twice"));
}

TEST(too_many_and_too_long_addresses_are_misuse)
{
    char text[16 * (HTH_RPC_SERVERS_MAX + 1)] = "";
    char longer[HTH_RPC_ADDRESS_BYTES + 8];
    hth_rpc_addresses addresses;
    hearth_error err;

    for (int i = 0; i <= HTH_RPC_SERVERS_MAX; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sa:%d", i > 0 ? "," : "", i + 1);
    assert_int_equal(hth_rpc_addresses_read(text, &addresses, &err), HEARTH_MISUSE);
    *strrchr(text, ',') = '\0';
    assert_int_equal(hth_rpc_addresses_read(text, &addresses, &err), HEARTH_OK);
    assert_int_equal(addresses.n, HTH_RPC_SERVERS_MAX);

    memset(longer, 'a', sizeof(longer));
    (void)snprintf(longer + sizeof(longer) - 6, 6, "aa:80");
    assert_int_equal(hth_rpc_addresses_read(longer, &addresses, &err), HEARTH_MISUSE);
    assert_int_equal(hth_rpc_addresses_read(longer + 9, &addresses, &err), HEARTH_OK);
}

/* ---- servers that are none ---- */

/* One that takes a connection, reads a greeting, says something and hangs up. */
typedef struct fake_server {
    int fd;
    char address[32];
    const void *answer;
    size_t n_answer;
    pthread_t thread;
} fake_server;

static void *answer_once(void *context)
{
    fake_server *server = context;
    char greeting[33];
    size_t n = 0;
    int fd = accept(server->fd, NULL, NULL);

    while (fd >= 0 && n < sizeof(greeting)) {
        ssize_t got = read(fd, greeting + n, sizeof(greeting) - n);

        if (got <= 0)
            break;
        n += (size_t)got;
    }
    if (fd >= 0) {
        (void)send(fd, server->answer, server->n_answer, MSG_NOSIGNAL); /* what is wrong shows in the test */
        (void)close(fd);
    }
    return NULL;
}

static void listen_on_loopback(fake_server *server)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t n = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(server->fd >= 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(server->fd, 1), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &n), 0);
    (void)snprintf(server->address, sizeof(server->address), "127.0.0.1:%d", ntohs(address.sin_port));
}

static void assert_answer_is_refused(const void *answer, size_t n_answer, const char *reason)
{
    fake_server server = { .answer = answer, .n_answer = n_answer };
    hth_engine_model *model = NULL;
    hearth_error err;

    listen_on_loopback(&server);
    assert_int_equal(pthread_create(&server.thread, NULL, answer_once, &server), 0);
    assert_int_equal(load(-1, server.address, &model, &err), HEARTH_ENGINE);
    if (!strstr(err.message, reason) || !strstr(err.message, server.address))
        fail_msg("'%s' is not said, with '%s', in: %s", reason, server.address, err.message);
    assert_int_equal(pthread_join(server.thread, NULL), 0);
    assert_int_equal(close(server.fd), 0);
    /* It is nobody's any more, and that is what is said then. */
    assert_int_equal(load(-1, server.address, &model, &err), HEARTH_ENGINE);
    assert_non_null(strstr(err.message, "cannot be reached"));
}

TEST(an_answer_that_is_not_an_rpc_server_s_is_a_status)
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    uint8_t version[36] = { 28, 0, 0, 0, 0, 0, 0, 0, 99, 1, 2 };

    assert_answer_is_refused(http, sizeof(http) - 1, "no RPC server of this engine's version");
    assert_answer_is_refused("", 0, "no RPC server of this engine's version");
    assert_answer_is_refused(version, 20, "no RPC server of this engine's version");
    assert_answer_is_refused(version, sizeof(version), "has version 99.1.2 of the protocol");
}

/* The engine's server takes one client after the other; the next waits in the queue of its socket. */
TEST(a_server_that_does_not_answer_is_not_waited_for)
{
    fake_server server = { .fd = -1 };
    hth_engine_model *model = NULL;
    hearth_error err;

    listen_on_loopback(&server);
    assert_int_equal(load(-1, server.address, &model, &err), HEARTH_ENGINE);
    assert_non_null(strstr(err.message, "one client at a time"));
    assert_non_null(strstr(err.message, server.address));
    assert_int_equal(close(server.fd), 0);
}

TEST(a_server_is_not_asked_when_no_layer_goes_there)
{
    hth_engine_model *model = NULL;
    hearth_error err;

    assert_int_equal(load(0, "127.0.0.1:1", &model, &err), HEARTH_OK);
    llama->model_free(model);
}

GROUP(with_the_engine, open_engine, NULL)
