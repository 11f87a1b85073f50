/*
 * fit_choice_test.c - the layers and the context that are chosen so that a model fits
 */
#include "models/fit_choice.h"

#include <string.h>

#include "support/cmocka_all.h"
#include "support/fit_model.h"
#include "support/support.h"

#define ALL UINT64_MAX
#define GIB (UINT64_C(1) << 30)

/* Ten layers of 100 bytes, and a byte for each token in each of them. A device has buffers of 50 bytes. */
static fit_model model_of(uint32_t n_devices, uint64_t host_bytes, uint64_t device_bytes)
{
    return (fit_model){
        .layer_bytes = 100,
        .cell_bytes = 1,
        .buffer_bytes = 50,
        .n_layers = 10,
        .n_devices = n_devices,
        .limits = { .host_bytes = host_bytes, .device_bytes = device_bytes },
    };
}

static hth_fit_choice choice_of(fit_model *m, const hth_fit_terms *terms)
{
    hth_fit_choice choice;
    hearth_error err;

    assert_ok(hth_fit_choose(terms, fit_model_ask, m, &choice, &err), err);
    assert_true(m->n_asked <= 24);
    return choice;
}

TEST(the_choice_is_the_most_layers_and_then_the_most_context)
{
    static const struct row {
        const char *why;
        uint32_t n_devices;
        uint64_t host, device;
        uint32_t n_min, n_max, n_layers_max;
        uint32_t n_ctx, n_layers;
        bool fits;
    } rows[] = {
        { "all fits", 1, ALL, ALL, 512, 8192, 10, 8192, 10, true },
        { "no GPU: all fits on the host", 0, 100000, 1, 512, 8192, 10, 8192, 10, true },
        { "no GPU: the largest context", 0, 10 * (100 + 1024), 1, 512, 8192, 10, 1024, 10, true },
        { "no GPU: one byte less", 0, 10 * (100 + 1024) - 1, 1, 512, 8192, 10, 768, 10, true },
        { "no GPU: just the least context", 0, 10 * (100 + 512), 1, 512, 8192, 10, 512, 10, true },
        { "no GPU: not even that", 0, 10 * (100 + 512) - 1, 1, 512, 8192, 10, 512, 10, false },
        { "a context that is no multiple of 256", 0, 10 * (100 + 1024), 1, 300, 1000, 10, 1000, 10, true },
        { "the same, one byte less", 0, 10 * (100 + 1000) - 1, 1, 300, 1000, 10, 768, 10, true },
        { "the least is no multiple, either", 0, 10 * (100 + 511), 1, 300, 1000, 10, 300, 10, true },
        { "all layers with less context", 1, ALL, 50 + 10 * (100 + 768), 512, 8192, 10, 768, 10, true },
        { "fewer layers, and all the context that fits", 1, ALL, 50 + 100 + 1024, 512, 8192, 10, 1024, 1, true },
        { "one layer", 1, ALL, 50 + 100 + 8192, 8192, 8192, 10, 8192, 1, true },
        { "no layer, but the buffers", 1, ALL, 50, 512, 8192, 10, 8192, 0, true },
        { "not even the buffers", 1, ALL, 49, 512, 8192, 10, 512, 0, false },
        { "the host cannot hold the other layers", 1, 2 * (100 + 512), 50 + 7 * (100 + 512), 512, 8192, 10, 512, 7,
          false },
        { "the host holds just them", 1, 3 * (100 + 512), 50 + 7 * (100 + 512), 512, 8192, 10, 512, 7, true },
        { "the host limits the context", 1, 6 * (100 + 768), ALL, 512, 8192, 4, 768, 4, true },
        { "no more layers than were asked for", 1, ALL, ALL, 512, 8192, 4, 8192, 4, true },
        { "none were asked for", 1, ALL, 50, 512, 8192, 0, 8192, 0, true },
        { "none were asked for, and the host is small", 1, 10 * (100 + 512), 50, 512, 8192, 0, 512, 0, true },
        { "only one context", 1, ALL, 50 + 3 * (100 + 512), 512, 512, 10, 512, 3, true },
        { "only one candidate", 0, 10, 0, 512, 512, 0, 512, 0, false },
        { "two devices, the fuller one counts", 2, ALL, 50 + 3 * (100 + 512), 512, 512, 10, 512, 6, true },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        const hth_fit_terms terms = { .n_ctx_min = row->n_min,
                                      .n_ctx_max = row->n_max,
                                      .n_layers_max = row->n_layers_max };
        fit_model m = model_of(row->n_devices, row->host, row->device);
        const hth_fit_choice choice = choice_of(&m, &terms);

        if (choice.at.n_ctx != row->n_ctx || choice.at.n_layers != row->n_layers || choice.fits != row->fits)
            fail_msg("%s: context %u, %u layers, fits: %d", row->why, choice.at.n_ctx, choice.at.n_layers, choice.fits);
    }
}

