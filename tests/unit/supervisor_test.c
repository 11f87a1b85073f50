/*
 * supervisor_test.c - workers that die, hang and misbehave, and what the supervisor makes of it
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

/* ---- starting ---- */

FIXTURE_TEST(a_worker_is_started_and_those_who_wait_get_its_socket)
{
    asker a = asker_of(f), b = asker_of(f);
    hth_worker_view v;

    (void)add(f, "m", WORDS("log=hearth: warning: careful", "log=llama: error: bad", "say=loading 0.5", "ready"));
    start(f);
    want(f, "m", 0, &a);
    assert_int_equal(view(f, 0).n_waiters, 1);
    run_until(f, a.n_ready == 1);
    assert_int_equal(a.generation, 1);
    assert_true(exists(a.socket_path));
    want(f, "m", 0, &b); /* now it is ready: at once */
    assert_int_equal(b.n_ready, 1);
    assert_string_equal(b.socket_path, a.socket_path);
    run_until(f, strstr(f->logged, "m: llama: bad\n") &&
                     strstr(f->logged, "m: careful\n")); /* the worker's lines come with the model's name */
    v = view(f, 0);
    assert_string_equal(v.model, "m");
    assert_int_equal(v.state, HTH_WORKER_READY);
    assert_true(v.pid > 0);
    assert_int_equal(v.n_starts, 1);
    assert_int_equal(v.n_deaths, 0);
    assert_int_equal(v.n_waiters, 0);
    assert_true(v.status.loop_ns < UINT64_MAX);
    assert_string_equal(v.last_death, "");
}

FIXTURE_TEST(a_model_on_demand_starts_with_the_first_request)
{
    asker a = asker_of(f);

    add(f, "eager", WORDS("ready"));
    add(f, "lazy", WORDS("ready"))->rules.start = HTH_START_ON_DEMAND;
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    assert_int_equal(view(f, 1).state, HTH_WORKER_STOPPED);
    want(f, "lazy", 0, &a);
    run_until(f, a.n_ready == 1);
}

FIXTURE_TEST(a_worker_that_is_only_wanted_if_it_is_loaded_is_not_started_and_not_waited_for)
{
    asker a = asker_of(f);
    hearth_error err;

    add(f, "eager", WORDS("ready"));
    add(f, "lazy", WORDS("ready"))->rules.start = HTH_START_ON_DEMAND;
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    assert_int_equal(hth_supervisor_want_loaded(f->supervisor, "lazy", &a.waiter, &err), HEARTH_BUSY);
    assert_string_equal(err.message, "the model 'lazy' is not loaded");
    assert_int_equal(hth_supervisor_want_loaded(f->supervisor, "x", &a.waiter, &err), HEARTH_NOT_FOUND);
    assert_int_equal(view(f, 1).state, HTH_WORKER_STOPPED);
    assert_int_equal(view(f, 1).n_waiters, 0);
    assert_int_equal(a.n_ready, 0);
    assert_int_equal(hth_supervisor_want_loaded(f->supervisor, "eager", &a.waiter, &err), HEARTH_OK);
    assert_int_equal(a.n_ready, 1);
    hth_worker_waiter_cancel(&a.waiter);
    assert_int_equal(a.n_failed, 0);
}

FIXTURE_TEST(an_unknown_model_is_not_found)
{
    asker a = asker_of(f);
    hearth_error err;

    (void)add(f, "m", WORDS("ready"));
    start(f);
    assert_int_equal(hth_supervisor_want(f->supervisor, "x", 0, &a.waiter, &err), HEARTH_NOT_FOUND);
    assert_string_equal(err.message, "there is no model 'x' here");
    assert_int_equal(hth_supervisor_restart(f->supervisor, "x", &err), HEARTH_NOT_FOUND);
    assert_int_equal(hth_supervisor_load(f->supervisor, "x", &err), HEARTH_NOT_FOUND);
    hth_supervisor_note_broken(f->supervisor, "x", 1);
    assert_int_equal(a.n_ready + a.n_failed, 0);
}

