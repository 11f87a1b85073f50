/*
 * serve_options.c - the rows of `hearth serve`
 *
 * The key of a row is its name in the configuration file, within the section of its table. Its flag is unique among all
 * rows.
 */
#include "options/file_name.h"
#include "options/serve_options.h"

#include <string.h>

#include "base/status.h"
#include "fleet/node_page.h"
#include "fleet/roster.h"
#include "store/store_url.h"
#include "http/origin.h"
#include "options/default_options.h"
#include "options/values.h"
#include "supervisor/pressure_library.h"

/* ---- single options ---------------------------------------------------------------------------------------------- */

static bool add_api_key(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_serve_options *out = options;

    if (!value) {
        out->n_api_keys = 0;
        return true;
    }
    if (out->n_api_keys == HTH_SERVE_API_KEYS_MAX) {
        (void)hth_fail(err, HEARTH_MISUSE, "%s is given more than %d times; --api-key-file names a file of more", shown,
                       HTH_SERVE_API_KEYS_MAX); /* the message does not show the key */
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

static bool check_origin(const char *shown, const char *value, hearth_error *err)
{
    const char *expected = hth_origin_rule_fault(value);

    return !expected || hth_value_wrong(shown, value, expected, err);
}

static bool check_alias(const char *shown, const char *value, hearth_error *err)
{
    return hth_alias_is_good(value) ||
           hth_value_wrong(
               shown, value,
               "a name of 1 to 255 bytes of UTF-8 without control characters and marks that show nothing, or "
               "a pattern with *, such as gpt-4o or claude-*",
               err);
}

static bool check_library(const char *shown, const char *value, hearth_error *err)
{
    char file[PATH_MAX];
    const char *symbol;

    return hth_pressure_library_split(value, file, &symbol) ||
           hth_value_wrong(shown, value, "FILE:SYMBOL, such as /usr/lib/memory.so:used", err);
}

static bool check_fleet_address(const char *shown, const char *text, hearth_error *err)
{
    return (strrchr(text, ':') && strncmp(text, "unix:", 5) != 0 && hth_address_check(shown, text, NULL)) ||
           hth_value_wrong(shown, text, "HOST:PORT or [IPV6]:PORT", err);
}

static bool check_fleet_id(const char *shown, const char *value, hearth_error *err)
{
    return (hth_node_name_is_valid(value) && strlen(value) < HTH_ROSTER_FLEET_BYTES) ||
           hth_value_wrong(shown, value, "1 to 16 letters, digits and . _ -", err);
}

static bool check_store(const char *shown, const char *text, hearth_error *err)
{
    hth_store_url url;
    hearth_error why;

    return hth_store_url_read(text, &url, &why) == HEARTH_OK ||
           hth_fail(err, HEARTH_MISUSE, "%s: %s", shown, why.message) == HEARTH_OK;
}

static bool check_node_host(const char *shown, const char *text, hearth_error *err)
{
    const size_t n = strlen(text);
    const bool is_v6 = strchr(text, ':') && strspn(text, "0123456789abcdefABCDEF:.") == n;

    return (n > 0 && n < HTH_ADDRESS_HOST_BYTES - 8 && (is_v6 || strcspn(text, " /[]:") == n)) ||
           hth_value_wrong(shown, text, "a name or an address of this machine, without a port", err);
}

static bool check_node_name(const char *shown, const char *value, hearth_error *err)
{
    return hth_node_name_is_valid(value) || hth_value_wrong(shown, value, "1 to 64 letters, digits and . _ -", err);
}

static const char *const log_formats[] = {
    [HTH_LOG_AUTO] = "auto", [HTH_LOG_TEXT] = "text", [HTH_LOG_JSON] = "json", [HTH_LOG_JSON + 1] = NULL
};
static const char *const log_levels[] = { [HEARTH_LOG_ERROR] = "error",
                                          [HEARTH_LOG_WARNING] = "warning",
                                          [HEARTH_LOG_INFO] = "info",
                                          [HEARTH_LOG_DEBUG] = "debug",
                                          [HEARTH_LOG_DEBUG + 1] = NULL };
static const char *const folder_names[] = {
    [HTH_FOLDER_NAMES_FILE] = "file", [HTH_FOLDER_NAMES_METADATA] = "metadata", NULL
};
static const char *const starts[] = { [HTH_START_AT_ONCE] = "at-once", [HTH_START_ON_DEMAND] = "on-demand", NULL };
static const char *const unknown_fields[] = { [HTH_UNKNOWN_PASS] = "pass", [HTH_UNKNOWN_REFUSE] = "refuse", NULL };
static const char *const normalize[] = { [HTH_NORMALIZE_ON] = "on", [HTH_NORMALIZE_OFF] = "off", NULL };

/* ---- the tables -------------------------------------------------------------------------------------------------- */

#define AT(field) offsetof(hth_serve_options, field)
#define IN_MODEL(field) offsetof(hth_serve_model, field)
/* A list of texts; n_FIELD is their number. */
#define TEXTS(field, max) .offset = AT(field), .n_offset = AT(n_##field), .n_max = (max), .repeats = true
#define MODEL_TEXTS(field, max) \
    .offset = IN_MODEL(field), .n_offset = IN_MODEL(n_##field), .n_max = (max), .repeats = true

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
      .offset = IN_SERVER(http.headers_bytes_max), .low = 1 << 10, .key = "headers_bytes_max" },
    { "body-bytes-max", 0, HTH_OPTION_SIZE, "SIZE", "the body of a request; more is 413",
      .offset = IN_SERVER(worker.requests.body_bytes_max), .low = 1 << 10, .key = "body_bytes_max" },
    { "json-depth-max", 0, HTH_OPTION_U32, "N", "depth of nested objects and arrays",
      .offset = IN_SERVER(worker.requests.depth_max), .low = 4, .high = 1024, .key = "json_depth_max" },
    { "messages-max", 0, HTH_OPTION_U32, "N", "messages of one conversation, at most 16384",
      .offset = IN_SERVER(worker.requests.messages_max), .low = 1, .high = 16384, .key = "messages_max" },
    { "schema-bytes-max", 0, HTH_OPTION_U32, "N", "bytes of a JSON schema or grammar, at most 262144",
      .offset = IN_SERVER(worker.requests.schema_bytes_max), .low = 1 << 10, .high = 256 << 10,
      .key = "schema_bytes_max" },
    { "unknown-fields", 0, HTH_OPTION_WORD, "WORD",
      "unknown fields of a request: pass (ignore and list them in the header x-hearth-ignored), or refuse with 400",
      .offset = IN_SERVER(worker.requests.unknown_fields), .words = unknown_fields, .key = "unknown_fields" },
    { "normalize", 0, HTH_OPTION_WORD, "WORD",
      "on: remove lines from prompts that clients write for themselves and change each time; off: keep them",
      .offset = IN_SERVER(worker.requests.normalize), .words = normalize, .key = "normalize" },
};

static const hth_option limit_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_worker_request_options, .offset = AT(server) },
    { "bodies-bytes-max", 0, HTH_OPTION_SIZE, "SIZE", "memory of all requests' bodies together; more are 503",
      .offset = AT(server.http.bodies_bytes_max), .low = 1 << 20, .key = "bodies_bytes_max" },
    { "connections-max", 0, HTH_OPTION_U32, "N", "open connections; the system's limit of open files applies, too",
      .offset = AT(server.http.connections_max), .low = 1, .high = 1 << 20, .key = "connections_max" },
    { "requests-max", 0, HTH_OPTION_U32, "N", "requests at once, waiting ones included; more are 503",
      .offset = AT(server.requests_max), .low = 1, .high = 1 << 20, .key = "requests_max" },
    { "idle-timeout-ms", 0, HTH_OPTION_MS, "MS", "a connection without a request is closed after this time",
      .offset = AT(server.http.idle_timeout_ms), .low = 100, .high = UINT32_MAX, .key = "idle_timeout_ms" },
    { "request-timeout-ms", 0, HTH_OPTION_MS, "MS", "longest time until a request has arrived in full",
      .offset = AT(server.http.request_timeout_ms), .low = 100, .high = UINT32_MAX, .key = "request_timeout_ms" },
    { "write-timeout-ms", 0, HTH_OPTION_MS, "MS", "a client that reads nothing of its reply for this time is cut off",
      .offset = AT(server.http.write_timeout_ms), .low = 100, .high = UINT32_MAX, .key = "write_timeout_ms" },
};

