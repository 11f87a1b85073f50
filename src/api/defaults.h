/*
 * defaults.h - values of a request that its client does not give
 *
 * Each value of a set may be missing. Three sets become one, and the first set that has a value decides: the operator's
 * set, for the model or for the server; the model's recommendations (its file, then a generation_config.json beside
 * it); and hearth_request_default(), whose values docs/generation.md explains. The parser of each API begins with the
 * outcome, so a client's own value always wins.
 */
#ifndef HTH_API_DEFAULTS_H
#define HTH_API_DEFAULTS_H

#include <jansson.h>

#include "api/sampler_names.h"
#include "api/sampling_numbers.h"
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

/* Plain values. Memory behind pointers belongs to the caller. */
typedef struct hth_api_defaults {
    hth_api_sampling_values sampling;
    bool has_samplers; /* the order of the chain is given */
    hearth_sampler samplers[HTH_API_SAMPLERS_MAX];
    size_t n_samplers;
    /* NAN: not given. */
    double n_predict; /* limit of tokens; 0 and -1: none but the size of the context */
    double seed;
    double thinking_budget;       /* most tokens of reasoning; -1: no bound */
    const char *thinking_message; /* before the end that the bound forces; NULL: none */

    const char *stop[HTH_API_DEFAULT_STOPS_MAX]; /* texts that end a reply */
    size_t n_stop;
    const char *system;          /* the system message of conversations without one; NULL: none */
    const char *template_values; /* a JSON object of variables for the template; NULL: none */
    hth_api_reasoning reasoning;
} hth_api_defaults;

hth_api_defaults hth_api_defaults_none(void);

/* Copy to *to each value that *to lacks and more has. */
void hth_api_defaults_add(hth_api_defaults *to, const hth_api_defaults *more);

/* The recommendations in a model's file. Values out of range are left out. */
hth_api_defaults hth_api_defaults_of_model(const hth_sampling_advice *advice);
/*
 * The recommendations in a generation_config.json. Unknown members and text that is no JSON object recommend nothing.
 */
hth_api_defaults hth_api_defaults_of_config(const char *text, size_t n_bytes);

/*
 * Overwrite the values of *out and *sampling with those that defaults has, except system prompt, reasoning and template
 * values. Pointers in *out then point into defaults.
 */
void hth_api_defaults_fill(const hth_api_defaults *defaults, hearth_request *out, hearth_sampling *sampling);

/*
 * Is text a JSON object of variables for a template, without names that the server itself sets? False with a message.
 */
bool hth_api_template_values_check(const char *text, hearth_error *err);
/* The first name in values that the server itself sets; NULL: there is none. */
const char *hth_api_template_value_reserved(const json_t *values);

#endif