FIXTURE_TEST(waiters_are_served_in_the_order_they_came_and_one_can_leave)
{
    asker all[5];
    unsigned order = 0;

    (void)add(f, "m", WORDS("ready"));
    start(f);
    for (int i = 0; i < 5; i++) {
        all[i] = asker_of(f);
        all[i].order = &order;
        want(f, "m", 0, &all[i]);
    }
    hth_worker_waiter_cancel(&all[0].waiter);
    hth_worker_waiter_cancel(&all[4].waiter);
    hth_worker_waiter_cancel(&all[2].waiter);
    hth_worker_waiter_cancel(&all[2].waiter); /* waits for nothing now */
    want(f, "m", 0, &all[0]);                 /* comes last */
    assert_int_equal(view(f, 0).n_waiters, 3);
    run_until(f, order == 3);
    assert_int_equal(all[1].turn, 1);
    assert_int_equal(all[3].turn, 2);
    assert_int_equal(all[0].turn, 3);
}

FIXTURE_TEST(a_waiter_that_waits_too_long_is_told_what_the_worker_does)
{
    asker a = asker_of(f);
    char text[HTH_WAIT_TEXT_BYTES];

    f->options.relay.wait_timeout_ms = 100;
    (void)add(f, "m", WORDS("say=loading 0.25"));
    start(f);
    run_until(f, view(f, 0).load_progress > 0);
    want(f, "m", 0, &a);
    hth_supervisor_tell_wait(f->supervisor, "m", 0, text);
    assert_string_equal(text, "loading 25%");
    run_until(f, a.n_failed == 1);
    assert_int_equal(a.err.status, HEARTH_TIMED_OUT);
    assert_string_equal(a.err.message, "model 'm' was not ready within 0.1 s: it is loading (25 %)");
    send_signal(view(f, 0).pid, SIGKILL);
    run_until(f, view(f, 0).n_deaths == 1);
    hth_supervisor_tell_wait(f->supervisor, "m", 0, text);
    assert_string_equal(text, "waiting for another worker");
}

FIXTURE_TEST(a_request_that_its_worker_has_waits_while_the_file_is_hashed)
{
    char text[HTH_WAIT_TEXT_BYTES];

    (void)add(f, "m", WORDS("say=loading 0.25", "ready", "say=hashing 0.25"));
    start(f);
    run_until(f, view(f, 0).is_hashing);
    hth_supervisor_tell_wait(f->supervisor, "m", view(f, 0).generation, text);
    assert_string_equal(text, "hashing 25%");
    hth_supervisor_tell_wait(f->supervisor, "m", view(f, 0).generation + 1, text);
    assert_string_equal(text, ""); /* another worker has it */
    hth_supervisor_tell_wait(f->supervisor, "m", 0, text);
    assert_string_equal(text, ""); /* it takes requests */
    send_signal(view(f, 0).pid, SIGKILL);
    run_until(f, view(f, 0).n_deaths == 1);
    hth_supervisor_tell_wait(f->supervisor, "m", view(f, 0).generation, text);
    assert_string_equal(text, "");
    run_until(f, view(f, 0).is_hashing); /* the next one says it again */
}

FIXTURE_TEST(more_waiters_than_requests_are_refused)
{
    asker a = asker_of(f), b = asker_of(f);

    f->options.requests_max = 1;
    (void)add(f, "m", WORDS("say=loading 0.25"));
    start(f);
    want(f, "m", 0, &a);
    want(f, "m", 0, &b);
    assert_int_equal(b.n_failed, 1);
    assert_int_equal(b.err.status, HEARTH_BUSY);
    assert_true(b.err.retry_after_s > 0);
    hth_worker_waiter_cancel(&a.waiter);
}

FIXTURE_TEST(who_had_a_worker_is_not_refused_for_those_who_came_later)
{
    asker later = asker_of(f), earlier = asker_of(f);

    f->options.requests_max = 1;
    (void)add(f, "m", WORDS("ready"));
    start(f);
    want(f, "m", 0, &later);
    want(f, "m", 1, &earlier); /* the first process failed it */
    assert_int_equal(earlier.n_failed, 0);
    run_until(f, later.n_ready == 1);
    send_signal(view(f, 0).pid, SIGKILL);
    run_until(f, earlier.n_ready == 1);
    assert_int_equal(earlier.generation, 2);
}

