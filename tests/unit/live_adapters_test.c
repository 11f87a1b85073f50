/*
 * live_adapters_test.c - a worker begins with the adapters that the one before it had
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/model.h"
#include "support/cmocka_all.h"
#include "support/support.h"
#include "wire/adapter_state.h"
#include "worker/worker_live_adapters.h"

typedef struct scene {
    char *directory;
    char folder[512];
    hearth_runtime *runtime;
    hearth_model *model;
    hth_live_adapters live;
    hth_log log;
    char lines[4096]; /* of the log */
} scene;

static void keep_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    scene *s = user_data;
    size_t n = strlen(s->lines);

    (void)level;
    (void)source;
    (void)snprintf(s->lines + n, sizeof(s->lines) - n, "%s\n", message); /* what fits */
}

static void set_up(scene *s)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options load = hearth_model_options_default();
    hearth_error err = { .message = "" };

    s->directory = hth_test_directory_new();
    (void)snprintf(s->folder, sizeof(s->folder), "%s/lora", s->directory);
    assert_int_equal(mkdir(s->folder, 0700), 0);
    s->live.directory = s->folder;
    s->log = (hth_log){ .level = HEARTH_LOG_INFO, .write = keep_line, .user_data = s };
    options.engine_directory = HTH_TEST_ENGINE_DIR;
    options.cache_directory = s->directory;
    load.n_ctx = 1024;
    load.deterministic = true;
    if (hearth_runtime_open(&options, &s->runtime, &err) != HEARTH_OK ||
        hearth_model_load(s->runtime, "stub:", &load, &s->model, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
}

static void tear_down(scene *s)
{
    hearth_model_unref(s->model);
    hearth_runtime_close(s->runtime);
    hth_test_directory_remove(s->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(scene, s, name, set_up, tear_down)

static void write_adapter(const scene *s, const char *name, unsigned number)
{
    char path[600];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", s->folder, name); /* else not opened */
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "stub-adapter %u", number) > 0);
    assert_int_equal(fclose(file), 0);
}

static void restore(scene *s, const char *text)
{
    hth_adapters_restore(&s->live, s->model, text, &s->log);
}

/* An order of the front; false: it was refused, and *error has the reason. */
static bool order(scene *s, const char *text, hth_api_error *error)
{
    hth_adapter_state state;
    const hth_task_shared shared = { .model = s->model, .live_adapters = &s->live };
    hth_task task = { .shared = &shared, .adapter_state = &state };

    assert_true(hth_adapter_state_read(text, strlen(text), &state, &task.error));
    hth_task_set_adapters(&task);
    *error = task.error;
    hth_buffer_deinit(&task.answer);
    return task.error.kind == HTH_API_NO_ERROR;
}

/* The list for the front. */
static void expect_list(scene *s, const char *const *parts)
{
    hth_buffer text = { .text = NULL };
    hearth_error err = { .message = "" };

    assert_ok(hth_adapters_write(&s->live, s->model, &text, &err), err);
    for (size_t i = 0; parts[i]; i++)
        if (!strstr(hth_buffer_text(&text), parts[i]))
            fail_msg("'%s' is not in '%s'", parts[i], hth_buffer_text(&text));
    hth_buffer_deinit(&text);
}

static float scale_of(const scene *s, uint32_t id)
{
    hearth_adapter adapters[HTH_ADAPTERS_MAX] = { { .struct_size = sizeof(hearth_adapter) } };
    hearth_error err = { .message = "" };
    size_t n = 0;

    assert_ok(hearth_adapters_list(s->model, adapters, HTH_ADAPTERS_MAX, &n, &err), err);
    for (size_t i = 0; i < n; i++)
        if (adapters[i].id == id)
            return adapters[i].scale;
    fail_msg("there is no adapter %u", id);
    return 0;
}

FIXTURE_TEST(an_adapter_comes_back_with_the_scale_that_it_has_now)
{
    hearth_adapter_scale named[HTH_ADAPTERS_MAX];
    size_t n = 0;

    write_adapter(s, "a.gguf", 1);
    write_adapter(s, "b.gguf", 2);
    restore(s, "{\"loaded\":[{\"id\":64,\"name\":\"a\",\"file\":\"a.gguf\",\"scale\":0.5},"
               "{\"id\":65,\"name\":\"b\",\"file\":\"b.gguf\",\"scale\":2}],"
               "\"scales\":[{\"id\":64,\"scale\":0.25},{\"id\":65,\"scale\":0}]}");
    assert_string_equal(s->lines, ""); /* a deterministic model applies one at most, and one it is */
    assert_true(scale_of(s, 64) == 0.25F);
    assert_true(scale_of(s, 65) == 0);
    assert_true(hth_model_adapters(s->model, "b", named, &n)); /* its name means the scale of its loading */
    assert_true(named[0].scale == 2);
}

FIXTURE_TEST(an_adapter_whose_file_is_gone_is_lost_until_the_next_worker)
{
    static const char *const parts[] = { "\"id\":64,\"name\":\"a\"", "\"id\":65,\"error\":\"cannot open the file",
                                         NULL };
    static const char state[] = "\"loaded\":[{\"id\":64,\"name\":\"a\",\"file\":\"a.gguf\",\"scale\":0},"
                                "{\"id\":65,\"name\":\"b\",\"file\":\"b.gguf\",\"scale\":0}";
    char text[1024];
    hth_api_error error;

    write_adapter(s, "a.gguf", 1);
    write_adapter(s, "c.gguf", 3);
    (void)snprintf(text, sizeof(text), "{%s]}", state);
    restore(s, text);
    assert_non_null(strstr(s->lines, "the next worker tries again: cannot open the file 'b.gguf'"));
    expect_list(s, parts);

    write_adapter(s, "b.gguf", 2); /* too late for this worker */
    (void)snprintf(text, sizeof(text), "{\"added\":66,%s,{\"id\":66,\"name\":\"c\",\"file\":\"c.gguf\",\"scale\":0}]}",
                   state);
    if (!order(s, text, &error))
        fail_msg("%s", error.message);
    assert_true(scale_of(s, 66) == 0);
    expect_list(s, parts);
}

FIXTURE_TEST(a_file_that_was_replaced_is_loaded_and_told)
{
    write_adapter(s, "a.gguf", 1);
    restore(s, "{\"loaded\":[{\"id\":64,\"name\":\"a\",\"file\":\"a.gguf\",\"scale\":0,\"sha256\":"
               "\"0000000000000000000000000000000000000000000000000000000000000000\"}]}");
    assert_non_null(strstr(s->lines, "the file 'a.gguf' of the adapter 'a' was replaced"));
    assert_true(scale_of(s, 64) == 0);
}

FIXTURE_TEST(what_the_state_does_not_have_is_unloaded_before_the_rest_is_loaded)
{
    hth_api_error error;

    write_adapter(s, "a.gguf", 1);
    restore(s, "{\"loaded\":[{\"id\":64,\"name\":\"a\",\"file\":\"a.gguf\",\"scale\":1}]}");
    if (!order(s, "{\"added\":65,\"loaded\":[{\"id\":65,\"name\":\"a\",\"file\":\"a.gguf\",\"scale\":1}]}", &error))
        fail_msg("%s", error.message);
    assert_true(scale_of(s, 65) == 1);
    assert_false(order(s,
                       "{\"added\":66,\"loaded\":[{\"id\":65,\"name\":\"a\",\"file\":\"a.gguf\",\"scale\":1},"
                       "{\"id\":66,\"name\":\"b\",\"file\":\"a.gguf\",\"scale\":1}]}",
                       &error));
    assert_non_null(strstr(error.message, "a deterministic model runs a request with one adapter at most"));
}
