/*
 * run_many.c - `hearth run --prompts`: runs the prompts of a file together and writes results in the order of the file
 *
 *   lines -> [a window of prompts, some of them submitted to the model] -> results, the oldest first
 *
 * One thread does everything except generation. It waits for a pipe, which finished requests and Ctrl-C write to, and
 * for the file while the window has room. So memory is bounded for any file length, a slow input pipe delays nothing,
 * and each result is written as soon as those before it are. The scheduler's thread only stores results in their items.
 *
 * A prompt that fails is reported and does not stop the others. Ctrl-C cancels the running prompts, and the loop ends
 * as after the last line. If the model is busy, the current prompt is submitted again after another one has ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "base/status.h"
#include "cli/result_json.h"
#include "cli/run.h"
#include "console/output.h"
#include "console/text_file.h"
#include "options/commands.h"
#include "options/run_options.h"

enum {
    WINDOW_FACTOR = 8,    /* prompts that are read but not written, per running one */
    IN_FLIGHT_FACTOR = 2, /* submitted prompts that have not ended: one waiting per running one */
    PROGRESS_MS = 200,
    WHERE_BYTES = 256,
};

typedef struct many many;

typedef struct reply {
    uint64_t request_id;
    const hearth_result *result; /* a reference */
} reply;

/* A prompt between its line and its results. */
typedef struct item {
    many *owner;
    uint64_t index;       /* among the prompts */
    uint64_t line;        /* in the file */
    json_t *id;           /* a reference; NULL: none */
    hearth_error failure; /* the error if it was not accepted, otherwise status HEARTH_OK */
    uint64_t request_id;  /* of the first reply */
    uint32_t n;           /* replies */
    /* Guarded by the lock. */
    uint32_t n_done;
    reply *replies; /* [n], of which the first n_done are filled, in the order of completion */
} item;

struct many {
    hth_run *run;
    hth_line_reader *reader;
    item *items; /* [window], a ring */
    uint64_t window;
    uint64_t n_begun;   /* items that were begun */
    uint64_t n_written; /* items that were written */

    hth_prompt_line line;   /* the current prompt, while the model is busy */
    hearth_request request; /* its request, with a reference to its rendering */
    bool has_prompt;        /* there is a current prompt */
    bool is_busy;           /* wait until a prompt ends before the next attempt */

    bool is_cancelled;
    bool input_failed;
    bool output_failed;
    uint64_t begin_ns;
    uint64_t n_complete, n_failed, n_cut, n_untouched; /* prompts; each counts in exactly one of these */
    uint64_t prompt_tokens, cached_tokens, completion_tokens;

    int wake[2];                  /* a pipe: each finished request writes a byte */
    atomic_uint_fast64_t n_drawn; /* tokens */

    /* Guards the fields below and the marked fields of items. */
    pthread_mutex_t lock;
    uint64_t n_in_flight; /* prompts */
};

/* ---- other threads ---- */

static void wake_up(void *user_data)
{
    many *m = user_data;
    ssize_t written = write(m->wake[1], "", 1);

    (void)written; /* a full pipe wakes the reader anyway */
}

static bool count_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    item *it = user_data;

    (void)id, (void)event;
    atomic_fetch_add(&it->owner->n_drawn, 1);
    return true;
}

static void take_result(uint64_t id, const hearth_result *result, void *user_data)
{
    item *it = user_data;
    many *m = it->owner;
    reply *r;

    pthread_mutex_lock(&m->lock);
    r = &it->replies[it->n_done++];
    r->request_id = id;
    r->result = hearth_result_ref(result);
    if (it->n_done == it->n)
        m->n_in_flight--;
    /*
     * Under the lock, because the loop ends when it sees the last result, even without being woken, and closes the
     * pipe.
     */
    wake_up(m);
    pthread_mutex_unlock(&m->lock);
}

/* ---- input ---- */

static uint64_t n_in_flight(many *m)
{
    uint64_t n;

    pthread_mutex_lock(&m->lock);
    n = m->n_in_flight;
    pthread_mutex_unlock(&m->lock);
    return n;
}

/* The item of the current prompt. */
static item *item_at_hand(many *m)
{
    return &m->items[m->n_begun % m->window];
}

/* The current prompt was accepted or refused. */
static void put_away(many *m)
{
    hth_prompt_line_deinit(&m->line);
    hearth_chat_prompt_free(m->request.chat);
    m->request.chat = NULL;
    m->has_prompt = false;
    m->n_begun++;
}

static void refuse(many *m, const char *where, const hearth_error *err)
{
    item *it = item_at_hand(m);

    it->failure = *err;
    if (where)
        hth_fail_prefix(&it->failure, "%s", where);
    put_away(m);
}

