#include "api/model_pages.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/error.h"
#include "models/model.h"

/* ---- models ---- */

/* The kind of use of a model. A model without its own template was not made for conversations. */
static const char *kind_of(const hearth_model_info *info)
{
    const char *kind = info->chat_template_kind;

    return strcmp(kind, "none") == 0 || strcmp(kind, "fallback") == 0 ? "completion" : "chat";
}

static const char *shown_name(const hth_api_listed_model *model)
{
    return model->shown ? model->shown : model->name;
}

static const char *shown_id(const hth_api_listed_model *model)
{
    return model->asked ? model->asked : shown_name(model);
}

void hth_api_weight_type(const hearth_model_info *info, char out[sizeof(info->quant_type)])
{
    const size_t n = info ? strnlen(info->quant_type, sizeof(info->quant_type) - 1) : 0;

    for (size_t i = 0; i < n; i++)
        out[i] = (char)toupper((unsigned char)info->quant_type[i]);
    out[n] = '\0';
}

/* The same; "": unknown. */
static void write_known_type(const hearth_model_info *info, char out[sizeof(info->quant_type)])
{
    hth_api_weight_type(info && strcmp(info->quant_type, "unknown") != 0 ? info : NULL, out);
}

/* With llama-server's names. The number of the vocabulary type is the engine's. */
static json_t *meta_json(const hearth_model_info *info)
{
    char type[sizeof(info->quant_type)];
    json_t *meta = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "n_ctx", (json_int_t)info->n_ctx, "n_ctx_train",
                             (json_int_t)info->n_ctx_train, "n_vocab", (json_int_t)info->n_vocab, "n_embd",
                             (json_int_t)info->n_embedding, "n_params", (json_int_t)info->n_params, "size",
                             (json_int_t)info->file_bytes);

    if (info->vocabulary_type != HEARTH_VOCABULARY_OTHER)
        json_object_set_new(meta, "vocab_type", json_integer((json_int_t)info->vocabulary_type));
    write_known_type(info, type);
    if (*type)
        json_object_set_new(meta, "ftype", json_string(type));
    return meta;
}

/* Clients that shorten conversations read either "context_length" or "max_model_len". */
static json_t *model_json(const hth_api_listed_model *model)
{
    const char *id = shown_id(model);
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:s, s:o, s:o}", "id", id, "object", "model", "created", model->created_s,
                  "owned_by", "hearth", "aliases", hth_api_texts_json(model->aliases, model->n_aliases), "tags",
                  hth_api_texts_json(model->tags, model->n_tags));

    if (strcmp(id, shown_name(model)) != 0)
        json_object_set_new(object, "root", json_string(shown_name(model)));
    if (model->status)
        json_object_set_new(object, "status",
                            json_pack("{s:s, s:b}", "value", model->status, "failed", model->has_failed));
    if (!model->info)
        return object;
    json_object_set_new(object, "kind", json_string(kind_of(model->info)));
    json_object_set_new(object, "context_length", json_integer((json_int_t)model->info->n_ctx));
    json_object_set_new(object, "max_model_len", json_integer((json_int_t)model->info->n_ctx));
    json_object_set_new(object, "meta", meta_json(model->info));
    return object;
}

/* llama-server's second list, in Ollama's form. Its clients expect strings even for unknown values. */
static json_t *second_json(const hth_api_listed_model *model)
{
    const bool makes_vectors = model->info && !model->info->generates && model->info->embeds;
    const char *family = model->info ? model->info->architecture : "";
    char type[sizeof(model->info->quant_type)];

    write_known_type(model->info, type);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:[s], s:s, s:{s:s, s:s, s:s, s:[s], s:s, s:s}}", "name",
                     shown_id(model), "model", shown_id(model), "modified_at", "", "size", "", "digest", "", "type",
                     "model", "description", "", "tags",
                     model->n_tags > 0 ? hth_api_texts_json(model->tags, model->n_tags) : json_pack("[s]", ""),
                     "capabilities", makes_vectors ? "embedding" : "completion", "parameters", "", "details",
                     "parent_model", "", "format", "gguf", "family", family, "families", family, "parameter_size", "",
                     "quantization_level", type);
}

void hth_api_models_write(const hth_api_listed_model *models, size_t n, hth_buffer *out)
{
    json_t *list = json_array(), *second = json_array();

    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, model_json(&models[i]));
        json_array_append_new(second, second_json(&models[i]));
    }
    hth_buffer_add_json_take(out, json_pack("{s:s, s:o, s:o}", "object", "list", "data", list, "models", second));
}

void hth_api_model_write(const hth_api_listed_model *model, hth_buffer *out)
{
    hth_buffer_add_json_take(out, model_json(model));
}

/* ---- llama.cpp's ---- */