/* ---- deaths ---- */

FIXTURE_TEST(a_worker_that_crashes_is_started_again_and_its_last_lines_are_kept)
{
    asker a = asker_of(f);
    char word[600];
    hth_worker_view v;

    (void)snprintf(word, sizeof(word), "crash-first=%s", f->path);
    (void)add(f, "m", WORDS("log=GGML_ASSERT(0) failed", "log=error: this is the end", word, "ready"));
    start(f);
    want(f, "m", 0, &a);
    run_until(f, a.n_ready == 1);
    assert_int_equal(a.generation, 2);
    v = view(f, 0);
    assert_int_equal(v.n_deaths, 1);
    assert_int_equal(v.n_starts, 2);
    assert_string_equal(v.last_death,
                        "killed by signal 11 (segmentation fault); its last lines: GGML_ASSERT(0) failed | "
                        "error: this is the end");
}

FIXTURE_TEST(a_request_whose_worker_died_gets_the_next_one)
{
    asker a = asker_of(f), b = asker_of(f);

    (void)add(f, "m", WORDS("ready"));
    start(f);
    want(f, "m", 0, &a);
    run_until(f, a.n_ready == 1);
    send_signal(view(f, 0).pid, SIGKILL);
    hth_supervisor_note_broken(f->supervisor, "m", a.generation);
    want(f, "m", a.generation, &b);
    run_until(f, b.n_ready == 1);
    assert_int_equal(b.generation, a.generation + 1);
    assert_string_not_equal(b.socket_path, a.socket_path);
    assert_false(exists(a.socket_path));
    assert_non_null(strstr(view(f, 0).last_death, "killed by signal 9"));
}

FIXTURE_TEST(a_worker_that_ends_without_being_asked_is_a_death_even_with_status_0)
{
    (void)add(f, "m", WORDS("ready", "exit=0"));
    start(f);
    run_until(f, view(f, 0).n_deaths >= 2);
    assert_string_equal(view(f, 0).last_death, "ended with exit status 0");
}

FIXTURE_TEST(a_worker_that_cannot_be_started_is_tried_again)
{
    asker a = asker_of(f), b = asker_of(f);
    char folder[512];

    f->options.runtime_directory = f->directory;
    (void)add(f, "m", WORDS("ready"));
    start(f);
    want(f, "m", 0, &a);
    run_until(f, a.n_ready == 1);
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(strstr(a.socket_path, "/0-1/") - a.socket_path),
                   a.socket_path);
    assert_int_equal(rename(folder, f->path), 0); /* the socket of the next process has no place */
    send_signal(view(f, 0).pid, SIGKILL);
    run_until(f, view(f, 0).n_deaths >= 2);
    assert_non_null(strstr(view(f, 0).last_death, "cannot make a folder for a socket"));
    assert_int_equal(rename(f->path, folder), 0);
    want(f, "m", a.generation, &b);
    run_until(f, b.n_ready == 1);
}

FIXTURE_TEST(a_model_that_cannot_be_loaded_is_refused_with_what_its_worker_said)
{
    asker a = asker_of(f), b = asker_of(f);
    hearth_error err;

    (void)add(f, "m", WORDS("log=error: secret of the log", "say=failed 'x.gguf' is no GGUF file", "exit=1"));
    start(f);
    want(f, "m", 0, &a);
    run_until(f, a.n_failed == 1);
    assert_int_equal(a.err.status, HEARTH_BUSY);
    assert_true(a.err.retry_after_s >= 1 && a.err.retry_after_s <= 31);
    assert_non_null(strstr(a.err.message,
                           "model 'm' is out of order, its worker having failed 5 times in a row: 'x.gguf' "
                           "is no GGUF file; the next try is in "));
    assert_null(strstr(a.err.message, "secret")); /* its lines are for operators only */
    assert_non_null(strstr(view(f, 0).last_death, "secret"));
    assert_int_equal(view(f, 0).state, HTH_WORKER_BROKEN);
    assert_true(view(f, 0).restart_in_ms > 0);
    want(f, "m", 0, &b);
    assert_int_equal(b.n_failed, 1);
    assert_int_equal(hth_supervisor_load(f->supervisor, "m", &err), HEARTH_BUSY);
    assert_string_equal(err.message, b.err.message);
    /* An operator need not wait. */
    assert_int_equal(hth_supervisor_restart(f->supervisor, "m", &err), HEARTH_OK);
    assert_int_equal(view(f, 0).state, HTH_WORKER_STARTING);
}

