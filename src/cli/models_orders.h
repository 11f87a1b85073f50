/*
 * models_orders.h - the verbs of `hearth models` that send orders to a running server
 */
#ifndef HTH_CLI_MODELS_ORDERS_H
#define HTH_CLI_MODELS_ORDERS_H

#include "options/manual.h"

extern const hth_manual hth_models_forget_manual;
extern const hth_manual hth_models_load_manual;
extern const hth_manual hth_models_unload_manual;
extern const hth_manual hth_models_move_manual;
extern const hth_manual hth_models_release_manual;
extern const hth_manual hth_models_compact_manual;

/* argv[0] is the name of the verb. Returns an exit code. */
int hth_models_order(const hth_manual *verb, int argc, char **argv);

#endif
