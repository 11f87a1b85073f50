/*
 * hub_choice_test.c - which files of a repository are the wanted model
 */
#include "hub/choice.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"

/* The files "a b c" of a repository. */
static void list(hth_hub_listing *out, const char *names)
{
    char text[2048], *rest = text;

    (void)snprintf(text, sizeof(text), "%s", names);
    *out = (hth_hub_listing){ .files = NULL };
    for (const char *name = strtok_r(rest, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        hth_hub_file file = { .bytes = 1 };

        (void)snprintf(file.path, sizeof(file.path), "%s", name);
        assert_true(hth_hub_listing_add(out, &file));
    }
}

/* The chosen files, as "a b c"; the message where there are none. */
static const char *chosen(const char *names, const char *choice, char out[2048])
{
    hth_hub_reference wanted = { .repo = "o/r", .is_file = strstr(choice, ".gguf") != NULL };
    hth_hub_listing listing;
    size_t *files = NULL, n = 0, length = 0;
    hearth_error err = { .message = "" };

    (void)snprintf(wanted.choice, sizeof(wanted.choice), "%s", choice);
    list(&listing, names);
    if (hth_hub_choose(&listing, &wanted, &files, &n, &err) != HEARTH_OK)
        (void)snprintf(out, 2048, "%s", err.message);
    for (size_t i = 0; i < n; i++)
        length += (size_t)snprintf(out + length, 2048 - length, "%s%s", i > 0 ? " " : "", listing.files[files[i]].path);
    free(files);
    hth_hub_listing_deinit(&listing);
    return out;
}

#define assert_chosen(names, choice, expected) assert_string_equal(chosen(names, choice, (char[2048]){ "" }), expected)

TEST(without_a_choice_a_small_quant_with_little_loss_is_taken)
{
    assert_chosen("m-BF16.gguf m-Q2_K.gguf m-Q4_K_M.gguf m-Q8_0.gguf", "", "m-Q4_K_M.gguf");
    assert_chosen("m-BF16.gguf m-Q8_0.gguf m-Q2_K.gguf", "", "m-Q8_0.gguf");
    assert_chosen("m.gguf", "", "m.gguf");
    assert_chosen("m-q4_k_m.gguf m-f16.gguf", "", "m-q4_k_m.gguf");
    assert_chosen("m-BF16.gguf m-Q2_K.gguf", "", "'o/r' has several models; name one as o/r:NAME: BF16, Q2_K");
    assert_chosen("", "", "'o/r' has no model in a GGUF file; look for a repository of GGUF files");
}

TEST(projectors_and_importance_matrices_are_no_models)
{
    assert_chosen("mmproj-m-Q4_K_M.gguf m-imatrix.gguf m-Q8_0.gguf", "", "m-Q8_0.gguf");
    assert_chosen("mmproj-F16.gguf m-Q8_0.gguf", "F16", "'o/r' has no 'F16', but: Q8_0");
}

TEST(a_quant_is_found_in_either_case_and_nowhere_inside_of_another)
{
    assert_chosen("m-Q4_K_M.gguf m-IQ4_NL.gguf m-Q4_K_S.gguf", "q4_k_s", "m-Q4_K_S.gguf");
    assert_chosen("m-UD-Q4_K_M.gguf m-Q4_K_M.gguf", "Q4_K_M", "m-Q4_K_M.gguf");
    assert_chosen("m-UD-Q4_K_M.gguf m-Q4_K_M.gguf", "UD-Q4_K_M", "m-UD-Q4_K_M.gguf");
    assert_chosen("m-UD-Q4_K_XL.gguf m-Q4_K_M.gguf", "Q4_K_XL", "m-UD-Q4_K_XL.gguf");
    assert_chosen("m-small.gguf m-large.gguf", "large", "m-large.gguf");
    assert_chosen("m-Q4_K_M.gguf", "Q4_K", "'o/r' has no 'Q4_K', but: Q4_K_M");
}

TEST(two_models_that_fit_are_an_error_that_names_them)
{
    assert_chosen("a-Q8_0.gguf b-Q8_0.gguf", "Q8_0",
                  "'o/r' has several models that fit Q8_0; name one as o/r:NAME: a-Q8_0.gguf, b-Q8_0.gguf");
    assert_chosen("a-Q4_K_M.gguf b-Q4_K_M.gguf m-Q8_0.gguf", "",
                  "'o/r' has several models; name one as o/r:NAME: a-Q4_K_M.gguf, b-Q4_K_M.gguf, Q8_0");
}

TEST(a_file_is_found_by_its_path_or_its_name)
{
    assert_chosen("x/a-Q8_0.gguf y/a-Q8_0.gguf", "y/a-Q8_0.gguf", "y/a-Q8_0.gguf");
    assert_chosen("x/a-Q8_0.gguf b-Q8_0.gguf", "a-Q8_0.gguf", "x/a-Q8_0.gguf");
    assert_chosen("x/a-Q8_0.gguf", "b.gguf", "'o/r' has no 'b.gguf', but: Q8_0");
}

TEST(all_parts_of_a_split_file_are_taken_in_their_order)
{
    static const char names[] = "Q4/m-Q4_K_M-00002-of-00003.gguf Q4/m-Q4_K_M-00003-of-00003.gguf "
                                "Q4/m-Q4_K_M-00001-of-00003.gguf Q8/m-Q8_0-00001-of-00001.gguf";
    static const char expected[] = "Q4/m-Q4_K_M-00001-of-00003.gguf Q4/m-Q4_K_M-00002-of-00003.gguf "
                                   "Q4/m-Q4_K_M-00003-of-00003.gguf";

    assert_chosen(names, "", expected);
    assert_chosen(names, "Q4_K_M", expected);
    assert_chosen(names, "m-Q4_K_M-00001-of-00003.gguf", expected);
    assert_chosen(names, "Q4/m-Q4_K_M-00003-of-00003.gguf", expected);
}

TEST(a_split_file_that_is_not_whole_is_an_error)
{
    assert_chosen("m-Q8_0-00001-of-00003.gguf m-Q8_0-00003-of-00003.gguf x.gguf", "Q8_0",
                  "the part 'm-Q8_0-00002-of-00003.gguf' of a split file is missing; choose another quant");
    assert_chosen("m-Q8_0-00001-of-99999.gguf", "Q8_0",
                  "'o/r' lacks parts of 'm-Q8_0-00001-of-99999.gguf'; choose "
                  "another quant");
}
