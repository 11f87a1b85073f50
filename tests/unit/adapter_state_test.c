/*
 * adapter_state_test.c - the adapters that were loaded since the server started, as front and worker exchange them
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "wire/adapter_state.h"

static hth_adapter_state two_adapters(void)
{
    hth_adapter_state state = { .added = 70, .n_loaded = 2 };

    state.loaded[0] = (hth_live_adapter){ .id = 64, .scale = 0.25F, .name = "sql", .file = "more/sql.gguf" };
    state.loaded[1] = (hth_live_adapter){ .id = 70, .scale = 0, .name = "po\"et\n", .file = "/a/\xc3\xa9.gguf" };
    memset(state.loaded[1].sha256, 'e', 64);
    assert_true(hth_adapter_state_scale(&state, 0, 1.5F));
    assert_true(hth_adapter_state_scale(&state, 70, -0.1F));
    return state;
}

static bool reads(const char *text, hth_adapter_state *out, hth_api_error *error)
{
    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    return hth_adapter_state_read(text, strlen(text), out, error);
}

TEST(a_state_is_read_as_it_was_written)
{
    hth_adapter_state state = two_adapters(), again;
    hth_buffer text = { .text = NULL };
    hth_api_error error;

    hth_adapter_state_write(&state, &text);
    assert_true(reads(hth_buffer_text(&text), &again, &error));
    assert_int_equal(again.added, 70);
    assert_int_equal(again.n_loaded, 2);
    assert_int_equal(again.n_scales, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(again.loaded[i].id, state.loaded[i].id);
        assert_true(again.loaded[i].scale == state.loaded[i].scale);
        assert_string_equal(again.loaded[i].name, state.loaded[i].name);
        assert_string_equal(again.loaded[i].file, state.loaded[i].file);
        assert_string_equal(again.loaded[i].sha256, state.loaded[i].sha256);
        assert_int_equal(again.scales[i].id, state.scales[i].id);
        assert_true(again.scales[i].scale == state.scales[i].scale);
    }
    hth_buffer_deinit(&text);
}

TEST(an_adapter_goes_with_its_scale)
{
    hth_adapter_state state = two_adapters();

    assert_ptr_equal(hth_adapter_state_find(&state, "sql"), &state.loaded[0]);
    assert_null(hth_adapter_state_find(&state, "sq"));
    hth_adapter_state_drop(&state, 70);
    assert_int_equal(state.n_loaded, 1);
    assert_int_equal(state.n_scales, 1);
    assert_int_equal(state.scales[0].id, 0);
    hth_adapter_state_drop(&state, 70);
    hth_adapter_state_drop(&state, 64);
    assert_int_equal(state.n_loaded, 0);
    assert_null(hth_adapter_state_find(&state, "sql"));
}

TEST(a_scale_is_set_once_for_each_adapter)
{
    hth_adapter_state state = two_adapters();

    assert_true(hth_adapter_state_scale(&state, 70, 3));
    assert_int_equal(state.n_scales, 2);
    assert_true(state.scales[1].scale == 3);
    for (uint32_t id = 1; id <= 126; id++)
        assert_true(hth_adapter_state_scale(&state, 1000 + id, 1));
    assert_false(hth_adapter_state_scale(&state, 5000, 1));
    assert_true(hth_adapter_state_scale(&state, 1126, 2));
}

TEST(scales_of_the_configuration_are_forgotten_and_others_stay)
{
    hth_adapter_state state = two_adapters();

    assert_true(hth_adapter_state_scale(&state, 63, 1));
    hth_adapter_state_forget_configured(&state);
    assert_int_equal(state.n_scales, 1);
    assert_int_equal(state.scales[0].id, 70);
    assert_int_equal(state.n_loaded, 2);
}

TEST(the_hash_of_a_file_is_learned_once)
{
    hth_adapter_state state = two_adapters();
    char text[512];
    json_t *list;

    (void)snprintf(text, sizeof(text), "[{\"id\":64,\"sha256\":\"%064d\"},{\"id\":70,\"sha256\":\"%064d\"},{}]", 0, 0);
    list = json_loads(text, 0, NULL);
    assert_non_null(list);
    hth_adapter_state_learn(&state, list);
    assert_int_equal(strspn(state.loaded[0].sha256, "0"), 64);
    assert_int_equal(strspn(state.loaded[1].sha256, "e"), 64);
    json_decref(list);
}

TEST(the_scale_of_an_adapter_is_the_one_that_was_set)
{
    hth_adapter_state state = two_adapters();

    assert_true(hth_adapter_state_scale_of(&state, &state.loaded[0]) == 0.25F);
    assert_true(hth_adapter_state_scale_of(&state, &state.loaded[1]) == -0.1F);
}

TEST(a_malformed_state_is_refused_with_its_fault)
{
    static const struct {
        const char *text, *part;
    } wrong[] = {
        { "", "no JSON object" },
        { "[]", "no JSON object" },
        { "{\"loaded\":{}}", "'loaded' is an object" },
        { "{\"loaded\":[1]}", "'loaded[0]'" },
        { "{\"loaded\":[{\"id\":63,\"name\":\"a\",\"file\":\"a\",\"scale\":1}]}", "'loaded[0].id'" },
        { "{\"loaded\":[{\"id\":65,\"name\":\"a\",\"file\":\"a\",\"scale\":1},"
          "{\"id\":65,\"name\":\"b\",\"file\":\"a\",\"scale\":1}]}",
          "'loaded[1].id'" },
        { "{\"loaded\":[{\"id\":64,\"file\":\"a\",\"scale\":1}]}", "'loaded[0].name' is missing" },
        { "{\"loaded\":[{\"id\":64,\"name\":\"a\",\"scale\":1}]}", "'loaded[0].file' is missing" },
        { "{\"loaded\":[{\"id\":64,\"name\":\"a\",\"file\":\"a\"}]}", "'loaded[0].scale' is missing" },
        { "{\"loaded\":[{\"id\":64,\"name\":\"a\",\"file\":\"a\",\"scale\":1e99}]}", "'loaded[0].scale'" },
        { "{\"loaded\":[{\"id\":64,\"name\":\"a\",\"file\":\"a\",\"scale\":1,\"sha256\":\"0g\"}]}",
          "'loaded[0].sha256' must have 64" },
        { "{\"scales\":[{\"id\":0}]}", "'scales[0].scale' is missing" },
        { "{\"scales\":[{\"scale\":0}]}", "'scales[0].id' is missing" },
    };
    hth_adapter_state state;
    hth_api_error error;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(reads(wrong[i].text, &state, &error));
        if (!strstr(error.message, wrong[i].part))
            fail_msg("%s: '%s' is not in '%s'", wrong[i].text, wrong[i].part, error.message);
    }
    assert_true(reads("{}", &state, &error));
    assert_int_equal(state.n_loaded + state.n_scales, 0);
}

TEST(a_state_has_at_most_64_adapters)
{
    hth_buffer text = { .text = NULL };
    hth_adapter_state state;
    hth_api_error error;

    hth_buffer_add_text(&text, "{\"loaded\":[{}");
    for (int i = 0; i < HTH_ADAPTERS_MAX; i++)
        hth_buffer_add_text(&text, ",{}");
    hth_buffer_add_text(&text, "]}");
    assert_false(reads(hth_buffer_text(&text), &state, &error));
    assert_non_null(strstr(error.message, "65 elements"));
    hth_buffer_deinit(&text);
}

TEST(scales_of_all_adapters_are_an_array_of_ids_and_numbers)
{
    static const char *const wrong[] = { "",
                                         "{}",
                                         "[1]",
                                         "[{\"id\":0}]",
                                         "[{\"id\":-1,\"scale\":1}]",
                                         "[{\"id\":\"0\",\"scale\":1}]",
                                         "[{\"id\":0,\"scale\":2147483648}]" };
    static const char good[] = "[{\"id\":1,\"scale\":0.5},{\"id\":0,\"scale\":-2}]";
    hearth_adapter_scale scales[HTH_ADAPTERS_MAX];
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    size_t n;

    assert_true(hth_adapter_scales_read(good, sizeof(good) - 1, scales, &n, &error));
    assert_int_equal(n, 2);
    assert_int_equal(scales[0].id, 1);
    assert_true(scales[1].scale == -2);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        error.kind = HTH_API_NO_ERROR;
        assert_false(hth_adapter_scales_read(wrong[i], strlen(wrong[i]), scales, &n, &error));
        assert_non_null(strstr(error.message, "must be an array"));
    }
}