static const hth_option response_rows[] = {
    { "responses-directory", 0, HTH_OPTION_TEXT, "DIR",
      "keep responses of /v1/responses here, mode 0700 (default: in memory, until the server ends)",
      .offset = AT(server.responses.directory), .key = "directory", .is_path = true },
    { "responses-bytes-max", 0, HTH_OPTION_SIZE, "SIZE",
      "size of all kept responses; the oldest are dropped; 0: none is kept", .offset = AT(server.responses.bytes_max),
      .key = "bytes_max" },
    { "responses-days-max", 0, HTH_OPTION_U32, "N", "responses older than this many days are dropped",
      .offset = AT(server.responses.days_max), .low = 1, .high = 36500, .key = "days_max" },
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
      .offset = AT(server.relay.wait_timeout_ms), .low = 0, .high = UINT32_MAX, .key = "wait_timeout_ms" },
    { "drain-timeout-ms", 0, HTH_OPTION_MS, "MS", "time for running requests to finish when the server stops",
      .offset = AT(server.drain_timeout_ms), .low = 0, .high = UINT32_MAX, .key = "drain_timeout_ms" },
    { "retries-max", 0, HTH_OPTION_U32, "N",
      "number of times in a row that a request may continue in a new worker without coming further",
      .offset = AT(server.relay.retries_max), .low = 0, .high = 100, .key = "retries_max" },
    { "no-sandbox", 0, HTH_OPTION_FLAG, NULL, "workers may make any system call (for debugging)",
      .offset = AT(server.no_sandbox), .key = "no_sandbox" },
};

