/*
 * run_one.c - `hearth run` with one prompt: one streamed reply, or several complete ones
 *
 * A single reply is streamed. Of several replies (--n), each is written when it and those before it are complete, so
 * that they do not mix. Their numbers go to standard error, or into their JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/os.h"
#include "cli/cache_options.h"
#include "cli/result_json.h"
#include "cli/run.h"
#include "console/output.h"
#include "console/text_file.h"
#include "options/commands.h"
#include "options/run_options.h"

typedef struct reply {
    bool done;
    const hearth_result *result; /* a reference */
} reply;

typedef struct one {
    hth_run *run;
    uint32_t n;
    /* the time of the first piece of text; owned by the scheduler's thread until the reply is done */
    uint64_t first_text_ns;
    bool output_failed; /* likewise */

    /* Guards the fields below. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t request_id; /* of the first reply; the others have the next ids; 0 before the submit */
    reply *replies;      /* [n] */
} one;

/* ---- callbacks ---- */

static void show_prefill(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    one *o = user_data;
    char detail[64];

    (void)id; /* there is one prompt */
    (void)snprintf(detail, sizeof(detail), "%" PRIu32 " of %" PRIu32 " tokens", n_done, n_total); /* sized for it */
    hth_progress_draw(&o->run->model.open.progress, phase == HEARTH_PHASE_RESTORE ? "restoring" : "reading prompt",
                      (double)n_done / n_total, detail);
    if (n_done == n_total)
        hth_progress_end(&o->run->model.open.progress);
}

static bool show_text(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    one *o = user_data;

    (void)id; /* several replies are not streamed */
    if (o->first_text_ns == 0) {
        o->first_text_ns = hth_os_monotonic_ns();
        hth_progress_end(&o->run->model.open.progress);
    }
    if (o->run->options.json || o->n > 1)
        return true;
    if (hth_output_reply(&o->run->wrap, text, n_bytes) && fflush(stdout) == 0)
        return true;
    o->output_failed = true;
    return false;
}

