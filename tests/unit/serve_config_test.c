/*
 * serve_config_test.c - what a configuration comes to, and that every key says in which line it is wrong
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options/key_file.h"
#include "options/serve_config.h"
#include "support/cmocka_all.h"
#include "support/serve_set.h"
#include "support/support.h"

enum { TEXT_BYTES = 64 << 10, ARGS_MAX = 64 };

static hth_problems problems; /* large; each test begins with none */

static int set_up(void **state)
{
    memset(&problems, 0, sizeof(problems));
    *state = hth_test_directory_new();
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(char, directory, name, set_up, hth_test_directory_tear_down)

/* ---- making sets ---- */

static hth_serve_set *set_of(const char *text)
{
    memset(&problems, 0, sizeof(problems));
    return hth_serve_set_of_text("/etc/hearth/t.conf", text, strlen(text), &problems);
}

static hth_serve_set *good_set_of(const char *text)
{
    hth_serve_set *set = set_of(text);

    if (problems.n_errors > 0)
        fail_msg("%s", hth_problems_first(&problems));
    assert_non_null(set);
    return set;
}

/* A message, the n-th, that holds this text. */
static void assert_problem(size_t n, const char *message)
{
    assert_true(n < problems.n);
    if (!strstr(problems.list[n].message, message))
        fail_msg("problem %zu is '%s', expected '%s'", n, problems.list[n].message, message);
}

static void assert_refused(const char *text, const char *message)
{
    hth_serve_set *set = set_of(text);

    if (problems.n_errors == 0)
        fail_msg("'%s' is accepted", text);
    assert_problem(0, message);
    hth_serve_set_free(&set->options);
}

/* The arguments of a worker in one line. */
static const char *worker_line(const hth_server_model *model, char *out, size_t capacity)
{
    out[0] = '\0';
    for (size_t i = 0; model->worker[i]; i++) {
        size_t n = strlen(out);

        (void)snprintf(out + n, capacity - n, "%s%s", i > 0 ? " " : "", model->worker[i]);
    }
    return out;
}

/* ---- what a file comes to ---- */

static const char everything[] =
    "# all of it\n"
    "listen = [\"127.0.0.1:8081\", \"[::1]:8081\", \"unix:/run/hearth.sock\"]\n"
    "admin = \"127.0.0.1:9090\"\n"
    "keys = keys.conf\n"
    "tls { certificate = \"cert.pem\"; key = /keys/key.pem }\n"
    "cors { origins = [\"https://a.example\", \"https://b.example\"] }\n"
    "limits { headers_bytes_max = 16kb; body_bytes_max = 8mb; json_depth_max = 32; messages_max = 100;\n"
    "         schema_bytes_max = 65536; connections_max = 100; requests_max = 50; bodies_bytes_max = 64mb; "
    "idle_timeout_ms = 1min\n"
    "         request_timeout_ms = 10s; write_timeout_ms = 500 }\n"
    "supervision { runtime_directory = /run/hearth; hang_ms = 0; start_timeout_ms = 1h; wait_timeout_ms = 2s;\n"
    "              drain_timeout_ms = 5s; retries_max = 0; no_sandbox = true }\n"
    "log { format = json; level = debug; file = hearth.log; no_access_log = yes; prompts = off }\n"
    "cache { directory = kv; disk_bytes_max = 64gb; ram = 1gb; more_directories = [/a, b]; policy { min_tokens = 64; "
    "cold_min_tokens = 64 } "
    "\n"
    "        fingerprint = gguf_chunked; save_on_second_use = on; writer_threads = 4 }\n"
    "default = code:7b\n"
    "model \"chat\" { path = \"models/chat.gguf\"; aliases = [gpt-4o, \"claude-*\"]; tags = [fast]; context = 4096; "
    "start = on-demand; ram = 2gb; type_k = q8_0;\n"
    "               n_parallel = 4; prefill_chunk = 128; strategy = balanced; gpu_layers = 0; chat_template = t.jinja "
    "}\n"
    "defaults { temperature = 0.6; top_k = 20; n_predict = -1; stop = [END, '###']; system = \"Be brief.\\nPlease.\"; "
    "seed = 7 }\n"
    "model code:7b { path = /models/code.gguf; gpu_layers = auto; draft_gpu_layers = all; defaults { temperature = "
    "0; reasoning = off; repeat_penalty = 1.05; "
    "stop = [] \n"
    "                chat_template_kwargs = '{\"a\": 1}' }; cache { disabled = true; more_directories = [] } }\n";

FIXTURE_TEST(every_key_goes_where_it_belongs)
{
    hth_serve_set *set = good_set_of(everything);
    const hth_server_options *o = &set->options;

    assert_int_equal(o->n_listen, 3);
    assert_string_equal(o->listen[0].host, "127.0.0.1");
    assert_int_equal(o->listen[0].port, 8081);
    assert_string_equal(o->listen[1].host, "::1");
    assert_null(o->listen[2].host);
    assert_string_equal(o->listen[2].path, "/run/hearth.sock");
    assert_string_equal(o->admin.host, "127.0.0.1");
    assert_int_equal(o->admin.port, 9090);
    assert_string_equal(set->effective.keys_file, "/etc/hearth/keys.conf");
    assert_string_equal(o->tls_certificate, "/etc/hearth/cert.pem");
    assert_string_equal(o->tls_key, "/keys/key.pem");
    assert_int_equal(o->n_cors_origins, 2);
    assert_string_equal(o->cors_origins[1], "https://b.example");
    assert_int_equal(o->http.headers_bytes_max, 16 << 10);
    assert_int_equal(o->worker.requests.body_bytes_max, 8 << 20);
    assert_int_equal(o->worker.requests.depth_max, 32);
    assert_int_equal(o->worker.requests.messages_max, 100);
    assert_int_equal(o->worker.requests.schema_bytes_max, 65536);
    assert_int_equal(o->http.bodies_bytes_max, 64 << 20);
    assert_int_equal(o->http.connections_max, 100);
    assert_int_equal(o->requests_max, 50);
    assert_int_equal(o->http.idle_timeout_ms, 60000);
    assert_int_equal(o->http.request_timeout_ms, 10000);
    assert_int_equal(o->http.write_timeout_ms, 500);
    assert_string_equal(o->runtime_directory, "/run/hearth");
    assert_int_equal(o->hang_ms, 0);
    assert_int_equal(o->start_timeout_ms, 3600000);
    assert_int_equal(o->relay.wait_timeout_ms, 2000);
    assert_int_equal(o->drain_timeout_ms, 5000);
    assert_int_equal(o->relay.retries_max, 0);
    assert_true(o->no_sandbox);
    assert_int_equal(o->log_format, HTH_LOG_JSON);
    assert_int_equal(o->log_level, HEARTH_LOG_DEBUG);
    assert_string_equal(o->log_file, "/etc/hearth/hearth.log");
    assert_true(o->no_access_log);
    assert_false(o->log_prompts);
    hth_serve_set_free(o);
}

FIXTURE_TEST(a_worker_is_told_what_is_not_the_default)
{
    hth_serve_set *set = good_set_of(everything);
    char line[4096];

    assert_int_equal(set->options.n_models, 2);
    assert_string_equal(set->options.models[0].name, "chat");
    assert_int_equal(set->options.models[0].rules.start, HTH_START_ON_DEMAND);
    assert_int_equal(set->options.models[0].n_aliases, 2);
    assert_string_equal(set->options.models[0].aliases[1], "claude-*");
    assert_int_equal(set->options.models[0].n_tags, 1);
    assert_string_equal(set->options.models[0].tags[0], "fast");
    assert_int_equal(set->options.models[1].n_aliases, 0);
    assert_string_equal(set->options.default_model, "code:7b");
    assert_int_equal(set->options.models[0].ram_bytes, UINT64_C(2) << 30);
    assert_string_equal(
        worker_line(&set->options.models[0], line, sizeof(line)),
        "--model /etc/hearth/models/chat.gguf --name chat --chat-template /etc/hearth/t.jinja "
        "--ctx 4096 --gpu-layers 0 --type-k q8_0 --n-parallel 4 --strategy balanced --prefill-chunk 128 "
        "--cache /etc/hearth/kv --ram 2gb --disk 64gb --more-cache /a --more-cache /etc/hearth/b "
        "--writers 4 --second-use --policy min_tokens=64 --policy cold_min_tokens=64 --fingerprint gguf_chunked "
        "--temp 0.6 --top-k 20 --predict -1 --stop END --stop ### --seed 7 --system Be brief.\nPlease. "
        "--headers-bytes-max 16kb --body-bytes-max 8mb --json-depth-max 32 --messages-max 100 "
        "--schema-bytes-max 65536");
    assert_string_equal(set->options.models[1].name, "code:7b");
    assert_int_equal(set->options.models[1].rules.start, HTH_START_AT_ONCE);
    assert_int_equal(set->options.models[1].ram_bytes, 0); /* no cache, no memory for it */
    assert_non_null(
        strstr(worker_line(&set->options.models[1], line, sizeof(line)),
               "--model /models/code.gguf --name code:7b --gpu-layers auto --cache /etc/hearth/kv --no-cache "));
    assert_non_null(strstr(line, "--temp 0 --top-k 20 --repeat-penalty 1.05 --predict -1 --seed 7 --system Be brief.\n"
                                 "Please. --reasoning off --chat-template-kwargs {\"a\": 1} "));
    assert_null(strstr(line, "--more-cache"));
    hth_serve_set_free(&set->options);
}

FIXTURE_TEST(a_worker_that_knows_the_flags_reads_them_back)
{
    hth_serve_set *set = good_set_of(everything);
    const char *const *worker = set->options.models[0].worker;
    static const hth_option rows[] = {
        { .kind = HTH_OPTION_TABLE, .table = &hth_worker_model_options, .offset = 0 },
        { .kind = HTH_OPTION_TABLE, .table = &hth_worker_request_options, .offset = sizeof(hth_model_setup) },
    };
    const hth_option_table table = { rows, 2 };
    struct {
        hth_model_setup setup;
        hth_server_options server;
    } read;
    char *argv[ARGS_MAX + 1] = { (char *)"worker" };
    int argc = 1;

    for (size_t i = 0; worker[i] && argc < ARGS_MAX; i++)
        argv[argc++] = (char *)worker[i];
    memset(&read, 0, sizeof(read));
    hth_model_setup_init(&read.setup);
    read.server = hth_server_options_default();
    assert_int_equal(hth_option_table_parse(&table, "hearth worker", argc, argv, &read), argc);
    assert_string_equal(read.setup.path, set->models[0].setup.path);
    assert_int_equal(read.setup.model.n_ctx, 4096);
    assert_int_equal(read.setup.runtime.disk_bytes_max, UINT64_C(64) << 30);
    assert_int_equal(read.setup.runtime.n_more_directories, 2);
    assert_int_equal(read.setup.policy.min_tokens, 64);
    assert_int_equal(read.server.worker.requests.body_bytes_max, 8 << 20);
    hth_serve_set_free(&set->options);
}

FIXTURE_TEST(the_same_as_json_comes_to_the_same)
{
    hth_serve_set *set =
        good_set_of("{\"listen\": [\"127.0.0.1:1\"], \"limits\": {\"body_bytes_max\": \"2mb\", "
                    "\"json_depth_max\": 9, \"idle_timeout_ms\": \"30s\"},\n\"cache\": {\"disabled\": "
                    "true}, \"model\": {\"a\": {\"path\": \"stub:\"}, \"b\": {\"path\": \"x.gguf\"}}}");

    assert_int_equal(set->options.worker.requests.body_bytes_max, 2 << 20);
    assert_int_equal(set->options.http.idle_timeout_ms, 30000);
    assert_int_equal(set->options.n_models, 2);
    assert_string_equal(set->models[1].setup.path, "/etc/hearth/x.gguf");
    assert_true(set->models[1].setup.runtime.cache_disabled);
    hth_serve_set_free(&set->options);
}

static char *print_of(const hth_serve_set *set)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    assert_non_null(out);
    assert_true(hth_serve_config_print(set, out));
    assert_int_equal(fclose(out), 0);
    return text;
}

