/*
 * defaults.h - default values for fields that a request omits
 *
 * Each value comes from the first of these sources that has it: the operator's configuration (a model's section before
 * the section for all models), the model file, generation_config.json, the library (hearth_request_default,
 * hearth_sampling_default). hth_api_defaults_add merges the first three; hth_api_defaults_fill applies the result on
 * top of the library's. The parser of each API starts from that, so a client's own value always wins (for template
 * variables, member by member).
 */
#ifndef HTH_API_DEFAULTS_H
#define HTH_API_DEFAULTS_H

#include <jansson.h>

#include "api/sampler_names.h"
#include "engine/backend.h"
#include "sampling/numbers.h"

enum {
    HTH_API_DEFAULT_STOPS_MAX = 16,
    HTH_API_DEFAULT_SYSTEM_BYTES_MAX = 64 << 10,
    HTH_API_DEFAULT_VALUES_BYTES_MAX = 16 << 10,
};

/* Whether the model reasons before it answers, if the template lets the server choose. */
typedef enum hth_api_reasoning {
    HTH_API_REASONING_AUTO, /* the API's own default: on in OpenAI's, on request in Anthropic's */
    HTH_API_REASONING_ON,
    HTH_API_REASONING_OFF,
} hth_api_reasoning;

/*
 * Plain values. The caller owns the memory behind the pointers. A missing value is NAN, NULL, n_stop 0, has_samplers
 * false or HTH_API_REASONING_AUTO.
 */
typedef struct hth_api_defaults {
    hth_sampling_values sampling;
    bool has_samplers; /* samplers gives the order of the chain */
    hearth_sampler samplers[HTH_SAMPLERS_MAX];
    size_t n_samplers;
    double n_predict; /* token limit; 0 or -1: only the context limits the reply */
    double seed;
    double priority;
    double thinking_budget;       /* maximum number of reasoning tokens; -1: no limit */
    const char *thinking_message; /* written before the end of reasoning that the budget forces; NULL: none */

    const char *stop[HTH_API_DEFAULT_STOPS_MAX]; /* texts that end a reply */
    size_t n_stop;
    const char *system;          /* the system message of conversations without one; NULL: none */
    const char *template_values; /* a JSON object of variables for the template; NULL: none */
    hth_api_reasoning reasoning;
} hth_api_defaults;

hth_api_defaults hth_api_defaults_none(void);

/* Fill the missing values of *to from *more. Pointers are shared, not copied. */
void hth_api_defaults_add(hth_api_defaults *to, const hth_api_defaults *more);

/* The recommendations in a model file. Values out of range are ignored. */
hth_api_defaults hth_api_defaults_of_model(const hth_sampling_advice *advice);
/*
 * The recommendations in a generation_config.json. Unknown members are ignored, and so is text that is not a JSON
 * object.
 */
hth_api_defaults hth_api_defaults_of_config(const char *text, size_t n_bytes);

/*
 * Overwrite the values of *out and *sampling with those that defaults has, except the system prompt, reasoning and
 * template values. out->stop then points to the array in *defaults, which must outlive *out and must not move.
 */
void hth_api_defaults_fill(const hth_api_defaults *defaults, hearth_request *out, hearth_sampling *sampling);

/* Is text a JSON object of template variables? False, with a message, if it is not or if it uses a reserved name. */
bool hth_api_template_values_check(const char *text, hearth_error *err);
/* The first name in values that is reserved for the server; NULL: none. */
const char *hth_api_template_value_reserved(const json_t *values);

#endif
