/*
 * access_log_test.c - a line is whole and says what happened, whatever was put into it, and nobody waits for its reader
 */
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "front/access_log.h"
#include "support/cmocka_all.h"
#include "support/support.h"
#include "wire/log_line.h"

enum { TEXT_BYTES = 1 << 20 };

typedef struct fixture {
    char *directory;
    char path[512];
    char *text; /* what was read, [TEXT_BYTES] */
} fixture;

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    f->text = malloc(TEXT_BYTES);
    (void)snprintf(f->path, sizeof(f->path), "%s/log", f->directory);
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
    free(f->text);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static hth_server_log *log_open(fixture *f, hth_log_format format, hearth_log_level level)
{
    hth_server_log *log;

    assert_int_equal(hth_server_log_new(f->path, format, level, &log, NULL), HEARTH_OK);
    return log;
}

/* Everything in the file, terminated. */
static const char *read_all(fixture *f)
{
    FILE *file = fopen(f->path, "r");

    assert_non_null(file);
    f->text[fread(f->text, 1, TEXT_BYTES - 1, file)] = '\0';
    (void)fclose(file); /* only read from */
    return f->text;
}

/* The only line of the file as an object. */
static json_t *read_object(fixture *f)
{
    const char *text = read_all(f);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

    if (!object || strchr(text, '\n') != text + strlen(text) - 1)
        fail_msg("not one line of JSON: %s", text);
    return object;
}

static void assert_text(const json_t *object, const char *name, const char *expected)
{
    const char *text = json_string_value(json_object_get(object, name));

    if (!expected) {
        assert_null(json_object_get(object, name));
        return;
    }
    if (!text)
        fail_msg("there is no text '%s'", name);
    assert_string_equal(text, expected);
}

static void assert_number(const json_t *object, const char *name, double expected)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_number(value) || json_number_value(value) != expected)
        fail_msg("'%s' is %g, not %g", name, json_number_value(value), expected);
}

