/*
 * chat_server.c - see chat_server.h
 */
#include "chat/chat_server.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "http/fetch.h"

hearth_status hth_chat_server_base(const char *url, char out[HTH_CHAT_SERVER_URL_BYTES], hearth_error *err)
{
    size_t n = strlen(url);

    while (n > 0 && url[n - 1] == '/')
        n--;
    if (n >= 3 && memcmp(url + n - 3, "/v1", 3) == 0)
        n -= 3;
    if (n == 0 || n >= HTH_CHAT_SERVER_URL_BYTES)
        return hth_fail(err, HEARTH_MISUSE,
                        "--url needs an address such as http://127.0.0.1:8080 or unix:/run/hearth.sock");
    (void)snprintf(out, HTH_CHAT_SERVER_URL_BYTES, "%.*s", (int)n, url);
    return HEARTH_OK;
}

hearth_status hth_chat_server_find(const char *base, const char *key, hth_chat_server_model *out, hearth_error *err)
{
    hth_buffer page = { .text = NULL };
    char shown[HTH_FETCH_URL_BYTES];
    json_t *object, *model;
    const char *id, *owner;
    long answer = 0;
    hearth_status status;

    status = hth_ask(base, "/v1/models", key, NULL, &answer, &page, err);
    object = json_loadb(hth_buffer_text(&page), page.n, 0, NULL);
    model = json_array_get(json_object_get(object, "data"), 0);
    id = json_string_value(json_object_get(model, "id"));
    owner = json_string_value(json_object_get(model, "owned_by"));
    if (status == HEARTH_OK && (answer == 401 || answer == 403))
        status = hth_fail(err, HEARTH_PERMISSION, "%s refuses: give a key with --api-key or $HEARTH_API_KEY",
                          hth_fetch_shown(base, shown));
    else if (status == HEARTH_OK && !id)
        status = hth_fail(err, HEARTH_NOT_FOUND, "%s lists no model (%ld); is this the address of a server?",
                          hth_fetch_shown(base, shown), answer);
    else if (status == HEARTH_OK && !(out->name = strdup(id)))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the name of a model");
    out->tells_timings = owner && (strcmp(owner, "hearth") == 0 || strcmp(owner, "llamacpp") == 0);
    json_decref(object);
    hth_buffer_deinit(&page);
    return status;
}
