/*
 * supervisor_residency_test.c - models share memory that has no room for all of them
 */
#include "base/smaller.h"
#include "engine/weight_region.h"
#include "support/serve_set.h"
#include "support/sized_models.h"

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

FIXTURE_TEST(the_model_that_was_used_least_recently_makes_room)
{
    (void)add_sized(f, "a", 4000);
    (void)add_sized(f, "b", 4000);
    (void)add_sized(f, "c", 4000);
    begin(f, 9000);
    use(f, "a");
    use(f, "b");
    use(f, "a");
    assert_int_equal(hth_supervisor_memory_of(f->supervisor).pools[0].limit_bytes, UINT64_C(9000) * MIB);
    assert_true(hth_supervisor_memory_of(f->supervisor).pools[0].used_bytes >= UINT64_C(8000) * MIB);
    use(f, "c");
    assert_true(is_in(f, 0, HTH_WORKER_READY));
    run_until(f, is_in(f, 1, HTH_WORKER_STOPPED));
    assert_int_equal(view(f, 1).n_departures, 1);
    assert_int_equal(view(f, 1).n_deaths, 0);
    assert_non_null(strstr(f->logged, "model 'b': its worker ends, to make room for other models"));
    use(f, "b"); /* it comes back, and the next one leaves */
    assert_int_equal(view(f, 0).n_departures, 1);
}

FIXTURE_TEST(a_busy_model_stays_until_its_request_has_ended)
{
    asker a = request_of(f), b = request_of(f);

    (void)add_sized(f, "a", 4000);
    (void)add_sized(f, "b", 4000);
    begin(f, 6000);
    want(f, "a", 0, &a);
    run_until(f, a.n_ready == 1);
    b.waiter.since_ns = hth_os_monotonic_ns();
    want(f, "b", 0, &b);
    use(f, "a"); /* still takes requests */
    assert_int_equal(b.n_ready, 0);
    assert_true(is_in(f, 1, HTH_WORKER_STOPPED));
    assert_int_equal(view(f, 1).n_waiters, 1);
    end(&a);
    run_until(f, b.n_ready == 1);
    assert_int_equal(view(f, 0).n_departures, 1);
    end(&b);
}

FIXTURE_TEST(a_model_that_was_used_just_now_stays_until_another_one_has_its_turn)
{
    asker b = request_of(f);
    unsigned n_turns = 0;

    (void)add_sized(f, "a", 4000);
    (void)add_sized(f, "b", 4000);
    begin(f, 6000);
    f->options.stay_ms = 600000;
    use(f, "a");
    use(f, "a"); /* its client comes back */
    b.waiter.since_ns = hth_os_monotonic_ns();
    want(f, "b", 0, &b);
    use(f, "a"); /* its client asks again */
    run_until(f, n_turns++ == 10);
    assert_int_equal(b.n_ready, 0);
    assert_int_equal(view(f, 0).n_departures, 0);
    f->options.turn_ms = 0;
    run_until(f, b.n_ready == 1);
    end(&b);

    f->options.turn_ms = 600000;
    f->options.stay_ms = 1;
    use(f, "a");
    assert_int_equal(view(f, 1).n_departures, 1);
}

/* The request a has model "a", b waits for model "b" until its turn has come, and late waits for "a" behind b. */
static void close_a(fixture *f, asker *a, asker *b, asker *late)
{
    (void)add_sized(f, "a", 4000);
    (void)add_sized(f, "b", 4000);
    begin(f, 6000);
    f->options.turn_ms = 0;
    want(f, "a", 0, a);
    run_until(f, a->n_ready == 1);
    b->waiter.since_ns = hth_os_monotonic_ns();
    want(f, "b", 0, b);
    run_until(f, view(f, 0).is_closed);
    late->waiter.since_ns = hth_os_monotonic_ns();
    want(f, "a", 0, late);
}

FIXTURE_TEST(after_its_turn_a_waiting_model_closes_a_busy_one)
{
    asker a = request_of(f), b = request_of(f), late = request_of(f);

    close_a(f, &a, &b, &late);
    assert_int_equal(late.n_ready, 0);
    end(&a);
    run_until(f, b.n_ready == 1);
    assert_int_equal(late.n_ready, 0);
    end(&b);
    run_until(f, late.n_ready == 1);
    assert_int_equal(view(f, 0).n_departures, 1);
    assert_int_equal(view(f, 1).n_departures, 1);
    end(&late);
}