/* As RFC 3339 has it, in UTC with milliseconds. */
static void assert_time(const char *text)
{
    const char pattern[] = "dddd-dd-ddTdd:dd:dd.dddZ";

    for (size_t i = 0; pattern[i]; i++)
        if (pattern[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != pattern[i])
            fail_msg("not a time: %.30s", text);
}

static hth_access_record record_of_chat(void)
{
    return (hth_access_record){
        .request_id = "req-1",
        .trace_id = "0af7651916cd43dd8448eb211c80319c",
        .key = "alice",
        .peer = "127.0.0.1",
        .method = "POST",
        .path = "/v1/chat/completions",
        .endpoint = "/v1/chat/completions",
        .model = "chat",
        .status = 200,
        .is_stream = true,
        .has_summary = true,
        .summary = { .status = 200,
                     .figures.n_prompt_tokens = 1024,
                     .figures.n_cached_tokens = 768,
                     .figures.n_reply_tokens = 64,
                     .figures.hit = HEARTH_HIT_PREFIX,
                     .figures.tier = HEARTH_TIER_DISK,
                     .figures.miss = HEARTH_MISS_EVICTED,
                     .finish = HEARTH_FINISH_STOP,
                     .figures.prepare_ms = 2.75,
                     .figures.queue_ms = 0.25,
                     .figures.restore_ms = 1.5,
                     .figures.prefill_ms = 12.125,
                     .figures.ttft_ms = 20,
                     .figures.decode_ms = 250.5 },
        .bytes_in = 4000,
        .bytes_out = 9000,
        .duration_ms = 300.125,
        .first_byte_ms = 21,
    };
}

/* ---- requests ---- */

FIXTURE_TEST(a_request_is_one_line_of_json)
{
    hth_server_log *log = log_open(f, HTH_LOG_JSON, HEARTH_LOG_ERROR);
    hth_access_record record = record_of_chat();
    json_t *line;

    hth_server_log_request(log, &record);
    line = read_object(f);
    assert_time(json_string_value(json_object_get(line, "time")));
    assert_text(line, "level", "info");
    assert_text(line, "msg", "request");
    assert_text(line, "request_id", "req-1");
    assert_text(line, "trace_id", "0af7651916cd43dd8448eb211c80319c");
    assert_text(line, "key", "alice");
    assert_text(line, "peer", "127.0.0.1");
    assert_text(line, "method", "POST");
    assert_text(line, "path", "/v1/chat/completions");
    assert_text(line, "endpoint", "/v1/chat/completions");
    assert_text(line, "model", "chat");
    assert_number(line, "status", 200);
    assert_text(line, "outcome", "ok");
    assert_true(json_is_true(json_object_get(line, "stream")));
    assert_number(line, "bytes_in", 4000);
    assert_number(line, "bytes_out", 9000);
    assert_number(line, "duration_ms", 300.125);
    assert_number(line, "first_byte_ms", 21);
    assert_number(line, "prepare_ms", 2.75);
    assert_number(line, "queue_ms", 0.25);
    assert_number(line, "restore_ms", 1.5);
    assert_number(line, "prefill_ms", 12.125);
    assert_number(line, "ttft_ms", 20);
    assert_number(line, "decode_ms", 250.5);
    assert_number(line, "prompt_tokens", 1024);
    assert_number(line, "cached_tokens", 768);
    assert_number(line, "completion_tokens", 64);
    assert_text(line, "hit", "prefix");
    assert_text(line, "tier", "disk");
    assert_text(line, "miss", "evicted");
    assert_text(line, "finish", "stop");
    assert_null(json_object_get(line, "resumed"));
    json_decref(line);
    hth_server_log_free(log);
}

FIXTURE_TEST(what_a_request_did_not_have_is_left_out)
{
    hth_server_log *log = log_open(f, HTH_LOG_JSON, HEARTH_LOG_INFO);
    hth_access_record record = { .request_id = "r", .key = "", .peer = "unix", .method = "GET", .path = "/health" };
    json_t *line;

    record.endpoint = "/health";
    record.model = "";
    record.status = 503;
    record.n_resumed = 2;
    hth_server_log_request(log, &record);
    line = read_object(f);
    assert_text(line, "level", "error");
    assert_text(line, "outcome", "server_error");
    assert_number(line, "resumed", 2);
    assert_text(line, "key", NULL);
    assert_text(line, "model", NULL);
    assert_text(line, "trace_id", NULL);
    assert_text(line, "hit", NULL);
    assert_null(json_object_get(line, "prompt_tokens"));
    assert_null(json_object_get(line, "first_byte_ms"));
    json_decref(line);
    hth_server_log_free(log);
}

FIXTURE_TEST(each_kind_of_status_has_an_outcome)
{
    static const struct {
        int status;
        const char *outcome;
    } cases[] = { { 200, "ok" },           { 204, "ok" },          { 304, "ok" },           { 400, "client_error" },
                  { 429, "client_error" }, { 499, "client_gone" }, { 500, "server_error" }, { 529, "server_error" } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hth_server_log *log = log_open(f, HTH_LOG_JSON, HEARTH_LOG_INFO);
        hth_access_record record = record_of_chat();
        json_t *line;

        record.status = cases[i].status;
        hth_server_log_request(log, &record);
        line = read_object(f);
        assert_text(line, "outcome", cases[i].outcome);
        json_decref(line);
        hth_server_log_free(log);
        assert_int_equal(unlink(f->path), 0);
    }
}

FIXTURE_TEST(a_request_for_people_is_one_short_line)
{
    hth_server_log *log = log_open(f, HTH_LOG_TEXT, HEARTH_LOG_INFO);
    hth_access_record record = record_of_chat();
    const char *text;

    record.status = 499;
    record.n_resumed = 1;
    hth_server_log_request(log, &record);
    text = read_all(f);
    assert_time(text);
    assert_string_equal(text + 24,
                        " 499 POST /v1/chat/completions chat            1024 prompt    768 cached    64 reply  prefix "
                        "disk      first    20.0 ms total    300.1 ms  computed: evicted  the client left  resumed 1"
                        "  key alice  id req-1\n");
    hth_server_log_free(log);
}

FIXTURE_TEST(a_refusal_says_its_reason)
{
    hth_server_log *log = log_open(f, HTH_LOG_JSON, HEARTH_LOG_INFO);
    hth_access_record record = { .request_id = "req-1",
                                 .key = "alice",
                                 .method = "GET",
                                 .path = "/v1/models",
                                 .status = 401,
                                 .reason = "expired",
                                 .why = "the API key 'alice' is expired" };
    json_t *line;

    hth_server_log_request(log, &record);
    line = read_object(f);
    assert_text(line, "reason", "expired");
    assert_text(line, "why", "the API key 'alice' is expired");
    assert_text(line, "outcome", "client_error");
    json_decref(line);
    hth_server_log_free(log);
    assert_int_equal(unlink(f->path), 0);

    log = log_open(f, HTH_LOG_TEXT, HEARTH_LOG_INFO);
    hth_server_log_request(log, &record);
    assert_non_null(strstr(read_all(f), "  key alice  id req-1  why: the API key 'alice' is expired\n"));
    hth_server_log_free(log);
}

FIXTURE_TEST(a_line_never_shows_a_query)
{
    static const hth_log_format formats[] = { HTH_LOG_JSON, HTH_LOG_TEXT };

    for (int i = 0; i < 2; i++) {
        hth_server_log *log = log_open(f, formats[i], HEARTH_LOG_INFO);
        hth_access_record record = record_of_chat();

        record.path = "/v1/models?key=sk-secret&prompt=mine";
        hth_server_log_request(log, &record);
        assert_non_null(strstr(read_all(f), "/v1/models"));
        assert_null(strstr(f->text, "secret"));
        assert_null(strstr(f->text, "mine"));
        hth_server_log_free(log);
    }
}

/* A text of n bytes that repeats a pattern. */
static char *repeated(const char *pattern, size_t n)
{
    char *text = malloc(n + 1);

    for (size_t i = 0; i < n; i++)
        text[i] = pattern[i % strlen(pattern)];
    text[n] = '\0';
    return text;
}

FIXTURE_TEST(a_line_is_whole_and_bounded_whatever_is_in_it)
{
    static const char *const patterns[] = { "a",
                                            "\"",
                                            "\\",
                                            "\n",
                                            "\x01",
                                            "\x7f",
                                            "\xff",
                                            "\xc3",
                                            "\xc3\xa4",
                                            "\xc2\x9b",
                                            "\xf0\x9f\x98\x80",
                                            "\xed\xa0\x80",
                                            "\xe2\x82" };

    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        hth_server_log *log = log_open(f, HTH_LOG_JSON, HEARTH_LOG_INFO), *text_log;
        char *text = repeated(patterns[i], 60000);
        hth_access_record record = record_of_chat();
        hth_frame_summary *summary = &record.summary;
        json_t *line;

        record.key = record.peer = record.method = record.path = record.endpoint = record.model = text;
        record.reason = record.why = text;
        memset(record.request_id, 'x', sizeof(record.request_id) - 1);
        record.bytes_in = record.bytes_out = INT64_MAX;
        summary->figures.n_prompt_tokens = summary->figures.n_cached_tokens = summary->figures.n_reply_tokens =
            UINT32_MAX;
        summary->figures.hit = summary->figures.tier = summary->figures.miss = summary->finish = record.n_resumed =
            UINT32_MAX;
        summary->figures.prepare_ms = summary->figures.queue_ms = summary->figures.restore_ms =
            summary->figures.prefill_ms = 1e15;
        summary->figures.ttft_ms = summary->figures.decode_ms = record.duration_ms = record.first_byte_ms = 1e15;
        hth_server_log_request(log, &record);
        line = read_object(f);
        assert_in_range(strlen(f->text), 1000, HTH_SERVER_LOG_LINE_BYTES_MAX);
        assert_number(line, "resumed", UINT32_MAX);
        json_decref(line);
        hth_server_log_free(log);
        assert_int_equal(unlink(f->path), 0);

        log = log_open(f, HTH_LOG_JSON, HEARTH_LOG_INFO);
        hth_server_log_fn(HEARTH_LOG_INFO, text, text, log);
        line = read_object(f);
        assert_in_range(strlen(f->text), 1000, HTH_SERVER_LOG_LINE_BYTES_MAX);
        json_decref(line);
        hth_server_log_free(log);
        assert_int_equal(unlink(f->path), 0);

        text_log = log_open(f, HTH_LOG_TEXT, HEARTH_LOG_INFO);
        hth_server_log_request(text_log, &record);
        hth_server_log_fn(HEARTH_LOG_INFO, text, text, text_log);
        (void)read_all(f);
        assert_in_range(strlen(f->text), 1000, 2 * HTH_SERVER_LOG_LINE_BYTES_MAX);
        assert_non_null(strstr(f->text, "resumed 4294967295"));
        assert_ptr_equal(strchr(strchr(f->text, '\n') + 1, '\n'), f->text + strlen(f->text) - 1); /* two lines */
        assert_null(strpbrk(f->text, "\x01\x7f\xff\x9b"));
        hth_server_log_free(text_log);
        assert_int_equal(unlink(f->path), 0);
        free(text);
    }
}

