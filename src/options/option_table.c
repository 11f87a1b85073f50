/*
 * option_table.c - uses a table of options for getopt_long, for help, and to read single values
 */
#include "options/option_table.h"

#include <assert.h>
#include <ctype.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "console/nearest.h"
#include "console/wrap.h"
#include "options/values.h"

enum {
    NAME_MAX_BYTES = 256,
    HELP_COLUMN = 30,
    HELP_BYTES = 1024,
    FIRST_LONG = 1000, /* getopt's value of row i is FIRST_LONG + i */
};

bool hth_option_may_omit_value(const hth_option *option)
{
    return option->value && option->value[0] == '[' && option->value[strlen(option->value) - 1] == ']';
}

/* Read a number, or the name of one. */
static bool read_i32(const hth_option *option, int32_t *field, const char *shown, const char *value, hearth_error *err)
{
    for (int i = 0; value && option->words && option->words[i]; i++) {
        if (strcmp(value, option->words[i]) == 0) {
            *field = (int32_t)option->low + i;
            return true;
        }
    }
    return hth_value_i32(shown, value, (long long)option->low, (long long)option->high, field, err);
}

static int write_i32(const hth_option *option, int32_t number, char *text, size_t capacity)
{
    int n = 0;

    while (option->words && option->words[n])
        n++;
    if (number >= (int32_t)option->low && number < (int32_t)option->low + n)
        return snprintf(text, capacity, "%s", option->words[number - (int32_t)option->low]);
    return snprintf(text, capacity, "%d", number);
}

bool hth_option_read(const hth_option *option, void *options, const char *shown, const char *value, hearth_error *err)
{
    void *field = (char *)options + option->offset;

    if (option->check && value && !option->check(shown, value, err))
        return false;
    switch (option->kind) {
    case HTH_OPTION_HEADING:
    case HTH_OPTION_TABLE: return false;
    case HTH_OPTION_FLAG: *(bool *)field = true; return true;
    case HTH_OPTION_END: return true;
    case HTH_OPTION_TEXT: *(const char **)field = value; return true;
    case HTH_OPTION_TEXTS:
        return hth_value_add_text(field, (size_t *)((char *)options + option->n_offset), option->n_max, shown, value,
                                  err);
    case HTH_OPTION_WORD: return hth_value_word(shown, value, option->words, field, err);
    case HTH_OPTION_I32: return read_i32(option, field, shown, value, err);
    case HTH_OPTION_U32:
        return hth_value_u32(shown, value, (long long)option->low, (long long)option->high, field, err);
    case HTH_OPTION_NUMBER: return hth_value_number(shown, value, option->low, option->high, field, err);
    case HTH_OPTION_COUNT: {
        long long number;

        if (!hth_value_integer(shown, value, (long long)option->low, (long long)option->high, &number, err))
            return false;
        *(double *)field = (double)number;
        return true;
    }
    case HTH_OPTION_MS: return hth_value_ms(shown, value, (uint32_t)option->low, (uint32_t)option->high, field, err);
    case HTH_OPTION_SIZE: return hth_value_size(shown, value, (uint64_t)option->low, field, err);
    case HTH_OPTION_OWN: return option->read(options, shown, value, err);
    }
    return false;
}

/* Write a number with the largest unit that divides it. */
static int write_units(uint64_t number, uint64_t factor, const char *const *units, size_t n_units, char *text,
                       size_t capacity)
{
    size_t unit = 0;

    while (number > 0 && number % factor == 0 && unit + 1 < n_units) {
        number /= factor;
        unit++;
    }
    return snprintf(text, capacity, "%llu%s", (unsigned long long)number, units[unit]);
}

/* Write the shortest text that reads as the same number. */
static int write_number(double number, char *text, size_t capacity)
{
    int n = -1;

    for (int n_digits = 15; n_digits <= 17; n_digits++) {
        n = snprintf(text, capacity, "%.*g", n_digits, number);
        if (n < 0 || (size_t)n >= capacity || strtod(text, NULL) == number)
            break;
    }
    return n;
}

