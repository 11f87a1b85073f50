/*
 * supervisor_warnings_test.c - operators are told once of models that memory cannot hold
 */
#include "support/sized_models.h"

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static int times(const fixture *f, const char *text)
{
    int n = 0;

    for (const char *at = f->logged; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

FIXTURE_TEST(a_model_larger_than_all_memory_is_told_once_per_entry)
{
    static const char told[] = "model 'huge' takes 50032 MiB on the host, and there are ";

    (void)add_sized(f, "small", 1000);
    (void)add_sized(f, "huge", 50000);
    begin(f, 9000);
    use(f, "small");
    assert_null(strstr(f->logged, "for all models"));
    use(f, "huge");
    assert_int_equal(times(f, told), 1);
    assert_non_null(strstr(f->logged, "raise residency.memory, give it a smaller context, or let --fit choose"));
    use(f, "huge");
    send_signal(view(f, 1).pid, SIGKILL); /* the next process has the same place */
    run_until(f, view(f, 1).n_starts == 2 && is_in(f, 1, HTH_WORKER_READY));
    assert_int_equal(times(f, told), 1);
    use(f, "small");
    run_until(f, is_in(f, 1, HTH_WORKER_STOPPED));
    use(f, "huge");
    assert_int_equal(times(f, told), 2);
    assert_int_equal(times(f, "for all models"), 2);
}

FIXTURE_TEST(pins_that_memory_cannot_keep_are_told_when_that_begins)
{
    static const char told[] = "pinned models take 12064 MiB on the host, and there are ";
    unsigned n_turns = 0;

    add_sized(f, "a", 6000)->rules.is_pinned = true;
    add_sized(f, "b", 6000)->rules.is_pinned = true;
    begin(f, 9000);
    assert_int_equal(times(f, told), 1);
    assert_true(hth_supervisor_memory_of(f->supervisor).pools[0].pinned_over_commit);
    assert_int_equal(hth_supervisor_memory_of(f->supervisor).pools[0].pinned_bytes, 0); /* none is in memory */
    use(f, "a");
    run_until(f, n_turns++ == 10);
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    assert_int_equal(times(f, told), 1);

    f->models[1].rules.is_pinned = false;
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    assert_false(hth_supervisor_memory_of(f->supervisor).pools[0].pinned_over_commit);
    assert_int_equal(times(f, "pinned models take"), 1);
    f->models[1].rules.is_pinned = true;
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    assert_int_equal(times(f, told), 2);
    assert_int_equal(times(f, "pinned models take"), 2);
}

FIXTURE_TEST(pins_that_fit_are_no_news)
{
    add_sized(f, "a", 3000)->rules.is_pinned = true;
    add_sized(f, "b", 3000)->rules.is_pinned = true;
    begin(f, 9000);
    use(f, "a");
    use(f, "b");
    assert_int_equal(times(f, "for all models"), 0);
}

FIXTURE_TEST(pins_may_take_all_memory_and_no_byte_more)
{
    hth_supervisor_pool pool;

    add_sized(f, "a", 3000)->rules.is_pinned = true;
    add_sized(f, "b", 3000)->rules.is_pinned = true;
    begin(f, 2 * (3000 + PROCESS_MIB));
    pool = hth_supervisor_memory_of(f->supervisor).pools[0];
    assert_int_equal(pool.promised_bytes, pool.models_bytes);
    assert_false(pool.pinned_over_commit);
    f->options.memory_bytes--;
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    assert_true(hth_supervisor_memory_of(f->supervisor).pools[0].pinned_over_commit);
    f->options.memory_bytes = UINT64_MAX; /* no limit */
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    assert_false(hth_supervisor_memory_of(f->supervisor).pools[0].pinned_over_commit);
}

FIXTURE_TEST(a_pinned_model_too_many_by_an_order_is_told)
{
    add_sized(f, "a", 6000)->rules.is_pinned = true;
    add_sized(f, "b", 6000)->rules.is_pinned = true;
    f->options.n_models = 1;
    begin(f, 9000);
    assert_int_equal(times(f, "pinned models take"), 0);
    f->options.n_models = 2;
    hth_supervisor_set_models(f->supervisor, &f->options);
    assert_int_equal(times(f, "pinned models take"), 1);
    f->options.n_models = 1;
    hth_supervisor_set_models(f->supervisor, &f->options);
    assert_false(hth_supervisor_memory_of(f->supervisor).pools[0].pinned_over_commit);
}