FIXTURE_TEST(a_text_cannot_pretend_to_be_the_next_field)
{
    hth_server_log *log = log_open(f, HTH_LOG_TEXT, HEARTH_LOG_INFO);
    hth_access_record record = record_of_chat();

    record.has_summary = false;
    record.path = "/x 200 POST\nforged\x1b[2J";
    record.model = "a\\b";
    hth_server_log_request(log, &record);
    assert_non_null(strstr(read_all(f), " POST /x\\x20200\\x20POST\\x0aforged\\x1b[2J a\\\\b "));
    hth_server_log_free(log);
}

/* ---- events ---- */

FIXTURE_TEST(an_event_tells_its_level_its_source_and_its_model)
{
    hth_server_log *log = log_open(f, HTH_LOG_JSON, HEARTH_LOG_INFO);
    json_t *line;

    hth_server_log_fn(HEARTH_LOG_WARNING, "worker chat", "it \"died\"", log);
    hth_server_log_fn(HEARTH_LOG_DEBUG, "hearth", "too detailed", log);
    line = read_object(f);
    assert_time(json_string_value(json_object_get(line, "time")));
    assert_text(line, "level", "warning");
    assert_text(line, "msg", "it \"died\"");
    assert_text(line, "source", "worker");
    assert_text(line, "model", "chat");
    json_decref(line);
    hth_server_log_free(log);

    assert_int_equal(unlink(f->path), 0);
    log = log_open(f, HTH_LOG_TEXT, HEARTH_LOG_INFO);
    hth_server_log_fn(HEARTH_LOG_ERROR, "worker chat", "it died", log);
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "listening", log);
    assert_string_equal(strchr(read_all(f), '\n') + 1 + 24, " info    listening\n");
    *strchr(f->text, '\n') = '\0';
    assert_string_equal(f->text + 24, " error   worker chat: it died");
    hth_server_log_free(log);
}

