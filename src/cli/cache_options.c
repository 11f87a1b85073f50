/*
 * cache_options.c - the options of `hearth cache`: one table for all verbs, of which each verb takes some rows
 */
#include "cli/cache_options.h"

#include <stdio.h>
#include <string.h>

#include "cache/directory.h"
#include "cache/row.h"
#include "cli/commands.h"
#include "cli/option_table.h"
#include "cli/values.h"

static const char usage[] =
    "usage: hearth cache stat   [--json]\n"
    "       hearth cache ls     [--json] [--kind KIND] [--key HEX] [--min-hits N] [--limit N]\n"
    "       hearth cache verify [--json] [-q]\n"
    "       hearth cache gc     --to SIZE\n"
    "       hearth cache rm     KEY [--kind KIND] [--tree]\n"
    "       hearth cache export KEY FILE [--force]\n"
    "       hearth cache import FILE\n"
    "       hearth cache pin    KEY\n"
    "       hearth cache unpin  KEY\n"
    "       hearth cache repair [-q]\n"
    "       hearth cache why    MODEL [-p TEXT | -f FILE] [--json] [OPTIONS OF RUN]\n"
    "\n"
    "Looks after a cache directory. Safe while servers use it.\n"
    "\n"
    "  stat     summarise the content of the directory\n"
    "  ls       list its rows, the most recently used first\n"
    "  verify   read every row in full and set damaged rows aside\n"
    "  gc       evict least recently used rows until at most SIZE is left\n"
    "  rm       remove the rows of a key; with --tree all that stand on them, too\n"
    "  export   join the rows of the prefix that KEY ends into one plain KVC file\n"
    "  import   put the rows of such a file into the cache\n"
    "  pin      keep the rows of the prefix that KEY ends, whatever else goes for room, until it is unpinned;\n"
    "           at most half of the quota\n"
    "  unpin    let them age again\n"
    "  repair   make the index anew from the files\n"
    "  why      say how much of a prompt is known, why the rest is not, and at which token it leaves what is known;\n"
    "           takes the options of the 'hearth run' in question, for they are part of what names a row\n"
    "\n";

static const char closing[] =
    "\n"
    "SIZE is a number of bytes with an optional K, M, G or T. Exit codes: 0 done, 1 failed, found damage (verify) or\n"
    "nothing cached yet, 2 wrong usage, 130 interrupted. Those of why: 0 all of the prompt is known, 1 not all of it,\n"
    "2 that cannot be told.\n";

static bool check_directory(const char *shown, const char *value, hearth_error *err)
{
    return (*value && strlen(value) < HTH_CACHE_PATH_BYTES) || hth_value_wrong(shown, value, "a directory", err);
}

static bool check_key_prefix(const char *shown, const char *value, hearth_error *err)
{
    return strspn(value, "0123456789abcdef") == strlen(value) ||
           hth_value_wrong(shown, value, "hex digits in lower case", err);
}

#define AT(field) offsetof(hth_cache_command_options, field)

static const hth_option rows[] = {
    { "cache", 0, HTH_OPTION_TEXT, "DIR", "cache directory (default: $HEARTH_CACHE or ~/.cache/hearth/kv)",
      .offset = AT(directory), .check = check_directory },
    { "more-cache", 0, HTH_OPTION_TEXTS, "DIR",
      "one more directory of the same cache, as given to 'hearth run'; may be given 15 times",
      .offset = AT(more_directories), .n_offset = AT(n_more_directories), .n_max = HTH_FILE_TIER_ROOTS_MAX - 1,
      .check = check_directory, .repeats = true },
    { "index", 0, HTH_OPTION_TEXT, "DIR", "where the index is, as given to 'hearth run'", .offset = AT(index_directory),
      .check = check_directory },
    { "signing-key", 0, HTH_OPTION_TEXT, "FILE", "check and make signatures with this key (export, import)",
      .offset = AT(signing_key_file) },
    { "kind", 0, HTH_OPTION_WORD, "KIND", "only rows of this kind: block, tail, snapshot, state, logits",
      .offset = AT(kind), .words = hth_row_kind_names },
    { "key", 0, HTH_OPTION_TEXT, "HEX", "only rows whose key begins like this", .offset = AT(key_prefix),
      .check = check_key_prefix },
    { "min-hits", 0, HTH_OPTION_U32, "N", "only rows that served at least N requests", .offset = AT(hits_min),
      .high = UINT32_MAX },
    { "limit", 0, HTH_OPTION_U32, "N", "at most N rows", .offset = AT(limit), .high = UINT32_MAX },
    { "to", 0, HTH_OPTION_SIZE, "SIZE", "the size to keep", .offset = AT(to_bytes) },
    { "tree", 0, HTH_OPTION_FLAG, NULL, "remove also all rows that stand on them", .offset = AT(with_descendants) },
    { "force", 0, HTH_OPTION_FLAG, NULL, "replace FILE where it exists", .offset = AT(replace) },
    { "json", 0, HTH_OPTION_FLAG, NULL, "as JSON", .offset = AT(as_json) },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "no progress", .offset = AT(quiet) },
    { "help", 'h', HTH_OPTION_END, NULL, "show this help", .offset = AT(help) },
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* The arguments and options of a verb. Every verb takes the options in `options_of_all`, too. */
typedef struct verb_form {
    const char *name;
    const char *options; /* names with a space on both sides; NULL: none */
    int n_arguments;
    const char *arguments;
} verb_form;

