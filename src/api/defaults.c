#include "api/defaults.h"

#include <math.h>
#include <string.h>

#include "api/parse.h"
#include "base/status.h"

static double *number_of(hth_api_defaults *defaults, size_t offset)
{
    return (double *)(void *)((char *)&defaults->sampling + offset);
}

static double number_at(const hth_api_defaults *defaults, size_t offset)
{
    return *(const double *)(const void *)((const char *)&defaults->sampling + offset);
}

hth_api_defaults hth_api_defaults_none(void)
{
    hth_api_defaults none = { .n_predict = NAN, .seed = NAN, .priority = NAN, .thinking_budget = NAN };

    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++)
        *number_of(&none, hth_sampling_numbers[i].in_values) = NAN;
    return none;
}

static void add_number(double *to, double more)
{
    if (isnan(*to))
        *to = more;
}

void hth_api_defaults_add(hth_api_defaults *to, const hth_api_defaults *more)
{
    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++)
        add_number(number_of(to, hth_sampling_numbers[i].in_values),
                   number_at(more, hth_sampling_numbers[i].in_values));
    add_number(&to->n_predict, more->n_predict);
    add_number(&to->seed, more->seed);
    add_number(&to->priority, more->priority);
    add_number(&to->thinking_budget, more->thinking_budget);
    if (!to->thinking_message)
        to->thinking_message = more->thinking_message;
    if (!to->has_samplers && more->has_samplers) {
        to->has_samplers = true;
        memcpy(to->samplers, more->samplers, sizeof(to->samplers));
        to->n_samplers = more->n_samplers;
    }
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

/* Accept a number from outside if it is in range. */
static void take(hth_api_defaults *to, size_t offset, double value)
{
    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++) {
        const hth_sampling_number *row = &hth_sampling_numbers[i];

        if (row->in_values != offset)
            continue;
        if (row->kind == HTH_NUMBER_SIGNED && value == -1)
            value = 0; /* some files write -1 for "all" */
        if (value >= row->low && value <= row->high && (hth_sampling_number_is_real(row) || value == floor(value)))
            *number_of(to, offset) = value;
    }
}

hth_api_defaults hth_api_defaults_of_model(const hth_sampling_advice *advice)
{
    hth_api_defaults defaults = hth_api_defaults_none();

#define TAKE(field, key) take(&defaults, offsetof(hth_sampling_values, field), (double)advice->field);
    HTH_SAMPLING_ADVICE_EACH(TAKE)
#undef TAKE
    return defaults;
}

hth_api_defaults hth_api_defaults_of_config(const char *text, size_t n_bytes)
{
    hth_api_defaults defaults = hth_api_defaults_none();
    json_t *object = json_loadb(text, n_bytes, 0, NULL);

    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++) {
        const hth_sampling_number *number = &hth_sampling_numbers[i];
        const json_t *value = *number->config ? json_object_get(object, number->config) : NULL;

        if (json_is_number(value))
            take(&defaults, number->in_values, json_number_value(value));
    }
    json_decref(object);
    return defaults;
}

/* ---- into a request ---- */

void hth_api_defaults_fill(const hth_api_defaults *defaults, hearth_request *out, hearth_sampling *sampling)
{
    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++) {
        const double value = number_at(defaults, hth_sampling_numbers[i].in_values);

        if (!isnan(value))
            hth_sampling_set(&hth_sampling_numbers[i], value, sampling);
    }
    if (defaults->has_samplers) {
        sampling->samplers = defaults->samplers;
        sampling->n_samplers = defaults->n_samplers;
    }
    if (!isnan(defaults->n_predict))
        out->n_predict = defaults->n_predict > 0 ? (int32_t)defaults->n_predict : -1;
    if (!isnan(defaults->thinking_budget))
        sampling->thinking_budget = (int32_t)defaults->thinking_budget;
    if (defaults->thinking_message)
        sampling->thinking_message = defaults->thinking_message;
    if (!isnan(defaults->priority))
        out->priority = (int32_t)defaults->priority;
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

/* ---- the defaults of the server in a request ---- */

/* The template variable "enable_thinking" means the same as reasoning; reasoning wins when both are set. */
static hth_api_reasoning reasoning_of(const hth_api_defaults *defaults)
{
    json_t *values = defaults->template_values && defaults->reasoning == HTH_API_REASONING_AUTO
                       ? json_loads(defaults->template_values, 0, NULL)
                       : NULL;
    const json_t *enable = json_object_get(values, "enable_thinking");
    hth_api_reasoning reasoning = json_is_true(enable)  ? HTH_API_REASONING_ON
                                : json_is_false(enable) ? HTH_API_REASONING_OFF
                                                        : defaults->reasoning;

    json_decref(values);
    return reasoning;
}

void hth_api_defaults_begin(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;

    if (!parse->defaults)
        return;
    hth_api_defaults_fill(parse->defaults, &request->options, &request->sampling);
    parse->reasoning = reasoning_of(parse->defaults);
    request->conversation.no_thinking = parse->reasoning == HTH_API_REASONING_OFF;
}

static bool has_system(const hearth_conversation *conversation)
{
    for (size_t i = 0; i < conversation->n_turns; i++)
        if (strcmp(conversation->turns[i].role, "system") == 0 || strcmp(conversation->turns[i].role, "developer") == 0)
            return true;
    return false;
}

static void add_system(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    hearth_chat_turn *turns = hth_api_allocate_structs(parse, conversation->n_turns + 1, sizeof(*turns));

    if (!turns)
        return;
    turns[0].role = "system";
    turns[0].content = parse->defaults->system;
    memcpy(turns + 1, conversation->turns, conversation->n_turns * sizeof(*turns));
    conversation->turns = turns;
    conversation->n_turns++;
}

/* Merge the variables; the client's win over the defaults'. */
static void merge_values(hth_api_parse *parse)
{
    hearth_conversation *conversation = &parse->request->conversation;
    json_t *values = json_loads(parse->defaults->template_values, 0, NULL);
    json_t *own = conversation->template_values ? json_loads(conversation->template_values, 0, NULL) : NULL;

    (void)json_object_del(values, "enable_thinking"); /* already applied as no_thinking; may be missing */
    if (!values || (own && json_object_update(values, own) != 0))
        hth_api_fail(parse->error, HTH_API_OVERLOADED, NULL, "no memory for the request");
    else if (json_object_size(values) > 0)
        conversation->template_values = hth_api_json_text(parse, values);
    json_decref(own);
    json_decref(values);
}

void hth_api_defaults_end(hth_api_parse *parse)
{
    if (!parse->defaults || !parse->request->is_chat)
        return;
    if (parse->defaults->system && parse->request->conversation.n_turns > 0 &&
        !has_system(&parse->request->conversation))
        add_system(parse);
    if (parse->defaults->template_values)
        merge_values(parse);
}
