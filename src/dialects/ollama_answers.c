#include "dialects/ollama_answers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/sse.h"
#include "base/hash.h"
#include "models/model.h"

/* ---- times and durations ---- */

json_t *hth_api_ollama_time(json_int_t unix_s)
{
    time_t seconds = (time_t)unix_s;
    struct tm parts;
    char text[64];

    if (!gmtime_r(&seconds, &parts) || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        return json_string("1970-01-01T00:00:00Z"); /* the year does not fit */
    return json_string(text);
}

json_t *hth_api_ollama_duration(double ms)
{
    return json_integer(ms > 1e-6 ? (json_int_t)(ms * 1e6) : 1);
}

/* ---- models ---- */

/* A number of parameters, "7.6B". */
static json_t *size_json(uint64_t n_params)
{
    static const struct {
        double unit;
        const char *letter;
    } sizes[] = { { 1e12, "T" }, { 1e9, "B" }, { 1e6, "M" }, { 1e3, "K" }, { 1, "" } };
    char text[32];
    size_t i = 0;

    while (sizes[i].unit > 1 && (double)n_params < sizes[i].unit)
        i++;
    (void)snprintf(text, sizeof(text), sizes[i].unit >= 1e9 ? "%.1f%s" : "%.0f%s", (double)n_params / sizes[i].unit,
                   sizes[i].letter); /* fits */
    return json_string(text);
}

/* info is NULL when the model is not loaded. */
static json_t *details_json(const char *architecture, const hearth_model_info *info)
{
    json_t *families = json_array(), *family = json_string(architecture); /* NULL if not UTF-8: a file may be wrong */
    char quant[sizeof(info->quant_type)];

    hth_api_weight_type(info, quant);
    if (family && *architecture)
        json_array_append(families, family);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:s}", "parent_model", "", "format", "gguf", "family",
                     family ? family : json_string(""), "families", families, "parameter_size",
                     info ? size_json(info->n_params) : json_string(""), "quantization_level", quant);
}

/*
 * `ollama list` truncates the digest without checking its length, and clients use it to tell models apart. Hashing the
 * files would take minutes, so the digest is of the size and the name, which are known before the model is loaded.
 */
static void digest_of(const char *name, uint64_t n_bytes, char digest[2 * HTH_SHA256_BYTES + 1])
{
    char text[512];
    uint8_t bytes[HTH_SHA256_BYTES];

    (void)snprintf(text, sizeof(text), "%" PRIu64 "\n%s", n_bytes, name); /* names are shorter */
    hth_sha256_of(text, strlen(text), bytes);
    hth_hex_encode(bytes, sizeof(bytes), digest);
}

/* A model, under its own name or an alias. */
static json_t *model_json(const hth_api_listed_model *model, const char *name)
{
    const uint64_t n_bytes = model->file_bytes > 0 ? model->file_bytes : model->info ? model->info->file_bytes : 0;
    char digest[2 * HTH_SHA256_BYTES + 1];

    digest_of(model->name, n_bytes, digest);
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "name", name, "model", name, "size", (json_int_t)n_bytes, "digest",
                     digest, "details",
                     details_json(model->info ? model->info->architecture : model->architecture, model->info));
}

static void add_tag(json_t *list, const hth_api_listed_model *model, const char *name)
{
    json_t *one = model_json(model, name);

    json_object_set_new(one, "modified_at", hth_api_ollama_time(model->created_s));
    json_array_append_new(list, one);
}

void hth_api_ollama_tags_write(const hth_api_listed_model *models, size_t n, hth_buffer *out)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        const hth_api_listed_model *model = &models[i];

        add_tag(list, model, model->name);
        for (size_t k = 0; k < model->n_aliases; k++)
            if (!strchr(model->aliases[k], '*')) /* clients cannot ask for a pattern by name */
                add_tag(list, model, model->aliases[k]);
    }
    hth_buffer_add_json_take(out, json_pack("{s:o}", "models", list));
}

void hth_api_ollama_ps_write(const hth_api_listed_model *models, size_t n, hth_buffer *out)
{
    /* the latest time for clients that count nanoseconds in 64 bits */
    static const char never[] = "2262-01-01T00:00:00Z";
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *one;

        if (!models[i].info)
            continue;
        one = model_json(&models[i], models[i].name);
        json_object_set_new(one, "expires_at",
                            models[i].expires_s > 0 ? hth_api_ollama_time(models[i].expires_s) : json_string(never));
        json_object_set_new(one, "size_vram", json_integer(0));
        json_object_set_new(one, "context_length", json_integer(models[i].info->n_ctx));
        json_array_append_new(list, one);
    }
    hth_buffer_add_json_take(out, json_pack("{s:o}", "models", list));
}

/* ---- the server ---- */

void hth_api_ollama_version_write(hth_buffer *out)
{
    /* The version of Ollama whose API this is. Clients refuse older ones: Codex needs 0.13.4, VS Code 0.6.4. */
    hth_buffer_add_json_take(out, json_pack("{s:s, s:s}", "version", "0.13.5", "hearth", HEARTH_VERSION));
}

