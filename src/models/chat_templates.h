/*
 * chat_templates.h - chat templates by name, for models whose file has none, or a wrong one
 *
 * Small Jinja templates. Each marks the roles as one family of models expects. They support neither tools nor
 * reasoning.
 */
#ifndef HTH_MODELS_CHAT_TEMPLATES_H
#define HTH_MODELS_CHAT_TEMPLATES_H

#include <stdbool.h>
#include <stddef.h>

enum { HTH_CHAT_TEMPLATE_STOPS_MAX = 2 };

typedef struct hth_chat_template {
    const char *name;
    const char *source;
    /* Texts that end a reply, for models without an end token; NULL: no more. */
    const char *stop[HTH_CHAT_TEMPLATE_STOPS_MAX];
} hth_chat_template;

/* For models whose file has no template. */
#define HTH_CHAT_TEMPLATE_FALLBACK "chatml"

/* A constant; NULL if no template has that name. Any thread. */
const hth_chat_template *hth_chat_template_named(const char *name);
/*
 * Is value a template name or the text of a template, which contains "{{" or "{%"? Otherwise it is the path of a file.
 */
bool hth_chat_template_is_given(const char *value);

/* The engine's built-in templates that are not replaced by ours. */
extern const hth_chat_template hth_engine_templates[];
extern const size_t hth_n_engine_templates;

#endif
