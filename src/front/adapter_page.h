/*
 * adapter_page.h - the page about the adapters of a model, as operators see it
 */
#ifndef HTH_FRONT_ADAPTER_PAGE_H
#define HTH_FRONT_ADAPTER_PAGE_H

#include "wire/adapter_state.h"

/*
 * The page, a new object; NULL without memory. directory: the folder of adapters; NULL: none. state: those that were
 * loaded while the server runs; NULL: none were. list: the worker's (worker_live_adapters.h); NULL: there is no worker.
 * An adapter of the state that the worker does not have is shown with "loaded": false and the reason.
 */
json_t *hth_adapter_page(const char *model, const char *directory, const hth_adapter_state *state, const json_t *list);

#endif
