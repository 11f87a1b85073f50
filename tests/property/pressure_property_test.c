/*
 * pressure_property_test.c - memory that fills and empties at random, and the models that make room
 *
 * The decision (pressure.h) is compared with its definition, computed anew with exact numbers. The relief (relief.h)
 * follows its order, frees no more than it must, and touches nobody who is busy or pinned.
 *
 * HTH_STEPS: how many (default 200,000). HTH_SEED replays a run that printed it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/pressure.h"
#include "supervisor/relief.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { TOTAL = 1000, MODELS = 6 };

static uint64_t n_steps(void)
{
    const char *text = getenv("HTH_STEPS");

    return text ? strtoull(text, NULL, 10) : 200000;
}

/* ---- the decision ---- */

static hth_memory_limits random_sample(uint64_t *random)
{
    hth_memory_limits sample = { .n = hth_test_random(random, 4) };

    for (size_t i = 0; i < sample.n; i++)
        sample.at[i] = (hth_memory_limit){ .used_bytes = hth_test_random(random, TOTAL + 200),
                                           .total_bytes = TOTAL,
                                           .stall = (double)hth_test_random(random, 100) };
    return sample;
}

static hth_pressure_marks random_marks(uint64_t *random)
{
    return (hth_pressure_marks){ .high_percent = 1 + (uint32_t)hth_test_random(random, 100),
                                 .low_percent = 1 + (uint32_t)hth_test_random(random, 100),
                                 .stall_percent = (uint32_t)hth_test_random(random, 101),
                                 .evict_bytes_min = hth_test_random(random, 100) };
}

static void check_decision(const hth_memory_limits *sample, const hth_pressure_marks *marks, bool was_pressed)
{
    const uint64_t low =
        (uint64_t)TOTAL / 100 * (marks->low_percent < marks->high_percent ? marks->low_percent : marks->high_percent);
    bool is_pressed = was_pressed, all_low = true, any_high = false, any_stalled = false;
    uint64_t need = 0, bytes = hth_pressure_decide(sample, marks, &is_pressed);

    for (size_t i = 0; i < sample->n; i++) {
        const hth_memory_limit *limit = &sample->at[i];

        if (limit->used_bytes <= low)
            continue;
        all_low = false;
        need = limit->used_bytes - low > need ? limit->used_bytes - low : need;
        any_high |= limit->used_bytes >= (uint64_t)TOTAL / 100 * marks->high_percent;
        any_stalled |= marks->stall_percent > 0 && limit->stall >= marks->stall_percent;
    }
    if (all_low)
        assert_false(is_pressed);
    else
        assert_int_equal(is_pressed, was_pressed || any_high || any_stalled);
    assert_int_equal(bytes > 0, is_pressed);
    if (is_pressed)
        assert_int_equal(bytes, need > marks->evict_bytes_min ? need : marks->evict_bytes_min);
}

/* More use never asks for less, nor ends pressure. */
static void check_monotonic(uint64_t *random, const hth_memory_limits *sample, const hth_pressure_marks *marks)
{
    hth_memory_limits more = *sample;
    bool is_pressed = hth_test_random(random, 2), is_more_pressed = is_pressed;
    uint64_t bytes, more_bytes;

    for (size_t i = 0; i < more.n; i++)
        more.at[i].used_bytes += hth_test_random(random, 50);
    bytes = hth_pressure_decide(sample, marks, &is_pressed);
    more_bytes = hth_pressure_decide(&more, marks, &is_more_pressed);
    assert_true(more_bytes >= bytes);
    assert_true(is_more_pressed || !is_pressed);
}

TEST(the_decision_is_its_definition)
{
    uint64_t random = hth_test_seed();

    for (uint64_t step = n_steps(); step > 0; step--) {
        const hth_memory_limits sample = random_sample(&random);
        hth_pressure_marks marks = random_marks(&random);

        if (marks.evict_bytes_min == 0)
            marks.evict_bytes_min = 1;
        check_decision(&sample, &marks, hth_test_random(&random, 2));
        check_monotonic(&random, &sample, &marks);
    }
}

TEST(use_between_the_marks_changes_nothing)
{
    const hth_pressure_marks marks = { .high_percent = 95, .low_percent = 90, .evict_bytes_min = 1 };
    uint64_t random = hth_test_seed();
    hth_memory_limits sample = { .n = 1, .at = { { .total_bytes = TOTAL } } };

    for (int is_first_pressed = 0; is_first_pressed < 2; is_first_pressed++) {
        bool is_pressed = is_first_pressed;

        for (int i = 0; i < 1000; i++) {
            sample.at[0].used_bytes = 901 + hth_test_random(&random, 49);
            (void)hth_pressure_decide(&sample, &marks, &is_pressed);
            assert_int_equal(is_pressed, is_first_pressed);
        }
    }
}

