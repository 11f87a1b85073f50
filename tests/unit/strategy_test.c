/*
 * strategy_test.c - what the built-in strategies choose, and that no strategy can choose what cannot be evaluated
 */
#include <stdio.h>
#include <string.h>

#include "sched/strategy.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { ITEMS_MAX = 12, ROUNDS = 20000 };

#define D(at)                                             \
    {                                                     \
        .is_decode = true, .n_ready = 1, .position = (at) \
    }
#define P(at, n)                         \
    {                                    \
        .n_ready = (n), .position = (at) \
    }

static const struct {
    const char *what;
    const char *strategy;
    uint32_t n_batch, chunk;
    size_t n;
    hearth_plan_item items[ITEMS_MAX];
    uint32_t plan[ITEMS_MAX];
} situations[] = {
    /* decode_maximal: replies first, whatever is left to prompts in their order */
    { "only replies", "decode_maximal", 512, 256, 3, { D(10), D(20), D(300) }, { 1, 1, 1 } },
    { "only prompts", "decode_maximal", 512, 256, 3, { P(0, 1000), P(0, 1000), P(0, 1000) }, { 256, 256, 0 } },
    { "a mix", "decode_maximal", 512, 256, 3, { P(0, 1000), D(5), P(0, 1000) }, { 256, 1, 192 } },
    { "a short prompt ends", "decode_maximal", 512, 256, 2, { P(0, 10), P(0, 300) }, { 10, 256 } },
    { "a prompt goes on", "decode_maximal", 512, 256, 1, { P(256, 300) }, { 256 } },
    { "up to the next boundary", "decode_maximal", 512, 256, 1, { P(100, 1000) }, { 156 } },
    { "from inside a small chunk", "decode_maximal", 512, 64, 1, { P(100, 1000) }, { 28 } },
    { "the room ends a chunk at 64", "decode_maximal", 200, 256, 1, { P(0, 1000) }, { 192 } },
    { "and aligns one that is not", "decode_maximal", 64, 256, 1, { P(40, 1000) }, { 24 } },
    { "the end of a prompt may be anywhere", "decode_maximal", 100, 256, 1, { P(0, 99) }, { 99 } },
    { "a small batch", "decode_maximal", 17, 256, 2, { P(0, 1000), P(0, 1000) }, { 17, 0 } },
    { "a small batch and a reply", "decode_maximal", 17, 256, 2, { P(0, 1000), D(3) }, { 16, 1 } },
    { "more replies than room", "decode_maximal", 2, 64, 4, { D(1), D(2), D(3), D(4) }, { 1, 1, 0, 0 } },
    { "replies leave less than a chunk: prompts go on all the same",
      "decode_maximal",
      64,
      64,
      2,
      { D(9), P(0, 500) },
      { 1, 63 } },
    /* prefill_priority: prompts first, an eighth for replies */
    { "prompts first", "prefill_priority", 512, 256, 3, { P(0, 1000), P(0, 1000), D(5) }, { 256, 192, 1 } },
    { "an eighth for replies",
      "prefill_priority",
      16,
      64,
      5,
      { P(0, 1000), D(1), D(2), D(3), D(4) },
      { 14, 1, 1, 0, 0 } },
    { "what prompts leave", "prefill_priority", 16, 64, 5, { P(0, 10), D(1), D(2), D(3), D(4) }, { 10, 1, 1, 1, 1 } },
    { "one at least for a reply", "prefill_priority", 4, 64, 2, { P(0, 1000), D(1) }, { 3, 1 } },
    { "only replies, prompts first",
      "prefill_priority",
      4,
      64,
      5,
      { D(1), D(2), D(3), D(4), D(5) },
      { 1, 1, 1, 1, 0 } },
    /* balanced: halves */
    { "half and half", "balanced", 8, 64, 6, { P(0, 100), D(1), D(2), D(3), D(4), D(5) }, { 4, 1, 1, 1, 1, 0 } },
    { "prompts take what replies leave", "balanced", 8, 64, 2, { P(0, 100), D(1) }, { 7, 1 } },
    { "replies take what prompts leave",
      "balanced",
      8,
      64,
      7,
      { P(0, 2), D(1), D(2), D(3), D(4), D(5), D(6) },
      { 2, 1, 1, 1, 1, 1, 1 } },
    { "one token a batch", "balanced", 1, 64, 2, { P(0, 100), D(1) }, { 0, 1 } },
};

TEST(built_in_strategies_choose_what_they_say)
{
    for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++) {
        hth_strategy strategy;
        uint32_t plan[ITEMS_MAX];

        assert_true(hth_strategy_builtin(situations[i].strategy, &strategy));
        hth_strategy_plan(&strategy, situations[i].items, situations[i].n, situations[i].n_batch, situations[i].chunk,
                          plan);
        for (size_t k = 0; k < situations[i].n; k++)
            if (plan[k] != situations[i].plan[k])
                fail_msg("%s, %s: item %zu gets %u instead of %u", situations[i].strategy, situations[i].what, k,
                         plan[k], situations[i].plan[k]);
    }
}

TEST(strategies_are_found_by_name)
{
    hth_strategy strategy;

    assert_true(hth_strategy_builtin(NULL, &strategy));
    assert_string_equal(strategy.name, "decode_maximal");
    assert_true(hth_strategy_builtin("balanced", &strategy));
    assert_string_equal(strategy.name, "balanced");
    assert_false(hth_strategy_builtin("", &strategy));
    assert_false(hth_strategy_builtin("fastest", &strategy));
}

