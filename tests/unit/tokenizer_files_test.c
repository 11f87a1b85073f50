/*
 * tokenizer_files_test.c - the tokenizer's files of a checkpoint are read, or refused by name
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "convert/tokenizer.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define SPACE "\xe2\x96\x81"

static json_t *json(const char *text)
{
    json_error_t problem;
    json_t *read = json_loads(text, 0, &problem);

    if (!read)
        fail_msg("%s in %s", problem.text, text);
    return read;
}

/* ---- tokenizer.model ---- */

/* A field of bytes: its key, length and contents. */
static size_t put(uint8_t *to, uint8_t key, const void *bytes, size_t n)
{
    to[0] = key;
    to[1] = (uint8_t)n;
    memcpy(to + 2, bytes, n);
    return n + 2;
}

/* "a" with score -1.5, "<0x41>" of type byte, "<s>" of type control; BPE; no space before a text. */
static size_t make_model(uint8_t *to)
{
    static const uint8_t a[] = { 0x0a, 1, 'a', 0x15, 0, 0, 0xc0, 0xbf };
    static const uint8_t byte[] = { 0x0a, 6, '<', '0', 'x', '4', '1', '>', 0x18, 6 };
    static const uint8_t control[] = { 0x18, 3, 0x0a, 3, '<', 's', '>' };
    static const uint8_t trainer[] = { 0x18, 2, 0xe0, 2, 1 }, normalizer[] = { 0x18, 0, 0x20, 0 };
    size_t n = put(to, 0x0a, a, sizeof(a));

    n += put(to + n, 0x0a, byte, sizeof(byte));
    n += put(to + n, 0x0a, control, sizeof(control));
    n += put(to + n, 0x12, trainer, sizeof(trainer));
    return n + put(to + n, 0x1a, normalizer, sizeof(normalizer));
}

TEST(a_sentencepiece_model_has_pieces_scores_and_types)
{
    uint8_t bytes[128];
    size_t n = make_model(bytes);
    hth_token_list v;

    assert_int_equal(hth_token_list_init(&v, 4, NULL), HEARTH_OK);
    assert_int_equal(hth_sentencepiece_read("m", bytes, n, &v, NULL), HEARTH_OK);
    assert_int_equal(hth_token_list_fill(&v, "f", NULL), HEARTH_OK);
    assert_string_equal(v.model, "llama");
    assert_false(v.adds_space);
    assert_string_equal(v.pieces[0], "a");
    assert_true(v.scores[0] == -1.5f);
    assert_int_equal(v.types[0], HTH_TOKEN_NORMAL);
    assert_string_equal(v.pieces[1], "<0x41>");
    assert_int_equal(v.types[1], HTH_TOKEN_BYTE);
    assert_string_equal(v.pieces[2], "<s>");
    assert_int_equal(v.types[2], HTH_TOKEN_CONTROL);
    assert_int_equal(v.types[3], HTH_TOKEN_UNUSED);
    hth_token_list_deinit(&v);
}

TEST(a_sentencepiece_model_that_is_cut_or_changed_is_refused_or_read_but_never_read_beyond)
{
    uint8_t bytes[128], *exact;
    size_t n = make_model(bytes);
    hth_token_list v;
    hearth_error err;

    for (size_t cut = 0; cut < n; cut++)
        for (int change = 0; change < 256; change += 15) {
            hearth_status status;

            exact = malloc(cut + 1); /* so that a sanitizer sees a byte too far */
            assert_non_null(exact);
            memcpy(exact + 1, bytes, cut);
            if (cut > 0)
                exact[cut] = (uint8_t)change;
            assert_int_equal(hth_token_list_init(&v, 4, NULL), HEARTH_OK);
            status = hth_sentencepiece_read("m", exact + 1, cut, &v, &err);
            if (status != HEARTH_OK && status != HEARTH_CORRUPT)
                assert_int_equal(status, HEARTH_UNSUPPORTED); /* of another model_type */
            hth_token_list_deinit(&v);
            free(exact);
        }
    assert_int_equal(hth_token_list_init(&v, 2, NULL), HEARTH_OK);
    assert_int_equal(hth_sentencepiece_read("m", bytes, n, &v, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "the embedding has 2 rows"));
    hth_token_list_deinit(&v);
}

