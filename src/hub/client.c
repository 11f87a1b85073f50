#include "hub/client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/status.h"

enum {
    HOPS_MAX = 8,
    TRIES_MAX = 5,
    FIRST_WAIT_MS = 100,
    WAIT_GROWTH = 3,      /* most interruptions are short; five tries take 4 s */
    LONGEST_WAIT_S = 300, /* that a hub may request */
    REFUSAL_BYTES_MAX = 1 << 20,
};

hearth_status hth_hub_client_init(hth_hub_client *out, const hth_hub_settings *settings, const char *repo,
                                  hearth_error *err)
{
    *out = (hth_hub_client){ .settings = settings, .repo = repo, .fetch = hth_fetch_new() };
    return out->fetch ? HEARTH_OK
                      : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a connection to the %s", settings->called);
}

void hth_hub_client_deinit(hth_hub_client *client)
{
    hth_fetch_free(client->fetch);
    client->fetch = NULL;
}

bool hth_hub_escape(const char *text, const char *keeps, char *out, size_t capacity)
{
    size_t n = 0;

    for (const char *c = text; *c; c++) {
        const bool stays =
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", *c) || strchr(keeps, *c);

        if (n + 4 > capacity)
            return false;
        n += (size_t)snprintf(out + n, capacity - n, stays ? "%c" : "%%%02X", (unsigned char)*c);
    }
    if (capacity == 0)
        return false;
    out[n] = '\0';
    return true;
}

/* ---- error responses ---- */

static hth_hub_outcome again(hth_hub_client *client, hearth_error *err)
{
    const uint64_t asked_s = hth_fetch_retry_after_s(client->fetch);
    uint64_t backoff_ms = FIRST_WAIT_MS;

    if (++client->n_failures >= TRIES_MAX) {
        hth_fail_prefix(err, "given up after %d tries", TRIES_MAX);
        return HTH_HUB_FAILED;
    }
    if (asked_s > LONGEST_WAIT_S) {
        hth_fail_prefix(err, "the %s asks to wait for %llu s; try later", client->settings->called,
                        (unsigned long long)asked_s);
        return HTH_HUB_FAILED;
    }
    for (unsigned i = 1; i < client->n_failures; i++)
        backoff_ms *= WAIT_GROWTH;
    /* Several connections that failed together do not retry together. */
    client->wait_ms = (uint32_t)(asked_s * 1000 > backoff_ms ? asked_s * 1000 : backoff_ms) +
                      (uint32_t)(hth_os_monotonic_ns() % FIRST_WAIT_MS);
    return HTH_HUB_AGAIN;
}

static void say_forbidden(const hth_hub_client *client, long status, hearth_error *err)
{
    const char *code = hth_fetch_header(client->fetch, "X-Error-Code");
    const char *repo = client->repo, *endpoint = client->settings->endpoint;
    const bool has_token = client->settings->token[0] != '\0';

    if (client->settings->is_registry)
        (void)hth_fail(err, HEARTH_PERMISSION,
                       "the registry refuses '%s' with %ld: there is no such model, or it is private; only public "
                       "models can be pulled",
                       repo, status);
    else if (code && strcmp(code, "GatedRepo") == 0)
        (void)hth_fail(err, HEARTH_PERMISSION, "'%s' is gated: accept its terms at %s/%s%s", repo, endpoint, repo,
                       has_token ? " with the account of your token" : ", then set HF_TOKEN to your token");
    else if (has_token)
        (void)hth_fail(err, HEARTH_PERMISSION,
                       "the hub refuses '%s' with %ld: there is no such repository, or the token may not read it", repo,
                       status);
    else
        (void)hth_fail(
            err, HEARTH_PERMISSION,
            "the hub refuses '%s' with %ld: there is no such repository, or it is private; for a private one "
            "set HF_TOKEN to your token",
            repo, status);
}

static void say_missing(const hth_hub_client *client, const hth_hub_question *question, hearth_error *err)
{
    const char *code = hth_fetch_header(client->fetch, "X-Error-Code");

    if (client->settings->is_registry)
        (void)hth_fail(err, HEARTH_NOT_FOUND, "the registry has no '%s': check the name and the tag",
                       question->subject);
    else if (code && strcmp(code, "RevisionNotFound") == 0)
        (void)hth_fail(err, HEARTH_NOT_FOUND, "'%s' has no such revision; leave --revision out for its main branch",
                       client->repo);
    else if (code && strcmp(code, "EntryNotFound") == 0)
        (void)hth_fail(err, HEARTH_NOT_FOUND, "'%s' has no file '%s' any more; pull again", client->repo,
                       question->subject);
    else
        (void)hth_fail(
            err, HEARTH_NOT_FOUND,
            "the hub has no '%s': check the name; if the repository is private, set HF_TOKEN to a token that "
            "may read it",
            client->repo);
}

static hth_hub_outcome refuse(hth_hub_client *client, const hth_hub_question *question, const char *url, long status,
                              bool was_landed, hearth_error *err)
{
    const bool is_hub = hth_fetch_same_origin(url, client->settings->endpoint);

    (void)hth_fail(err, HEARTH_IO, "the %s%s answers %ld for '%s'", client->settings->called,
                   is_hub ? "" : "'s storage", status, question->subject);
    if (status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504))
        return again(client, err);
    if (was_landed && (status == 401 || status == 403 || status == 404 || status == 410))
        return again(client, err); /* from the hub's own address */
    if (is_hub && (status == 401 || status == 403))
        say_forbidden(client, status, err);
    else if (is_hub && status == 404)
        say_missing(client, question, err);
    return HTH_HUB_FAILED;
}

/* ---- one request ---- */

typedef struct asking {
    const hth_hub_question *question;
    size_t n_refusal; /* bytes of an error response */
} asking;