FIXTURE_TEST(a_closed_model_goes_on_when_nobody_waits_for_its_memory_any_more)
{
    asker a = request_of(f), b = request_of(f), late = request_of(f);

    close_a(f, &a, &b, &late);
    end(&b); /* its client left */
    run_until(f, late.n_ready == 1);
    assert_int_equal(view(f, 0).n_departures, 0);
    end(&a);
    end(&late);
}

FIXTURE_TEST(a_pinned_model_stays_and_the_others_take_turns_beside_it)
{
    add_sized(f, "a", 4000)->rules.is_pinned = true;
    (void)add_sized(f, "b", 4000);
    (void)add_sized(f, "c", 4000);
    begin(f, 9000);
    use(f, "a");
    use(f, "b");
    use(f, "c");
    use(f, "b");
    assert_true(is_in(f, 0, HTH_WORKER_READY));
    assert_int_equal(view(f, 0).n_departures, 0);
    assert_int_equal(view(f, 1).n_departures, 1);
    assert_int_equal(view(f, 2).n_departures, 1);
}

FIXTURE_TEST(a_model_larger_than_all_memory_is_brought_in_alone)
{
    (void)add_sized(f, "small", 1000);
    (void)add_sized(f, "huge", 50000);
    begin(f, 9000);
    use(f, "small");
    use(f, "huge");
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    use(f, "huge");
    assert_int_equal(view(f, 1).n_starts, 1);
    use(f, "small");
    run_until(f, is_in(f, 1, HTH_WORKER_STOPPED));
}

FIXTURE_TEST(models_that_start_with_the_server_start_as_far_as_there_is_room)
{
    add_sized(f, "a", 4000)->rules.start = HTH_START_AT_ONCE;
    add_sized(f, "b", 4000)->rules.start = HTH_START_AT_ONCE;
    add_sized(f, "c", 4000)->rules.start = HTH_START_AT_ONCE;
    begin(f, 9000);
    run_until(f, is_in(f, 0, HTH_WORKER_READY) && is_in(f, 1, HTH_WORKER_READY));
    run_until(f, view(f, 2).waits_for_room);
    run_until(f, strstr(f->logged, "model 'c': there is no room for it beside the other models"));
    use(f, "a"); /* they became ready in any order */
    use(f, "b");
    use(f, "c"); /* a request is more than an invitation */
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
}

FIXTURE_TEST(the_number_of_models_at_once_may_be_limited)
{
    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    (void)add_sized(f, "c", 1);
    f->options.models_max = 2;
    begin(f, 9000);
    use(f, "a");
    use(f, "b");
    use(f, "c");
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(is_in(f, 1, HTH_WORKER_READY) && is_in(f, 2, HTH_WORKER_READY));
}

FIXTURE_TEST(a_model_leaves_after_a_rest_and_a_request_may_say_how_long_it_stays)
{
    asker a = request_of(f);

    add_sized(f, "a", 1)->rules.unload_after_ms = 1;
    (void)add_sized(f, "b", 1);
    begin(f, 9000);
    use(f, "a");
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_non_null(strstr(f->logged, "model 'a': its worker ends, having rested for as long as it may"));

    want(f, "b", 0, &a);
    hth_supervisor_keep(f->supervisor, "b", 0); /* as Ollama's clients say */
    run_until(f, a.n_ready == 1);
    assert_int_equal(view(f, 1).leaves_in_ms, 0);
    end(&a);
    run_until(f, is_in(f, 1, HTH_WORKER_STOPPED));
    use(f, "b"); /* stays, as the option says */
    assert_true(view(f, 1).leaves_in_ms == UINT64_MAX);

    want(f, "a", 0, &a);
    hth_supervisor_keep(f->supervisor, "a", UINT64_MAX);
    run_until(f, a.n_ready == 2);
    end(&a);
    assert_true(view(f, 0).leaves_in_ms == UINT64_MAX);
}

