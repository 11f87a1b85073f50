/*
 * supervisor_moves_test.c - operators move models: in an external mode they alone, pins, places, and orders for several
 */
#include "engine/weight_region.h"
#include "support/sized_models.h"

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static hth_supervisor_memory memory(const fixture *f)
{
    return hth_supervisor_memory_of(f->supervisor);
}

static hearth_status move(fixture *f, const char *model, hth_residency to)
{
    hearth_error err;

    return hth_supervisor_set_residency(f->supervisor, model, to, &err);
}

static bool is_at(const fixture *f, size_t i, hth_residency residency)
{
    return view(f, i).residency == residency;
}

/* The request is refused before the loop turns. */
static void assert_refused(fixture *f, const char *model)
{
    asker a = request_of(f);

    want(f, model, 0, &a);
    assert_int_equal(a.n_failed, 1);
    assert_int_equal(a.err.status, HEARTH_CANCELLED);
    assert_non_null(strstr(a.err.message, "is not resident"));
}

/* ---- external ---- */

FIXTURE_TEST(in_an_external_mode_models_enter_by_orders_only)
{
    asker early = request_of(f);
    hearth_error err;

    (void)add_sized(f, "a", 4000);
    add_sized(f, "b", 4000)->rules.start = HTH_START_AT_ONCE;
    f->options.residency_mode = HTH_RESIDENCY_EXTERNAL;
    begin(f, 9000);
    assert_refused(f, "a");
    use(f, "b"); /* it starts with the server, and its requests wait for that */
    assert_int_equal(view(f, 0).n_starts, 0);
    assert_int_equal(hth_supervisor_load(f->supervisor, "a", &err), HEARTH_OK);
    want(f, "a", 0, &early);
    run_until(f, early.n_ready == 1);
    end(&early);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    assert_refused(f, "a"); /* it leaves */
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_refused(f, "a");
    assert_int_equal(view(f, 0).n_starts, 1);
}

FIXTURE_TEST(in_an_external_mode_nobody_leaves_for_others_or_after_a_rest)
{
    hearth_error err;
    unsigned n_turns = 0;

    add_sized(f, "a", 4000)->rules.unload_after_ms = 1;
    (void)add_sized(f, "b", 4000);
    (void)add_sized(f, "c", 4000);
    f->options.residency_mode = HTH_RESIDENCY_EXTERNAL;
    begin(f, 9000);
    assert_int_equal(hth_supervisor_load(f->supervisor, "a", &err), HEARTH_OK);
    assert_int_equal(hth_supervisor_load(f->supervisor, "b", &err), HEARTH_OK);
    use(f, "a");
    hth_supervisor_keep(f->supervisor, "a", 0); /* as Ollama's clients say */
    use(f, "b");
    assert_int_equal(hth_supervisor_load(f->supervisor, "c", &err), HEARTH_FULL);
    assert_non_null(strstr(err.message, "unload others first"));
    assert_int_equal(hth_supervisor_relieve(f->supervisor, UINT64_C(1) << 40, false, NULL), 0);
    assert_int_equal(hth_supervisor_relieve(f->supervisor, UINT64_C(1) << 40, true, NULL), 0);
    run_until(f, n_turns++ == 10);
    assert_true(is_in(f, 0, HTH_WORKER_READY) && is_in(f, 1, HTH_WORKER_READY));
    assert_true(view(f, 0).leaves_in_ms == UINT64_MAX);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_int_equal(hth_supervisor_load(f->supervisor, "c", &err), HEARTH_OK);
    use(f, "c");
}

