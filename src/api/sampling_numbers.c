/*
 * sampling_numbers.c - see sampling_numbers.h
 */
#include "api/sampling_numbers.h"

#define NUMBER(name, config, field, kind, low, high)                                                                  \
    {                                                                                                                 \
        name, config, offsetof(hth_api_sampling_values, field), offsetof(hearth_sampling, field), kind, low, high, 0, \
    }
/* off: what llama-server writes where it is off */
#define SWITCHED(name, config, field, high, off)                                                                  \
    {                                                                                                             \
        name, config, offsetof(hth_api_sampling_values, field), offsetof(hearth_sampling, field), HTH_API_OFF, 0, \
            high, off,                                                                                            \
    }

const hth_api_sampling_number hth_api_sampling_numbers[HTH_API_SAMPLING_NUMBERS] = {
    SWITCHED("temperature", "temperature", temperature, 1000, 0),
    NUMBER("top_k", "top_k", top_k, HTH_API_SIGNED, 0, INT32_MAX),
    NUMBER("top_p", "top_p", top_p, HTH_API_REAL, 0, 1),
    NUMBER("min_p", "min_p", min_p, HTH_API_REAL, 0, 1),
    NUMBER("typical_p", "typical_p", typical_p, HTH_API_REAL, 0, 1),
    NUMBER("repeat_penalty", "repetition_penalty", repeat_penalty, HTH_API_REAL, 0.01, 1000),
    NUMBER("repeat_last_n", NULL, repeat_last_n, HTH_API_WINDOW, -1, HTH_API_LAST_N_MAX),
    NUMBER("frequency_penalty", NULL, frequency_penalty, HTH_API_REAL, -2, 2),
    NUMBER("presence_penalty", NULL, presence_penalty, HTH_API_REAL, -2, 2),
    NUMBER("dry_multiplier", NULL, dry_multiplier, HTH_API_REAL, 0, 1000),
    NUMBER("dry_base", NULL, dry_base, HTH_API_REAL, 0, 1000),
    NUMBER("dry_allowed_length", NULL, dry_allowed_length, HTH_API_COUNT, 0, HTH_API_LAST_N_MAX),
    NUMBER("dry_penalty_last_n", NULL, dry_last_n, HTH_API_WINDOW, -1, HTH_API_LAST_N_MAX),
    NUMBER("xtc_probability", NULL, xtc_probability, HTH_API_REAL, 0, 1),
    NUMBER("xtc_threshold", NULL, xtc_threshold, HTH_API_REAL, 0, 1),
    SWITCHED("top_n_sigma", NULL, top_n_sigma, 1000, -1),
    SWITCHED("dynatemp_range", NULL, dynatemp_range, 1000, 0),
    NUMBER("dynatemp_exponent", NULL, dynatemp_exponent, HTH_API_REAL, 0, 10),
    NUMBER("mirostat", NULL, mirostat, HTH_API_SIGNED, 0, 2),
    NUMBER("mirostat_tau", NULL, mirostat_tau, HTH_API_REAL, 0, 100),
    NUMBER("mirostat_eta", NULL, mirostat_eta, HTH_API_REAL, 0, 1),
    SWITCHED("adaptive_target", NULL, adaptive_target, 1, -1),
    NUMBER("adaptive_decay", NULL, adaptive_decay, HTH_API_REAL, 0, 0.99),
};

bool hth_api_number_is_real(const hth_api_sampling_number *number)
{
    return number->kind == HTH_API_REAL || number->kind == HTH_API_OFF;
}

double hth_api_sampling_get(const hth_api_sampling_number *number, const hearth_sampling *sampling)
{
    const void *at = (const char *)sampling + number->in_sampling;

    switch (number->kind) {
    case HTH_API_REAL:
    case HTH_API_OFF: return (double)*(const float *)at;
    case HTH_API_SIGNED: return *(const int32_t *)at;
    case HTH_API_COUNT: return *(const uint32_t *)at;
    case HTH_API_WINDOW: break;
    }
    return *(const uint32_t *)at == HTH_API_WHOLE_CONTEXT ? -1.0 : (double)*(const uint32_t *)at;
}

void hth_api_sampling_set(const hth_api_sampling_number *number, double value, hearth_sampling *sampling)
{
    void *at = (char *)sampling + number->in_sampling;

    switch (number->kind) {
    case HTH_API_REAL:
    case HTH_API_OFF: *(float *)at = (float)value; break;
    case HTH_API_SIGNED: *(int32_t *)at = (int32_t)value; break;
    case HTH_API_COUNT: *(uint32_t *)at = (uint32_t)value; break;
    case HTH_API_WINDOW: *(uint32_t *)at = value < 0 ? HTH_API_WHOLE_CONTEXT : (uint32_t)value; break;
    }
}
