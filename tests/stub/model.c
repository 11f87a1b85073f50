/*
 * model.c - a model of the stub engine: the parameters in its path, and the facts that it claims of itself
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub/inside.h"

#define N_WINDOW_DEFAULT 64
#define LAYER_MIB 8

static const struct {
    const char *name;
    hth_model_kind kind;
} kinds[] = {
    { "plain", HTH_MODEL_PLAIN },
    { "window", HTH_MODEL_WINDOW },
    { "recurrent", HTH_MODEL_RECURRENT },
    { "hybrid", HTH_MODEL_HYBRID },
};

const char *hth_stub_kind_name(hth_model_kind kind)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].kind == kind)
            return kinds[i].name;
    return "unknown";
}

static bool parse_kind(const char *text, hth_model_kind *out)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, text) == 0) {
            *out = kinds[i].kind;
            return true;
        }
    }
    return false;
}

static bool parse_number(const char *text, uint32_t low, uint32_t high, uint32_t *out)
{
    char *rest;
    unsigned long value;

    if (*text < '0' || *text > '9')
        return false;
    value = strtoul(text, &rest, 10);
    if (*rest || value < low || value > high)
        return false;
    *out = (uint32_t)value;
    return true;
}

static hearth_status parse_parameters(const char *path, hth_engine_model *model, hearth_error *err)
{
    char text[256];
    char *rest = text;
    char *item;

    if (strncmp(path, "stub:", 5) != 0)
        return hth_fail(err, HEARTH_MISUSE, "'%s' is no stub model: it must begin with 'stub:'", path);
    if ((size_t)snprintf(text, sizeof(text), "%s", path + 5) >= sizeof(text))
        return hth_fail(err, HEARTH_MISUSE, "the stub model's parameters are longer than %zu bytes", sizeof(text) - 1);
    while ((item = strtok_r(rest, ",", &rest))) {
        char *value = strchr(item, '=');
        bool ok = false;

        if (value) {
            *value++ = '\0';
            if (strcmp(item, "n_ctx_train") == 0)
                ok = parse_number(value, 1, 1u << 20, &model->n_ctx_train);
            else if (strcmp(item, "top_k") == 0)
                ok = parse_number(value, 0, 1u << 20, &model->top_k);
            else if (strcmp(item, "cell_bytes") == 0)
                ok = parse_number(value, 0, 1u << 30, &model->cell_bytes);
            else if (strcmp(item, "free_mib") == 0)
                ok = parse_number(value, 0, 1u << 20, &model->free_mib);
            else if (strcmp(item, "gpu_mib") == 0)
                ok = parse_number(value, 0, 1u << 20, &model->gpu_mib);
            else if (strcmp(item, "vocab") == 0)
                ok = parse_number(value, FIRST_WORD_TOKEN, 1u << 20, &model->n_vocab);
            else if (strcmp(item, "joins") == 0)
                ok = parse_number(value, 0, 1, &model->joins_words);
            else if (strcmp(item, "defined") == 0)
                ok = parse_number(value, 0, 100, &model->n_defined);
            else if (strcmp(item, "delay_us") == 0)
                ok = parse_number(value, 0, 10 * 1000 * 1000, &model->delay_us);
            else if (strcmp(item, "step_us") == 0)
                ok = parse_number(value, 0, 10 * 1000 * 1000, &model->step_us);
            else if (strcmp(item, "gate") == 0)
                ok = (size_t)snprintf(model->gate, sizeof(model->gate), "%s", value) < sizeof(model->gate);
            else if (strcmp(item, "reading") == 0)
                ok = (size_t)snprintf(model->reading, sizeof(model->reading), "%s", value) < sizeof(model->reading);
            else if (strcmp(item, "window") == 0)
                ok = parse_number(value, 1, 1u << 20, &model->n_window);
            else if (strcmp(item, "kind") == 0)
                ok = parse_kind(value, &model->kind);
            else if (strcmp(item, "fills") == 0)
                ok = parse_number(value, 0, 1, &model->fills);
            else if (strcmp(item, "encoder") == 0)
                ok = parse_number(value, 0, 1, &model->encoder);
            else if (strcmp(item, "embeds") == 0)
                ok = parse_number(value, 0, 1, &model->embeds);
            else if (strcmp(item, "labels") == 0)
                ok = parse_number(value, 0, HTH_STUB_EMBEDDING, &model->n_labels);
            else if (strcmp(item, "errs") == 0)
                ok = parse_number(value, 0, 1u << 20, &model->errs);
            else if (strcmp(item, "words") == 0)
                ok = parse_number(value, 0, 1, &model->other_words);
            else if (strcmp(item, "short") == 0)
                ok = parse_number(value, 0, 1u << 20, &model->n_ctx_short);
            else if (strcmp(item, "pairs") == 0)
                ok = parse_number(value, 0, 1, &model->pairs);
        }
        if (!ok)
            return hth_fail(
                err, HEARTH_MISUSE,
                "'%s' has a bad parameter '%s'; known are n_ctx_train, top_k, cell_bytes, free_mib, gpu_mib, vocab, "
                "joins, defined, delay_us, step_us, gate, reading, kind, fills, window, encoder, embeds, labels, "
                "pairs, errs, short and words",
                path, item);
    }
    return HEARTH_OK;
}

hearth_status hth_stub_model_load(const char *path, const hth_engine_model_params *params, hth_engine_model **out,
                                  hearth_error *err)
{
    hearth_status status;
    hth_engine_model *model;

    if (!path || !params || !out)
        return hth_fail(err, HEARTH_MISUSE, "a model needs a path and parameters");
    if (params->n_control_vectors > 0)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the stub model takes no control vectors");
    model = malloc(sizeof(*model));
    if (!model)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stub model");
    *model = (hth_engine_model){
        .kind = HTH_MODEL_PLAIN,
        .n_ctx_train = 4096,
        .free_mib = 1024,
        .n_gpu_layers =
            params->n_gpu_layers < 0 || params->n_gpu_layers > N_LAYERS ? N_LAYERS + 1 : (uint32_t)params->n_gpu_layers,
        .top_k = UINT32_MAX,
        .n_vocab = FIRST_WORD_TOKEN,
        .embeds = 1,
        .template_given = params->chat_template != NULL,
    };
    status = parse_parameters(path, model, err);
    if (model->kind == HTH_MODEL_PLAIN || model->kind == HTH_MODEL_RECURRENT)
        model->n_window = 0;
    else if (model->kind == HTH_MODEL_WINDOW && model->n_window == 0)
        model->n_window = N_WINDOW_DEFAULT;
    for (int i = 0; i <= 4 && status == HEARTH_OK && params->progress; i++)
        if (!params->progress((float)i / 4, params->progress_user_data))
            status = hth_fail(err, HEARTH_CANCELLED, "loading '%s' was cancelled", path);
    if (status == HEARTH_OK) {
        model->texts = hth_stub_texts_new(model);
        if (!model->texts)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stub model");
    }
    if (status == HEARTH_OK && model->kind == HTH_MODEL_PLAIN)
        model->script = hth_stub_script_new(params->chat_template);
    if (status != HEARTH_OK) {
        free(model);
        return status;
    }
    *out = model;
    return HEARTH_OK;
}

void hth_stub_model_free(hth_engine_model *model)
{
    if (!model)
        return;
    hth_texts_free(model->texts);
    hth_stub_script_free(model->script);
    free(model);
}

void hth_stub_model_info(const hth_engine_model *model, hth_engine_model_info *out)
{
    *out = (hth_engine_model_info){
        .kind = model->kind,
        .architecture = "stub",
        .quant_type = "unknown",
        .n_params = 1000,
        .weight_bytes = 1000,
        .n_ctx_train = model->n_ctx_train,
        .n_ctx_short = model->n_ctx_short,
        .n_vocab = model->n_vocab,
        .n_layers = N_LAYERS,
        .n_window = model->n_window,
        .chat_template = "a stub's, in C\xff" /* as a file may have it */,
        .chat_abilities = "{\"supports_tools\":true}",
        .vocabulary_type = HEARTH_VOCABULARY_OTHER,
        .adds_bos = true,
        .token_bytes_max = hth_stub_token_bytes_max(),
        .advice = { NAN, model->top_k < UINT32_MAX ? (float)model->top_k : NAN, NAN, NAN, NAN, NAN, NAN, NAN },
    };
    out->embeds = model->embeds;
    out->n_embedding = HTH_STUB_EMBEDDING;
    out->n_labels = model->n_labels;
    out->rank_template = model->pairs ? "<{query}|{document}>" : NULL;
    for (size_t i = 0; i < HEARTH_SPECIALS; i++)
        out->special[i] = HTH_NO_TOKEN;
    out->special[HEARTH_SPECIAL_BOS] = TOKEN_BOS;
    out->special[HEARTH_SPECIAL_EOS] = TOKEN_EOS;
    out->special[HEARTH_SPECIAL_EOT] = TOKEN_TURN_END;
    out->special[HEARTH_SPECIAL_NEWLINE] = '\n';
    if (model->fills) {
        out->special[HEARTH_SPECIAL_FIM_PREFIX] = '<';
        out->special[HEARTH_SPECIAL_FIM_SUFFIX] = '|';
        out->special[HEARTH_SPECIAL_FIM_MIDDLE] = '>';
    }
    (void)snprintf(out->description, sizeof(out->description), "stub %s", hth_stub_kind_name(model->kind)); /* fits */
    (void)snprintf(out->chat_template_kind, sizeof(out->chat_template_kind), "%s",
                   model->template_given ? "given" : "model"); /* fits */
}