FIXTURE_TEST(in_an_external_mode_an_order_without_room_is_given_up)
{
    asker a = request_of(f);
    hearth_error err;

    (void)add_sized(f, "a", 1000);
    (void)add_sized(f, "b", 100);
    set_words(f, 1, WORDS("needs=host 0 0 3145728000 0 0 4096", "ready")); /* more than its file tells */
    f->options.residency_mode = HTH_RESIDENCY_EXTERNAL;
    begin(f, 3900);
    assert_int_equal(hth_supervisor_load(f->supervisor, "a", &err), HEARTH_OK);
    use(f, "a");
    assert_int_equal(hth_supervisor_load(f->supervisor, "b", &err), HEARTH_OK);
    want(f, "b", 0, &a);
    assert_int_equal(a.n_failed, 0);
    run_until(f, a.n_failed == 1);
    assert_int_equal(a.err.status, HEARTH_CANCELLED);
    assert_non_null(strstr(f->logged, "model 'b': there is no room for it"));
    assert_true(view(f, 1).waits_for_room);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    assert_int_equal(hth_supervisor_load(f->supervisor, "b", &err), HEARTH_OK); /* and waits for that end */
    use(f, "b");
}

FIXTURE_TEST(in_an_external_mode_a_worker_that_dies_comes_back)
{
    hearth_error err;

    (void)add_sized(f, "a", 1);
    f->options.residency_mode = HTH_RESIDENCY_EXTERNAL;
    begin(f, 9000);
    assert_int_equal(hth_supervisor_load(f->supervisor, "a", &err), HEARTH_OK);
    use(f, "a");
    send_signal(view(f, 0).pid, SIGTERM); /* nobody would load it again */
    run_until(f, view(f, 0).n_starts == 2);
    use(f, "a");
}

/* Model "a" starts with the server, is unloaded, and stays out through reloads, also with other options. */
static void reload_after_unload(fixture *f, hth_residency_mode mode)
{
    unsigned n_turns = 0;
    hearth_error err;

    add_sized(f, "a", 1)->rules.start = HTH_START_AT_ONCE;
    (void)add_sized(f, "b", 1);
    f->options.residency_mode = mode;
    begin(f, 9000);
    use(f, "a");
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    set_words(f, 0, WORDS("ready", "say=ready"));
    hth_supervisor_reconfigure(f->supervisor, &f->options); /* while it leaves, with other options */
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    run_until(f, n_turns++ == 10);
    assert_true(is_in(f, 0, HTH_WORKER_STOPPED));
    assert_int_equal(view(f, 0).n_starts, 1);
}

FIXTURE_TEST(in_an_external_mode_a_reload_brings_nothing_back_that_an_operator_unloaded)
{
    reload_after_unload(f, HTH_RESIDENCY_EXTERNAL);
}

FIXTURE_TEST(a_reload_brings_nothing_back_that_an_operator_unloaded_and_a_request_does)
{
    reload_after_unload(f, HTH_RESIDENCY_AUTOMATIC);
    assert_null(strstr(f->logged, "there is no room"));
    use(f, "a");
}

FIXTURE_TEST(a_reload_starts_models_that_are_to_start_with_the_server_since_then)
{
    (void)add_sized(f, "a", 1);
    begin(f, 9000);
    f->models[0].rules.start = HTH_START_AT_ONCE;
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
}

FIXTURE_TEST(an_order_sees_the_room_that_the_one_before_it_was_promised)
{
    hearth_error err;

    (void)add_sized(f, "a", 6000);
    (void)add_sized(f, "b", 6000);
    f->options.residency_mode = HTH_RESIDENCY_EXTERNAL;
    begin(f, 9000);
    assert_int_equal(hth_supervisor_load(f->supervisor, "a", &err), HEARTH_OK);
    assert_true(is_in(f, 0, HTH_WORKER_STOPPED)); /* its needs are asked for first */
    assert_int_equal(hth_supervisor_load(f->supervisor, "b", &err), HEARTH_FULL);
    use(f, "a");
}

/* ---- pins and places ---- */

FIXTURE_TEST(a_model_is_pinned_and_unpinned_while_the_server_runs)
{
    (void)add_sized(f, "a", 4000);
    (void)add_sized(f, "b", 4000);
    (void)add_sized(f, "c", 4000);
    begin(f, 9000);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_PINNED_DEVICE), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    assert_true(is_at(f, 0, HTH_RESIDENCY_PINNED_DEVICE));
    use(f, "b");
    use(f, "c");
    assert_true(is_in(f, 0, HTH_WORKER_READY));
    assert_int_equal(memory(f).pools[0].pinned_bytes / MIB, 4000 + PROCESS_MIB);
    hth_supervisor_reconfigure(f->supervisor, &f->options); /* its option did not change */
    assert_true(view(f, 0).is_pinned);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_DEVICE), HEARTH_OK);
    use(f, "b"); /* a or c makes room */
    use(f, "c");
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(is_at(f, 0, HTH_RESIDENCY_EVICTED));
    f->models[0].rules.is_pinned = true;
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    assert_true(view(f, 0).is_pinned);
}

