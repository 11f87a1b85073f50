/*
 * device_pools_test.c - the devices of models as pools
 */
#include "supervisor/device_pools.h"

#include <stdio.h>

#include "models/fit_choice.h"
#include "support/cmocka_all.h"

/* A model that takes so many bytes of a device with a total. */
static hth_model_needs needs_of(const char *name, uint64_t bytes, uint64_t total_bytes)
{
    hth_model_needs needs = { .memory.n_devices = 1, .n_ctx = 1 };
    hth_engine_device_share *device = &needs.memory.devices[0];

    (void)snprintf(device->name, sizeof(device->name), "%s", name);
    device->share.cell_bytes = bytes;
    device->total_bytes = total_bytes;
    return needs;
}

TEST(models_of_one_device_share_its_pool)
{
    const hth_model_needs models[] = { needs_of("A", 1, 0),  needs_of("B", 2, 80), needs_of("B", 3, 70),
                                       needs_of("A", 4, 90), needs_of("A", 5, 0),  needs_of("C", 0, 90) };
    hth_device_pools pools = { .n = 0 };
    uint64_t bytes[HTH_POOLS_MAX] = { 0 };

    for (size_t i = 0; i < 6; i++)
        hth_device_pools_add(&pools, &models[i]);
    assert_int_equal(pools.n, 2); /* nothing is on C */
    assert_string_equal(pools.at[0].name, "A");
    assert_int_equal(pools.at[0].total_bytes, 90);
    assert_int_equal(pools.at[1].total_bytes, 70); /* the least */
    hth_device_pools_share(&pools, &models[2], bytes);
    hth_device_pools_share(&pools, &models[5], bytes);
    assert_int_equal(bytes[0] + bytes[1], 0);
    assert_int_equal(bytes[2], 3);
}

TEST(a_model_may_be_on_several_devices)
{
    hth_model_needs needs = needs_of("A", 1, 10);
    const hth_model_needs other = needs_of("B", 2, 20);
    hth_device_pools pools = { .n = 0 };
    uint64_t bytes[HTH_POOLS_MAX] = { 0 };

    needs.memory.devices[needs.memory.n_devices++] = other.memory.devices[0];
    hth_device_pools_add(&pools, &needs);
    hth_device_pools_share(&pools, &needs, bytes);
    assert_int_equal(pools.n, 2);
    assert_int_equal(bytes[1], 1);
    assert_int_equal(bytes[2], 2);
}

TEST(too_many_devices_have_no_pool)
{
    hth_device_pools pools = { .n = 0 };
    uint64_t bytes[HTH_POOLS_MAX] = { 0 };
    char name[8];

    for (int i = 0; i <= HTH_DEVICES_MAX; i++) {
        hth_model_needs needs;

        (void)snprintf(name, sizeof(name), "D%d", i);
        needs = needs_of(name, 1, 10);
        hth_device_pools_add(&pools, &needs);
        hth_device_pools_share(&pools, &needs, bytes);
    }
    assert_int_equal(pools.n, HTH_DEVICES_MAX);
    for (size_t k = 1; k < HTH_POOLS_MAX; k++)
        assert_int_equal(bytes[k], 1);
}

TEST(nine_tenths_of_a_device_are_for_models_unless_the_operator_says_otherwise)
{
    const hth_device_pool device = { .total_bytes = 1000 }, unknown = { .total_bytes = 0 };

    assert_int_equal(hth_device_pool_limit(&device, 0), 900);
    assert_int_equal(hth_device_pool_limit(&device, 950), 950);
    assert_true(hth_device_pool_limit(&unknown, 0) == UINT64_MAX);
    assert_int_equal(hth_device_pool_limit(&unknown, 7), 7);
}