FIXTURE_TEST(what_is_printed_and_read_is_the_same)
{
    static const char *const texts[] = {
        everything, "model x { path = 'stub:' }",
        "model 'a' { path = \"/a b/\\\"c\\\\.gguf\"; cache { salt = \"\\u0007x\" } }"
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        hth_serve_set *set = good_set_of(texts[i]);
        char *first = print_of(set);
        hth_serve_set *again = good_set_of(first);
        char *second = print_of(again);
        char a[4096], b[4096];

        assert_string_equal(first, second);
        assert_int_equal(set->options.n_models, again->options.n_models);
        for (size_t j = 0; j < set->options.n_models; j++) {
            assert_string_equal(worker_line(&set->options.models[j], a, sizeof(a)),
                                worker_line(&again->options.models[j], b, sizeof(b)));
            assert_int_equal(set->options.models[j].ram_bytes, again->options.models[j].ram_bytes);
            assert_int_equal(set->options.models[j].rules.start, again->options.models[j].rules.start);
        }
        free(first);
        free(second);
        hth_serve_set_free(&set->options);
        hth_serve_set_free(&again->options);
    }
}

/* ---- every key, wrong ---- */

/* A configuration whose line 3 has this member, within a section; path is what messages call the section. */
static void put_member(char *text, const char *path, bool is_model, const char *key, const char *value)
{
    char opening[256] = "", closing[256] = "";
    const char *at = path;

    if (is_model)
        (void)snprintf(opening, sizeof(opening), "model m { %s", strcmp(key, "path") == 0 ? "" : "path = 'stub:'; ");
    while (*at) {
        const int n = (int)strcspn(at, ".");
        const size_t n_opening = strlen(opening);

        (void)snprintf(opening + n_opening, sizeof(opening) - n_opening, "%.*s { ", n, at);
        (void)strcat(closing, "}");
        at += n + 1;
    }
    (void)snprintf(text, TEXT_BYTES, "# first\n%s\n%s = %s\n%s%s\n%s", opening, key, value, closing,
                   is_model ? "}" : "", is_model ? "" : "model m { path = 'stub:' }\n");
}

