#include "cli/operator_page.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "console/output.h"
#include "http/fetch.h"
#include "options/commands.h"

static const hth_option rows[] = {
    { "url", 0, HTH_OPTION_TEXT, "URL",
      "the server's address; for operators (its --admin) if it has one; also unix:FILE for a socket (default: "
      "$HEARTH_URL or http://127.0.0.1:8080)",
      .offset = offsetof(hth_operator, url) },
    { "api-key", 0, HTH_OPTION_TEXT, "KEY",
      "the key of an operator (default: $HEARTH_API_KEY). Other users of this machine can see it: better use the "
      "variable",
      .offset = offsetof(hth_operator, key) },
};

const hth_option_table hth_operator_options = HTH_OPTION_TABLE_OF(rows);

static int refuse(const char *url, long status, const hth_buffer *body)
{
    json_t *page = json_loadb(hth_buffer_text(body), body->n, 0, NULL);
    const json_t *said = json_object_get(json_object_get(page, "error"), "message");
    char shown[HTH_FETCH_URL_BYTES];

    if (json_is_string(said))
        hth_output_line(stderr, "hearth: the server at '%s' refuses with %ld: %s", hth_fetch_shown(url, shown), status,
                        json_string_value(said));
    else
        hth_output_line(stderr, "hearth: the server at '%s' answers with %ld; is it a Hearth server?",
                        hth_fetch_shown(url, shown), status);
    json_decref(page);
    return HTH_EXIT_FAILED;
}

static const char *or_variable(const char *text, const char *variable)
{
    text = text ? text : getenv(variable);
    return text && *text ? text : NULL;
}

static const char *base_of(const hth_operator *server)
{
    const char *base = or_variable(server->url, "HEARTH_URL");

    return base ? base : "http://127.0.0.1:8080";
}

static const char *key_of(const hth_operator *server)
{
    return or_variable(server->key, "HEARTH_API_KEY");
}

static int end(hearth_status result, const hearth_error *err, const char *base, long status, const hth_buffer *out)
{
    if (result != HEARTH_OK)
        return hth_say(err->message, HTH_EXIT_FAILED);
    return status < 200 || status > 299 ? refuse(base, status, out) : HTH_EXIT_OK;
}

int hth_operator_ask(const hth_operator *server, const char *path, const char *json, hth_buffer *out)
{
    const char *base = base_of(server);
    hearth_error err;
    long status;
    const hearth_status result = hth_ask(base, path, key_of(server), json, &status, out, &err);

    return end(result, &err, base, status, out);
}

int hth_operator_delete(const hth_operator *server, const char *path, hth_buffer *out)
{
    const char *base = base_of(server);
    hearth_error err;
    long status;
    const hearth_status result = hth_ask_delete(base, path, key_of(server), &status, out, &err);

    return end(result, &err, base, status, out);
}
