/*
 * ollama_text.c - see ollama_text.h
 */
#include "dialects/ollama_text.h"

#include <time.h>

json_t *hth_api_ollama_time(json_int_t unix_s)
{
    time_t seconds = (time_t)unix_s;
    struct tm parts;
    char text[64];

    if (!gmtime_r(&seconds, &parts) || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        return json_string("1970-01-01T00:00:00Z"); /* the year does not fit */
    return json_string(text);
}

json_t *hth_api_ollama_duration(double ms)
{
    return json_integer(ms > 1e-6 ? (json_int_t)(ms * 1e6) : 1);
}
