/*
 * cache_options.c - reading and checking of the options of `hearth cache`
 */
#include "cli/cache_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cache/directory.h"
#include "cli/commands.h"
#include "cli/values.h"

static const char help[] =
    "usage: hearth cache stat   [--json]\n"
    "       hearth cache ls     [--json] [--kind KIND] [--key HEX] [--min-hits N] [--limit N]\n"
    "       hearth cache verify [--json] [-q]\n"
    "       hearth cache gc     --to SIZE\n"
    "       hearth cache rm     KEY [--kind KIND] [--tree]\n"
    "       hearth cache export KEY FILE [--force]\n"
    "       hearth cache import FILE\n"
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
    "  repair   make the index anew from the files\n"
    "  why      say how much of a prompt is known, why the rest is not, and at which token it leaves what is known;\n"
    "           takes the options of the 'hearth run' in question, for they are part of what names a row\n"
    "\n"
    "  --cache DIR          cache directory (default: $HEARTH_CACHE or ~/.cache/hearth/kv)\n"
    "  --more-cache DIR     one more directory of the same cache, as given to 'hearth run'; may be given 15 times\n"
    "  --index DIR          where the index is, as given to 'hearth run'\n"
    "  --signing-key FILE   check and make signatures with this key (export, import)\n"
    "  --kind KIND          only rows of this kind: block, tail, snapshot, state, logits\n"
    "  --key HEX            only rows whose key begins like this\n"
    "  --min-hits N         only rows that served at least N requests\n"
    "  --limit N            at most N rows\n"
    "  --force              replace FILE where it exists\n"
    "  --json               as JSON\n"
    "  -q, --quiet          no progress\n"
    "  -h, --help\n"
    "\n"
    "SIZE is a number of bytes with an optional K, M, G or T. Exit codes: 0 done, 1 failed, found damage (verify) or\n"
    "nothing cached yet, 2 wrong usage, 130 interrupted. Those of why: 0 all of the prompt is known, 1 not all of it,\n"
    "2 that cannot be told.\n";

enum {
    OPTION_JSON = 256,
    OPTION_CACHE,
    OPTION_MORE_CACHE,
    OPTION_INDEX,
    OPTION_KIND,
    OPTION_KEY,
    OPTION_MIN_HITS,
    OPTION_LIMIT,
    OPTION_TO,
    OPTION_TREE,
    OPTION_FORCE,
    OPTION_SIGNING_KEY,
};

