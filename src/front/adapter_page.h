/*
 * adapter_page.h - the page for operators about the adapters of a model
 */
#ifndef HTH_FRONT_ADAPTER_PAGE_H
#define HTH_FRONT_ADAPTER_PAGE_H

#include "wire/adapter_state.h"

/*
 * The page, a new object; NULL without memory. directory: the folder of adapters; NULL: none. state: the adapters that
 * were loaded at run time; NULL: none. list: the worker's list (worker_live_adapters.h); NULL: there is no worker. An
 * adapter in the state that the worker does not have appears with "loaded": false and the reason.
 */
json_t *hth_adapter_page(const char *model, const char *directory, const hth_adapter_state *state, const json_t *list);

#endif
