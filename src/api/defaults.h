/*
 * defaults.h - values of a request that its client does not give
 *
 * For each value the first of these decides: the operator's (a model's section before that of all models), the model
 * file's, generation_config.json's, the library's (hearth_request_default, hearth_sampling_default).
 * hth_api_defaults_add merges the first three; hth_api_defaults_fill puts them over the last. The parser of each API
 * begins with the outcome, so a client's own value always wins (of template variables, member by member).
 */
#ifndef HTH_API_DEFAULTS_H
#define HTH_API_DEFAULTS_H

#include <jansson.h>

#include "api/sampler_names.h"
#include "sampling/numbers.h"
#include "engine/backend.h"

enum {
    HTH_API_DEFAULT_STOPS_MAX = 16,
    HTH_API_DEFAULT_SYSTEM_BYTES_MAX = 64 << 10,
    HTH_API_DEFAULT_VALUES_BYTES_MAX = 16 << 10,
};

/* Does the model reason before it answers, where the template lets the server choose? */
typedef enum hth_api_reasoning {
    HTH_API_REASONING_AUTO, /* the API's own default: yes in OpenAI's, on request in Anthropic's */
    HTH_API_REASONING_ON,
    HTH_API_REASONING_OFF,
} hth_api_reasoning;

/*
 * Plain values. Memory behind pointers belongs to the caller. Missing: NAN, NULL, n_stop 0, has_samplers false,
 * HTH_API_REASONING_AUTO.
 */
typedef struct hth_api_defaults {
    hth_sampling_values sampling;
    bool has_samplers; /* the order of the chain is given */
    hearth_sampler samplers[HTH_SAMPLERS_MAX];
    size_t n_samplers;
    double n_predict; /* limit of tokens; 0 or -1: only the context limits it */
    double seed;
    double priority;
    double thinking_budget;       /* most tokens of reasoning; -1: no bound */
    const char *thinking_message; /* before the end that the bound forces; NULL: none */

    const char *stop[HTH_API_DEFAULT_STOPS_MAX]; /* texts that end a reply */
    size_t n_stop;
    const char *system;          /* the system message of conversations without one; NULL: none */
    const char *template_values; /* a JSON object of variables for the template; NULL: none */
    hth_api_reasoning reasoning;
} hth_api_defaults;

hth_api_defaults hth_api_defaults_none(void);

/* Fill the missing values of *to from *more. Pointers are shared, not copied. */
void hth_api_defaults_add(hth_api_defaults *to, const hth_api_defaults *more);

/* The recommendations in a model's file. Values out of range are left out. */
hth_api_defaults hth_api_defaults_of_model(const hth_sampling_advice *advice);
/*
 * The recommendations in a generation_config.json. Unknown members and text that is no JSON object recommend nothing.
 */
hth_api_defaults hth_api_defaults_of_config(const char *text, size_t n_bytes);

/*
 * Overwrite the values of *out and *sampling with those that defaults has, except system prompt, reasoning and template
 * values. out->stop is then the array in *defaults, which must outlive *out and stay in place.
 */
void hth_api_defaults_fill(const hth_api_defaults *defaults, hearth_request *out, hearth_sampling *sampling);

/* Is text a JSON object of variables for a template? False, with a message: it is none, or has a reserved name. */
bool hth_api_template_values_check(const char *text, hearth_error *err);
/* The first name in values that the server itself sets; NULL: there is none. */
const char *hth_api_template_value_reserved(const json_t *values);

#endif
