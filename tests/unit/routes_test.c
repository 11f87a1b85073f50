/*
 * routes_test.c - paths and what they are
 */
#include <stdio.h>
#include <string.h>

#include "http/routes.h"
#include "support/cmocka_all.h"
#include "support/support.h"

TEST(paths_with_and_without_a_version_are_one_endpoint)
{
    assert_string_equal(hth_route_find("/v1/chat/completions")->endpoint, "/v1/chat/completions");
    assert_string_equal(hth_route_find("/chat/completions")->endpoint, "/v1/chat/completions");
    /* Without a version, this is llama.cpp's. */
    assert_int_equal(hth_route_find("/completions")->api, HTH_API_NATIVE_COMPLETION);
    assert_int_equal(hth_route_find("/v1/completions")->api, HTH_API_COMPLETION);
    assert_string_equal(hth_route_find("/responses")->endpoint, "/v1/responses");
    assert_string_equal(hth_route_find("/responses/input_tokens")->endpoint, "/v1/responses/input_tokens");
}

TEST(a_model_is_named_behind_the_list_s_path)
{
    assert_int_equal(hth_route_find("/v1/models")->kind, HTH_ROUTE_MODELS);
    assert_int_equal(hth_route_find("/v1/models/a/b")->kind, HTH_ROUTE_MODEL);
    assert_null(hth_route_find("/v1/models/"));
}

TEST(what_is_not_in_the_table_is_no_path)
{
    static const char *const others[] = {
        "", "//", "/api", "/api/", "/api/nothing", "/v1", "/v1/chat", "/v1/chat/completions/", "/admin", "/healthy"
    };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_null(hth_route_find(others[i]));
}

TEST(no_row_stands_behind_a_prefix_of_its_path)
{
    size_t n;
    const hth_route *routes = hth_routes(&n);

    for (size_t i = 0; i < n; i++)
        if (routes[i].path[strlen(routes[i].path) - 1] != '/' || !routes[i].path[1])
            assert_ptr_equal(hth_route_find(routes[i].path), &routes[i]);
}

TEST(a_route_takes_its_methods_and_no_others)
{
    static const struct {
        const char *wanted, *method;
        bool is_taken;
    } rows[] = {
        { "GET", "GET", true },        { "GET", "HEAD", true },        { "GET", "POST", false },
        { "GET", "G", false },         { "POST", "POST", true },       { "POST", "HEAD", false },
        { "GET, POST", "POST", true }, { "GET, POST", "GET", true },   { "GET, POST", "HEAD", true },
        { "GET, POST", "", false },    { "GET, POST", "PO", false },   { "GET, POST", "DELETE", false },
        { "DELETE", "DELETE", true },  { "POST", "GET, POST", false },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (hth_method_is(rows[i].wanted, rows[i].method) != rows[i].is_taken)
            fail_msg("%s where %s is wanted", rows[i].method, rows[i].wanted);
    assert_string_equal(hth_route_find("/")->endpoint, "/");
    assert_string_equal(hth_route_find("/api/embeddings")->endpoint, "/api/embed");
}

TEST(errors_have_the_shape_of_the_path_s_api)
{
    assert_int_equal(hth_route_dialect(hth_route_find("/v1/messages")), HTH_API_ANTHROPIC);
    assert_int_equal(hth_route_dialect(hth_route_find("/completion")), HTH_API_NATIVE);
    assert_int_equal(hth_route_dialect(hth_route_find("/v1/models")), HTH_API_OPENAI);
    assert_int_equal(hth_route_dialect(hth_route_find("/v1/responses")), HTH_API_OPENAI_RESPONSES);
    assert_int_equal(hth_route_dialect(NULL), HTH_API_OPENAI);
    assert_int_equal(hth_path_dialect("/v1/messages/batches"), HTH_API_ANTHROPIC);
    assert_int_equal(hth_path_dialect("/v1/messages/count_tokens"), HTH_API_ANTHROPIC);
    assert_int_equal(hth_path_dialect("/v1/messages-of-others"), HTH_API_OPENAI);
    assert_int_equal(hth_route_dialect(hth_route_find("/api/tags")), HTH_API_OLLAMA);
    assert_int_equal(hth_path_dialect("/api/blobs/sha256:0"), HTH_API_OLLAMA);
    assert_int_equal(hth_path_dialect("/nowhere"), HTH_API_OPENAI);
    assert_int_equal(hth_path_dialect(""), HTH_API_OPENAI);
}

TEST(a_protocol_error_has_the_code_of_its_status)
{
    static const struct {
        int status;
        const char *code;
    } rows[] = {
        { 400, "invalid_value" },     { 408, "timeout" },           { 413, "request_too_large" },
        { 414, "request_too_large" }, { 431, "request_too_large" }, { 501, "unsupported_parameter" },
        { 503, "overloaded" },
    };
    hth_buffer text = { .text = NULL };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *body = hth_protocol_error_text(rows[i].status, "why", "/v1/models", &text);
        char code[64];

        assert_non_null(body);
        (void)snprintf(code, sizeof(code), "\"code\":\"%s\"", rows[i].code);
        if (!strstr(body, code) || !strstr(body, "\"message\":\"why\""))
            fail_msg("%d: %s", rows[i].status, body);
        body = hth_protocol_error_text(rows[i].status, "why", "/completion", &text);
        (void)snprintf(code, sizeof(code), "\"code\":%d,", rows[i].status); /* llama.cpp's errors repeat the status */
        assert_non_null(strstr(body, code));
    }
    hth_buffer_deinit(&text);
}

/* ---- docs/api.md ---- */

static const char *right_text(hth_route_right right)
{
    switch (right) {
    case HTH_FOR_ALL: return "everybody";
    case HTH_FOR_OPERATORS: return "operators";
    case HTH_FOR_OPERATORS_TO_POST: return "clients; POST: operators";
    case HTH_FOR_CLIENTS: break;
    }
    return "clients";
}

/* The table's line of a route, with its other names. */
static void write_line(const hth_route *routes, size_t n, size_t at, char *out, size_t capacity)
{
    size_t n_out = (size_t)snprintf(out, capacity, "| `%s`", routes[at].path);
    const char *word = ", also ";

    for (size_t i = 0; i < n; i++) {
        if (i == at || strcmp(routes[i].endpoint, routes[at].endpoint) != 0)
            continue;
        n_out += (size_t)snprintf(out + n_out, capacity - n_out, "%s`%s`", word, routes[i].path);
        word = ", ";
    }
    (void)snprintf(out + n_out, capacity - n_out, " | %s | %s | %s |\n",
                   routes[at].method ? routes[at].method : "several", right_text(routes[at].right), routes[at].about);
}

TEST(the_documents_list_the_endpoints_of_the_table)
{
    size_t n_routes, n_lines = 0;
    const hth_route *routes = hth_routes(&n_routes);
    char *page = hth_test_text(HTH_TEST_SOURCE_DIR "/docs/api.md");
    const char *table = strstr(page, "| path | methods | for | |\n");

    assert_non_null(table);
    table = strstr(strchr(table, '\n') + 1, "\n") + 1;
    for (size_t i = 0; i < n_routes; i++) {
        char line[512];

        if (!routes[i].about)
            continue;
        write_line(routes, n_routes, i, line, sizeof(line));
        if (!strstr(table, line))
            fail_msg("docs/api.md lacks this line of its table of endpoints:\n%s", line);
        n_lines++;
    }
    for (; *table == '|'; table = strchr(table, '\n') + 1)
        n_lines--;
    assert_int_equal(n_lines, 0); /* no line is of an endpoint that is gone */
    free(page);
}