void hth_api_ollama_pulled_write(bool is_stream, hth_buffer *out)
{
    if (is_stream)
        hth_ndjson_add_take(out, json_pack("{s:s}", "status", "success"));
    else
        hth_buffer_add_json_take(out, json_pack("{s:s}", "status", "success"));
}

void hth_api_ollama_load_write(const hearth_model_info *info, const hth_api_request *request, json_int_t now_s,
                               hth_buffer *out)
{
    json_t *body =
        json_pack("{s:s, s:o, s:b, s:s}", "model", request->model ? request->model : info->name, "created_at",
                  hth_api_ollama_time(now_s), "done", true, "done_reason", request->is_unload ? "unload" : "load");

    if (request->kind == HTH_API_OLLAMA_CHAT)
        json_object_set_new(body, "message", json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
    else
        json_object_set_new(body, "response", json_string(""));
    hth_buffer_add_json_take(out, body);
}

/* ---- one model ---- */

/* The abilities of the model's tokens and of its template, found by rendering. */
static json_t *capabilities_json(hearth_model *model)
{
    static const hearth_chat_turn turn = { .struct_size = sizeof(hearth_chat_turn), .role = "user", .content = "Hi" };
    static const hearth_chat_tool tool = { .struct_size = sizeof(hearth_chat_tool),
                                           .name = "look",
                                           .parameters = "{\"type\":\"object\",\"properties\":{}}" };
    hearth_conversation conversation = hearth_conversation_default();
    const hearth_chat_prompt *prompt = NULL;
    hearth_model_info info = { .struct_size = sizeof(info) };
    json_t *capabilities;
    hearth_token fill[3];

    (void)hearth_model_info_get(model, &info, NULL); /* cannot fail: the model is loaded */
    capabilities = json_pack("[s]", info.generates ? "completion" : "embedding");
    if (!info.generates)
        return capabilities;

    if (hth_model_fill_tokens(model, fill))
        json_array_append_new(capabilities, json_string("insert"));
    conversation.turns = &turn;
    conversation.n_turns = 1;
    if (hearth_conversation_render(model, &conversation, &prompt, NULL) != HEARTH_OK)
        return capabilities; /* no template, or one that does not render this conversation */
    if (prompt->can_think)
        json_array_append_new(capabilities, json_string("thinking"));
    hearth_chat_prompt_free(prompt);
    conversation.tools = &tool;
    conversation.n_tools = 1;
    conversation.tool_choice = HEARTH_TOOL_REQUIRED;
    if (hearth_conversation_render(model, &conversation, &prompt, NULL) != HEARTH_OK)
        return capabilities;
    json_array_append_new(capabilities, json_string("tools"));
    hearth_chat_prompt_free(prompt);
    return capabilities;
}

static void set_named(json_t *to, const char *architecture, const char *name, json_int_t value)
{
    char key[128];

    (void)snprintf(key, sizeof(key), "%s.%s", architecture, name); /* fits */
    json_object_set_new(to, key, json_integer(value));
}

/* The metadata of the file under its own names, as far as the server knows it. */
static json_t *metadata_json(const hearth_model_info *info)
{
    json_t *all = json_pack("{s:s, s:I}", "general.architecture", info->architecture, "general.parameter_count",
                            (json_int_t)info->n_params);

    set_named(all, info->architecture, "context_length", (json_int_t)info->n_ctx_train);
    set_named(all, info->architecture, "block_count", (json_int_t)info->n_layers);
    set_named(all, info->architecture, "vocab_size", (json_int_t)info->n_vocab);
    return all;
}

/* The default parameters as lines of a Modelfile. */
static json_t *parameters_json(const hearth_model_info *info)
{
    hearth_sampling s = hearth_sampling_default();
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "num_ctx                        %u\n"
                   "temperature                    %g\n"
                   "top_k                          %d\n"
                   "top_p                          %g\n"
                   "min_p                          %g\n"
                   "repeat_penalty                 %g\n"
                   "repeat_last_n                  %u",
                   info->n_ctx, (double)s.temperature, s.top_k, (double)s.top_p, (double)s.min_p,
                   (double)s.repeat_penalty, s.repeat_last_n); /* fits */
    return json_string(text);
}

bool hth_api_ollama_show_write(hearth_model *model, const hth_api_request *request, hth_buffer *out,
                               hth_api_error *error)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    char *template = NULL;
    hearth_error err;

    if (hearth_model_info_get(model, &info, &err) != HEARTH_OK ||
        hth_model_template(model, &template, &err) != HEARTH_OK) {
        hth_api_fail_status(error, &err);
        return false;
    }
    hth_buffer_add_json_take(out, json_pack("{s:s+, s:o, s:s, s:o, s:o, s:o}", "modelfile", "FROM ",
                                            request->model ? request->model : info.name, "parameters",
                                            parameters_json(&info), "template", template ? template : "", "details",
                                            details_json(info.architecture, &info), "model_info", metadata_json(&info),
                                            "capabilities", capabilities_json(model)));
    free(template);
    return true;
}