static bool take_bytes(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data)
{
    asking *a = user_data;

    if (status == 200 || status == 206)
        return a->question->on_bytes(fetch, status, bytes, n_bytes, a->question->user_data);
    a->n_refusal += n_bytes;
    return a->n_refusal <= REFUSAL_BYTES_MAX;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Follow a redirect. False, with a message, if it has no valid target. */
static bool follow(const hth_hub_client *client, char url[HTH_FETCH_URL_BYTES], hearth_error *err)
{
    const char *next = hth_fetch_redirect(client->fetch);

    if (!next || strlen(next) >= HTH_FETCH_URL_BYTES) {
        (void)hth_fail(err, HEARTH_IO, "the %s redirects to nowhere", client->settings->called);
        return false;
    }
    if (!hth_fetch_may_lead(client->settings->endpoint, next)) {
        (void)hth_fail(err, HEARTH_IO, "the %s redirects to an address without https; nothing is read from there",
                       client->settings->called);
        return false;
    }
    (void)snprintf(url, HTH_FETCH_URL_BYTES, "%s", next);
    return true;
}

static bool first_url(const hth_hub_client *client, const hth_hub_question *question, char url[HTH_FETCH_URL_BYTES])
{
    if (question->keeps_landing && client->landed[0])
        return snprintf(url, HTH_FETCH_URL_BYTES, "%s", client->landed) < HTH_FETCH_URL_BYTES;
    return snprintf(url, HTH_FETCH_URL_BYTES, "%s%s", client->settings->endpoint, question->path) < HTH_FETCH_URL_BYTES;
}

hth_hub_outcome hth_hub_ask(hth_hub_client *client, const hth_hub_question *question, hearth_error *err)
{
    const bool was_landed = question->keeps_landing && client->landed[0];
    const char *token = client->settings->token;
    asking a = { .question = question };
    char url[HTH_FETCH_URL_BYTES];

    if (!first_url(client, question, url)) {
        (void)hth_fail(err, HEARTH_MISUSE, "the address of '%s' is too long", question->subject);
        return HTH_HUB_FAILED;
    }
    client->landed[0] = '\0';
    for (int hop = 0; hop < HOPS_MAX; hop++) {
        const bool is_hub = hth_fetch_same_origin(url, client->settings->endpoint);
        const hth_fetch_order order = { .url = url,
                                        .key = is_hub && token[0] ? token : NULL,
                                        .accept = question->accept,
                                        .begin = question->begin,
                                        .end = question->end,
                                        .on_bytes = take_bytes,
                                        .user_data = &a };
        long status = 0;
        const hearth_status got = hth_fetch_transfer(client->fetch, &order, &status, err);

        if (got == HEARTH_CANCELLED)
            return a.n_refusal > REFUSAL_BYTES_MAX ? HTH_HUB_FAILED : HTH_HUB_STOPPED;
        if (got != HEARTH_OK) {
            if (question->keeps_landing && !is_hub)
                (void)snprintf(client->landed, sizeof(client->landed), "%s", url); /* as long as url */
            return got == HEARTH_IO ? again(client, err) : HTH_HUB_FAILED;
        }
        if (is_hub && question->on_head && (status < 400) && !question->on_head(client->fetch, question->user_data))
            return HTH_HUB_STOPPED;
        if (is_redirect(status)) {
            if (!follow(client, url, err))
                return HTH_HUB_FAILED;
            continue;
        }
        if (status != 200 && status != 206)
            return refuse(client, question, url, status, was_landed && hop == 0, err);
        if (question->keeps_landing && !is_hub)
            (void)snprintf(client->landed, sizeof(client->landed), "%s", url); /* as long as url */
        return HTH_HUB_DONE;
    }
    (void)hth_fail(err, HEARTH_IO, "the %s redirects '%s' more than %d times", client->settings->called,
                   question->subject, HOPS_MAX);
    return HTH_HUB_FAILED;
}

/* ---- a page ---- */

typedef struct page {
    hth_buffer *out;
    size_t n_max;
} page;

static bool add_to_page(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data)
{
    const page *p = user_data;

    (void)fetch, (void)status; /* any successful response is the page */
    if (p->out->n + n_bytes > p->n_max)
        return false;
    hth_buffer_add(p->out, bytes, n_bytes);
    return !p->out->failed;
}

hearth_status hth_hub_read(const hth_hub_settings *settings, const char *repo, const char *path, const char *accept,
                           size_t n_max, hth_buffer *out, hearth_error *err)
{
    page p = { .out = out, .n_max = n_max };
    const hth_hub_question question = {
        .path = path, .subject = repo, .accept = accept, .on_bytes = add_to_page, .user_data = &p
    };
    hth_hub_client *client = calloc(1, sizeof(*client)); /* large */
    hth_hub_outcome outcome;
    hearth_error refusal = { .message = "" };
    hearth_status status;

    if (!client)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a question to the %s", settings->called);
    status = hth_hub_client_init(client, settings, repo, err);
    if (status != HEARTH_OK) {
        free(client);
        return status;
    }
    while ((outcome = hth_hub_ask(client, &question, &refusal)) == HTH_HUB_AGAIN) {
        hth_buffer_clear(out);
        (void)poll(NULL, 0, (int)client->wait_ms); /* a signal may end the wait early */
    }
    if (outcome == HTH_HUB_STOPPED && out->failed)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the answer of the %s", settings->called);
    else if (outcome == HTH_HUB_STOPPED)
        status = hth_fail(err, HEARTH_CORRUPT, "the %s's answer for '%s' is too large", settings->called, repo);
    else if (outcome != HTH_HUB_DONE)
        status = hth_fail(err, HEARTH_IO, "%s", refusal.message);
    hth_hub_client_deinit(client);
    free(client);
    return status;
}
