/*
 * default_context_test.c - the context that a model gets where nobody gives a size
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/fit_choice.h"
#include "support/api.h"
#include "support/cmocka_all.h"

typedef struct fixture {
    hearth_runtime *runtime;
    char log[4096];
    unsigned n_warnings;
} fixture;

static void note(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;
    size_t n = strlen(f->log);

    (void)source;
    f->n_warnings += level == HEARTH_LOG_WARNING;
    (void)snprintf(f->log + n, sizeof(f->log) - n, "%s\n", message);
}

static void set_up(fixture *f)
{
    hearth_runtime_options options = hearth_runtime_options_default();

    options.cache_disabled = true;
    options.log = note;
    options.log_user_data = f;
    options.log_level = HEARTH_LOG_INFO;
    f->runtime = hth_test_runtime_open(&options);
}

static void tear_down(fixture *f)
{
    hearth_runtime_close(f->runtime);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static hearth_model_info info_of(const fixture *f, const char *path, uint32_t n_ctx)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_model *model;

    options.n_ctx = n_ctx;
    model = hth_test_model_load(f->runtime, path, &options);
    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    hearth_model_unref(model);
    return info;
}

FIXTURE_TEST(it_is_what_the_model_was_trained_with)
{
    assert_int_equal(info_of(f, "stub:n_ctx_train=20000", 0).n_ctx, 20000);
    assert_non_null(strstr(f->log, "a context of 20000 tokens, which is what it was trained with"));
    assert_int_equal(info_of(f, "stub:n_ctx_train=512", 0).n_ctx, 512);
    assert_int_equal(f->n_warnings, 0);
}

/* The stub says that 1 GiB is free; a quarter of it may be cells. */
FIXTURE_TEST(it_takes_no_more_memory_than_its_share)
{
    assert_int_equal(info_of(f, "stub:n_ctx_train=131072,cell_bytes=16384", 0).n_ctx, 16384);
    assert_non_null(
        strstr(f->log, "a context of 16384 tokens of the 131072 that it was trained with: a token takes 16 KiB"));
    assert_int_equal(info_of(f, "stub:n_ctx_train=16384,cell_bytes=16384", 0).n_ctx, 16384);
    assert_int_equal(info_of(f, "stub:n_ctx_train=131072,cell_bytes=20000", 0).n_ctx, 13312);    /* a multiple of 256 */
    assert_int_equal(info_of(f, "stub:n_ctx_train=131072,cell_bytes=100000000", 0).n_ctx, 2048); /* less is of no use */
    assert_int_equal(info_of(f, "stub:n_ctx_train=131072,cell_bytes=16384,free_mib=0", 0).n_ctx, 2048); /* none left */
    assert_int_equal(info_of(f, "stub:n_ctx_train=131072", 0).n_ctx, 32768); /* nothing is known of its cells */
    assert_int_equal(f->n_warnings, 0);
}

FIXTURE_TEST(a_context_beyond_the_training_is_made_with_a_warning)
{
    assert_int_equal(info_of(f, "stub:n_ctx_train=1000", 1024).n_ctx, 1024); /* rounded up: no more than that */
    assert_int_equal(f->n_warnings, 0);
    assert_int_equal(info_of(f, "stub:n_ctx_train=1000", 2048).n_ctx, 2048);
    assert_int_equal(f->n_warnings, 1);
    assert_non_null(strstr(f->log, "was trained with 1000 tokens, and its context has 2048"));
}

FIXTURE_TEST(the_size_does_not_enter_keys)
{
    hearth_model_info a = info_of(f, "stub:n_ctx_train=8192", 0), b = info_of(f, "stub:n_ctx_train=8192", 1024);

    assert_int_not_equal(a.n_ctx, b.n_ctx);
    assert_memory_equal(a.ctx_params_hash, b.ctx_params_hash, sizeof(a.ctx_params_hash));
}

FIXTURE_TEST(models_that_share_rows_have_the_same_keyspace)
{
    static const uint8_t zeros[32];
    hearth_model_info a = info_of(f, "stub:vocab=400", 0), b = info_of(f, "stub:vocab=400", 1024),
                      other = info_of(f, "stub:vocab=401", 0), salted;
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model;

    assert_memory_not_equal(a.keyspace, zeros, sizeof(zeros));
    assert_memory_equal(a.keyspace, b.keyspace, sizeof(a.keyspace));
    assert_memory_not_equal(a.keyspace, other.keyspace, sizeof(a.keyspace));

    options.cache_salt = "tenant"; /* is in the fingerprint, and not in the keyspace */
    model = hth_test_model_load(f->runtime, "stub:vocab=400", &options);
    salted = (hearth_model_info){ .struct_size = sizeof(salted) };
    assert_int_equal(hearth_model_info_get(model, &salted, NULL), HEARTH_OK);
    hearth_model_unref(model);
    assert_memory_not_equal(a.fingerprint, salted.fingerprint, sizeof(a.fingerprint));
    assert_memory_equal(a.keyspace, salted.keyspace, sizeof(a.keyspace));
}

FIXTURE_TEST(a_deterministic_model_refuses_portable_rows)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model = NULL;
    hearth_error err;

    options.deterministic = true;
    options.portable = true;
    assert_int_equal(hearth_model_load(f->runtime, "stub:vocab=400", &options, &model, &err), HEARTH_MISUSE);
    assert_null(model);
    assert_non_null(strstr(err.message, "portable and deterministic exclude each other"));
}

/*
 * A model as Phi-3 of 128k, whose cells of 384 KiB are computed with other factors beyond 4096: what is free today does
 * not decide on which side of it the context lies, as long as there is room for it.
 */
TEST(the_memory_of_the_machine_decides_between_two_sets_of_factors)
{
    static const struct {
        uint32_t total_gib, free_gib, n_ctx;
    } rows[] = {
        { 64, 60, 40960 },     { 64, 30, 20480 }, { 64, 8, 5376 }, { 64, 6, 4352 },
        { 64, 2, 4352 },       { 64, 1, 2048 }, /* without room for more than that: rather other rows than no model */
        { 6, 6, 4096 },        { 6, 3, 2048 },    { 0, 60, 4096 }, /* nobody knows what there is */
        { 1024, 800, 131072 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const hth_cell_room room = { .cell_bytes = 384 << 10,
                                     .free_bytes = (uint64_t)rows[i].free_gib << 30,
                                     .total_bytes = (uint64_t)rows[i].total_gib << 30 };

        assert_int_equal(hth_default_context(131072, 4096, &room), rows[i].n_ctx);
    }
}

TEST(one_set_of_factors_is_no_border)
{
    const hth_cell_room room = { .cell_bytes = 384 << 10, .free_bytes = UINT64_C(8) << 30 };
    const hth_cell_room blind = { .free_bytes = UINT64_C(8) << 30 };

    assert_int_equal(hth_default_context(131072, 0, &room), 5376);
    assert_int_equal(hth_default_context(4096, 4096, &room), 4096); /* never beyond it */
    assert_int_equal(hth_default_context(131072, 4096, &blind), 32768);
    assert_int_equal(hth_default_context(0, 0, &blind), 8192);
}