static void take_result(uint64_t id, const hearth_result *result, void *user_data)
{
    one *o = user_data;
    reply *r;

    pthread_mutex_lock(&o->lock); /* submit() holds the lock until the id is known */
    r = &o->replies[id - o->request_id];
    r->result = hearth_result_ref(result);
    r->done = true;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

static void cancel(void *user_data)
{
    one *o = user_data;

    pthread_mutex_lock(&o->lock);
    for (uint32_t i = 0; o->request_id != 0 && i < o->n; i++)
        (void)hearth_cancel(o->run->model.open.model, o->request_id + i, NULL); /* not found: it has just ended */
    pthread_mutex_unlock(&o->lock);
}

/* ---- output ---- */

/* verbose: print all digits of the key. */
static void print_statistics(const hearth_result *result, bool verbose)
{
    const hearth_stats *stats = result->stats;
    char key[65];
    char from[48] = "";

    hth_hex_encode(stats->finish_key, sizeof(stats->finish_key), key);
    if (!verbose)
        key[HTH_CACHE_KEY_DIGITS] = '\0';
    if (stats->hit != HEARTH_HIT_NONE)
        (void)snprintf(from, sizeof(from), " (%s, %s)", hearth_hit_name(stats->hit), hearth_tier_name(stats->tier));
    (void)fprintf(stderr,
                  "hearth: %" PRIu32 " prompt tokens, %" PRIu32
                  " cached%s; restore %.1f ms, prefill %.1f ms, first token "
                  "%.1f ms; %" PRIu32 " tokens at %.1f/s; finish key %s\n",
                  stats->prompt_tokens, stats->cached_tokens, from, stats->restore_ms, stats->prefill_ms,
                  stats->ttft_ms, stats->completion_tokens, stats->decode_tps, stats->finish_tokens ? key : "none");
}

/* Does a reply have content to show, even if it was cut short? */
static bool has_outcome(const hearth_result *result)
{
    return result->status == HEARTH_OK || result->status == HEARTH_CANCELLED || result->status == HEARTH_TIMED_OUT;
}

static bool write_json(const one *o, uint32_t index, const hearth_result *result)
{
    uint64_t first_ns = o->first_text_ns ? o->first_text_ns : hth_os_monotonic_ns();
    json_t *object = hth_result_json(result, o->run->model.open.model);

    json_object_set_new(object, "since_start_ms", hth_milliseconds_json((double)(first_ns - o->run->begin_ns) / 1e6));
    json_object_set_new(object, "load_ms", hth_milliseconds_json(o->run->load_ms));
    if (o->n > 1)
        json_object_set_new(object, "index", json_integer(index));
    return hth_json_print(object, o->n > 1);
}

static bool write_text(const one *o, uint32_t index, const hearth_result *result)
{
    bool written = true;

    if (o->n > 1) {
        (void)fprintf(stderr, "--- reply %" PRIu32 " of %" PRIu32 ", seed %" PRIu64 " ---\n", index + 1, o->n,
                      result->seed); /* only a display */
        hth_word_wrap_restart(&o->run->wrap);
        written = hth_output_reply(&o->run->wrap, result->text, result->n_bytes);
    }
    written = hth_output_reply_flush(&o->run->wrap) && written;
    if (result->n_bytes > 0 && result->text[result->n_bytes - 1] != '\n')
        written = written && putchar('\n') != EOF;
    return written && fflush(stdout) == 0;
}

/* Write the rest of a complete reply. False if it failed or could not be written. */
static bool conclude(const one *o, uint32_t index, const hearth_result *result)
{
    const hth_run_options *options = &o->run->options;
    bool written = true;

    if (!options->json)
        written = write_text(o, index, result);
    else if (has_outcome(result))
        written = write_json(o, index, result);
    if (!written || o->output_failed) {
        (void)hth_output_end(HTH_EXIT_FAILED); /* reports it */
        return false;
    }
    if (result->status != HEARTH_OK && result->status != HEARTH_CANCELLED)
        hth_say_error(&result->error);
    if (!has_outcome(result))
        return false;
    if (options->has_parent_key && result->stats->hit != HEARTH_HIT_RESUME && !options->quiet && index == 0)
        (void)fputs("hearth: warning: the prompt does not continue the conversation of --parent-key, or the cache has "
                    "no rows of that key; the longest known prefix was used\n",
                    stderr);
    if (!options->quiet && !options->json)
        print_statistics(result, options->verbose);
    return result->status != HEARTH_TIMED_OUT;
}

/* ---- the request ---- */

static bool submit(one *o)
{
    hth_run_options *options = &o->run->options;
    char *text = options->prompt ? strdup(options->prompt) : hth_text_file_read(options->prompt_file);
    hearth_request request = hth_run_options_request(options);
    hearth_error err = { .message = "" };
    hearth_status status =
        text ? hth_prompt_render(o->run->model.open.model, options, text, &request, &err) : HEARTH_IO; /* said */
    uint64_t id = 0;

    if (text && status != HEARTH_OK)
        hth_say_error(&err);
    if (status != HEARTH_OK) {
        free(text);
        return false;
    }
    request.on_text = show_text;
    request.on_progress = show_prefill;
    request.on_done = take_result;
    request.user_data = o;
    /* The lock keeps on_done and Ctrl-C out until the id of the request is stored. */
    pthread_mutex_lock(&o->lock);
    status = hearth_submit(o->run->model.open.model, &request, &id, &err);
    if (status == HEARTH_OK)
        o->request_id = id;
    pthread_mutex_unlock(&o->lock);
    hearth_chat_prompt_free(request.chat);
    free(text);
    if (status != HEARTH_OK)
        hth_say_error(&err);
    return status == HEARTH_OK;
}

/* Write each reply once it and those before it are complete. */
static bool write_replies(one *o)
{
    bool ok = true;

    for (uint32_t i = 0; i < o->n; i++) {
        pthread_mutex_lock(&o->lock);
        while (!o->replies[i].done)
            pthread_cond_wait(&o->changed, &o->lock);
        pthread_mutex_unlock(&o->lock);
        hth_progress_end(&o->run->model.open.progress);
        ok = conclude(o, i, o->replies[i].result) && ok;
        hearth_result_unref(o->replies[i].result);
    }
    return ok;
}

int hth_run_one(hth_run *run)
{
    one o = { .run = run, .n = run->options.request.n };
    bool ok;

    o.replies = calloc(o.n, sizeof(*o.replies));
    if (!o.replies)
        return hth_say("no memory", HTH_EXIT_FAILED);
    pthread_mutex_init(&o.lock, NULL);
    pthread_cond_init(&o.changed, NULL);
    ok = submit(&o);
    if (ok) {
        hth_own_model_on_interrupt(&run->model, cancel, &o);
        ok = write_replies(&o);
        hth_own_model_on_interrupt(&run->model, NULL, NULL);
    }
    pthread_cond_destroy(&o.changed);
    pthread_mutex_destroy(&o.lock);
    free(o.replies);
    if (!ok)
        return HTH_EXIT_FAILED;
    return atomic_load(&run->model.interrupted) ? HTH_EXIT_INTERRUPTED : HTH_EXIT_OK;
}
