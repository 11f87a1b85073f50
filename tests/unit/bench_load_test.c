/*
 * bench_load_test.c - the load of `hearth bench --url`: arrivals and conversations
 */
#include <string.h>

#include "bench/bench_load.h"
#include "support/cmocka_all.h"

enum { N = 3000 };

static hth_bench_request plan[N], again[N];

TEST(the_same_seed_gives_the_same_load_and_another_seed_another_one)
{
    hth_bench_load_plan(7, 5, plan, N);
    hth_bench_load_plan(7, 5, again, N);
    for (size_t i = 0; i < N; i++)
        assert_true(plan[i].at_ns == again[i].at_ns && plan[i].system_seed == again[i].system_seed &&
                    plan[i].text_seed == again[i].text_seed &&
                    memcmp(plan[i].before, again[i].before, sizeof(plan[i].before)) == 0);
    hth_bench_load_plan(8, 5, again, N);
    assert_true(plan[0].at_ns != again[0].at_ns && plan[0].system_seed != again[0].system_seed &&
                plan[0].text_seed != again[0].text_seed);
}

TEST(arrivals_rise_at_the_rate_and_vary)
{
    size_t n_long = 0;

    hth_bench_load_plan(1, 5, plan, N);
    for (size_t i = 1; i < N; i++) {
        assert_true(plan[i].at_ns >= plan[i - 1].at_ns);
        n_long += plan[i].at_ns - plan[i - 1].at_ns > 200000000; /* the mean; e^-1 of the gaps are longer */
    }
    assert_in_range(plan[N - 1].at_ns, UINT64_C(540000000000), UINT64_C(660000000000));
    assert_in_range(n_long, N * 32 / 100, N * 42 / 100);
}

TEST(a_request_stands_behind_those_that_it_needs_and_no_text_comes_twice)
{
    hth_bench_load_plan(1, 5, plan, N);
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < HTH_BENCH_BEFORE_MAX; k++) {
            assert_true(plan[i].before[k] < (int32_t)i);
            assert_true(plan[i].before[k] < 0 || plan[plan[i].before[k]].kind == plan[i].kind);
        }
        for (size_t k = 0; k < i; k++)
            assert_true(plan[k].text_seed != plan[i].text_seed);
    }
}

/* The requests of one kind that begin a conversation, among the first n of the plan. */
static size_t count_beginnings(hth_bench_kind kind, size_t n)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++)
        found += plan[i].kind == kind && (plan[i].before[0] < 0 || plan[i].before[1] >= 0);
    return found;
}

TEST(conversations_share_prompts_agents_fan_out_and_summarise_and_documents_are_asked_again)
{
    size_t n_children = 0, summary = 0, n_systems = 0;

    hth_bench_load_plan(1, 5, plan, N);
    assert_int_equal(count_beginnings(HTH_BENCH_CHAT, 3 * 16), 4);
    assert_int_equal(count_beginnings(HTH_BENCH_AGENTS, 3 * 13), 2); /* the plan and the summary */
    assert_int_equal(count_beginnings(HTH_BENCH_PREFIX, 3 * 12), 12);

    assert_true(plan[0].system_seed == plan[6].system_seed &&
                plan[0].system_seed != plan[3].system_seed);      /* chats 0, 2 and 1 */
    assert_true(plan[0].system_seed == plan[3 * 16].system_seed); /* the next group's first chat */
    assert_true(plan[2].system_seed == plan[2 + 3 * 3].system_seed && plan[2].system_seed != plan[2 + 3].system_seed);
    assert_true(plan[2].system_seed != plan[2 + 3 * 12].system_seed); /* the next group has other documents */
    for (size_t i = 0; i < 3 * 13; i++) {
        n_children += plan[i].kind == HTH_BENCH_AGENTS && plan[i].before[0] == 1;
        summary = plan[i].before[1] >= 0 ? i : summary;
    }
    assert_int_equal(n_children, 3);
    assert_int_equal(summary, 1 + 3 * 10);
    for (size_t k = 0; k < 3; k++)
        assert_int_equal(plan[summary].before[k], 1 + 3 * (7 + (int)k));
    assert_int_equal(plan[summary + 3].before[0], summary);
    assert_int_equal(plan[summary + 6].before[0], summary + 3);
    for (size_t i = 0; i < 3 * 13; i++)
        n_systems += plan[i].kind == HTH_BENCH_AGENTS && plan[i].system_seed != plan[1].system_seed;
    assert_int_equal(n_systems, 0);
}

TEST(words_depend_on_the_seed_alone)
{
    hth_buffer a = { .text = NULL }, b = { .text = NULL }, c = { .text = NULL };
    size_t n_spaces = 0;

    hth_bench_words_add(&a, 5, 20);
    hth_bench_words_add(&b, 5, 20);
    hth_bench_words_add(&c, 6, 20);
    assert_string_equal(hth_buffer_text(&a), hth_buffer_text(&b));
    assert_string_not_equal(hth_buffer_text(&a), hth_buffer_text(&c));
    for (const char *at = hth_buffer_text(&a); *at; at++)
        n_spaces += *at == ' ';
    assert_int_equal(n_spaces, 19);
    hth_buffer_deinit(&a);
    hth_buffer_deinit(&b);
    hth_buffer_deinit(&c);
}