TEST(a_sentencepiece_model_that_changes_texts_in_ways_unknown_to_the_engine_is_refused)
{
    static const struct {
        uint8_t key;
        uint8_t bytes[4];
        size_t n;
        const char *problem;
    } cases[] = {
        { 0x1a, { 0x12, 1, 'x' }, 3, "'m' normalises texts (precompiled_charsmap)" },
        { 0x1a, { 0x20, 1 }, 2, "'m' removes extra spaces (remove_extra_whitespaces)" },
        { 0x1a, { 0x28, 0 }, 2, "'m' does not escape spaces (escape_whitespaces)" },
        { 0x12, { 0xc0, 1, 1 }, 3, "'m' puts spaces behind words (treat_whitespace_as_suffix)" },
        { 0x1a, { 0x12, 0 }, 2, NULL },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[128];
        size_t n = make_model(bytes);
        hth_token_list v;
        hearth_error err = { .message = "" };

        n += put(bytes + n, cases[i].key, cases[i].bytes, cases[i].n);
        assert_int_equal(hth_token_list_init(&v, 4, NULL), HEARTH_OK);
        assert_int_equal(hth_sentencepiece_read("m", bytes, n, &v, &err),
                         cases[i].problem ? HEARTH_UNSUPPORTED : HEARTH_OK);
        if (cases[i].problem && !strstr(err.message, cases[i].problem))
            fail_msg("'%s' instead of '%s'", err.message, cases[i].problem);
        hth_token_list_deinit(&v);
    }
}

/* ---- texts ---- */

TEST(two_tokens_of_one_text_are_refused)
{
    /* The text of id 1, and of id 2, user-defined; id 3 is a gap. */
    static const char *const texts[][3] = {
        { "x", "x", "the tokens 1 and 2 the same text, 'x'" },
        { " y", SPACE "y", "the tokens 1 and 2 the same text, ' y'" },
        { "[PAD3]", "y", "the tokens 1 and 3 the same text, '[PAD3]'" },
        { SPACE "y", SPACE "y", NULL },
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        hth_token_list v;
        hearth_error err = { .message = "" };

        assert_int_equal(hth_token_list_init(&v, 4, NULL), HEARTH_OK);
        assert_int_equal(hth_token_list_set(&v, "m", 0, "z", 1, HTH_TOKEN_NORMAL, NULL), HEARTH_OK);
        assert_int_equal(hth_token_list_set(&v, "m", 1, texts[i][0], strlen(texts[i][0]), HTH_TOKEN_NORMAL, NULL),
                         HEARTH_OK);
        assert_int_equal(hth_token_list_add(&v, "m", 2, texts[i][1], /* is_special= */ false, NULL), HEARTH_OK);
        assert_int_equal(hth_token_list_fill(&v, "f", &err), texts[i][2] ? HEARTH_CORRUPT : HEARTH_OK);
        if (texts[i][2] && (!strstr(err.message, "'f'") || !strstr(err.message, texts[i][2])))
            fail_msg("'%s' instead of '%s'", err.message, texts[i][2]);
        hth_token_list_deinit(&v);
    }
}

/* ---- tokenizer.json ---- */

static hearth_status read_json(const char *text, hth_token_list *v, hearth_error *err)
{
    json_t *tokenizer = json(text);
    hearth_status status = hth_token_list_init(v, 8, err);

    assert_int_equal(status, HEARTH_OK);
    status = hth_tokenizer_json_read(tokenizer, v, err);
    json_decref(tokenizer);
    return status;
}

