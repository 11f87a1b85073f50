/*
 * config_presets.h - options that several sections of a configuration file share
 *
 *     preset "small" { context = 4096; type_k = q8_0 }
 *     model "chat" { path = "chat.gguf"; preset = "small" }
 *
 * A preset has any keys of a model. A model has those of its presets in the order in which it names them, a later one
 * over an earlier one, and its own keys over them all.
 */
#ifndef HTH_OPTIONS_CONFIG_PRESETS_H
#define HTH_OPTIONS_CONFIG_PRESETS_H

#include "options/config_reader.h"

enum { HTH_CONFIG_PRESETS_MAX = 256 };
typedef struct hth_config_presets {
    const hth_config_node *sections[HTH_CONFIG_PRESETS_MAX]; /* their keys are the names of the presets */
    size_t n;
    const char *directory;         /* their relative paths start from there */
    const hth_option_table *table; /* the keys that a preset may have */
    bool is_wrong;                 /* one of them has an error, which was told */
} hth_config_presets;

/* Tell the errors of all presets, also of those that nobody names. options are read into, for no use. */
void hth_config_presets_check(hth_config_presets *presets, const hth_config_reader *reader, void *options);

/*
 * Read the presets that a section names, and then the section, over options. where as in hth_config_scope. Errors go to
 * the reader's problems.
 */
void hth_config_presets_read(const hth_config_presets *presets, const hth_config_reader *reader,
                             const hth_config_node *section, const char *where, void *options);

#endif
