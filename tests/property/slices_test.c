/*
 * slices_test.c - a text that is tokenized in slices has the tokens that the engine makes of it in one call
 *
 * Over the vocabulary of the small model and those that come with the engine's source: SPM, BPE, WPM and UGM. So has a
 * text in which clients wrote names of control tokens.
 */
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include <llama.h>

#include "engine/backend.h"
#include "llama/llama_shim.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { TEXT_BYTES = 1200, TOKENS = 4 * TEXT_BYTES, TRIES = 60, FLOOD = 1 << 20 };

static uint64_t drawn = 1;

static size_t draw(size_t n)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(drawn >> 33) % n;
}

static size_t n_bounded; /* vocabularies */

static void silent(enum ggml_log_level level, const char *text, void *user_data)
{
    (void)level, (void)text, (void)user_data;
}

static struct llama_model *load(const char *path)
{
    struct llama_model_params params = llama_model_default_params();
    struct llama_model *model;

    llama_log_set(silent, NULL);
    params.vocab_only = true;
    model = llama_model_load_from_file(path, params);
    if (!model)
        fail_msg("cannot load %s", path);
    return model;
}

/* A text of words, blanks, newlines, accents, emoji, and the texts of tokens that are read as a whole, or parts. */
static size_t draw_text(const struct llama_vocab *vocab, const hearth_token *wholes, size_t n_wholes, char *text)
{
    static const char *const words[] = { "word", " and", " ",    "  ", "\n", "\n\n", "é",     "ü", "\xcc\x81",
                                         "🙂", "漢字", "x",    ".",  ",",  "'s",   "12345", "<", ">",
                                         "|",    "\t",   "\r\n", "▁",  "AB", "<s",   "]" };
    size_t n = 0, n_text = draw(TEXT_BYTES);
    bool floods = draw(3) == 0; /* few kinds of words, many times */
    size_t kinds = floods ? 1 + draw(3) : 1000, first = draw(1000);

    while (n < n_text) {
        size_t kind = (first + draw(kinds)) * 7919;
        const char *next = n_wholes > 0 && kind % 3 == 0 ? llama_vocab_get_text(vocab, wholes[kind / 3 % n_wholes])
                                                         : words[kind % (sizeof(words) / sizeof(words[0]))];
        size_t n_next = strlen(next);

        if (n_next > TEXT_BYTES - n)
            break;
        memcpy(text + n, next, n_next);
        n += n_next;
    }
    return n;
}

static void compare(const char *path)
{
    static hearth_token whole[TOKENS], sliced[TOKENS];
    static char text[TEXT_BYTES + 1];
    struct llama_model *model = load(path);
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    hth_llama_slices *slices = hth_llama_slices_new(model);
    hearth_token wholes[64];
    size_t n_wholes = 0, token_bytes_max;

    assert_non_null(slices);
    token_bytes_max = hth_llama_slices_token_bytes_max(slices);
    if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_SPM || llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_BPE)
        n_bounded += token_bytes_max > 0;
    for (hearth_token i = 0; i < llama_vocab_n_tokens(vocab) && n_wholes < 64; i++)
        if ((unsigned)llama_vocab_get_attr(vocab, i) &
            (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_UNKNOWN))
            wholes[n_wholes++] = i;
    for (int i = 0; i < TRIES; i++) {
        int32_t n = (int32_t)draw_text(vocab, wholes, n_wholes, text);
        bool add = draw(2), parse = draw(3) > 0;
        int32_t n_whole = llama_tokenize(vocab, text, n, whole, TOKENS, add, parse), n_sliced = 0;
        hearth_error err;

        assert_int_equal(hth_llama_slices_tokenize(slices, text, n, 1 + (int32_t)draw(60), add, parse, sliced, TOKENS,
                                                   &n_sliced, NULL, &err),
                         HEARTH_OK);
        text[n] = '\0';
        if (n_sliced != n_whole || memcmp(whole, sliced, (size_t)n_whole * sizeof(whole[0])) != 0)
            fail_msg("%s: other tokens (%d, %d) for add %d, parse %d, text '%s'", path, n_whole, n_sliced, add, parse,
                     text);
        if (!add && (size_t)n_whole * token_bytes_max < (size_t)n && token_bytes_max > 0)
            fail_msg("%s: %d tokens of at most %zu bytes for text '%s'", path, n_whole, token_bytes_max, text);
        /* Without room the number is told. */
        assert_int_equal(hth_llama_slices_tokenize(slices, text, n, 20, add, parse, sliced, 0, &n_sliced, NULL, &err),
                         HEARTH_OK);
        assert_int_equal(n_sliced, -n_whole);
    }
    hth_llama_slices_free(slices);
    llama_model_free(model);
}