static void assert_line_3(const char *path, const char *key, const char *value, const char *expected)
{
    char begin[256];

    (void)snprintf(begin, sizeof(begin), "/etc/hearth/t.conf:3: %s%s", path, key);
    if (problems.n_errors == 0)
        fail_msg("%s%s = %s is accepted", path, key, value);
    if (strncmp(problems.list[0].message, begin, strlen(begin)) != 0 || !strstr(problems.list[0].message, expected))
        fail_msg("%s%s = %s: '%s', expected '%s ... %s'", path, key, value, problems.list[0].message, begin, expected);
}

static void refuse(const char *path, bool is_model, const char *key, const char *value, const char *expected)
{
    char *text = malloc(TEXT_BYTES);
    hth_serve_set *set;

    assert_non_null(text);
    put_member(text, path, is_model, key, value);
    set = set_of(text);
    assert_line_3(path, key, value, expected);
    hth_serve_set_free(&set->options);
    free(text);
}

static void refuse_number(const char *path, bool is_model, const char *key, double number)
{
    char value[64];

    (void)snprintf(value, sizeof(value), "%.0f", number);
    refuse(path, is_model, key, value, "it must be");
}

/* Values that a function or a list of words reads. */
static void refuse_single(const char *path, bool is_model, const char *key)
{
    refuse(path, is_model, key, "no:thing:at:1-all", "it must be");
    refuse(path, is_model, key, "[a]", "is a list; it must be a"); /* single value, or path */
}