static void where_of(const many *m, const item *it, char where[WHERE_BYTES])
{
    (void)snprintf(where, WHERE_BYTES, "%s, line %" PRIu64, hth_line_reader_name(m->reader), it->line);
    hth_end_at_character(where, WHERE_BYTES); /* truncates a long path */
}

/* Submit the current prompt, unless the model is busy. */
static void submit(many *m)
{
    item *it = item_at_hand(m);
    bool alone = n_in_flight(m) == 0;
    hearth_error err = { .message = "" };
    char where[WHERE_BYTES];
    hearth_status status;

    where_of(m, it, where);
    pthread_mutex_lock(&m->lock);
    m->n_in_flight++;
    pthread_mutex_unlock(&m->lock);
    status = hearth_submit(m->run->model.open.model, &m->request, &it->request_id, &err);
    if (status == HEARTH_OK) {
        put_away(m);
        return;
    }
    pthread_mutex_lock(&m->lock);
    m->n_in_flight--;
    pthread_mutex_unlock(&m->lock);
    if (status == HEARTH_BUSY && !alone)
        m->is_busy = true;
    else
        refuse(m, where, &err);
}

/* Make an item of a line and submit it. */
static void begin(many *m, const char *text, size_t n, uint64_t number)
{
    item *it = item_at_hand(m);
    hearth_error err = { .message = "" };
    char where[WHERE_BYTES];
    hearth_status status;

    *it = (item){ .owner = m, .index = m->n_begun, .line = number };
    where_of(m, it, where);
    if (hth_prompt_line_init(&m->line, &m->run->options, where, text, n, &err) != HEARTH_OK) {
        it->id = json_incref(m->line.id);
        refuse(m, NULL, &err); /* the message includes the line */
        return;
    }
    it->id = json_incref(m->line.id);
    it->n = m->line.options.request.n;
    it->replies = calloc(it->n, sizeof(*it->replies));
    m->request = hth_run_options_request(&m->line.options);
    m->request.on_token = count_token;
    m->request.on_done = take_result;
    m->request.user_data = it;
    status = it->replies
               ? hth_prompt_render(m->run->model.open.model, &m->run->options, m->line.prompt, &m->request, &err)
               : hth_fail(&err, HEARTH_NO_MEMORY, "no memory for the replies");
    m->has_prompt = status == HEARTH_OK;
    if (m->has_prompt)
        submit(m);
    else
        refuse(m, where, &err);
}

/* ---- output ---- */

static bool is_whole(const hearth_result *result)
{
    return result->status == HEARTH_OK && result->finish_reason != HEARTH_FINISH_CANCELLED;
}

static json_t *head_json(const item *it)
{
    json_t *object = json_object();

    json_object_set_new(object, "index", json_integer((json_int_t)it->index));
    json_object_set_new(object, "line", json_integer((json_int_t)it->line));
    if (it->id)
        json_object_set(object, "id", it->id);
    return object;
}

static bool write_failure(const many *m, const item *it)
{
    json_t *object;

    hth_say_error(&it->failure);
    if (!m->run->options.json)
        return true;
    object = head_json(it);
    json_object_set_new(object, "status", json_string(hearth_status_name(it->failure.status)));
    json_object_set_new(object, "error", json_string(it->failure.message));
    return hth_json_print(object, true);
}

static bool write_json(const many *m, const item *it, uint32_t index, const hearth_result *result)
{
    json_t *object = head_json(it);
    json_t *rest = hth_result_json(result, m->run->model.open.model);

    if (it->n > 1)
        json_object_set_new(object, "reply", json_integer(index));
    json_object_update(object, rest);
    json_decref(rest);
    return hth_json_print(object, true);
}

static bool write_text(many *m, const item *it, uint32_t index, const hearth_result *result)
{
    bool written;

    written = printf(it->n > 1 ? "=== line %" PRIu64 ", reply %" PRIu32 " of %" PRIu32 "\n" : "=== line %" PRIu64 "\n",
                     it->line, index + 1, it->n) > 0;
    hth_word_wrap_restart(&m->run->wrap);
    written = written && hth_output_reply(&m->run->wrap, result->text, result->n_bytes);
    written = hth_output_reply_flush(&m->run->wrap) && written;
    return written && fputs("\n\n", stdout) >= 0 && fflush(stdout) == 0;
}

/* Write one reply. A reply that was cancelled before its first text is left out. */
static bool write_reply(many *m, const item *it, uint32_t index, const hearth_result *result)
{
    char where[WHERE_BYTES];

    m->prompt_tokens += result->stats->prompt_tokens;
    m->cached_tokens += result->stats->cached_tokens;
    m->completion_tokens += result->stats->completion_tokens;
    if (result->status != HEARTH_OK && result->status != HEARTH_CANCELLED) {
        where_of(m, it, where);
        (void)fprintf(stderr, "hearth: %s: %s\n", where, result->error.message); /* a failure here cannot be reported */
    }
    if (!is_whole(result) && result->n_bytes == 0 && (result->status == HEARTH_CANCELLED || !m->run->options.json))
        return true;
    return m->run->options.json ? write_json(m, it, index, result) : write_text(m, it, index, result);
}