bool hth_option_write(const hth_option *option, const void *options, size_t i, char *text, size_t capacity)
{
    static const char *const size_units[] = { "", "kb", "mb", "gb", "tb" };
    static const char *const ms_units[] = { "", "s" };
    const void *field = (const char *)options + option->offset;
    int n = -1;

    if (option->kind == HTH_OPTION_OWN)
        return option->write && option->write(options, i, text, capacity);
    if (option->kind == HTH_OPTION_TEXTS) {
        if (i < *(const size_t *)((const char *)options + option->n_offset))
            n = snprintf(text, capacity, "%s", ((const char *const *)field)[i]);
        return n >= 0 && (size_t)n < capacity;
    }
    if (i > 0)
        return false;
    switch (option->kind) {
    case HTH_OPTION_WORD: n = snprintf(text, capacity, "%s", option->words[*(const int *)field]); break;
    case HTH_OPTION_FLAG: n = snprintf(text, capacity, "%s", *(const bool *)field ? "true" : "false"); break;
    case HTH_OPTION_TEXT:
        if (*(const char *const *)field)
            n = snprintf(text, capacity, "%s", *(const char *const *)field);
        break;
    case HTH_OPTION_I32: n = write_i32(option, *(const int32_t *)field, text, capacity); break;
    case HTH_OPTION_U32: n = snprintf(text, capacity, "%u", *(const uint32_t *)field); break;
    case HTH_OPTION_NUMBER:
    case HTH_OPTION_COUNT:
        if (!isnan(*(const double *)field))
            n = write_number(*(const double *)field, text, capacity);
        break;
    case HTH_OPTION_MS: n = write_units(*(const uint32_t *)field, 1000, ms_units, 2, text, capacity); break;
    case HTH_OPTION_SIZE: n = write_units(*(const uint64_t *)field, 1024, size_units, 5, text, capacity); break;
    default: break;
    }
    return n >= 0 && (size_t)n < capacity;
}

bool hth_option_has_value(const hth_option *option, const void *options)
{
    const void *field = (const char *)options + option->offset;

    switch (option->kind) {
    case HTH_OPTION_U32:
    case HTH_OPTION_MS: return *(const uint32_t *)field >= option->low && *(const uint32_t *)field <= option->high;
    case HTH_OPTION_I32: return *(const int32_t *)field >= option->low && *(const int32_t *)field <= option->high;
    case HTH_OPTION_SIZE: return (double)*(const uint64_t *)field >= option->low;
    case HTH_OPTION_NUMBER:
    case HTH_OPTION_COUNT: return !isnan(*(const double *)field);
    case HTH_OPTION_TEXT: return *(const char *const *)field;
    default: return true;
    }
}

void hth_option_set_flag(const hth_option *option, void *options, bool on)
{
    assert(option->kind == HTH_OPTION_FLAG);
    *(bool *)((char *)options + option->offset) = on;
}

const hth_option *hth_option_table_find(const hth_option_table *table, const char *key)
{
    for (size_t i = 0; i < table->n; i++)
        if (table->rows[i].key && strcmp(table->rows[i].key, key) == 0)
            return &table->rows[i];
    return NULL;
}

/* ---- tables within tables ---- */

static void flatten(const hth_option_table *table, size_t offset, bool sections, hth_flat_table *out)
{
    for (size_t i = 0; i < table->n; i++) {
        const hth_option *row = &table->rows[i];

        if (row->kind == HTH_OPTION_TABLE && (sections || !row->key)) {
            flatten(row->table, offset + row->offset, sections, out);
            continue;
        }
        assert(out->n < HTH_OPTIONS_MAX);
        out->rows[out->n++] = (hth_placed_option){ row, offset };
    }
}

void hth_option_table_flatten(const hth_option_table *table, bool sections, hth_flat_table *out)
{
    out->n = 0;
    flatten(table, 0, sections, out);
}

/* ---- the command line ---- */