/* As many cells as it is asked for cost nothing. */
hearth_status hth_stub_needs(const hth_engine_model *model, const hth_engine_context_params *params,
                             hth_engine_needs *out, hearth_error *err)
{
    const uint64_t n = model->n_gpu_layers, mib = 1 << 20;

    if (model->gpu_mib == 0)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the engine 'stub' does not tell the memory that a model would take");
    *out = (hth_engine_needs){ .host.weight_bytes = (N_LAYERS + 1 - n) * LAYER_MIB * mib };
    if (n == 0)
        return HEARTH_OK; /* it has no GPU then, as the engine */
    out->n_devices = 1;
    out->devices[0] = (hth_engine_device_share){
        .name = "GPU",
        .free_bytes = model->gpu_mib * mib,
        .total_bytes = model->gpu_mib * mib,
        .share = { .weight_bytes = n * LAYER_MIB * mib,
                   .cell_bytes = params->n_ctx * (uint64_t)model->cell_bytes * n / (N_LAYERS + 1) },
    };
    return HEARTH_OK;
}

void hth_stub_cell_room(const hth_engine_model *model, const char *type_k, const char *type_v, hth_cell_room *out)
{
    (void)type_k;
    (void)type_v;
    *out = (hth_cell_room){
        .cell_bytes = model->cell_bytes,
        .free_bytes = (uint64_t)model->free_mib << 20,
        .total_bytes = (uint64_t)model->free_mib << 20,
    };
}