TEST(memory_that_other_programs_had_at_first_sight_is_not_for_models)
{
    hth_model_needs here = needs_of("A", 100, 1000), there = needs_of("B", 200, 1000);
    hth_device_pools pools = { .n = 0 }, seen = { .n = 0 };
    uint64_t used[HTH_POOLS_MAX] = { 0 };

    assert_true(hth_device_pools_are_unseen(&seen, &here));
    assert_false(hth_device_pools_see(&seen, &here, &pools, used)); /* a device that does not tell its free memory */
    assert_int_equal(seen.n, 0);
    hth_device_pools_add(&pools, &here);
    hth_device_pools_add(&pools, &there);
    hth_device_pools_share(&pools, &there, used); /* a model of this server is on B */
    here.memory.devices[0].free_bytes = 600;
    there.memory.devices[0].free_bytes = 750;
    assert_true(hth_device_pools_see(&seen, &here, &pools, used));
    assert_true(hth_device_pools_see(&seen, &there, &pools, used));
    here.memory.devices[0].free_bytes = 400;
    assert_false(hth_device_pools_see(&seen, &here, &pools, used)); /* others took it later */
    assert_false(hth_device_pools_are_unseen(&seen, &here));
    hth_device_pools_take_sights(&pools, &seen);
    assert_int_equal(hth_device_pool_limit(&pools.at[0], 0), 600);
    assert_int_equal(hth_device_pool_limit(&pools.at[1], 0), 900); /* 950 is more than nine tenths */
    assert_int_equal(hth_device_pool_limit(&pools.at[0], 800), 800);
}

TEST(memory_that_other_programs_gave_back_is_found_later)
{
    hth_model_needs needs = needs_of("A", 100, 1000);
    hth_device_pools pools = { .n = 0 }, seen = { .n = 0 };
    uint64_t used[HTH_POOLS_MAX] = { 0 };

    hth_device_pools_add(&pools, &needs);
    assert_false(hth_device_pools_may_grow(&seen, &needs, &pools, used)); /* it was not seen at all */
    needs.memory.devices[0].free_bytes = 300;
    assert_true(hth_device_pools_see(&seen, &needs, &pools, used));
    assert_true(hth_device_pools_may_grow(&seen, &needs, &pools, used));
    hth_device_pools_share(&pools, &needs, used);
    assert_false(hth_device_pools_may_grow(&seen, &needs, &pools, used)); /* its own model is there */
    needs.memory.devices[0].free_bytes = 700;
    assert_true(hth_device_pools_see(&seen, &needs, &pools, used));
    assert_int_equal(seen.at[0].found_bytes, 700); /* without the estimate of its own model */
    used[1] = 0;
    needs.memory.devices[0].free_bytes = 950;
    assert_true(hth_device_pools_see(&seen, &needs, &pools, used));
    assert_int_equal(seen.n, 1);
    assert_false(hth_device_pools_may_grow(&seen, &needs, &pools, used)); /* nine tenths are the most */
    hth_device_pools_take_sights(&pools, &seen);
    assert_int_equal(hth_device_pool_limit(&pools.at[0], 0), 900);
}

TEST(a_model_that_is_not_on_a_device_does_not_look_at_it)
{
    hth_model_needs needs = needs_of("A", 100, 1000);
    hth_device_pools pools = { .n = 0 }, seen = { .n = 0 };
    const uint64_t used[HTH_POOLS_MAX] = { 0 };

    needs.memory.devices[0].free_bytes = 300;
    assert_true(hth_device_pools_see(&seen, &needs, &pools, used));
    needs.memory.devices[0].share.cell_bytes = 0;
    assert_false(hth_device_pools_may_grow(&seen, &needs, &pools, used));
}

TEST(a_choice_that_fits_has_the_limit_of_the_plan)
{
    static const struct row {
        uint64_t found, free, total;
    } rows[] = { { 0, 1000, 1000 }, { 0, 600, 1000 }, { 800, 300, 1000 }, { 400, 700, 1000 }, { 950, 940, 1000 },
                 { 0, 0, 1000 },    { 0, 600, 0 },    { 0, 0, 0 },        { 0, 1000, 1009 } };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_model_needs needs = needs_of("A", 100, rows[i].total);
        const hth_fit_found found = { .at = { { .name = "A", .bytes = rows[i].found } }, .n = rows[i].found > 0 };
        const hth_fit_limits limits = { .found = &found };
        hth_device_pools pools = { .n = 0 }, seen = { .n = 0 };
        uint64_t used[HTH_POOLS_MAX] = { 0 };

        if (rows[i].found > 0)
            seen = (hth_device_pools){ .at = { { .name = "A", .found_bytes = rows[i].found } }, .n = 1 };
        needs.memory.devices[0].free_bytes = rows[i].free;
        hth_device_pools_add(&pools, &needs);
        (void)hth_device_pools_see(&seen, &needs, &pools, used); /* the answer with the choice */
        hth_device_pools_take_sights(&pools, &seen);
        assert_true(hth_fit_device_limit(&needs.memory.devices[0], &limits) == hth_device_pool_limit(&pools.at[0], 0));
    }
}
