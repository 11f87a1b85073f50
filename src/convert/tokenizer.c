/*
 * tokenizer.c - read the tokenizer's files in a directory
 *
 * tokenizer.model has the scores that its pieces are merged by, so it takes precedence over tokenizer.json. Special
 * tokens are named in tokenizer_config.json, otherwise given by number in generation_config.json or config.json.
 */
#include "convert/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/mapped_file.h"

enum { MODEL_BYTES_MAX = 64 << 20, TEMPLATE_BYTES_MAX = 1 << 20 };

typedef struct sources {
    const char *folder;
    const json_t *config;
    json_t *tokenizer; /* the existing files; NULL: missing */
    json_t *tokenizer_config;
    json_t *generation_config;
    json_t *added_tokens;
    json_t *chat_template;
} sources;

/* The keys of a special token: its text in tokenizer_config.json, its number in the others. */
static const struct special {
    const char *text_key;
    const char *id_key;
} specials[HTH_N_SPECIALS] = {
    [HTH_SPECIAL_BOS] = { "bos_token", "bos_token_id" }, [HTH_SPECIAL_EOS] = { "eos_token", "eos_token_id" },
    [HTH_SPECIAL_EOT] = { "eot_token", "eot_token_id" }, [HTH_SPECIAL_UNKNOWN] = { "unk_token", "unk_token_id" },
    [HTH_SPECIAL_PAD] = { "pad_token", "pad_token_id" },
};

static hearth_status read_sources(sources *s, hearth_error *err)
{
    const struct {
        const char *name;
        json_t **out;
    } files[] = {
        { "tokenizer.json", &s->tokenizer },
        { "tokenizer_config.json", &s->tokenizer_config },
        { "generation_config.json", &s->generation_config },
        { "added_tokens.json", &s->added_tokens },
        { "chat_template.json", &s->chat_template },
    };

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        hearth_status status = hth_json_file_read(s->folder, files[i].name, files[i].out, err);

        if (status != HEARTH_OK && status != HEARTH_NOT_FOUND)
            return status;
    }
    return HEARTH_OK;
}

static void free_sources(sources *s)
{
    json_decref(s->tokenizer);
    json_decref(s->tokenizer_config);
    json_decref(s->generation_config);
    json_decref(s->added_tokens);
    json_decref(s->chat_template);
}

/* ---- tokens ---- */

/* HEARTH_NOT_FOUND if there is no tokenizer.model. */
static hearth_status read_pieces(const sources *s, hth_token_list *vocabulary, hearth_error *err)
{
    hth_mapped_file file;
    hearth_status status = hth_mapped_file_open(s->folder, "tokenizer.model", MODEL_BYTES_MAX, &file, err);

    if (status != HEARTH_OK)
        return status;
    status = hth_sentencepiece_read(file.path, file.bytes, (size_t)file.n_bytes, vocabulary, err);
    hth_mapped_file_close(file.bytes, file.n_bytes);
    return status;
}

/* {"<piece>": id}; other files say whether they are special. */
static hearth_status add_listed(const json_t *added, hth_token_list *vocabulary, hearth_error *err)
{
    const char *piece;
    json_t *id;

    json_object_foreach((json_t *)(uintptr_t)added, piece, id)
    {
        uint64_t number = 0;
        hearth_status status = hth_json_size(id, &number)
                                 ? hth_token_list_add(vocabulary, "added_tokens.json", number, piece,
                                                      /* is_special= */ false, err)
                                 : hth_fail(err, HEARTH_CORRUPT, "'added_tokens.json': '%.100s' has no id", piece);

        if (status != HEARTH_OK)
            return status;
    }
    return HEARTH_OK;
}

/* "added_tokens_decoder": {"<id>": {"content": ..., "special": ...}} */
static hearth_status add_decoder(const json_t *decoder, hth_token_list *vocabulary, hearth_error *err)
{
    const char *key;
    json_t *token;

    json_object_foreach((json_t *)(uintptr_t)decoder, key, token)
    {
        const char *content = json_string_value(json_object_get(token, "content"));
        char *end;
        unsigned long id = strtoul(key, &end, 10);
        hearth_status status =
            content && *key && !*end
                ? hth_token_list_add(vocabulary, "tokenizer_config.json", id, content,
                                     json_is_true(json_object_get(token, "special")), err)
                : hth_fail(err, HEARTH_CORRUPT, "'tokenizer_config.json': the added token '%.40s' is not an id", key);

        if (status != HEARTH_OK)
            return status;
    }
    return HEARTH_OK;
}

static hearth_status read_vocabulary(const sources *s, hth_token_list *vocabulary, hearth_error *err)
{
    const json_t *prefix = json_object_get(s->tokenizer_config, "add_prefix_space");
    hearth_status status = read_pieces(s, vocabulary, err);

    if (status == HEARTH_OK) {
        if (json_is_boolean(prefix))
            vocabulary->adds_space = json_is_true(prefix);
        status = add_listed(s->added_tokens, vocabulary, err);
        if (status == HEARTH_OK)
            status = hth_tokenizer_json_add(s->tokenizer, vocabulary, err);
    } else if (status == HEARTH_NOT_FOUND && s->tokenizer) {
        status = hth_tokenizer_json_read(s->tokenizer, vocabulary, err);
    } else if (status == HEARTH_NOT_FOUND) {
        status = hth_fail(err, HEARTH_NOT_FOUND, "'%s' has neither tokenizer.model nor tokenizer.json", s->folder);
    }
    if (status == HEARTH_OK)
        status = add_decoder(json_object_get(s->tokenizer_config, "added_tokens_decoder"), vocabulary, err);
    if (status == HEARTH_OK)
        status = hth_token_list_fill(vocabulary, s->folder, err);
    return status;
}