static void refuse_all_that_is_wrong(const char *path, bool is_model, const hth_option *row, size_t *n_rows)
{
    const char *key = row->key, *number = row->check ? "it must be" : "it must be a whole number";

    (*n_rows)++;
    switch (row->kind) {
    case HTH_OPTION_FLAG:
        refuse(path, is_model, key, "1", "it must be true or false");
        refuse(path, is_model, key, "\"true\"", "it must be true or false");
        refuse(path, is_model, key, "{ }", "is a section; it must be true or false");
        break;
    case HTH_OPTION_TEXT:
        if (strcmp(key, "reasoning_budget_message") == 0) { /* nearly any text is one */
            refuse(path, is_model, key, "[a]", "is a list; it must be a single value");
            break;
        }
        if (row->check) {
            refuse_single(path, is_model, key);
            break;
        }
        refuse(path, is_model, key, "5", "it must be a text");
        refuse(path, is_model, key, "true", "it must be a text");
        refuse(path, is_model, key, "null", "it must be a text");
        refuse(path, is_model, key, "\"\"", "is empty");
        refuse(path, is_model, key, "[x]",
               row->is_path ? "is a list; it must be a path" : "is a list; it must be a text");
        break;
    case HTH_OPTION_I32:
    case HTH_OPTION_U32:
    case HTH_OPTION_COUNT:
    case HTH_OPTION_MS:
        refuse_number(path, is_model, key, row->low - 1);
        refuse_number(path, is_model, key, row->high + 1);
        refuse(path, is_model, key, "1.5", number);
        refuse(path, is_model, key, "many", number);
        refuse(path, is_model, key, "null", number);
        refuse(path, is_model, key, "true", number);
        refuse(path, is_model, key, "[1]", number);
        refuse(path, is_model, key, "{ }", number);
        if (row->kind != HTH_OPTION_MS)
            refuse(path, is_model, key, "\"8\"", number);
        break;
    case HTH_OPTION_NUMBER:
        refuse_number(path, is_model, key, row->low - 1);
        refuse_number(path, is_model, key, row->high + 1);
        refuse(path, is_model, key, "nan", "it must be a number");
        refuse(path, is_model, key, "null", "it must be a number");
        refuse(path, is_model, key, "[1]", "is '[...]'; it must be a number");
        refuse(path, is_model, key, "\"1\"", "it must be a number");
        break;
    case HTH_OPTION_SIZE:
        refuse_number(path, is_model, key, row->low - 1);
        refuse(path, is_model, key, "-1", "it must be a number of bytes");
        refuse(path, is_model, key, "1pb", "it must be a number of bytes");
        refuse(path, is_model, key, "1gbit", "it must be a number of bytes");
        refuse(path, is_model, key, "99999999999tb", "it must be a number of bytes");
        refuse(path, is_model, key, "[1gb]", "it must be a number of bytes");
        break;
    case HTH_OPTION_OWN:
        if (row->is_pairs) {
            refuse(path, is_model, key, "5", "it must be a section");
            refuse(path, is_model, key, "{ colour = 5 }", "it must be");
            refuse(path, is_model, key, "{ min_tokens = many }", "it must be a whole number");
            refuse(path, is_model, key, "{ min_tokens = [1] }", "it must be a number");
        } else {
            refuse_single(path, is_model, key);
        }
        break;
    case HTH_OPTION_WORD: refuse_single(path, is_model, key); break;
    case HTH_OPTION_TEXTS:
        refuse(path, is_model, key, "[{ }]", "is a section; it must be");
        refuse(path, is_model, key, "[x, \"\"]",
               strcmp(key, "listen") == 0          ? ""
               : strcmp(key, "peers") == 0         ? ""
               : strcmp(key, "origins") == 0       ? ""
               : strncmp(key, "override_", 9) == 0 ? ""
                                                   : "is empty");
        break;
    case HTH_OPTION_TABLE: refuse(path, is_model, key, "5", "it must be a section"); break;
    default: fail_msg("%s%s is of a kind that has no test", path, key);
    }
}

