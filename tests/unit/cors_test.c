/*
 * cors_test.c - which hosts a server takes for itself, when a browser's page says whom it asks
 */
#include "server/cors.h"
#include "support/cmocka_all.h"

static void a_host_is_its_own_by_address_or_name_and_a_port(void **state)
{
    static const char *const own[] = { "127.0.0.1",  "127.0.0.1:8080",   "[::1]",           "[::1]:8080",
                                       "localhost",  "LOCALHOST:1",      "app.localhost",   "10.1.2.3",
                                       "127.0.0.1:", "box.example:8080", "api.example:443", "operator.example" };
    static const char *const others[] = { "evil.example",
                                          "127.0.0.1.evil.example",
                                          "localhost.evil.example",
                                          "[::1].evil",
                                          "[::1",
                                          "[::1]x:80",
                                          "127.0.0.1:80.x",
                                          "127.0.0.1:x",
                                          "127.0.0.1 evil",
                                          "localhost/x",
                                          "localhost:80@evil",
                                          "",
                                          ".localhost",
                                          ":80",
                                          "[]",
                                          "[127.0.0.1.x]",
                                          "localhost:80:90",
                                          "me@localhost" };
    static const hth_server_address listen[] = { { .host = "box.example" },
                                                 { .host = "api.example" },
                                                 { .path = "/x" } };
    const hth_server_options options = { .listen = listen, .n_listen = 3, .admin = { .host = "operator.example" } };

    (void)state;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (!hth_host_is_own(&options, own[i]))
            fail_msg("'%s' is not taken for an own host", own[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (hth_host_is_own(&options, others[i]))
            fail_msg("'%s' is taken for an own host", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_its_own_by_address_or_name_and_a_port),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
