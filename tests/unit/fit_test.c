/*
 * fit_test.c - a model gets the context that fits into the memory that there is for it
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "models/needs.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"
#define MIB (UINT64_C(1) << 20)
#define MARGIN (20 * MIB) /* the search keeps 16 MiB for what it leaves behind */

enum { N_CTX = 65536, N_CTX_MIN = 1024 };

typedef struct fixture {
    hearth_runtime *runtime;
    hearth_model_options options;
    char told[1024]; /* the latest line about a choice */
    size_t n_without_effect;
} fixture;

static void keep_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;

    (void)level;
    f->n_without_effect += strstr(message, "these options have no effect") != NULL;
    if (strcmp(source, "hearth") == 0 &&
        (strstr(message, "so that the model takes") || strstr(message, "as many as fit there") ||
         strstr(message, "fitted into memory")))
        (void)snprintf(f->told, sizeof(f->told), "%s", message);
}

static void set_up(fixture *f)
{
    hearth_runtime_options options = hearth_runtime_options_default();

    options.cache_disabled = true;
    options.log = keep_line;
    options.log_user_data = f;
    options.log_level = HEARTH_LOG_INFO;
    f->runtime = hth_test_runtime_open(&options);
    f->options = hearth_model_options_default();
    f->options.fit = true;
    f->options.fit_n_ctx = N_CTX_MIN;
    f->options.n_ctx = N_CTX;
    f->options.n_gpu_layers = 0;
}

