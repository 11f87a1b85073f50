/*
 * default_options.h - options for request values that clients do not send, and the recommendations beside a model
 *
 * Include a table in another with a row of kind HTH_OPTION_TABLE whose offset is that of an hth_api_defaults. An option
 * that is not set has no value, so that the model's recommendation applies.
 */
#ifndef HTH_OPTIONS_DEFAULT_OPTIONS_H
#define HTH_OPTIONS_DEFAULT_OPTIONS_H

#include "api/defaults.h"
#include "options/option_table.h"

extern const hth_option_table hth_default_options;  /* all of them */
extern const hth_option_table hth_sampling_options; /* only the sampling numbers */
extern const hth_option_table hth_thinking_options; /* only `reasoning`, its budget, and `chat_template_kwargs` */

/* The recommendations in the generation_config.json beside a model's file; none if it cannot be read. */
hth_api_defaults hth_default_options_beside(const char *model_path);

#endif
