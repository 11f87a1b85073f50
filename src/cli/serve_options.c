/*
 * serve_options.c - the rows of `hearth serve`
 *
 * A row's key is its name in the file, within the section whose table it stands in; its flag is unique among all.
 */
#include "cli/serve_options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cli/values.h"
#include "server/origin.h"

enum { HOST_BYTES = 256, UNIX_PATH_BYTES = 108 };

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static bool wrong_address(const char *shown, const char *text, hearth_error *err)
{
    return hth_value_wrong(shown, text,
                           "an address such as 127.0.0.1:8080, [::1]:8080, 0.0.0.0:8080, a port alone, or "
                           "unix:/run/hearth/hearth.sock (at most 107 bytes)",
                           err);
}

static bool read_port(const char *text, uint16_t *out)
{
    uint32_t port = 0;

    if (!*text || strlen(text) > 5 || text[strspn(text, "0123456789")])
        return false;
    for (; *text; text++)
        port = 10 * port + (uint32_t)(*text - '0');
    if (port > UINT16_MAX)
        return false;
    *out = (uint16_t)port;
    return true;
}

static bool is_host(const char *text, size_t n, bool in_brackets)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_%";

    for (size_t i = 0; i < n; i++)
        if (!strchr(characters, text[i]) && !(in_brackets && text[i] == ':'))
            return false;
    return n > 0 && n < HOST_BYTES;
}

bool hth_serve_address_read(const char *shown, const char *text, char *host_out, size_t n, uint16_t *port_out,
                            const char **path_out, hearth_error *err)
{
    const bool in_brackets = text[0] == '[';
    const char *host = in_brackets ? text + 1 : text;
    size_t n_host = strcspn(host, in_brackets ? "]" : ":");
    const char *rest = host + n_host;
    uint16_t port = HTH_SERVE_PORT;

    if (strncmp(text, "unix:", 5) == 0) {
        if (strlen(text + 5) == 0 || strlen(text + 5) >= UNIX_PATH_BYTES)
            return wrong_address(shown, text, err);
        host_out[0] = '\0';
        *port_out = 0;
        *path_out = text + 5;
        return true;
    }
    if (in_brackets && *rest++ != ']')
        return wrong_address(shown, text, err);
    if (!in_brackets && !*rest && read_port(text, &port)) {
        host = "127.0.0.1";
        n_host = strlen(host);
    } else if ((*rest && (*rest != ':' || !read_port(rest + 1, &port))) || !is_host(host, n_host, in_brackets)) {
        return wrong_address(shown, text, err);
    }
    if (n_host >= n)
        return wrong_address(shown, text, err);
    memcpy(host_out, host, n_host);
    host_out[n_host] = '\0';
    *port_out = port;
    *path_out = NULL;
    return true;
}

static bool check_address(const char *shown, const char *text, hearth_error *err)
{
    char host[HOST_BYTES];
    const char *path;
    uint16_t port;

    return hth_serve_address_read(shown, text, host, sizeof(host), &port, &path, err);
}

/* ---- readers and writers of single options ----------------------------------------------------------------------- */

static bool write_text(const char *value, char *text, size_t capacity)
{
    return value && (size_t)snprintf(text, capacity, "%s", value) < capacity;
}

static bool add_listen(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_serve_options *out = options;

    return (!value || check_address(shown, value, err)) &&
           hth_value_add_text(out->listen, &out->n_listen, HTH_SERVE_LISTEN_MAX, shown, value, err);
}

static bool write_listen(const void *options, size_t i, char *text, size_t capacity)
{
    const hth_serve_options *o = options;

    return i < o->n_listen && write_text(o->listen[i], text, capacity);
}

static bool add_host(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_serve_options *out = options;

    return hth_value_add_text(out->hosts, &out->n_hosts, HTH_SERVE_LISTEN_MAX, shown, value, err);
}

static bool add_api_key(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_serve_options *out = options;

    if (!value) {
        out->n_api_keys = 0;
        return true;
    }
    if (out->n_api_keys == HTH_SERVE_API_KEYS_MAX) {
        (void)hth_fail(err, HEARTH_MISUSE, "%s is given more than %d times; --api-key-file names a file of more", shown,
                       HTH_SERVE_API_KEYS_MAX); /* false says it; the key is in no message */
        return false;
    }
    out->api_keys[out->n_api_keys++] = value;
    return true;
}

