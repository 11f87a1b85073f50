/*
 * node_page_test.c - a node's page comes out as it went in, and what is none is refused whatever it is
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/node_page.h"
#include "support/cmocka_all.h"

#define EPOCH "0123456789abcdef0123456789abcdef"
/* The members that every page has, and those of a page without models. */
#define HEAD "'protocol':1,'version':'1.2','name':'a','epoch':'" EPOCH "'"
#define PAGE_OF(models) "{" HEAD ",'models':[" models "]}"

/* From memory that ends exactly there, so that a byte too many is seen. */
static hearth_status read_bytes(const char *bytes, size_t n, hth_node_page *out, hearth_error *err)
{
    char *copy = malloc(n ? n : 1);
    hearth_status status;

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    status = hth_node_page_read(copy, n, out, err);
    free(copy);
    return status;
}

/* Texts of tests have ' for ". */
static hearth_status read_text(const char *text, hth_node_page *out, hearth_error *err)
{
    char *copy = strdup(text);
    hearth_status status;

    assert_non_null(copy);
    for (char *at = copy; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    status = read_bytes(copy, strlen(copy), out, err);
    free(copy);
    return status;
}

static hth_node_page page_of(const char *text)
{
    hearth_error err = { .message = "" };
    hth_node_page page;

    assert_ok(read_text(text, &page, &err), err);
    return page;
}

/* What was refused has a reason, and nothing to be freed. */
static void assert_empty(const hth_node_page *page, const hearth_error *err)
{
    assert_true(err->message[0] != '\0');
    assert_null(page->json);
    assert_null(page->models);
    assert_null(page->names);
    assert_int_equal(page->n_models, 0);
}

static void assert_refused_bytes(const char *bytes, size_t n)
{
    hearth_error err = { .message = "" };
    hth_node_page page;

    memset(&page, 0xff, sizeof(page)); /* it need not be zeros before */
    assert_int_equal(read_bytes(bytes, n, &page, &err), HEARTH_CORRUPT);
    assert_empty(&page, &err);
}

static void assert_refused(const char *text)
{
    hearth_error err = { .message = "" };
    hth_node_page page;
    const hearth_status status = read_text(text, &page, &err);

    if (status != HEARTH_CORRUPT)
        fail_msg("status %d of %s", status, text);
    assert_empty(&page, &err);
}

static void assert_texts(const char *const *texts, size_t n, const char *const *expected, size_t n_expected)
{
    assert_int_equal(n, n_expected);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(texts[i], expected[i]);
}

TEST(what_was_written_is_read)
{
    static const char *const aliases[] = { "gpt-4o", "claude-*", "\xe2\x82\xac \"quoted\" \\" };
    static const char *const adapters[] = { "sql" };
    hth_node_model models[] = {
        { .name = "chat",
          .aliases = aliases,
          .n_aliases = 3,
          .adapters = adapters,
          .n_adapters = 1,
          .digest = "00ff",
          .keyspace = "12ab",
          .is_ready = true,
          .has_history = true,
          .n_at_work = 3,
          .n_waiting = 1 << 20,
          .n_parallel = 8,
          .n_prompt_left = 1 << 30,
          .prompt_token_ns = 2000000000,
          .reply_token_ns = 1,
          .load_ms = 3600000,
          .pull_token_ns = 2000000000 },
        { .name = "team/code:7b", .digest = "", .is_broken = true },
        { .name = "cold", .digest = "", .adapters = adapters, .n_adapters = 1 },
    };
    hth_node_page page = { .version = "0.1.0",
                           .name = "node-1.lan",
                           .epoch = EPOCH,
                           .cache = "c0ffee",
                           .is_draining = true,
                           .models = models,
                           .n_models = 3 };
    hth_buffer out = { .text = NULL };
    hearth_error err = { .message = "" };
    hth_node_page again;

    hth_node_page_write(&page, &out);
    assert_false(out.failed);
    assert_ok(read_bytes(out.text, out.n, &again, &err), err);
    assert_int_equal(again.protocol, HTH_FLEET_PROTOCOL);
    assert_string_equal(again.version, "0.1.0");
    assert_string_equal(again.name, "node-1.lan");
    assert_string_equal(again.epoch, EPOCH);
    assert_string_equal(again.cache, "c0ffee");
    assert_true(again.is_draining);
    assert_int_equal(again.n_models, 3);
    for (size_t i = 0; i < 3; i++) {
        const hth_node_model *model = &again.models[i];

        assert_string_equal(model->name, models[i].name);
        assert_string_equal(model->digest, models[i].digest);
        assert_string_equal(model->keyspace, models[i].keyspace ? models[i].keyspace : "");
        assert_texts(model->aliases, model->n_aliases, models[i].aliases, models[i].n_aliases);
        assert_texts(model->adapters, model->n_adapters, models[i].adapters, models[i].n_adapters);
        assert_int_equal(model->is_ready, models[i].is_ready);
        assert_int_equal(model->is_broken, models[i].is_broken);
        assert_int_equal(model->has_history, models[i].has_history);
        assert_int_equal(model->n_at_work, models[i].n_at_work);
        assert_int_equal(model->n_waiting, models[i].n_waiting);
        assert_int_equal(model->n_prompt_left, models[i].n_prompt_left);
        assert_int_equal(model->prompt_token_ns, models[i].prompt_token_ns);
        assert_int_equal(model->reply_token_ns, models[i].reply_token_ns);
        assert_int_equal(model->load_ms, models[i].load_ms);
        assert_int_equal(model->pull_token_ns, models[i].pull_token_ns);
        assert_int_equal(model->n_parallel, models[i].n_parallel);
    }
    hth_node_page_deinit(&again);
    assert_null(again.json);
    assert_int_equal(again.n_models, 0);
    hth_node_page_deinit(&again); /* accepts zeros */
    page.is_draining = false;
    page.n_models = 0;
    hth_buffer_clear(&out);
    hth_node_page_write(&page, &out);
    assert_ok(read_bytes(out.text, out.n, &again, &err), err);
    assert_false(again.is_draining);
    assert_int_equal(again.n_models, 0);
    hth_node_page_deinit(&again);
    hth_buffer_deinit(&out);
}

TEST(a_text_that_is_no_utf_8_fails_the_writing)
{
    hth_node_model model = { .name = "\xff", .digest = "" };
    const hth_node_page page = { .version = "1", .name = "a", .epoch = EPOCH, .models = &model, .n_models = 1 };
    hth_buffer out = { .text = NULL };

    hth_node_page_write(&page, &out);
    assert_true(out.failed);
    hth_buffer_deinit(&out);
}

TEST(unknown_members_are_ignored)
{
    hth_node_page page =
        page_of("{'later':{'a':[1,{'b':null}]},'models':[{'wide':[[]],'name':'m','state':'ready','parallel':2}],"
                "'draining':true,'models2':7," HEAD "}");

    assert_string_equal(page.name, "a");
    assert_true(page.is_draining);
    assert_int_equal(page.n_models, 1);
    assert_string_equal(page.models[0].name, "m");
    assert_true(page.models[0].is_ready);
    assert_int_equal(page.models[0].n_parallel, 2);
    hth_node_page_deinit(&page);
}

TEST(members_that_may_be_absent_have_a_meaning)
{
    hth_node_page page = page_of("{'protocol':1,'name':'a','epoch':'e','models':[{'name':'m'}]}");
    const hth_node_model *model = &page.models[0];

    assert_string_equal(page.version, "?");
    assert_false(page.is_draining);
    assert_int_equal(page.n_models, 1);
    assert_string_equal(model->digest, "");
    assert_string_equal(model->keyspace, ""); /* of a node that does not tell it */
    assert_int_equal(model->n_aliases + model->n_adapters, 0);
    assert_false(model->is_ready || model->is_broken || model->has_history);
    assert_int_equal(model->n_at_work + model->n_waiting + model->n_parallel, 0);
    hth_node_page_deinit(&page);
}

static void assert_foreign(const char *text, uint32_t protocol, const char *version, const char *name)
{
    hearth_error err = { .message = "" };
    hth_node_page page;

    assert_int_equal(read_text(text, &page, &err), HEARTH_UNSUPPORTED);
    assert_empty(&page, &err);
    assert_int_equal(page.protocol, protocol);
    assert_string_equal(page.version, version);
    assert_string_equal(page.name, name);
    if (!strstr(err.message, version))
        fail_msg("the message is: %s", err.message);
}

TEST(another_protocol_is_told_with_its_version)
{
    assert_foreign("{'protocol':2,'version':'9.8.7','name':'b','epoch':'" EPOCH "','models':[]}", 2, "9.8.7", "b");
    assert_foreign("{'protocol':2147483647,'version':'9.8.7','models':5}", 2147483647, "9.8.7", "");
    assert_foreign("{'protocol':3,'name':'no name'}", 3, "?", "");
}

TEST(a_page_without_a_known_protocol_is_none)
{
    assert_refused("{'version':'9.8.7','name':'b','epoch':'" EPOCH "','models':[]}");
    assert_refused("{'protocol':0,'version':'1','name':'b','epoch':'" EPOCH "','models':[]}");
    assert_refused("{'protocol':-1,'version':'1','name':'b','epoch':'" EPOCH "','models':[]}");
    assert_refused("{'protocol':4294967297,'version':'1','name':'b','epoch':'" EPOCH "','models':[]}");
    assert_refused("{'protocol':1.5,'version':'1','name':'b','epoch':'" EPOCH "','models':[]}");
    assert_refused("{'protocol':'1','version':'1','name':'b','epoch':'" EPOCH "','models':[]}");
    assert_refused("{'protocol':[1],'version':'1','name':'b','epoch':'" EPOCH "','models':[]}");
}

TEST(a_page_without_name_epoch_or_models_is_none)
{
    assert_refused("{'protocol':1,'version':'1','epoch':'" EPOCH "','models':[]}");
    assert_refused("{'protocol':1,'version':'1','name':7,'epoch':'" EPOCH "','models':[]}");
    assert_refused("{'protocol':1,'version':'1','name':'','epoch':'" EPOCH "','models':[]}");
    assert_refused("{'protocol':1,'version':'1','name':'a b','epoch':'" EPOCH "','models':[]}");
    assert_refused("{'protocol':1,'version':'1','name':'b','models':[]}");
    assert_refused("{'protocol':1,'version':'1','name':'b','epoch':null,'models':[]}");
    assert_refused("{'protocol':1,'version':'1','name':'b','epoch':'','models':[]}");
    assert_refused("{'protocol':1,'version':'1','name':'b','epoch':'" EPOCH "0','models':[]}"); /* too long */
    assert_refused("{" HEAD "}");
    assert_refused("{" HEAD ",'models':null}");
    assert_refused("{" HEAD ",'models':{}}");
    assert_refused("{" HEAD ",'models':'m'}");
}

TEST(garbage_is_no_page)
{
    static const char page[] = "{\"protocol\":1,\"version\":\"1\",\"name\":\"b\",\"epoch\":\"e\",\"models\":[{\"name\":"
                               "\"m\",\"aliases\":[\"x\"]}]}";

    assert_refused("");
    assert_refused("x");
    assert_refused("7");
    assert_refused("null");
    assert_refused("[]");
    assert_refused("[{" HEAD ",'models':[]}]");
    assert_refused("{" HEAD ",'models':[]} x");
    assert_refused("{" HEAD ",'models':[]");
    assert_refused_bytes("{}\0", 3);
    assert_refused_bytes("{\"name\":\"\xff\"}", 12);
    for (size_t n = 0; n < sizeof(page) - 1; n++)
        assert_refused_bytes(page, n);
}

TEST(a_page_that_is_too_deep_is_none)
{
    hth_node_page page = page_of("{" HEAD ",'models':[],'x':[[[[[[[]]]]]]]}"); /* 8 levels */

    hth_node_page_deinit(&page);
    assert_refused("{" HEAD ",'models':[],'x':[[[[[[[[]]]]]]]]}");
}

/* A page with a list in place of "@", which has n times the item. */
static char *page_with_list(const char *text, size_t n, const char *item)
{
    const char *at = strchr(text, '@');
    hth_buffer out = { .text = NULL };

    hth_buffer_add(&out, text, (size_t)(at - text));
    for (size_t i = 0; i < n; i++) {
        hth_buffer_add_text(&out, i > 0 ? "," : "");
        hth_buffer_add_text(&out, item);
    }
    hth_buffer_add_text(&out, at + 1);
    assert_false(out.failed);
    return out.text;
}

TEST(a_page_of_too_many_models_is_none)
{
    char *text = page_with_list(PAGE_OF("@"), HTH_NODE_MODELS_MAX, "{'name':'m'}");
    hth_node_page page = page_of(text);

    assert_int_equal(page.n_models, HTH_NODE_MODELS_MAX);
    hth_node_page_deinit(&page);
    free(text);
    text = page_with_list(PAGE_OF("@"), HTH_NODE_MODELS_MAX + 1, "{'name':'m'}");
    assert_refused(text);
    free(text);
    text = page_with_list(PAGE_OF("@"), HTH_NODE_MODELS_MAX + 1, "0"); /* whatever they are */
    assert_refused(text);
    free(text);
}

TEST(a_page_of_too_many_values_is_none)
{
    char *text = page_with_list("{" HEAD ",'models':[],'x':[@]}", 800000, "0");
    hth_node_page page = page_of(text);

    hth_node_page_deinit(&page);
    free(text);
    text = page_with_list("{" HEAD ",'models':[],'x':[@]}", 1200000, "0");
    assert_refused(text);
    free(text);
}

TEST(a_page_that_is_too_long_is_none)
{
    static const char text[] = "{\"protocol\":1,\"name\":\"b\",\"epoch\":\"e\",\"models\":[]}";
    const size_t n = HTH_NODE_PAGE_BYTES_MAX;
    char *bytes = malloc(n + 1);
    hearth_error err = { .message = "" };
    hth_node_page page;

    assert_non_null(bytes);
    memset(bytes, ' ', n + 1);
    memcpy(bytes, text, strlen(text));
    assert_ok(read_bytes(bytes, n, &page, &err), err);
    hth_node_page_deinit(&page);
    assert_refused_bytes(bytes, n + 1);
    free(bytes);
}

TEST(more_names_of_a_model_than_there_may_be_are_ignored)
{
    char *text = page_with_list(PAGE_OF("{'name':'m','adapters':['z'],'aliases':['y',@]}"), HTH_NODE_NAMES_MAX, "'x'");
    hth_node_page page = page_of(text);

    assert_int_equal(page.n_models, 1);
    assert_int_equal(page.models[0].n_aliases, HTH_NODE_NAMES_MAX);
    assert_string_equal(page.models[0].aliases[0], "y");
    assert_string_equal(page.models[0].aliases[HTH_NODE_NAMES_MAX - 1], "x");
    assert_int_equal(page.models[0].n_adapters, 1);
    assert_string_equal(page.models[0].adapters[0], "z");
    hth_node_page_deinit(&page);
    free(text);
}

TEST(what_is_no_model_or_no_name_of_one_is_left_out)
{
    static const char *const aliases[] = { "one", "two" };
    hth_node_page page =
        page_of(PAGE_OF("7,null,'m',[],{},{'name':7},{'name':''},{'aliases':['lost']},"
                        "{'name':'m','aliases':['one',2,null,'',['x'],'two'],'adapters':'three','digest':[],"
                        "'keyspace':1,'state':true},{'name':'n','aliases':{'a':1},'adapters':['four']}"));

    assert_int_equal(page.n_models, 2);
    assert_string_equal(page.models[0].name, "m");
    assert_texts(page.models[0].aliases, page.models[0].n_aliases, aliases, 2);
    assert_int_equal(page.models[0].n_adapters, 0);
    assert_string_equal(page.models[0].digest, "");
    assert_string_equal(page.models[0].keyspace, "");
    assert_false(page.models[0].is_ready || page.models[0].is_broken);
    assert_string_equal(page.models[1].name, "n");
    assert_int_equal(page.models[1].n_aliases, 0);
    assert_int_equal(page.models[1].n_adapters, 1);
    assert_string_equal(page.models[1].adapters[0], "four");
    hth_node_page_deinit(&page);
}

TEST(names_of_models_are_at_most_256_bytes_long)
{
    char text[4096], name[258];
    hth_node_page page;

    memset(name, 'x', 257);
    name[257] = '\0';
    (void)snprintf(text, sizeof(text), PAGE_OF("{'name':'%.256s','aliases':['%s','%.256s']},{'name':'%s'}"), name, name,
                   name, name);
    page = page_of(text);
    assert_int_equal(page.n_models, 1);
    assert_int_equal(strlen(page.models[0].name), 256);
    assert_int_equal(page.models[0].n_aliases, 1);
    assert_int_equal(strlen(page.models[0].aliases[0]), 256);
    hth_node_page_deinit(&page);
}

TEST(a_long_version_is_unknown)
{
    hth_node_page page = page_of("{'protocol':1,'version':'1234567890123456789012345678901','name':'b','epoch':'e',"
                                 "'models':[]}");

    assert_string_equal(page.version, "1234567890123456789012345678901");
    hth_node_page_deinit(&page);
    page = page_of("{'protocol':1,'version':'12345678901234567890123456789012','name':'b','epoch':'e','models':[]}");
    assert_string_equal(page.version, "?");
    hth_node_page_deinit(&page);
}

TEST(numbers_out_of_their_range_are_0)
{
    static const struct {
        const char *text;
        uint32_t expected;
    } rows[] = {
        { "1", 1 },          { "1048576", 1 << 20 },
        { "1048577", 0 },    { "2147483648", 0 },
        { "4294967297", 0 }, { "9223372036854775807", 0 },
        { "-1", 0 },         { "-9223372036854775808", 0 },
        { "3.0", 0 },        { "1e3", 0 },
        { "'3'", 0 },        { "true", 0 },
        { "null", 0 },       { "[3]", 0 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        hth_node_page page;

        (void)snprintf(text, sizeof(text), PAGE_OF("{'name':'m','at_work':%s,'waiting':%s,'parallel':%s}"),
                       rows[i].text, rows[i].text, rows[i].text);
        page = page_of(text);
        assert_int_equal(page.models[0].n_at_work, rows[i].expected);
        assert_int_equal(page.models[0].n_waiting, rows[i].expected);
        assert_int_equal(page.models[0].n_parallel, rows[i].expected);
        hth_node_page_deinit(&page);
    }
}

TEST(only_true_is_draining)
{
    static const char *const others[] = { "false", "null", "1", "'true'", "[true]" };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char text[256];
        hth_node_page page;

        (void)snprintf(text, sizeof(text), "{" HEAD ",'models':[],'draining':%s}", others[i]);
        page = page_of(text);
        assert_false(page.is_draining);
        hth_node_page_deinit(&page);
    }
}

TEST(a_node_has_a_name_of_letters_digits_and_a_few_signs)
{
    static const char longest[] = "0123456789012345678901234567890123456789012345678901234567890123";
    static const char *const good[] = { "a", "Z", "7", "node-1.example_lan", ".", "-", longest };
    static const char *const bad[] = { "",
                                       "a b",
                                       "a/b",
                                       "a:1",
                                       "a\n",
                                       " a",
                                       "\xc3\xa4",
                                       "a\"",
                                       "a%",
                                       "a\x7f"
                                       "b",
                                       "a@b",
                                       "a,b",
                                       "a+b" };
    char text[80];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!hth_node_name_is_valid(good[i]))
            fail_msg("'%s' is refused", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (hth_node_name_is_valid(bad[i]))
            fail_msg("'%s' is accepted", bad[i]);
    (void)snprintf(text, sizeof(text), "%sx", longest);
    assert_int_equal(strlen(text), HTH_NODE_NAME_BYTES);
    assert_false(hth_node_name_is_valid(text));
}