/* ---- special tokens ---- */

/* "<s>" or {"content": "<s>", ...}; NULL: neither. */
static const char *special_text(const sources *s, hth_special which)
{
    const json_t *value = json_object_get(s->tokenizer_config, specials[which].text_key);

    return json_is_object(value) ? json_string_value(json_object_get(value, "content")) : json_string_value(value);
}

/* A number, or the first in a list of numbers. */
static bool special_number(const json_t *object, const char *key, uint64_t *id)
{
    const json_t *value = json_object_get(object, key);

    return hth_json_size(json_is_array(value) ? json_array_get(value, 0) : value, id);
}

/* A bos or eos that is named must exist; other named tokens may be leftovers of training. */
static hearth_status read_special(const sources *s, hth_special which, hth_tokenizer *out, hearth_error *err)
{
    const char *text = special_text(s, which);
    uint64_t id = 0;

    if (text && hth_token_list_find(&out->vocabulary, text, &out->special[which])) {
        out->has_special[which] = true;
        return HEARTH_OK;
    }
    if (text && (which == HTH_SPECIAL_BOS || which == HTH_SPECIAL_EOS))
        return hth_fail(err, HEARTH_CORRUPT, "'tokenizer_config.json': %s is '%.100s', which is not a token",
                        specials[which].text_key, text);
    if (text || !(special_number(s->generation_config, specials[which].id_key, &id) ||
                  special_number(s->config, specials[which].id_key, &id)))
        return HEARTH_OK;
    if (id >= out->vocabulary.n)
        return hth_fail(err, HEARTH_CORRUPT, "%s is %llu, and there are %zu tokens", specials[which].id_key,
                        (unsigned long long)id, out->vocabulary.n);
    out->has_special[which] = true;
    out->special[which] = (uint32_t)id;
    return HEARTH_OK;
}

static const char *piece_of(const hth_tokenizer *tokenizer, hth_special which)
{
    return tokenizer->has_special[which] ? tokenizer->vocabulary.pieces[tokenizer->special[which]] : NULL;
}

static hearth_status read_specials(const sources *s, hth_tokenizer *out, hearth_error *err)
{
    const json_t *bos = json_object_get(s->tokenizer_config, "add_bos_token");
    const json_t *eos = json_object_get(s->tokenizer_config, "add_eos_token");
    hth_token_list *vocabulary = &out->vocabulary;

    for (hth_special which = 0; which < HTH_N_SPECIALS; which++) {
        hearth_status status = read_special(s, which, out, err);

        if (status != HEARTH_OK)
            return status;
    }
    hth_tokenizer_json_ends(s->tokenizer, piece_of(out, HTH_SPECIAL_BOS), piece_of(out, HTH_SPECIAL_EOS),
                            &vocabulary->adds_bos, &vocabulary->adds_eos);
    if (json_is_boolean(bos))
        vocabulary->adds_bos = json_is_true(bos);
    if (json_is_boolean(eos))
        vocabulary->adds_eos = json_is_true(eos);
    vocabulary->adds_bos = vocabulary->adds_bos && out->has_special[HTH_SPECIAL_BOS];
    vocabulary->adds_eos = vocabulary->adds_eos && out->has_special[HTH_SPECIAL_EOS];
    return HEARTH_OK;
}

/* ---- the chat template ---- */

/* A string, or the one named "default" in a list. */
static const char *template_of(const json_t *value)
{
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *named = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(named, "name"));

        if (name && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(named, "template"));
    }
    return json_string_value(value);
}

static hearth_status read_template(const sources *s, char **out, hearth_error *err)
{
    const char *text = template_of(json_object_get(s->tokenizer_config, "chat_template"));
    hth_mapped_file file;
    hearth_status status = hth_mapped_file_open(s->folder, "chat_template.jinja", TEMPLATE_BYTES_MAX, &file, err);

    if (status == HEARTH_OK) {
        if (memchr(file.bytes, '\0', (size_t)file.n_bytes))
            status = hth_fail(err, HEARTH_CORRUPT, "'%s' has a zero byte", file.path);
        else
            *out = strndup((const char *)file.bytes, (size_t)file.n_bytes);
        hth_mapped_file_close(file.bytes, file.n_bytes);
        if (status == HEARTH_OK && !*out)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for '%s'", file.path);
        return status;
    }
    if (status != HEARTH_NOT_FOUND)
        return status;
    if (!text)
        text = template_of(json_object_get(s->chat_template, "chat_template"));
    *out = text ? strdup(text) : NULL;
    return !text || *out ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a chat template");
}

/* ---- top level ---- */

hearth_status hth_tokenizer_read(const char *folder, const json_t *config, size_t n_vocab, hth_tokenizer *out,
                                 hearth_error *err)
{
    sources s = { .folder = folder, .config = config };
    hth_tokenizer made = { 0 };
    hearth_status status = hth_token_list_init(&made.vocabulary, n_vocab, err);

    if (status == HEARTH_OK)
        status = read_sources(&s, err);
    if (status == HEARTH_OK)
        status = read_vocabulary(&s, &made.vocabulary, err);
    if (status == HEARTH_OK)
        status = read_specials(&s, &made, err);
    if (status == HEARTH_OK)
        status = read_template(&s, &made.chat_template, err);
    free_sources(&s);
    if (status == HEARTH_OK)
        *out = made;
    else
        hth_tokenizer_deinit(&made);
    return status;
}

void hth_tokenizer_deinit(hth_tokenizer *tokenizer)
{
    hth_token_list_deinit(&tokenizer->vocabulary);
    free(tokenizer->chat_template);
    *tokenizer = (hth_tokenizer){ 0 };
}
