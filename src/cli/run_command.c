/*
 * run_command.c - `hearth run`: the main job in one process
 *
 *   open the runtime -> load the model -> prompt to tokens -> submit -> stream -> save, flush, statistics
 *
 * Text leaves as it is generated. Ctrl-C cancels the request, which ends like any other: what was computed is saved.
 * The reply is complete before the rows are durable; the program stays until they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/os.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/run_options.h"

enum {
    INPUT_BYTES_MAX = 256 << 20,
    FLUSH_MS = 60000,
};

typedef struct run {
    hth_run_options options;
    uint64_t begin_ns;
    hth_progress progress;
    double load_ms;
    uint64_t first_text_ns; /* when the first piece of the reply left */
    bool output_failed;

    atomic_bool interrupted;
    hearth_runtime *runtime;
    hearth_model *model;

    /* Guards the fields below. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t request_id; /* 0 before the submit */
    bool done;
    hearth_result result; /* a copy; its strings are ours */
} run;

static void say_error(const hearth_error *err)
{
    (void)fprintf(stderr, "hearth: %s\n", err->message); /* nowhere else to say it */
}

/* ---- callbacks ---- */

static void log_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };
    run *r = user_data;

    /* What the engine finds worth a warning is not always so for its user, and its failures come back as messages. */
    if (!r->options.verbose && strcmp(source, "hearth") != 0)
        return;
    hth_progress_end(&r->progress);
    if (level <= HEARTH_LOG_WARNING)
        (void)fprintf(stderr, "hearth: %s: %s\n", names[level], message);
    else
        (void)fprintf(stderr, "%s: %s\n", source, message);
}

static bool show_loading(float fraction, void *user_data)
{
    run *r = user_data;

    hth_progress_draw(&r->progress, "loading model", fraction, "");
    return !atomic_load(&r->interrupted);
}

static void show_prefill(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    run *r = user_data;
    char detail[64];

    (void)id; /* there is one request */
    (void)snprintf(detail, sizeof(detail), "%" PRIu32 " of %" PRIu32 " tokens", n_done, n_total); /* sized for it */
    hth_progress_draw(&r->progress, phase == HEARTH_PHASE_RESTORE ? "restoring" : "reading prompt",
                      (double)n_done / n_total, detail);
    if (n_done == n_total)
        hth_progress_end(&r->progress);
}

static bool show_text(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    run *r = user_data;

    (void)id; /* there is one request */
    if (r->first_text_ns == 0) {
        r->first_text_ns = hth_os_monotonic_ns();
        hth_progress_end(&r->progress);
    }
    if (r->options.json)
        return true;
    if (fwrite(text, 1, n_bytes, stdout) == n_bytes && fflush(stdout) == 0)
        return true;
    r->output_failed = true;
    return false;
}