static void refuse_table(const char *path, bool is_model, const hth_option_table *table, size_t *n_rows)
{
    hth_flat_table flat;

    hth_option_table_flatten(table, false, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;
        char inside[256];

        if (!row->key)
            continue;
        refuse_all_that_is_wrong(path, is_model, row, n_rows);
        if (row->kind != HTH_OPTION_TABLE)
            continue;
        (void)snprintf(inside, sizeof(inside), "%s%s.", path, row->key);
        refuse_table(inside, is_model, row->table, n_rows);
    }
}

FIXTURE_TEST(every_key_says_where_it_is_wrong_and_what_it_must_be)
{
    size_t n_rows = 0;

    refuse_table("", false, &hth_serve_keys, &n_rows);
    refuse_table("", true, &hth_serve_model_keys, &n_rows);
    assert_true(n_rows > 70);
}

FIXTURE_TEST(every_key_is_one_flag_and_can_be_printed)
{
    hth_flat_table keys, flags;

    hth_option_table_flatten(&hth_serve_keys, true, &keys);
    hth_option_table_flatten(&hth_serve_flags, true, &flags);
    for (size_t i = 0; i < keys.n; i++) {
        const hth_option *row = keys.rows[i].option;
        size_t n = 0;

        if (row->kind == HTH_OPTION_HEADING)
            continue;
        for (size_t j = 0; j < flags.n; j++)
            n += flags.rows[j].option->name && strcmp(flags.rows[j].option->name, row->name) == 0;
        if (n != 1)
            fail_msg("there are %zu flags --%s", n, row->name);
        if (row->kind == HTH_OPTION_OWN && !row->write)
            fail_msg("--%s cannot be printed", row->name);
    }
}

/* ---- keys that are none ---- */

FIXTURE_TEST(an_unknown_key_is_told_what_it_may_have_meant)
{
    assert_refused("model m {\n  path = 'stub:'\n  contxt = 5\n}",
                   "/etc/hearth/t.conf:3: 'contxt' is no key of a model; did you mean 'context'?");
    assert_refused("limits {\n bodybytes_max = 5\n}\nmodel m { path = 'stub:' }",
                   "t.conf:2: 'bodybytes_max' is no key of 'limits'; did you mean 'body_bytes_max'?");
    assert_refused("lissten = 80; model m { path = 'stub:' }",
                   "t.conf:1: 'lissten' is no key here; did you mean 'listen'?");
    assert_refused("modle m { path = 'stub:' }", "t.conf:1: 'modle' is no key here; did you mean 'model'?");
    assert_refused("\ndrain_timeout_ms = 5s\nmodel m { path = 'stub:' }",
                   "t.conf:2: 'drain_timeout_ms' is no key here; it belongs in the section 'supervision'");
    assert_refused("zebra = 5; model m { path = 'stub:' }", "t.conf:1: 'zebra' is no key here; docs/operating.md");
    assert_refused("\"\" = 5; model m { path = 'stub:' }", "t.conf:1: '' is no key here");
}

FIXTURE_TEST(a_key_that_comes_twice_is_refused)
{
    assert_refused("model m {\n path = 'stub:'\n context = 512\n\n context = 1024\n}",
                   "t.conf:5: 'context' was given before, in line 3");
    assert_refused("limits { }\nmodel m { path = 'stub:' }\nlimits { }",
                   "t.conf:3: 'limits' was given before, in line 1");
    /* But lists grow. */
    hth_serve_set_free(&good_set_of("listen = 1\nlisten = 2; model m { path = 'stub:' }")->options);
}

FIXTURE_TEST(all_that_is_wrong_is_said_at_once)
{
    hth_serve_set *set =
        set_of("listen = nowhere:x\nlimits { json_depth_max = 0 }\nmodel m {\n}\nmodel 'x y' { path = a }");

    assert_int_equal(problems.n_errors, 4);
    assert_problem(0, ":1: listen is 'nowhere:x'; it must be an address");
    assert_problem(1, ":2: limits.json_depth_max is '0'");
    assert_problem(2, ":3: model 'm' has no 'path'");
    assert_problem(3, ":5: a model is called 'x y'; names have");
    hth_serve_set_free(&set->options);
}

FIXTURE_TEST(models_are_sections_with_names)
{
    assert_refused("", "there is no model to serve; give one with -m FILE");
    assert_refused("model { path = 'stub:' }", "t.conf:1: a model has a name and a section");
    assert_refused("model = 5", "t.conf:1: 'model' is no section with a name");
    assert_refused("model { }", "t.conf:1: 'model' is no section with a name");
    assert_refused("model a { path = 'stub:' }\nmodel a { path = 'stub:' }",
                   "t.conf:2: there is a model 'a' already; give one of them another name");
    assert_refused("model a { path = 'stub:'; strategy = fast }", "strategy of model 'a' is 'fast'; it must be");
    assert_refused("model a { path = 'stub:'; cache { policy { min_tokens = 64; cold_min_tokens = 32 } } }",
                   "t.conf:1: the cache policy of model 'a' cannot be used");
    assert_refused("model a { path = 'stub:'; name = b }", "'name' is no key of a model");
}

