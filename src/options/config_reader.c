/*
 * config_reader.c - finds the row of each key and reads the value through it
 *
 * Types are those of the file: numbers and words are plain, texts may be in quotes, and a text that looks like a
 * number, true or false must be in quotes. Sizes and times may be in quotes, because JSON cannot express their units
 * otherwise.
 */
#include "options/config_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/status.h"
#include "console/nearest.h"
#include "engine/backend.h"

enum { SHOWN_BYTES = 160, PAIR_BYTES = 256 };

/* A member of the file and the option that it sets. */
typedef struct member {
    const hth_config_reader *reader;
    const hth_option *option;
    void *options;
    char shown[SHOWN_BYTES];
} member;

/* Add an error for this line to the reader's problems. */
static void say(const hth_config_reader *reader, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(const hth_config_reader *reader, unsigned line, const char *format, ...)
{
    char message[480];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments); /* a long message is cut */
    va_end(arguments);
    if (reader->name)
        hth_problems_add(reader->problems, "%s:%u: %s", reader->name, line, message);
    else
        hth_problems_add(reader->problems, "%s", message);
}

/* ---- paths ---- */

const char *hth_config_directory(hth_pool *pool, const char *path)
{
    const char *slash = strrchr(path, '/');
    const int n = slash ? (int)(slash - path) + 1 : 0;
    char here[PATH_MAX];

    if (path[0] == '/')
        return hth_pool_text(pool, path, (size_t)n);
    if (!getcwd(here, sizeof(here)))
        return hth_pool_text(pool, path, (size_t)n); /* the relative path still works */
    while (strncmp(path, "./", 2) == 0 && n > 2)
        return hth_config_directory(pool, path + 2);
    return hth_pool_format(pool, "%s/%.*s", strcmp(here, "/") == 0 ? "" : here, n, path);
}

const char *hth_config_path(hth_pool *pool, const char *directory, const char *path)
{
    if (path[0] == '/' || !hth_model_path_is_file(NULL, path))
        return path;
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    return hth_pool_format(pool, "%s%s", directory, path);
}

const char *hth_config_named_path(hth_pool *pool, const char *directory, const char *text)
{
    size_t n = strcspn(text, "=/");
    const char *path = hth_config_path(pool, directory, text[n] == '=' ? text + n + 1 : text);

    return path && text[n] == '=' ? hth_pool_format(pool, "%.*s=%s", (int)n, text, path) : path;
}

/* ---- single values ---- */

/* Is it UCL's word for true (1) or false (0)? Otherwise -1. */
static int truth(const char *word)
{
    static const char *const words[] = { "false", "true", "no", "yes", "off", "on" };

    for (int i = 0; i < 6; i++)
        if (strcasecmp(word, words[i]) == 0)
            return i % 2;
    return -1;
}

/* Would UCL read a plain word as a type other than text? */
static bool is_no_text(const char *word)
{
    char *end;

    if (truth(word) >= 0 || strcasecmp(word, "null") == 0)
        return true;
    (void)strtod(word, &end); /* only its end matters */
    return end != word && *end == '\0';
}

static void wrong_type(const member *m, const hth_config_node *value, const char *expected)
{
    static const char *const kinds[] = { "a section", "a list", "a text", "" };

    if (value->kind == HTH_CONFIG_PLAIN)
        say(m->reader, value->line, "%s is '%s'; it must be %s", m->shown, value->text, expected);
    else
        say(m->reader, value->line, "%s is %s; it must be %s", m->shown, kinds[value->kind], expected);
}

static void read_text(const member *m, unsigned line, const char *text)
{
    hearth_error err;

    if (!hth_option_read(m->option, m->options, m->shown, text, &err))
        say(m->reader, line, "%s", err.message);
}

static void read_path(const member *m, const hth_config_node *value)
{
    const char *path = m->option->is_named ? hth_config_named_path(m->reader->pool, m->reader->directory, value->text)
                                           : hth_config_path(m->reader->pool, m->reader->directory, value->text);

    if (path)
        read_text(m, value->line, path);
    else
        say(m->reader, value->line, "%s is too long, or there is no memory for it", m->shown);
}

static void read_flag(const member *m, const hth_config_node *value)
{
    int on = value->kind == HTH_CONFIG_PLAIN ? truth(value->text) : -1;

    if (on < 0)
        wrong_type(m, value, "true or false");
    else
        hth_option_set_flag(m->option, m->options, on);
}