FIXTURE_TEST(operators_load_and_unload_a_model)
{
    hearth_error err;

    (void)add_sized(f, "a", 4000);
    (void)add_sized(f, "b", 4000);
    begin(f, 6000);
    assert_int_equal(hth_supervisor_load(f->supervisor, "none", &err), HEARTH_NOT_FOUND);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "none", &err), HEARTH_NOT_FOUND);
    assert_int_equal(hth_supervisor_load(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    assert_int_equal(hth_supervisor_load(f->supervisor, "a", &err), HEARTH_OK); /* it is */
    assert_int_equal(hth_supervisor_load(f->supervisor, "b", &err), HEARTH_OK);
    run_until(f, is_in(f, 1, HTH_WORKER_READY));
    assert_true(is_in(f, 0, HTH_WORKER_STOPPED));
    assert_int_equal(hth_supervisor_unload(f->supervisor, "b", &err), HEARTH_OK);
    run_until(f, is_in(f, 1, HTH_WORKER_STOPPED));
    assert_int_equal(hth_supervisor_unload(f->supervisor, "b", &err), HEARTH_OK);
    use(f, "b");
}

/* Rows that a model left in memory go before a model that is in use would have to wait for them. */
FIXTURE_TEST(rows_of_an_absent_model_make_room)
{
    hearth_error err;
    char word[64];

    (void)add_sized(f, "a", 4);
    (void)add_sized(f, "b", 60);
    f->models[0].ram_bytes = 32 * MIB;
    (void)snprintf(word, sizeof(word), "fill-ram=%d", 32 * MIB);
    f->words[0][0] = "--do";
    f->words[0][1] = word;
    f->words[0][2] = "--do";
    f->words[0][3] = "ready";
    f->words[0][4] = NULL;
    begin(f, 80 + PROCESS_MIB);
    use(f, "a");
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(view(f, 0).memory_bytes >= (uint64_t)(36 + PROCESS_MIB) * MIB);
    use(f, "b");
    assert_true(view(f, 0).memory_bytes < (uint64_t)(36 + PROCESS_MIB) * MIB);
}

/* ---- what requests wait for ---- */

static bool waits_for(const fixture *f, const char *model, const char *what)
{
    char text[HTH_WAIT_TEXT_BYTES];

    hth_supervisor_tell_wait(f->supervisor, model, 0, text);
    return strcmp(text, what) == 0;
}

FIXTURE_TEST(a_request_is_told_its_model_s_place_in_line)
{
    asker a = request_of(f), b = request_of(f), c = request_of(f);

    for (int i = 0; i < 3; i++)
        (void)add_sized(f, (const char *[]){ "a", "b", "c" }[i], 4000);
    begin(f, 6000);
    want(f, "a", 0, &a);
    run_until(f, a.n_ready == 1);
    assert_true(waits_for(f, "a", ""));
    c.waiter.since_ns = hth_os_monotonic_ns();
    want(f, "c", 0, &c);
    b.waiter.since_ns = hth_os_monotonic_ns();
    want(f, "b", 0, &b);
    run_until(f, waits_for(f, "b", "waiting for room, 2nd in line"));
    assert_true(waits_for(f, "c", "waiting for room, 1st in line"));
    assert_true(waits_for(f, "nobody", ""));
    end(&a);
    run_until(f, c.n_ready == 1);
    assert_true(waits_for(f, "b", "waiting for room, 1st in line"));
    end(&b);
    end(&c);
}

/* ---- needs ---- */

FIXTURE_TEST(a_model_is_planned_with_the_needs_that_its_metadata_tells)
{
    asker a = request_of(f), b = request_of(f);
    unsigned n_turns = 0;

    (void)add_sized(f, "a", 100);
    (void)add_sized(f, "b", 100);
    set_words(f, 0, WORDS("needs=host 104857600 0 3145728000 0 0 4096", "ready")); /* 100 MiB, and cells of 3,000 */
    set_words(
        f, 1,
        WORDS("needs=device 2147483648 1073741824 0 0 0 GPU", "needs=host 1048576000 0 0 104857600 0 512", "ready"));
    begin(f, 4000);
    want(f, "a", 0, &a);
    run_until(f, a.n_ready == 1);
    assert_int_equal(view(f, 0).memory_bytes / MIB, 3100);
    assert_int_equal(view(f, 0).needs.n_ctx, 4096);
    b.waiter.since_ns = hth_os_monotonic_ns();
    want(f, "b", 0, &b);
    run_until(f, view(f, 1).needs.n_ctx > 0);
    run_until(f, n_turns++ == 10); /* files would have had room beside each other */
    assert_true(is_in(f, 1, HTH_WORKER_STOPPED));
    assert_int_equal(view(f, 1).memory_bytes / MIB, 4172);
    assert_int_equal(view(f, 1).needs.memory.n_devices, 1);
    end(&a);
    run_until(f, b.n_ready == 1);
    end(&b);
}

FIXTURE_TEST(models_that_start_with_the_server_are_asked_first)
{
    add_sized(f, "a", 100)->rules.start = HTH_START_AT_ONCE;
    add_sized(f, "b", 100)->rules.start = HTH_START_AT_ONCE;
    set_words(f, 0, WORDS("needs=host 0 0 3145728000 0 0 4096", "ready"));
    set_words(f, 1, WORDS("needs=host 0 0 3145728000 0 0 4096", "ready"));
    begin(f, 4000);
    run_until(f, is_in(f, 0, HTH_WORKER_READY) || is_in(f, 1, HTH_WORKER_READY));
    run_until(f, strstr(f->logged, "there is no room for it beside the other models"));
    assert_true(view(f, 0).n_starts + view(f, 1).n_starts == 1);
}

FIXTURE_TEST(without_an_answer_the_size_of_the_files_and_a_base_for_the_process_count)
{
    static const char *const strange[] = { "needs=host 1", "needs=nothing", "needs=device 1 2 3 4 5 GPU" };

    for (size_t i = 0; i < 3; i++) {
        char name[2] = { (char)('a' + i), '\0' };

        (void)add_sized(f, strdup(name), 100);
        set_words(f, i, WORDS(strange[i], "ready"));
    }
    begin(f, 9000);
    for (size_t i = 0; i < 3; i++) {
        use(f, f->models[i].name);
        assert_true(view(f, i).memory_bytes / MIB == 100 + PROCESS_MIB);
        assert_int_equal(view(f, i).needs.n_ctx, 0);
    }
    for (size_t i = 0; i < 3; i++)
        free((char *)f->models[i].name);
}

FIXTURE_TEST(nobody_asks_again_while_file_and_options_are_the_same)
{
    char word[600], path[600], text[64];
    hearth_error err;

    (void)snprintf(path, sizeof(path), "%s/needs", f->directory);
    (void)snprintf(word, sizeof(word), "needs-count=%s", f->path);
    f->options.learned_path = path;
    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    set_words(f, 0, WORDS(word, "needs=host 1048576 0 2097152 0 0 256", "ready"));
    begin(f, 9000);
    use(f, "a");
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    use(f, "a");
    hth_supervisor_free(f->supervisor);

    start(f); /* another server */
    assert_int_equal(view(f, 0).needs.n_ctx, 256);
    use(f, "a");
    assert_string_equal(text_of(f->path, text, sizeof(text)), "x");
    set_words(f, 0, WORDS(word, "needs=host 1048576 0 2097152 0 0 512", "ready"));
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    assert_int_equal(view(f, 0).needs.n_ctx, 0);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED) || is_in(f, 0, HTH_WORKER_READY));
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    use(f, "a");
    assert_string_equal(text_of(f->path, text, sizeof(text)), "xx");
    assert_int_equal(view(f, 0).needs.n_ctx, 512);
}

