/*
 * chat_templates.h - chat templates by name, for models whose file has none or a wrong one
 *
 * Small Jinja templates: each marks the speakers as one family of models expects. They have no tools and no reasoning.
 */
#ifndef HTH_MODELS_CHAT_TEMPLATES_H
#define HTH_MODELS_CHAT_TEMPLATES_H

#include <stdbool.h>
#include <stddef.h>

enum { HTH_CHAT_TEMPLATE_STOPS_MAX = 2 };

typedef struct hth_chat_template {
    const char *name;
    const char *source;
    /* Texts that end a reply, because a model without an end token writes them; NULL: no more. */
    const char *stop[HTH_CHAT_TEMPLATE_STOPS_MAX];
} hth_chat_template;

/* For models whose file has no template. */
#define HTH_CHAT_TEMPLATE_FALLBACK "chatml"

/* A constant; NULL when no template has that name. Any thread. */
const hth_chat_template *hth_chat_template_named(const char *name);
bool hth_chat_template_is_name(const char *name);

#endif
