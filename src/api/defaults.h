/*
 * defaults.h - what a request means where its client says nothing
 *
 * A set of values, any of which may be missing. Three of them make one, the first that has a value deciding: what the
 * operator said of the model or of the server; what the model recommends (its file, then a generation_config.json beside
 * it); and what hearth_request_default() says, which docs/generation.md gives the reasons of. A request's parser begins
 * with the outcome, for every API alike, so what a client says always wins.
 */
#ifndef HTH_API_DEFAULTS_H
#define HTH_API_DEFAULTS_H

#include <jansson.h>

#include "engine/backend.h"

enum {
    HTH_API_DEFAULT_STOPS_MAX = 16,
    HTH_API_DEFAULT_SYSTEM_BYTES_MAX = 64 << 10,
    HTH_API_DEFAULT_VALUES_BYTES_MAX = 16 << 10,
};

/* Are conversations thought over, where the template lets the server choose? */
typedef enum hth_api_reasoning {
    HTH_API_REASONING_AUTO, /* as each API has it: OpenAI's does, Anthropic's does where it is asked to */
    HTH_API_REASONING_ON,
    HTH_API_REASONING_OFF,
} hth_api_reasoning;

/* Plain values; what is pointed to is the caller's. */
typedef struct hth_api_defaults {
    /* NAN: not given. Meanings and ranges as in hearth_sampling and hearth_request. */
    double temperature;
    double top_k;
    double top_p;
    double min_p;
    double typical_p;
    double repeat_penalty;
    double repeat_last_n; /* -1: as many as the context has, here and below */
    double frequency_penalty;
    double presence_penalty;
    double dry_multiplier;
    double dry_base;
    double dry_allowed_length;
    double dry_last_n;
    double xtc_probability;
    double xtc_threshold;
    double n_predict; /* at most so many tokens; 0 and -1: until the context is full */
    double seed;

    const char *stop[HTH_API_DEFAULT_STOPS_MAX]; /* texts that end a reply */
    size_t n_stop;
    const char *system;          /* for conversations that have no system message; NULL: none */
    const char *template_values; /* a JSON object of variables for the template; NULL: none */
    hth_api_reasoning reasoning;
} hth_api_defaults;

hth_api_defaults hth_api_defaults_none(void);

/* Give *to what more has and *to has not. */
void hth_api_defaults_add(hth_api_defaults *to, const hth_api_defaults *more);

/* What a model's file recommends. Values that are no such numbers are left out. */
hth_api_defaults hth_api_defaults_of_model(const hth_sampling_advice *advice);
/* What a generation_config.json says; what is no JSON object, or not known, says nothing. */
hth_api_defaults hth_api_defaults_of_config(const char *text, size_t n_bytes);

/*
 * Write all but system prompt, reasoning and template values into *out, which has the values of those that are missing;
 * what it points to afterwards is the defaults'.
 */
void hth_api_defaults_fill(const hth_api_defaults *defaults, hearth_request *out, hearth_sampling *sampling);

/* A JSON object of variables for a template, none of which is the server's to give? False with a message. */
bool hth_api_template_values_check(const char *text, hearth_error *err);
/* Of such an object, the first name that is the server's to give; NULL: none. */
const char *hth_api_template_value_reserved(const json_t *values);

#endif
