/*
 * model_names.h - which model a name means
 *
 * A client names a model as it was written for: by our name, by an alias, by the name of a file or of a model that lies
 * elsewhere. What the name means is decided in this order, and the first that is found is the model:
 *
 *   1. a model's name, exactly
 *   2. an alias, exactly
 *   3. both once more for what is left of the name without folders ("org/model"), tag ("model:latest") and ".gguf"
 *   4. the name of an adapter of a model, exactly
 *   5. a pattern ("claude-*"), of several that fit the one with the most characters of its own
 *   6. the default model
 *
 * An adapter may have been loaded since the server started. Then no option has its name, and owner, a parameter below,
 * is the name of the model that has it; NULL: no model has.
 *
 * Names decide what a client gets and never what it may have: whether a key may use the model is asked of the model's
 * own name, and only the default is chosen among those that the key may use.
 */
#ifndef HTH_FRONT_MODEL_NAMES_H
#define HTH_FRONT_MODEL_NAMES_H

#include "supervisor/options.h"

/* hth_server_options.default_model: names that mean no model are refused. */
#define HTH_NO_DEFAULT_MODEL "none"

/* The model that a name means by 1 to 5, or by 1 to 4; NULL: none. Pure. */
const hth_server_model *hth_model_named(const hth_server_options *options, const char *name, const char *owner);
const hth_server_model *hth_model_called(const hth_server_options *options, const char *name, const char *owner);
/* Has the model an adapter of this name? Pure. */
bool hth_model_has_adapter(const hth_server_model *model, const char *name, const char *owner);

/*
 * The model for a client with this key (NULL: none is asked for) that named this one (NULL or "": none). NULL: there is
 * none; where the options have no default, only for want of a name. The key may not be allowed to use a model that was
 * named. Pure.
 */
const hth_server_model *hth_model_choose(const hth_server_options *options, const char *name, const char *owner,
                                         const hth_server_key *key);

/* Does a text fit a pattern, in which '*' stands for any text? Steps: the product of their lengths at most. Pure. */
bool hth_pattern_fits(const char *pattern, const char *text);

#endif
