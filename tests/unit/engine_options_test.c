/*
 * engine_options_test.c - hearth_engine_options as a program gives them, and the texts in them
 */
#include "engine/engine_options.h"

#include <math.h>
#include <string.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

TEST(shares_are_numbers_that_are_not_negative)
{
    static const char *const wrong[] = { "",
                                         ",",
                                         "a",
                                         "3,",
                                         "3;1",
                                         "-1",
                                         "0",
                                         "0,0,0",
                                         "nan",
                                         "3,1x",
                                         "inf",
                                         "1e-60",
                                         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1" };
    float shares[HTH_DEVICES_MAX];
    size_t n = 0;

    assert_int_equal(hth_tensor_split_read("3,0.5/0", shares, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 3);
    assert_true(shares[0] == 3 && shares[1] == 0.5f && shares[2] == 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (hth_tensor_split_read(wrong[i], shares, &n, NULL) != HEARTH_MISUSE)
            fail_msg("'%s' is taken for shares", wrong[i]);
}

TEST(a_tensor_override_is_a_pattern_and_a_buffer)
{
    static const char *const wrong[] = { "", "a", "=CPU", "a=", ",a=CPU" };
    const char *at = "blk\\.[0-9]=x=CPU,ffn.*=CUDA0";
    hth_tensor_override one;

    assert_int_equal(hth_tensor_override_read(&at, &one, NULL), HEARTH_OK);
    assert_string_equal(one.pattern, "blk\\.[0-9]=x");
    assert_string_equal(one.buffer, "CPU");
    assert_int_equal(hth_tensor_override_read(&at, &one, NULL), HEARTH_OK);
    assert_string_equal(one.buffer, "CUDA0");
    assert_string_equal(at, "");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        at = wrong[i];
        if (hth_tensor_override_read(&at, &one, NULL) != HEARTH_MISUSE)
            fail_msg("'%s' is taken for an override", wrong[i]);
    }
}

TEST(a_metadata_override_has_a_value_of_its_type)
{
    static const char *const wrong[] = {
        "a",         "a=",          "=int:1",       "a=1",         "a=int:",     "a=int:x",   "a=int:1.5",
        "a=float:x", "a=float:nan", "a=float:1e60", "a=bool:True", "a=list:[1]", "a=int:1e3", "a=int:99999999999"
    };
    const char *at = "k.a=int:-7,k.b=float:0.5,k.c=bool:true,k.d=str:x=y";
    hth_metadata_override one;

    assert_int_equal(hth_metadata_override_read(&at, &one, NULL), HEARTH_OK);
    assert_string_equal(one.key, "k.a");
    assert_true(one.type == HTH_METADATA_INT && one.integer == -7);
    assert_int_equal(hth_metadata_override_read(&at, &one, NULL), HEARTH_OK);
    assert_true(one.type == HTH_METADATA_FLOAT && one.number == 0.5);
    assert_int_equal(hth_metadata_override_read(&at, &one, NULL), HEARTH_OK);
    assert_true(one.type == HTH_METADATA_BOOL && one.flag);
    assert_int_equal(hth_metadata_override_read(&at, &one, NULL), HEARTH_OK);
    assert_true(one.type == HTH_METADATA_STR);
    assert_string_equal(one.text, "x=y");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        at = wrong[i];
        if (hth_metadata_override_read(&at, &one, NULL) != HEARTH_MISUSE)
            fail_msg("'%s' is taken for an override", wrong[i]);
    }
}

TEST(a_draft_model_has_the_devices_and_not_the_positions_of_its_target)
{
    hearth_engine_options options = hearth_engine_options_default();
    const char *overrides[] = { "a=CPU" };
    hearth_engine_options draft;

    options.devices = "none";
    options.mlock = true;
    options.rope_freq_base = 20000;
    options.cpu_moe = true;
    options.tensor_overrides = overrides;
    options.n_tensor_overrides = 1;
    draft = hth_engine_options_of_draft(&options, false);
    assert_string_equal(draft.devices, "none");
    assert_true(draft.mlock && !draft.cpu_moe && draft.n_tensor_overrides == 0);
    assert_true(hth_engine_options_turn(&options));
    assert_false(hth_engine_options_turn(&draft));
}

TEST(a_draft_model_without_the_servers_of_its_target_counts_no_devices)
{
    hearth_engine_options options = hearth_engine_options_default();
    hearth_engine_options draft;

    options.split_mode = HEARTH_SPLIT_MODE_NONE;
    options.main_gpu = 2;
    options.tensor_split = "1,1,2";
    draft = hth_engine_options_of_draft(&options, false);
    assert_true(draft.split_mode == HEARTH_SPLIT_MODE_NONE && draft.main_gpu == 2 && draft.tensor_split);
    draft = hth_engine_options_of_draft(&options, true);
    assert_true(draft.split_mode == HEARTH_SPLIT_MODE_LAYER && draft.main_gpu == 0 && !draft.tensor_split);
}

static void expect_misuse(const hth_test_stub *f, const hearth_engine_options *engine, const char *words)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *none = NULL;
    hearth_error err = { .message = "" };

    options.engine = engine;
    assert_int_equal(hearth_model_load(f->runtime, "stub:", &options, &none, &err), HEARTH_MISUSE);
    if (!strstr(err.message, words))
        fail_msg("'%s' does not say '%s'", err.message, words);
}

RUNTIME_TEST(options_that_cannot_be_right_are_misuse)
{
    const hearth_engine_options usual = hearth_engine_options_default();
    const char *texts[] = { "nothing" }, *none = NULL;
    hearth_engine_options engine = usual;

    engine.n_ubatch = 65537;
    expect_misuse(f, &engine, "n_ubatch is 65537");
    engine = usual;
    engine.split_mode = (hearth_split_mode)3;
    expect_misuse(f, &engine, "split_mode 3");
    engine = usual;
    engine.tensor_split = "0,0";
    expect_misuse(f, &engine, "one of the shares must be above 0");
    engine = usual;
    engine.n_tensor_overrides = 1;
    expect_misuse(f, &engine, "tensor_overrides is NULL");
    engine.tensor_overrides = texts;
    expect_misuse(f, &engine, "'nothing' overrides no tensor; give PATTERN=BUFFER");
    engine.tensor_overrides = &none;
    expect_misuse(f, &engine, "tensor_overrides[0] is NULL");
    engine = usual;
    engine.n_metadata_overrides = HEARTH_METADATA_OVERRIDES_MAX + 1;
    engine.metadata_overrides = texts;
    expect_misuse(f, &engine, "at most 64");
    engine.n_metadata_overrides = 1;
    expect_misuse(f, &engine, "'nothing' overrides no metadata; give KEY=TYPE:VALUE");
    engine.metadata_overrides = &none;
    expect_misuse(f, &engine, "metadata_overrides[0] is NULL");
    engine = usual;
    engine.rope_freq_scale = 0;
    expect_misuse(f, &engine, "rope_freq_scale is 0; it must be 1e-06 to 1e9");
    engine = usual;
    engine.yarn_ext_factor = INFINITY;
    expect_misuse(f, &engine, "yarn_ext_factor is inf");
    engine = usual;
    engine.struct_size = 7;
    expect_misuse(f, &engine, "hearth_engine_options");
}
