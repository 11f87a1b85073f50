/*
 * front_access.c - the rights of a request: keys, limits, operators' pages
 */
#include <string.h>

#include "base/os.h"
#include "front/front_request.h"

bool hth_front_has_keys(const hth_front_request *r)
{
    return r->options->options->n_keys > 0;
}

/* Headers other than "Authorization: Bearer ..." that carry a key: from clients of Anthropic, Azure and Google. */
static const char *const key_headers[] = { "X-Api-Key", "Api-Key", "X-Goog-Api-Key" };
enum { N_KEY_HEADERS = sizeof(key_headers) / sizeof(key_headers[0]) };

static hth_key_use *find_key(hth_front *front, const hth_http_exchange *exchange)
{
    hth_key_use *use = hth_keys_find(front->keys, hth_http_header(exchange, "Authorization"), NULL);

    for (int i = 0; i < N_KEY_HEADERS && !use; i++)
        use = hth_keys_find(front->keys, NULL, hth_http_header(exchange, key_headers[i]));
    return use;
}

static bool shows_key(const hth_http_exchange *exchange)
{
    for (int i = 0; i < N_KEY_HEADERS; i++)
        if (hth_http_header(exchange, key_headers[i]))
            return true;
    return hth_http_header(exchange, "Authorization") != NULL;
}

static bool is_expired(const hth_key_use *use)
{
    return hth_key_is_expired(hth_key_use_key(use), (int64_t)hth_os_unix_seconds());
}

bool hth_front_knows_key(hth_front *front, const hth_http_exchange *exchange)
{
    const hth_key_use *use = find_key(front, exchange);

    return use && !is_expired(use);
}

bool hth_front_identify(hth_front_request *r)
{
    if (!hth_front_has_keys(r))
        return true;
    r->use = find_key(r->front, r->exchange);
    if (r->use)
        r->record.key = hth_key_use_key(r->use)->name;
    if (r->use && !is_expired(r->use))
        return true;
    hth_http_header_add(r->exchange, "WWW-Authenticate", "Bearer");
    if (r->use)
        hth_front_request_fail(r, "expired", HTH_API_UNAUTHORIZED,
                               "the API key '%.64s' is expired; ask who gave it out for another one, or to let it live "
                               "longer (hearth key expire)",
                               r->record.key);
    else
        hth_front_request_fail(
            r, "unauthorized", HTH_API_UNAUTHORIZED, "%s",
            shows_key(r->exchange)
                ? "the API key is not known here; check it with who gave it out"
                : "this server wants an API key, as 'Authorization: Bearer KEY' or 'x-api-key: KEY'");
    return false;
}

bool hth_front_admit(hth_front_request *r)
{
    static const char *const reasons[] = { [HTH_KEY_TOO_MANY_REQUESTS] = "requests a minute",
                                           [HTH_KEY_TOO_MANY_TOKENS] = "tokens a minute",
                                           [HTH_KEY_TOO_MANY_AT_ONCE] = "requests at once" };
    const hth_server_options *options = r->options->options;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_key_verdict verdict;
    uint32_t retry_after_s = 0;

    if (r->front->is_draining) {
        hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "the server is shutting down; try again in a moment");
        error.retry_after_s = 5;
        hth_front_request_refuse(r, &error, "draining");
        return false;
    }
    if (r->front->n_requests > options->requests_max) {
        hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "%u requests are being served, which is as many as are allowed",
                     options->requests_max);
        error.retry_after_s = 1;
        hth_front_request_refuse(r, &error, "overloaded");
        return false;
    }
    if (!r->use)
        return true;
    verdict = hth_key_use_begin(r->use, r->begin_ns, &retry_after_s);
    if (verdict == HTH_KEY_OK) {
        r->is_counted = true;
        return true;
    }
    hth_api_fail(&error, HTH_API_RATE_LIMITED, NULL, "this key has used up its %s; try again in %u s", reasons[verdict],
                 retry_after_s);
    error.retry_after_s = retry_after_s;
    hth_front_request_refuse(r, &error, "rate_limited");
    return false;
}

bool hth_front_may_administer(hth_front_request *r)
{
    if (hth_http_tag(r->exchange) == HTH_FRONT_ADMIN)
        return true;
    if (r->use && hth_key_use_key(r->use)->is_admin)
        return true;
    /* Without keys and without an operators' listener, any client may read the metrics: they have no other place. */
    if (!hth_front_has_keys(r) && !hth_server_has_admin_address(r->options->options) &&
        strcmp(r->path, "/metrics") == 0)
        return true;
    hth_front_request_fail(
        r, "forbidden", HTH_API_FORBIDDEN, "%s",
        hth_front_has_keys(r) || hth_server_has_admin_address(r->options->options)
            ? "this page needs a key with 'admin = true', or the listener that 'admin' configures"
            : "this server has no address for operators; start it with --admin unix:FILE (or --admin 127.0.0.1:8090, "
              "which all accounts of the machine reach) and ask there, or make an operator's key ('hearth help key')");
    return false;
}

bool hth_front_may_name_paths(hth_front_request *r)
{
    const hth_key_use *use = r->use ? r->use : find_key(r->front, r->exchange);

    if (hth_http_tag(r->exchange) == HTH_FRONT_ADMIN && strcmp(r->peer, "unix") == 0)
        return true;
    if (use && hth_key_use_key(use)->is_admin && !is_expired(use))
        return true;
    hth_front_request_fail(
        r, "forbidden", HTH_API_FORBIDDEN,
        "this order names files that the server reads and folders that it writes, and every account of this machine "
        "reaches this address; show a key with 'admin = true' ('hearth help key'), or let 'admin' be a unix socket "
        "(--admin unix:/run/hearth/admin.sock) and order there");
    return false;
}

bool hth_front_may_use(const hth_front_request *r, const char *model)
{
    return !r->use || hth_key_allows_model(hth_key_use_key(r->use), model);
}
