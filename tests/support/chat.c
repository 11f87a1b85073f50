#include "support/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

/* Text that kinds of deltas are joined in. */
typedef struct transcript {
    char *text;
    size_t n;
    size_t capacity;
    int kind; /* of the last delta, -1 before */
} transcript;

static void add(transcript *t, const char *text, size_t n)
{
    if (t->n + n + 1 > t->capacity) {
        t->capacity = 2 * (t->n + n) + 256;
        t->text = realloc(t->text, t->capacity);
        assert_non_null(t->text);
    }
    memcpy(t->text + t->n, text, n);
    t->n += n;
    t->text[t->n] = '\0';
}

static void add_delta(transcript *t, const hearth_chat_delta *delta)
{
    static const char *const names[] = { "R:", "C:", "F:", "A:" };

    assert_int_equal(strlen(delta->text), delta->n_bytes);
    if (t->kind != (int)delta->kind || delta->kind == HEARTH_DELTA_CALL) {
        if (t->kind >= 0)
            add(t, "\n", 1);
        add(t, names[delta->kind], 2);
    }
    t->kind = (int)delta->kind;
    add(t, delta->text, delta->n_bytes);
    if (delta->kind == HEARTH_DELTA_CALL) {
        add(t, "(", 1);
        add(t, delta->id, strlen(delta->id));
        add(t, ")", 1);
    }
}

char *hth_test_chat_read(hearth_model *model, const hearth_chat_prompt *prompt, const char *text, size_t n_piece)
{
    transcript t = { .kind = -1 };
    hearth_chat_parser *parser = NULL;
    hearth_error err = { .message = "" };
    size_t n_text = strlen(text), at = 0;

    assert_ok(hearth_chat_parser_new(model, prompt, &parser, &err), err);
    add(&t, "", 0);
    for (;;) {
        const hearth_chat_delta *deltas = NULL;
        size_t n_deltas = 0, n = n_text - at < n_piece ? n_text - at : n_piece;
        bool is_last;

        while (at + n < n_text && ((unsigned char)text[at + n] & 0xc0) == 0x80)
            n++;
        is_last = at + n == n_text;
        assert_ok(hearth_chat_parser_feed(parser, text + at, n, is_last, &deltas, &n_deltas, &err), err);
        for (size_t i = 0; i < n_deltas; i++)
            add_delta(&t, &deltas[i]);
        at += n;
        if (is_last)
            break;
    }
    if (t.kind >= 0)
        add(&t, "\n", 1);
    hearth_chat_parser_free(parser);
    return t.text;
}

char *hth_test_chat_said(hearth_model *model, const hearth_chat_prompt *prompt, const char *text, size_t n,
                         hearth_chat_delta_kind kind, size_t *n_out)
{
    hearth_chat_parser *parser = NULL;
    char *all = calloc(1, n + 1);

    *n_out = 0;
    assert_int_equal(hearth_chat_parser_new(model, prompt, &parser, NULL), HEARTH_OK);
    for (size_t at = 0; at < n; at += 2) {
        const hearth_chat_delta *deltas = NULL;
        size_t n_deltas = 0, n_piece = n - at < 2 ? n - at : 2;

        assert_int_equal(
            hearth_chat_parser_feed(parser, text + at, n_piece, at + n_piece == n, &deltas, &n_deltas, NULL),
            HEARTH_OK);
        for (size_t i = 0; i < n_deltas; i++)
            if (deltas[i].kind == kind) {
                assert_true(*n_out + deltas[i].n_bytes <= n);
                memcpy(all + *n_out, deltas[i].text, deltas[i].n_bytes);
                *n_out += deltas[i].n_bytes;
            }
    }
    hearth_chat_parser_free(parser);
    return all;
}

const hearth_chat_prompt *hth_test_chat_render(hearth_model *model, const hearth_conversation *conversation)
{
    const hearth_chat_prompt *prompt = NULL;
    hearth_error err = { .message = "" };

    assert_ok(hearth_conversation_render(model, conversation, &prompt, &err), err);
    return prompt;
}

hearth_model *hth_test_template_model(hearth_runtime *runtime, const char *chat_template)
{
    hearth_model_options options = hearth_model_options_default();

    options.chat_template = chat_template;
    options.n_ctx = 512;
    options.n_parallel = 1;
    options.n_threads = 1;
    return hth_test_model_load(runtime, HTH_TEST_MODELS "/hearth-tiny.gguf", &options);
}

hearth_model *hth_test_template_file_model(hearth_runtime *runtime, const char *path)
{
    char *text = hth_test_text(path);
    hearth_model *model;

    assert_non_null(text);
    model = hth_test_template_model(runtime, text);
    free(text);
    return model;
}

char *hth_test_engine_template(const char *name)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/%s", HTH_TEST_TEMPLATES, name);
    return hth_test_text(path);
}

hearth_model *hth_test_engine_template_model(hearth_runtime *runtime, const char *name)
{
    char *text = hth_test_engine_template(name);
    hearth_model *model;

    if (!text)
        skip();
    model = hth_test_template_model(runtime, text);
    free(text);
    return model;
}