TEST(freeing_what_is_asked_for_ends_the_pressure_at_once)
{
    uint64_t random = hth_test_seed();

    for (uint64_t step = n_steps() / 10; step > 0; step--) {
        hth_memory_limits sample = random_sample(&random);
        const hth_pressure_marks marks = random_marks(&random);
        bool is_pressed = false;
        const uint64_t bytes = hth_pressure_decide(&sample, &marks, &is_pressed);

        for (size_t i = 0; i < sample.n; i++)
            sample.at[i].used_bytes -= bytes < sample.at[i].used_bytes ? bytes : sample.at[i].used_bytes;
        assert_int_equal(hth_pressure_decide(&sample, &marks, &is_pressed), 0);
        assert_false(is_pressed);
    }
}

TEST(nothing_known_and_huge_numbers_are_no_trouble)
{
    const hth_pressure_marks marks = { .high_percent = 95, .low_percent = 90, .evict_bytes_min = 1 };
    hth_memory_limits sample = { .n = 0 };
    bool is_pressed = true;

    assert_int_equal(hth_pressure_decide(&sample, &marks, &is_pressed), 0);
    assert_false(is_pressed);
    assert_true(hth_pressure_use(&sample) == 0);
    sample = (hth_memory_limits){ .n = 1, .at = { { .used_bytes = UINT64_MAX, .total_bytes = UINT64_MAX } } };
    assert_int_equal(hth_pressure_decide(&sample, &marks, &is_pressed) / (UINT64_MAX / 1000), 100);
    assert_true(hth_pressure_use(&sample) == 1);
}

/* ---- the relief ---- */

static hth_relief_model random_model(uint64_t *random, uint64_t used_ns)
{
    hth_relief_model model = { .used_ns = used_ns, .keeps_rows = hth_test_random(random, 4) == 0 };

    if (hth_test_random(random, 3) == 0) {
        model.absent_row_bytes = hth_test_random(random, 100);
        return model;
    }
    model.may_leave = hth_test_random(random, 3) > 0;
    model.coming_bytes = hth_test_random(random, 8) == 0 ? hth_test_random(random, 100) : 0;
    model.stays = hth_test_random(random, 4) == 0;
    model.model_bytes = 100 + hth_test_random(random, 100);
    model.ram_bytes = hth_test_random(random, 100);
    model.ram_file_bytes = hth_test_random(random, 50);
    return model;
}

/* The bytes that the orders free. */
static uint64_t freed_by(const hth_relief_model *models, const hth_relief_order *orders)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < MODELS; i++)
        bytes += models[i].coming_bytes + (orders[i].drops_rows ? models[i].absent_row_bytes : 0) +
                 orders[i].ram_file_bytes + (orders[i].leaves ? models[i].model_bytes : orders[i].ram_bytes);
    return bytes;
}

static void check_order(const hth_relief_model *models, const hth_relief_order *orders, bool is_device)
{
    bool takes_rows = false, takes_files = false, takes_models = false;

    for (size_t i = 0; i < MODELS; i++) {
        takes_rows |= orders[i].ram_bytes > 0;
        takes_files |= orders[i].ram_file_bytes > 0;
        takes_models |= orders[i].leaves;
    }
    for (size_t i = 0; i < MODELS; i++) {
        const hth_relief_model *m = &models[i];
        const hth_relief_order *o = &orders[i];

        assert_true(o->ram_bytes <= m->ram_bytes && o->ram_file_bytes <= m->ram_file_bytes);
        assert_false(o->drops_rows && (m->keeps_rows || m->absent_row_bytes == 0));
        assert_false(o->leaves && m->stays);
        if (!m->may_leave)
            assert_false(o->leaves || o->ram_bytes > 0 || o->ram_file_bytes > 0);
        if (is_device) {
            assert_false(takes_rows || takes_files || o->drops_rows);
            continue;
        }
        /* A tier is empty before the next one is touched. */
        if (takes_rows || takes_files || takes_models)
            assert_true(o->drops_rows || m->keeps_rows || m->absent_row_bytes == 0);
        if ((takes_files || takes_models) && m->may_leave)
            assert_int_equal(o->ram_bytes, m->ram_bytes);
        if (takes_models && m->may_leave)
            assert_int_equal(o->ram_file_bytes, m->ram_file_bytes);
    }
    for (size_t i = 0; i < MODELS; i++)
        for (size_t j = 0; j < MODELS; j++)
            if (orders[i].leaves && models[j].may_leave && !models[j].stays && models[j].used_ns < models[i].used_ns)
                assert_true(orders[j].leaves); /* least recently used first */
}