FIXTURE_TEST(a_name_means_one_model)
{
    assert_refused("model a { path = 'stub:'; aliases = [x, y] }\nmodel b { path = 'stub:'; aliases = y }",
                   "t.conf:2: the alias 'y' of model 'b' is the alias of model 'a', too; rename one of them");
    assert_refused("model a { path = 'stub:' }\nmodel b { path = 'stub:'; aliases = a }",
                   "t.conf:2: the alias 'a' of model 'b' is the name of model 'a', too");
    assert_refused("model a { path = 'stub:'; aliases = b }\nmodel b { path = 'stub:' }",
                   "t.conf:2: the name 'b' of model 'b' is the alias of model 'a', too");
    assert_refused("model a { path = 'stub:'; aliases = poet; lora = '/poet.gguf' }",
                   "t.conf:1: model 'a' has the adapter 'poet' and the alias 'poet'; give the adapter another name");
    assert_refused("model a { path = 'stub:'; lora = '/a.gguf' }",
                   "t.conf:1: model 'a' has the adapter 'a' and the name 'a'");
    assert_refused("model a { path = 'stub:'; lora = ['/one/x.gguf', '/two/x.gguf'] }",
                   "t.conf:1: model 'a' has the adapter 'x' and the adapter 'x'");
    assert_refused("model a { path = 'stub:'; lora = '/x.gguf' }\nmodel b { path = 'stub:'; lora = 'x=/y.gguf' }",
                   "t.conf:2: the adapter 'x' of model 'b' is the adapter of model 'a', too");
    assert_refused("model a { path = 'stub:'; lora = 'b=/x.gguf' }\nmodel b { path = 'stub:' }",
                   "t.conf:2: the name 'b' of model 'b' is the adapter of model 'a', too");
    assert_refused("model a { path = 'stub:'; aliases = \"two\\nlines\" }", "t.conf:1: aliases is 'two");
    assert_refused("model a { path = 'stub:'; aliases = 'a\xe2\x80\xae"
                   "b' }",
                   "it must be a name of 1 to 255 bytes");
    assert_refused("model a { path = 'stub:'; aliases = '' }", "t.conf:1: aliases is empty");
    hth_serve_set_free(&good_set_of("model a { path = 'stub:'; aliases = ['two words', 'Gr\xc3\xb6\xc3\x9f"
                                    "e (Q4)'] }")
                            ->options);
    assert_refused("default = b; model a { path = 'stub:' }",
                   "default (--default-model) is 'b', which is no model here");
    hth_serve_set_free(&good_set_of("default = none; model m { path = 'stub:'; aliases = '*' }")->options);
}

FIXTURE_TEST(the_folder_of_adapters_goes_to_the_front_and_to_the_worker)
{
    hth_serve_set *set =
        good_set_of("model a { path = 'stub:'; lora_dir = '/srv/lora' }\nmodel b { path = 'stub:' }\n");
    char line[4096];

    assert_string_equal(set->options.models[0].adapters_directory, "/srv/lora");
    assert_null(set->options.models[1].adapters_directory);
    assert_non_null(strstr(worker_line(&set->options.models[0], line, sizeof(line)), "--lora-dir /srv/lora"));
    assert_null(strstr(worker_line(&set->options.models[1], line, sizeof(line)), "--lora-dir"));
    hth_serve_set_free(&set->options);
}

FIXTURE_TEST(a_template_is_a_name_a_text_or_a_file)
{
    hth_serve_set *set = good_set_of("model a { path = 'stub:'; chat_template = chatml }\n"
                                     "model b { path = 'stub:'; chat_template = t.jinja }\n"
                                     "model c { path = 'stub:'; chat_template_file = chatml }\n"
                                     "model d { path = 'stub:'; chat_template = '{{ messages }}' }");
    static const char *const expected[] = { "--chat-template chatml", "--chat-template /etc/hearth/t.jinja",
                                            "--chat-template-file /etc/hearth/chatml",
                                            "--chat-template {{ messages }}" };
    char line[4096];

    for (int i = 0; i < 4; i++)
        assert_non_null(strstr(worker_line(&set->options.models[i], line, sizeof(line)), expected[i]));
    hth_serve_set_free(&set->options);
    assert_refused("model a { path = 'stub:'; chat_template = chatml; chat_template_file = t.jinja }",
                   "t.conf:1: model 'a' has both chat_template and chat_template_file");
}

/* ---- what does not fit together ---- */

