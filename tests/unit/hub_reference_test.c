/*
 * hub_reference_test.c - names of models at a hub, and of what a hub's file may be called
 */
#include "hub/listing.h"

#include "hub/choice.h"
#include "support/cmocka_all.h"

TEST(a_reference_has_an_owner_a_repository_and_perhaps_a_quant_or_a_file)
{
    hth_hub_reference r;
    hearth_error err;

    assert_ok(hth_hub_reference_read("some.One/Model-3_8B", &r, &err), err);
    assert_string_equal(r.repo, "some.One/Model-3_8B");
    assert_string_equal(r.choice, "");
    assert_ok(hth_hub_reference_read("a/b:Q4_K_M", &r, &err), err);
    assert_string_equal(r.repo, "a/b");
    assert_string_equal(r.choice, "Q4_K_M");
    assert_false(r.is_file);
    assert_ok(hth_hub_reference_read("a/b:Q8_0/b-00001-of-00002.gguf", &r, &err), err);
    assert_string_equal(r.choice, "Q8_0/b-00001-of-00002.gguf");
    assert_true(r.is_file);
}

TEST(anything_else_is_no_reference)
{
    static const char *const texts[] = {
        "",       "a",      "a/",     "/b",          "a/b/c",         "../b",        "a/..",         "a/b:",
        "a/b:..", "a--b/c", "a/b..c", "a b/c",       "./b",           "a/b:c/d",     "-a/b",         "a/b?c=d",
        "a/b#c",  "a\n/b",  "a/b:\n", "https://a/b", "a/b:../x.gguf", "a/b:/x.gguf", "a/b:x//y.gguf"
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        hth_hub_reference r;

        if (hth_hub_reference_read(texts[i], &r, NULL) != HEARTH_MISUSE)
            fail_msg("'%s' is taken", texts[i]);
        assert_false(hth_hub_is_reference(texts[i]));
    }
}

TEST(the_path_of_a_gguf_file_is_not_meant_as_a_reference)
{
    assert_true(hth_hub_is_reference("a/b"));
    assert_true(hth_hub_is_reference("a/b:x.gguf"));
    assert_false(hth_hub_is_reference("models/tiny.gguf"));
    assert_false(hth_hub_is_reference("tiny:latest"));
}

TEST(a_path_of_a_hub_stays_in_its_folder)
{
    static const char *const unsafe[] = { "",     "/x", "..",  "../x", "a/../x", "a/..",
                                          "a//b", "a/", "./a", "a\\b", "a\nb",   "a\xc2\x9bz" };

    assert_true(hth_hub_path_is_safe("a"));
    assert_true(hth_hub_path_is_safe("na\xc3\xafve"));
    assert_true(hth_hub_path_is_safe("Q4_K_M/model ..b-00001-of-00002.gguf"));
    for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++)
        assert_false(hth_hub_path_is_safe(unsafe[i]));
    assert_true(hth_hub_revision_is_safe("refs/pr/1"));
    assert_false(hth_hub_revision_is_safe("../main"));
    assert_false(hth_hub_revision_is_safe("a?b"));
}

TEST(the_name_of_a_file_tells_its_quant)
{
    static const struct {
        const char *path, *quant;
    } cases[] = {
        { "Model-8B-Q4_K_M.gguf", "Q4_K_M" },
        { "model.q5_0.gguf", "Q5_0" },
        { "model-IQ2_XXS-00001-of-00009.gguf", "IQ2_XXS" },
        { "BF16/model-00001-of-00002.gguf", "BF16" },
        { "model-UD-Q4_K_XL.gguf", "UD-Q4_K_XL" },
        { "model-f16.gguf", "F16" },
        { "model-MXFP4_MOE.gguf", "MXFP4_MOE" },
        { "model-TQ1_0.gguf", "TQ1_0" },
        { "Qwen3-8B.gguf", "" },
        { "model.gguf", "" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char quant[HTH_HUB_QUANT_BYTES];

        assert_int_equal(hth_hub_quant_of(cases[i].path, quant), cases[i].quant[0] != '\0');
        assert_string_equal(quant, cases[i].quant);
    }
}

TEST(a_quant_is_not_found_inside_of_another)
{
    assert_true(hth_hub_path_has_word("model-Q4_K_M.gguf", "q4_k_m"));
    assert_false(hth_hub_path_has_word("model-Q4_K_M.gguf", "Q4_K"));
    assert_false(hth_hub_path_has_word("model-IQ4_XS.gguf", "Q4_XS"));
    assert_false(hth_hub_path_has_word("model.gguf", ""));
}