static void make_getopt(const hth_flat_table *table, struct option *long_options, char *letters)
{
    size_t n_long = 0, n_letters = 0;

    letters[n_letters++] = ':'; /* distinguish a missing value from an unknown option */
    for (size_t i = 0; i < table->n; i++) {
        const hth_option *row = table->rows[i].option;
        int argument = !row->value                    ? no_argument
                     : hth_option_may_omit_value(row) ? optional_argument
                                                      : required_argument;

        if (row->kind == HTH_OPTION_HEADING)
            continue;
        long_options[n_long++] = (struct option){ row->name, argument, NULL, FIRST_LONG + (int)i };
        if (row->letter == 0)
            continue;
        letters[n_letters++] = (char)row->letter;
        if (argument == required_argument)
            letters[n_letters++] = ':';
    }
    long_options[n_long] = (struct option){ NULL, 0, NULL, 0 };
    letters[n_letters] = '\0';
}

static const hth_placed_option *row_of(const hth_flat_table *table, int option)
{
    if (option >= FIRST_LONG && (size_t)(option - FIRST_LONG) < table->n)
        return &table->rows[option - FIRST_LONG];
    for (size_t i = 0; i < table->n; i++)
        if (table->rows[i].option->letter != 0 && table->rows[i].option->letter == option)
            return &table->rows[i];
    return NULL;
}

/* getopt reads an optional value only after '='. Here a number in the next word is accepted, too. */
static const char *next_number(int argc, char **argv)
{
    if (optind >= argc || !isdigit((unsigned char)argv[optind][0]) ||
        argv[optind][strspn(argv[optind], "0123456789")] != '\0')
        return "";
    return argv[optind++];
}

/* Report that there is no option "--name", or that it is ambiguous, and print the options that it may mean. */
static void say_unknown(const hth_flat_table *table, const char *command, const char *given)
{
    size_t n = strcspn(given, "="), n_alike = 0;
    char name[NAME_MAX_BYTES];
    hth_nearest nearest;
    const char *alike[2] = { NULL, NULL };

    (void)snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : sizeof(name) - 1),
                   given); /* sized for it */
    hth_nearest_init(&nearest, name);
    for (size_t i = 0; i < table->n; i++) {
        const hth_option *row = table->rows[i].option;

        if (row->kind == HTH_OPTION_HEADING)
            continue;
        hth_nearest_try(&nearest, row->name);
        if (strncmp(row->name, name, strlen(name)) == 0 && n_alike < 2)
            alike[n_alike++] = row->name;
    }
    if (n_alike == 2)
        (void)fprintf(stderr, "%s: option '--%s' is ambiguous; it may be '--%s' or '--%s'\n", command, name, alike[0],
                      alike[1]);
    else if (nearest.name)
        (void)fprintf(stderr, "%s: unrecognized option '--%s'; did you mean '--%s'?\n", command, name, nearest.name);
    else
        (void)fprintf(stderr, "%s: unrecognized option '--%s'; '%s --help' lists them\n", command, name, command);
}

/*
 * Print the error that getopt found: result is ':' for a missing value, '?' otherwise; optopt is the option, if getopt
 * knows it.
 */
static void say_wrong(const hth_flat_table *table, const char *command, int result, char **argv)
{
    const hth_placed_option *row = row_of(table, optopt);

    if (result == ':' && row)
        (void)fprintf(stderr, "%s: option '--%s' needs a value, %s\n", command, row->option->name, row->option->value);
    else if (row)
        (void)fprintf(stderr, "%s: option '--%s' takes no value\n", command, row->option->name);
    else if (optopt != 0)
        (void)fprintf(stderr, "%s: unrecognized option '-%c'; '%s --help' lists them\n", command, optopt, command);
    else
        say_unknown(table, command, argv[optind - 1] + strspn(argv[optind - 1], "-"));
}

int hth_option_table_parse(const hth_option_table *table, const char *command, int argc, char **argv, void *options)
{
    return hth_option_table_visit(table, command, argc, argv, options, NULL, NULL);
}