FIXTURE_TEST(pins_that_cannot_be_kept_are_refused)
{
    hearth_error err;

    (void)add_sized(f, "a", 4000);
    (void)add_sized(f, "b", 6000);
    begin(f, 9000);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_PINNED_DEVICE), HEARTH_OK);
    assert_int_equal(hth_supervisor_set_residency(f->supervisor, "b", HTH_RESIDENCY_PINNED_DEVICE, &err), HEARTH_FULL);
    assert_non_null(strstr(
        err.message, "with model 'b', pinned models would take 10064 MiB of the 9000 MiB for models on the host"));
    assert_false(view(f, 1).is_pinned);
    assert_int_equal(move(f, "b", HTH_RESIDENCY_HOST), HEARTH_UNSUPPORTED); /* no folder keeps its weights */
    assert_int_equal(move(f, "b", HTH_RESIDENCY_PINNED_HOST), HEARTH_UNSUPPORTED);
    assert_int_equal(move(f, "none", HTH_RESIDENCY_EVICTED), HEARTH_NOT_FOUND);
    f->options.models_max = 1;
    f->options.memory_bytes = UINT64_C(20000) * MIB;
    assert_int_equal(move(f, "b", HTH_RESIDENCY_PINNED_DEVICE), HEARTH_FULL);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_EVICTED), HEARTH_OK);
    assert_int_equal(move(f, "b", HTH_RESIDENCY_PINNED_DEVICE), HEARTH_OK);
}

/* Host weights of a model, as a worker would leave them. */
static void fill_folder(const char *folder, const char *model_path, size_t n_bytes)
{
    static const uint8_t layout[HTH_WEIGHT_LAYOUT_BYTES];
    hth_weight_region *region;
    hearth_error err;

    assert_ok(hth_weight_region_open(
                  &(hth_weight_region_key){
                      .folder = folder, .model_path = model_path, .machine = "test", .n_bytes = n_bytes, .keep = true },
                  &region, &err),
              err);
    memset(hth_weight_region_memory(region), 1, n_bytes);
    assert_ok(hth_weight_region_publish(region, layout, &err), err);
    hth_weight_region_close(region);
}

/* Model "a" of 4 MiB keeps weights of 4 MiB in a folder. */
static void add_with_folder(fixture *f)
{
    (void)add_sized(f, "a", 4);
    f->words[0][2] = "--host-weights";
    f->words[0][3] = f->path;
    f->words[0][4] = f->words[0][5] = "--keep-host-weights"; /* the fake worker reads pairs */
    f->words[0][6] = NULL;
}

FIXTURE_TEST(weights_stay_in_host_memory_and_a_pin_keeps_them_there)
{
    add_with_folder(f);
    (void)add_sized(f, "b", 60);
    begin(f, 62 + PROCESS_MIB);
    use(f, "a");
    fill_folder(f->path, paths[0], 4 * MIB);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_HOST), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(is_at(f, 0, HTH_RESIDENCY_HOST));
    use(f, "b"); /* there is no room for both */
    assert_true(is_at(f, 0, HTH_RESIDENCY_EVICTED));

    assert_int_equal(move(f, "a", HTH_RESIDENCY_PINNED_HOST), HEARTH_OK); /* it loads, and leaves again */
    run_until(f, view(f, 0).n_starts == 2);
    fill_folder(f->path, paths[0], 4 * MIB);
    run_until(f, is_at(f, 0, HTH_RESIDENCY_PINNED_HOST));
    use(f, "b"); /* larger than the rest of the memory: it comes in alone */
    assert_true(is_at(f, 0, HTH_RESIDENCY_PINNED_HOST));
    assert_int_equal(hth_supervisor_relieve(f->supervisor, 1, false, NULL) / MIB,
                     60 + PROCESS_MIB); /* the model, and not the weights */
    run_until(f, is_in(f, 1, HTH_WORKER_STOPPED));
    assert_true(is_at(f, 0, HTH_RESIDENCY_PINNED_HOST));
    use(f, "a");
    assert_true(is_at(f, 0, HTH_RESIDENCY_DEVICE));
    assert_true(view(f, 0).is_host_pinned);

    assert_int_equal(move(f, "a", HTH_RESIDENCY_EVICTED), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(is_at(f, 0, HTH_RESIDENCY_EVICTED));
    assert_false(view(f, 0).is_host_pinned);
}

