/*
 * engine_templates.h - the engine's built-in chat templates; hth_chat_template_named finds them
 */
#ifndef HTH_MODELS_ENGINE_TEMPLATES_H
#define HTH_MODELS_ENGINE_TEMPLATES_H

#include <stddef.h>

enum { HTH_CHAT_TEMPLATE_STOPS_MAX = 2 };

typedef struct hth_chat_template {
    const char *name;
    const char *source;
    /* Texts that end a reply, for models without an end token; NULL: no more. */
    const char *stop[HTH_CHAT_TEMPLATE_STOPS_MAX];
} hth_chat_template;

extern const hth_chat_template hth_engine_templates[];
extern const size_t hth_n_engine_templates;

#endif
