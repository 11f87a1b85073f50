/*
 * native_settings.c - the settings of a request, under llama.cpp's names
 */
#include <math.h>

#include "api/model_pages.h"
#include "sampling/sampling.h"

static void set(json_t *settings, const char *name, json_t *value_take)
{
    json_object_set_new(settings, name, value_take);
}

json_t *hth_api_texts_json(const char *const *texts, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

static void set_numbers(json_t *settings, const hearth_sampling *s)
{
    set(settings, "seed", json_integer((json_int_t)s->seed));
    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++) {
        const hth_sampling_number *number = &hth_sampling_numbers[i];
        double value = hth_sampling_get(number, s); /* -1: the context's size, which is unknown here */

        if (number->kind == HTH_NUMBER_MINUS && value == 0)
            value = -1;
        set(settings, number->name,
            hth_sampling_number_is_real(number) ? json_real(value) : json_integer((json_int_t)value));
    }
}

static void set_chain(json_t *settings, const hearth_sampling *s)
{
    json_t *samplers = json_array();

    for (size_t i = 0; s->samplers ? i < s->n_samplers : i <= HEARTH_SAMPLER_ADAPTIVE_P; i++)
        json_array_append_new(samplers,
                              json_string(hearth_sampler_name(s->samplers ? s->samplers[i] : (hearth_sampler)i)));
    set(settings, "samplers", samplers);
}

/* Texts and tokens of the client. */
static void set_texts(json_t *settings, const hearth_request *request)
{
    const hearth_sampling *s = request->sampling;
    json_t *biases = json_array();
    size_t n_breakers;
    const char *const *breakers = hth_sampling_dry_breakers(s, &n_breakers);

    set(settings, "stop", hth_api_texts_json(request->stop, request->n_stop));
    set(settings, "dry_sequence_breakers", hth_api_texts_json(breakers, n_breakers));
    for (size_t i = 0; i < s->n_logit_bias; i++) { /* JSON cannot represent infinity */
        float bias = s->logit_bias[i].bias;

        json_array_append_new(biases, json_pack("{s:o, s:i}", "bias", isfinite(bias) ? json_real(bias) : json_null(),
                                                "token", s->logit_bias[i].token));
    }
    set(settings, "logit_bias", biases);
}

/* With llama.cpp's numbers for the kinds. */
static json_t *trigger_json(const hearth_trigger *trigger)
{
    static const int kinds[] = { [HEARTH_TRIGGER_WORD] = 1, [HEARTH_TRIGGER_TOKEN] = 0, [HEARTH_TRIGGER_PATTERN] = 2 };
    json_t *json = json_pack("{s:i, s:s}", "type", kinds[trigger->kind], "value", trigger->text ? trigger->text : "");

    if (trigger->kind == HEARTH_TRIGGER_TOKEN)
        json_object_set_new(json, "token", json_integer(trigger->token));
    return json;
}

/* The grammar of the rendered conversation, if it has one; otherwise the client's. */
static void set_grammar(json_t *settings, const hearth_request *request)
{
    const hearth_sampling *s = request->sampling;
    const hearth_chat_prompt *chat = request->chat && request->chat->grammar ? request->chat : NULL;
    const char *grammar = chat ? chat->grammar : s->grammar;
    const hearth_trigger *triggers = chat ? chat->triggers : s->triggers;
    const hearth_token *shown = request->chat ? request->chat->shown_tokens : s->shown_tokens;
    size_t n_triggers = chat ? chat->n_triggers : s->n_triggers;
    size_t n_shown = request->chat ? request->chat->n_shown_tokens : s->n_shown_tokens;
    json_t *list = json_array(), *preserved = json_array();

    for (size_t i = 0; i < n_triggers; i++)
        json_array_append_new(list, trigger_json(&triggers[i]));
    for (size_t i = 0; i < n_shown; i++)
        json_array_append_new(preserved, json_integer(shown[i]));
    set(settings, "grammar", json_string(grammar ? grammar : ""));
    set(settings, "grammar_lazy", json_boolean(chat ? chat->grammar_is_lazy : s->grammar_is_lazy));
    set(settings, "grammar_triggers", list);
    set(settings, "preserved_tokens", preserved);
}

json_t *hth_api_native_numbers(const hearth_request *request, const hth_api_request *asked)
{
    const bool is_chat = asked && asked->is_chat;
    json_t *settings = json_object(), *adapters = json_array();

    set_numbers(settings, request->sampling);
    json_object_update_new(
        settings, json_pack("{s:i, s:i, s:b, s:b, s:I, s:b, s:b, s:s}", "max_tokens", (int)request->n_predict,
                            "n_predict", (int)request->n_predict, "ignore_eos", request->ignore_eos, "stream",
                            asked ? asked->stream : true /* llama-server's default */, "n_probs",
                            (json_int_t)request->n_top_logprobs, "post_sampling_probs",
                            request->logprobs_after_sampling, "timings_per_token", asked && asked->wants_timings,
                            "reasoning_format", !is_chat || asked->is_raw ? "none" : "deepseek"));
    if (!is_chat) { /* only the engine knows the format of a chat reply */
        set(settings, "chat_format", json_string("Content-only"));
        set(settings, "generation_prompt", json_string(""));
    }
    set_chain(settings, request->sampling);
    /* Hearth never truncates or shifts the context, and keeps no candidates beyond those that the chain leaves. */
    json_object_update_new(settings, json_pack("{s:i, s:i, s:i, s:b, s:b}", "n_keep", 0, "n_discard", 0, "min_keep", 0,
                                               "backend_sampling", false, "reasoning_in_content", false));
    for (size_t i = 0; i < request->n_adapters; i++)
        json_array_append_new(adapters, json_pack("{s:I, s:f}", "id", (json_int_t)request->adapters[i].id, "scale",
                                                  (double)request->adapters[i].scale));
    set(settings, "lora", adapters);
    return settings;
}

json_t *hth_api_native_settings(const hearth_request *request, const hth_api_request *asked)
{
    json_t *settings = hth_api_native_numbers(request, asked);

    set_texts(settings, request);
    set_grammar(settings, request);
    return settings;
}