static const struct option long_options[] = {
    { "json", no_argument, NULL, OPTION_JSON },
    { "cache", required_argument, NULL, OPTION_CACHE },
    { "more-cache", required_argument, NULL, OPTION_MORE_CACHE },
    { "index", required_argument, NULL, OPTION_INDEX },
    { "kind", required_argument, NULL, OPTION_KIND },
    { "key", required_argument, NULL, OPTION_KEY },
    { "min-hits", required_argument, NULL, OPTION_MIN_HITS },
    { "limit", required_argument, NULL, OPTION_LIMIT },
    { "to", required_argument, NULL, OPTION_TO },
    { "tree", no_argument, NULL, OPTION_TREE },
    { "force", no_argument, NULL, OPTION_FORCE },
    { "signing-key", required_argument, NULL, OPTION_SIGNING_KEY },
    { "quiet", no_argument, NULL, 'q' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

/* What a verb takes besides --help and what says where the cache is. */
typedef struct verb_form {
    const char *name;
    int options[6]; /* ends with 0 */
    int n_arguments;
    const char *arguments;
} verb_form;

static const verb_form forms[HTH_CACHE_VERBS] = {
    [HTH_CACHE_STAT] = { .name = "stat", .options = { OPTION_JSON } },
    [HTH_CACHE_LS] = { .name = "ls",
                       .options = { OPTION_JSON, OPTION_KIND, OPTION_KEY, OPTION_MIN_HITS, OPTION_LIMIT } },
    [HTH_CACHE_VERIFY] = { .name = "verify", .options = { OPTION_JSON, 'q' } },
    [HTH_CACHE_GC] = { .name = "gc", .options = { OPTION_TO } },
    [HTH_CACHE_RM] = { .name = "rm", .options = { OPTION_KIND, OPTION_TREE }, .n_arguments = 1, .arguments = "KEY" },
    [HTH_CACHE_EXPORT] = { .name = "export",
                           .options = { OPTION_FORCE, OPTION_SIGNING_KEY, 'q' },
                           .n_arguments = 2,
                           .arguments = "KEY FILE" },
    [HTH_CACHE_IMPORT] = { .name = "import",
                           .options = { OPTION_SIGNING_KEY, 'q' },
                           .n_arguments = 1,
                           .arguments = "FILE" },
    [HTH_CACHE_REPAIR] = { .name = "repair", .options = { 'q' } },
};

void hth_cache_help_print(bool to_stderr)
{
    (void)fputs(help, to_stderr ? stderr : stdout);
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

static bool takes(const verb_form *form, int option)
{
    for (size_t i = 0; i < sizeof(form->options) / sizeof(form->options[0]) && form->options[i]; i++)
        if (form->options[i] == option)
            return true;
    return option == OPTION_CACHE || option == OPTION_MORE_CACHE || option == OPTION_INDEX || option == 'h';
}

static bool read_kind(const char *text, hth_row_kind *out, hearth_error *err)
{
    for (int kind = 0; kind < HTH_ROW_KINDS; kind++)
        if (strcmp(text, hth_row_kind_name((hth_row_kind)kind)) == 0) {
            *out = (hth_row_kind)kind;
            return true;
        }
    return hth_value_wrong("--kind", text, "block, tail, snapshot, state or logits", err);
}

static bool read_count(const char *name, const char *text, uint64_t *out, hearth_error *err)
{
    long long number;

    if (!hth_value_integer(name, text, 0, INT64_MAX, &number, err))
        return false;
    *out = (uint64_t)number;
    return true;
}

static bool set_directory(const char *text, hth_cache_command_options *out, hearth_error *err)
{
    if (!*text || strlen(text) >= sizeof(out->directory))
        return hth_value_wrong("--cache", text, "a directory", err);
    memcpy(out->directory, text, strlen(text) + 1);
    return true;
}

static bool add_directory(const char *text, hth_cache_command_options *out, hearth_error *err)
{
    const size_t n_max = sizeof(out->more_directories) / sizeof(out->more_directories[0]);

    if (out->n_more_directories == n_max) {
        (void)hth_fail(err, HEARTH_MISUSE, "--more-cache '%s' is one too many; at most %zu are allowed", text, n_max);
        return false; /* which says it */
    }
    out->more_directories[out->n_more_directories++] = text;
    return (*text && strlen(text) < HTH_CACHE_PATH_BYTES) || hth_value_wrong("--more-cache", text, "a directory", err);
}

static bool read_option(int option, const char *value, hth_cache_command_options *out, hearth_error *err)
{
    switch (option) {
    case OPTION_JSON: out->as_json = true; return true;
    case OPTION_CACHE: return set_directory(value, out, err);
    case OPTION_MORE_CACHE: return add_directory(value, out, err);
    case OPTION_INDEX:
        out->index_directory = value;
        return *value || hth_value_wrong("--index", value, "a directory", err);
    case OPTION_KIND: out->has_kind = true; return read_kind(value, &out->kind, err);
    case OPTION_KEY:
        out->key_prefix = value;
        return strspn(value, "0123456789abcdef") == strlen(value) ||
               hth_value_wrong("--key", value, "hex digits in lower case", err);
    case OPTION_MIN_HITS: return read_count("--min-hits", value, &out->hits_min, err);
    case OPTION_LIMIT: return read_count("--limit", value, &out->limit, err);
    case OPTION_TO: out->has_to_bytes = true; return hth_value_size("--to", value, 0, &out->to_bytes, err);
    case OPTION_TREE: out->with_descendants = true; return true;
    case OPTION_FORCE: out->replace = true; return true;
    case OPTION_SIGNING_KEY: out->signing_key_file = value; return true;
    default: out->quiet = true; return true;
    }
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
    if (out->verb == HTH_CACHE_GC && !out->has_to_bytes) {
        (void)fputs("hearth: 'cache gc' needs --to SIZE, the size to keep\n", stderr);
        return false;
    }
    if (out->verb == HTH_CACHE_IMPORT)
        out->file = arguments[0];
    if (out->verb == HTH_CACHE_EXPORT)
        out->file = arguments[1];
    return (out->verb != HTH_CACHE_RM && out->verb != HTH_CACHE_EXPORT) || read_key(arguments[0], &out->key);
}

bool hth_cache_options_parse(int argc, char **argv, hth_cache_command_options *out, int *exit_out)
{
    const verb_form *form;
    hearth_error err;
    int option;

    *out = (hth_cache_command_options){ .limit = UINT64_MAX };
    *exit_out = HTH_EXIT_USAGE;
    if (!find_verb(argv[0], &out->verb))
        return false;
    form = &forms[out->verb];
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":qh", long_options, NULL)) != -1) {
        if (option == 'h') {
            hth_cache_help_print(false);
            *exit_out = HTH_EXIT_OK;
            return false;
        }
        if (option == '?' || option == ':' || !takes(form, option)) {
            (void)fprintf(stderr,
                          "hearth: 'cache %s' has no option '%s', or it lacks its value; see 'hearth cache --help'\n",
                          form->name, argv[optind - 1]);
            return false;
        }
        if (!read_option(option, optarg, out, &err)) {
            (void)fprintf(stderr, "hearth: %s\n", err.message); /* nowhere else to say it */
            return false;
        }
    }
    if (!read_arguments(form, argc - optind, argv + optind, out))
        return false;
    if (!*out->directory && !hth_cache_default_directory(out->directory, sizeof(out->directory))) {
        (void)fputs("hearth: no cache directory is known, since HOME is not set; give one with --cache\n", stderr);
        *exit_out = HTH_EXIT_FAILED;
        return false;
    }
    return true;
}