static const char options_of_all[] = " cache more-cache index help ";

static const verb_form forms[HTH_CACHE_VERBS] = {
    [HTH_CACHE_STAT] = { "stat", " json " },
    [HTH_CACHE_LS] = { "ls", " json kind key min-hits limit " },
    [HTH_CACHE_VERIFY] = { "verify", " json quiet " },
    [HTH_CACHE_GC] = { "gc", " to " },
    [HTH_CACHE_RM] = { "rm", " kind tree ", 1, "KEY" },
    [HTH_CACHE_EXPORT] = { "export", " force signing-key quiet ", 2, "KEY FILE" },
    [HTH_CACHE_IMPORT] = { "import", " signing-key quiet ", 1, "FILE" },
    [HTH_CACHE_REPAIR] = { "repair", " quiet " },
    [HTH_CACHE_PIN] = { "pin", NULL, 1, "KEY" },
    [HTH_CACHE_UNPIN] = { "unpin", NULL, 1, "KEY" },
};

void hth_cache_help_print(FILE *out)
{
    const hth_option_table table = { rows, N_ROWS };

    hth_option_table_help(usage, &table, true, NULL, closing, out);
}

static bool find_verb(const char *name, hth_cache_verb *out)
{
    for (int verb = 0; verb < HTH_CACHE_VERBS; verb++)
        if (strcmp(name, forms[verb].name) == 0) {
            *out = (hth_cache_verb)verb;
            return true;
        }
    (void)fprintf(stderr, "hearth: 'cache' has no command '%s'; see 'hearth cache --help'\n", name);
    return false;
}

static bool is_listed(const char *names, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = names; at && (at = strstr(at, name)); at++)
        if (at[-1] == ' ' && at[n] == ' ') /* every list begins with a space */
            return true;
    return false;
}

/* Read the options of the verb. Returns the index of the first argument; -1, with a message, when one is wrong. */
static int read_options(const verb_form *form, int argc, char **argv, hth_cache_command_options *out)
{
    hth_option taken[N_ROWS];
    hth_option_table table = { taken, 0 };
    char command[32];

    for (size_t i = 0; i < N_ROWS; i++)
        if (is_listed(options_of_all, rows[i].name) || is_listed(form->options, rows[i].name))
            taken[table.n++] = rows[i];
    (void)snprintf(command, sizeof(command), "hearth cache %s", form->name); /* sized for it */
    return hth_option_table_parse(&table, command, argc, argv, out);
}

static bool read_key(const char *text, hth_key *out)
{
    if (strlen(text) == (size_t)2 * HTH_KEY_BYTES && hth_hex_decode(text, out->bytes, HTH_KEY_BYTES))
        return true;
    (void)fprintf(stderr, "hearth: KEY is '%s'; it must be 64 hex digits, as 'hearth cache ls' shows them\n", text);
    return false;
}

static bool read_arguments(const verb_form *form, int n, char **arguments, hth_cache_command_options *out)
{
    if (n > form->n_arguments) {
        (void)fprintf(stderr, "hearth: 'cache %s' takes no argument '%s'\n", form->name, arguments[form->n_arguments]);
        return false;
    }
    if (n < form->n_arguments) {
        (void)fprintf(stderr, "hearth: 'cache %s' needs %s; see 'hearth cache --help'\n", form->name, form->arguments);
        return false;
    }
    if (out->verb == HTH_CACHE_GC && out->to_bytes == HTH_CACHE_NO_SIZE) {
        (void)fputs("hearth: 'cache gc' needs --to SIZE, the size to keep\n", stderr);
        return false;
    }
    if (out->verb == HTH_CACHE_IMPORT)
        out->file = arguments[0];
    if (out->verb == HTH_CACHE_EXPORT)
        out->file = arguments[1];
    return strncmp(form->arguments ? form->arguments : "", "KEY", 3) != 0 || read_key(arguments[0], &out->key);
}

bool hth_cache_options_parse(int argc, char **argv, hth_cache_command_options *out, int *exit_out)
{
    const verb_form *form;
    int first;

    *out = (hth_cache_command_options){ .kind = HTH_ROW_KINDS, .limit = UINT32_MAX, .to_bytes = HTH_CACHE_NO_SIZE };
    *exit_out = HTH_EXIT_USAGE;
    if (!find_verb(argv[0], &out->verb))
        return false;
    form = &forms[out->verb];
    first = read_options(form, argc, argv, out);
    if (first < 0)
        return false;
    if (out->help) {
        hth_cache_help_print(stdout);
        *exit_out = HTH_EXIT_OK;
        return false;
    }
    if (!read_arguments(form, argc - first, argv + first, out))
        return false;
    if (!out->directory) {
        if (!hth_cache_default_directory(out->default_directory, sizeof(out->default_directory))) {
            (void)fputs("hearth: no cache directory is known, since HOME is not set; give one with --cache\n", stderr);
            *exit_out = HTH_EXIT_FAILED;
            return false;
        }
        out->directory = out->default_directory;
    }
    return true;
}