/* Read a number, size or time. Only values with a unit may be in quotes. */
static void read_number(const member *m, const hth_config_node *value)
{
    static const char *const stand_ins[] = { "{...}", "[...]", "\"...\"" };
    const hth_option_kind kind = m->option->kind;
    const bool may_quote = kind == HTH_OPTION_SIZE || kind == HTH_OPTION_MS;

    /* The row's reader refuses other types, because it knows the expected values. */
    if (value->kind == HTH_CONFIG_PLAIN || (value->kind == HTH_CONFIG_QUOTED && may_quote))
        read_text(m, value->line, value->text);
    else
        read_text(m, value->line, stand_ins[value->kind]);
}

static void read_single(const member *m, const hth_config_node *value)
{
    const bool is_single = value->kind == HTH_CONFIG_PLAIN || value->kind == HTH_CONFIG_QUOTED;
    const bool is_text = m->option->kind == HTH_OPTION_TEXT && !m->option->check;

    if (!is_single)
        wrong_type(m, value, m->option->is_path ? "a path" : is_text ? "a text" : "a single value");
    else if (is_text && value->kind == HTH_CONFIG_PLAIN && is_no_text(value->text))
        wrong_type(m, value, "a text; one that looks like a number, true, false or null belongs in quotes");
    else if (!*value->text)
        say(m->reader, value->line, "%s is empty; leave it out, or give it a value", m->shown);
    else if (m->option->is_path && !(m->option->is_word && m->option->is_word(value->text)))
        read_path(m, value);
    else
        read_text(m, value->line, value->text);
}

/* ---- values with several parts ---- */

static void read_list(const member *m, const hth_config_node *value)
{
    if (value->kind != HTH_CONFIG_LIST) {
        read_single(m, value);
        return;
    }
    for (const hth_config_node *element = value->first; element; element = element->next)
        read_single(m, element);
}

/* Read { min_tokens = 64 } as "min_tokens=64". */
static void read_pairs(const member *m, const hth_config_node *value)
{
    if (value->kind != HTH_CONFIG_SECTION) {
        wrong_type(m, value, "a section of keys with numbers");
        return;
    }
    for (const hth_config_node *pair = value->first; pair; pair = pair->next) {
        char text[PAIR_BYTES];
        member one = *m;

        (void)snprintf(one.shown, sizeof(one.shown), "%.70s.%.80s", m->shown, pair->key); /* cut */
        if (pair->kind != HTH_CONFIG_PLAIN)
            wrong_type(&one, pair, "a number");
        else if ((size_t)snprintf(text, sizeof(text), "%s=%s", pair->key, pair->text) >= sizeof(text))
            say(m->reader, pair->line, "%s is too long", one.shown);
        else
            read_text(&one, pair->line, text);
    }
}

static void read_section(const member *m, const hth_config_node *value)
{
    char prefix[SHOWN_BYTES], where[SHOWN_BYTES];
    hth_config_scope inside = { .prefix = prefix, .where = where };

    if (value->kind != HTH_CONFIG_SECTION) {
        wrong_type(m, value, "a section, in braces");
        return;
    }
    (void)snprintf(prefix, sizeof(prefix), "%.150s.", m->shown);
    (void)snprintf(where, sizeof(where), "of '%.150s'", m->shown);
    hth_config_read(m->reader, value, m->option->table, (char *)m->options + m->option->offset, &inside);
}

static void read_value(const member *m, const hth_config_node *value)
{
    const hth_option *option = m->option;

    if (option->is_pairs)
        read_pairs(m, value);
    else if (option->repeats)
        read_list(m, value);
    else if (option->kind == HTH_OPTION_TABLE)
        read_section(m, value);
    else if (option->kind == HTH_OPTION_FLAG)
        read_flag(m, value);
    else if (option->kind == HTH_OPTION_TEXT || option->kind == HTH_OPTION_WORD || option->kind == HTH_OPTION_OWN)
        read_single(m, value);
    else
        read_number(m, value);
}

/* ---- keys ---- */

static const hth_placed_option *find(const hth_flat_table *table, const char *key)
{
    for (size_t i = 0; i < table->n; i++)
        if (table->rows[i].option->key && strcmp(table->rows[i].option->key, key) == 0)
            return &table->rows[i];
    return NULL;
}