/* ---- metadata ---- */

/* The last value is no UTF-8, as a file's may be. */
static const char *const metadata_pairs[][2] = {
    { "general.architecture", "stub" },
    { "stub.block_count", "2" },
    { "stub.bytes", "\xff!" },
};
enum { N_METADATA = sizeof(metadata_pairs) / sizeof(metadata_pairs[0]) };

size_t hth_stub_metadata_count(const hth_engine_model *model)
{
    (void)model;
    return N_METADATA;
}

static hearth_status copy_metadata(const char *text, char **out, hearth_error *err)
{
    char *copy = strdup(text);

    if (!copy)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for metadata");
    *out = copy;
    return HEARTH_OK;
}

hearth_status hth_stub_metadata_key(const hth_engine_model *model, size_t index, char **out, hearth_error *err)
{
    (void)model;
    if (index >= N_METADATA)
        return hth_fail(err, HEARTH_NOT_FOUND, "the model's metadata has no pair of that number");
    return copy_metadata(metadata_pairs[index][0], out, err);
}

hearth_status hth_stub_metadata(const hth_engine_model *model, const char *key, char **out, hearth_error *err)
{
    (void)model;
    for (size_t i = 0; i < N_METADATA; i++)
        if (strcmp(metadata_pairs[i][0], key) == 0)
            return copy_metadata(metadata_pairs[i][1], out, err);
    return hth_fail(err, HEARTH_NOT_FOUND, "the model's metadata has no %.200s", key);
}
