/*
 * config_presets.c - see config_presets.h
 */
#include "options/config_presets.h"

#include <string.h>

void hth_config_presets_check(hth_config_presets *presets, const hth_config_reader *reader, void *options)
{
    const hth_config_scope scope = { .prefix = "", .where = "of a preset" };
    const size_t n_before = reader->problems->n_errors;

    for (size_t i = 0; i < presets->n; i++) {
        const hth_config_node *preset = presets->sections[i];

        hth_config_read(reader, preset, presets->table, options, &scope);
        for (size_t j = 0; j < i; j++)
            if (strcmp(preset->key, presets->sections[j]->key) == 0)
                hth_config_say(reader, preset->key_line, "there is a preset '%.64s' already, in line %u", preset->key,
                               presets->sections[j]->key_line);
    }
    presets->is_wrong = reader->problems->n_errors > n_before;
}

/* The destination of a section's presets. */
typedef struct destination {
    const hth_config_presets *presets;
    void *options;
} destination;

static void read_preset(const destination *to, const hth_config_reader *reader, const hth_config_node *name)
{
    const hth_config_scope scope = { .prefix = "", .where = "of a preset" };
    hth_config_reader of_presets = *reader;

    of_presets.directory = to->presets->directory;
    if (name->kind != HTH_CONFIG_QUOTED && name->kind != HTH_CONFIG_PLAIN) {
        hth_config_say(reader, name->line, "'preset' has the name of a preset, or a list of names");
        return;
    }
    for (size_t i = 0; i < to->presets->n; i++)
        if (strcmp(to->presets->sections[i]->key, name->text) == 0) {
            if (!to->presets->is_wrong) /* otherwise each model would repeat the same errors */
                hth_config_read(&of_presets, to->presets->sections[i], to->presets->table, to->options, &scope);
            return;
        }
    hth_config_say(reader, name->line, "there is no preset '%.64s' in %s; add preset \"%.64s\" { ... }", name->text,
                   reader->name ? "this file" : "the configuration file", name->text);
}

static void read_presets(const hth_config_reader *reader, const hth_config_node *node, void *user_data)
{
    if (node->kind != HTH_CONFIG_LIST)
        read_preset(user_data, reader, node);
    for (const hth_config_node *name = node->kind == HTH_CONFIG_LIST ? node->first : NULL; name; name = name->next)
        read_preset(user_data, reader, name);
}

static void pass_over(const hth_config_reader *reader, const hth_config_node *node, void *user_data)
{
    (void)reader, (void)node, (void)user_data;
}

void hth_config_presets_read(const hth_config_presets *presets, const hth_config_reader *reader,
                             const hth_config_node *section, const char *where, void *options)
{
    const hth_config_scope scope = { .prefix = "", .where = where, .own_keys = { "preset" }, .read_own = pass_over };
    destination to = { presets, options };

    /* Presets are read first, wherever the section names them. */
    for (const hth_config_node *node = section->first; node; node = node->next)
        if (strcmp(node->key, "preset") == 0)
            read_presets(reader, node, &to);
    hth_config_read(reader, section, presets->table, options, &scope);
}