FIXTURE_TEST(the_level_can_be_changed)
{
    hth_server_log *log = log_open(f, HTH_LOG_JSON, HEARTH_LOG_WARNING);

    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "not wanted", log);
    hth_server_log_level_set(log, HEARTH_LOG_DEBUG);
    hth_server_log_fn(HEARTH_LOG_DEBUG, "hearth", "wanted", log);
    json_decref(read_object(f));
    assert_non_null(strstr(f->text, "\"wanted\""));
    hth_server_log_free(log);
}

enum { N_THREADS = 4, N_LINES = 400 };

static void *write_lines(void *user_data)
{
    for (int i = 0; i < N_LINES; i++)
        hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "a line of some length, so that halves would be seen", user_data);
    return NULL;
}

FIXTURE_TEST(lines_of_several_threads_do_not_mix)
{
    hth_server_log *log = log_open(f, HTH_LOG_JSON, HEARTH_LOG_INFO);
    pthread_t threads[N_THREADS];
    int n = 0;

    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, log), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(hth_server_log_reopen(log, NULL), HEARTH_OK);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    (void)read_all(f);
    for (char *line = strtok(f->text, "\n"); line; line = strtok(NULL, "\n"), n++) {
        json_t *object = json_loads(line, 0, NULL);

        assert_non_null(object);
        json_decref(object);
    }
    assert_int_equal(n, N_THREADS * N_LINES);
    hth_server_log_free(log);
}

/* ---- where it goes ---- */

FIXTURE_TEST(a_terminal_gets_text_with_the_time_of_day)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    hth_server_log *log;
    char text[256];
    ssize_t n;

    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    (void)snprintf(f->path, sizeof(f->path), "%s", ptsname(terminal));
    log = log_open(f, HTH_LOG_AUTO, HEARTH_LOG_INFO);
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "listening", log);
    n = read(terminal, text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_int_equal(text[2], ':');
    assert_int_equal(text[5], ':');
    assert_int_equal(text[8], '.');
    assert_string_equal(text + 12, " info    listening\r\n");
    hth_server_log_free(log);
    (void)close(terminal); /* a test's */
}

FIXTURE_TEST(a_file_gets_json_by_default)
{
    hth_server_log *log = log_open(f, HTH_LOG_AUTO, HEARTH_LOG_INFO);
    struct stat st;

    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "listening", log);
    json_decref(read_object(f));
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0007, 0); /* not everybody's */
    hth_server_log_free(log);
}

