/*
 * native_settings.c - see native_settings.h
 */
#include "api/native_settings.h"

#include "api/request.h"

static void put(json_t *to, const char *name, float value)
{
    json_object_set_new(to, name, json_real((double)value));
}

/* -1: as many as the context has, of which nothing is known here. */
static json_t *window(uint32_t n)
{
    return json_integer(n == HTH_API_WHOLE_CONTEXT ? -1 : (json_int_t)n);
}

json_t *hth_api_native_settings(const hearth_request *request)
{
    const hearth_sampling *s = request->sampling;
    json_t *settings = json_object(), *stop = json_array();

    json_object_set_new(settings, "seed", json_integer((json_int_t)s->seed));
    put(settings, "temperature", s->temperature);
    json_object_set_new(settings, "top_k", json_integer(s->top_k));
    put(settings, "top_p", s->top_p);
    put(settings, "min_p", s->min_p);
    put(settings, "typical_p", s->typical_p);
    put(settings, "repeat_penalty", s->repeat_penalty);
    json_object_set_new(settings, "repeat_last_n", window(s->repeat_last_n));
    put(settings, "frequency_penalty", s->frequency_penalty);
    put(settings, "presence_penalty", s->presence_penalty);
    put(settings, "dry_multiplier", s->dry_multiplier);
    put(settings, "dry_base", s->dry_base);
    json_object_set_new(settings, "dry_allowed_length", json_integer(s->dry_allowed_length));
    json_object_set_new(settings, "dry_penalty_last_n", window(s->dry_last_n));
    put(settings, "xtc_probability", s->xtc_probability);
    put(settings, "xtc_threshold", s->xtc_threshold);
    json_object_set_new(settings, "n_predict", json_integer(request->n_predict));
    json_object_set_new(settings, "ignore_eos", json_boolean(request->ignore_eos));
    json_object_set_new(settings, "n_probs", json_integer(request->n_top_logprobs));
    json_object_set_new(settings, "grammar", json_string(s->grammar ? s->grammar : ""));
    for (size_t i = 0; i < request->n_stop; i++)
        json_array_append_new(stop, json_string(request->stop[i]));
    json_object_set_new(settings, "stop", stop);
    return settings;
}