FIXTURE_TEST(the_memory_that_a_worker_took_is_known_to_the_next_server)
{
    char path[600];
    uint64_t bytes;

    (void)snprintf(path, sizeof(path), "%s/needs", f->directory);
    f->options.learned_path = path;
    (void)add_sized(f, "a", 0);
    (void)add_sized(f, "b", 0);
    (void)add_sized(f, "c", 0);
    set_words(f, 1, WORDS("needs=host 1048576 0 1073741824 0 0 256", "ready"));
    begin(f, 9000);
    use(f, "a");
    use(f, "b");
    run_until(f, view(f, 0).measured_bytes > 0 && view(f, 1).measured_bytes > 0);
    assert_int_equal(view(f, 1).memory_bytes / MIB, 1025); /* its cells may still fill */
    run_until(f, exists(path));
    hth_supervisor_free(f->supervisor);
    start(f);
    bytes = view(f, 0).measured_bytes;
    assert_true(bytes > 0);
    assert_int_equal(view(f, 0).memory_bytes, hth_larger(bytes, (uint64_t)PROCESS_MIB * MIB)); /* its file is empty */
    assert_true(is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(view(f, 1).measured_bytes > 0 && view(f, 1).measured_bytes < MIB * UINT64_C(1024));
    assert_int_equal(view(f, 1).memory_bytes / MIB, 1025);
    assert_int_equal(view(f, 2).measured_bytes, 0);
}

FIXTURE_TEST(the_memory_of_an_old_process_is_not_learned_for_a_new_file)
{
    hearth_error err;

    (void)add_sized(f, "a", 0);
    (void)add_sized(f, "b", 0);
    begin(f, 9000);
    use(f, "a");
    run_until(f, view(f, 0).measured_bytes > 0);
    assert_int_equal(truncate(f->models[0].path, MIB), 0);
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    use(f, "a"); /* its process still runs */
    use(f, "b");
    run_until(f, view(f, 1).measured_bytes > 0);
    assert_int_equal(view(f, 0).n_starts, 1);
    assert_int_equal(view(f, 0).measured_bytes, 0);
    assert_int_equal(hth_supervisor_restart(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, view(f, 0).n_starts == 2 && view(f, 0).measured_bytes > 0);
}

FIXTURE_TEST(buffers_of_absent_models_and_of_devices_leave_the_memory_to_others)
{
    const uint64_t machine = hth_os_memory_bytes();
    char word[128], device[128];
    hearth_error err;
    uint64_t limit;

    (void)snprintf(word, sizeof(word), "needs=host 0 0 0 %llu 0 512", (unsigned long long)machine / 4);
    (void)snprintf(device, sizeof(device), "needs=device 0 0 %llu 0 0 GPU", (unsigned long long)machine / 4);
    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    set_words(f, 0, WORDS(word, "ready"));
    set_words(f, 1, WORDS(device, "needs=host 0 0 0 0 0 512", "ready"));
    begin(f, 0);
    limit = hth_supervisor_memory_of(f->supervisor).pools[0].limit_bytes;
    use(f, "b");
    assert_true(hth_supervisor_memory_of(f->supervisor).pools[0].limit_bytes == limit);
    use(f, "a");
    assert_true(hth_supervisor_memory_of(f->supervisor).pools[0].limit_bytes < limit);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(hth_supervisor_memory_of(f->supervisor).pools[0].limit_bytes == limit);
}

/* ---- devices ---- */

/* Models "a" and "b" take 3,000 MiB of a device with 5,000, and "c" takes none. */
static void add_models_of_a_device(fixture *f)
{
    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    (void)add_sized(f, "c", 1);
    for (size_t i = 0; i < 2; i++)
        set_words(f, i, WORDS("needs=device 3145728000 0 0 0 5242880000 GPU", "needs=host 0 0 0 0 0 512", "ready"));
    set_words(f, 2, WORDS("needs=host 0 0 0 0 0 512", "ready"));
}

FIXTURE_TEST(models_make_room_on_the_device_that_they_share)
{
    hth_supervisor_memory memory;

    add_models_of_a_device(f);
    begin(f, 9000);
    use(f, "c");
    use(f, "a");
    use(f, "b");
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(is_in(f, 2, HTH_WORKER_READY)); /* it was used before, and takes no memory of the device */
    memory = hth_supervisor_memory_of(f->supervisor);
    assert_int_equal(memory.n, 2);
    assert_string_equal(memory.pools[1].name, "GPU");
    assert_int_equal(memory.pools[1].limit_bytes / MIB, 4500);
    assert_int_equal(memory.pools[1].used_bytes / MIB, 3000);
    assert_true(memory.pools[0].used_bytes / MIB < 3000);
}

/* Models of a device of 5,000 MiB, of which other programs leave 3,500; word: of the first one. */
static void add_models_of_a_used_device(fixture *f, const char *word)
{
    add_models_of_a_device(f);
    set_words(
        f, 0,
        WORDS(word, "needs=device 3145728000 0 0 3670016000 5242880000 GPU", "needs=host 0 0 0 0 0 512", "ready"));
}

FIXTURE_TEST(what_other_programs_have_of_a_device_is_not_for_models)
{
    add_models_of_a_used_device(f, "needs-count=/dev/null");
    begin(f, 9000);
    use(f, "a");
    assert_int_equal(hth_supervisor_memory_of(f->supervisor).pools[1].limit_bytes / MIB, 3500);
    use(f, "b"); /* its own model is no other program */
    assert_int_equal(hth_supervisor_memory_of(f->supervisor).pools[1].limit_bytes / MIB, 3500);
}

FIXTURE_TEST(a_server_that_knows_its_models_looks_at_the_device_again)
{
    char word[600], text[64], path[600];
    hearth_error err;

    (void)snprintf(word, sizeof(word), "needs-count=%s", f->path);
    (void)snprintf(path, sizeof(path), "%s/needs", f->directory);
    f->options.learned_path = path;
    f->options.needs_again_ms = 600000;
    add_models_of_a_used_device(f, word);
    begin(f, 9000);
    use(f, "a");
    assert_string_equal(text_of(f->path, text, sizeof(text)), "x");
    hth_supervisor_free(f->supervisor);

    start(f); /* another server */
    assert_int_equal(view(f, 0).needs.n_ctx, 512);
    assert_int_equal(hth_supervisor_memory_of(f->supervisor).pools[1].limit_bytes / MIB, 4500);
    use(f, "a");
    assert_string_equal(text_of(f->path, text, sizeof(text)), "xx");
    assert_int_equal(hth_supervisor_memory_of(f->supervisor).pools[1].limit_bytes / MIB, 3500);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    use(f, "a"); /* once is enough */
    assert_string_equal(text_of(f->path, text, sizeof(text)), "xx");
}

static void leave(fixture *f, const char *model, size_t i)
{
    hearth_error err;

    assert_int_equal(hth_supervisor_unload(f->supervisor, model, &err), HEARTH_OK);
    run_until(f, is_in(f, i, HTH_WORKER_STOPPED));
}

/* Model "a" takes 3,000 MiB of a device with 5,000, of which so many are free. fit: a line of its choice, or "". */
static void set_free(fixture *f, unsigned n_mib, const char *fit)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "device 3145728000 0 0 %llu 5242880000 GPU\n%shost 0 0 0 0 0 512\n",
                   (unsigned long long)n_mib * MIB, fit);
    hth_test_file_write(f->directory, "lines", text, 0600);
}