TEST(a_model_that_fits_is_asked_for_once)
{
    fit_model m = model_of(1, ALL, ALL);

    (void)choice_of(&m, &(hth_fit_terms){ .n_ctx_min = 512, .n_ctx_max = 8192, .n_layers_max = 10 });
    assert_int_equal(m.n_asked, 1);
}

TEST(a_failure_to_answer_ends_the_search)
{
    fit_model m = model_of(1, 0, 0);
    const hth_fit_terms terms = { .n_ctx_min = 512, .n_ctx_max = 8192, .n_layers_max = 10 };
    hth_fit_choice choice = { .fits = true };
    hearth_error err;

    m.fails = HEARTH_CORRUPT;
    assert_int_equal(hth_fit_choose(&terms, fit_model_ask, &m, &choice, &err), HEARTH_CORRUPT);
    assert_int_equal(m.n_asked, 1);
    assert_true(choice.fits); /* not written */
}

/* ---- needs and limits ---- */

TEST(a_device_has_its_limit_or_its_memory_without_a_margin)
{
    const hth_engine_device_share small = { .free_bytes = 6 * GIB, .total_bytes = 8 * GIB },
                                  large = { .free_bytes = 70 * GIB, .total_bytes = 80 * GIB },
                                  full = { .free_bytes = 1, .total_bytes = 8 * GIB }, unknown = { .free_bytes = 0 };
    const hth_fit_found found = { .at = { { .name = "", .bytes = 79 * GIB }, { .name = "B", .bytes = GIB } }, .n = 2 };
    const hth_fit_limits of_free = { .takes_free = true }, of_plan = { .takes_free = false },
                         of_found = { .found = &found }, given = { .device_bytes = 5, .takes_free = true };

    assert_int_equal(hth_fit_device_limit(&small, &of_free), 6 * GIB - GIB / 2);
    assert_int_equal(hth_fit_device_limit(&small, &of_plan), 6 * GIB); /* other programs have the rest */
    assert_int_equal(hth_fit_device_limit(&large, &of_plan), 70 * GIB);
    assert_int_equal(hth_fit_device_limit(&large, &of_found), 72 * GIB); /* nine tenths: models of the server have 9 */
    assert_true(hth_fit_device_limit(&unknown, &of_plan) == UINT64_MAX);
    assert_int_equal(hth_fit_device_limit(&large, &of_free), 69 * GIB);
    assert_int_equal(hth_fit_device_limit(&full, &of_free), 0);
    assert_true(hth_fit_device_limit(&unknown, &of_free) == UINT64_MAX);
    assert_int_equal(hth_fit_device_limit(&large, &given), 5);
    assert_int_equal(hth_fit_device_limit(&unknown, &given), 5);
}

TEST(all_parts_count_on_the_host_and_on_each_device)
{
    hth_engine_needs needs = {
        .host = { .weight_bytes = 1, .cell_bytes = 2, .compute_bytes = 4 },
        .repacked_bytes = 8,
        .devices = { { .share = { .weight_bytes = 1 } },
                     { .share = { .weight_bytes = 1, .cell_bytes = 2, .compute_bytes = 4 } } },
        .n_devices = 2,
    };
    const hth_fit_limits limits = { .host_bytes = 31, .device_bytes = 7 };
    hth_fit_answer answer = hth_fit_compare(&needs, 16, &limits);

    assert_true(answer.on_host);
    assert_true(answer.on_devices);
    answer = hth_fit_compare(&needs, 17, &limits);
    assert_false(answer.on_host);
    assert_true(answer.on_devices);
    needs.devices[1].share.cell_bytes++;
    answer = hth_fit_compare(&needs, 16, &limits);
    assert_true(answer.on_host);
    assert_false(answer.on_devices);
}
