/*
 * model_worker_needs.c - the memory that a model will take, asked before it is loaded
 *
 * A short-lived process of the worker's program reads the metadata of the model and tells its needs (measure.h). A
 * model that waits for its place is not planned before that. The answer is kept (learned.h), and nobody asks again
 * while file and options are the same. Without an answer, the size of the files and a base for the process stand for
 * the needs. After a process that was killed, by a signal or because it was late, another one is asked, later each
 * time.
 */
#include <assert.h>
#include <string.h>

#include "base/os.h"
#include "base/status.h"
#include "supervisor/model_worker_inside.h"
#include "wire/needs_text.h"

enum {
    ASKED_MAX = 2,            /* processes that answer at once, for all models */
    TIMES_MAX = 5,            /* a model is asked about so often */
    TURN_TIMES = 3,           /* a model waits for so many times the longest answer for its turn to be asked about */
    PROCESS_BYTES = 32 << 20, /* of a process, besides weights, cells and buffers, until one tells it: 20 to 30 MiB */
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
    worker->n_killed = 0;
    worker->ask_ns = 0;
    worker->answered_ns = 0;
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
    hth_worker_shared *shared = worker->shared;

    if (!worker->asked)
        return;
    hth_worker_process_abandon(worker->asked); /* one that hangs in the system may end much later */
    assert(shared->n_abandoned < HTH_ABANDONED_MAX);
    shared->abandoned[shared->n_abandoned++] = worker->asked;
    worker->asked = NULL;
    shared->n_asked--;
    hth_worker_shared_reap(shared);
}

void hth_worker_shared_reap(hth_worker_shared *shared)
{
    unsigned n = 0;

    for (unsigned i = 0; i < shared->n_abandoned; i++) {
        if (hth_worker_process_has_ended(shared->abandoned[i]))
            hth_worker_process_free(shared->abandoned[i]);
        else
            shared->abandoned[n++] = shared->abandoned[i];
    }
    shared->n_abandoned = n;
}

static uint64_t answer_ns(const hth_model_worker *worker)
{
    return hth_ms_to_ns(worker->shared->options->needs_timeout_ms);
}

bool hth_model_worker_waited_long(const hth_model_worker *worker)
{
    return worker->wished_ns > 0 && hth_os_monotonic_ns() > worker->wished_ns + TURN_TIMES * answer_ns(worker);
}

/* Nobody answered this time. */
static void ask_later(hth_model_worker *worker, uint64_t now_ns)
{
    worker->n_killed++;
    worker->was_asked = worker->n_killed >= TIMES_MAX;
    worker->ask_ns = now_ns + (hth_ms_to_ns(worker->shared->options->needs_again_ms) << worker->n_killed);
}

static void on_needs(const char *line, void *user_data)
{
    hth_model_worker *worker = user_data;

    if (worker->answer.n_ctx == 0 && !hth_needs_read(line, &worker->answer))
        hth_log_line(worker->shared->log, HEARTH_LOG_DEBUG, "hearth", "model '%s': strange needs: %s", worker->name,
                     line);
}

/*
 * Must it be asked, although its needs are kept? They do not tell what other programs left free since then: before the
 * first model is on a device, and where others had much of it, once for each entry. A choice that was made to fit into
 * less is made anew.
 */
static bool must_look(const hth_model_worker *worker, uint64_t now_ns)
{
    const hth_worker_shared *shared = worker->shared;
    const hth_model_needs *needs = &worker->learned.needs;

    if (!is_known(worker) || shared->options->device_memory_bytes > 0)
        return false;
    if (worker->answered_ns == 0 && hth_device_pools_are_unseen(&shared->seen, needs))
        return true;
    if (needs->fit.n_layers_max > 0 && worker->n_sights != shared->n_sights)
        return true;
    return worker->answered_ns < worker->wished_ns &&
           (worker->answered_ns == 0 ||
            now_ns >= worker->answered_ns + hth_ms_to_ns(shared->options->needs_again_ms)) &&
           shared->may_see_more(needs, shared->user_data);
}

bool hth_model_worker_ask(hth_model_worker *worker)
{
    const uint64_t now_ns = hth_os_monotonic_ns();
    hearth_error err = { .message = "" };

    if (worker->asked)
        return true;
    if ((worker->was_asked && !must_look(worker, now_ns)) || now_ns < worker->ask_ns)
        return false;
    if (hth_model_worker_waited_long(worker)) /* for a turn, or its file changes all the time */
        return false;
    if (worker->shared->n_asked >= ASKED_MAX ||
        worker->shared->n_asked + worker->shared->n_abandoned >= HTH_ABANDONED_MAX)
        return true;
    worker->answer = (hth_model_needs){ .n_ctx = 0 };
    worker->asked_ns = now_ns;
    if (hth_worker_process_start(&(hth_worker_process_options){ .base = worker->shared->base,
                                                                .program = worker->shared->program,
                                                                .name = worker->name,
                                                                .worker = (const char *const *)worker->arguments,
                                                                .ram_fd = -1,
                                                                .no_sandbox = worker->no_sandbox,
                                                                .measures = true,
                                                                .seen = &worker->shared->seen,
                                                                .on_needs = on_needs,
                                                                .user_data = worker },
                                 &worker->asked, &err) == HEARTH_OK) {
        worker->shared->n_asked++;
        return true;
    }
    hth_warn(worker->shared->log, "model '%s': nobody can be asked for the memory that it takes: %s", worker->name,
             err.message);
    ask_later(worker, now_ns);
    return false;
}

void hth_model_worker_take_answer(hth_model_worker *worker, uint64_t now_ns)
{
    char cause[HTH_CAUSE_BYTES] = "no answer in time";
    bool has_ended;

    if (!worker->asked)
        return;
    has_ended = hth_worker_process_has_ended(worker->asked);
    if (!has_ended && now_ns <= worker->asked_ns + answer_ns(worker))
        return;
    worker->was_asked = true;
    worker->answered_ns = now_ns;
    if (worker->answer.n_ctx > 0) {
        worker->learned.needs = worker->answer;
        worker->shared->on_needs(&worker->answer, worker->shared->user_data);
        hth_learned_note(worker->shared->learned, worker->key, &worker->learned);
    } else if (!is_known(worker)) {
        if (!has_ended || hth_worker_process_was_killed(worker->asked))
            ask_later(worker, now_ns);
        if (has_ended)
            hth_worker_process_last_lines(worker->asked, cause, sizeof(cause));
        hth_log_line(worker->shared->log, HEARTH_LOG_DEBUG, "hearth",
                     "model '%s': the size of its file counts, because its needs are unknown: %s", worker->name, cause);
    }
    worker->n_sights = worker->shared->n_sights; /* with those of this answer */
    hth_model_worker_stop_asking(worker);
    worker->shared->on_change(worker->shared->user_data);
}

uint64_t hth_model_worker_host_bytes(const hth_model_worker *worker)
{
    const hth_model_needs *needs = &worker->learned.needs;
    /* Weights, cells and buffers that nobody has used yet are not in memory, but they may be soon. */
    const uint64_t least = is_known(worker) ? hth_needs_host_bytes(needs) : worker->file_bytes + PROCESS_BYTES;

    return worker->bytes > least ? worker->bytes : least;
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
