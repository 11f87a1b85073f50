/*
 * supervisor_needs_test.c - processes are asked for the memory of models: whether, how often, and nobody waits for ever
 */
#include "support/sized_models.h"

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

FIXTURE_TEST(a_server_with_one_model_and_no_limit_asks_nobody)
{
    char word[600];

    (void)snprintf(word, sizeof(word), "needs-count=%s", f->path);
    (void)add_sized(f, "a", 1);
    set_words(f, 0, WORDS(word, "ready"));
    begin(f, 0);
    use(f, "a");
    assert_false(exists(f->path));
}

FIXTURE_TEST(models_whose_needs_nobody_tells_hold_up_no_other)
{
    asker askers[3] = { request_of(f), request_of(f), request_of(f) };

    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    (void)add_sized(f, "c", 1);
    set_words(f, 0, WORDS("needs-hang", "ready"));
    set_words(f, 1, WORDS("needs-hang", "ready"));
    f->options.needs_timeout_ms = 100;
    begin(f, 9000);
    for (size_t i = 0; i < 3; i++)
        want(f, f->models[i].name, 0, &askers[i]);
    run_until(f, askers[0].n_ready == 1 && askers[1].n_ready == 1 && askers[2].n_ready == 1);
    assert_int_equal(view(f, 0).needs.n_ctx, 0);
    for (size_t i = 0; i < 3; i++)
        end(&askers[i]);
}

/* A model whose first two processes that tell its needs crash, and its counter of them. */
static void add_crashing(fixture *f, uint32_t again_ms)
{
    static char word[600];

    (void)snprintf(word, sizeof(word), "needs-crash=%s", f->path);
    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    set_words(f, 0, WORDS(word, "needs=host 1048576 0 2097152 0 0 256", "ready"));
    f->options.needs_again_ms = again_ms;
    begin(f, 9000);
}

FIXTURE_TEST(a_killed_process_is_not_the_last_one_that_is_asked)
{
    char text[64];

    add_crashing(f, 0);
    use(f, "a");
    assert_int_equal(view(f, 0).needs.n_ctx, 256);
    assert_string_equal(text_of(f->path, text, sizeof(text)), "xxx");
}

FIXTURE_TEST(a_model_whose_process_was_killed_is_asked_about_later)
{
    char text[64];
    hearth_error err;

    add_crashing(f, 600000);
    use(f, "a");
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    use(f, "a");
    assert_int_equal(view(f, 0).needs.n_ctx, 0);
    assert_string_equal(text_of(f->path, text, sizeof(text)), "x");
}

FIXTURE_TEST(a_model_is_asked_about_five_times_at_most)
{
    char word[600], text[64];
    hearth_error err;

    (void)snprintf(word, sizeof(word), "needs-count=%s", f->path);
    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    set_words(f, 0, WORDS(word, "needs-crash=/dev/null", "ready"));
    f->options.needs_again_ms = 0;
    begin(f, 9000);
    use(f, "a");
    assert_int_equal(hth_supervisor_unload(f->supervisor, "a", &err), HEARTH_OK);
    run_until(f, is_in(f, 0, HTH_WORKER_STOPPED));
    use(f, "a");
    assert_string_equal(text_of(f->path, text, sizeof(text)), "xxxxx");
}

FIXTURE_TEST(a_server_ends_while_somebody_is_asked)
{
    asker a = request_of(f);

    (void)add_sized(f, "a", 1);
    (void)add_sized(f, "b", 1);
    set_words(f, 0, WORDS("needs-hang", "ready"));
    begin(f, 9000);
    want(f, "a", 0, &a);
    use(f, "b");
    assert_true(is_in(f, 0, HTH_WORKER_STOPPED));
    assert_int_equal(view(f, 0).n_waiters, 1);
    end(&a);
}