static bool read_port_alone(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_serve_options *out = options;

    out->has_port = true;
    return hth_value_u32(shown, value, 0, UINT16_MAX, &out->port, err);
}

static bool read_admin(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_serve_options *out = options;

    out->admin = value;
    return check_address(shown, value, err);
}

static bool write_admin(const void *options, size_t i, char *text, size_t capacity)
{
    return i == 0 && write_text(((const hth_serve_options *)options)->admin, text, capacity);
}

static bool add_origin(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_serve_options *out = options;
    const char *expected = value ? hth_origin_rule_fault(value) : NULL;

    if (expected)
        return hth_value_wrong(shown, value, expected, err);
    return hth_value_add_text(out->origins, &out->n_origins, HTH_SERVE_ORIGINS_MAX, shown, value, err);
}

static bool write_origin(const void *options, size_t i, char *text, size_t capacity)
{
    const hth_serve_options *o = options;

    return i < o->n_origins && write_text(o->origins[i], text, capacity);
}

static bool add_model(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_serve_options *out = options;

    return hth_value_add_text(out->models, &out->n_models, HTH_SERVE_MODELS_MAX, shown, value, err);
}

/* One of n words, by its number. */
static bool read_word(const char *const *words, int n, const char *expected, const char *shown, const char *value,
                      int *out, hearth_error *err)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(value, words[i]) != 0)
            continue;
        *out = i;
        return true;
    }
    return hth_value_wrong(shown, value, expected, err);
}

static const char *const log_formats[] = { [HTH_LOG_AUTO] = "auto", [HTH_LOG_TEXT] = "text", [HTH_LOG_JSON] = "json" };
static const char *const log_levels[] = { [HEARTH_LOG_ERROR] = "error",
                                          [HEARTH_LOG_WARNING] = "warning",
                                          [HEARTH_LOG_INFO] = "info",
                                          [HEARTH_LOG_DEBUG] = "debug" };
static const char *const starts[] = { "at-once", "on-demand" };

static bool read_log_format(void *options, const char *shown, const char *value, hearth_error *err)
{
    int number = 0;

    if (!read_word(log_formats, 3, "auto, text or json", shown, value, &number, err))
        return false;
    ((hth_serve_options *)options)->server.log_format = (hth_log_format)number;
    return true;
}

static bool write_log_format(const void *options, size_t i, char *text, size_t capacity)
{
    return i == 0 && write_text(log_formats[((const hth_serve_options *)options)->server.log_format], text, capacity);
}

static bool read_log_level(void *options, const char *shown, const char *value, hearth_error *err)
{
    int number = 0;

    if (!read_word(log_levels, 4, "error, warning, info or debug", shown, value, &number, err))
        return false;
    ((hth_serve_options *)options)->server.log_level = (hearth_log_level)number;
    return true;
}

static bool write_log_level(const void *options, size_t i, char *text, size_t capacity)
{
    return i == 0 && write_text(log_levels[((const hth_serve_options *)options)->server.log_level], text, capacity);
}

static bool read_start(void *options, const char *shown, const char *value, hearth_error *err)
{
    int number = 0;

    if (!read_word(starts, 2, "at-once or on-demand", shown, value, &number, err))
        return false;
    ((hth_serve_model *)options)->on_demand = number == 1;
    return true;
}

static bool write_start(const void *options, size_t i, char *text, size_t capacity)
{
    return i == 0 && write_text(starts[((const hth_serve_model *)options)->on_demand], text, capacity);
}

/* A name that clients may ask for, or a pattern of such names. */
static bool is_alias(const char *text)
{
    static const char others[] = "._-:/@+*";
    const size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(others, text[i]))
            return false;
    return n <= HTH_SERVE_NAME_BYTES_MAX;
}

static bool add_alias(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_serve_model *out = options;

    if (value && !is_alias(value))
        return hth_value_wrong(shown, value,
                               "a name of at most 128 letters, digits and . _ - : / @ +, or a pattern with *, such as "
                               "gpt-4o or claude-*",
                               err);
    return hth_value_add_text(out->aliases, &out->n_aliases, HTH_SERVE_ALIASES_MAX, shown, value, err);
}