static const char *const residency_modes[] = {
    [HTH_RESIDENCY_AUTOMATIC] = "automatic", [HTH_RESIDENCY_EXTERNAL] = "external", NULL
};

static const hth_option residency_rows[] = {
    { "residency", 0, HTH_OPTION_WORD, "MODE",
      "automatic: requests bring models in, and idle ones make room. external: models enter and leave by orders of "
      "operators only",
      .offset = AT(server.residency_mode), .words = residency_modes, .key = "mode" },
    { "memory", 0, HTH_OPTION_SIZE, "SIZE",
      "memory for all models: weights, cells and rows (default: nine tenths of the machine's). Idle models make room "
      "for others, the least recently used one first",
      .offset = AT(server.memory_bytes), .low = 0, .key = "memory" },
    { "device-memory", 0, HTH_OPTION_SIZE, "SIZE",
      "memory of each GPU for all models (default: nine tenths of the GPU's, or what other programs leave of it if "
      "that is less)",
      .offset = AT(server.device_memory_bytes), .low = 0, .key = "device_memory" },
    { "ram-total", 0, HTH_OPTION_SIZE, "SIZE",
      "of --memory, for the rows of all models (default: as much as one model may have, the largest 'ram' of them, but "
      "at most a quarter of --memory if that is set). Rows of idle models make room for those of busy ones",
      .offset = AT(server.ram_total_bytes), .low = 0, .key = "ram" },
    { "models-max", 0, HTH_OPTION_U32, "N", "most models with a worker at once; 0: no limit",
      .offset = AT(server.models_max), .low = 0, .high = 4096, .key = "models_max" },
    { "turn-ms", 0, HTH_OPTION_MS, "MS",
      "a model that has waited for room for this time is next: busy models finish their requests and leave",
      .offset = AT(server.turn_ms), .low = 0, .high = 3600000, .key = "turn_ms" },
    { "stay-ms", 0, HTH_OPTION_MS, "MS",
      "an idle model stays for this time after its last request, if that came within this time after the one before; "
      "not when another model has waited for --turn-ms. 0: it makes room at once",
      .offset = AT(server.stay_ms), .low = 0, .high = 3600000, .key = "stay_ms" },
};