static void tear_down(fixture *f)
{
    hearth_runtime_close(f->runtime);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* Bytes of the model with a context of that size. */
static uint64_t bytes_with(const fixture *f, uint32_t n_ctx)
{
    hearth_model_options options = f->options;
    hth_model_needs needs;
    hearth_error err;

    options.n_ctx = n_ctx;
    assert_ok(hth_model_needs_ask(f->runtime, MODEL, &options, &needs, &err), err);
    return needs.memory.host.weight_bytes + needs.memory.host.cell_bytes + needs.memory.host.compute_bytes +
           needs.memory.repacked_bytes;
}

/* A limit of the process that leaves room for about that context. */
static uint64_t limit_for(const fixture *f, uint32_t n_ctx)
{
    return hth_os_process_resident_bytes(getpid()) + bytes_with(f, n_ctx) + MARGIN;
}

static uint32_t n_ctx_of(fixture *f)
{
    hearth_model *model = hth_test_model_load(f->runtime, MODEL, &f->options);
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_error err;

    assert_ok(hearth_model_info_get(model, &info, &err), err);
    hth_test_model_end(f->runtime, model);
    return info.n_ctx;
}

static void assert_told(const fixture *f, const char *text)
{
    if (!strstr(f->told, text))
        fail_msg("'%s' does not contain '%s'", f->told, text);
}

FIXTURE_TEST(a_limit_makes_the_context_smaller_and_the_log_tells_it)
{
    uint32_t n_ctx;
    char expected[64];

    f->options.fit_bytes = limit_for(f, N_CTX / 2);
    n_ctx = n_ctx_of(f);
    assert_int_equal(n_ctx % HTH_CONTEXT_STEP, 0);
    assert_in_range(n_ctx, N_CTX / 16, N_CTX - 1); /* the questions take memory, too, most of it where it is checked */
    assert_true(bytes_with(f, n_ctx) <= bytes_with(f, N_CTX / 2) + MARGIN);
    (void)snprintf(expected, sizeof(expected), "context %u of %d, so that the model takes", n_ctx, N_CTX);
    assert_told(f, expected);
}

FIXTURE_TEST(without_a_limit_the_free_memory_holds_a_tiny_model_whole)
{
    assert_int_equal(n_ctx_of(f), N_CTX);
    f->options.n_ctx = 0;
    f->options.fit_n_ctx = 0;
    assert_true(n_ctx_of(f) < N_CTX); /* that of its training */
}

FIXTURE_TEST(a_model_that_does_not_fit_at_all_is_refused_with_its_sizes)
{
    hearth_model *model = NULL;
    hearth_error err;

    f->options.fit_bytes = 2 * MIB;
    assert_int_equal(hearth_model_load(f->runtime, MODEL, &f->options, &model, &err), HEARTH_NO_MEMORY);
    assert_non_null(strstr(err.message, "does not fit: with a context of 1024 tokens it takes "));
    assert_non_null(strstr(err.message, "there are 2 MiB for it; use a file of a smaller quant, type_k"));
    assert_null(model);
}

FIXTURE_TEST(a_plan_has_the_choice_of_the_load)
{
    hth_model_fit fit;
    hearth_model_options options = f->options;
    hearth_error err;

    f->options.fit_bytes = options.fit_bytes = limit_for(f, N_CTX / 2);
    assert_ok(hth_model_fit_options(f->runtime, MODEL, HTH_FIT_TOTAL, NULL, &options, &fit, &err), err);
    assert_false(options.fit);
    assert_int_equal(fit.n_ctx_max, N_CTX);
    assert_int_equal(fit.n_layers_max, 0);
    assert_in_range(options.n_ctx, N_CTX / 4, N_CTX - 1);
    assert_int_equal(options.n_gpu_layers, 0);
}

FIXTURE_TEST(an_engine_that_tells_no_needs_loads_as_without_it)
{
    hearth_model *model;

    f->options.n_ctx = 2048;
    model = hth_test_model_load(f->runtime, "stub:", &f->options);
    hth_test_model_end(f->runtime, model);
    assert_told(f, "'stub:' cannot be fitted into memory, and is loaded as it is");
}

/* Three layers of 8 MiB, and as many MiB of cells; a sixteenth of the GPU stays free. */
static int32_t layers_on(fixture *f, const char *model, hth_fit_room room, hth_model_fit *fit, uint32_t *n_ctx)
{
    hearth_model_options options = f->options;
    hearth_error err;

    options.fit = false;
    options.fit_bytes = MIB; /* the host is no limit */
    options.n_gpu_layers = HEARTH_GPU_LAYERS_AUTO;
    options.n_ctx = 3072;
    assert_ok(hth_model_fit_options(f->runtime, model, room, NULL, &options, fit, &err), err);
    *n_ctx = options.n_ctx;
    return options.n_gpu_layers;
}

FIXTURE_TEST(automatic_layers_are_as_many_as_fit_beside_the_context)
{
    static const struct row {
        const char *model;
        hth_fit_room room;
        int32_t n_layers;
    } rows[] = {
        { "stub:cell_bytes=1024,gpu_mib=64", HTH_FIT_FREE, HEARTH_GPU_LAYERS_ALL },
        { "stub:cell_bytes=1024,gpu_mib=29", HTH_FIT_FREE, HEARTH_GPU_LAYERS_ALL },
        { "stub:cell_bytes=1024,gpu_mib=28", HTH_FIT_FREE, 2 },
        { "stub:cell_bytes=1024,gpu_mib=20", HTH_FIT_TOTAL, 2 },
        { "stub:cell_bytes=1024,gpu_mib=19", HTH_FIT_FREE, 1 },
        { "stub:cell_bytes=1024,gpu_mib=9", HTH_FIT_FREE, 0 },
    };
    hth_model_fit fit;
    uint32_t n_ctx;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(layers_on(f, rows[i].model, rows[i].room, &fit, &n_ctx), rows[i].n_layers);
        assert_int_equal(n_ctx, 3072);
    }
    assert_int_equal(layers_on(f, rows[2].model, HTH_FIT_FREE, &fit, &n_ctx), 2);
    assert_int_equal(fit.n_layers, 2);
    assert_int_equal(fit.n_layers_max, 3);
    assert_int_equal(fit.n_ctx_max, 3072);
    assert_told(f, "2 of 3 layers on GPUs, as many as fit there with a context of 3072");
}

