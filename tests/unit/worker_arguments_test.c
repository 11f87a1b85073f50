/*
 * worker_arguments_test.c - which changes of a worker's command line change its replies
 */
#include "supervisor/worker_arguments.h"
#include "support/cmocka_all.h"
#include "support/support.h"

TEST(a_flag_without_a_value_counts_wherever_it_is)
{
    const char *const without[] = { "worker", "--model", "m", "--threads", "2", NULL };
    const char *const last[] = { "worker", "--model", "m", "--lora-init-without-apply", NULL };
    const char *const first[] = { "worker", "--lora-init-without-apply", "--model", "m", NULL };

    assert_false(hth_worker_arguments_mean_same(without, last));
    assert_false(hth_worker_arguments_mean_same(last, without));
    assert_true(hth_worker_arguments_mean_same(first, last));
}

TEST(one_option_is_compared_with_all_its_values)
{
    const char *const a[] = { "--lora", "x", "--model", "m", "--lora", "y", NULL };
    const char *const b[] = { "--model", "n", "--lora", "x", "--lora", "y", NULL };
    const char *const c[] = { "--model", "m", "--lora", "y", "--lora", "x", NULL };

    assert_true(hth_worker_arguments_have_same(a, b, "--lora"));
    assert_false(hth_worker_arguments_have_same(a, c, "--lora"));
    assert_false(hth_worker_arguments_have_same(a, b, "--model"));
    assert_true(hth_worker_arguments_have_same(a, c, "--lora-dir"));
}

TEST(values_count_and_other_options_do_not)
{
    const char *const a[] = { "worker", "--model", "m", "--threads", "2", NULL };
    const char *const b[] = { "worker", "--threads", "4", "--model", "m", NULL };
    const char *const c[] = { "worker", "--model", "m", "--stop", "x", NULL };

    assert_true(hth_worker_arguments_mean_same(a, b));
    assert_false(hth_worker_arguments_mean_same(a, c));
}

TEST(other_positions_and_control_vectors_make_other_replies)
{
    static const char *const names[] = {
        "--control-vector",   "--control-vector-layer-range",
        "--override-kv",      "--rope-scaling",
        "--rope-freq-base",   "--rope-freq-scale",
        "--yarn-orig-ctx",    "--yarn-ext-factor",
        "--yarn-attn-factor", "--yarn-beta-slow",
        "--yarn-beta-fast",
    };
    const char *const without[] = { "worker", "--model", "m", NULL };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *const with[] = { "worker", "--model", "m", names[i], "2", NULL };

        if (hth_worker_arguments_mean_same(without, with) || hth_worker_arguments_mean_same(with, without))
            fail_msg("%s changes nothing", names[i]);
    }
}