#define IN_PRESSURE(field) offsetof(hth_pressure_settings, field)

static const hth_option pressure_setting_rows[] = {
    { "no-pressure", 0, HTH_OPTION_FLAG, NULL, "let nothing leave memory because the machine's memory is short",
      .offset = IN_PRESSURE(is_off), .key = "off" },
    { "pressure-high-percent", 0, HTH_OPTION_U32, "N", "memory is short when so much of it is used",
      .offset = IN_PRESSURE(marks.high_percent), .low = 1, .high = 100, .key = "high_percent" },
    { "pressure-low-percent", 0, HTH_OPTION_U32, "N", "then rows and idle models leave until so much is used",
      .offset = IN_PRESSURE(marks.low_percent), .low = 1, .high = 100, .key = "low_percent" },
    { "pressure-stall-percent", 0, HTH_OPTION_U32, "N",
      "memory is short between the marks, too, when processes stand still for it for this part of the time; 0: not",
      .offset = IN_PRESSURE(marks.stall_percent), .low = 0, .high = 100, .key = "stall_percent" },
    { "pressure-min-evict-bytes", 0, HTH_OPTION_SIZE, "SIZE", "at least so much leaves at once",
      .offset = IN_PRESSURE(marks.evict_bytes_min), .low = 0, .key = "min_evict_bytes" },
    { "pressure-poll-ms", 0, HTH_OPTION_MS, "MS", "time between two looks at memory", .offset = IN_PRESSURE(poll_ms),
      .low = 50, .high = 3600000, .key = "poll_ms" },
};

const hth_option_table hth_serve_pressure_settings = HTH_OPTION_TABLE_OF(pressure_setting_rows);

static const hth_option pressure_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_serve_pressure_settings, .offset = AT(server.pressure) },
    { "pressure-nvidia-smi", 0, HTH_OPTION_FLAG, NULL, "ask nvidia-smi for the use of GPUs' memory, too",
      .offset = AT(server.pressure_nvidia_smi), .key = "nvidia_smi" },
    { "pressure-command", 0, HTH_OPTION_TEXT, "COMMAND",
      "a command of the shell that prints the use of memory: two numbers of bytes, used and total, or a share of 0 to "
      "1",
      .offset = AT(server.pressure_command), .key = "command" },
    { "pressure-library", 0, HTH_OPTION_TEXT, "FILE:SYMBOL",
      "a function of a shared library that tells the use of memory: int SYMBOL(uint64_t *used, uint64_t *total), 0 "
      "when it could",
      .offset = AT(server.pressure_library), .check = check_library, .key = "library", .is_path = true },
};

static const hth_option worker_stream_rows[] = {
    { "keep-alive-ms", 0, HTH_OPTION_MS, "MS", "a stream shows that it is alive after this time of silence; 0: never",
      .offset = IN_SERVER(relay.keep_alive_ms), .low = 0, .high = 3600000, .key = "keep_alive_ms" },
    { "linger-ms", 0, HTH_OPTION_MS, "MS",
      "after its client left, the prompt of a request is computed further for this time, while no request waits for "
      "its place; 0: not at all",
      .offset = IN_SERVER(worker.linger_ms), .low = 0, .high = 3600000, .key = "linger_ms" },
};

static const hth_option worker_slot_rows[] = {
    { "slot-save-path", 0, HTH_OPTION_TEXT, "DIR",
      "clients may save slots here, and restore them (POST /slots/N?action=save; default: they may not)",
      .offset = IN_SERVER(worker.slot_directory), .key = "slot_save_path", .is_path = true },
    { "slot-save-bytes-max", 0, HTH_OPTION_SIZE, "SIZE",
      "size of all saved slots of clients with the same salt; beyond it, saves are refused; 0: any size",
      .offset = IN_SERVER(worker.slot_limits.bytes_max), .key = "slot_save_bytes_max" },
};