static bool write_alias(const void *options, size_t i, char *text, size_t capacity)
{
    const hth_serve_model *model = options;

    return i < model->n_aliases && write_text(model->aliases[i], text, capacity);
}

static bool add_tag(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_serve_model *out = options;

    return hth_value_add_text(out->tags, &out->n_tags, HTH_SERVE_TAGS_MAX, shown, value, err);
}

static bool write_tag(const void *options, size_t i, char *text, size_t capacity)
{
    const hth_serve_model *model = options;

    return i < model->n_tags && write_text(model->tags[i], text, capacity);
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

#define AT(field) offsetof(hth_serve_options, field)
#define IN_MODEL(field) offsetof(hth_serve_model, field)
#define TABLE(rows)                            \
    {                                          \
        rows, sizeof(rows) / sizeof((rows)[0]) \
    }

static const hth_option tls_rows[] = {
    { "tls-certificate", 0, HTH_OPTION_TEXT, "FILE",
      "the certificate with its chain, PEM; with it all TCP addresses but the operators' speak TLS",
      .offset = AT(server.tls_certificate), .key = "certificate", .is_path = true },
    { "tls-key", 0, HTH_OPTION_TEXT, "FILE", "the certificate's private key, PEM", .offset = AT(server.tls_key),
      .key = "key", .is_path = true },
};

#define IN_SERVER(field) offsetof(hth_server_options, field)

static const hth_option worker_limit_rows[] = {
    { "headers-bytes-max", 0, HTH_OPTION_SIZE, "SIZE", "the head of a request; more is 431, of its line alone 414",
      .offset = IN_SERVER(headers_bytes_max), .low = 1 << 10, .key = "headers_bytes_max" },
    { "body-bytes-max", 0, HTH_OPTION_SIZE, "SIZE", "the body of a request; more is 413",
      .offset = IN_SERVER(body_bytes_max), .low = 1 << 10, .key = "body_bytes_max" },
    { "json-depth-max", 0, HTH_OPTION_U32, "N", "depth of nested objects and arrays",
      .offset = IN_SERVER(json_depth_max), .low = 4, .high = 1024, .key = "json_depth_max" },
    { "messages-max", 0, HTH_OPTION_U32, "N", "messages of one conversation, at most 16384",
      .offset = IN_SERVER(messages_max), .low = 1, .high = 16384, .key = "messages_max" },
    { "schema-bytes-max", 0, HTH_OPTION_U32, "N", "bytes of a JSON schema or grammar, at most 262144",
      .offset = IN_SERVER(schema_bytes_max), .low = 1 << 10, .high = 256 << 10, .key = "schema_bytes_max" },
    { "unknown-fields", 0, HTH_OPTION_TEXT, "WORD",
      "unknown fields of a request: pass (ignore and list them in the header x-hearth-ignored), or refuse with 400 "
      "(default pass)",
      .offset = IN_SERVER(unknown_fields), .key = "unknown_fields" },
    { "normalize", 0, HTH_OPTION_TEXT, "WORD",
      "on: remove lines from prompts that clients write for themselves and change each time; off (default on)",
      .offset = IN_SERVER(normalize), .key = "normalize" },
};

static const hth_option_table worker_limit_table = TABLE(worker_limit_rows);

static const hth_option limit_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &worker_limit_table, .offset = AT(server) },
    { "bodies-bytes-max", 0, HTH_OPTION_SIZE, "SIZE", "memory of all requests' bodies together; more are 503",
      .offset = AT(server.bodies_bytes_max), .low = 1 << 20, .key = "bodies_bytes_max" },
    { "connections-max", 0, HTH_OPTION_U32, "N", "open connections; the system's limit of open files counts, too",
      .offset = AT(server.connections_max), .low = 1, .high = 1 << 20, .key = "connections_max" },
    { "requests-max", 0, HTH_OPTION_U32, "N", "requests at once, waiting ones included; more are 503",
      .offset = AT(server.requests_max), .low = 1, .high = 1 << 20, .key = "requests_max" },
    { "idle-timeout-ms", 0, HTH_OPTION_MS, "MS", "a connection without a request is closed after this time",
      .offset = AT(server.idle_timeout_ms), .low = 100, .high = UINT32_MAX, .key = "idle_timeout_ms" },
    { "request-timeout-ms", 0, HTH_OPTION_MS, "MS", "longest time until a request has arrived in full",
      .offset = AT(server.request_timeout_ms), .low = 100, .high = UINT32_MAX, .key = "request_timeout_ms" },
    { "write-timeout-ms", 0, HTH_OPTION_MS, "MS", "a client that reads nothing of its reply for this time is cut off",
      .offset = AT(server.write_timeout_ms), .low = 100, .high = UINT32_MAX, .key = "write_timeout_ms" },
};