/* The section of the file that has this key; NULL: none. */
static const char *section_with(const hth_option_table *root, const char *key)
{
    hth_flat_table flat;

    if (!root)
        return NULL;
    hth_option_table_flatten(root, false, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;
        hth_flat_table inside;

        if (row->kind != HTH_OPTION_TABLE)
            continue;
        hth_option_table_flatten(row->table, false, &inside);
        if (find(&inside, key))
            return row->key;
    }
    return NULL;
}

static void say_unknown(const hth_config_reader *reader, const hth_config_node *node, const hth_flat_table *table,
                        const hth_config_scope *scope)
{
    const char *section = section_with(reader->root, node->key);
    hth_nearest nearest;

    hth_nearest_init(&nearest, node->key);
    for (size_t i = 0; i < table->n; i++)
        if (table->rows[i].option->key)
            hth_nearest_try(&nearest, table->rows[i].option->key);
    for (size_t i = 0; i < HTH_CONFIG_OWN_KEYS_MAX && scope->own_keys[i]; i++)
        hth_nearest_try(&nearest, scope->own_keys[i]);
    if (nearest.name)
        say(reader, node->key_line, "'%.64s' is no key %s; did you mean '%s'?", node->key, scope->where, nearest.name);
    else if (section)
        say(reader, node->key_line, "'%.64s' is no key %s; it belongs in the section '%s'", node->key, scope->where,
            section);
    else
        say(reader, node->key_line, "'%.64s' is no key %s; docs/operating.md and 'hearth serve --print-keys' list them",
            node->key, scope->where);
}

static bool is_own(const hth_config_scope *scope, const char *key)
{
    for (size_t i = 0; i < HTH_CONFIG_OWN_KEYS_MAX && scope->own_keys[i]; i++)
        if (strcmp(key, scope->own_keys[i]) == 0)
            return true;
    return false;
}

/* The line of an earlier member with this key; 0: none. */
static unsigned given_before(const hth_config_node *section, const hth_config_node *node)
{
    for (const hth_config_node *other = section->first; other != node; other = other->next)
        if (strcmp(other->key, node->key) == 0)
            return other->key_line;
    return 0;
}

void hth_config_read(const hth_config_reader *reader, const hth_config_node *section, const hth_option_table *table,
                     void *options, const hth_config_scope *scope)
{
    hth_flat_table flat;

    hth_option_table_flatten(table, false, &flat);
    for (const hth_config_node *node = section->first; node; node = node->next) {
        const hth_placed_option *row = find(&flat, node->key);
        member m = { .reader = reader };
        hearth_error err;
        unsigned before;

        if (reader->problems->n_errors > HTH_PROBLEMS_MAX)
            return; /* this is not a configuration */
        if (is_own(scope, node->key)) {
            scope->read_own(reader, node, scope->user_data);
            continue;
        }
        if (!row) {
            say_unknown(reader, node, &flat, scope);
            continue;
        }
        m.option = row->option;
        m.options = (char *)options + row->offset;
        (void)snprintf(m.shown, sizeof(m.shown), "%.80s%.70s", scope->prefix, node->key); /* cut */
        before = given_before(section, node);
        if (before == 0 && row->option->repeats)
            (void)hth_option_read(m.option, m.options, m.shown, NULL, &err); /* drop values from other sources */
        if (before > 0 && !row->option->repeats)
            say(reader, node->key_line, "'%s' was given before, in line %u", m.shown, before);
        else
            read_value(&m, node);
    }
}

/* ---- presets ---- */

void hth_config_presets_check(hth_config_presets *presets, const hth_config_reader *reader, void *options)
{
    const hth_config_scope scope = { .prefix = "", .where = "of a preset" };
    const size_t n_before = reader->problems->n_errors;

    for (size_t i = 0; i < presets->n; i++) {
        const hth_config_node *preset = presets->sections[i];

        hth_config_read(reader, preset, presets->table, options, &scope);
        for (size_t j = 0; j < i; j++)
            if (strcmp(preset->key, presets->sections[j]->key) == 0)
                say(reader, preset->key_line, "there is a preset '%.64s' already, in line %u", preset->key,
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
        say(reader, name->line, "'preset' has the name of a preset, or a list of names");
        return;
    }
    for (size_t i = 0; i < to->presets->n; i++)
        if (strcmp(to->presets->sections[i]->key, name->text) == 0) {
            if (!to->presets->is_wrong) /* otherwise each model would repeat the same errors */
                hth_config_read(&of_presets, to->presets->sections[i], to->presets->table, to->options, &scope);
            return;
        }
    say(reader, name->line, "there is no preset '%.64s' in %s; add preset \"%.64s\" { ... }", name->text,
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