#define PIECES(model)                                                                                               \
    "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"},"              \
    "\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true},{\"id\":6,\"content\":\"" SPACE SPACE "\"}," \
    "{\"id\":99,\"content\":\"<image>\"}],"                                                                         \
    "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"<unk>\"," model "}}"

TEST(pieces_get_scores_by_the_rank_of_their_first_merge)
{
    hth_token_list v;
    hearth_error err;

    assert_int_equal(read_json(PIECES("\"vocab\":{\"<unk>\":0,\"a\":1,\"b\":2,\"ab\":3,\"aba\":4,\"<0x0A>\":7},"
                                      "\"merges\":[\"a b\",[\"ab\",\"a\"],\"a b\"]"),
                               &v, &err),
                     HEARTH_OK);
    assert_string_equal(v.model, "llama");
    assert_true(v.scores[3] == 0.0f);
    assert_true(v.scores[4] == -1.0f);
    assert_true(v.scores[1] < v.scores[4]);
    assert_int_equal(v.types[0], HTH_TOKEN_UNKNOWN);
    assert_int_equal(v.types[5], HTH_TOKEN_CONTROL);
    assert_int_equal(v.types[6], HTH_TOKEN_USER_DEFINED);
    assert_string_equal(v.pieces[6], "  "); /* found in texts, which have spaces */
    assert_int_equal(v.types[7], HTH_TOKEN_BYTE);
    hth_token_list_deinit(&v);
}

TEST(damaged_vocabularies_are_refused)
{
    static const char *const texts[][2] = {
        { PIECES("\"vocab\":{},\"merges\":[]"), "no vocabulary" },
        { PIECES("\"vocab\":{\"a\":8},\"merges\":[]"), "a token has the id 8" },
        { PIECES("\"vocab\":{\"a\":-1},\"merges\":[]"), "the token 'a' has no id" },
        { PIECES("\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]"), "two tokens have the id 1" },
        { PIECES("\"vocab\":{\"\":1},\"merges\":[]"), "the token 1 is empty" },
        { PIECES("\"vocab\":{\"a\":1}"), "has no merges" },
        { PIECES("\"vocab\":{\"a\":1},\"merges\":[\"a a\"]"), "merge 0 does not join" },
        { PIECES("\"vocab\":{\"a\":1},\"merges\":[\"a\"]"), "merge 0 does not join" },
        { PIECES("\"vocab\":{\"a\":1},\"merges\":[[\"a\"]]"), "merge 0 does not join" },
        { PIECES("\"vocab\":{\"a\":1},\"merges\":[{}]"), "merge 0 does not join" },
        { PIECES("\"vocab\":{\"a\":1},\"merges\":[],\"end_of_word_suffix\":\"</w>\""), "marks the ends of words" },
        { PIECES("\"vocab\":{\"a\":1},\"merges\":[],\"ignore_merges\":true"), "has ignore_merges and byte_fallback" },
        { "{}", "of the type ''" },
        { "{\"model\":{\"type\":\"BPE\"}}", "no name for the pre_tokenizer" },
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        hth_token_list v;
        hearth_error err = { .message = "" };

        assert_int_not_equal(read_json(texts[i][0], &v, &err), HEARTH_OK);
        if (!strstr(err.message, texts[i][1]))
            fail_msg("'%s' instead of '%s'", err.message, texts[i][1]);
        hth_token_list_deinit(&v);
    }
}

#define LLAMA3                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| " \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define SPLIT(regex) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define BYTES(use) "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":" use "}"
#define STEPS(list) "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" list "]}"

TEST(patterns_have_the_names_of_the_engine)
{
    static const char *const texts[][2] = {
        { STEPS(SPLIT(LLAMA3) "," BYTES("false")) ",\"model\":{\"ignore_merges\":true}}", "llama-bpe" },
        { STEPS(SPLIT(LLAMA3) "," BYTES("false")) "}", "smaug-bpe" },
        { "{\"pre_tokenizer\":" BYTES("true") "}", "gpt-2" },
        { "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}}", "gpt-2" },
        { "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":" BYTES("true") "}", "gpt-2" },
        { STEPS("{\"type\":\"Digits\",\"individual_digits\":true}," BYTES("true")) "}", "smollm" },
        { "{\"pre_tokenizer\":" BYTES("true") ",\"model\":{\"ignore_merges\":true}}", NULL },
        { "{\"pre_tokenizer\":" BYTES("false") "}", NULL },
        { "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true}}", NULL },
        { "{\"pre_tokenizer\":{\"type\":\"Whitespace\"}}", NULL },
        { STEPS(SPLIT("x") "," BYTES("false")) "}", NULL },
        { STEPS(SPLIT(LLAMA3) "," BYTES("true")) ",\"model\":{\"ignore_merges\":true}}", NULL },
        { STEPS(BYTES("false") "," SPLIT(LLAMA3)) "}", NULL },
        { "{\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":" BYTES("true") "}", NULL },
        { "{\"pre_tokenizer\":null}", NULL },
        { "{\"pre_tokenizer\":5}", NULL },
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        json_t *tokenizer = json(texts[i][0]);
        const char *pre = NULL;
        hearth_status status = hth_pretokenizer_of_bytes(tokenizer, &pre, NULL);

        assert_int_equal(status, texts[i][1] ? HEARTH_OK : HEARTH_UNSUPPORTED);
        if (texts[i][1])
            assert_string_equal(pre, texts[i][1]);
        json_decref(tokenizer);
    }
}

TEST(spaces_of_pieces_are_replaced_in_the_ways_that_the_engine_has)
{
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}"
#define PREPEND "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"}"
#define META(scheme, split)                                                                                 \
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\",\"prepend_scheme\":\"" scheme \
    "\",\"split\":" split "}}"
    static const struct {
        const char *text;
        hearth_status status;
        bool adds_space;
    } cases[] = {
        { "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" PREPEND "," REPLACE "]}}", HEARTH_OK, true },
        { "{\"normalizer\":" REPLACE "}", HEARTH_OK, false },
        { META("first", "false"), HEARTH_OK, true },
        { META("never", "false"), HEARTH_OK, false },
        { META("first", "true"), HEARTH_UNSUPPORTED, false },
        { "{\"normalizer\":{\"type\":\"NFKC\"}}", HEARTH_UNSUPPORTED, false },
        { "{}", HEARTH_UNSUPPORTED, false },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *tokenizer = json(cases[i].text);
        bool adds_space = false;

        assert_int_equal(hth_pretokenizer_of_pieces(tokenizer, &adds_space, NULL), cases[i].status);
        if (cases[i].status == HEARTH_OK)
            assert_int_equal(adds_space, cases[i].adds_space);
        json_decref(tokenizer);
    }
}