static const hth_option response_rows[] = {
    { "responses-directory", 0, HTH_OPTION_TEXT, "DIR",
      "keep responses of /v1/responses here, mode 0700 (default: in memory, until the server ends)",
      .offset = AT(server.responses_directory), .key = "directory", .is_path = true },
    { "responses-bytes-max", 0, HTH_OPTION_SIZE, "SIZE",
      "size of all kept responses; the oldest are dropped; 0: none is kept", .offset = AT(server.responses_bytes_max),
      .key = "bytes_max" },
    { "responses-days-max", 0, HTH_OPTION_U32, "N", "older responses are dropped, too",
      .offset = AT(server.responses_days_max), .low = 1, .high = 36500, .key = "days_max" },
};

static const hth_option supervision_rows[] = {
    { "runtime-directory", 0, HTH_OPTION_TEXT, "DIR",
      "directory for the workers' sockets, mode 0700 (default: one of its own below the temporary folder)",
      .offset = AT(server.runtime_directory), .key = "runtime_directory", .is_path = true },
    { "healthy-ms", 0, HTH_OPTION_MS, "MS",
      "a worker that was ready for this time starts again at once when it dies, and its earlier deaths are cleared",
      .offset = AT(server.healthy_ms), .low = 1, .high = UINT32_MAX, .key = "healthy_ms" },
    { "hang-ms", 0, HTH_OPTION_MS, "MS", "a worker with a longer evaluation counts as hung; 0: never",
      .offset = AT(server.hang_ms), .low = 0, .high = UINT32_MAX, .key = "hang_ms" },
    { "start-timeout-ms", 0, HTH_OPTION_MS, "MS",
      "a worker is killed when its loading makes no progress for this time; 0: never",
      .offset = AT(server.start_timeout_ms), .low = 0, .high = UINT32_MAX, .key = "start_timeout_ms" },
    { "wait-timeout-ms", 0, HTH_OPTION_MS, "MS", "longest wait of a request until its worker has started",
      .offset = AT(server.wait_timeout_ms), .low = 0, .high = UINT32_MAX, .key = "wait_timeout_ms" },
    { "drain-timeout-ms", 0, HTH_OPTION_MS, "MS", "time for running requests to finish when the server stops",
      .offset = AT(server.drain_timeout_ms), .low = 0, .high = UINT32_MAX, .key = "drain_timeout_ms" },
    { "retries-max", 0, HTH_OPTION_U32, "N", "how often a request may continue in a new worker",
      .offset = AT(server.retries_max), .low = 0, .high = 100, .key = "retries_max" },
    { "no-sandbox", 0, HTH_OPTION_FLAG, NULL, "workers may make any system call (for debugging)",
      .offset = AT(server.no_sandbox), .key = "no_sandbox" },
};

static const hth_option worker_stream_rows[] = {
    { "keep-alive-ms", 0, HTH_OPTION_MS, "MS", "a stream shows that it is alive after this time of silence; 0: never",
      .offset = IN_SERVER(keep_alive_ms), .low = 0, .high = 3600000, .key = "keep_alive_ms" },
    { "linger-ms", 0, HTH_OPTION_MS, "MS",
      "after its client left, the prompt of a request is computed further for this time, while nobody waits for its "
      "place; 0: not at all",
      .offset = IN_SERVER(linger_ms), .low = 0, .high = 3600000, .key = "linger_ms" },
};