static void count(many *m, const item *it)
{
    bool whole = true, failed = it->failure.status != HEARTH_OK, said = false;

    for (uint32_t i = 0; i < it->n && !failed; i++) {
        const hearth_result *result = it->replies[i].result;

        whole = whole && is_whole(result);
        failed = result->status != HEARTH_OK && result->status != HEARTH_CANCELLED;
        said = said || result->n_bytes > 0;
    }
    if (failed)
        m->n_failed++;
    else if (whole)
        m->n_complete++;
    else if (said)
        m->n_cut++;
    else
        m->n_untouched++;
}

static int by_request_id(const void *a, const void *b)
{
    uint64_t left = ((const reply *)a)->request_id, right = ((const reply *)b)->request_id;

    return left < right ? -1 : left > right;
}

static void write_item(many *m, item *it)
{
    bool written = m->output_failed;

    hth_progress_end(&m->run->model.open.progress);
    if (it->failure.status == HEARTH_OK)
        qsort(it->replies, it->n, sizeof(*it->replies), by_request_id);
    count(m, it);
    if (!m->output_failed)
        written = it->failure.status == HEARTH_OK || write_failure(m, it);
    for (uint32_t i = 0; it->failure.status == HEARTH_OK && i < it->n; i++) {
        if (!m->output_failed)
            written = write_reply(m, it, i, it->replies[i].result) && written;
        hearth_result_unref(it->replies[i].result);
    }
    if (!written) {
        (void)hth_output_end(HTH_EXIT_FAILED); /* reports it */
        m->output_failed = true;               /* the rest would not be read, so it is not computed */
    }
    free(it->replies);
    json_decref(it->id);
}

static bool is_complete(many *m, const item *it)
{
    bool complete;

    pthread_mutex_lock(&m->lock);
    complete = it->failure.status != HEARTH_OK || it->n_done == it->n;
    pthread_mutex_unlock(&m->lock);
    return complete;
}

static void show_progress(many *m)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    double seconds = (double)(hth_os_monotonic_ns() - m->begin_ns) / 1e9;
    char hits[48] = "";
    char text[256];

    if (hearth_model_info_get(m->run->model.open.model, &info, NULL) != HEARTH_OK)
        return;
    if (m->prompt_tokens > 0)
        (void)snprintf(hits, sizeof(hits), "; %.0f%% of prompt tokens cached", /* sized for it */
                       100.0 * (double)m->cached_tokens / (double)m->prompt_tokens);
    (void)snprintf(text, sizeof(text), /* likewise */
                   "%" PRIu64 " done, %" PRIu32 " running, %" PRIu32 " waiting; %.0f tokens/s%s", m->n_written,
                   info.n_running, info.n_waiting, (double)atomic_load(&m->n_drawn) / seconds, hits);
    hth_progress_say(&m->run->model.open.progress, text);
}

/* ---- the loop ---- */

static void cancel_all(many *m)
{
    m->is_cancelled = true;
    for (uint64_t i = m->n_written; i < m->n_begun; i++) {
        item *it = &m->items[i % m->window];

        for (uint32_t j = 0; it->failure.status == HEARTH_OK && j < it->n; j++)
            (void)hearth_cancel(m->run->model.open.model, it->request_id + j,
                                NULL); /* if not found, it has just ended */
    }
    if (m->has_prompt) { /* it was never submitted */
        hth_prompt_line_deinit(&m->line);
        free(item_at_hand(m)->replies);
        json_decref(item_at_hand(m)->id);
        hearth_chat_prompt_free(m->request.chat);
        m->has_prompt = false;
        m->n_untouched++;
    }
}

static bool reads_on(const many *m)
{
    return !m->is_cancelled && !m->input_failed && !hth_line_reader_is_done(m->reader);
}

/* Wait until a request ends, or input comes (if wanted), or the display is due. */
static void wait_for_events(many *m, bool wants_input)
{
    struct pollfd fds[2] = { { .fd = m->wake[0], .events = POLLIN },
                             { .fd = hth_line_reader_fd(m->reader), .events = POLLIN } };
    int timeout_ms = m->run->model.open.progress.enabled ? PROGRESS_MS : -1;
    hearth_error err;
    char bytes[256];

    show_progress(m);
    (void)poll(fds, wants_input ? 2 : 1, timeout_ms); /* failures are temporary */
    while (read(m->wake[0], bytes, sizeof(bytes)) > 0)
        ;
    m->is_busy = false;
    if (!wants_input || !fds[1].revents || hth_line_reader_fill(m->reader, &err) == HEARTH_OK)
        return;
    m->input_failed = true;
    hth_progress_end(&m->run->model.open.progress);
    hth_say_error(&err);
}

