/*
 * default_options.h - options for values of requests that their clients do not give
 *
 * Rows in an hth_api_defaults, for rows of the kind HTH_OPTION_TABLE: the flags of `hearth serve` and `hearth worker`,
 * and the section `defaults` of a configuration file. An option that is not given has no value, so that the model's
 * recommendation counts.
 */
#ifndef HTH_OPTIONS_DEFAULT_OPTIONS_H
#define HTH_OPTIONS_DEFAULT_OPTIONS_H

#include "api/defaults.h"
#include "options/option_table.h"

extern const hth_option_table hth_default_options;

/* The rows of the numbers that choose tokens alone, likewise in an hth_api_defaults. */
extern const hth_option_table hth_sampling_options;
/* Rows of `reasoning` and `chat_template_kwargs` alone, likewise in an hth_api_defaults. */
extern const hth_option_table hth_thinking_options;

/* The recommendations in the generation_config.json beside a model's file; none when it cannot be read. */
hth_api_defaults hth_default_options_beside(const char *model_path);

#endif
