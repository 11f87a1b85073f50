/*
 * fit_property_test.c - of random models and memories, the choice is the best of all candidates, and grows with memory
 *
 * HTH_STEPS: how many (default 20,000). HTH_SEED replays a run that printed it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "models/fit_choice.h"
#include "support/cmocka_all.h"
#include "support/fit_model.h"
#include "support/support.h"

static uint64_t n_steps(void)
{
    const char *text = getenv("HTH_STEPS");

    return text ? strtoull(text, NULL, 10) : 20000;
}

static fit_model random_model(uint64_t *random)
{
    return (fit_model){
        .layer_bytes = hth_test_random(random, 100000),
        .cell_bytes = hth_test_random(random, 20),
        .host_bytes = hth_test_random(random, 100000),
        .buffer_bytes = hth_test_random(random, 50000),
        .n_layers = 1 + (uint32_t)hth_test_random(random, 20),
        .n_devices = (uint32_t)hth_test_random(random, 4),
        .limits = { .host_bytes = hth_test_random(random, 4000000),
                    .device_bytes = 1 + hth_test_random(random, 2000000) },
    };
}

static hth_fit_terms random_terms(uint64_t *random, const fit_model *m)
{
    const uint32_t n_ctx_min = 1 + (uint32_t)hth_test_random(random, 5000);

    return (hth_fit_terms){ .n_ctx_min = n_ctx_min,
                            .n_ctx_max = n_ctx_min + (uint32_t)hth_test_random(random, 8000),
                            .n_layers_max = (uint32_t)hth_test_random(random, m->n_layers + 1) };
}

/* Try all candidates, the best first. */
static hth_fit_choice best_of(const fit_model *m, const hth_fit_terms *terms)
{
    hth_fit_choice choice = { .fits = false };

    for (uint32_t n_layers = terms->n_layers_max + 1; n_layers-- > 0;)
        for (uint32_t n_ctx = terms->n_ctx_max;;) {
            const hth_fit_candidate at = { .n_ctx = n_ctx, .n_layers = n_layers };
            const hth_fit_answer answer = fit_model_answer(m, &at);

            if (answer.on_host && answer.on_devices)
                return (hth_fit_choice){ .at = at, .fits = true };
            if (n_ctx == terms->n_ctx_min)
                break;
            n_ctx = (n_ctx - 1) / HTH_CONTEXT_STEP * HTH_CONTEXT_STEP;
            if (n_ctx < terms->n_ctx_min)
                n_ctx = terms->n_ctx_min;
        }
    return choice;
}

static hth_fit_choice choice_of(fit_model *m, const hth_fit_terms *terms)
{
    hth_fit_choice choice;
    hearth_error err;

    assert_ok(hth_fit_choose(terms, fit_model_ask, m, &choice, &err), err);
    return choice;
}

static bool is_better(const hth_fit_choice *a, const hth_fit_choice *b)
{
    if (a->fits != b->fits)
        return a->fits;
    if (!a->fits)
        return false;
    return a->at.n_layers != b->at.n_layers ? a->at.n_layers > b->at.n_layers : a->at.n_ctx > b->at.n_ctx;
}

TEST(the_choice_is_the_best_that_fits_and_more_memory_makes_it_no_worse)
{
    uint64_t random = hth_test_seed();
    unsigned n_fit = 0, n_none = 0;

    for (uint64_t i = 0; i < n_steps(); i++) {
        fit_model m = random_model(&random);
        const hth_fit_terms terms = random_terms(&random, &m);
        const hth_fit_choice choice = choice_of(&m, &terms), best = best_of(&m, &terms);
        hth_fit_choice larger;

        assert_int_equal(choice.fits, best.fits);
        if (choice.fits) {
            assert_int_equal(choice.at.n_layers, best.at.n_layers);
            assert_int_equal(choice.at.n_ctx, best.at.n_ctx);
        }
        n_fit += choice.fits;
        n_none += !choice.fits;
        m.limits.host_bytes += hth_test_random(&random, 1000000);
        m.limits.device_bytes += hth_test_random(&random, 1000000);
        larger = choice_of(&m, &terms);
        assert_false(is_better(&choice, &larger));
    }
    assert_true(n_fit > n_steps() / 10);
    assert_true(n_none > n_steps() / 10);
}