static const hth_option stream_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_worker_stream_options, .offset = AT(server) },
    { "stream-keep-ms", 0, HTH_OPTION_MS, "MS",
      "a stream with x-hearth-resume is kept for this time without its client; 0: not at all",
      .offset = AT(server.kept.keep_ms), .low = 0, .high = 86400000, .key = "keep_ms" },
    { "stream-bytes-max", 0, HTH_OPTION_SIZE, "SIZE", "number of last bytes that are kept of such a stream",
      .offset = AT(server.kept.bytes_max), .low = 64 << 10, .key = "bytes_max" },
    { "streams-bytes-max", 0, HTH_OPTION_SIZE, "SIZE",
      "memory of all kept streams together; beyond it, new ones are not kept",
      .offset = AT(server.kept.total_bytes_max), .low = 64 << 10, .key = "total_bytes_max" },
};

static const hth_option fleet_rows[] = {
    { "fleet", 0, HTH_OPTION_TEXT, "FILE",
      "be a node of the fleet whose file this is; 'hearth fleet init' makes it, and every node has a copy",
      .offset = AT(server.fleet.file), .key = "file", .is_path = true, .is_common = true },
    { "fleet-peer", 0, HTH_OPTION_TEXTS, "ADDRESS",
      "another node's address for nodes, HOST:PORT; may be repeated, and may be this node's own, so that all nodes can "
      "have one list",
      TEXTS(fleet_peers, HTH_SERVE_PEERS_MAX), .check = check_fleet_address, .key = "peers", .is_common = true },
    { "fleet-listen", 0, HTH_OPTION_TEXT, "ADDRESS",
      "listen for other nodes there, HOST:PORT (default: every address, port 9430)", .offset = AT(fleet_listen),
      .check = check_fleet_address, .key = "listen", .is_common = true },
    { "fleet-name", 0, HTH_OPTION_TEXT, "NAME", "the name of this node in the fleet (default: the machine's)",
      .offset = AT(server.fleet.name), .check = check_node_name, .key = "name", .is_common = true },
    { "fleet-host", 0, HTH_OPTION_TEXT, "HOST",
      "with a store: the name or address at which other nodes reach this one (default: the host of fleet.listen, or "
      "the "
      "address from which it reaches the store)",
      .offset = AT(server.fleet.host), .check = check_node_host, .key = "host" },
    { "fleet-store", 0, HTH_OPTION_TEXT, "URL",
      "a Redis or Valkey that all nodes share: redis://HOST[:PORT], rediss:// with TLS, or "
      "redis-sentinel://HOST,HOST/NAME; then nodes find each other there, and limits of keys hold for the whole fleet",
      .offset = AT(server.fleet.store), .check = check_store, .key = "store", .is_common = true },
    { "fleet-id", 0, HTH_OPTION_TEXT, "NAME",
      "the name of the fleet in the store, at most 16 characters (default: digits of its certificate)",
      .offset = AT(server.fleet.id), .check = check_fleet_id, .key = "id" },
    { "fleet-store-password", 0, HTH_OPTION_TEXT, "FILE", "the password of the store is the first line of this file",
      .offset = AT(server.fleet.store_password_file), .key = "store_password_file", .is_path = true },
    { "fleet-store-authorities", 0, HTH_OPTION_TEXT, "FILE",
      "certificates of the authorities that the store's certificate must come from, as a PEM file (default: those of "
      "the system)",
      .offset = AT(server.fleet.store_authorities), .key = "store_authorities", .is_path = true },
    { "fleet-policy", 0, HTH_OPTION_WORD, "WORD",
      "which node takes a request: time (the one that is expected to answer first: it knows what nodes have cached), "
      "hash (conversations stay where they began, while that node is not much busier), least (the least busy one), or "
      "round-robin",
      .offset = AT(server.fleet.policy), .words = hth_route_policy_names, .key = "policy" },
    { "fleet-no-rows", 0, HTH_OPTION_FLAG, NULL, "neither fetch rows of prompts from other nodes nor give them any",
      .offset = AT(server.fleet.no_rows), .key = "no_rows" },
    { "fleet-same-bits", 0, HTH_OPTION_FLAG, NULL,
      "let a reply that has begun go on only at nodes that compute the same bits: with the same file, types of K and "
      "V, "
      "build and processor features; known tokens are then evaluated one by one",
      .offset = AT(server.fleet.same_bits), .key = "same_bits" },
};