static const hth_option worker_slot_rows[] = {
    { "slot-save-path", 0, HTH_OPTION_TEXT, "DIR",
      "clients may save slots here, and restore them (POST /slots/N?action=save; default: they may not)",
      .offset = IN_SERVER(slot_directory), .key = "slot_save_path", .is_path = true },
};

static const hth_option_table worker_slot_table = TABLE(worker_slot_rows);

static const hth_option_table worker_stream_table = TABLE(worker_stream_rows);

static const hth_option stream_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &worker_stream_table, .offset = AT(server) },
    { "stream-keep-ms", 0, HTH_OPTION_MS, "MS",
      "a stream with x-hearth-resume is kept for this time without its client; 0: not at all",
      .offset = AT(server.stream_keep_ms), .low = 0, .high = 86400000, .key = "keep_ms" },
    { "stream-bytes-max", 0, HTH_OPTION_SIZE, "SIZE", "number of last bytes that are kept of such a stream",
      .offset = AT(server.stream_bytes_max), .low = 64 << 10, .key = "bytes_max" },
    { "streams-bytes-max", 0, HTH_OPTION_SIZE, "SIZE",
      "memory of all kept streams together; beyond it, new ones are not kept", .offset = AT(server.streams_bytes_max),
      .low = 64 << 10, .key = "total_bytes_max" },
};

static const hth_option log_rows[] = {
    { "log-format", 0, HTH_OPTION_OWN, "FORMAT", "text, json, or auto: text on a terminal and json elsewhere",
      .read = read_log_format, .write = write_log_format, .key = "format" },
    { "log-level", 0, HTH_OPTION_OWN, "LEVEL", "error, warning, info or debug", .read = read_log_level,
      .write = write_log_level, .key = "level" },
    { "log-file", 0, HTH_OPTION_TEXT, "FILE", "file of the log, reopened with a reload (default: standard error)",
      .offset = AT(server.log_file), .key = "file", .is_path = true },
    { "no-access-log", 0, HTH_OPTION_FLAG, NULL, "no line for each request", .offset = AT(server.no_access_log),
      .key = "no_access_log" },
    { "log-prompts", 0, HTH_OPTION_FLAG, NULL,
      "write bodies of requests into the log: for debugging only, because they are private",
      .offset = AT(server.log_prompts), .key = "prompts" },
};

static const hth_option cors_rows[] = {
    { "cors-origin", 0, HTH_OPTION_OWN, "ORIGIN",
      "pages of this origin may call the server from a browser: https://app.example.com, localhost (this machine's "
      "pages), a scheme such as app://, or * for all; may be repeated",
      .read = add_origin, .write = write_origin, .repeats = true, .key = "origins" },
};

static const hth_option_table tls_table = TABLE(tls_rows);
static const hth_option_table limit_table = TABLE(limit_rows);
static const hth_option_table response_table = TABLE(response_rows);
static const hth_option_table supervision_table = TABLE(supervision_rows);
static const hth_option_table stream_table = TABLE(stream_rows);
static const hth_option_table log_table = TABLE(log_rows);
static const hth_option_table cors_table = TABLE(cors_rows);

