/*
 * model_worker_watch.c - looks for hangs and time-outs of a worker
 *
 * The front counts only the silence that it has watched itself. When its own loop was held up (a suspended laptop, an
 * overloaded machine), it counts ages on the status page from the moment when the loop turned again.
 */
#include <stdio.h>

#include "base/os.h"
#include "base/status.h"
#include "supervisor/model_worker_inside.h"

enum {
    LOOP_HANG_MS = 10000, /* an event loop hangs after so long, or after hang_ms if that is less */
    DOUBT_MS = 1000,      /* after a broken connection, the loop must turn within this time */
};

static void fail_late(const hth_model_worker *worker, hearth_error *err)
{
    char death[HTH_CAUSE_BYTES + 32] = "";
    double wait_s = worker->shared->options->relay.wait_timeout_ms / 1e3;

    if (worker->last_cause[0])
        (void)snprintf(death, sizeof(death), "; it failed before: %s", worker->last_cause);
    if (worker->state == HTH_WORKER_STARTING)
        (void)hth_fail(err, HEARTH_TIMED_OUT, "model '%s' was not ready within %.4g s: it is loading (%.0f %%)%s",
                       worker->name, wait_s, 100.0 * (double)worker->progress, death);
    else if (worker->state == HTH_WORKER_STOPPED || worker->is_closed)
        (void)hth_fail(err, HEARTH_TIMED_OUT,
                       "model '%s' was not ready within %.4g s: the models that are in use leave no memory for it%s",
                       worker->name, wait_s, death);
    else
        (void)hth_fail(err, HEARTH_TIMED_OUT, "model '%s' was not ready within %.4g s: its worker is %s%s",
                       worker->name, wait_s, hth_worker_state_name(worker->state), death);
}

/* ---- hangs and time-outs ---- */

/* The part of an age that the front has watched. */
static uint64_t watched_ms(const hth_model_worker *worker, uint64_t age_ns, uint64_t now_ns)
{
    uint64_t watched_ns = now_ns - worker->shared->watching_since_ns;

    return (age_ns < watched_ns ? age_ns : watched_ns) / 1000000;
}

uint32_t hth_model_worker_loop_hang_ms(const hth_model_worker *worker)
{
    uint32_t hang_ms = worker->shared->options->hang_ms;

    return hang_ms < LOOP_HANG_MS ? hang_ms : LOOP_HANG_MS;
}

static void look_for_hangs(hth_model_worker *worker, uint64_t now_ns)
{
    uint32_t hang_ms = worker->shared->options->hang_ms;
    uint32_t start_timeout_ms = worker->shared->options->start_timeout_ms;
    const uint32_t loop_hang_ms = hth_model_worker_loop_hang_ms(worker);
    uint64_t tick_ns, loop_ns;
    char verdict[HTH_CAUSE_BYTES];

    hth_status_page_read_pulse(worker->page, &tick_ns, &loop_ns);
    if (loop_ns == UINT64_MAX)
        loop_ns = 0; /* it does not turn at the very start, nor at the end of the worker */
    else if (worker->state == HTH_WORKER_READY && loop_ns > now_ns - worker->ready_ns)
        loop_ns = now_ns - worker->ready_ns; /* it may not have turned since */
    if (hang_ms > 0 && watched_ms(worker, tick_ns, now_ns) > hang_ms) {
        (void)snprintf(verdict, sizeof(verdict), "an evaluation took longer than %.4g s", hang_ms / 1e3);
        hth_model_worker_condemn(worker, true, verdict);
    } else if (hang_ms > 0 && watched_ms(worker, loop_ns, now_ns) > loop_hang_ms) {
        (void)snprintf(verdict, sizeof(verdict), "it did not answer for %.4g s", loop_hang_ms / 1e3);
        hth_model_worker_condemn(worker, true, verdict);
    } else if (worker->state == HTH_WORKER_STARTING && start_timeout_ms > 0 &&
               watched_ms(worker, now_ns - worker->progress_ns, now_ns) > start_timeout_ms) {
        (void)snprintf(verdict, sizeof(verdict), "loading did not go on for %.4g s (at %.0f %%)",
                       start_timeout_ms / 1e3, 100.0 * (double)worker->progress);
        hth_model_worker_condemn(worker, true, verdict);
    }
}

/* An orderly end may take until kill_ns. A worker whose loop stands still is killed at once. */
static void look_after_ending(hth_model_worker *worker, uint64_t now_ns)
{
    const uint32_t loop_hang_ms = hth_model_worker_loop_hang_ms(worker);
    uint64_t tick_ns, loop_ns;
    bool stands_still;

    hth_status_page_read_pulse(worker->page, &tick_ns, &loop_ns);
    stands_still = loop_hang_ms > 0 && loop_ns < UINT64_MAX && watched_ms(worker, loop_ns, now_ns) > loop_hang_ms;
    if (now_ns < worker->kill_ns && !stands_still)
        return;
    worker->kill_ns = 0;
    (void)snprintf(worker->verdict, sizeof(worker->verdict), "killed, since it %s",
                   stands_still ? "stood still when asked to end" : "did not end in time when asked to");
    hth_worker_process_kill(worker->process);
}

/* A connection of this worker broke: has its loop turned since? Also with hang_ms 0, since the worker may be dying. */
static void settle_doubt(hth_model_worker *worker, uint64_t now_ns)
{
    uint64_t doubted_for_ns = now_ns - worker->doubted_ns;
    uint64_t tick_ns, loop_ns;

    hth_status_page_read_pulse(worker->page, &tick_ns, &loop_ns);
    if (loop_ns < doubted_for_ns) {
        hearth_error err;

        worker->doubted_ns = 0;
        (void)hth_fail(&err, HEARTH_BUSY,
                       "the worker of model '%s' broke a connection, though it is well; its log may "
                       "tell why",
                       worker->name);
        err.retry_after_s = 1;
        hth_waiters_tell_failed(&worker->waiters, worker->generation, &err);
    } else if (watched_ms(worker, doubted_for_ns, now_ns) > DOUBT_MS) {
        hth_model_worker_condemn(worker, true, "it broke a connection and did not answer any more");
    }
}

void hth_model_worker_tick(hth_model_worker *worker, uint64_t now_ns)
{
    hth_model_worker_reap(worker); /* SIGCHLD has mostly done this */
    if (worker->process)
        hth_worker_process_tick(worker->process);
    if ((worker->state == HTH_WORKER_WAITING || worker->state == HTH_WORKER_BROKEN) && now_ns >= worker->pause_end_ns)
        hth_model_worker_try_again(worker);
    hth_model_worker_look(worker, now_ns);
    if (worker->state == HTH_WORKER_STARTING || worker->state == HTH_WORKER_READY)
        look_for_hangs(worker, now_ns);
    if (worker->state == HTH_WORKER_READY && worker->doubted_ns > 0)
        settle_doubt(worker, now_ns);
    if (worker->state == HTH_WORKER_STOPPING && worker->kill_ns > 0)
        look_after_ending(worker, now_ns);
    if (hth_waiters_has_late(&worker->waiters, now_ns)) {
        hearth_error err;

        fail_late(worker, &err);
        hth_waiters_tell_late(&worker->waiters, now_ns, &err);
    }
}