static uint64_t device_limit_mib(const fixture *f)
{
    return hth_supervisor_memory_of(f->supervisor).pools[1].limit_bytes / MIB;
}

FIXTURE_TEST(memory_of_a_device_that_another_program_gave_back_is_found_when_no_model_is_there)
{
    char lines[600], count[600], text[64];

    (void)snprintf(lines, sizeof(lines), "needs-file=%s/lines", f->directory);
    (void)snprintf(count, sizeof(count), "needs-count=%s", f->path);
    f->options.needs_again_ms = 0;
    add_models_of_a_device(f);
    set_words(f, 0, WORDS(count, lines, "ready"));
    set_free(f, 3500, "");
    begin(f, 9000);
    use(f, "a");
    assert_int_equal(device_limit_mib(f), 3500);
    set_free(f, 4000, "");
    use(f, "a"); /* it is there already */
    assert_int_equal(device_limit_mib(f), 3500);
    leave(f, "a", 0);
    use(f, "a");
    assert_int_equal(device_limit_mib(f), 4000);
    leave(f, "a", 0);
    set_free(f, 1000, ""); /* what others take later is a matter of pressure */
    use(f, "a");
    assert_int_equal(device_limit_mib(f), 4000);
    leave(f, "a", 0);
    set_free(f, 4900, "");
    use(f, "a");
    assert_int_equal(device_limit_mib(f), 4500); /* nine tenths */
    leave(f, "a", 0);
    use(f, "a"); /* there is nothing more to find */
    assert_string_equal(text_of(f->path, text, sizeof(text)), "xxxx");
}