FIXTURE_TEST(a_public_address_needs_keys_or_an_order)
{
    assert_refused("listen = 0.0.0.0:8080; model m { path = 'stub:' }",
                   "'0.0.0.0:8080' can be reached from other machines, but no keys are required");
    assert_refused("listen = '[::]:8080'; model m { path = 'stub:' }", "can be reached from other machines");
    assert_refused("listen = example.org:8080; model m { path = 'stub:' }", "can be reached from other machines");
    assert_refused("listen = 127.example.org:8080; model m { path = 'stub:' }", "can be reached from other machines");
    assert_refused("keys = k; admin = 10.0.0.1:9090; model m { path = 'stub:' }", "asks for no key");
    hth_serve_set_free(&good_set_of("listen = 0.0.0.0:1; keys = k; model m { path = 'stub:' }")->options);
    hth_serve_set_free(
        &good_set_of("listen = 0.0.0.0:1; allow_public_without_keys = true; model m { path = 'stub:' }")->options);
    hth_serve_set_free(
        &good_set_of("listen = [localhost:1, '[::1]:1', 'unix:/x', 127.1.2.3]; model m { path = 'stub:' }")->options);
}

FIXTURE_TEST(what_does_not_fit_together_is_refused)
{
    assert_refused("tls { key = k }; model m { path = 'stub:' }", "TLS needs both a certificate and its key");
    assert_refused("listen = [8080, 127.0.0.1]; model m { path = 'stub:' }", "is given twice");
    assert_refused("listen = 8080; admin = 8080; model m { path = 'stub:' }", "is one of those that clients use");
}

FIXTURE_TEST(the_same_flags_and_file_give_the_same_workers_again)
{
    char line[1024], again[1024], a[4096], b[4096];
    hth_serve_set *first, *second;

    hth_test_file_write(directory, "t.conf", everything, 0644);
    hth_test_file_write(directory, "keys.conf",
                        "key a { sha256 = 0000000000000000000000000000000000000000000000000000000000000000 }", 0600);
    (void)snprintf(line, sizeof(line), "--config %s/t.conf -m x=stub: --threads 2", directory);
    memcpy(again, line, sizeof(line));
    first = hth_test_set_of_flags(line, &problems);
    second = hth_test_set_of_flags(again, &problems);
    assert_int_equal(problems.n_errors, 0);
    assert_int_equal(first->options.n_keys, 1);
    assert_int_equal(first->options.n_models, second->options.n_models);
    for (size_t i = 0; i < first->options.n_models; i++)
        assert_string_equal(worker_line(&first->options.models[i], a, sizeof(a)),
                            worker_line(&second->options.models[i], b, sizeof(b)));
    hth_serve_set_free(&first->options);
    hth_serve_set_free(&second->options);
}

/* ---- keys ---- */

#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static hth_serve_set *set_with_keys(const char *directory, const char *text, mode_t mode)
{
    char line[1024];

    hth_test_file_write(directory, "keys.conf", text, mode);
    (void)snprintf(line, sizeof(line), "-m chat=stub: --keys %s/keys.conf", directory);
    return hth_test_set_of_flags(line, &problems);
}

FIXTURE_TEST(keys_are_read_with_their_limits)
{
    hth_serve_set *set =
        set_with_keys(directory,
                      "key alice { sha256 = " SHA_A "; models = [chat, other]; requests_per_minute = 60\n"
                      " tokens_per_minute = 1000; concurrency = 2; salt = pepper; admin = true }\n"
                      "key \"bob@example\" { sha256 = \"" SHA_B "\" }",
                      0600);
    const hth_server_key *keys = set->options.keys;

    assert_int_equal(problems.n_errors, 0);
    assert_int_equal(problems.n, 1);
    assert_problem(0, "keys.conf:1: key 'alice' may use the model 'other', which is not served here");
    assert_int_equal(set->options.n_keys, 2);
    assert_string_equal(keys[0].name, "alice");
    assert_int_equal(keys[0].sha256[31], 0xaa);
    assert_int_equal(keys[0].n_models, 2);
    assert_string_equal(keys[0].models[1], "other");
    assert_int_equal(keys[0].requests_per_minute, 60);
    assert_int_equal(keys[0].tokens_per_minute, 1000);
    assert_int_equal(keys[0].concurrency, 2);
    assert_string_equal(keys[0].salt, "pepper");
    assert_true(keys[0].is_admin);
    assert_string_equal(keys[1].name, "bob@example");
    assert_int_equal(keys[1].n_models, 0);
    assert_false(keys[1].is_admin);
    hth_serve_set_free(&set->options);
}

static void refuse_keys(const char *directory, const char *text, mode_t mode, const char *message)
{
    hth_serve_set *set = set_with_keys(directory, text, mode);

    assert_true(problems.n_errors > 0);
    assert_problem(0, message);
    hth_serve_set_free(&set->options);
}