FIXTURE_TEST(automatic_layers_change_nothing_without_gpus)
{
    hth_model_fit fit;
    uint32_t n_ctx;

    f->options.fit_device_bytes = MIB;
    assert_int_equal(layers_on(f, MODEL, HTH_FIT_FREE, &fit, &n_ctx), HEARTH_GPU_LAYERS_ALL);
    assert_int_equal(n_ctx, 3072);
    assert_int_equal(fit.n_ctx_max, 0);
    assert_string_equal(f->told, "");
    assert_int_equal(layers_on(f, "stub:", HTH_FIT_FREE, &fit, &n_ctx), HEARTH_GPU_LAYERS_ALL);
    assert_told(f, "'stub:' cannot be fitted into memory, and is loaded as it is");
}

FIXTURE_TEST(beside_another_model_a_model_loads_as_without_it)
{
    hearth_model *first = hth_test_model_load(f->runtime, "stub:", NULL);

    f->options.n_ctx = 2048;
    assert_int_equal(n_ctx_of(f), 2048);
    assert_told(f, "as it is: other models are loaded");
    hth_test_model_end(f->runtime, first);
}

FIXTURE_TEST(a_file_that_is_no_model_is_refused_as_ever)
{
    hearth_model *model = NULL;
    hearth_error err;

    assert_int_equal(hearth_model_load(f->runtime, "/nowhere/x.gguf", &f->options, &model, &err), HEARTH_NOT_FOUND);
}

static bool stop(float fraction, void *user_data)
{
    size_t *n = user_data;

    (void)fraction;
    return ++*n < 3;
}

FIXTURE_TEST(a_choice_can_be_cancelled)
{
    hearth_model *model = NULL;
    size_t n = 0;
    hearth_error err;

    f->options.fit_bytes = limit_for(f, N_CTX / 2);
    f->options.progress = stop;
    f->options.progress_user_data = &n;
    assert_int_equal(hearth_model_load(f->runtime, MODEL, &f->options, &model, &err), HEARTH_CANCELLED);
    assert_int_equal(n, 3);
    assert_null(model);
    assert_string_equal(f->told, "");
}

FIXTURE_TEST(a_choice_warns_once_of_options_without_effect)
{
    hearth_engine_options engine = hearth_engine_options_default();

    engine.no_kv_offload = true;
    f->options.engine = &engine;
    (void)n_ctx_of(f);
    assert_int_equal(f->n_without_effect, 1);
}

FIXTURE_TEST(no_context_is_chosen_beyond_the_largest_there_can_be)
{
    const char *overrides[] = { "llama.context_length=int:33554432" };
    hearth_engine_options engine = hearth_engine_options_default();
    hearth_model_options options = f->options;
    hth_model_fit fit;
    hearth_error err;

    engine.metadata_overrides = overrides;
    engine.n_metadata_overrides = 1;
    options.engine = &engine;
    options.n_ctx = 0;
    options.fit_bytes = limit_for(f, N_CTX / 2);
    assert_ok(hth_model_fit_options(f->runtime, MODEL, HTH_FIT_TOTAL, NULL, &options, &fit, &err), err);
    assert_int_equal(fit.n_ctx_max, 1 << 24);
    assert_in_range(options.n_ctx, N_CTX / 16, N_CTX - 1);
}

typedef struct question {
    fixture *f;
    hearth_status answer;
} question;

static bool ask_meanwhile(float fraction, void *user_data)
{
    question *q = user_data;
    hearth_model_options options = hearth_model_options_default();
    hth_model_needs needs;

    (void)fraction;
    q->answer = hth_model_needs_ask(q->f->runtime, MODEL, &options, &needs, NULL);
    return true;
}

FIXTURE_TEST(while_a_model_is_loaded_no_needs_are_asked)
{
    question q = { .f = f };
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model;

    options.progress = ask_meanwhile;
    options.progress_user_data = &q;
    model = hth_test_model_load(f->runtime, MODEL, &options);
    assert_int_equal(q.answer, HEARTH_UNSUPPORTED);
    hth_test_model_end(f->runtime, model);
    ask_meanwhile(1, &q);
    assert_int_equal(q.answer, HEARTH_OK);
}