static const hth_option log_rows[] = {
    { "log-format", 0, HTH_OPTION_WORD, "FORMAT", "text, json, or auto: text on a terminal and json elsewhere",
      .offset = AT(server.log_format), .words = log_formats, .key = "format" },
    { "log-level", 0, HTH_OPTION_WORD, "LEVEL", "error, warning, info or debug", .offset = AT(server.log_level),
      .words = log_levels, .key = "level" },
    { "log-file", 0, HTH_OPTION_TEXT, "FILE", "file of the log, reopened with a reload (default: standard error)",
      .offset = AT(server.log_file), .key = "file", .is_path = true },
    { "no-access-log", 0, HTH_OPTION_FLAG, NULL, "write no line for each request into the log",
      .offset = AT(server.no_access_log), .key = "no_access_log" },
    { "log-prompts", 0, HTH_OPTION_FLAG, NULL,
      "write bodies of requests into the log: for debugging only, because they are private",
      .offset = AT(server.log_prompts), .key = "prompts" },
};

static const hth_option cors_rows[] = {
    { "cors-origin", 0, HTH_OPTION_TEXTS, "ORIGIN",
      "pages of this origin may call the server from a browser: https://app.example.com, localhost (this machine's "
      "pages), a scheme such as app://, or * for all; may be repeated",
      TEXTS(origins, HTH_SERVE_ORIGINS_MAX), .check = check_origin, .key = "origins" },
};

static const hth_option key_rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "Addresses and keys" },
    { "listen", 0, HTH_OPTION_TEXTS, "ADDRESS",
      "address to listen on: HOST:PORT, [IPV6]:PORT, PORT or unix:PATH; may be repeated (default 127.0.0.1:8080)",
      TEXTS(listen, HTH_SERVE_LISTEN_MAX), .check = hth_address_check, .key = "listen", .is_common = true },
    { "admin", 0, HTH_OPTION_TEXT, "ADDRESS",
      "address of /metrics and /admin, without a key: unix:FILE, for this user and root alone, or HOST:PORT, which all "
      "accounts of the machine reach (default: the addresses of --listen, with an admin's key)",
      .offset = AT(admin), .check = hth_address_check, .key = "admin", .is_common = true },
    { "keys", 0, HTH_OPTION_TEXT, "FILE", "clients must show one of these keys; 'hearth key new' makes them",
      .offset = AT(keys_file), .key = "keys", .is_path = true, .is_common = true },
    { "allow-public-without-keys", 0, HTH_OPTION_FLAG, NULL,
      "listen without keys on addresses that other machines can reach", .offset = AT(server.allow_public_without_keys),
      .key = "allow_public_without_keys" },
    { "props", 0, HTH_OPTION_FLAG, NULL, "answer POST /props, which has no effect, instead of refusing it",
      .offset = AT(server.allows_props), .key = "props" },
    { "no-slots", 0, HTH_OPTION_FLAG, NULL, "do not answer GET /slots", .offset = AT(server.no_slots),
      .key = "no_slots" },
    { "no-ui", 0, HTH_OPTION_FLAG, NULL, "serve no page to browsers at /", .offset = AT(server.no_ui), .key = "no_ui",
      .is_common = true },
    { .kind = HTH_OPTION_TABLE, .table = &hth_worker_slot_options, .offset = AT(server) },
    { "models-dir", 0, HTH_OPTION_TEXT, "DIR",
      "serve the GGUF files in this folder and its sub-folders, too, each with the first request for it; "
      "a reload looks again",
      .offset = AT(server.models_folder), .key = "models_dir", .is_path = true, .is_common = true },
    { "models-dir-names", 0, HTH_OPTION_WORD, "WORD",
      "names of the models in this folder: file, of their files; metadata: general.name in their files, where it is "
      "there and no other one has it",
      .offset = AT(server.models_folder_names), .words = folder_names, .key = "models_dir_names" },
    { "default-model", 0, HTH_OPTION_TEXT, "NAME",
      "the model for unknown names, and for requests without a name (default: the first); none: unknown names are 404",
      .offset = AT(server.default_model), .key = "default" },
    { .kind = HTH_OPTION_TABLE, .key = "tls", .table = HTH_OPTION_ROWS(tls_rows), .help = "TLS" },
    { .kind = HTH_OPTION_TABLE,
      .key = "cors",
      .table = HTH_OPTION_ROWS(cors_rows),
      .help = "Calls from pages in browsers" },
    { .kind = HTH_OPTION_HEADING, .help = "Fleet" },
    { .kind = HTH_OPTION_TABLE, .key = "fleet", .table = HTH_OPTION_ROWS(fleet_rows), .help = "Fleet" },
    { .kind = HTH_OPTION_HEADING, .help = "Limits of requests" },
    { .kind = HTH_OPTION_TABLE, .key = "limits", .table = HTH_OPTION_ROWS(limit_rows), .help = "Limits of requests" },
    { .kind = HTH_OPTION_HEADING, .help = "Responses that are kept" },
    { .kind = HTH_OPTION_TABLE,
      .key = "responses",
      .table = HTH_OPTION_ROWS(response_rows),
      .help = "Responses that are kept" },
    { .kind = HTH_OPTION_HEADING, .help = "Supervision of workers" },
    { .kind = HTH_OPTION_TABLE,
      .key = "supervision",
      .table = HTH_OPTION_ROWS(supervision_rows),
      .help = "Supervision of workers" },
    { .kind = HTH_OPTION_HEADING, .help = "Models and memory" },
    { .kind = HTH_OPTION_TABLE,
      .key = "residency",
      .table = HTH_OPTION_ROWS(residency_rows),
      .help = "Models and memory" },
    { .kind = HTH_OPTION_HEADING, .help = "Pressure of memory" },
    { .kind = HTH_OPTION_TABLE,
      .key = "pressure",
      .table = HTH_OPTION_ROWS(pressure_rows),
      .help = "Pressure of memory" },
    { .kind = HTH_OPTION_HEADING, .help = "Log" },
    { .kind = HTH_OPTION_TABLE, .key = "streams", .table = HTH_OPTION_ROWS(stream_rows), .help = "Streams" },
    { .kind = HTH_OPTION_TABLE, .key = "log", .table = HTH_OPTION_ROWS(log_rows), .help = "Log" },
};