FIXTURE_TEST(weights_that_are_pinned_on_the_host_count_as_pinned_while_their_model_is_in)
{
    add_with_folder(f);
    assert_int_equal(truncate(f->models[0].path, 40 * MIB), 0);
    (void)add_sized(f, "b", 60);
    begin(f, 75 + PROCESS_MIB);
    fill_folder(f->path, paths[0], 20 * MIB);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_PINNED_HOST), HEARTH_OK);
    assert_int_equal(memory(f).pools[0].pinned_bytes / MIB, 20);
    use(f, "a");
    run_until(f, memory(f).pools[0].pinned_bytes / MIB == 20);
    assert_int_equal(memory(f).pools[0].used_bytes / MIB, 40 + PROCESS_MIB);
    assert_int_equal(move(f, "b", HTH_RESIDENCY_PINNED_DEVICE), HEARTH_FULL);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_DEVICE), HEARTH_OK);
    assert_int_equal(move(f, "b", HTH_RESIDENCY_PINNED_DEVICE), HEARTH_OK);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_PINNED_HOST), HEARTH_FULL);
}

FIXTURE_TEST(kept_weights_make_no_room_for_their_own_model)
{
    hearth_error err;

    add_with_folder(f);
    assert_int_equal(truncate(f->models[0].path, 40 * MIB), 0);
    (void)add_sized(f, "b", 40);
    fill_folder(f->path, paths[0], 20 * MIB);
    f->options.residency_mode = HTH_RESIDENCY_EXTERNAL;
    begin(f, 75 + 2 * PROCESS_MIB);
    assert_int_equal(hth_supervisor_load(f->supervisor, "b", &err), HEARTH_OK);
    use(f, "b");
    assert_int_equal(move(f, "a", HTH_RESIDENCY_DEVICE), HEARTH_FULL);
    assert_true(is_at(f, 0, HTH_RESIDENCY_HOST));
}

/* ---- orders that follow each other ---- */

FIXTURE_TEST(an_order_to_leave_keeps_the_promise_of_an_earlier_one)
{
    hearth_error err;

    add_with_folder(f);
    (void)add_sized(f, "b", 1);
    begin(f, 9000);
    use(f, "a");
    fill_folder(f->path, paths[0], 4 * MIB);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_EVICTED), HEARTH_OK);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(is_at(f, 0, HTH_RESIDENCY_EVICTED));
}

/* Model "a", whose weights may lie in a folder, loads. */
static void begin_loading(fixture *f)
{
    hearth_error err;

    add_with_folder(f);
    (void)add_sized(f, "b", 1);
    begin(f, 9000);
    assert_int_equal(hth_supervisor_load(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STARTING));
    assert_int_equal(move(f, "a", HTH_RESIDENCY_HOST), HEARTH_OK); /* it leaves when it has filled the folder */
}