/* ---- strategies of one's own ---- */

static void answers_too_much(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk, uint32_t *out,
                             void *user_data)
{
    (void)items, (void)n_batch, (void)chunk, (void)user_data;
    for (size_t i = 0; i < n; i++)
        out[i] = UINT32_MAX;
}

static void answers_nothing(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk, uint32_t *out,
                            void *user_data)
{
    (void)items, (void)n, (void)n_batch, (void)chunk, (void)out, (void)user_data;
}

static void answers_noise(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk, uint32_t *out,
                          void *user_data)
{
    (void)items, (void)n_batch, (void)chunk;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint32_t)hth_test_random(user_data, hth_test_random(user_data, 2) ? 600 : UINT64_C(1) << 32);
}

/* Everything that hth_strategy_plan promises, whatever the strategy. */
static void expect_sound(const hth_strategy *strategy, const hearth_plan_item *items, size_t n, uint32_t n_batch,
                         uint32_t chunk)
{
    uint32_t plan[ITEMS_MAX];
    uint64_t sum = 0;
    uint32_t n_decodes = 0;

    memset(plan, 0xAB, sizeof(plan));
    hth_strategy_plan(strategy, items, n, n_batch, chunk, plan);
    for (size_t i = 0; i < n; i++) {
        assert_true(plan[i] <= items[i].n_ready);
        assert_true(plan[i] <= chunk);
        assert_true(!items[i].is_decode || plan[i] <= 1);
        if (plan[i] > 0 && !items[i].is_decode) /* inside one chunk */
            assert_int_equal(items[i].position / chunk, (items[i].position + plan[i] - 1) / chunk);
        sum += plan[i];
        n_decodes += items[i].is_decode;
    }
    assert_in_range(sum, 1, n_batch);
    for (size_t i = 0; i < n; i++)
        if (plan[i] > 0 && plan[i] < items[i].n_ready && n_batch >= n_decodes + HTH_CHUNK_MIN &&
            (items[i].position + plan[i]) % HTH_CHUNK_MIN != 0)
            fail_msg("%s: a batch of %u, chunk %u: %u tokens from %u of %u end inside a small chunk", strategy->name,
                     n_batch, chunk, plan[i], items[i].position, items[i].n_ready);
}

TEST(no_strategy_can_choose_what_cannot_be_evaluated)
{
    static const uint32_t batches[] = { 1, 2, 7, 63, 64, 65, 100, 128, 256, 512 };
    uint64_t seed = hth_test_seed();
    hth_strategy strategies[] = {
        { .name = "decode_maximal" },
        { .name = "prefill_priority" },
        { .name = "balanced" },
        { .name = "too much", .plan = answers_too_much },
        { .name = "nothing", .plan = answers_nothing },
        { .name = "noise", .plan = answers_noise, .user_data = &seed },
    };

    for (size_t i = 0; i < 3; i++)
        assert_true(hth_strategy_builtin(strategies[i].name, &strategies[i]));
    for (unsigned round = 0; round < ROUNDS; round++) {
        hearth_plan_item items[ITEMS_MAX];
        size_t n = 1 + hth_test_random(&seed, ITEMS_MAX);
        uint32_t n_batch = batches[hth_test_random(&seed, sizeof(batches) / sizeof(batches[0]))];
        uint32_t chunk = 64u << hth_test_random(&seed, 3);

        for (size_t i = 0; i < n; i++) {
            bool is_decode = hth_test_random(&seed, 2);

            items[i] = (hearth_plan_item){
                .is_decode = is_decode,
                .n_ready = is_decode ? 1 : 1 + (uint32_t)hth_test_random(&seed, hth_test_random(&seed, 2) ? 70 : 2000),
                .position = (uint32_t)hth_test_random(&seed, 2000),
            };
        }
        expect_sound(&strategies[hth_test_random(&seed, sizeof(strategies) / sizeof(strategies[0]))], items, n, n_batch,
                     chunk);
    }
}

/* Played on, every prompt is read and every reply goes on, whatever n_batch and however many there are. */
TEST(nobody_starves_with_a_built_in_strategy)
{
    static const uint32_t batches[] = { 2, 9, 17, 64, 65, 70, 128, 512 };
    static const char *const names[] = { "decode_maximal", "prefill_priority", "balanced" };

    for (size_t b = 0; b < sizeof(batches) / sizeof(batches[0]); b++)
        for (size_t s = 0; s < sizeof(names) / sizeof(names[0]); s++) {
            hearth_plan_item items[2] = { D(10), P(0, 700) };
            hth_strategy strategy;
            uint32_t n_replies = 0, n_ticks = 0;

            assert_true(hth_strategy_builtin(names[s], &strategy));
            for (; items[1].n_ready > 0 && n_ticks < 2000; n_ticks++) {
                uint32_t plan[2];

                hth_strategy_plan(&strategy, items, 2, batches[b], 256, plan);
                n_replies += plan[0];
                items[0].position += plan[0];
                items[1].position += plan[1];
                items[1].n_ready -= plan[1];
            }
            if (items[1].n_ready > 0)
                fail_msg("%s, a batch of %u: the prompt stands still at %u", names[s], batches[b], items[1].position);
            assert_int_equal(n_replies, n_ticks); /* a token each time */
        }
}
