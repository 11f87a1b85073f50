/*
 * chat_templates.h - chat templates by name, for models whose file has none, or the wrong one
 *
 * Small ones, in Jinja: how each family of models marks who speaks. They know no tools and no reasoning.
 */
#ifndef HTH_MODELS_CHAT_TEMPLATES_H
#define HTH_MODELS_CHAT_TEMPLATES_H

#include <stdbool.h>
#include <stddef.h>

enum { HTH_CHAT_TEMPLATE_STOPS_MAX = 2 };

typedef struct hth_chat_template {
    const char *name;
    const char *source;
    /* Texts that end a reply, since a model that has no such token writes them; NULL: no more. */
    const char *stop[HTH_CHAT_TEMPLATE_STOPS_MAX];
} hth_chat_template;

/* The one for models that have none. */
#define HTH_CHAT_TEMPLATE_FALLBACK "chatml"

/* NULL: there is none of that name. */
const hth_chat_template *hth_chat_template_named(const char *name);
bool hth_chat_template_is_name(const char *name);

#endif