static const hth_option key_rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "Addresses and keys" },
    { "listen", 0, HTH_OPTION_OWN, "ADDRESS",
      "address to listen on: HOST:PORT, [IPV6]:PORT, PORT or unix:PATH; may be repeated (default 127.0.0.1:8080)",
      .read = add_listen, .write = write_listen, .repeats = true, .key = "listen", .is_common = true },
    { "admin", 0, HTH_OPTION_OWN, "ADDRESS",
      "address of /metrics and /admin, without a key (default: the addresses of --listen, with an admin's key)",
      .read = read_admin, .write = write_admin, .key = "admin", .is_common = true },
    { "keys", 0, HTH_OPTION_TEXT, "FILE", "clients must show one of these keys; 'hearth key new' makes them",
      .offset = AT(keys_file), .key = "keys", .is_path = true, .is_common = true },
    { "allow-public-without-keys", 0, HTH_OPTION_FLAG, NULL,
      "listen without keys on addresses that other machines can reach", .offset = AT(server.allow_public_without_keys),
      .key = "allow_public_without_keys" },
    { "props", 0, HTH_OPTION_FLAG, NULL, "answer POST /props, which has no effect, instead of refusing it",
      .offset = AT(server.allows_props), .key = "props" },
    { .kind = HTH_OPTION_TABLE, .table = &worker_slot_table, .offset = AT(server) },
    { "default-model", 0, HTH_OPTION_TEXT, "NAME",
      "the model for unknown names, and for requests without a name (default: the first); none: unknown names are 404",
      .offset = AT(server.default_model), .key = "default" },
    { .kind = HTH_OPTION_TABLE, .key = "tls", .table = &tls_table, .help = "TLS" },
    { .kind = HTH_OPTION_TABLE, .key = "cors", .table = &cors_table, .help = "Calls from pages in browsers" },
    { .kind = HTH_OPTION_HEADING, .help = "Limits of requests" },
    { .kind = HTH_OPTION_TABLE, .key = "limits", .table = &limit_table, .help = "Limits of requests" },
    { .kind = HTH_OPTION_HEADING, .help = "Responses that are kept" },
    { .kind = HTH_OPTION_TABLE, .key = "responses", .table = &response_table, .help = "Responses that are kept" },
    { .kind = HTH_OPTION_HEADING, .help = "Supervision of workers" },
    { .kind = HTH_OPTION_TABLE, .key = "supervision", .table = &supervision_table, .help = "Supervision of workers" },
    { .kind = HTH_OPTION_HEADING, .help = "Log" },
    { .kind = HTH_OPTION_TABLE, .key = "streams", .table = &stream_table, .help = "Streams" },
    { .kind = HTH_OPTION_TABLE, .key = "log", .table = &log_table, .help = "Log" },
};

static const hth_option_table key_table = TABLE(key_rows);

/* What clients call a model besides its name, and what lists say of it. */
static const hth_option name_rows[] = {
    { "alias", 0, HTH_OPTION_OWN, "NAME",
      "a further name of the model for clients, or a pattern of names with *, such as claude-*; may be repeated (for "
      "one model only)",
      .read = add_alias, .write = write_alias, .repeats = true, .key = "aliases", .is_common = true },
    { "tag", 0, HTH_OPTION_OWN, "TEXT", "a tag of the model in lists of models; may be repeated", .read = add_tag,
      .write = write_tag, .repeats = true, .key = "tags" },
};

static const hth_option_table name_table = TABLE(name_rows);

/* What a model's section and the command line share; the cache is a section of its own in both places. */
static const hth_option model_shared_rows[] = {
    { "start", 0, HTH_OPTION_OWN, "WHEN", "at-once: with the server; on-demand: with the first request for it",
      .read = read_start, .write = write_start, .key = "start" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_engine_options, .offset = IN_MODEL(setup) },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_reply_options, .offset = IN_MODEL(setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Scheduling" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_scheduling_options, .offset = IN_MODEL(setup) },
};

static const hth_option_table model_shared_table = TABLE(model_shared_rows);

static const hth_option model_key_rows[] = {
    { "model", 0, HTH_OPTION_TEXT, "FILE", "the model, a GGUF file", .offset = IN_MODEL(setup.path), .key = "path",
      .is_path = true },
    { .kind = HTH_OPTION_TABLE, .table = &name_table },
    { .kind = HTH_OPTION_TABLE, .table = &model_shared_table },
    { "ram", 0, HTH_OPTION_SIZE, "SIZE", "memory for rows (default: that of the section cache)",
      .offset = IN_MODEL(setup.runtime.ram_bytes_max), .low = 1 << 20, .key = "ram" },
    { .kind = HTH_OPTION_TABLE,
      .key = "defaults",
      .table = &hth_default_options,
      .offset = IN_MODEL(setup.defaults),
      .help = "Defaults of requests" },
    { .kind = HTH_OPTION_TABLE,
      .key = "cache",
      .table = &hth_model_cache_options,
      .offset = IN_MODEL(setup),
      .help = "Cache" },
};

static const hth_option file_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &key_table },
    { .kind = HTH_OPTION_TABLE,
      .key = "cache",
      .table = &hth_model_cache_options,
      .offset = AT(defaults.setup),
      .help = "Cache, of all models" },
    { .kind = HTH_OPTION_TABLE,
      .key = "defaults",
      .table = &hth_default_options,
      .offset = AT(defaults.setup.defaults),
      .help = "Defaults of requests, for all models; missing values are those that the model recommends" },
};

