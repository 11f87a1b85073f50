/*
 * serve_print.c - prints a set of options as a configuration file, and all keys as a table
 *
 * The printed file gives the same set when it is read again. It has every possible value, including defaults, so that a
 * later version with other defaults behaves the same. A key without a value is a comment. The section of a model has
 * only the values of the cache that differ from those for all models.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "options/default_options.h"
#include "options/serve_config.h"

enum { COMMENT_WIDTH = 118, INDENT = 2 };

typedef struct printer {
    FILE *out;
    char *value; /* [HTH_SERVE_VALUE_BYTES] */
    char *other; /* likewise */
    bool has_comments;
} printer;

/* ---- pieces ---- */

static void print_comment(const printer *p, int indent, const char *text)
{
    const size_t width = (size_t)(COMMENT_WIDTH - indent - 2);

    while (p->has_comments && *text) {
        size_t n = strlen(text);

        if (n > width) {
            n = width;
            while (n > 1 && text[n] != ' ')
                n--;
        }
        (void)fprintf(p->out, "%*s# %.*s\n", indent, "", (int)n, text);
        text += n;
        text += strspn(text, " ");
    }
}

/* Print numbers and words unquoted, and texts in quotes. */
static void print_value(const printer *p, const hth_option *row, const char *value)
{
    const bool is_text = row->kind == HTH_OPTION_TEXT || row->kind == HTH_OPTION_TEXTS ||
                         row->kind == HTH_OPTION_WORD || row->kind == HTH_OPTION_OWN;
    const bool is_number = value[0] && strspn(value, "0123456789") == strlen(value);

    if (is_text && !(is_number && row->kind == HTH_OPTION_OWN))
        hth_config_quote(value, p->out);
    else
        (void)fputs(value, p->out);
}

static bool has_value(const printer *p, const hth_option *row, const void *options)
{
    return hth_option_has_value(row, options) && hth_option_write(row, options, 0, p->value, HTH_SERVE_VALUE_BYTES);
}

/* ---- rows ---- */

static void print_list(const printer *p, const hth_option *row, const void *options)
{
    (void)fputc('[', p->out);
    for (size_t i = 0; hth_option_write(row, options, i, p->value, HTH_SERVE_VALUE_BYTES); i++) {
        (void)fputs(i > 0 ? ", " : "", p->out);
        print_value(p, row, p->value);
    }
    (void)fputc(']', p->out);
}

/* Print "min_tokens=64" as min_tokens = 64. */
static void print_pairs(const printer *p, const hth_option *row, const void *options, int indent)
{
    (void)fprintf(p->out, "%*s%s {\n", indent, "", row->key);
    for (size_t i = 0; hth_option_write(row, options, i, p->value, HTH_SERVE_VALUE_BYTES); i++) {
        const char *equals = strchr(p->value, '=');

        (void)fprintf(p->out, "%*s%.*s = %s;\n", indent + INDENT, "", (int)(equals - p->value), p->value, equals + 1);
    }
    (void)fprintf(p->out, "%*s}\n", indent, "");
}

static void print_row(const printer *p, const hth_option *row, const void *options, int indent)
{
    print_comment(p, indent, row->help);
    if (row->is_pairs) {
        print_pairs(p, row, options, indent);
    } else if (row->repeats) {
        (void)fprintf(p->out, "%*s%s = ", indent, "", row->key);
        print_list(p, row, options);
        (void)fputs(";\n", p->out);
    } else if (has_value(p, row, options)) {
        (void)fprintf(p->out, "%*s%s = ", indent, "", row->key);
        print_value(p, row, p->value);
        (void)fputs(";\n", p->out);
    } else if (p->has_comments) {
        (void)fprintf(p->out, "%*s# %s = %s;\n", indent, "", row->key, row->value);
    }
}

/* Do two sets of options have the same values of this row? */
static bool is_same(const printer *p, const hth_option *row, const void *a, const void *b)
{
    for (size_t i = 0;; i++) {
        const bool has_a = hth_option_write(row, a, i, p->value, HTH_SERVE_VALUE_BYTES);
        const bool has_b = hth_option_write(row, b, i, p->other, HTH_SERVE_VALUE_BYTES);

        if (has_a != has_b || (has_a && strcmp(p->value, p->other) != 0))
            return false;
        if (!has_a)
            return true;
    }
}

static void print_table(const printer *p, const hth_option_table *table, const void *options, int indent)
{
    hth_flat_table flat;

    hth_option_table_flatten(table, false, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;
        const void *place = (const char *)options + flat.rows[i].offset;

        if (!row->key)
            continue;
        if (row->kind != HTH_OPTION_TABLE) {
            print_row(p, row, place, indent);
            continue;
        }
        (void)fputc('\n', p->out);
        print_comment(p, indent, row->help);
        (void)fprintf(p->out, "%*s%s {\n", indent, "", row->key);
        print_table(p, row->table, (const char *)place + row->offset, indent + INDENT);
        (void)fprintf(p->out, "%*s}\n", indent, "");
    }
}

/* ---- models ---- */

