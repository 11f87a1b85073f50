/*
 * native_settings.h - the settings of a request, under llama.cpp's names
 */
#ifndef HTH_API_NATIVE_SETTINGS_H
#define HTH_API_NATIVE_SETTINGS_H

#include "api/request.h"

/* A new array. Texts that are not UTF-8 are left out. */
json_t *hth_api_texts_json(const char *const *texts, size_t n);
/* Like hth_api_native_settings, but without settings that contain the client's text or tokens. */
json_t *hth_api_native_numbers(const hearth_request *request, const hth_api_request *asked);
/* A new object; NULL if out of memory. asked is the client's request; NULL: the settings do not come from a client. */
json_t *hth_api_native_settings(const hearth_request *request, const hth_api_request *asked);

#endif