FIXTURE_TEST(a_choice_that_fits_is_told_what_was_found_and_is_made_anew_when_more_is)
{
    char lines[600], report[600];

    (void)snprintf(lines, sizeof(lines), "needs-file=%s/lines", f->directory);
    (void)snprintf(report, sizeof(report), "needs-report=%s", f->path);
    f->options.needs_again_ms = 600000;
    add_models_of_a_device(f);
    set_words(f, 0, WORDS(report, lines, "ready"));
    set_words(f, 1, WORDS("needs=device 1048576 0 0 4718592000 5242880000 GPU", "needs=host 0 0 0 0 0 512", "ready"));
    set_free(f, 3500, "fit 4096 20 33\n");
    begin(f, 9000);
    use(f, "a");
    assert_false(text_has(f->path, "--device-found"));
    leave(f, "a", 0);
    assert_int_equal(unlink(f->path), 0);
    use(f, "a"); /* nothing has changed */
    assert_false(exists(f->path));
    leave(f, "a", 0);
    use(f, "b"); /* its answer has more */
    assert_int_equal(device_limit_mib(f), 4500);
    use(f, "a");
    assert_true(text_has(f->path, "arg --device-found\narg 4718592000:GPU\n"));
}

FIXTURE_TEST(an_operator_may_limit_the_memory_of_devices)
{
    add_models_of_a_device(f);
    f->options.device_memory_bytes = 6000 * UINT64_C(1048576);
    begin(f, 9000);
    use(f, "a");
    use(f, "b");
    assert_true(is_in(f, 0, HTH_WORKER_READY));
    assert_int_equal(hth_supervisor_memory_of(f->supervisor).pools[1].used_bytes / MIB, 6000);
}

