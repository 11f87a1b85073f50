/*
 * config_presets.h - options that several sections of a configuration file share
 *
 *     preset "small" { context = 4096; type_k = q8_0 }
 *     model "chat" { path = "chat.gguf"; preset = "small" }
 *
 * A preset may have any keys of a model. A model gets the keys of its presets in the order in which it names them. A
 * later preset overrides an earlier one, and the model's own keys override all presets.
 */
#ifndef HTH_OPTIONS_CONFIG_PRESETS_H
#define HTH_OPTIONS_CONFIG_PRESETS_H

#include "options/config_reader.h"

enum { HTH_CONFIG_PRESETS_MAX = 256 };
typedef struct hth_config_presets {
    const hth_config_node *sections[HTH_CONFIG_PRESETS_MAX]; /* their keys are the names of the presets */
    size_t n;
    const char *directory;         /* base of their relative paths */
    const hth_option_table *table; /* the keys that a preset may have */
    bool is_wrong;                 /* one of them has an error, which was reported */
} hth_config_presets;

/* Report the errors of all presets, including unused ones. options is scratch that they are read into. */
void hth_config_presets_check(hth_config_presets *presets, const hth_config_reader *reader, void *options);

/*
 * Read the presets that a section names, and then the section, over options. `where` is as in hth_config_scope. Errors
 * go to the reader's problems.
 */
void hth_config_presets_read(const hth_config_presets *presets, const hth_config_reader *reader,
                             const hth_config_node *section, const char *where, void *options);

#endif