/* ---- a folder ---- */

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"</s>\":3,\"<turn>\":4},\"merges\":[]"

DIRECTORY_TEST(special_tokens_and_the_template_come_from_several_files)
{
    json_t *config = json("{\"bos_token_id\":0,\"pad_token_id\":1}");
    hth_tokenizer t;
    hearth_error err;

    assert_int_equal(hth_tokenizer_read(directory, config, 8, &t, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "neither tokenizer.model nor tokenizer.json"));
    write_text(directory, "tokenizer.json", PIECES(VOCAB));
    write_text(
        directory, "tokenizer_config.json",
        "{\"bos_token\":{\"content\":\"<s>\"},\"unk_token\":\"gone\",\"add_eos_token\":true,"
        "\"chat_template\":[{\"name\":\"tools\",\"template\":\"x\"},{\"name\":\"default\",\"template\":\"y\"}]}");
    write_text(directory, "generation_config.json", "{\"bos_token_id\":1,\"eos_token_id\":[3,4]}");
    assert_int_equal(hth_tokenizer_read(directory, config, 8, &t, &err), HEARTH_OK);
    assert_int_equal(t.special[HTH_SPECIAL_BOS], 5);
    assert_int_equal(t.special[HTH_SPECIAL_EOS], 3);
    assert_int_equal(t.special[HTH_SPECIAL_PAD], 1);
    assert_false(t.has_special[HTH_SPECIAL_UNKNOWN]);
    assert_true(t.vocabulary.adds_eos);
    assert_false(t.vocabulary.adds_bos); /* tokenizer.json adds none */
    assert_string_equal(t.chat_template, "y");
    hth_tokenizer_deinit(&t);

    write_text(directory, "chat_template.jinja", "z");
    assert_int_equal(hth_tokenizer_read(directory, config, 8, &t, &err), HEARTH_OK);
    assert_string_equal(t.chat_template, "z");
    hth_tokenizer_deinit(&t);

    write_text(directory, "generation_config.json", "{\"eos_token_id\":8}");
    assert_int_equal(hth_tokenizer_read(directory, config, 8, &t, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "eos_token_id is 8"));
    json_decref(config);
}
