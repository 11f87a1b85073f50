/*
 * model_worker_needs.c - the memory that a model will take, asked before it is loaded
 *
 * A short-lived process of the worker's program reads the metadata of the model and tells its needs (measure.h). A
 * model that waits for its place is not planned before that. The answer is kept (learned.h), and nobody asks again
 * while file and options are the same. Without an answer, the size of the files stands for the needs.
 */
#include <string.h>

#include "base/os.h"
#include "base/status.h"
#include "server/model_worker_inside.h"
#include "server/needs_text.h"

enum {
    ASK_MS = 30000, /* longest time for an answer */
    ASKED_MAX = 2,  /* processes that answer at once, for all models */
};

static bool is_known(const hth_model_worker *worker)
{
    return worker->learned.needs.n_ctx > 0;
}

void hth_model_worker_recall(hth_model_worker *worker)
{
    uint8_t key[HTH_LEARNED_KEY_BYTES];
    const bool has_key = hth_learned_key(worker->path, (const char *const *)worker->arguments, key);

    if (has_key == worker->has_key && (!has_key || memcmp(key, worker->key, sizeof(key)) == 0))
        return;
    hth_model_worker_stop_asking(worker);
    worker->has_key = has_key;
    worker->was_asked = !has_key;
    worker->bytes = 0;
    worker->measures = false;
    worker->has_worked = false;
    worker->learned = (hth_learned_model){ .bytes = 0 };
    if (!has_key)
        return;
    memcpy(worker->key, key, sizeof(key));
    if (!hth_learned_find(worker->shared->learned, key, &worker->learned))
        return;
    worker->bytes = worker->learned.bytes;
    worker->was_asked = is_known(worker);
}

void hth_model_worker_stop_asking(hth_model_worker *worker)
{
    if (!worker->asked)
        return;
    hth_worker_process_free(worker->asked);
    worker->asked = NULL;
    worker->shared->n_asked--;
}

static void on_needs(const char *line, void *user_data)
{
    hth_model_worker *worker = user_data;

    if (!is_known(worker) && !hth_needs_read(line, &worker->answer))
        hth_log_line(worker->shared->log, HEARTH_LOG_DEBUG, "hearth", "model '%s': strange needs: %s", worker->name,
                     line);
}

bool hth_model_worker_ask(hth_model_worker *worker)
{
    hearth_error err = { .message = "" };

    if (worker->was_asked)
        return false;
    if (worker->asked || worker->shared->n_asked >= ASKED_MAX)
        return true;
    worker->answer = (hth_model_needs){ .n_ctx = 0 };
    worker->asked_ns = hth_os_monotonic_ns();
    if (hth_worker_process_start(&(hth_worker_process_options){ .base = worker->shared->base,
                                                                .program = worker->shared->program,
                                                                .name = worker->name,
                                                                .worker = (const char *const *)worker->arguments,
                                                                .ram_fd = -1,
                                                                .no_sandbox = worker->no_sandbox,
                                                                .measures = true,
                                                                .on_needs = on_needs,
                                                                .user_data = worker },
                                 &worker->asked, &err) == HEARTH_OK) {
        worker->shared->n_asked++;
        return true;
    }
    hth_warn(worker->shared->log, "model '%s': nobody can be asked for the memory that it takes: %s", worker->name,
             err.message);
    worker->was_asked = true;
    return false;
}

void hth_model_worker_take_answer(hth_model_worker *worker, uint64_t now_ns)
{
    char cause[HTH_CAUSE_BYTES];

    if (!worker->asked)
        return;
    if (now_ns > worker->asked_ns + hth_ms_to_ns(ASK_MS))
        hth_worker_process_kill(worker->asked);
    if (!hth_worker_process_has_ended(worker->asked))
        return;
    worker->was_asked = true;
    if (worker->answer.n_ctx > 0) {
        worker->learned.needs = worker->answer;
        hth_learned_note(worker->shared->learned, worker->key, &worker->learned);
    } else {
        hth_worker_process_last_lines(worker->asked, cause, sizeof(cause));
        hth_log_line(worker->shared->log, HEARTH_LOG_DEBUG, "hearth",
                     "model '%s': the size of its file counts, because its needs are unknown: %s", worker->name, cause);
    }
    hth_model_worker_stop_asking(worker);
    worker->shared->on_change(worker->shared->user_data);
}

uint64_t hth_model_worker_own_bytes(const hth_model_worker *worker)
{
    const hth_model_needs *needs = &worker->learned.needs;
    /* Weights that nobody has used yet are not in memory, but they may be soon. */
    const uint64_t least = !is_known(worker)         ? worker->file_bytes
                         : worker->learned.bytes > 0 ? needs->memory.host.weight_bytes
                                                     : hth_needs_host_bytes(needs);

    return (worker->bytes > least ? worker->bytes : least) + hth_needs_device_bytes(needs);
}

void hth_model_worker_learn(hth_model_worker *worker, uint64_t bytes)
{
    if (bytes > worker->bytes)
        worker->bytes = bytes;
    if (!worker->has_key || !worker->has_worked || worker->bytes <= worker->learned.bytes + worker->learned.bytes / 64)
        return;
    worker->learned.bytes = worker->bytes;
    hth_learned_note(worker->shared->learned, worker->key, &worker->learned);
}