static const hth_option flag_rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "Server" },
    { "model", 'm', HTH_OPTION_OWN, "[NAME=]FILE",
      "serve this model, a GGUF file (default name: the file's without .gguf); may be repeated", .read = add_model,
      .repeats = true, .is_common = true },
    { "config", 0, HTH_OPTION_TEXT, "FILE", "the configuration file; flags win over its values",
      .offset = AT(config_file), .is_common = true },
    { "check", 0, HTH_OPTION_FLAG, NULL,
      "check the configuration and all files that it names, report all problems, and end", .offset = AT(check),
      .is_common = true },
    { "print-config", 0, HTH_OPTION_FLAG, NULL, "print the configuration that is in effect, with comments, and end",
      .offset = AT(print_config), .is_common = true },
    { "print-keys", 0, HTH_OPTION_FLAG, NULL, "print all keys of the configuration as a table in Markdown, and end",
      .offset = AT(print_keys) },
    { "port-file", 0, HTH_OPTION_TEXT, "FILE",
      "write the ports into this file once the server listens, one a line, in the order of the addresses",
      .offset = AT(port_file) },
    { "host", 0, HTH_OPTION_OWN, "HOST",
      "listen there, in place of --listen; several with commas, or repeated; localhost is both 127.0.0.1 and [::1]",
      .read = add_host, .repeats = true, .is_common = true },
    { "port", 0, HTH_OPTION_OWN, "N", "listen on this port, in place of --listen; 0: any free one",
      .read = read_port_alone, .is_common = true },
    { .kind = HTH_OPTION_TABLE, .table = &key_table },
    { .kind = HTH_OPTION_HEADING, .help = "Keys of the command line" },
    { "api-key", 0, HTH_OPTION_OWN, "KEY",
      "clients must show this key; several with commas, or repeated. Others on this machine can see it: better use a "
      "file",
      .read = add_api_key, .repeats = true },
    { "api-key-file", 0, HTH_OPTION_TEXT, "FILE", "the same with keys of this file, one a line",
      .offset = AT(api_key_file), .is_common = true },
    { .kind = HTH_OPTION_HEADING, .help = "Models; these options win over their sections" },
    { .kind = HTH_OPTION_TABLE, .table = &name_table, .offset = AT(defaults) },
    { .kind = HTH_OPTION_TABLE, .table = &model_shared_table, .offset = AT(defaults) },
    { .kind = HTH_OPTION_HEADING, .help = "Defaults of requests, for all models" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_default_options, .offset = AT(defaults.setup.defaults) },
    { .kind = HTH_OPTION_HEADING, .help = "Cache" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_cache_options, .offset = AT(defaults.setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Help" },
    { "help", 'h', HTH_OPTION_END, NULL, "the most used options", .offset = AT(help), .is_common = true },
    { "help-all", 0, HTH_OPTION_END, NULL, "all options", .offset = AT(help_all), .is_common = true },
};

static const hth_option worker_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_serving_options },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_engine_options },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_scheduling_options },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_cache_options },
    { .kind = HTH_OPTION_TABLE, .table = &hth_default_options, .offset = offsetof(hth_model_setup, defaults) },
};

const hth_option_table hth_serve_flags = TABLE(flag_rows);
const hth_option_table hth_serve_keys = TABLE(file_rows);
const hth_option_table hth_serve_model_keys = TABLE(model_key_rows);
const hth_option_table hth_worker_model_options = TABLE(worker_rows);
const hth_option_table hth_worker_request_options = TABLE(worker_limit_rows);
const hth_option_table hth_worker_stream_options = TABLE(worker_stream_rows);
const hth_option_table hth_worker_slot_options = TABLE(worker_slot_rows);

void hth_serve_options_init(hth_serve_options *out)
{
    memset(out, 0, sizeof(*out));
    out->server = hth_server_options_default();
    hth_model_setup_init(&out->defaults.setup);
}

bool hth_serve_asks_for_keys(const hth_serve_options *options)
{
    return options->keys_file || options->n_api_keys > 0 || options->api_key_file;
}
