/*
 * control_options_test.c - control vectors in the options of a model, as a program gives them
 */
#include <string.h>

#include "models/adapter_spec.h"
#include "support/api.h"
#include "support/support.h"

TEST(the_scale_is_the_number_behind_the_last_colon)
{
    static const struct {
        const char *text, *path;
        float scale;
    } cases[] = {
        { "a.gguf", "a.gguf", 1 },     { "a.gguf:0.5", "a.gguf", 0.5f }, { "/b:c/a.gguf:-2", "/b:c/a.gguf", -2 },
        { "b:c.gguf", "b:c.gguf", 1 }, { "a.gguf:1:2", "a.gguf:1", 2 },
    };
    hth_control_vector vector;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(hth_control_vector_read(cases[i].text, &vector, NULL), HEARTH_OK);
        assert_string_equal(vector.path, cases[i].path);
        assert_true(vector.scale == cases[i].scale);
    }
    assert_int_equal(hth_control_vector_read("", &vector, NULL), HEARTH_MISUSE);
    assert_int_equal(hth_control_vector_read(":1", &vector, NULL), HEARTH_MISUSE);
    assert_int_equal(hth_control_vector_read("a.gguf:inf", &vector, NULL), HEARTH_MISUSE);
}

static void expect_misuse(const hth_test_stub *f, const hearth_model_options *options, const char *words)
{
    hearth_model *none = NULL;
    hearth_error err = { .message = "" };

    assert_int_equal(hearth_model_load(f->runtime, "stub:", options, &none, &err), HEARTH_MISUSE);
    if (!strstr(err.message, words))
        fail_msg("'%s' does not say '%s'", err.message, words);
}

RUNTIME_TEST(options_that_cannot_be_right_are_misuse)
{
    hearth_model_options options = hearth_model_options_default();
    const char *vectors[HEARTH_CONTROL_VECTORS_MAX + 1] = { "a.gguf:nan" };

    options.n_control_vectors = 1;
    expect_misuse(f, &options, "control_vectors is NULL");
    options.control_vectors = vectors;
    expect_misuse(f, &options, "the scale of the control vector 'a.gguf:nan'");
    options.n_control_vectors = HEARTH_CONTROL_VECTORS_MAX + 1;
    expect_misuse(f, &options, "at most 16");
    options.n_control_vectors = 0;
    options.control_layer_first = 3;
    options.control_layer_last = 2;
    expect_misuse(f, &options, "cannot change the layers 3 to 2");
}

/* The stub takes none, so its refusal tells that they arrived. */
RUNTIME_TEST(a_load_that_is_started_has_its_control_vectors)
{
    char path[] = "a.gguf:0.5";
    const char *vectors[] = { path, "b.gguf" };
    hearth_model_options options = hearth_model_options_default();
    hearth_events *queue = NULL;
    const hearth_event *event;
    hearth_error err;
    size_t n;

    options.control_vectors = vectors;
    options.n_control_vectors = 2;
    assert_ok(hearth_events_open(NULL, &queue, &err), err);
    assert_ok(hearth_model_load_start(f->runtime, "stub:", &options, queue, NULL, NULL, &err), err);
    memset(path, ':', sizeof(path) - 1); /* they were copied */
    vectors[1] = NULL;
    do
        assert_ok(hearth_events_take(queue, &event, 1, 60000, &n, &err), err);
    while (n == 0 || event->kind != HEARTH_EVENT_LOADED);
    assert_int_equal(event->status, HEARTH_UNSUPPORTED);
    assert_non_null(strstr(event->error->message, "takes no control vectors"));
    hearth_events_close(queue);
}