/* The text of the token with a role; "" if the model has none. */
static json_t *special_json(hearth_model *model, hearth_special role)
{
    char bytes[HEARTH_TOKEN_BYTES_MAX];
    hearth_token token;
    size_t n = 0;
    json_t *text = NULL;

    if (hearth_special_token(model, role, &token, NULL) == HEARTH_OK && token >= 0 &&
        hearth_token_bytes(model, token, bytes, sizeof(bytes), &n, NULL) == HEARTH_OK)
        text = json_stringn(bytes, n); /* NULL if not UTF-8 */
    return text ? text : json_string("");
}

static void set_of_model(json_t *props, hearth_model *model)
{
    char *source = NULL, *abilities = NULL;
    json_t *caps;

    (void)hth_model_template(model, &source, NULL); /* if it fails, there is no template to report */
    (void)hth_model_template_abilities(model, &abilities, NULL);
    caps = abilities ? json_loads(abilities, 0, NULL) : NULL;
    json_object_set_new(props, "chat_template", json_string(source ? source : ""));
    json_object_set_new(props, "chat_template_caps", caps ? caps : json_object());
    json_object_set_new(props, "bos_token", special_json(model, HEARTH_SPECIAL_BOS));
    json_object_set_new(props, "eos_token", special_json(model, HEARTH_SPECIAL_EOS));
    free(source);
    free(abilities);
}

void hth_api_props_write(hearth_model *model, const hearth_model_info *info, const char *name, const char *file,
                         const hth_api_defaults *defaults, hth_buffer *out)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    const char *slash = file ? strrchr(file, '/') : NULL;
    json_t *base = json_string(slash ? slash + 1 : file ? file : info->name); /* NULL: the path is not UTF-8 */
    char type[sizeof(info->quant_type)];
    json_t *props;

    if (defaults)
        hth_api_defaults_fill(defaults, &request, &sampling);
    request.sampling = &sampling;
    hth_api_weight_type(info, type);
    props = json_pack("{s:{s:I, s:o}, s:I, s:I, s:s, s:s, s:o, s:s, s:b, s:s}", "default_generation_settings", "n_ctx",
                      (json_int_t)info->n_ctx, "params", hth_api_native_settings(&request, NULL), "n_ctx_train",
                      (json_int_t)info->n_ctx_train, "total_slots", (json_int_t)info->n_parallel, "model_alias", name,
                      "model_ftype", type, "model_path", base ? base : json_string(info->name), "chat_template_kind",
                      info->chat_template_kind, "deterministic", info->deterministic, "build_info",
                      "hearth-" HEARTH_VERSION);
    set_of_model(props, model);
    json_object_set_new(props, "modalities",
                        json_pack("{s:b, s:b, s:b}", "vision", false, "video", false, "audio", false));
    json_object_set_new(props, "is_sleeping", json_false());
    hth_buffer_add_json_take(out, props);
}

static json_t *slot_json(const hearth_model_info *info, uint32_t i, const hth_api_slot *slot, bool is_drafting)
{
    json_t *json = json_pack("{s:I, s:I, s:b, s:b}", "id", (json_int_t)i, "n_ctx", (json_int_t)info->n_ctx,
                             "speculative", is_drafting, "is_processing", slot->is_processing);
    json_t *next;

    if (slot->task == 0)
        return json;
    next = json_pack("[{s:b, s:b, s:I, s:I}]", "has_next_token", slot->has_next, "has_new_line", slot->has_new_line,
                     "n_remain", (json_int_t)slot->n_remain, "n_decoded", (json_int_t)slot->n_decoded);
    (void)json_object_update_new(json,
                                 json_pack("{s:I, s:I, s:I, s:I, s:O*, s:o*}", "id_task", (json_int_t)slot->task,
                                           "n_prompt_tokens", (json_int_t)slot->n_prompt, "n_prompt_tokens_processed",
                                           (json_int_t)slot->n_read, "n_prompt_tokens_cache",
                                           (json_int_t)slot->n_cached, "params", slot->params, "next_token", next));
    return json;
}

void hth_api_slots_write(const hearth_model_info *info, const hth_api_slot *slots, bool is_drafting, hth_buffer *out)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < info->n_parallel; i++)
        json_array_append_new(list, slot_json(info, i, &slots[i], is_drafting));
    hth_buffer_add_json_take(out, list);
}

int hth_api_health_write(const char *problem, hth_buffer *out)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (!problem) {
        hth_buffer_add_json_take(out, json_pack("{s:s}", "status", "ok"));
        return 200;
    }
    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "%s", problem);
    hth_api_error_write(HTH_API_NATIVE, &error, out);
    return hth_api_error_http_status(HTH_API_NATIVE, &error);
}
