/*
 * native_settings.h - the settings of a request, by llama.cpp's names
 */
#ifndef HTH_API_NATIVE_SETTINGS_H
#define HTH_API_NATIVE_SETTINGS_H

#include "api/request.h"

/* A new array; texts that are not UTF-8 are left out. */
json_t *hth_api_texts_json(const char *const *texts, size_t n);
/* Those of the settings that hold no text and no token of the client, otherwise as the next one. */
json_t *hth_api_native_numbers(const hearth_request *request, const hth_api_request *asked);
/* A new object; NULL without memory. asked is the client's request; NULL: the settings are those of no client. */
json_t *hth_api_native_settings(const hearth_request *request, const hth_api_request *asked);

#endif
