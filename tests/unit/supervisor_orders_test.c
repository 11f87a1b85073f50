/*
 * supervisor_orders_test.c - workers that are told to stop or to start again, a new configuration, and the end of the
 * front
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/restart_policy.h"
#include "support/supervisor_stage.h"

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

/* ---- orders ---- */

static void on_stopped(void *user_data)
{
    fixture *f = user_data;

    f->is_stopped = true;
}

FIXTURE_TEST(workers_are_stopped_in_order_and_those_who_wait_are_told)
{
    asker a = asker_of(f), b = asker_of(f);

    (void)add(f, "m", WORDS("ready"));
    (void)add(f, "loading", WORDS("say=loading 0.1"));
    add(f, "lazy", WORDS("ready"))->rules.start = HTH_START_ON_DEMAND;
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    want(f, "loading", 0, &a);
    hth_supervisor_stop(f->supervisor, 60000, on_stopped, f);
    assert_int_equal(a.n_failed, 1);
    assert_int_equal(a.err.status, HEARTH_BUSY);
    want(f, "m", 0, &b);
    assert_int_equal(b.n_failed, 1);
    run_until(f, f->is_stopped);
    assert_int_equal(view(f, 0).state, HTH_WORKER_STOPPED);
    assert_int_equal(view(f, 0).n_deaths, 0);
    assert_int_equal(view(f, 1).n_deaths, 0);
    assert_int_equal(view(f, 0).pid, 0);
}