const hth_option_table hth_serve_server_keys = HTH_OPTION_TABLE_OF(key_rows);

/* Aliases of a model, and its tags in lists. */
static const hth_option name_rows[] = {
    { "alias", 0, HTH_OPTION_TEXTS, "NAME",
      "a further name of the model for clients, or a pattern of names with *, such as claude-*; may be repeated (for "
      "one model only)",
      MODEL_TEXTS(aliases, HTH_SERVE_ALIASES_MAX), .check = check_alias, .key = "aliases", .is_common = true },
    { "tag", 0, HTH_OPTION_TEXTS, "TEXT", "a tag of the model in lists of models; may be repeated",
      MODEL_TEXTS(tags, HTH_SERVE_TAGS_MAX), .key = "tags" },
};

#define IN_RULES(field) offsetof(hth_model_rules, field)

static const hth_option rule_rows[] = {
    { "start", 0, HTH_OPTION_WORD, "WHEN", "at-once: with the server; on-demand: with the first request for it",
      .offset = IN_RULES(start), .words = starts, .key = "start" },
    { "pinned", 0, HTH_OPTION_FLAG, NULL, "the model never leaves memory to make room for another one",
      .offset = IN_RULES(is_pinned), .key = "pinned" },
    { "unload-after-ms", 0, HTH_OPTION_MS, "MS", "the model leaves memory after this time without use; 0: never",
      .offset = IN_RULES(unload_after_ms), .low = 0, .high = UINT32_MAX, .key = "unload_after_ms" },
};

const hth_option_table hth_serve_model_rules = HTH_OPTION_TABLE_OF(rule_rows);

/* The options of a model's section that are also flags. The cache is a separate section in both. */
static const hth_option model_shared_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_serve_model_rules, .offset = IN_MODEL(rules) },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_engine_options, .offset = IN_MODEL(setup) },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_reply_options, .offset = IN_MODEL(setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Scheduling" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_scheduling_options, .offset = IN_MODEL(setup) },
};

