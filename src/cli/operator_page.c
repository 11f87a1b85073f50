/*
 * operator_page.c - see operator_page.h
 */
#include "cli/operator_page.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "server/ask.h"

enum { URL_BYTES = 4096 };

static const hth_option rows[] = {
    { "url", 0, HTH_OPTION_TEXT, "URL",
      "the server's address, for operators if it has one (default: $HEARTH_URL or http://127.0.0.1:8080)",
      .offset = offsetof(hth_operator, url) },
    { "api-key", 0, HTH_OPTION_TEXT, "KEY",
      "the key of an operator (default: $HEARTH_API_KEY). Other users of this machine can see it: better use the "
      "variable",
      .offset = offsetof(hth_operator, key) },
};

const hth_option_table hth_operator_options = { rows, sizeof(rows) / sizeof(rows[0]) };

static int fail(const char *message)
{
    (void)fprintf(stderr, "hearth: %s\n", message);
    return HTH_EXIT_FAILED;
}

static int refuse(const char *url, long status, const hth_buffer *body)
{
    json_t *page = json_loadb(hth_buffer_text(body), body->n, 0, NULL);
    const json_t *said = json_object_get(json_object_get(page, "error"), "message");

    if (json_is_string(said))
        (void)fprintf(stderr, "hearth: the server at '%s' refuses with %ld: %s\n", url, status,
                      json_string_value(said));
    else
        (void)fprintf(stderr, "hearth: the server at '%s' answers with %ld; is it a Hearth server?\n", url, status);
    json_decref(page);
    return HTH_EXIT_FAILED;
}

static const char *or_variable(const char *text, const char *variable)
{
    text = text ? text : getenv(variable);
    return text && *text ? text : NULL;
}

int hth_operator_ask(const hth_operator *server, const char *path, const char *json, hth_buffer *out)
{
    const char *base = or_variable(server->url, "HEARTH_URL");
    hearth_error err;
    char url[URL_BYTES];
    size_t n;
    long status;

    base = base ? base : "http://127.0.0.1:8080";
    n = strlen(base);
    n -= base[n - 1] == '/';
    if ((size_t)snprintf(url, sizeof(url), "%.*s%s", (int)n, base, path) >= sizeof(url))
        return fail("--url, or the name of a model, is too long");
    if (hth_ask(url, or_variable(server->key, "HEARTH_API_KEY"), json, &status, out, &err) != HEARTH_OK)
        return fail(err.message);
    return status < 200 || status > 299 ? refuse(url, status, out) : HTH_EXIT_OK;
}
