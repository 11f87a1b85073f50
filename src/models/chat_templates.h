/*
 * chat_templates.h - chat templates by name, for models whose file has none, or a wrong one
 *
 * Small Jinja templates. Each marks the roles as one family of models expects. They support neither tools nor
 * reasoning.
 */
#ifndef HTH_MODELS_CHAT_TEMPLATES_H
#define HTH_MODELS_CHAT_TEMPLATES_H

#include <stdbool.h>

#include "models/engine_templates.h"

/* For models whose file has no template. */
#define HTH_CHAT_TEMPLATE_FALLBACK "chatml"

/* A constant; NULL if no template has that name. Any thread. */
const hth_chat_template *hth_chat_template_named(const char *name);
/*
 * Is value a template name or the text of a template, which contains "{{" or "{%"? Otherwise it is the path of a file.
 */
bool hth_chat_template_is_given(const char *value);

#endif