static const hth_option model_key_rows[] = {
    { "model", 0, HTH_OPTION_TEXT, "FILE", "the model, a GGUF file", .offset = IN_MODEL(setup.path), .key = "path",
      .is_path = true },
    { .kind = HTH_OPTION_TABLE, .table = HTH_OPTION_ROWS(name_rows) },
    { .kind = HTH_OPTION_TABLE, .table = HTH_OPTION_ROWS(model_shared_rows) },
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

static const hth_option model_flag_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = HTH_OPTION_ROWS(name_rows) },
    { .kind = HTH_OPTION_TABLE, .table = HTH_OPTION_ROWS(model_shared_rows) },
    { .kind = HTH_OPTION_HEADING, .help = "Defaults of requests" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_default_options, .offset = IN_MODEL(setup.defaults) },
    { .kind = HTH_OPTION_HEADING, .help = "Cache" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_cache_options, .offset = IN_MODEL(setup) },
};

static const hth_option file_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_serve_server_keys },
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
    { "model", 'm', HTH_OPTION_TEXTS, "[NAME=]FILE",
      "serve this model, a GGUF file (default name: the file's without .gguf) or OWNER/REPO[:QUANT] of a hub, which is "
      "downloaded at the first start; may be repeated",
      TEXTS(models, HTH_SERVE_MODELS_MAX), .is_common = true },
    { "offline", 0, HTH_OPTION_FLAG, NULL, "download no models", .offset = AT(is_offline) },
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
    { "host", 0, HTH_OPTION_TEXTS, "HOST",
      "listen there, instead of --listen; several with commas, or repeated; localhost is both 127.0.0.1 and [::1]",
      TEXTS(hosts, HTH_SERVE_LISTEN_MAX), .is_common = true },
    { "port", 0, HTH_OPTION_OWN, "N", "listen on this port, instead of --listen; 0: any free port",
      .read = read_port_alone, .is_common = true },
    { .kind = HTH_OPTION_TABLE, .table = &hth_serve_server_keys },
    { .kind = HTH_OPTION_HEADING, .help = "Keys of the command line" },
    { "api-key", 0, HTH_OPTION_OWN, "KEY",
      "clients must show this key; several with commas, or repeated. Other users of this machine can see it: better "
      "use a file",
      .read = add_api_key, .repeats = true },
    { "api-key-file", 0, HTH_OPTION_TEXT, "FILE", "clients must show one of the keys in this file, one on each line",
      .offset = AT(api_key_file), .is_common = true },
    { .kind = HTH_OPTION_HEADING, .help = "Models; these options win over their sections" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_serve_model_flags, .offset = AT(defaults) },
    { .kind = HTH_OPTION_HEADING, .help = "Help" },
    { "help", 'h', HTH_OPTION_END, .help = "the most used options", .is_common = true },
    { "help-all", 0, HTH_OPTION_END, .help = "all options", .is_common = true },
};

static const hth_option worker_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_serving_options },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_engine_options },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_scheduling_options },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_cache_options },
    { .kind = HTH_OPTION_TABLE, .table = &hth_default_options, .offset = offsetof(hth_model_setup, defaults) },
};

const hth_option_table hth_serve_flags = HTH_OPTION_TABLE_OF(flag_rows);
const hth_option_table hth_serve_keys = HTH_OPTION_TABLE_OF(file_rows);
const hth_option_table hth_serve_model_keys = HTH_OPTION_TABLE_OF(model_key_rows);
const hth_option_table hth_serve_model_flags = HTH_OPTION_TABLE_OF(model_flag_rows);
const hth_option_table hth_worker_model_options = HTH_OPTION_TABLE_OF(worker_rows);
const hth_option_table hth_worker_request_options = HTH_OPTION_TABLE_OF(worker_limit_rows);
const hth_option_table hth_worker_stream_options = HTH_OPTION_TABLE_OF(worker_stream_rows);
const hth_option_table hth_worker_slot_options = HTH_OPTION_TABLE_OF(worker_slot_rows);

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
