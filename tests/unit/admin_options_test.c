/*
 * admin_options_test.c - /admin/config shows every option of the server, under its name in the configuration file
 */
#include "support/cmocka_all.h"

#include <string.h>

#include "api/buffer.h"
#include "front/admin.h"
#include "options/serve_config.h"

/* Sections that the front passes on to its workers, whose command lines are shown. */
static bool is_for_workers(const hth_option *row)
{
    return row->kind == HTH_OPTION_TABLE && (strcmp(row->key, "cache") == 0 || strcmp(row->key, "defaults") == 0);
}

/* The page has a member for each key of the table. Returns the number of keys. */
static size_t assert_shown(const json_t *page, const hth_option_table *table)
{
    size_t n_keys = 0;
    hth_flat_table flat;

    hth_option_table_flatten(table, false, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;
        const json_t *value;

        if (!row->key || is_for_workers(row))
            continue;
        value = json_object_get(page, row->key);
        if (!value)
            fail_msg("'%s' is not shown", row->key);
        n_keys++;
        if (row->kind == HTH_OPTION_TABLE)
            assert_int_equal(assert_shown(value, row->table), json_object_size(value));
    }
    return n_keys;
}

TEST(every_option_of_the_configuration_is_shown_under_its_name)
{
    static const char *const worker[] = { "--model", "x.gguf", NULL };
    static const char *const names[] = { "gpt-4o", "claude-*" };
    const hth_server_model model = { .name = "chat",
                                     .worker = worker,
                                     .rules = { .start = HTH_START_ON_DEMAND },
                                     .aliases = names,
                                     .n_aliases = 2,
                                     .adapters = names,
                                     .n_adapters = 1,
                                     .tags = names,
                                     .n_tags = 1 };
    hth_server_options options = hth_server_options_default();
    const hth_admin admin = { .options = &options, .json = hth_serve_json };
    hth_buffer text = { .text = NULL };
    json_t *page, *shown;

    options.models = &model;
    options.n_models = 1;
    options.worker.requests.unknown_fields = HTH_UNKNOWN_REFUSE;
    hth_admin_write_options(&admin, &text);
    assert_false(text.failed);
    page = json_loadb(text.text, text.n, 0, NULL);
    assert_non_null(page);
    assert_int_equal(assert_shown(page, &hth_serve_keys) + 1, json_object_size(page)); /* and the models */
    assert_string_equal(json_string_value(json_object_get(json_object_get(page, "limits"), "unknown_fields")),
                        "refuse");
    shown = json_array_get(json_object_get(page, "models"), 0);
    assert_int_equal(json_array_size(json_object_get(shown, "aliases")), 2);
    assert_int_equal(json_array_size(json_object_get(shown, "tags")), 1);
    assert_int_equal(json_array_size(json_object_get(shown, "adapters")), 1);
    assert_string_equal(json_string_value(json_object_get(shown, "start")), "on-demand");
    json_decref(page);
    hth_buffer_deinit(&text);
}
