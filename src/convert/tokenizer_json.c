/*
 * tokenizer_json.c - read tokenizer.json
 *
 * An NFC normalizer is ignored, as in the engine: texts that are not in that form get different tokens.
 */
#include "convert/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/mapped_file.h"

#define FILE_NAME "tokenizer.json"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* ---- the normalizer and the pre_tokenizer ---- */

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

hearth_status hth_pretokenizer_of_bytes(const json_t *tokenizer, const char **pre, hearth_error *err)
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

hearth_status hth_pretokenizer_of_pieces(const json_t *tokenizer, bool *adds_space, hearth_error *err)
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

/* ---- tokens ---- */

static bool is_byte_piece(const char *piece)
{
    return strlen(piece) == 6 && strncmp(piece, "<0x", 3) == 0 && piece[5] == '>' &&
           strspn(piece + 3, "0123456789ABCDEFabcdef") == 2;
}

static hearth_status read_tokens(const json_t *model, bool has_bytes, hth_token_list *vocabulary, hearth_error *err)
{
    json_t *vocab = json_object_get(model, "vocab"), *id;
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    const char *piece;
    uint64_t number;
    hearth_status status = HEARTH_OK;

    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        return hth_fail(err, HEARTH_CORRUPT, "'" FILE_NAME "' has no vocabulary");
    json_object_foreach(vocab, piece, id)
    {
        hth_token_type type = has_bytes && is_byte_piece(piece)      ? HTH_TOKEN_BYTE
                            : unknown && strcmp(unknown, piece) == 0 ? HTH_TOKEN_UNKNOWN
                                                                     : HTH_TOKEN_NORMAL;

        if (!hth_json_size(id, &number))
            return hth_fail(err, HEARTH_CORRUPT, "'" FILE_NAME "': the token '%.100s' has no id", piece);
        status = hth_token_list_set(vocabulary, FILE_NAME, number, piece, strlen(piece), type, err);
        if (status != HEARTH_OK)
            return status;
    }
    return HEARTH_OK;
}

hearth_status hth_tokenizer_json_add(const json_t *tokenizer, hth_token_list *vocabulary, hearth_error *err)
{
    const json_t *added = json_object_get(tokenizer, "added_tokens");

    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        hearth_status status;
        uint64_t id;

        if (!hth_json_size(json_object_get(token, "id"), &id))
            return hth_fail(err, HEARTH_CORRUPT, "'" FILE_NAME "': an added token has no id");
        status = hth_token_list_add(vocabulary, FILE_NAME, id, text_of(token, "content"),
                                    json_is_true(json_object_get(token, "special")), err);
        if (status != HEARTH_OK)
            return status;
    }
    return HEARTH_OK;
}

/* ---- merges ---- */

/* Both parts of a merge, borrowed from the JSON or from buffer, which the caller frees; false if it is not a merge. */
static bool split_merge(const json_t *merge, char **buffer, const char **left, const char **right)
{
    char *space;

    *buffer = NULL;
    if (json_is_array(merge)) {
        *left = json_string_value(json_array_get(merge, 0));
        *right = json_string_value(json_array_get(merge, 1));
        return json_array_size(merge) == 2 && *left && *right;
    }
    *buffer = json_is_string(merge) ? strdup(json_string_value(merge)) : NULL;
    space = *buffer ? strchr(*buffer, ' ') : NULL;
    if (!space || strchr(space + 1, ' '))
        return false;
    *space = '\0';
    *left = *buffer;
    *right = space + 1;
    return true;
}

static char *join(const char *left, const char *between, const char *right)
{
    size_t n = strlen(left) + strlen(between) + strlen(right) + 1;
    char *joined = malloc(n);

    if (joined)
        (void)snprintf(joined, n, "%s%s%s", left, between, right); /* fits */
    return joined;
}

/* "gpt2": the engine stores merges as text. A space inside a part would be read as the space between the parts. */
static bool keep_merge(hth_token_list *vocabulary, const char *left, const char *right)
{
    char *joined = *left && *right && !strchr(left, ' ') && !strchr(right, ' ') ? join(left, " ", right) : NULL;

    if (joined)
        vocabulary->merges[vocabulary->n_merges++] = joined;
    return joined != NULL;
}

/*
 * "llama": the engine merges the pair whose piece has the highest score, so the score is minus the rank of the piece's
 * first merge. Merges made from a SentencePiece model list each way to split a piece, so the engine merges in nearly
 * the same order. It differs for two merges of one piece: the engine takes the left pair, not the lower rank. Pieces
 * without a merge are merged last, not never.
 */