FIXTURE_TEST(a_worker_that_serves_is_never_out_of_order_however_often_it_is_killed)
{
    uint64_t after = 0;

    (void)add(f, "m", WORDS("ready"));
    start(f);
    for (int i = 0; i < 3 * HTH_RESTART_DEATHS_MAX; i++) {
        asker a = asker_of(f);

        want(f, "m", after, &a);
        run_until(f, a.n_ready == 1 || a.n_failed == 1);
        assert_int_equal(a.n_ready, 1);
        hth_supervisor_note_served(f->supervisor, "m", a.generation + 1); /* another one: not this */
        hth_supervisor_note_served(f->supervisor, "m", a.generation);
        after = a.generation;
        send_signal(view(f, 0).pid, SIGKILL);
    }
}

FIXTURE_TEST(who_has_a_part_of_the_reply_waits_while_the_circuit_is_open)
{
    asker a = asker_of(f), b = asker_of(f), c = asker_of(f);

    (void)add(f, "m", WORDS("say=failed 'x.gguf' is damaged or incomplete", "exit=1"));
    start(f);
    b.waiter.outlasts_breaks = c.waiter.outlasts_breaks = true;
    want(f, "m", 0, &a);
    want(f, "m", 0, &b);
    run_until(f, a.n_failed == 1);
    assert_int_equal(view(f, 0).state, HTH_WORKER_BROKEN);
    assert_int_equal(b.n_failed, 0);
    want(f, "m", 0, &c);
    assert_int_equal(c.n_failed, 0);
    hth_worker_waiter_cancel(&b.waiter);
    hth_worker_waiter_cancel(&c.waiter);
}

FIXTURE_TEST(a_reload_tries_a_model_again_that_is_out_of_order)
{
    (void)add(f, "m", WORDS("say=failed 'x.gguf' is damaged or incomplete", "exit=1"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_BROKEN));
    assert_true(view(f, 0).restart_in_ms > 0);
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    assert_int_equal(view(f, 0).restart_in_ms, 0);
    run_until(f, view(f, 0).state != HTH_WORKER_BROKEN);
}

FIXTURE_TEST(a_program_that_cannot_be_executed_is_a_death_that_says_so)
{
    hearth_error err;

    (void)add(f, "m", WORDS("ready"));
    assert_int_equal(hth_supervisor_new(f->base, "/no/such/program", &f->options, &f->log, NULL, &f->supervisor, &err),
                     HEARTH_OK);
    run_until(f, view(f, 0).n_deaths > 0);
    assert_string_equal(view(f, 0).last_death, "its program cannot be executed: No such file or directory");
}

