/*
 * needs_test.c - the memory that a model would take, from the metadata of its file
 */
#include "models/needs.h"

#include <stdio.h>
#include <sys/stat.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

typedef struct fixture {
    hearth_runtime *runtime;
    hearth_model_options options;
} fixture;

static void set_up(fixture *f)
{
    hearth_runtime_options options = hearth_runtime_options_default();

    options.cache_disabled = true;
    f->runtime = hth_test_runtime_open(&options);
    f->options = hearth_model_options_default();
    f->options.n_ctx = 1024;
}

static void tear_down(fixture *f)
{
    hearth_runtime_close(f->runtime);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static hth_model_needs needs_of(fixture *f)
{
    hth_model_needs needs;
    hearth_error err;

    assert_ok(hth_model_needs_ask(f->runtime, MODEL, &f->options, &needs, &err), err);
    return needs;
}

static uint64_t cells_of(const hth_model_needs *needs)
{
    uint64_t sum = needs->memory.host.cell_bytes;

    for (size_t i = 0; i < needs->memory.n_devices; i++)
        sum += needs->memory.devices[i].share.cell_bytes;
    return sum;
}

FIXTURE_TEST(weights_are_about_the_file)
{
    const hth_model_needs needs = needs_of(f);
    uint64_t weights = needs.memory.host.weight_bytes;
    struct stat st;

    for (size_t i = 0; i < needs.memory.n_devices; i++)
        weights += needs.memory.devices[i].share.weight_bytes;
    assert_int_equal(stat(MODEL, &st), 0);
    assert_true(weights <= (uint64_t)st.st_size && weights >= (uint64_t)st.st_size / 10 * 8);
    assert_true(needs.memory.repacked_bytes <= needs.memory.host.weight_bytes);
    assert_true(needs.memory.host.compute_bytes > 0);
    assert_true(needs.process_bytes > 1 << 20);
    assert_int_equal(needs.n_ctx, 1024);
}

FIXTURE_TEST(cells_grow_with_the_context_and_shrink_with_their_type)
{
    const hth_model_needs small = needs_of(f);
    hth_model_needs large;

    f->options.n_ctx = 4096;
    large = needs_of(f);
    assert_int_equal(cells_of(&large), 4 * cells_of(&small));
    f->options.type_k = f->options.type_v = "f32";
    large = needs_of(f);
    assert_int_equal(cells_of(&large), 8 * cells_of(&small));
}

FIXTURE_TEST(buffers_grow_with_the_batch)
{
    const hth_model_needs large = needs_of(f);
    hth_model_needs small;

    f->options.n_batch = 64;
    small = needs_of(f);
    assert_true(small.memory.host.compute_bytes < large.memory.host.compute_bytes);
}

FIXTURE_TEST(a_draft_model_is_added)
{
    const hth_model_needs alone = needs_of(f);
    hth_model_needs both;

    f->options.draft_model = MODEL;
    both = needs_of(f);
    assert_int_equal(both.memory.host.weight_bytes, 2 * alone.memory.host.weight_bytes);
    assert_int_equal(cells_of(&both), 2 * cells_of(&alone));
    f->options.draft_n_ctx = 512;
    both = needs_of(f);
    assert_int_equal(2 * cells_of(&both), 3 * cells_of(&alone));
}

FIXTURE_TEST(a_process_that_does_not_map_the_file_has_no_copy)
{
    f->options.no_mmap = true;
    assert_int_equal(needs_of(f).memory.repacked_bytes, 0);
}

FIXTURE_TEST(a_default_context_is_chosen)
{
    f->options.n_ctx = 0;
    assert_true(needs_of(f).n_ctx >= 256);
}

FIXTURE_TEST(it_is_told_why_needs_are_unknown)
{
    hth_model_needs needs;
    hearth_error err;

    assert_int_equal(hth_model_needs_ask(f->runtime, "stub:", &f->options, &needs, &err), HEARTH_UNSUPPORTED);
    assert_int_not_equal(hth_model_needs_ask(f->runtime, "/none.gguf", &f->options, &needs, &err), HEARTH_OK);
    f->options.draft_model = "/none.gguf";
    assert_int_not_equal(hth_model_needs_ask(f->runtime, MODEL, &f->options, &needs, &err), HEARTH_OK);
    f->options.draft_model = NULL;
    f->options.rpc_servers = "127.0.0.1:1";
    assert_int_equal(hth_model_needs_ask(f->runtime, MODEL, &f->options, &needs, &err), HEARTH_UNSUPPORTED);
    f->options.n_parallel = 0;
    assert_int_equal(hth_model_needs_ask(f->runtime, MODEL, &f->options, &needs, &err), HEARTH_MISUSE);
}
