/*
 * default_options.h - options for request values that clients do not send
 *
 * Rows in an hth_api_defaults, for rows of the kind HTH_OPTION_TABLE: the flags of `hearth serve` and `hearth worker`,
 * and the section `defaults` of a configuration file. An option that is not set has no value, so that the model's
 * recommendation applies.
 */
#ifndef HTH_OPTIONS_DEFAULT_OPTIONS_H
#define HTH_OPTIONS_DEFAULT_OPTIONS_H

#include "api/defaults.h"
#include "options/option_table.h"

extern const hth_option_table hth_default_options;

/* Only the rows of the sampling numbers, likewise in an hth_api_defaults. */
extern const hth_option_table hth_sampling_options;
/* Only the rows of `reasoning` and `chat_template_kwargs`, likewise in an hth_api_defaults. */
extern const hth_option_table hth_thinking_options;

/* The recommendations in the generation_config.json beside a model's file; none if it cannot be read. */
hth_api_defaults hth_default_options_beside(const char *model_path);

#endif
