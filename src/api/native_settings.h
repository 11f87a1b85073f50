/*
 * native_settings.h - the sampling settings of a request, by llama.cpp's names
 */
#ifndef HTH_API_NATIVE_SETTINGS_H
#define HTH_API_NATIVE_SETTINGS_H

#include <jansson.h>

#include "hearth.h"

/* A new object; NULL without memory. */
json_t *hth_api_native_settings(const hearth_request *request);

#endif