TEST(relief_goes_tier_by_tier_and_no_further_than_it_must)
{
    uint64_t random = hth_test_seed();

    for (uint64_t step = n_steps(); step > 0; step--) {
        hth_relief_model models[MODELS];
        hth_relief_order orders[MODELS], fewer[MODELS];
        const uint64_t wanted = hth_test_random(&random, 1000);
        const bool is_device = hth_test_random(&random, 5) == 0;
        uint64_t freed;

        for (size_t i = 0; i < MODELS; i++)
            models[i] = random_model(&random, (i * 5 + step) % MODELS);
        freed = hth_relief_plan(models, MODELS, wanted, is_device, orders);
        assert_int_equal(freed, freed_by(models, orders));
        check_order(models, orders, is_device);
        if (freed < wanted)
            for (size_t i = 0; i < MODELS; i++)
                assert_true(orders[i].leaves || models[i].stays || !models[i].may_leave);
        for (size_t i = 0; i < MODELS; i++) { /* without its last model, it would be too little */
            if (!orders[i].leaves)
                continue;
            memcpy(fewer, orders, sizeof(fewer));
            fewer[i].leaves = false;
            if (freed >= wanted && models[i].used_ns == MODELS - 1)
                assert_true(freed_by(models, fewer) < wanted);
        }
    }
}

TEST(a_folder_that_models_share_is_counted_once)
{
    const hth_relief_model model = {
        .ram_file_bytes = 50, .ram_file_folder = "/rows", .model_bytes = 100, .may_leave = true
    };
    const hth_relief_model models[] = { model, model };
    hth_relief_order orders[2];

    assert_int_equal(hth_relief_plan(models, 2, 100, false, orders), 150);
    assert_int_equal(orders[0].ram_file_bytes + orders[1].ram_file_bytes, 50);
    assert_true(orders[0].leaves && !orders[1].leaves);
}

/* ---- departures ---- */

enum { MODEL_BYTES = 100, POLLS = 10000 };

/* A machine of 1000 bytes with models and other programs. */
typedef struct machine {
    hth_relief_model models[MODELS];
    hth_departures departures;
    uint64_t others_bytes;
    bool is_leak; /* the others take all that is free */
    bool is_pressed;
    unsigned n_departures;
} machine;

/* Bytes in use; the leak has grown before. */
static uint64_t use_of(machine *m)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < MODELS; i++)
        bytes += m->models[i].model_bytes;
    if (m->is_leak)
        m->others_bytes = TOTAL - bytes;
    return bytes + m->others_bytes;
}

static void look(machine *m, uint64_t now_ns)
{
    static const hth_pressure_marks marks = { .high_percent = 95, .low_percent = 90, .evict_bytes_min = 1 };
    const hth_memory_limits sample = { .n = 1, .at = { { .used_bytes = use_of(m), .total_bytes = TOTAL } } };
    const uint64_t wanted = hth_pressure_decide(&sample, &marks, &m->is_pressed);
    hth_relief_order orders[MODELS];

    hth_departures_judge(&m->departures, wanted, 0);
    for (size_t i = 0; i < MODELS; i++)
        m->models[i].stays = hth_departures_keep(&m->departures, m->models[i].used_ns, now_ns);
    (void)hth_relief_plan(m->models, MODELS, wanted, false, orders);
    for (size_t i = 0; i < MODELS; i++) {
        if (!orders[i].leaves)
            continue;
        hth_departures_note(&m->departures, wanted, MODEL_BYTES);
        m->n_departures++;
        m->models[i] = (hth_relief_model){ .used_ns = m->models[i].used_ns };
    }
}

TEST(a_leak_of_another_program_does_not_unload_models_over_and_over)
{
    machine m = { .is_leak = true, .departures = { .first_ns = 2 } };
    uint64_t random = hth_test_seed();

    for (uint64_t now_ns = 1; now_ns <= POLLS; now_ns++) {
        m.models[hth_test_random(&random, MODELS)] =
            (hth_relief_model){ .used_ns = now_ns, .model_bytes = MODEL_BYTES, .may_leave = true };
        look(&m, now_ns);
    }
    assert_in_range(m.n_departures, 1, POLLS / 100);
}

TEST(models_whose_end_makes_room_leave_at_once)
{
    machine m = { .others_bytes = 250, .departures = { .first_ns = 2 } };

    for (size_t i = 0; i < MODELS; i++)
        m.models[i] = (hth_relief_model){ .used_ns = 1, .model_bytes = MODEL_BYTES, .may_leave = true };
    for (unsigned n = 1; n <= MODELS; n++) {
        m.others_bytes += MODEL_BYTES;
        look(&m, 1);
        assert_int_equal(m.n_departures, n);
        look(&m, 1); /* it has helped */
    }
}