static bool score_merge(const json_t *vocab, hth_token_list *vocabulary, size_t rank, const char *left,
                        const char *right)
{
    char *joined = join(left, "", right);
    const json_t *id = joined ? json_object_get(vocab, joined) : NULL;
    json_int_t at = json_is_integer(id) ? json_integer_value(id) : -1;

    free(joined);
    if (at < 0 || (uint64_t)at >= vocabulary->n)
        return false;
    if (vocabulary->scores[at] < -(float)rank)
        vocabulary->scores[at] = -(float)rank;
    return true;
}

static hearth_status read_merges(const json_t *model, bool has_bytes, hth_token_list *vocabulary, hearth_error *err)
{
    const json_t *merges = json_object_get(model, "merges"), *vocab = json_object_get(model, "vocab");
    size_t n = json_array_size(merges);

    if (!json_is_array(merges))
        return hth_fail(err, HEARTH_CORRUPT, "'" FILE_NAME "' has no merges");
    vocabulary->merges = calloc(n + 1, sizeof(*vocabulary->merges));
    if (!vocabulary->merges)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu merges", n);
    for (size_t i = 0; i < n; i++) {
        const char *left = "", *right = "";
        char *buffer;
        bool ok = split_merge(json_array_get(merges, i), &buffer, &left, &right);

        ok = ok && (has_bytes ? score_merge(vocab, vocabulary, i, left, right) : keep_merge(vocabulary, left, right));
        free(buffer);
        if (!ok)
            return hth_fail(err, HEARTH_CORRUPT, "'" FILE_NAME "': merge %zu does not join two parts to a token", i);
    }
    return HEARTH_OK;
}

/* ---- top level ---- */

hearth_status hth_tokenizer_json_read(const json_t *tokenizer, hth_token_list *vocabulary, hearth_error *err)
{
    const json_t *model = json_object_get(tokenizer, "model");
    bool has_bytes = json_is_true(json_object_get(model, "byte_fallback"));
    hearth_status status;

    if (strcmp(text_of(model, "type"), "BPE") != 0)
        return hth_fail(err, HEARTH_UNSUPPORTED, "'" FILE_NAME "' is of the type '%.40s'; only BPE is converted",
                        text_of(model, "type"));
    if (*text_of(model, "continuing_subword_prefix") || *text_of(model, "end_of_word_suffix"))
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "'" FILE_NAME "' marks the ends of words, which the engine does not have");
    if (has_bytes && json_is_true(json_object_get(model, "ignore_merges")))
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "'" FILE_NAME "' has ignore_merges and byte_fallback, which the engine does not have together");
    vocabulary->model = has_bytes ? "llama" : "gpt2";
    status = has_bytes ? hth_pretokenizer_of_pieces(tokenizer, &vocabulary->adds_space, err)
                       : hth_pretokenizer_of_bytes(tokenizer, &vocabulary->pre, err);
    if (status == HEARTH_OK)
        status = read_tokens(model, has_bytes, vocabulary, err);
    if (status == HEARTH_OK)
        status = read_merges(model, has_bytes, vocabulary, err);
    if (status == HEARTH_OK)
        status = hth_tokenizer_json_add(tokenizer, vocabulary, err);
    return status;
}

/* The step of the post-processor that puts tokens around a text. */
static const json_t *find_template(const json_t *tokenizer)
{
    const json_t *post = json_object_get(tokenizer, "post_processor");
    const json_t *processors = json_object_get(post, "processors");

    for (size_t i = 0; i < json_array_size(processors); i++)
        if (strcmp(text_of(json_array_get(processors, i), "type"), "TemplateProcessing") == 0)
            return json_array_get(processors, i);
    return strcmp(text_of(post, "type"), "TemplateProcessing") == 0 ? post : NULL;
}

void hth_tokenizer_json_ends(const json_t *tokenizer, const char *bos, const char *eos, bool *adds_bos, bool *adds_eos)
{
    const json_t *single = json_object_get(find_template(tokenizer), "single");
    size_t n = json_array_size(single);
    const char *first = text_of(json_object_get(json_array_get(single, 0), "SpecialToken"), "id");
    const char *last = n > 0 ? text_of(json_object_get(json_array_get(single, n - 1), "SpecialToken"), "id") : "";

    if (!json_is_object(tokenizer))
        return;
    *adds_bos = bos && strcmp(first, bos) == 0;
    *adds_eos = eos && n > 1 && strcmp(last, eos) == 0;
}
