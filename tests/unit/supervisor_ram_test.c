/*
 * supervisor_ram_test.c - the rows of all models share one budget of memory
 */
#include "support/supervisor_stage.h"

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

enum { MIB = 1 << 20, BUDGET_MIB = 32 };

/* Two models with shares of half the budget each; words: of the second one's worker. */
static void begin(fixture *f, const char *const *words)
{
    add(f, "a", WORDS("say=ram 16777216 0 0", "ready"))->ram_bytes = UINT64_C(64) * MIB;
    add(f, "b", words)->ram_bytes = UINT64_C(64) * MIB;
    f->options.ram_total_bytes = (uint64_t)BUDGET_MIB * MIB;
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY) && is_in(f, 1, HTH_WORKER_READY));
}

static uint64_t share_mib(const fixture *f, size_t i)
{
    return view(f, i).ram_share_bytes / MIB;
}

/* The sum of all shares; it never passes the budget. */
static uint64_t sum_mib(const fixture *f)
{
    const uint64_t sum = share_mib(f, 0) + share_mib(f, 1);

    assert_true(sum <= BUDGET_MIB);
    return sum;
}

FIXTURE_TEST(models_start_with_a_part_of_the_budget)
{
    char text[4096];
    char report[600];

    (void)snprintf(report, sizeof(report), "report=%s", f->path);
    begin(f, WORDS(report, "ready"));
    assert_int_equal(sum_mib(f), BUDGET_MIB);
    assert_int_equal(share_mib(f, 1), BUDGET_MIB / 2);
    assert_non_null(strstr(text_of(f->path, text, sizeof(text)), "arg --ram-share\narg 16777216\n"));
    assert_int_equal(hth_supervisor_memory_of(f->supervisor).rows_limit_bytes / MIB, BUDGET_MIB + BUDGET_MIB / 16);
}

FIXTURE_TEST(a_busy_model_gets_memory_that_another_does_not_use)
{
    begin(f, WORDS("say=ram 16777216 16777216 0", "ready")); /* its rows fill its share */
    run_until(f, sum_mib(f) > 0 && share_mib(f, 1) == 24);
    assert_int_equal(share_mib(f, 0), 8);
}

FIXTURE_TEST(the_share_of_a_worker_that_ended_is_free)
{
    hearth_error err;

    begin(f, WORDS("say=ram 16777216 16777216 0", "ready"));
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, sum_mib(f) > 0 && is_in(f, 0, HTH_WORKER_STOPPED));
    assert_int_equal(share_mib(f, 0), 0);
    send_signal(view(f, 1).pid, SIGKILL);
    run_until(f, view(f, 1).n_deaths == 1 && is_in(f, 1, HTH_WORKER_READY));
    assert_true(sum_mib(f) >= BUDGET_MIB / 2);
}

FIXTURE_TEST(a_smaller_budget_comes_into_force_without_a_restart)
{
    begin(f, WORDS("say=ram 16777216 16777216 0", "ready"));
    f->options.ram_total_bytes = UINT64_C(8) * MIB;
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    run_until(f, sum_mib(f) <= 8);
    assert_int_equal(view(f, 0).n_starts + view(f, 1).n_starts, 2);
}

FIXTURE_TEST(a_model_that_is_larger_than_its_part_starts_with_a_share_of_the_rest)
{
    char path[600];
    char report[600];
    char text[4096];
    const char *share;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/large.gguf", f->directory);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 60L * MIB), 0);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(report, sizeof(report), "report=%s", f->path);
    add(f, "a", WORDS(report, "ready"))->ram_bytes = UINT64_C(64) * MIB;
    f->models[0].path = path;
    f->options.memory_bytes = UINT64_C(96) * MIB; /* the model counts with 32 MiB for its process */
    f->options.ram_total_bytes = (uint64_t)BUDGET_MIB * MIB;
    start(f);
    run_until(f, is_in(f, 0, HTH_WORKER_READY));
    share = strstr(text_of(f->path, text, sizeof(text)), "arg --ram-share\narg ");
    assert_non_null(share);
    assert_int_equal(strtoull(share + strlen("arg --ram-share\narg "), NULL, 10) / MIB, 3);
}

FIXTURE_TEST(rows_of_an_absent_model_make_room_for_a_model_whose_rows_find_none)
{
    char fill[64];
    hearth_error err;

    (void)snprintf(fill, sizeof(fill), "fill-ram=%d", 15 * MIB);
    begin(f, WORDS("say=ram 16777216 16777216 1", fill, "ready")); /* a row found no room */
    run_until(f, sum_mib(f) > 0 && share_mib(f, 1) >= 24);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "b", &err), HEARTH_OK);
    run_until(f, is_in(f, 1, HTH_WORKER_STOPPED));
    assert_int_equal(share_mib(f, 1), 15);
    f->options.ram_total_bytes = UINT64_C(16) * MIB;
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    run_until(f, sum_mib(f) <= 16);
}

/* What a process faulted in ahead of use ends with it, also when it is killed. */
FIXTURE_TEST(rows_of_a_model_whose_worker_was_killed_count_what_they_take)
{
    begin(f, WORDS("say=ram 16777216 16777216 0", "fill-ram=8192", "warm-ram=8388608", "ready"));
    assert_true(hth_supervisor_memory_of(f->supervisor).rows_bytes >= 8 * MIB);
    send_signal(view(f, 1).pid, SIGKILL);
    run_until(f, view(f, 1).n_deaths == 1);
    assert_in_range(hth_supervisor_memory_of(f->supervisor).rows_bytes, 8192, 8192 + 128 * 1024);
}

FIXTURE_TEST(memory_without_rows_ends_with_the_worker)
{
    hearth_error err;

    begin(f, WORDS("say=ram 16777216 0 0", "warm-ram=8388608", "ready"));
    assert_true(hth_supervisor_memory_of(f->supervisor).rows_bytes >= 8 * MIB);
    assert_int_equal(hth_supervisor_unload(f->supervisor, "b", &err), HEARTH_OK);
    run_until(f, is_in(f, 1, HTH_WORKER_STOPPED));
    assert_int_equal(hth_supervisor_memory_of(f->supervisor).rows_bytes, 0);
}
