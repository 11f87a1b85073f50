/*
 * model_names.h - which model a name means
 *
 * A client may name a model by its name here, by an alias, by a file name or by the model's name on another service.
 * The name is looked up in this order, and the first match is the model:
 *
 *   1. a model's name, exactly
 *   2. an alias, exactly
 *   3. both again, after removing folders ("org/model"), tag ("model:latest") and ".gguf"
 *   4. the name of an adapter of a model, exactly
 *   5. a pattern ("claude-*"); if several match, the one with the most literal characters
 *   6. the default model
 *
 * An adapter may have been loaded at run time. Then no option has its name, and the parameter owner below is the name
 * of the model that has it; NULL: none has.
 *
 * Names choose a model but grant no rights: the key is checked against the model's own name. Only the default is chosen
 * among the models that the key may use.
 */
#ifndef HTH_FRONT_MODEL_NAMES_H
#define HTH_FRONT_MODEL_NAMES_H

#include "supervisor/server_options.h"

/* hth_server_options.default_model: names that match no model are refused. */
#define HTH_NO_DEFAULT_MODEL "none"

/* The model whose own name this is; NULL: none. A pure function. */
const hth_server_model *hth_model_exactly(const hth_server_options *options, const char *name);
/* The model that a name matches by rules 1 to 5, or by rules 1 to 4; NULL: none. Pure functions. */
const hth_server_model *hth_model_named(const hth_server_options *options, const char *name, const char *owner);
const hth_server_model *hth_model_called(const hth_server_options *options, const char *name, const char *owner);
/* Does the model have an adapter of this name? A pure function. */
bool hth_model_has_adapter(const hth_server_model *model, const char *name, const char *owner);

/*
 * The model for a client with this key (NULL: no key is required) that sent this name (NULL or "": none). NULL: no
 * model matches, or no name was sent and the options have no default. The key may lack the right to use a named model.
 * A pure function.
 */
const hth_server_model *hth_model_choose(const hth_server_options *options, const char *name, const char *owner,
                                         const hth_server_key *key);

/*
 * Does a text match a pattern, in which '*' stands for any text? Takes at most the product of their lengths in steps.
 * Pure.
 */
bool hth_pattern_fits(const char *pattern, const char *text);

#endif
