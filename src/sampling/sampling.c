/*
 * sampling.c - the limits of the sampling options other than numbers, which are in numbers.h
 */
#include "sampling/sampling.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static hearth_status check_array(const char *name, const void *array, size_t n, size_t most, hearth_error *err)
{
    if (n > most)
        return hth_fail(err, HEARTH_MISUSE, "sampling: n_%s is %zu; it must be at most %zu", name, n, most);
    if (n > 0 && !array)
        return hth_fail(err, HEARTH_MISUSE, "sampling: %s is missing, though n_%s is %zu", name, name, n);
    return HEARTH_OK;
}

/* A text of 1 to most bytes. */
static hearth_status check_text(const char *name, size_t i, const char *text, size_t most, hearth_error *err)
{
    if (text && text[0] && strnlen(text, most + 1) <= most)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "sampling: %s[%zu] is %s; it must be 1 to %zu bytes", name, i,
                    !text      ? "missing"
                    : !text[0] ? "empty"
                               : "too long",
                    most);
}

static hearth_status check_arrays(const hearth_sampling *sampling, hearth_error *err)
{
    hearth_status status =
        check_array("dry_breakers", sampling->dry_breakers, sampling->n_dry_breakers, HTH_DRY_BREAKERS_MAX, err);

    for (size_t i = 0; status == HEARTH_OK && i < sampling->n_dry_breakers; i++)
        status = check_text("dry_breakers", i, sampling->dry_breakers[i], HTH_DRY_BREAKER_BYTES_MAX, err);
    if (status == HEARTH_OK)
        status = check_array("logit_bias", sampling->logit_bias, sampling->n_logit_bias, HTH_LOGIT_BIAS_MAX, err);
    for (size_t i = 0; status == HEARTH_OK && i < sampling->n_logit_bias; i++) {
        if (isnan(sampling->logit_bias[i].bias))
            status = hth_fail(err, HEARTH_MISUSE, "sampling: logit_bias[%zu] is not a number", i);
        else if (sampling->logit_bias[i].token < 0)
            status = hth_fail(err, HEARTH_MISUSE, "sampling: logit_bias[%zu] is for token %d; it must be 0 or more", i,
                              sampling->logit_bias[i].token);
    }
    if (status == HEARTH_OK)
        status = check_array("samplers", sampling->samplers, sampling->n_samplers, HTH_SAMPLERS_MAX, err);
    for (size_t i = 0; status == HEARTH_OK && sampling->samplers && i < sampling->n_samplers; i++)
        if (!hearth_sampler_name(sampling->samplers[i]))
            status = hth_fail(err, HEARTH_MISUSE, "sampling: samplers[%zu] is %d; it must be 0 to %d", i,
                              (int)sampling->samplers[i], (int)HEARTH_SAMPLER_ADAPTIVE_P);
    return status;
}

static hearth_status check_triggers(const hearth_sampling *sampling, hearth_error *err)
{
    hearth_status status = check_array("triggers", sampling->triggers, sampling->n_triggers, HTH_TRIGGERS_MAX, err);

    for (size_t i = 0; status == HEARTH_OK && i < sampling->n_triggers; i++) {
        const hearth_trigger *trigger = &sampling->triggers[i];

        switch (trigger->kind) {
        case HEARTH_TRIGGER_WORD:
        case HEARTH_TRIGGER_PATTERN:
            status = check_text("triggers", i, trigger->text, HTH_TRIGGER_BYTES_MAX, err);
            break;
        case HEARTH_TRIGGER_TOKEN:
            if (trigger->token < 0)
                status = hth_fail(err, HEARTH_MISUSE, "sampling: triggers[%zu] is token %d; it must be 0 or more", i,
                                  trigger->token);
            break;
        default:
            status = hth_fail(err, HEARTH_MISUSE, "sampling: triggers[%zu] has kind %d; it must be 0 to 2", i,
                              (int)trigger->kind);
        }
    }
    return status;
}