/* Put the mark before some names in the text, as a rendered conversation has it where a client wrote them. */
static size_t mark(const struct llama_vocab *vocab, const hearth_token *wholes, size_t n_wholes, const char *text,
                   size_t n, char *out)
{
    size_t n_out = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n_wholes; j++) {
            const char *name = llama_vocab_get_text(vocab, wholes[j]);

            if (n - i >= strlen(name) && strncmp(text + i, name, strlen(name)) == 0 && draw(2)) {
                out[n_out++] = HTH_PLAIN_MARK;
                break;
            }
        }
        out[n_out++] = text[i];
    }
    return n_out;
}

static void compare_marked(const char *path)
{
    static hearth_token whole[TOKENS], sliced[TOKENS];
    static char text[TEXT_BYTES + 1], marked[2 * TEXT_BYTES];
    struct llama_model *model = load(path);
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    hth_llama_slices *slices = hth_llama_slices_new(model);
    hth_llama_chat *chat = NULL;
    hearth_token wholes[64];
    size_t n_wholes = 0;
    hearth_error err;

    assert_non_null(slices);
    assert_int_equal(hth_llama_chat_new(model, "{{ messages[0].content }}", false, &chat, &err), HEARTH_OK);
    for (hearth_token i = 0; i < llama_vocab_n_tokens(vocab) && n_wholes < 64; i++)
        if ((unsigned)llama_vocab_get_attr(vocab, i) & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN))
            wholes[n_wholes++] = i;
    for (int i = 0; i < TRIES; i++) {
        size_t n = mark(vocab, wholes, n_wholes, text, draw_text(vocab, wholes, n_wholes, text), marked);
        int32_t n_whole = 0, n_sliced = 0;
        bool add = draw(2);

        assert_int_equal(
            hth_llama_chat_tokenize(chat, slices, marked, n, INT32_MAX, add, whole, TOKENS, &n_whole, NULL, &err),
            HEARTH_OK);
        assert_int_equal(hth_llama_chat_tokenize(chat, slices, marked, n, 1 + (int32_t)draw(60), add, sliced, TOKENS,
                                                 &n_sliced, NULL, &err),
                         HEARTH_OK);
        marked[n] = '\0';
        if (n_sliced != n_whole || memcmp(whole, sliced, (size_t)n_whole * sizeof(whole[0])) != 0)
            fail_msg("%s: other tokens (%d, %d) for add %d, text '%s'", path, n_whole, n_sliced, add, marked);
    }
    hth_llama_chat_free(chat);
    hth_llama_slices_free(slices);
    llama_model_free(model);
}

static void for_each_vocabulary(void (*compare_one)(const char *path))
{
    glob_t found = { .gl_pathc = 0 };

    compare_one(HTH_TEST_MODELS "/hearth-tiny.gguf");
    if (glob(HTH_TEST_TEMPLATES "/../ggml-vocab-*.gguf", 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            compare_one(found.gl_pathv[i]);
    globfree(&found);
}

TEST(slices_have_the_tokens_of_one_call)
{
    for_each_vocabulary(compare);
    assert_true(n_bounded >= 2); /* an SPM and a BPE one at least */
}

TEST(slices_between_marked_names_have_the_tokens_of_one_call)
{
    for_each_vocabulary(compare_marked);
}

/* In one call of the engine, each of these takes minutes. */
TEST(a_flood_is_tokenized_in_slices)
{
    static const char *const floods[] = { "<s>", "é", "🙂" };
    struct llama_model *model = load(HTH_TEST_MODELS "/hearth-tiny.gguf");
    hth_llama_slices *slices = hth_llama_slices_new(model);
    hearth_token *tokens = malloc(4 * FLOOD * sizeof(*tokens));
    char *text = malloc(FLOOD);
    hth_llama_chat *chat = NULL;
    int32_t n_tokens = 0;
    hearth_error err;

    assert_non_null(slices);
    assert_non_null(text);
    assert_non_null(tokens);
    for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]); i++) {
        size_t n_word = strlen(floods[i]), n = FLOOD / n_word * n_word;

        for (size_t at = 0; at < n; at += n_word)
            memcpy(text + at, floods[i], n_word);
        assert_int_equal(hth_llama_slices_tokenize(slices, text, (int32_t)n, 0, false, true, tokens, 4 * FLOOD,
                                                   &n_tokens, NULL, &err),
                         HEARTH_OK);
        assert_true((size_t)n_tokens >= n / n_word);
    }
    text[0] = HTH_PLAIN_MARK; /* a client wrote the first name, and the template the others */
    for (size_t i = 1; i < FLOOD; i++)
        text[i] = "<s>"[(i - 1) % 3];
    assert_int_equal(hth_llama_chat_new(model, "{{ messages[0].content }}", false, &chat, &err), HEARTH_OK);
    assert_int_equal(
        hth_llama_chat_tokenize(chat, slices, text, FLOOD, 0, false, tokens, 4 * FLOOD, &n_tokens, NULL, &err),
        HEARTH_OK);
    assert_in_range(n_tokens, FLOOD / 3, FLOOD / 3 + 3);
    hth_llama_chat_free(chat);
    free(text);
    free(tokens);
    hth_llama_slices_free(slices);
    llama_model_free(model);
}