FIXTURE_TEST(a_model_on_its_way_to_the_host_gets_there_after_a_restart_and_after_a_death)
{
    hearth_error err;

    begin_loading(f);
    assert_int_equal(hth_supervisor_restart(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, view(f, 0).n_starts == 2 && is_in(f, 0, HTH_WORKER_STOPPED));
    use(f, "a");
    send_signal(view(f, 0).pid, SIGKILL);
    run_until(f, is_in(f, 0, HTH_WORKER_WAITING));
    assert_int_equal(move(f, "a", HTH_RESIDENCY_HOST), HEARTH_OK);
    run_until(f, view(f, 0).n_starts == 4 && is_in(f, 0, HTH_WORKER_STOPPED));
}

FIXTURE_TEST(a_model_on_its_way_to_the_host_stays_when_it_is_ordered_to_load)
{
    unsigned n_turns = 0;
    hearth_error err;

    begin_loading(f);
    assert_int_equal(hth_supervisor_load(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    run_until(f, n_turns++ == 10);
    assert_true(is_in(f, 0, HTH_WORKER_READY));
}

FIXTURE_TEST(a_model_on_its_way_to_the_host_takes_no_new_requests)
{
    asker a = request_of(f), b = request_of(f);

    begin_loading(f);
    want(f, "a", 0, &a);
    run_until(f, a.n_ready == 1 && view(f, 0).is_closed);
    b.waiter.since_ns = hth_os_monotonic_ns();
    want(f, "a", 0, &b);
    assert_int_equal(b.n_ready, 0);
    end(&a);
    run_until(f, b.n_ready == 1); /* it brings the model back */
    assert_int_equal(view(f, 0).n_starts, 2);
    end(&b);
}

FIXTURE_TEST(a_model_that_ends_before_it_has_filled_the_folder_is_loaded_again_for_that)
{
    hearth_error err;

    add_with_folder(f);
    (void)add_sized(f, "b", 1);
    begin(f, 9000);
    use(f, "a");
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_HOST), HEARTH_OK);
    run_until(f, view(f, 0).n_starts == 2 && is_in(f, 0, HTH_WORKER_STOPPED));
}

FIXTURE_TEST(a_model_whose_weights_another_process_left_is_on_the_host)
{
    add_with_folder(f);
    (void)add_sized(f, "b", 1);
    begin(f, 9000);
    fill_folder(f->path, paths[0], 4 * MIB);
    assert_int_equal(move(f, "a", HTH_RESIDENCY_HOST), HEARTH_OK);
    use(f, "b");
    assert_true(is_at(f, 0, HTH_RESIDENCY_HOST));
    assert_int_equal(view(f, 0).n_starts, 0);
}

/* ---- orders for several models ---- */

static json_t *names(json_t *page, const char *list)
{
    return json_object_get(page, list);
}

FIXTURE_TEST(models_are_preloaded_in_the_order_that_is_asked_for_as_far_as_there_is_room)
{
    static const char *const all[] = { "a", "c", "b" }, *const unknown[] = { "a", "none" };
    static const char *const again[] = { "a", "b", "c", "a" };
    hearth_error err;
    json_t *page = NULL;

    (void)add_sized(f, "a", 4000);
    (void)add_sized(f, "b", 4000);
    (void)add_sized(f, "c", 4000);
    begin(f, 9000);
    assert_int_equal(hth_supervisor_preload(f->supervisor, unknown, 2, &page, &err), HEARTH_NOT_FOUND);
    assert_int_equal(hth_supervisor_preload(f->supervisor, again, 4, &page, &err), HEARTH_MISUSE);
    assert_int_equal(view(f, 0).n_starts, 0);
    use(f, "a");
    assert_int_equal(hth_supervisor_preload(f->supervisor, all, 3, &page, &err), HEARTH_OK);
    assert_string_equal(json_string_value(json_array_get(names(page, "resident"), 0)), "a");
    assert_string_equal(json_string_value(json_array_get(names(page, "loading"), 0)), "c");
    assert_string_equal(json_string_value(json_array_get(names(page, "no_room"), 0)), "b");
    json_decref(page);
    run_until(f, is_in(f, 2, HTH_WORKER_READY));
    assert_true(is_in(f, 0, HTH_WORKER_READY));
    assert_int_equal(view(f, 1).n_starts, 0);
}

FIXTURE_TEST(a_preload_makes_kept_weights_leave_and_no_model)
{
    static const char *const both[] = { "b", "d" };
    hearth_error err;
    json_t *page = NULL;

    add_with_folder(f);
    (void)add_sized(f, "b", 30);
    (void)add_sized(f, "c", 20);
    (void)add_sized(f, "d", 20);
    fill_folder(f->path, paths[0], 20 * MIB);
    begin(f, 64 + 2 * PROCESS_MIB);
    use(f, "c"); /* earlier than "a", whose weights are dropped */
    use(f, "a");
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_at(f, 0, HTH_RESIDENCY_HOST));
    assert_int_equal(hth_supervisor_preload(f->supervisor, both, 2, &page, &err), HEARTH_OK);
    assert_string_equal(json_string_value(json_array_get(names(page, "loading"), 0)), "b");
    assert_string_equal(json_string_value(json_array_get(names(page, "no_room"), 0)), "d");
    json_decref(page);
    run_until(f, is_in(f, 1, HTH_WORKER_READY));
    assert_true(is_at(f, 0, HTH_RESIDENCY_EVICTED));
    assert_true(is_in(f, 2, HTH_WORKER_READY));
}