static hearth_status check_grammar(const hearth_sampling *sampling, hearth_error *err)
{
    const struct {
        const char *name, *text;
    } texts[] = { { "grammar", sampling->grammar }, { "json_schema", sampling->json_schema } };

    if (sampling->grammar && sampling->json_schema)
        return hth_fail(err, HEARTH_MISUSE, "sampling: grammar and json_schema are both given; give one of them");
    for (size_t i = 0; i < 2; i++) {
        if (!texts[i].text)
            continue;
        if (!texts[i].text[0] || strnlen(texts[i].text, HTH_GRAMMAR_BYTES_MAX + 1) > HTH_GRAMMAR_BYTES_MAX)
            return hth_fail(err, HEARTH_MISUSE, "sampling: %s is %s; it must be 1 to %d bytes", texts[i].name,
                            texts[i].text[0] ? "too long" : "empty", HTH_GRAMMAR_BYTES_MAX);
    }
    if (sampling->mirostat != 0 && (sampling->grammar || sampling->json_schema) && !sampling->grammar_is_lazy)
        return hth_fail(err, HEARTH_MISUSE,
                        "sampling: mirostat is %d, and the reply must follow a %s, which leaves no surprise to steer; "
                        "leave one of them out",
                        sampling->mirostat, sampling->grammar ? "grammar" : "json_schema");
    if (sampling->grammar_is_lazy && !sampling->grammar && !sampling->json_schema)
        return hth_fail(err, HEARTH_MISUSE, "sampling: grammar_is_lazy is set without grammar or json_schema");
    if (sampling->grammar_is_lazy && sampling->n_triggers == 0)
        return hth_fail(err, HEARTH_MISUSE, "sampling: grammar_is_lazy is set without triggers; it needs at least one");
    if (!sampling->grammar_is_lazy && sampling->n_triggers > 0)
        return hth_fail(err, HEARTH_MISUSE, "sampling: triggers are for a lazy grammar; set grammar_is_lazy, too");
    return HEARTH_OK;
}

static hearth_status check_thinking(const hearth_sampling *sampling, hearth_error *err)
{
    const struct {
        const char *name, *text;
        size_t most;
    } texts[] = { { "thinking_begin", sampling->thinking_begin, HTH_THINKING_TEXT_BYTES_MAX },
                  { "thinking_end", sampling->thinking_end, HTH_THINKING_TEXT_BYTES_MAX },
                  { "thinking_message", sampling->thinking_message, HTH_THINKING_MESSAGE_BYTES_MAX } };

    if (sampling->thinking_budget < -1)
        return hth_fail(err, HEARTH_MISUSE, "sampling: thinking_budget is %d; it must be -1 to %d",
                        sampling->thinking_budget, INT32_MAX);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].text && (!texts[i].text[0] || strnlen(texts[i].text, texts[i].most + 1) > texts[i].most))
            return hth_fail(err, HEARTH_MISUSE, "sampling: %s is %s; it must be 1 to %zu bytes", texts[i].name,
                            texts[i].text[0] ? "too long" : "empty", texts[i].most);
    return HEARTH_OK;
}

hearth_status hth_sampling_check(const hearth_sampling *sampling, hearth_error *err)
{
    hearth_status status = hth_sampling_check_numbers(sampling, err);

    if (status == HEARTH_OK)
        status = check_arrays(sampling, err);
    if (status == HEARTH_OK)
        status = check_triggers(sampling, err);
    if (status == HEARTH_OK)
        status = check_grammar(sampling, err);
    if (status == HEARTH_OK)
        status = check_thinking(sampling, err);
    return status;
}

const char *hearth_sampler_name(hearth_sampler sampler)
{
    static const char *const names[] = {
        [HEARTH_SAMPLER_PENALTIES] = "penalties",
        [HEARTH_SAMPLER_DRY] = "dry",
        [HEARTH_SAMPLER_TOP_N_SIGMA] = "top_n_sigma",
        [HEARTH_SAMPLER_TOP_K] = "top_k",
        [HEARTH_SAMPLER_TYPICAL_P] = "typ_p",
        [HEARTH_SAMPLER_TOP_P] = "top_p",
        [HEARTH_SAMPLER_MIN_P] = "min_p",
        [HEARTH_SAMPLER_XTC] = "xtc",
        [HEARTH_SAMPLER_TEMPERATURE] = "temperature",
        [HEARTH_SAMPLER_ADAPTIVE_P] = "adaptive_p",
    };

    return (unsigned)sampler < sizeof(names) / sizeof(names[0]) ? names[sampler] : NULL;
}

bool hth_sampling_penalizes(const hearth_sampling *sampling)
{
    return sampling->repeat_last_n > 0 &&
           (sampling->repeat_penalty != 1 || sampling->frequency_penalty != 0 || sampling->presence_penalty != 0);
}

bool hth_sampling_bounds_thinking(const hearth_sampling *sampling)
{
    return sampling->thinking_budget >= 0 && sampling->thinking_end;
}

bool hth_sampling_has_dry(const hearth_sampling *sampling)
{
    return sampling->dry_multiplier > 0 && sampling->dry_last_n > 0;
}

const char *const *hth_sampling_dry_breakers(const hearth_sampling *sampling, size_t *n_out)
{
    static const char *const usual[] = { "\n", ":", "\"", "*" };

    if (sampling->dry_breakers) {
        *n_out = sampling->n_dry_breakers;
        return sampling->dry_breakers;
    }
    *n_out = sizeof(usual) / sizeof(usual[0]);
    return usual;
}
