/*
 * native_settings.h - the settings of a request, by llama.cpp's names
 */
#ifndef HTH_API_NATIVE_SETTINGS_H
#define HTH_API_NATIVE_SETTINGS_H

#include "api/request.h"

/* A new array; texts that are not UTF-8 are left out. */
json_t *hth_api_texts_json(const char *const *texts, size_t n);
/* A new object; NULL without memory. asked is the client's request; NULL: the settings are those of no client. */
json_t *hth_api_native_settings(const hearth_request *request, const hth_api_request *asked);

#endif
