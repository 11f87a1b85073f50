/*
 * option_table.c - a table of options as getopt_long wants it, as help, and as readers of single values
 */
#include "cli/option_table.h"

#include <assert.h>
#include <ctype.h>
#include <getopt.h>
#include <string.h>

#include "cli/values.h"

enum {
    OPTIONS_MAX = 160,
    NAME_MAX_BYTES = 256,
    HELP_COLUMN = 30,
    HELP_WIDTH = 118,
    FIRST_LONG = 1000, /* getopt's value of row i is FIRST_LONG + i */
};

static bool may_omit_value(const hth_option *option)
{
    return option->value && option->value[0] == '[';
}

bool hth_option_read(const hth_option *option, void *options, const char *shown, const char *value, hearth_error *err)
{
    void *field = (char *)options + option->offset;

    switch (option->kind) {
    case HTH_OPTION_HEADING: return false;
    case HTH_OPTION_FLAG:
    case HTH_OPTION_END: *(bool *)field = true; return true;
    case HTH_OPTION_TEXT: *(const char **)field = value; return true;
    case HTH_OPTION_I32:
        return hth_value_i32(shown, value, (long long)option->low, (long long)option->high, field, err);
    case HTH_OPTION_U32:
        return hth_value_u32(shown, value, (long long)option->low, (long long)option->high, field, err);
    case HTH_OPTION_U64: {
        long long number;

        if (!hth_value_integer(shown, value, (long long)option->low, (long long)option->high, &number, err))
            return false;
        *(uint64_t *)field = (uint64_t)number;
        return true;
    }
    case HTH_OPTION_FLOAT: return hth_value_float(shown, value, option->low, option->high, field, err);
    case HTH_OPTION_SIZE: return hth_value_size(shown, value, (uint64_t)option->low, field, err);
    case HTH_OPTION_OWN: return option->read(options, shown, value, err);
    }
    return false;
}

void hth_option_set_flag(const hth_option *option, void *options, bool on)
{
    assert(option->kind == HTH_OPTION_FLAG);
    *(bool *)((char *)options + option->offset) = on;
}

const hth_option *hth_option_table_find(const hth_option *table, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (table[i].key && strcmp(table[i].key, key) == 0)
            return &table[i];
    return NULL;
}

/* ---- the command line ---- */

static size_t make_getopt(const hth_option *table, size_t n, struct option *long_options, char *letters)
{
    size_t n_long = 0, n_letters = 0;

    assert(n < OPTIONS_MAX);
    for (size_t i = 0; i < n; i++) {
        int argument = !table[i].value           ? no_argument
                     : may_omit_value(&table[i]) ? optional_argument
                                                 : required_argument;

        if (table[i].kind == HTH_OPTION_HEADING)
            continue;
        long_options[n_long++] = (struct option){ table[i].name, argument, NULL, FIRST_LONG + (int)i };
        if (table[i].letter == 0)
            continue;
        letters[n_letters++] = (char)table[i].letter;
        if (argument == required_argument)
            letters[n_letters++] = ':';
    }
    long_options[n_long] = (struct option){ NULL, 0, NULL, 0 };
    letters[n_letters] = '\0';
    return n_long;
}

static const hth_option *row_of(const hth_option *table, size_t n, int option)
{
    if (option >= FIRST_LONG && (size_t)(option - FIRST_LONG) < n)
        return &table[option - FIRST_LONG];
    for (size_t i = 0; i < n; i++)
        if (table[i].letter == option)
            return &table[i];
    return NULL;
}

/* getopt takes a value that may be left out only after '='; a number in the next word is meant for it, too. */
static const char *next_number(int argc, char **argv)
{
    if (optind >= argc || !isdigit((unsigned char)argv[optind][0]) ||
        argv[optind][strspn(argv[optind], "0123456789")] != '\0')
        return "";
    return argv[optind++];
}

int hth_option_table_parse(const hth_option *table, size_t n, const char *command, int argc, char **argv, void *options)
{
    struct option long_options[OPTIONS_MAX];
    char letters[2 * OPTIONS_MAX];
    char *name = argv[0];
    hearth_error err;
    int option;
    bool ended = false;

    (void)make_getopt(table, n, long_options, letters); /* how many there are shows at their end */
    argv[0] = (char *)command;                          /* getopt begins its messages with it */
    while (!ended && (option = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
        const hth_option *row = row_of(table, n, option);
        const char *value = optarg;
        char shown[NAME_MAX_BYTES];

        if (!row)
            break; /* getopt has said what is wrong */
        if (may_omit_value(row) && !value)
            value = next_number(argc, argv);
        (void)snprintf(shown, sizeof(shown), "--%s", row->name); /* sized for it */
        if (!hth_option_read(row, options, shown, value, &err)) {
            (void)fprintf(stderr, "hearth: %s\n", err.message); /* nowhere else to say it */
            break;
        }
        ended = row->kind == HTH_OPTION_END;
        option = -1;
    }
    argv[0] = name;
    return ended || option == -1 ? optind : -1;
}

/* ---- help ---- */

/* Print text from column on, broken at spaces; the cursor is at `at`. */
static void print_wrapped(const char *text, int at, FILE *out)
{
    if (at + 2 > HELP_COLUMN) {
        (void)fputc('\n', out);
        at = 0;
    }
    while (*text) {
        int width = HELP_WIDTH - HELP_COLUMN;
        int n = (int)strlen(text);

        if (n > width) {
            n = width;
            while (n > 1 && text[n] != ' ')
                n--;
        }
        (void)fprintf(out, "%*s%.*s\n", HELP_COLUMN - at, "", n, text);
        text += n;
        text += strspn(text, " ");
        at = 0;
    }
}

static void print_row(const hth_option *option, FILE *out)
{
    char letter[8] = "    ";
    char left[NAME_MAX_BYTES];
    int n;

    if (option->letter)
        (void)snprintf(letter, sizeof(letter), "-%c, ", option->letter); /* sized for it */
    n = snprintf(left, sizeof(left), "  %s--%s%s%s", letter, option->name, option->value ? " " : "",
                 option->value ? option->value : "");
    (void)fputs(left, out);
    print_wrapped(option->help, n, out);
}

void hth_option_table_print(const hth_option *table, size_t n, bool all, FILE *out)
{
    const hth_option *heading = NULL;

    for (size_t i = 0; i < n; i++) {
        if (table[i].kind == HTH_OPTION_HEADING) {
            heading = &table[i];
            continue;
        }
        if (!all && !table[i].is_common)
            continue;
        if (heading)
            (void)fprintf(out, "%s\n", heading->help);
        heading = NULL;
        print_row(&table[i], out);
    }
}