/* Process the next step of the input. False when it must wait for events. */
static bool take_input(many *m, bool *wants_input)
{
    char *text;
    size_t n;
    uint64_t number;

    if (m->has_prompt && !m->is_busy) {
        submit(m);
        return !m->is_busy;
    }
    if (m->has_prompt || !reads_on(m) || m->n_begun - m->n_written == m->window ||
        n_in_flight(m) >= (uint64_t)IN_FLIGHT_FACTOR * m->run->options.parallel)
        return false;
    text = hth_line_reader_next(m->reader, &n, &number);
    if (text && strspn(text, " \t") < n)
        begin(m, text, n, number);
    *wants_input = !text && !hth_line_reader_is_done(m->reader);
    return text != NULL;
}

static void run_prompts(many *m)
{
    for (;;) {
        bool wants_input = false;
        bool went_on = true;

        while (m->n_written < m->n_begun && is_complete(m, &m->items[m->n_written % m->window]))
            write_item(m, &m->items[m->n_written++ % m->window]);
        if (!m->is_cancelled && (atomic_load(&m->run->model.interrupted) || m->output_failed))
            cancel_all(m);
        if (m->n_written == m->n_begun && !m->has_prompt && !reads_on(m))
            return;
        went_on = take_input(m, &wants_input);
        if (!went_on)
            wait_for_events(m, wants_input);
    }
}

static void print_summary(const many *m)
{
    double seconds = (double)(hth_os_monotonic_ns() - m->begin_ns) / 1e9;
    char more[160] = "";

    if (m->is_cancelled)
        (void)snprintf(more, sizeof(more), ", %" PRIu64 " cut short, %" PRIu64 " read and not begun", m->n_cut,
                       m->n_untouched); /* sized for it */
    (void)fprintf(stderr,
                  "hearth: %s%" PRIu64 " prompts in %.2f s: %" PRIu64 " done, %" PRIu64 " failed%s; %" PRIu64
                  " prompt tokens, %" PRIu64 " cached (%.0f%%); %" PRIu64 " tokens at %.1f/s\n",
                  atomic_load(&m->run->model.interrupted) ? "interrupted; "
                  : m->is_cancelled                       ? "stopped; "
                                                          : "",
                  m->n_complete + m->n_failed + m->n_cut + m->n_untouched, seconds, m->n_complete, m->n_failed, more,
                  m->prompt_tokens, m->cached_tokens,
                  m->prompt_tokens ? 100.0 * (double)m->cached_tokens / (double)m->prompt_tokens : 0.0,
                  m->completion_tokens, (double)m->completion_tokens / seconds);
}

static int exit_code_of(const many *m)
{
    if (atomic_load(&m->run->model.interrupted))
        return HTH_EXIT_INTERRUPTED;
    return m->n_failed > 0 || m->input_failed || m->output_failed ? HTH_EXIT_FAILED : HTH_EXIT_OK;
}

int hth_run_many(hth_run *run)
{
    many *m = calloc(1, sizeof(*m));
    hearth_error err = { .message = "no memory" };
    int exit_code = HTH_EXIT_FAILED;

    if (m) {
        m->run = run;
        m->wake[0] = m->wake[1] = -1;
        m->window = (uint64_t)WINDOW_FACTOR * run->options.parallel;
        m->items = calloc(m->window, sizeof(*m->items));
        m->begin_ns = hth_os_monotonic_ns();
        pthread_mutex_init(&m->lock, NULL);
    }
    if (m && m->items && hth_line_reader_open(run->options.prompts_file, &m->reader, &err) == HEARTH_OK) {
        if (hth_os_pipe(m->wake)) {
            hth_own_model_on_interrupt(&run->model, wake_up, m);
            run_prompts(m);
            hth_own_model_on_interrupt(&run->model, NULL, NULL);
            hth_progress_end(&run->model.open.progress);
            if (!run->options.quiet)
                print_summary(m);
            exit_code = exit_code_of(m);
            (void)close(m->wake[0]); /* nothing is buffered */
            (void)close(m->wake[1]);
        } else {
            (void)hth_fail_errno(&err, errno, "cannot make a pipe"); /* reported below */
            hth_say_error(&err);
        }
    } else {
        hth_say_error(&err);
    }
    if (m) {
        hth_line_reader_close(m->reader);
        pthread_mutex_destroy(&m->lock);
        free(m->items);
        free(m);
    }
    return exit_code;
}