static void take_result(uint64_t id, const hearth_result *result, void *user_data)
{
    run *r = user_data;

    (void)id; /* there is one request */
    pthread_mutex_lock(&r->lock);
    r->result = *result;
    r->result.tokens = NULL;
    r->result.text = malloc(result->n_bytes + 1);
    if (r->result.text)
        memcpy(r->result.text, result->text, result->n_bytes + 1);
    r->done = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void interrupt(void *user_data)
{
    run *r = user_data;

    atomic_store(&r->interrupted, true);
    pthread_mutex_lock(&r->lock);
    if (r->request_id != 0 && !r->done)
        (void)hearth_cancel(r->model, r->request_id, NULL); /* not found: it has just ended by itself */
    pthread_mutex_unlock(&r->lock);
}

/* ---- input ---- */

/* A whole file as a terminated string, NULL with a message on failure. */
static char *read_text_file(const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    ssize_t got = 1;

    if (fd < 0)
        (void)fprintf(stderr, "hearth: cannot open '%s': %s\n", name, strerror(errno));
    while (fd >= 0 && text && got > 0) {
        if (n + 1 == capacity) {
            char *grown = capacity > INPUT_BYTES_MAX ? NULL : realloc(text, 2 * capacity);

            if (!grown) {
                (void)fprintf(stderr, "hearth: '%s' is too large to read; a prompt may have %d MiB\n", name,
                              INPUT_BYTES_MAX >> 20);
                break;
            }
            text = grown;
            capacity *= 2;
        }
        got = read(fd, text + n, capacity - n - 1);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got < 0)
            (void)fprintf(stderr, "hearth: cannot read '%s': %s\n", name, strerror(errno));
        else
            n += (size_t)got;
    }
    if (fd >= 0 && !is_stdin)
        (void)close(fd); /* only read */
    if (fd < 0 || !text || got != 0) {
        free(text);
        return NULL;
    }
    /* The line end that editors and echo put at the end of a text is not part of it. */
    if (n > 0 && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    if (strlen(text) != n) {
        (void)fprintf(stderr, "hearth: '%s' contains a zero byte, so it is no text; convert it first\n", name);
        free(text);
        return NULL;
    }
    return text;
}

/* The prompt as it goes to the tokenizer. A new string; NULL with a message on failure. */
static char *make_prompt(run *r)
{
    hth_run_options *options = &r->options;
    char *text = options->prompt ? strdup(options->prompt) : read_text_file(options->prompt_file);
    hearth_chat_message messages[2];
    size_t n_messages = 0;
    hearth_error err = { .message = "" };
    char *rendered = NULL;

    if (!text || !options->chat)
        return text;
    if (options->system)
        messages[n_messages++] = (hearth_chat_message){ .role = "system", .content = options->system };
    messages[n_messages++] = (hearth_chat_message){ .role = "user", .content = text };
    if (hearth_chat_render(r->model, messages, n_messages, &rendered, NULL, &err) != HEARTH_OK)
        say_error(&err);
    options->request.tokenize_flags |= HEARTH_TOKENIZE_SPECIAL;
    free(text);
    return rendered;
}

/* ---- output ---- */

static void print_statistics(const run *r)
{
    const hearth_stats *stats = &r->result.stats;
    char key[65];
    char from[48] = "";

    hth_hex_encode(stats->finish_key, sizeof(stats->finish_key), key);
    if (stats->hit != HEARTH_HIT_NONE)
        (void)snprintf(from, sizeof(from), " (%s, %s)", hearth_hit_name(stats->hit), hearth_tier_name(stats->tier));
    (void)fprintf(stderr,
                  "hearth: %" PRIu32 " prompt tokens, %" PRIu32
                  " cached%s; restore %.1f ms, prefill %.1f ms, first token "
                  "%.1f ms; %" PRIu32 " tokens at %.1f/s; finish key %s\n",
                  stats->prompt_tokens, stats->cached_tokens, from, stats->restore_ms, stats->prefill_ms,
                  stats->ttft_ms, stats->completion_tokens, stats->decode_tps, stats->finish_tokens ? key : "none");
}

/* Three decimals: nobody reads more, and equal runs differ less. */
static json_t *milliseconds(double ms)
{
    return json_real((double)(long long)(ms * 1000 + 0.5) / 1000);
}

static json_t *key_json(const uint8_t key[32])
{
    char hex[65];

    hth_hex_encode(key, 32, hex);
    return json_string(hex);
}

static bool print_json(const run *r)
{
    const hearth_result *result = &r->result;
    const hearth_stats *stats = &result->stats;
    uint64_t first_ns = r->first_text_ns ? r->first_text_ns : hth_os_monotonic_ns();
    json_t *object = json_object();
    bool written;
    char *text;

    json_object_set_new(object, "text", json_stringn(result->text, result->n_bytes));
    json_object_set_new(object, "prompt_tokens", json_integer(stats->prompt_tokens));
    json_object_set_new(object, "cached_tokens", json_integer(stats->cached_tokens));
    json_object_set_new(object, "hit", json_string(hearth_hit_name(stats->hit)));
    json_object_set_new(object, "tier", json_string(hearth_tier_name(stats->tier)));
    json_object_set_new(object, "lookup_ms", milliseconds(stats->lookup_ms));
    json_object_set_new(object, "restore_ms", milliseconds(stats->restore_ms));
    json_object_set_new(object, "prefill_ms", milliseconds(stats->prefill_ms));
    json_object_set_new(object, "ttft_ms", milliseconds(stats->ttft_ms));
    json_object_set_new(object, "second_token_ms", milliseconds(stats->second_token_ms));
    json_object_set_new(object, "since_start_ms", milliseconds((double)(first_ns - r->begin_ns) / 1e6));
    json_object_set_new(object, "load_ms", milliseconds(r->load_ms));
    json_object_set_new(object, "completion_tokens", json_integer(stats->completion_tokens));
    json_object_set_new(object, "decode_tps", milliseconds(stats->decode_tps));
    json_object_set_new(object, "finish_reason", json_string(hearth_finish_reason_name(result->finish_reason)));
    json_object_set_new(object, "finish_key", stats->finish_tokens ? key_json(stats->finish_key) : json_null());
    json_object_set_new(object, "finish_tokens", json_integer(stats->finish_tokens));
    json_object_set_new(object, "prompt_key", key_json(stats->prompt_key));
    json_object_set_new(object, "restored_bytes", json_integer((json_int_t)stats->restored_bytes));
    json_object_set_new(object, "rows_restored", json_integer(stats->rows_restored));
    json_object_set_new(object, "prefill_evaluations", json_integer(stats->n_prefill_evaluations));
    json_object_set_new(object, "decode_evaluations", json_integer(stats->n_decode_evaluations));
    json_object_set_new(object, "seed", json_integer((json_int_t)r->options.request.sampling.seed));
    text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    written = text && puts(text) >= 0 && fflush(stdout) == 0;
    free(text);
    json_decref(object);
    return written;
}

/* ---- the run ---- */

static bool open_and_load(run *r)
{
    hth_run_options *options = &r->options;
    hearth_error err = { .message = "" };
    char *template_text = NULL;
    uint64_t begin_ns;
    hearth_status status;

    options->runtime.log = options->quiet ? NULL : log_line;
    options->runtime.log_user_data = r;
    options->runtime.log_level = options->verbose ? HEARTH_LOG_DEBUG : HEARTH_LOG_WARNING;
    if (hearth_runtime_open(&options->runtime, &r->runtime, &err) != HEARTH_OK) {
        say_error(&err);
        return false;
    }
    if (options->model_options.chat_template) {
        template_text = read_text_file(options->model_options.chat_template);
        if (!template_text)
            return false;
        options->model_options.chat_template = template_text;
    }
    options->model_options.progress = show_loading;
    options->model_options.progress_user_data = r;
    begin_ns = hth_os_monotonic_ns();
    status = hearth_model_load(r->runtime, options->model, &options->model_options, &r->model, &err);
    r->load_ms = (double)(hth_os_monotonic_ns() - begin_ns) / 1e6;
    hth_progress_end(&r->progress);
    free(template_text);
    if (status != HEARTH_OK && !atomic_load(&r->interrupted))
        say_error(&err);
    return status == HEARTH_OK;
}

static bool generate(run *r)
{
    hth_run_options *options = &r->options;
    hearth_error err = { .message = "" };
    char *prompt = make_prompt(r);
    uint64_t id = 0;
    hearth_status status;

    if (!prompt)
        return false;
    options->request.prompt = prompt;
    options->request.stop = options->stop;
    options->request.parent_key = options->has_parent_key ? options->parent_key : NULL;
    options->request.on_text = show_text;
    options->request.on_progress = show_prefill;
    options->request.on_done = take_result;
    options->request.user_data = r;

    /* The lock keeps the first Ctrl-C from falling between the submit and the note of its id; on_done waits, too. */
    pthread_mutex_lock(&r->lock);
    status = hearth_submit(r->model, &options->request, &id, &err);
    free(prompt);
    if (status != HEARTH_OK) {
        pthread_mutex_unlock(&r->lock);
        say_error(&err);
        return false;
    }
    r->request_id = id;
    if (atomic_load(&r->interrupted))
        (void)hearth_cancel(r->model, id, NULL); /* not found: it has just ended by itself */
    while (!r->done)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    hth_progress_end(&r->progress);
    return true;
}

/* What is left to say and the exit code. */
static int conclude(run *r)
{
    const hearth_result *result = &r->result;
    bool cancelled = result->status == HEARTH_CANCELLED;
    hearth_error err = { .message = "" };
    bool written = true;

    if (!r->options.json && result->n_bytes > 0 && result->text && result->text[result->n_bytes - 1] != '\n')
        written = putchar('\n') != EOF && fflush(stdout) == 0;
    if (result->status != HEARTH_OK && !cancelled) {
        (void)fprintf(stderr, "hearth: %s\n", result->error.message);
        return HTH_EXIT_FAILED;
    }
    if (r->options.json)
        written = print_json(r);
    if (!written || r->output_failed) {
        (void)fprintf(stderr, "hearth: cannot write to standard output: %s\n", strerror(errno));
        return HTH_EXIT_FAILED;
    }
    if (r->options.has_parent_key && result->stats.hit != HEARTH_HIT_RESUME && !r->options.quiet)
        (void)fputs(
            "hearth: warning: the prompt does not go on where --parent-key ends, or nothing is kept under it; the "
            "longest known prefix was used\n",
            stderr);
    if (!r->options.quiet && !r->options.json)
        print_statistics(r);
    if (hearth_runtime_flush(r->runtime, FLUSH_MS, &err) != HEARTH_OK && !r->options.quiet)
        say_error(&err);
    return atomic_load(&r->interrupted) ? HTH_EXIT_INTERRUPTED : HTH_EXIT_OK;
}

int hth_command_run(int argc, char **argv)
{
    run *r = calloc(1, sizeof(*r));
    int exit_code = HTH_EXIT_FAILED;

    if (!r) {
        (void)fputs("hearth: no memory\n", stderr);
        return HTH_EXIT_FAILED;
    }
    r->begin_ns = hth_os_monotonic_ns();
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    if (!hth_run_options_parse(argc, argv, &r->options, &exit_code)) {
        free(r);
        return exit_code;
    }
    exit_code = HTH_EXIT_FAILED;
    if (!r->options.has_seed &&
        getentropy(&r->options.request.sampling.seed, sizeof(r->options.request.sampling.seed)) != 0)
        r->options.request.sampling.seed = r->begin_ns;
    if (!r->options.has_seed)
        r->options.request.sampling.seed &= HTH_RUN_SEED_MAX;
    hth_progress_init(&r->progress, !r->options.quiet);
    if (!hth_interrupt_watch(interrupt, r))
        (void)fputs("hearth: warning: Ctrl-C will end the program at once, without saving\n", stderr);

    if (open_and_load(r) && generate(r))
        exit_code = conclude(r);
    else if (atomic_load(&r->interrupted))
        exit_code = HTH_EXIT_INTERRUPTED;
    hearth_model_unref(r->model);
    hearth_runtime_close(r->runtime);
    hearth_result_free(&r->result);
    /* r itself stays: the thread that waits for signals may still look at it. */
    return exit_code;
}
