/*
 * models_add.h - `hearth models add`: one more model for a running server
 */
#ifndef HTH_CLI_MODELS_ADD_H
#define HTH_CLI_MODELS_ADD_H

#include "options/manual.h"

extern const hth_manual hth_models_add_manual;

/* argv[0] is the name of the verb. Returns an exit code. */
int hth_models_add(int argc, char **argv);

#endif