FIXTURE_TEST(rows_that_were_being_restored_are_suspects_for_the_next_worker)
{
    char suspects[600], crash[600], report[512];

    (void)snprintf(report, sizeof(report), "%s/suspects", f->directory);
    (void)snprintf(suspects, sizeof(suspects), "suspects=%s", report);
    (void)snprintf(crash, sizeof(crash), "crash-first=%s", f->path);
    (void)add(f, "m", WORDS(suspects, "restoring", crash, "ready"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    assert_true(text_has(report, "1 suspects, the first begins with 77"));
}

FIXTURE_TEST(the_ram_tier_s_memory_outlives_the_worker)
{
    char first[600], again[600];
    int fd = hth_os_memory_file_new("probe");

    if (fd < 0)
        skip();
    assert_int_equal(close(fd), 0);
    (void)snprintf(again, sizeof(again), "report=%s", f->path);
    (void)snprintf(first, sizeof(first), "crash-first=%s/once", f->directory);
    add(f, "m", WORDS(again, "fill-ram=8192", first, "ready"))->ram_bytes = 1 << 20;
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    assert_true(text_has(f->path, "\nram 67117056\n")); /* the second found what the first had made */
}

FIXTURE_TEST(a_grandchild_does_not_outlive_its_worker)
{
    char word[600], byte;
    ssize_t n = -1;
    int fd;

    assert_int_equal(mkfifo(f->path, 0600), 0);
    fd = open(f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    (void)snprintf(word, sizeof(word), "grandchild=%s", f->path);
    (void)add(f, "m", WORDS(word, "ready"));
    start(f);
    run_until(f, read(fd, &byte, 1) == 1);
    send_signal(view(f, 0).pid, SIGKILL);
    run_until(f, view(f, 0).n_deaths == 1);
    f->options.n_models = 0; /* so that no other one comes */
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    run_until(f, (n = read(fd, &byte, 1)) == 0);
    assert_int_equal(close(fd), 0);
}

/* ---- hangs ---- */

FIXTURE_TEST(an_evaluation_that_takes_too_long_ends_the_worker)
{
    f->options.hang_ms = 300;
    (void)add(f, "m", WORDS("ready", "tick"));
    start(f);
    run_until(f, view(f, 0).n_hangs >= 1 && view(f, 0).n_deaths >= 1);
    assert_string_equal(view(f, 0).last_death, "an evaluation took longer than 0.3 s");
}

FIXTURE_TEST(an_event_loop_that_stands_still_ends_the_worker)
{
    asker a = asker_of(f);

    f->options.hang_ms = 2000;
    (void)add(f, "m", WORDS("ready"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    send_signal(view(f, 0).pid, SIGSTOP);
    run_until(f, view(f, 0).n_hangs == 1);
    want(f, "m", 1, &a);
    run_until(f, a.n_ready == 1);
    assert_int_equal(a.generation, 2);
    assert_string_equal(view(f, 0).last_death, "it did not answer for 2 s");
}

FIXTURE_TEST(a_worker_that_somebody_else_told_to_end_is_followed_by_another_and_is_no_death)
{
    asker a = asker_of(f);

    (void)add(f, "m", WORDS("ready", "say-on-term=stopping"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    send_signal(view(f, 0).pid, SIGTERM);
    run_until(f, strstr(f->logged, "was told to end, not by this server"));
    want(f, "m", 1, &a);
    run_until(f, a.n_ready == 1);
    assert_int_equal(a.generation, 2);
    assert_int_equal(view(f, 0).n_deaths, 0);
}

FIXTURE_TEST(a_worker_that_is_told_to_end_again_and_again_comes_back_later_each_time)
{
    (void)add(f, "m", WORDS("ready", "say=stopping", "exit=0"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_BROKEN));
    assert_int_equal(view(f, 0).n_starts, HTH_RESTART_DEATHS_MAX);
    assert_int_equal(view(f, 0).n_deaths, 0);
    assert_string_equal(view(f, 0).last_death, "it was told to end, not by this server");
}

FIXTURE_TEST(a_worker_that_crashes_while_it_ends_for_others_is_a_death)
{
    (void)add(f, "m", WORDS("ready", "restoring", "say=stopping", "exit=3"));
    start(f);
    run_until(f, view(f, 0).n_deaths == 1);
    assert_string_equal(view(f, 0).last_death, "ended with exit status 3");
}

FIXTURE_TEST(an_event_loop_that_stands_still_while_the_model_loads_ends_the_worker)
{
    f->options.hang_ms = 2000;
    (void)add(f, "m", WORDS("say=loading 0.25"));
    start(f);
    run_until(f, view(f, 0).status.loop_ns != UINT64_MAX);
    send_signal(view(f, 0).pid, SIGSTOP);
    run_until(f, view(f, 0).n_deaths == 1);
    assert_int_equal(view(f, 0).n_hangs, 1);
    assert_string_equal(view(f, 0).last_death, "it did not answer for 2 s");
}

FIXTURE_TEST(a_front_that_was_held_up_itself_kills_nobody_for_it)
{
    f->options.hang_ms = 1300;
    (void)add(f, "m", WORDS("ready"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    for (int i = 0; i < 2; i++) { /* as if both had been frozen */
        int pid = view(f, 0).pid;

        send_signal(pid, SIGSTOP);
        (void)usleep(1700000);
        send_signal(pid, SIGCONT);
        assert_true(event_base_loop(f->base, EVLOOP_ONCE) >= 0);
    }
    assert_int_equal(view(f, 0).n_hangs, 0);
    assert_int_equal(view(f, 0).state, HTH_WORKER_READY);
}

FIXTURE_TEST(a_worker_that_hangs_while_it_loads_is_killed_when_nothing_goes_on)
{
    (void)add(f, "m", WORDS("say=loading 0.5", "hang"));
    start(f);
    run_until(f, view(f, 0).load_progress >= 0.5F); /* however long its process takes to begin */
    f->options.start_timeout_ms = 400;
    run_until(f, view(f, 0).n_deaths >= 1);
    assert_string_equal(view(f, 0).last_death, "loading did not go on for 0.4 s (at 50 %)");
}

FIXTURE_TEST(a_worker_whose_connection_broke_and_that_stands_still_is_killed_soon_even_if_nothing_counts_as_a_hang)
{
    asker a = asker_of(f), b = asker_of(f);

    f->options.hang_ms = 0;
    (void)add(f, "m", WORDS("ready"));
    start(f);
    want(f, "m", 0, &a);
    run_until(f, a.n_ready == 1);
    send_signal(view(f, 0).pid, SIGSTOP);
    hth_supervisor_note_broken(f->supervisor, "m", 1);
    want(f, "m", 1, &b);
    run_until(f, b.n_ready == 1);
    assert_int_equal(b.generation, 2);
    assert_string_equal(view(f, 0).last_death, "it broke a connection and did not answer any more");
}

FIXTURE_TEST(a_worker_that_is_well_is_not_ended_for_a_broken_connection)
{
    asker a = asker_of(f), b = asker_of(f), c = asker_of(f);

    (void)add(f, "m", WORDS("ready"));
    start(f);
    want(f, "m", 0, &a);
    run_until(f, a.n_ready == 1);
    want(f, "m", 1, &b); /* wants no more of it */
    run_until(f, b.n_failed == 1);
    assert_int_equal(b.err.status, HEARTH_BUSY);
    want(f, "m", 0, &c); /* takes any */
    assert_int_equal(c.n_ready, 1);
    assert_int_equal(view(f, 0).n_deaths, 0);
}

FIXTURE_TEST(asking_again_from_within_the_callback_works)
{
    asker a = asker_of(f);

    (void)add(f, "m", WORDS("ready"));
    start(f);
    a.ask_again = "m";
    want(f, "m", 0, &a);
    run_until(f, a.n_ready == 1);
    assert_int_equal(view(f, 0).n_waiters, 1);
    send_signal(view(f, 0).pid, SIGKILL);
    run_until(f, a.n_ready == 2);
    assert_int_equal(a.generation, 2);
}

/* ---- what workers write ---- */

FIXTURE_TEST(a_worker_that_writes_without_end_is_heard_in_bounds)
{
    (void)add(f, "m", WORDS("spew=200000", "ready"));
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    run_until(f, strstr(f->logged, "more lines in a second were dropped"));
}

FIXTURE_TEST(what_is_no_text_is_made_printable)
{
    (void)add(f, "m", WORDS("binary", "ready"));
    start(f);
    run_until(f, strstr(f->logged, "yyyyyyyy") && is_in(f, 0, HTH_WORKER_READY));
    assert_non_null(strstr(f->logged, "m: ??    not text \xc3\xa9\n"));
}

FIXTURE_TEST(lines_of_the_control_socket_that_make_no_sense_do_no_harm)
{
    (void)add(f, "m",
              WORDS("say=loading nan", "say=loading 1e99", "say=loading -3", "say=", "say=what", "ready", "ready"));
    f->words[0][1] = "say=exec";
    start(f);
    run_until(f, view(f, 0).state != HTH_WORKER_STARTING);
    assert_true(view(f, 0).load_progress >= 0 && view(f, 0).load_progress <= 1);
}

/* ---- the environment of a worker ---- */

FIXTURE_TEST(a_worker_has_what_it_needs_and_nothing_else)
{
    char word[600], text[16384];
    unsigned n_fds = 0;
    int spare = open("/dev/null", O_RDONLY); /* inheritable, like one of a careless library */

    assert_true(spare > 2);
    assert_int_equal(setenv("HEARTH_API_KEYS", "secret", 1), 0);
    assert_int_equal(setenv("OMP_TEST", "1", 1), 0);
    assert_int_equal(setenv("PATHOLOGICAL", "1", 1), 0);
    (void)snprintf(word, sizeof(word), "report=%s", f->path);
    add(f, "m", WORDS(word, "ready"))->ram_bytes = 4096;
    start(f);
    run_until(f, text_has(f->path, "\nend\n"));
    (void)text_of(f->path, text, sizeof(text));
    assert_non_null(strstr(text, "arg --socket\n"));
    assert_non_null(strstr(text, "\nenv PATH="));
    assert_non_null(strstr(text, "\nenv OMP_TEST=1\n"));
    assert_null(strstr(text, "secret"));
    assert_null(strstr(text, "PATHOLOGICAL"));
    assert_non_null(strstr(text, "\nleads its group: 1\n"));
    assert_non_null(strstr(text, "\nSIGTERM is blocked: 0\n"));
    if (exists("/proc/self/oom_score_adj"))
        assert_null(strstr(text, "\noom_score_adj 0\n"));
    for (const char *at = strstr(text, "\nfd "); at; at = strstr(at + 1, "\nfd "))
        n_fds++;
    if (exists("/proc/self/fd"))
        assert_int_equal(n_fds, strstr(text, "\nram ") ? 6 : 5); /* 0, 1, 2, status, control, memory */
    assert_int_equal(unsetenv("HEARTH_API_KEYS"), 0);
    assert_int_equal(unsetenv("OMP_TEST"), 0);
    assert_int_equal(unsetenv("PATHOLOGICAL"), 0);
    assert_int_equal(close(spare), 0);
}

FIXTURE_TEST(the_sockets_folders_are_private_and_go_with_the_server)
{
    asker a = asker_of(f), b = asker_of(f);
    struct stat st;

    (void)snprintf(f->path, sizeof(f->path), "%s/run", f->directory);
    f->options.runtime_directory = f->path;
    (void)add(f, "m", WORDS("ready"));
    (void)add(f, "other", WORDS("ready"));
    start(f);
    want(f, "m", 0, &a);
    want(f, "other", 0, &b);
    run_until(f, a.n_ready == 1 && b.n_ready == 1);
    assert_memory_equal(a.socket_path, f->path, strlen(f->path));
    for (int i = 0; i < 2; i++) {
        *strrchr(a.socket_path, '/') = '\0';
        *strrchr(b.socket_path, '/') = '\0';
        assert_int_equal(stat(a.socket_path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
        assert_true((strcmp(a.socket_path, b.socket_path) == 0) == (i == 1)); /* each process has its own */
    }
    hth_supervisor_free(f->supervisor);
    f->supervisor = NULL;
    assert_false(exists(a.socket_path));
}

FIXTURE_TEST(a_runtime_directory_that_is_too_long_for_sockets_is_refused)
{
    char path[512];
    hearth_error err;

    (void)snprintf(path, sizeof(path), "%s/%0100d", f->directory, 1);
    f->options.runtime_directory = path;
    assert_int_not_equal(
        hth_supervisor_new(f->base, HTH_TEST_FAKE_WORKER, &f->options, &f->log, NULL, &f->supervisor, &err), HEARTH_OK);
    assert_non_null(strstr(err.message, "runtime directory"));
    assert_null(f->supervisor);
}
