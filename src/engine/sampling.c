/*
 * sampling.c - the limits of every sampling option, in one table and a few rules for the arrays
 */
#include "engine/sampling.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static hearth_status check_float(const char *name, float value, float least, float most, hearth_error *err)
{
    if (value >= least && value <= most) /* false for a NaN */
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "sampling: %s is %g; it must be %g to %g", name, (double)value, (double)least,
                    (double)most);
}

static hearth_status check_count(const char *name, size_t value, size_t most, hearth_error *err)
{
    if (value <= most)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "sampling: %s is %zu; it must be at most %zu", name, value, most);
}

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

static hearth_status check_numbers(const hearth_sampling *sampling, hearth_error *err)
{
    const struct {
        const char *name;
        float value, least, most;
    } floats[] = {
        { "temperature", sampling->temperature, 0, 1000 },
        { "top_p", sampling->top_p, 0, 1 },
        { "min_p", sampling->min_p, 0, 1 },
        { "typical_p", sampling->typical_p, 0, 1 },
        { "repeat_penalty", sampling->repeat_penalty, 0.01f, 1000 },
        { "frequency_penalty", sampling->frequency_penalty, -2, 2 },
        { "presence_penalty", sampling->presence_penalty, -2, 2 },
        { "dry_multiplier", sampling->dry_multiplier, 0, 1000 },
        /* Without DRY its base is free, so that a struct of zeros but for a few fields is good. */
        { "dry_base", sampling->dry_base, sampling->dry_multiplier > 0 ? 1 : 0, 1000 },
        { "xtc_probability", sampling->xtc_probability, 0, 1 },
        { "xtc_threshold", sampling->xtc_threshold, 0, 1 },
    };
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]) && status == HEARTH_OK; i++)
        status = check_float(floats[i].name, floats[i].value, floats[i].least, floats[i].most, err);
    if (status == HEARTH_OK && sampling->top_k < 0)
        status = hth_fail(err, HEARTH_MISUSE, "sampling: top_k is %d; it must be 0 to %d", sampling->top_k, INT32_MAX);
    if (status == HEARTH_OK)
        status = check_count("repeat_last_n", sampling->repeat_last_n, HTH_LAST_N_MAX, err);
    if (status == HEARTH_OK)
        status = check_count("dry_allowed_length", sampling->dry_allowed_length, HTH_LAST_N_MAX, err);
    if (status == HEARTH_OK)
        status = check_count("dry_last_n", sampling->dry_last_n, HTH_LAST_N_MAX, err);
    return status;
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
    if (sampling->grammar_is_lazy && !sampling->grammar && !sampling->json_schema)
        return hth_fail(err, HEARTH_MISUSE, "sampling: grammar_is_lazy is set without grammar or json_schema");
    if (sampling->grammar_is_lazy && sampling->n_triggers == 0)
        return hth_fail(err, HEARTH_MISUSE, "sampling: grammar_is_lazy is set without triggers; it needs at least one");
    if (!sampling->grammar_is_lazy && sampling->n_triggers > 0)
        return hth_fail(err, HEARTH_MISUSE, "sampling: triggers are for a lazy grammar; set grammar_is_lazy, too");
    return HEARTH_OK;
}

hearth_status hth_sampling_check(const hearth_sampling *sampling, hearth_error *err)
{
    hearth_status status = check_numbers(sampling, err);

    if (status == HEARTH_OK)
        status = check_arrays(sampling, err);
    if (status == HEARTH_OK)
        status = check_triggers(sampling, err);
    if (status == HEARTH_OK)
        status = check_grammar(sampling, err);
    return status;
}

bool hth_sampling_penalizes(const hearth_sampling *sampling)
{
    return sampling->repeat_last_n > 0 &&
           (sampling->repeat_penalty != 1 || sampling->frequency_penalty != 0 || sampling->presence_penalty != 0);
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
