/*
 * llama_advice_test.c - what a GGUF file recommends for sampling
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/model.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/gguf_edit.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

static hth_sampling_advice advice_of(const char *path)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hth_sampling_advice advice;
    hearth_runtime *runtime;
    hearth_model *model;

    options.cache_disabled = true;
    runtime = hth_test_runtime_open(&options);
    model = hth_test_model_load(runtime, path, NULL);
    hth_model_advice(model, &advice);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return advice;
}

TEST(a_file_that_says_nothing_recommends_nothing)
{
    const hth_sampling_advice advice = advice_of(MODEL);

    assert_true(isnan(advice.temperature) && isnan(advice.top_k) && isnan(advice.top_p) && isnan(advice.min_p));
    assert_true(isnan(advice.repeat_penalty) && isnan(advice.repeat_last_n));
    assert_true(isnan(advice.xtc_probability) && isnan(advice.xtc_threshold));
}

TEST(the_numbers_of_the_metadata_are_read)
{
    static const hth_test_gguf_pair pairs[] = {
        { "general.sampling.temp", 0.625f, NULL },         { "general.sampling.top_k", 20, NULL },
        { "general.sampling.top_p", 0.875f, NULL },        { "general.sampling.penalty_repeat", 1.0625f, NULL },
        { "general.sampling.penalty_last_n", -1, NULL },   { "general.sampling.min_p", 0, "none" },
        { "general.sampling.xtc_threshold", 0.25f, NULL },
    };
    char *directory = hth_test_directory_new();
    char path[512];
    hth_sampling_advice advice;

    assert_non_null(directory);
    (void)snprintf(path, sizeof(path), "%s/advised.gguf", directory);
    hth_test_gguf_add(MODEL, path, pairs, sizeof(pairs) / sizeof(pairs[0]));
    advice = advice_of(path);
    assert_true(advice.temperature == 0.625f && advice.top_k == 20 && advice.top_p == 0.875f);
    assert_true(advice.repeat_penalty == 1.0625f && advice.repeat_last_n == -1 && advice.xtc_threshold == 0.25f);
    assert_true(isnan(advice.min_p)); /* a text that is no number */
    assert_true(isnan(advice.xtc_probability));
    hth_test_directory_remove(directory);
}
