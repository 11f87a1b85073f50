/*
 * defaults.c - see defaults.h
 */
#include "api/defaults.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "api/request.h"
#include "base/status.h"

typedef enum number_kind { REAL, SIGNED, COUNT, WINDOW } number_kind;

/* A number of the defaults, and where it goes in hearth_sampling. */
static const struct number {
    size_t from;
    size_t to;
    number_kind kind;
    double low, high;
    const char *config; /* its name in a generation_config.json; NULL: it has none */
} numbers[] = {
#define NUMBER(field, kind, low, high, config)                                                       \
    {                                                                                                \
        offsetof(hth_api_defaults, field), offsetof(hearth_sampling, field), kind, low, high, config \
    }
    NUMBER(temperature, REAL, 0, 1000, "temperature"),
    NUMBER(top_k, SIGNED, 0, INT32_MAX, "top_k"),
    NUMBER(top_p, REAL, 0, 1, "top_p"),
    NUMBER(min_p, REAL, 0, 1, "min_p"),
    NUMBER(typical_p, REAL, 0, 1, "typical_p"),
    NUMBER(repeat_penalty, REAL, 0.01, 1000, "repetition_penalty"),
    NUMBER(repeat_last_n, WINDOW, -1, HTH_API_LAST_N_MAX, NULL),
    NUMBER(frequency_penalty, REAL, -2, 2, NULL),
    NUMBER(presence_penalty, REAL, -2, 2, NULL),
    NUMBER(dry_multiplier, REAL, 0, 1000, NULL),
    NUMBER(dry_base, REAL, 1, 1000, NULL),
    NUMBER(dry_allowed_length, COUNT, 0, HTH_API_LAST_N_MAX, NULL),
    NUMBER(dry_last_n, WINDOW, -1, HTH_API_LAST_N_MAX, NULL),
    NUMBER(xtc_probability, REAL, 0, 1, NULL),
    NUMBER(xtc_threshold, REAL, 0, 1, NULL),
#undef NUMBER
};

enum { N_NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

static double *number_of(hth_api_defaults *defaults, size_t offset)
{
    return (double *)(void *)((char *)defaults + offset);
}

static double number_at(const hth_api_defaults *defaults, size_t offset)
{
    return *(const double *)(const void *)((const char *)defaults + offset);
}

hth_api_defaults hth_api_defaults_none(void)
{
    hth_api_defaults none = { .n_predict = NAN, .seed = NAN };

    for (size_t i = 0; i < N_NUMBERS; i++)
        *number_of(&none, numbers[i].from) = NAN;
    return none;
}

static void add_number(double *to, double more)
{
    if (isnan(*to))
        *to = more;
}

void hth_api_defaults_add(hth_api_defaults *to, const hth_api_defaults *more)
{
    for (size_t i = 0; i < N_NUMBERS; i++)
        add_number(number_of(to, numbers[i].from), number_at(more, numbers[i].from));
    add_number(&to->n_predict, more->n_predict);
    add_number(&to->seed, more->seed);
    if (to->n_stop == 0) {
        memcpy((void *)to->stop, (const void *)more->stop, sizeof(to->stop));
        to->n_stop = more->n_stop;
    }
    if (!to->system)
        to->system = more->system;
    if (!to->template_values)
        to->template_values = more->template_values;
    if (to->reasoning == HTH_API_REASONING_AUTO)
        to->reasoning = more->reasoning;
}

/* ---- recommendations ---- */

/* Take a number that somebody else wrote, if it is one that may be. */
static void take(hth_api_defaults *to, size_t offset, double value)
{
    for (size_t i = 0; i < N_NUMBERS; i++) {
        const struct number *row = &numbers[i];

        if (row->from != offset)
            continue;
        if (row->kind == SIGNED && value == -1)
            value = 0; /* all of them, as some write it */
        if (value >= row->low && value <= row->high && (row->kind == REAL || value == floor(value)))
            *number_of(to, offset) = value;
    }
}

hth_api_defaults hth_api_defaults_of_model(const hth_sampling_advice *advice)
{
    hth_api_defaults defaults = hth_api_defaults_none();

#define TAKE(field) take(&defaults, offsetof(hth_api_defaults, field), (double)advice->field)
    TAKE(temperature);
    TAKE(top_k);
    TAKE(top_p);
    TAKE(min_p);
    TAKE(repeat_penalty);
    TAKE(repeat_last_n);
    TAKE(xtc_probability);
    TAKE(xtc_threshold);
#undef TAKE
    return defaults;
}

hth_api_defaults hth_api_defaults_of_config(const char *text, size_t n_bytes)
{
    hth_api_defaults defaults = hth_api_defaults_none();
    json_t *object = json_loadb(text, n_bytes, 0, NULL);

    for (size_t i = 0; i < N_NUMBERS; i++) {
        const json_t *value = numbers[i].config ? json_object_get(object, numbers[i].config) : NULL;

        if (json_is_number(value))
            take(&defaults, numbers[i].from, json_number_value(value));
    }
    json_decref(object);
    return defaults;
}

/* ---- into a request ---- */

static void put(const struct number *row, double value, hearth_sampling *out)
{
    void *to = (char *)out + row->to;

    switch (row->kind) {
    case REAL: *(float *)to = (float)value; break;
    case SIGNED: *(int32_t *)to = (int32_t)value; break;
    case COUNT: *(uint32_t *)to = (uint32_t)value; break;
    case WINDOW: *(uint32_t *)to = value < 0 ? HTH_API_WHOLE_CONTEXT : (uint32_t)value; break;
    }
}

void hth_api_defaults_fill(const hth_api_defaults *defaults, hearth_request *out, hearth_sampling *sampling)
{
    for (size_t i = 0; i < N_NUMBERS; i++) {
        const double value = number_at(defaults, numbers[i].from);

        if (!isnan(value))
            put(&numbers[i], value, sampling);
    }
    if (!isnan(defaults->n_predict))
        out->n_predict = defaults->n_predict > 0 ? (int32_t)defaults->n_predict : -1;
    if (!isnan(defaults->seed))
        sampling->seed = (uint64_t)defaults->seed;
    if (defaults->n_stop > 0) {
        out->stop = defaults->stop;
        out->n_stop = defaults->n_stop;
    }
}

/* ---- variables of templates ---- */

const char *hth_api_template_value_reserved(const json_t *values)
{
    static const char *const reserved[] = { "messages", "tools", "bos_token", "eos_token", "add_generation_prompt" };

    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (json_object_get(values, reserved[i]))
            return reserved[i];
    return NULL;
}

bool hth_api_template_values_check(const char *text, hearth_error *err)
{
    json_error_t problem;
    json_t *values = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    const char *reserved = hth_api_template_value_reserved(values);
    hearth_status status = HEARTH_OK;

    if (!json_is_object(values))
        status = hth_fail(err, HEARTH_MISUSE, "'%.100s' is no JSON object", text);
    else if (reserved)
        status = hth_fail(err, HEARTH_MISUSE, "'%s' is given to the template by the server itself", reserved);
    json_decref(values);
    return status == HEARTH_OK;
}