FIXTURE_TEST(a_device_that_is_short_of_memory_loses_models_that_use_it)
{
    add_models_of_a_device(f);
    begin(f, 9000);
    use(f, "c");
    use(f, "a");
    assert_int_equal(hth_supervisor_relieve(f->supervisor, 1, true, NULL) / MIB, 3000);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(is_in(f, 2, HTH_WORKER_READY));
}

FIXTURE_TEST(a_model_without_needs_may_be_on_a_device)
{
    (void)add_sized(f, "a", 100);
    (void)add_sized(f, "b", 100);
    begin(f, 9000);
    use(f, "a");
    assert_int_equal(hth_supervisor_relieve(f->supervisor, 1, true, NULL) / MIB, 100 + PROCESS_MIB);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
}

/* The repacked weights of model "a", whose folder keeps them. The caller closes the region. */
static hth_weight_region *weights_of_a(fixture *f, const char *folder)
{
    const uint8_t layout[HTH_WEIGHT_LAYOUT_BYTES] = { 0 };
    const hth_weight_region_key key = {
        .folder = folder, .model_path = f->models[0].path, .machine = "engine", .n_bytes = 20 * MIB - 4096, .keep = true
    };
    hth_weight_region *region = NULL;
    hearth_error err;

    assert_ok(hth_weight_region_open(&key, &region, &err), err);
    if (!hth_weight_region_is_filled(region))
        assert_ok(hth_weight_region_publish(region, layout, &err), err);
    return region;
}

/* Two models of one file, of which one has it through a link. A process left their repacked weights in a folder. */
static void add_sharers(fixture *f, char folder[600])
{
    (void)snprintf(folder, 600, "%s/weights", f->directory);
    (void)add_sized(f, "a", 30);
    (void)add_sized(f, "b", 30);
    assert_int_equal(unlink(f->models[1].path), 0);
    assert_int_equal(symlink(f->models[0].path, f->models[1].path), 0);
    for (size_t i = 0; i < 2; i++) {
        f->words[i][2] = "--host-weights"; /* behind --do ready */
        f->words[i][3] = folder;
        f->words[i][4] = NULL;
    }
    hth_weight_region_close(weights_of_a(f, folder));
}

static uint64_t used_mib(fixture *f)
{
    return hth_supervisor_memory_of(f->supervisor).pools[0].used_bytes / MIB;
}

