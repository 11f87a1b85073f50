/*
 * adapter_page_test.c - the adapters of a model as operators see them
 */
#include <string.h>

#include "front/admin.h"
#include "support/cmocka_all.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define ONES "1111111111111111111111111111111111111111111111111111111111111111"

static hth_adapter_state two_adapters(void)
{
    hth_adapter_state state = { .n_loaded = 2 };

    state.loaded[0] = (hth_live_adapter){ .id = 64, .scale = 1, .name = "sql", .file = "more/sql.gguf" };
    state.loaded[1] = (hth_live_adapter){ .id = 70, .scale = 0, .name = "poet", .file = "poet.gguf", .sha256 = ZEROS };
    assert_true(hth_adapter_state_scale(&state, 64, 0.5F));
    return state;
}

/* The adapters of the page, as text. */
static void expect_adapters(const hth_adapter_state *state, const char *list_text, const char *expected)
{
    json_t *list = list_text ? json_loads(list_text, 0, NULL) : NULL;
    json_t *page = hth_adapter_page("m", NULL, state, list), *wanted = json_loads(expected, 0, NULL);

    assert_non_null(page);
    assert_non_null(wanted);
    if (!json_equal(json_object_get(page, "adapters"), wanted))
        fail_msg("%s", json_dumps(json_object_get(page, "adapters"), 0));
    json_decref(wanted);
    json_decref(page);
    json_decref(list);
}

TEST(those_that_the_worker_has_are_shown_as_it_lists_them)
{
    hth_adapter_state state = two_adapters();

    expect_adapters(NULL, "[{\"id\":0,\"name\":\"a\"}]",
                    "[{\"id\":0,\"name\":\"a\",\"configured\":true,\"loaded\":true}]");
    expect_adapters(&state, "[{\"id\":64,\"sha256\":\"" ONES "\"},{\"id\":70,\"sha256\":\"" ZEROS "\"}]",
                    "[{\"id\":64,\"sha256\":\"" ONES "\",\"configured\":false,\"loaded\":true,\"replaced\":false},"
                    "{\"id\":70,\"sha256\":\"" ZEROS "\",\"configured\":false,\"loaded\":true,\"replaced\":false}]");
}

TEST(one_whose_file_was_replaced_is_marked)
{
    hth_adapter_state state = two_adapters();

    hth_adapter_state_drop(&state, 64);
    expect_adapters(&state, "[{\"id\":70,\"sha256\":\"" ONES "\"}]",
                    "[{\"id\":70,\"sha256\":\"" ONES "\",\"configured\":false,\"loaded\":true,\"replaced\":true}]");
}

TEST(one_that_the_worker_lacks_is_shown_with_the_reason)
{
    hth_adapter_state state = two_adapters();

    expect_adapters(&state, "[{\"id\":70},{\"id\":64,\"error\":\"gone\"}]",
                    "[{\"id\":64,\"name\":\"sql\",\"path\":\"sql.gguf\",\"scale\":0.5,\"configured\":false,"
                    "\"loaded\":false,\"error\":\"gone\"},"
                    "{\"id\":70,\"configured\":false,\"loaded\":true,\"replaced\":false}]");
    hth_adapter_state_drop(&state, 64);
    expect_adapters(&state, NULL,
                    "[{\"id\":70,\"name\":\"poet\",\"path\":\"poet.gguf\",\"scale\":0.0,\"configured\":false,"
                    "\"loaded\":false,\"error\":\"the model has no worker now\"}]");
    hth_adapter_state_drop(&state, 70); /* unloaded: a worker may still list it */
    expect_adapters(&state, "[{\"id\":70,\"error\":\"gone\"}]", "[]");
}