FIXTURE_TEST(a_file_that_cannot_be_opened_is_an_error_that_names_it)
{
    hth_server_log *log;
    hearth_error err;
    char path[600];

    (void)snprintf(path, sizeof(path), "%s/none/log", f->directory);
    assert_int_equal(hth_server_log_new(path, HTH_LOG_AUTO, HEARTH_LOG_INFO, &log, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(hth_server_log_new(f->directory, HTH_LOG_AUTO, HEARTH_LOG_INFO, &log, &err), HEARTH_IO);
    hth_server_log_free(NULL);
}

FIXTURE_TEST(a_log_that_was_moved_away_goes_on_in_a_new_file)
{
    hth_server_log *log = log_open(f, HTH_LOG_JSON, HEARTH_LOG_INFO);
    char moved[600];

    (void)snprintf(moved, sizeof(moved), "%s.1", f->path);
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "before", log);
    assert_int_equal(rename(f->path, moved), 0);
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "meanwhile", log);
    assert_int_equal(hth_server_log_reopen(log, NULL), HEARTH_OK);
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "after", log);
    json_decref(read_object(f));
    assert_non_null(strstr(f->text, "after"));

    /* Where the new file cannot be had, the old one stays. */
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(mkdir(f->path, 0700), 0);
    assert_int_equal(hth_server_log_reopen(log, NULL), HEARTH_IO);
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "nowhere to be seen", log);
    hth_server_log_free(log);
}

TEST(standard_error_is_never_closed)
{
    hth_server_log *log;

    assert_int_equal(hth_server_log_new(NULL, HTH_LOG_TEXT, HEARTH_LOG_ERROR, &log, NULL), HEARTH_OK);
    assert_int_equal(hth_server_log_reopen(log, NULL), HEARTH_OK);
    hth_server_log_free(log);
    assert_true(fcntl(STDERR_FILENO, F_GETFD) >= 0);
}

TEST(a_full_line_accepts_no_more_text)
{
    hth_line line = { .n = 0 };
    char text[HTH_SERVER_LOG_LINE_BYTES_MAX];

    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 2] = '\0';
    hth_line_add(&line, text);
    hth_line_add(&line, "bb"); /* there is room for one byte */
    hth_line_add(&line, "c");
    hth_line_end(&line);
    assert_int_equal(line.n, sizeof(text) - 1);
    assert_memory_equal(line.text + line.n - 2, "a\n", 2);
}

/* ---- nobody waits ---- */

FIXTURE_TEST(lines_that_a_full_pipe_does_not_take_are_lost_and_told_of)
{
    hth_server_log *log;
    int reader, n_lines = 0, n_lost = 0;
    ssize_t n;

    assert_int_equal(mkfifo(f->path, 0600), 0);
    reader = open(f->path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    log = log_open(f, HTH_LOG_TEXT, HEARTH_LOG_INFO);
    for (int i = 0; i < 20000; i++)
        hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "nobody reads this", log); /* more than any pipe holds */
    n = read(reader, f->text, TEXT_BYTES - 1);
    assert_true(n > 0);
    f->text[n] = '\0';
    for (char *at = f->text; (at = strchr(at, '\n')) != NULL; at++)
        n_lines++;
    assert_in_range(n_lines, 1, 19999);

    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "read again", log);
    n = read(reader, f->text, TEXT_BYTES - 1);
    assert_true(n > 0);
    f->text[n] = '\0';
    assert_int_equal(sscanf(f->text + 24, " warning %d lines of this log were lost", &n_lost), 1);
    assert_int_equal(n_lines + n_lost, 20000);
    assert_string_equal(strchr(f->text, '\n') + 1 + 24, " info    read again\n");

    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "once is enough", log);
    n = read(reader, f->text, TEXT_BYTES - 1);
    assert_true(n > 0);
    f->text[n] = '\0';
    assert_string_equal(f->text + 24, " info    once is enough\n");

    /* A reader that goes away is no reason to stop. */
    (void)close(reader); /* a test's */
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "to nobody", log);
    hth_server_log_free(log);
}

FIXTURE_TEST(a_line_that_a_full_disk_cut_is_ended_before_the_next)
{
    hth_server_log *log = log_open(f, HTH_LOG_TEXT, HEARTH_LOG_INFO);
    struct rlimit old, small;

    /* A limit on the size of files stands for the disk. */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){ .rlim_cur = 70, .rlim_max = old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "fits", log);
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "does not fit", log);
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "nor does this", log);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    hth_server_log_fn(HEARTH_LOG_INFO, "hearth", "fits again", log);
    (void)read_all(f);
    assert_non_null(strstr(f->text, " info    fits\n"));
    assert_non_null(strstr(f->text, " warning 2 lines of this log were lost"));
    assert_non_null(strstr(f->text, " info    fits again\n"));
    for (char *line = strchr(f->text, '\n') + 1; *line; line = strchr(line, '\n') + 1)
        if (strchr(line, '\n') - line >= 24)
            assert_time(line);
    hth_server_log_free(log);
}

static int ignore_signals(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN); /* as the server does; cannot fail */
    (void)signal(SIGXFSZ, SIG_IGN); /* a limit that is met is an error here */
    return 0;
}

GROUP(without_signals, ignore_signals, NULL)