int hth_option_table_visit(const hth_option_table *table, const char *command, int argc, char **argv, void *options,
                           hth_option_fn visit, void *user_data)
{
    hth_flat_table flat;
    struct option long_options[HTH_OPTIONS_MAX + 1];
    char letters[2 * HTH_OPTIONS_MAX + 2];
    bool was_given[HTH_OPTIONS_MAX] = { false };
    hearth_error err;
    int option;
    bool ended = false;

    hth_option_table_flatten(table, true, &flat);
    make_getopt(&flat, long_options, letters);
    opterr = 0;
    optind = 1; /* needed if the same command line is read again */
    while (!ended && (option = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
        const hth_placed_option *row = option == '?' || option == ':' ? NULL : row_of(&flat, option);
        const char *value = optarg;
        char shown[NAME_MAX_BYTES];

        if (!row) {
            say_wrong(&flat, command, option, argv);
            break;
        }
        if (hth_option_may_omit_value(row->option) && !value)
            value = next_number(argc, argv);
        (void)snprintf(shown, sizeof(shown), "--%s", row->option->name); /* sized for it */
        /* A list on the command line replaces a list from another source. */
        if (row->option->repeats && !was_given[row - flat.rows])
            /* NULL empties the list. */
            (void)hth_option_read(row->option, (char *)options + row->offset, shown, NULL, &err);
        was_given[row - flat.rows] = true;
        if (!hth_option_read(row->option, (char *)options + row->offset, shown, value, &err)) {
            (void)fprintf(stderr, "hearth: %s\n", err.message); /* there is no other place to report it */
            break;
        }
        if (visit)
            visit(row->option, value, user_data);
        ended = row->option->kind == HTH_OPTION_END;
        option = -1;
    }
    return ended || option == -1 ? optind : -1;
}

/* ---- help ---- */

void hth_option_default_text(const hth_option *option, const void *defaults, char *text, size_t capacity)
{
    char value[NAME_MAX_BYTES];

    *text = '\0';
    if (!defaults || option->kind == HTH_OPTION_FLAG || option->kind == HTH_OPTION_END ||
        option->kind == HTH_OPTION_TEXT || option->kind == HTH_OPTION_TEXTS || option->kind == HTH_OPTION_OWN)
        return;
    if (hth_option_has_value(option, defaults) && hth_option_write(option, defaults, 0, value, sizeof(value)))
        (void)snprintf(text, capacity, " (default %s)", value); /* sized for it */
}

static void print_row(const hth_option *option, const void *defaults, FILE *out)
{
    char letter[8] = "    ";
    char left[NAME_MAX_BYTES], usual[NAME_MAX_BYTES + 16], help[HELP_BYTES];
    int n;

    if (option->letter)
        (void)snprintf(letter, sizeof(letter), "-%c, ", option->letter); /* sized for it */
    n = snprintf(left, sizeof(left), "  %s--%s%s%s", letter, option->name, option->value ? " " : "",
                 option->value ? option->value : "");
    (void)fputs(left, out);
    hth_option_default_text(option, defaults, usual, sizeof(usual));
    (void)snprintf(help, sizeof(help), "%s%s", option->help, usual); /* sized for it */
    if (n + 2 > HELP_COLUMN) {
        (void)fputc('\n', out);
        n = 0;
    }
    (void)fprintf(out, "%*s", HELP_COLUMN - n, "");
    hth_wrap_words(help, strlen(help), HELP_COLUMN, HELP_COLUMN, out);
}

void hth_option_table_help(const hth_option_table *table, bool all, const void *defaults, FILE *out)
{
    hth_flat_table flat;
    const hth_option *heading = NULL;

    hth_option_table_flatten(table, true, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;

        if (row->kind == HTH_OPTION_HEADING) {
            heading = row;
            continue;
        }
        if (!all && !row->is_common)
            continue;
        if (heading)
            hth_wrap_text(heading->help, out);
        heading = NULL;
        print_row(row, defaults ? (const char *)defaults + flat.rows[i].offset : NULL, out);
    }
}