/* Print the values of a model that differ from those of all models. The cache's memory is a key of the model itself. */
static void print_model_section(const printer *p, const char *name, const hth_option_table *table, const void *own,
                                const void *of_all)
{
    const printer plain = { .out = p->out, .value = p->value, .other = p->other };
    bool has_begun = false;
    hth_flat_table flat; /* all rows are in one struct */

    hth_option_table_flatten(table, true, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;

        if (strcmp(row->key, "ram") == 0 || is_same(p, row, own, of_all))
            continue;
        if (!has_begun)
            (void)fprintf(p->out, "%*s%s {\n", INDENT, "", name);
        has_begun = true;
        print_row(&plain, row, own, 2 * INDENT);
    }
    if (has_begun)
        (void)fprintf(p->out, "%*s}\n", INDENT, "");
}

static void print_model(const printer *p, const hth_serve_model *model, const hth_serve_options *effective)
{
    hth_flat_table flat;

    (void)fputs("\nmodel ", p->out);
    hth_config_quote(model->name, p->out);
    (void)fputs(" {\n", p->out);
    hth_option_table_flatten(&hth_serve_model_keys, false, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;

        if (row->key && row->kind != HTH_OPTION_TABLE)
            print_row(p, row, (const char *)model + flat.rows[i].offset, INDENT);
    }
    print_model_section(p, "defaults", &hth_default_options, &model->setup.defaults,
                        &effective->defaults.setup.defaults);
    print_model_section(p, "cache", &hth_model_cache_options, &model->setup, &effective->defaults.setup);
    (void)fputs("}\n", p->out);
}

bool hth_serve_config_print(const hth_serve_set *set, FILE *out)
{
    printer p = {
        .out = out, .value = malloc(HTH_SERVE_VALUE_BYTES), .other = malloc(HTH_SERVE_VALUE_BYTES), .has_comments = true
    };
    const bool has_memory = p.value && p.other;

    if (has_memory) {
        (void)fputs("# The configuration that is in effect. 'hearth serve --config FILE' reads it.\n\n", out);
        print_table(&p, &hth_serve_keys, &set->effective, 0);
        for (size_t i = 0; i < set->options.n_models; i++) {
            print_model(&p, &set->models[i], &set->effective);
            p.has_comments = false; /* comments are printed once */
        }
    }
    free(p.value);
    free(p.other);
    return has_memory && fflush(out) == 0 && !ferror(out);
}

/* ---- the table of all keys ---- */

typedef struct key_visit {
    printer printer;
    hth_serve_key_fn visit;
    void *user_data;
} key_visit;

static void visit_key(const key_visit *v, const char *section, const hth_option *row, const void *defaults)
{
    const bool has_default =
        row->kind != HTH_OPTION_TABLE && !row->is_pairs && !row->repeats && has_value(&v->printer, row, defaults);
    const hth_serve_key key = { section, row, has_default ? v->printer.value : NULL };

    v->visit(&key, v->user_data);
}

static void visit_keys(const key_visit *v, const char *section, const hth_option_table *table, const void *defaults)
{
    hth_flat_table flat;

    hth_option_table_flatten(table, false, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;
        const void *place = (const char *)defaults + flat.rows[i].offset;
        const bool is_shared = row->table == &hth_model_cache_options || row->table == &hth_default_options;
        char inside[128];

        if (!row->key)
            continue;
        if (row->kind != HTH_OPTION_TABLE || (is_shared && *section)) {
            visit_key(v, section, row, place);
            continue;
        }
        (void)snprintf(inside, sizeof(inside), "%.60s%.60s.", section, row->key); /* sized for it */
        visit_keys(v, inside, row->table, (const char *)place + row->offset);
    }
}

bool hth_serve_keys_visit(hth_serve_key_fn visit, void *user_data)
{
    key_visit v = { { .value = malloc(HTH_SERVE_VALUE_BYTES) }, visit, user_data };
    hth_serve_options *defaults = malloc(sizeof(*defaults));
    const bool has_memory = v.printer.value && defaults;

    if (has_memory) {
        hth_serve_options_init(defaults);
        visit_keys(&v, "", &hth_serve_keys, defaults);
        visit_keys(&v, "model.", &hth_serve_model_keys, &defaults->defaults);
    }
    free(v.printer.value);
    free(defaults);
    return has_memory;
}

static void print_key(const hth_serve_key *key, void *user_data)
{
    const hth_option *row = key->option;
    const bool is_model = row->name && strcmp(row->name, "model") == 0;
    FILE *out = user_data;

    if (row->kind == HTH_OPTION_TABLE) {
        (void)fprintf(out,
                      "| `%s%s` | | | a section with the keys of `%s`; what it has wins over `%s` for this model |\n",
                      key->section, row->key, row->key, row->key);
        return;
    }
    (void)fprintf(out, "| `%s%s` | `%s%s%s%s` | ", key->section, row->key, is_model ? "-m" : "--",
                  is_model ? "" : row->name, row->value ? " " : "", row->value ? row->value : "");
    if (key->value)
        (void)fprintf(out, "`%s` ", key->value);
    (void)fprintf(out, "| %s |\n", row->help);
}

void hth_serve_keys_print(FILE *out)
{
    (void)fputs("| Key | Flag | Default | What it is |\n| --- | --- | --- | --- |\n", out);
    (void)hth_serve_keys_visit(print_key, out); /* without memory, the table is empty */
}