FIXTURE_TEST(repacked_weights_that_models_share_count_once)
{
    char folder[600];
    hearth_error err;

    add_sharers(f, folder);
    begin(f, 9000);
    run_until(f, used_mib(f) == 20);
    assert_int_equal(view(f, 1).host_weights_bytes / MIB, 20);
    use(f, "a");
    run_until(f, used_mib(f) == 30 + PROCESS_MIB);
    use(f, "b");
    run_until(f, used_mib(f) == 10 + 10 + 20 + 2 * PROCESS_MIB);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, used_mib(f) == 30 + PROCESS_MIB);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "b", &err), HEARTH_OK);
    run_until(f, used_mib(f) == 20);
    assert_true(hth_weight_regions_bytes(folder, f->models[0].path) > 0);
}

FIXTURE_TEST(repacked_weights_that_models_share_count_once_after_a_reload_and_while_one_loads)
{
    unsigned n_turns = 0;
    char folder[600];

    add_sharers(f, folder);
    begin(f, 45 + 2 * PROCESS_MIB);
    use(f, "a");
    use(f, "b");
    run_until(f, n_turns++ == 10);
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    run_until(f, n_turns++ == 20);
    assert_int_equal(used_mib(f), 10 + 10 + 20 + 2 * PROCESS_MIB);
    assert_true(is_in(f, 0, HTH_WORKER_READY) && is_in(f, 1, HTH_WORKER_READY));
}

FIXTURE_TEST(an_order_evicts_weights_that_another_absent_model_has_too)
{
    char folder[600];
    hearth_error err;

    add_sharers(f, folder);
    begin(f, 9000);
    run_until(f, used_mib(f) == 20);
    assert_int_equal(hth_supervisor_set_residency(f->supervisor, "b", HTH_RESIDENCY_EVICTED, &err), HEARTH_OK);
    assert_int_equal(hth_weight_regions_bytes(folder, f->models[0].path), 0);
    assert_int_equal(used_mib(f), 0);
    assert_int_equal(view(f, 0).residency, HTH_RESIDENCY_EVICTED);
}

FIXTURE_TEST(weights_that_models_share_are_not_pinned_by_that)
{
    char folder[600];
    hearth_error err;

    add_sharers(f, folder);
    (void)add_sized(f, "c", 75);
    begin(f, 120); /* "c" is larger than what pinned weights would leave */
    use(f, "a");
    use(f, "b");
    assert_int_equal(hth_supervisor_set_residency(f->supervisor, "c", HTH_RESIDENCY_PINNED_DEVICE, &err), HEARTH_OK);
}

FIXTURE_TEST(weights_that_another_process_holds_count_on_and_an_idle_model_makes_room)
{
    hth_weight_region *held;
    char folder[600];

    add_sharers(f, folder);
    (void)add_sized(f, "c", 30);
    (void)add_sized(f, "d", 30);
    begin(f, 65 + 2 * PROCESS_MIB);
    use(f, "c");
    held = weights_of_a(f, folder);
    use(f, "d");
    assert_int_equal(view(f, 0).host_weights_bytes / MIB, 20);
    run_until(f, is_in(f, 2, HTH_WORKER_STOPPED));
    hth_weight_region_close(held);
}

FIXTURE_TEST(kept_weights_make_room_and_rows_stay)
{
    char folder[600];
    hearth_error err;

    add_sharers(f, folder);
    f->words[0][4] = "--do";
    f->words[0][5] = "fill-ram=1048576";
    f->words[0][6] = NULL;
    f->models[0].ram_bytes = f->options.ram_total_bytes = 2 * MIB;
    (void)add_sized(f, "c", 50);
    begin(f, 60 + PROCESS_MIB);
    use(f, "a");
    run_until(f, hth_supervisor_memory_of(f->supervisor).rows_bytes >= MIB);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(hth_weight_regions_bytes(folder, f->models[0].path) > 0);
    use(f, "c");
    assert_int_equal(hth_weight_regions_bytes(folder, f->models[0].path), 0);
    assert_true(hth_supervisor_memory_of(f->supervisor).rows_bytes >= MIB);
}