FIXTURE_TEST(wrong_keys_are_refused_with_their_line)
{
    refuse_keys(directory, "\nkey a { }", 0600, "keys.conf:2: key 'a': it lacks its 'sha256'");
    refuse_keys(directory, "key a { sha256 = 12 }", 0600, "keys.conf:1: sha256 is '12'; it must be 64 hex digits");
    refuse_keys(directory, "key a { sha256 = " SHA_A " }\nkey a { sha256 = " SHA_B " }", 0600,
                "keys.conf:2: key 'a': there is one of that name already");
    refuse_keys(directory, "key a { sha256 = " SHA_A " }\nkey b { sha256 = " SHA_A " }", 0600,
                "keys.conf:2: key 'b': another one has the same 'sha256'");
    refuse_keys(directory, "key 'a b' { sha256 = " SHA_A " }", 0600, "keys.conf:1: key 'a b': names have");
    refuse_keys(directory, "key a { sha = " SHA_A " }", 0600, "keys.conf:1: 'sha' is no key of a key");
    refuse_keys(directory, "key a { sha256 = " SHA_A "; concurrency = 0 }", 0600, "keys.conf:1: concurrency is '0'");
    refuse_keys(directory, "keys a { }", 0600, "'keys' is no key of a file of keys; did you mean 'key'?");
    refuse_keys(directory, "", 0600, "there is no key in '");
    refuse_keys(directory, "key = 5", 0600, "keys.conf:1: 'key' is no section with a name");
}

FIXTURE_TEST(a_file_of_keys_is_not_for_others)
{
    hth_serve_set *set;

    refuse_keys(directory, "key a { sha256 = " SHA_A " }", 0602, "others may write to the keys in");
    set = set_with_keys(directory, "key a { sha256 = " SHA_A " }", 0644);
    assert_int_equal(problems.n_errors, 0);
    assert_problem(0, "others may read the keys' limits and salts");
    hth_serve_set_free(&set->options);
    set = set_with_keys(directory, "key a { sha256 = " SHA_A " }", 0660);
    assert_int_equal(problems.n_errors, 0);
    assert_problem(0, "a group may write to the keys in");
    hth_serve_set_free(&set->options);
}

FIXTURE_TEST(a_file_of_keys_is_roots_or_the_servers)
{
    hth_problems found = { .n = 0 };
    const uint32_t own = (uint32_t)geteuid();

    (void)directory;
    assert_true(hth_trusted_file_check("/k", "the keys", "the keys", own, 0600, &found));
    assert_true(hth_trusted_file_check("/k", "the keys", "the keys", 0, 0600, &found));
    assert_int_equal(found.n, 0);
    assert_false(hth_trusted_file_check("/k", "the keys", "the keys", own + 1, 0600, &found));
    assert_int_equal(found.n_errors, 1);
    assert_non_null(strstr(hth_problems_first(&found), "'/k' belong to user"));
}

/* ---- files ---- */

FIXTURE_TEST(a_check_finds_files_that_are_missing_or_something_else)
{
    char line[2048];
    hth_serve_set *set;

    hth_test_file_write(directory, "x.gguf", "GGUF and more", 0600);
    hth_test_file_write(directory, "y.gguf", "something else", 0600);
    hth_test_file_write(directory, "cert.pem", "no certificate", 0600);
    (void)snprintf(line, sizeof(line),
                   "-m %s/x.gguf -m %s/y.gguf -m %s/z.gguf --chat-template %s/t.jinja --tls-certificate %s/cert.pem "
                   "--tls-key %s/cert.pem --cache %s/x.gguf/kv --signing-key %s/none --log-file %s/none/log --ram 1mb",
                   directory, directory, directory, directory, directory, directory, directory, directory, directory);
    set = hth_test_set_of_flags(line, &problems);
    assert_int_equal(problems.n_errors, 0);
    hth_serve_set_check(set, false, &problems);
    assert_int_equal(problems.n_errors, 8);
    assert_problem(0, "the chat template '");
    memset(&problems, 0, sizeof(problems));
    hth_serve_set_check(set, true, &problems);
    assert_int_equal(problems.n_errors, 11);
    hth_serve_set_free(&set->options);
}

FIXTURE_TEST(a_check_of_what_is_there_finds_nothing)
{
    char line[2048];
    hth_serve_set *set;

    hth_test_file_write(directory, "x.gguf", "GGUF and more", 0600);
    (void)snprintf(line, sizeof(line),
                   "-m %s/x.gguf -m stub: --cache %s/kv/deep --runtime-directory %s/run --log-file %s/log "
                   "--listen unix:%s/s --ram 1mb",
                   directory, directory, directory, directory, directory);
    set = hth_test_set_of_flags(line, &problems);
    assert_int_equal(problems.n_errors, 0);
    hth_serve_set_check(set, true, &problems);
    if (problems.n > 0)
        fail_msg("%s", problems.list[0].message);
    hth_serve_set_free(&set->options);
}

FIXTURE_TEST(a_file_that_cannot_be_read_is_named)
{
    char line[512];
    hth_serve_set *set;

    (void)snprintf(line, sizeof(line), "--config %s/none.conf -m stub:", directory);
    set = hth_test_set_of_flags(line, &problems);
    assert_problem(0, "cannot open '");
    hth_serve_set_free(&set->options);
}
