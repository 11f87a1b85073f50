/*
 * cutting.c - the normalizer and the pre_tokenizer of a tokenizer.json
 *
 * An NFC normalizer is ignored, as in the engine: texts that are not in that form get different tokens.
 */
#include "convert/cutting.h"

#include <stdlib.h>
#include <string.h>

#define SPACE "\xe2\x96\x81" /* U+2581 */

enum { N_STEPS_MAX = 8 };

/* The patterns of llama.cpp v0.5.0 (llama-vocab.cpp), as written in tokenizer files. */
static const struct pattern {
    const char *pre;
    const char *regex; /* "": the pattern of ByteLevel */
    bool ignores_merges, has_digits;
} patterns[] = {
    { "llama-bpe",
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
      "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      true, false },
    { "smaug-bpe",
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
      "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      false, false },
    { "qwen2",
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
      "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      false, false },
    { "tekken",
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
      "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      true, false },
    { "gpt-2", "", false, false },
    { "smollm", "", false, true },
};

typedef struct steps {
    const json_t *list[N_STEPS_MAX];
    size_t n;
} steps;

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static bool is_type(const json_t *step, const char *type)
{
    return strcmp(text_of(step, "type"), type) == 0;
}

/* List a step, or the steps of a sequence. False if there are too many. */
static bool list_steps(const json_t *step, const char *inner, steps *out)
{
    const json_t *sequence = json_object_get(step, inner);

    out->n = 0;
    if (!step || json_is_null(step))
        return true;
    if (!is_type(step, "Sequence")) {
        out->list[out->n++] = step;
        return true;
    }
    for (size_t i = 0; i < json_array_size(sequence); i++) {
        if (out->n == N_STEPS_MAX)
            return false;
        out->list[out->n++] = json_array_get(sequence, i);
    }
    return true;
}

static hearth_status refuse(const json_t *step, const char *key, hearth_error *err)
{
    char *shown = json_dumps(step, JSON_COMPACT | JSON_ENCODE_ANY);
    hearth_status status = hth_fail(
        err, HEARTH_UNSUPPORTED, "'tokenizer.json': the engine has no name for the %s %.300s; its tokens would differ",
        key, shown ? shown : "");

    free(shown); /* allocated by the library with malloc */
    return status;
}

static const char *find_pattern(const char *regex, bool has_digits, bool ignores_merges)
{
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        if (strcmp(patterns[i].regex, regex) == 0 && patterns[i].has_digits == has_digits &&
            patterns[i].ignores_merges == ignores_merges)
            return patterns[i].pre;
    return NULL;
}

/*
 * Steps: optionally Digits, optionally Split by a pattern, then ByteLevel, whose own pattern is used if there was no
 * Split.
 */
static const char *name_of(const steps *pre, bool ignores_merges)
{
    const char *regex = "";
    bool has_digits = false, is_bytes = false;

    for (size_t i = 0; i < pre->n; i++) {
        const json_t *step = pre->list[i];

        if (is_bytes)
            return NULL;
        if (is_type(step, "Digits") && json_is_true(json_object_get(step, "individual_digits")) && !*regex) {
            has_digits = true;
        } else if (is_type(step, "Split") && !*regex && strcmp(text_of(step, "behavior"), "Isolated") == 0 &&
                   !json_is_true(json_object_get(step, "invert"))) {
            regex = text_of(json_object_get(step, "pattern"), "Regex");
            if (!*regex)
                return NULL;
        } else if (is_type(step, "ByteLevel") && !json_is_true(json_object_get(step, "add_prefix_space"))) {
            is_bytes = true;
            if (json_is_false(json_object_get(step, "use_regex")) != (*regex != '\0'))
                return NULL;
        } else {
            return NULL;
        }
    }
    return is_bytes ? find_pattern(regex, has_digits, ignores_merges) : NULL;
}

hearth_status hth_cutting_of_bytes(const json_t *tokenizer, const char **pre, hearth_error *err)
{
    const json_t *normalizer = json_object_get(tokenizer, "normalizer");
    const json_t *cutter = json_object_get(tokenizer, "pre_tokenizer");
    const json_t *ignores = json_object_get(json_object_get(tokenizer, "model"), "ignore_merges");
    const char *found;
    steps list;

    if (!list_steps(normalizer, "normalizers", &list))
        return refuse(normalizer, "normalizer", err);
    for (size_t i = 0; i < list.n; i++)
        if (!is_type(list.list[i], "NFC"))
            return refuse(normalizer, "normalizer", err);
    found = list_steps(cutter, "pretokenizers", &list) ? name_of(&list, json_is_true(ignores)) : NULL;
    if (!found)
        return refuse(cutter, json_is_true(ignores) ? "pre_tokenizer (with ignore_merges)" : "pre_tokenizer", err);
    *pre = found;
    return HEARTH_OK;
}

/* Does the step turn spaces into U+2581? */
static bool replaces_spaces(const json_t *step)
{
    return is_type(step, "Replace") && strcmp(text_of(json_object_get(step, "pattern"), "String"), " ") == 0 &&
           strcmp(text_of(step, "content"), SPACE) == 0;
}

/* Newer files do both in one step, Metaspace, whose older form has add_prefix_space. */
static bool read_metaspace(const json_t *step, bool *adds_space)
{
    const char *scheme = text_of(step, "prepend_scheme");

    if (!is_type(step, "Metaspace") || strcmp(text_of(step, "replacement"), SPACE) != 0 ||
        json_is_true(json_object_get(step, "split")))
        return false;
    *adds_space = *scheme ? strcmp(scheme, "never") != 0 : json_is_true(json_object_get(step, "add_prefix_space"));
    return true;
}

/* gemma's pre_tokenizer splits at spaces, but none are left. */
static bool cuts_nothing(const json_t *step)
{
    return is_type(step, "Split") && strcmp(text_of(json_object_get(step, "pattern"), "String"), " ") == 0;
}

hearth_status hth_cutting_of_pieces(const json_t *tokenizer, bool *adds_space, hearth_error *err)
{
    const json_t *normalizer = json_object_get(tokenizer, "normalizer");
    const json_t *cutter = json_object_get(tokenizer, "pre_tokenizer");
    bool is_replaced = false;
    steps list;

    *adds_space = false;
    if (!list_steps(normalizer, "normalizers", &list))
        return refuse(normalizer, "normalizer", err);
    for (size_t i = 0; i < list.n; i++) {
        if (replaces_spaces(list.list[i]))
            is_replaced = true;
        else if (is_type(list.list[i], "Prepend") && strcmp(text_of(list.list[i], "prepend"), SPACE) == 0)
            *adds_space = true;
        else
            return refuse(normalizer, "normalizer", err);
    }
    if (!list_steps(cutter, "pretokenizers", &list))
        return refuse(cutter, "pre_tokenizer", err);
    for (size_t i = 0; i < list.n; i++) {
        if (!is_replaced && read_metaspace(list.list[i], adds_space))
            is_replaced = true;
        else if (!is_replaced || !cuts_nothing(list.list[i]))
            return refuse(cutter, "pre_tokenizer", err);
    }
    return is_replaced ? HEARTH_OK : refuse(normalizer, "normalizer", err);
}