FIXTURE_TEST(a_worker_that_does_not_end_when_asked_is_killed)
{
    (void)add(f, "m", WORDS("ignore-term", "ready"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    hth_supervisor_stop(f->supervisor, 200, on_stopped, f);
    run_until(f, f->is_stopped);
    assert_string_equal(view(f, 0).last_death, "killed, since it did not end in time when asked to");
    assert_int_equal(view(f, 0).n_deaths, 0);
}

/* As when its process was stopped, or the machine had no time for it. */
FIXTURE_TEST(a_worker_that_hangs_while_it_is_to_end_keeps_nobody_waiting)
{
    asker a = asker_of(f);
    hearth_error err;

    f->options.hang_ms = 1000;
    f->options.relay.wait_timeout_ms = 20000; /* less than what a worker may take to end in order */
    (void)add(f, "m", WORDS("ready"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    send_signal(view(f, 0).pid, SIGSTOP);
    assert_int_equal(hth_supervisor_restart(f->supervisor, "m", &err), HEARTH_OK);
    want(f, "m", 0, &a);
    run_until(f, a.n_ready + a.n_failed == 1);
    assert_int_equal(a.n_ready, 1);
    assert_int_equal(a.generation, 2);
    assert_string_equal(view(f, 0).last_death, "killed, since it stood still when asked to end");
}

/* It has no requests to end and nothing to save, and its loop has not turned yet. */
FIXTURE_TEST(a_worker_that_hangs_at_its_start_when_it_is_to_end_keeps_nobody_waiting)
{
    siginfo_t stopped;
    hearth_error err;

    f->options.hang_ms = 1000;
    (void)add(f, "m", WORDS("say=loading 0.1"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_STARTING) && view(f, 0).pid > 0);
    send_signal(view(f, 0).pid, SIGSTOP);
    /* Until it has stopped, SIGTERM would end it, because it has no handler yet. */
    assert_int_equal(waitid(P_PID, (id_t)view(f, 0).pid, &stopped, WSTOPPED | WNOWAIT), 0);
    assert_int_equal(hth_supervisor_restart(f->supervisor, "m", &err), HEARTH_OK);
    run_until(f, view(f, 0).n_starts == 2);
    assert_string_equal(view(f, 0).last_death, "killed, since it did not end in time when asked to");
    assert_int_equal(view(f, 0).n_deaths, 0);
}

FIXTURE_TEST(a_restart_is_no_death)
{
    asker a = asker_of(f);
    hearth_error err;

    (void)add(f, "m", WORDS("ready"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    assert_int_equal(hth_supervisor_restart(f->supervisor, "m", &err), HEARTH_OK);
    assert_int_equal(view(f, 0).state, HTH_WORKER_STOPPING);
    want(f, "m", 0, &a); /* waits for the next */
    run_until(f, a.n_ready == 1);
    assert_int_equal(a.generation, 2);
    assert_int_equal(view(f, 0).n_deaths, 0);
    assert_int_equal(view(f, 0).n_starts, 2);
}

FIXTURE_TEST(a_reload_adds_removes_and_restarts_what_changed_and_leaves_the_others_alone)
{
    hth_server_options options = f->options;
    hth_server_model models[3];
    const char *changed[] = { "--do", "ready", "--more", "1", NULL };
    asker a = asker_of(f);
    int kept_pid;

    (void)add(f, "gone", WORDS("say=loading 0.1"));
    (void)add(f, "kept", WORDS("ready"));
    (void)add(f, "changed", WORDS("ready"));
    add(f, "new", WORDS("ready"));
    f->options.n_models = 3;
    start(f);
    want(f, "gone", 0, &a);
    run_until(f, is_in(f, 1, HTH_WORKER_READY) && is_in(f, 2, HTH_WORKER_READY));
    kept_pid = view(f, 1).pid;

    models[0] = (hth_server_model){ .name = "changed", .worker = changed };
    models[1] = f->models[3];
    models[2] = f->models[1];
    options.models = models;
    options.n_models = 3;
    hth_supervisor_reconfigure(f->supervisor, &options);
    assert_int_equal(a.n_failed, 1);
    assert_int_equal(a.err.status, HEARTH_NOT_FOUND);
    assert_int_equal(hth_supervisor_n(f->supervisor), 3);
    run_until(f, is_in(f, 0, HTH_WORKER_READY) && is_in(f, 1, HTH_WORKER_READY));
    assert_string_equal(view(f, 0).model, "changed");
    assert_int_equal(view(f, 0).generation, 2);
    assert_string_equal(view(f, 1).model, "new");
    assert_string_equal(view(f, 2).model, "kept");
    assert_int_equal(view(f, 2).pid, kept_pid);

    /* What is taken away and comes back while it still ends goes on. */
    options.n_models = 2;
    hth_supervisor_reconfigure(f->supervisor, &options);
    options.n_models = 3;
    hth_supervisor_reconfigure(f->supervisor, &options);
    run_until(f, is_in(f, 2, HTH_WORKER_READY));
    assert_string_equal(view(f, 2).model, "kept");
    assert_int_not_equal(view(f, 2).pid, kept_pid);
    hth_supervisor_free(f->supervisor); /* before its options go */
    f->supervisor = NULL;
}

FIXTURE_TEST(one_model_more_or_fewer_leaves_the_others_alone)
{
    int pid;

    (void)add(f, "a", WORDS("ready"));
    (void)add(f, "b", WORDS("ready"));
    f->options.n_models = 1;
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    pid = view(f, 0).pid;
    f->words[0][1] = "say=ready"; /* a reload would restart it */
    f->options.n_models = 2;
    hth_supervisor_set_models(f->supervisor, &f->options);
    run_until(f, is_in(f, 1, HTH_WORKER_READY));
    f->options.n_models = 1;
    hth_supervisor_set_models(f->supervisor, &f->options);
    assert_int_equal(hth_supervisor_n(f->supervisor), 1);
    assert_int_equal(view(f, 0).pid, pid);
    assert_true(is_in(f, 0, HTH_WORKER_READY));
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    run_until(f, is_in(f, 0, HTH_WORKER_READY) && view(f, 0).n_starts == 2);
}

/* ---- the end of the front ---- */

FIXTURE_TEST(workers_do_not_outlive_a_front_that_is_killed)
{
    char word[600], byte;
    int wait_status, fd;
    pid_t pid;

#ifdef __APPLE__
    skip(); /* there a real worker sees the end of its control socket; the fake one does not look */
#endif
    assert_int_equal(mkfifo(f->path, 0600), 0);
    fd = open(f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    (void)snprintf(word, sizeof(word), "hold=%s", f->path);
    (void)add(f, "m", WORDS("ignore-term", word, "ready"));
    f->options.runtime_directory = f->directory; /* what the killed one leaves goes with the test */
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        hearth_error err;

        if (event_reinit(f->base) != 0 || hth_supervisor_new(f->base, HTH_TEST_FAKE_WORKER, &f->options, &f->log, NULL,
                                                             &f->supervisor, &err) != HEARTH_OK)
            _exit(1);
        (void)event_base_dispatch(f->base);
        _exit(2);
    }
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0); /* wait from here on */
    while (read(fd, &byte, 1) != 1)             /* 0 while nobody has it open yet */
        (void)usleep(10000);
    send_signal(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_int_equal(read(fd, &byte, 1), 0); /* the worker held the other end */
    assert_int_equal(close(fd), 0);
}

/* ---- everything at once ---- */

FIXTURE_TEST(whatever_is_done_to_workers_each_request_is_answered_once)
{
    enum { ASKERS = 40, STEPS = 300 };
    asker askers[ASKERS];
    bool is_out[ASKERS] = { false };
    uint64_t seed = hth_test_seed();
    hearth_error err;

    f->options.hang_ms = 5000;
    f->options.relay.wait_timeout_ms = 2000;
    (void)add(f, "a", WORDS("ready"));
    (void)add(f, "b", WORDS("ready", "say=ready"));
    (void)add(f, "c", WORDS("say=failed no such file", "exit=1"));
    f->options.drain_timeout_ms = 100;
    start(f);
    for (int step = 0; step < STEPS; step++) {
        const char *model = (const char *[]){ "a", "b", "c" }[hth_test_random(&seed, 3)];
        size_t i = (size_t)(model[0] - 'a');
        size_t k = hth_test_random(&seed, ASKERS);
        hth_worker_view v = view(f, i);

        switch (hth_test_random(&seed, 8)) {
        case 0:
            if (v.pid > 0)
                (void)kill(v.pid, SIGKILL);
            break;
        case 1: hth_supervisor_note_broken(f->supervisor, model, v.generation); break;
        case 2:
            if (hth_test_random(&seed, 4) == 0)
                assert_int_equal(hth_supervisor_restart(f->supervisor, model, &err), HEARTH_OK);
            break;
        case 3:
            if (is_out[k] && askers[k].waiter.list) {
                hth_worker_waiter_cancel(&askers[k].waiter);
                is_out[k] = false;
            }
            break;
        case 4:
            if (hth_test_random(&seed, 4) == 0) {
                f->models[1].rules.start = !f->models[1].rules.start;
                f->models[0].ram_bytes = hth_test_random(&seed, 2) * 4096;
                hth_supervisor_reconfigure(f->supervisor, &f->options);
            }
            break;
        default:
            if (is_out[k] && askers[k].waiter.list)
                break;
            askers[k] = asker_of(f);
            is_out[k] = true;
            want(f, model, hth_test_random(&seed, 3) == 0 ? v.generation : 0, &askers[k]);
            break;
        }
        assert_true(event_base_loop(f->base, hth_test_random(&seed, 10) == 0 ? EVLOOP_ONCE : EVLOOP_NONBLOCK) >= 0);
        for (k = 0; k < ASKERS; k++) {
            if (is_out[k])
                assert_int_equal(askers[k].n_ready + askers[k].n_failed, askers[k].waiter.list ? 0 : 1);
        }
    }
    for (size_t k = 0; k < ASKERS; k++) {
        if (is_out[k])
            run_until(f, !askers[k].waiter.list);
    }
    hth_supervisor_stop(f->supervisor, 100, on_stopped, f);
    run_until(f, f->is_stopped);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(view(f, i).state, HTH_WORKER_STOPPED);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    assert_int_equal(errno, ECHILD);
}
