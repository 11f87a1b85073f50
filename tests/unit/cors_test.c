/*
 * cors_test.c - which pages may ask, what their browsers are told, and which hosts a server takes for itself
 */
#include <string.h>

#include "front/cors.h"
#include "support/cmocka_all.h"
#include "support/fake_http.h"

/* ---- hosts ---- */

TEST(a_host_is_its_own_by_address_or_name_and_a_port)
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

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (!hth_host_is_own(&options, own[i]))
            fail_msg("'%s' is not taken for an own host", own[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (hth_host_is_own(&options, others[i]))
            fail_msg("'%s' is taken for an own host", others[i]);
}

TEST(a_listed_origin_makes_its_host_known)
{
    static const char *const origins[] = { "localhost", "https://chat.example.com" };
    const hth_server_options options = { .cors_origins = origins, .n_cors_origins = 2 };

    assert_true(hth_host_is_known(&options, "chat.example.com"));
    assert_true(hth_host_is_known(&options, "chat.example.com:8443"));
    assert_true(hth_host_is_known(&options, "127.0.0.1:80"));
    assert_true(hth_host_is_known(&options, "host.docker.internal:8080"));
    assert_false(hth_host_is_known(&options, "internal.evil.example"));
    assert_false(hth_host_is_known(&options, ".internal"));
    assert_false(hth_host_is_known(&options, "evil.example"));
    assert_false(hth_host_is_known(&options, "chat.example.com.evil.example"));
}

/* ---- pages ---- */

/* An exchange with this origin, host and peer; either may be NULL. */
static hth_http_exchange ask(const char **headers, const char *origin, const char *host, const char *peer)
{
    size_t n = 0;

    if (origin) {
        headers[n++] = "Origin";
        headers[n++] = origin;
    }
    if (host) {
        headers[n++] = "Host";
        headers[n++] = host;
    }
    headers[n] = NULL;
    return (hth_http_exchange){ .method = "POST", .path = "/completion", .peer = peer, .request_headers = headers };
}

TEST(a_page_of_elsewhere_is_foreign_unless_it_is_listed)
{
    static const char *const origins[] = { "localhost", "app://" };
    static const struct {
        const char *origin, *host;
        bool is_foreign[2]; /* with nothing listed; with localhost and app:// */
    } cases[] = {
        { NULL, "127.0.0.1:8080", { false, false } },
        { "http://127.0.0.1:8080", "127.0.0.1:8080", { false, false } },
        { "http://localhost:8080", "localhost:8080", { false, false } },
        { "http://localhost:5173", "localhost:8080", { true, false } },
        { "http://127.0.0.1:5173", "127.0.0.1:8080", { true, false } },
        { "https://[::1]:5173", "[::1]:8080", { true, false } },
        { "app://obsidian.md", "127.0.0.1:8080", { true, false } },
        { "tauri://localhost", "127.0.0.1:8080", { true, true } },
        { "https://evil.example", "127.0.0.1:8080", { true, true } },
        { "http://evil.example:8080", "evil.example:8080", { true, true } }, /* its name leads here */
        { "null", "127.0.0.1:8080", { true, true } },
        { "http://127.0.0.1:8080", NULL, { true, false } },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t n = 0; n < 2; n++) {
            const hth_server_options options = { .cors_origins = origins, .n_cors_origins = 2 * n };
            const char *headers[5];
            hth_http_exchange exchange = ask(headers, cases[i].origin, cases[i].host, NULL);

            if (hth_cors_is_foreign(&options, &exchange) != cases[i].is_foreign[n])
                fail_msg("'%s' at '%s' is %sforeign with %zu rules", cases[i].origin ? cases[i].origin : "no origin",
                         cases[i].host ? cases[i].host : "no host", cases[i].is_foreign[n] ? "not " : "", 2 * n);
        }
}

TEST(a_name_that_was_made_to_lead_here_is_strange_to_this_machine)
{
    static const char *const origins[] = { "https://chat.example.com" };
    const hth_server_options options = { .cors_origins = origins, .n_cors_origins = 1 };
    static const struct {
        const char *host, *peer;
        bool is_strange;
    } cases[] = {
        { "evil.example", "127.0.0.1", true },
        { "evil.example:8080", "::1", true },
        { "127.0.0.1.evil.example", "127.0.0.1", true },
        { "localhost:8080", "127.0.0.1", false },
        { "[::1]:8080", "::1", false },
        { "chat.example.com", "127.0.0.1", false },
        { "evil.example", "unix", false },
        { "hearth:8080", "172.17.0.2", false },
        { NULL, "127.0.0.1", false },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *headers[5];
        hth_http_exchange exchange = ask(headers, NULL, cases[i].host, cases[i].peer);

        if (hth_host_is_strange(&options, &exchange) != cases[i].is_strange)
            fail_msg("'%s' from %s is %sstrange", cases[i].host ? cases[i].host : "no host", cases[i].peer,
                     cases[i].is_strange ? "not " : "");
    }
}

/* ---- what browsers are told ---- */

static void expect_header(const hth_http_exchange *exchange, const char *line)
{
    if (!strstr(exchange->headers, line))
        fail_msg("'%s' is not among\n%s", line, exchange->headers);
}

TEST(a_preflight_is_told_all_that_it_asks_for)
{
    static const char *const origins[] = { "localhost" };
    const hth_server_options options = { .cors_origins = origins, .n_cors_origins = 1 };
    static const char *const headers[] = { "Origin",
                                           "http://localhost:5173",
                                           "Access-Control-Request-Method",
                                           "DELETE",
                                           "Access-Control-Request-Headers",
                                           "authorization,x-stainless-os,anthropic-version",
                                           "Access-Control-Request-Private-Network",
                                           "true",
                                           NULL };
    hth_http_exchange exchange = { .method = "OPTIONS", .request_headers = headers };

    assert_true(hth_cors_is_preflight(&exchange));
    assert_true(hth_cors_add(&options, &exchange));
    expect_header(&exchange, "Access-Control-Allow-Origin: http://localhost:5173\n");
    expect_header(&exchange, "Access-Control-Allow-Headers: authorization,x-stainless-os,anthropic-version\n");
    expect_header(&exchange, "Access-Control-Allow-Private-Network: true\n");
    expect_header(&exchange, "Access-Control-Max-Age: 86400\n");
    expect_header(&exchange, "Vary: Origin\n");
    expect_header(&exchange, "DELETE");
    assert_null(strstr(exchange.headers, "Credentials"));
}

TEST(a_preflight_without_names_is_told_those_that_clients_send)
{
    static const char *const origins[] = { "*" };
    const hth_server_options options = { .cors_origins = origins, .n_cors_origins = 1 };
    static const char *const wanted[] = { "Authorization",     "Content-Type", "X-Api-Key",
                                          "Anthropic-Version", "OpenAI-Beta",  "X-Stainless-Retry-Count" };
    static const char *const plain[] = { "Origin", "http://a.example", "Access-Control-Request-Method", "POST", NULL };
    static const char *const odd[] = { "Origin",
                                       "http://a.example",
                                       "Access-Control-Request-Method",
                                       "POST",
                                       "Access-Control-Request-Headers",
                                       "a: b; c",
                                       NULL };
    hth_http_exchange exchanges[] = { { .method = "OPTIONS", .request_headers = plain },
                                      { .method = "OPTIONS", .request_headers = odd } };

    for (size_t i = 0; i < 2; i++) {
        assert_true(hth_cors_add(&options, &exchanges[i]));
        for (size_t j = 0; j < sizeof(wanted) / sizeof(wanted[0]); j++)
            expect_header(&exchanges[i], wanted[j]);
        assert_null(strstr(exchanges[i].headers, "a: b; c"));
        assert_null(strstr(exchanges[i].headers, "Private-Network"));
    }
}

TEST(what_is_not_listed_is_told_nothing)
{
    static const char *const origins[] = { "https://app.example.com" };
    const hth_server_options none = { .n_cors_origins = 0 };
    const hth_server_options one = { .cors_origins = origins, .n_cors_origins = 1 };
    const char *headers[5];
    hth_http_exchange exchange = ask(headers, "http://localhost:5173", NULL, NULL);

    assert_false(hth_cors_add(&none, &exchange));
    assert_string_equal(exchange.headers, "");
    assert_false(hth_cors_add(&one, &exchange));
    assert_null(strstr(exchange.headers, "Access-Control"));
    expect_header(&exchange, "Vary: Origin\n"); /* for caches in between */
}

TEST(a_refusal_says_how_to_allow_the_page)
{
    char text[640];

    hth_cors_refusal("http://localhost:5173", text, sizeof(text));
    assert_non_null(strstr(text, "--cors-origin http://localhost:5173"));
    assert_non_null(strstr(text, "cors { origins = [\"http://localhost:5173\"] }"));
    assert_non_null(strstr(text, "'localhost' there is all pages of this machine"));
    hth_cors_refusal("https://a.example", text, sizeof(text));
    assert_non_null(strstr(text, "--cors-origin https://a.example"));
    assert_null(strstr(text, "localhost"));
    hth_cors_refusal("null", text, sizeof(text));
    assert_non_null(strstr(text, "--cors-origin localhost"));
    assert_null(strstr(text, "--cors-origin null"));
}