FIXTURE_TEST(a_release_of_all_models_ends_the_wait_of_those_that_were_ordered_to_load)
{
    unsigned n_turns = 0;
    hearth_error err;
    json_t *page = NULL;

    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    begin(f, 9000);
    assert_int_equal(hth_supervisor_load(f->supervisor, "a", &err), HEARTH_OK);
    assert_true(is_in(f, 0, HTH_WORKER_STOPPED)); /* its needs are asked for first */
    assert_int_equal(hth_supervisor_release_all(f->supervisor, false, &page, &err), HEARTH_OK);
    assert_int_equal(json_array_size(names(page, "releasing")), 0);
    json_decref(page);
    use(f, "b");
    run_until(f, n_turns++ == 10);
    assert_int_equal(view(f, 0).n_starts, 0);
}

FIXTURE_TEST(all_models_but_pinned_ones_leave_with_their_rows)
{
    asker a = request_of(f);
    hearth_error err;
    json_t *page = NULL;
    char word[64];

    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    add_sized(f, "c", 1)->rules.is_pinned = true;
    f->models[0].ram_bytes = f->models[1].ram_bytes = 32 * MIB;
    (void)snprintf(word, sizeof(word), "fill-ram=%d", 32 * MIB);
    set_words(f, 0, WORDS(word, "ready"));
    set_words(f, 1, WORDS(word, "ready"));
    begin(f, 9000);
    use(f, "b");
    use(f, "c");
    assert_int_equal(hth_supervisor_unload(f->supervisor, "b", &err), HEARTH_OK);
    run_until(f, is_in(f, 1, HTH_WORKER_STOPPED));
    assert_true(view(f, 1).memory_bytes >= (32 + PROCESS_MIB) * MIB);
    want(f, "a", 0, &a);
    run_until(f, a.n_ready == 1);
    assert_int_equal(hth_supervisor_release_all(f->supervisor, true, &page, &err), HEARTH_OK);
    assert_int_equal(json_array_size(names(page, "releasing")), 1);
    json_decref(page);
    end(&a);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    assert_true(view(f, 0).memory_bytes < (32 + PROCESS_MIB) * MIB);
    assert_true(view(f, 1).memory_bytes < (32 + PROCESS_MIB) * MIB);
    assert_true(is_in(f, 2, HTH_WORKER_READY));
}

/* One of the two models takes requests at any time. */
static bool are_compacted(const fixture *f)
{
    assert_true(is_in(f, 0, HTH_WORKER_READY) || is_in(f, 1, HTH_WORKER_READY));
    return view(f, 0).n_starts == 2 && view(f, 1).n_starts == 2;
}

FIXTURE_TEST(models_are_compacted_one_after_another_and_their_requests_wait)
{
    asker a = request_of(f);
    hearth_error err;
    json_t *page = NULL;

    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    add_sized(f, "c", 1)->rules.is_pinned = true;
    begin(f, 9000);
    use(f, "a");
    use(f, "b");
    use(f, "c");
    assert_int_equal(hth_supervisor_compact(f->supervisor, &page, &err), HEARTH_OK);
    assert_int_equal(json_array_size(names(page, "compacting")), 2);
    json_decref(page);
    want(f, "a", 0, &a);
    assert_int_equal(a.n_ready, 0);
    run_until(f, are_compacted(f) && a.n_ready == 1);
    use(f, "b");
    assert_int_equal(view(f, 2).n_starts, 1);
    end(&a);
}
