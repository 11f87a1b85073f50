/*
 * native_settings.c - see native_settings.h
 */
#include "api/native_settings.h"

#include "api/sampling_numbers.h"

json_t *hth_api_native_settings(const hearth_request *request)
{
    const hearth_sampling *s = request->sampling;
    json_t *settings = json_object(), *stop = json_array(), *samplers;

    json_object_set_new(settings, "seed", json_integer((json_int_t)s->seed));
    for (size_t i = 0; i < HTH_API_SAMPLING_NUMBERS; i++) {
        const hth_api_sampling_number *number = &hth_api_sampling_numbers[i];
        double value = hth_api_sampling_get(number, s); /* -1: the context's size, which is unknown here */

        if (number->kind == HTH_API_OFF && value == 0)
            value = number->off;
        json_object_set_new(settings, number->name,
                            hth_api_number_is_real(number) ? json_real(value) : json_integer((json_int_t)value));
    }
    json_object_set_new(settings, "n_predict", json_integer(request->n_predict));
    json_object_set_new(settings, "ignore_eos", json_boolean(request->ignore_eos));
    json_object_set_new(settings, "n_probs", json_integer(request->n_top_logprobs));
    json_object_set_new(settings, "grammar", json_string(s->grammar ? s->grammar : ""));
    for (size_t i = 0; i < request->n_stop; i++)
        json_array_append_new(stop, json_string(request->stop[i]));
    json_object_set_new(settings, "stop", stop);
    samplers = json_array();
    for (size_t i = 0; s->samplers ? i < s->n_samplers : i <= HEARTH_SAMPLER_ADAPTIVE_P; i++)
        json_array_append_new(samplers,
                              json_string(hearth_sampler_name(s->samplers ? s->samplers[i] : (hearth_sampler)i)));
    json_object_set_new(settings, "samplers", samplers);
    return settings;
}
