/*
 * cache_command.c - `hearth cache`: its options, one table for all verbs, of which each verb uses some rows
 */
#include "cli/cache_options.h"

#include <stdio.h>
#include <string.h>

#include "console/output.h"
#include "options/commands.h"
#include "options/manual.h"
#include "options/option_table.h"
#include "options/values.h"
#include "rows/directory.h"
#include "rows/row.h"

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
    { "full-keys", 0, HTH_OPTION_FLAG, NULL, "show all digits of the keys", .offset = AT(full_keys) },
    { "min-hits", 0, HTH_OPTION_U32, "N", "only rows that served at least N requests", .offset = AT(hits_min),
      .high = UINT32_MAX },
    { "limit", 0, HTH_OPTION_U32, "N", "at most N rows", .offset = AT(limit), .high = UINT32_MAX },
    { "to", 0, HTH_OPTION_SIZE, "SIZE", "the size to keep", .offset = AT(to_bytes) },
    { "tree", 0, HTH_OPTION_FLAG, NULL, "remove also all rows that stand on them", .offset = AT(with_descendants) },
    { "force", 0, HTH_OPTION_FLAG, NULL, "replace FILE where it exists", .offset = AT(replace) },
    { "json", 0, HTH_OPTION_FLAG, NULL, "as JSON", .offset = AT(as_json) },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "no progress", .offset = AT(quiet) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

#define OPTIONS_OF_ALL " cache more-cache index help "

static const char closing[] = "\nExit codes: 0 done, 1 failed or nothing cached yet, 2 wrong usage, 130 interrupted.\n";

static const hth_manual verbs[HTH_CACHE_VERBS] = {
    [HTH_CACHE_STAT] = {
        .name = "stat",
        .summary = "summarise the content of the directory",
        .usage = "usage: hearth cache stat [--json]\n\n"
              "Summarises the content of a cache directory, and shows the prefixes with the most hits.\n\n",
        .closing = closing,
        .options = HTH_OPTION_ROWS(rows),
        .option_names = " json" OPTIONS_OF_ALL,
    },
    [HTH_CACHE_LS] = {
        .name = "ls",
        .alias = "list",
        .summary = "list its rows, the most recently used first",
        .usage = "usage: hearth cache ls [--json] [--kind KIND] "
              "[--key HEX] [--min-hits N] [--limit N] [--full-keys]\n\n"
              "Lists the rows of a cache directory, the most recently used first. "
              "The shown digits of a key are enough for the\n"
              "other verbs. POSITION is the place of the row's first token in the prompt, "
              "TOKENS the number of its tokens,\n"
              "UNUSED the time since its last use, and HITS the number of requests that it served.\n\n",
        .closing = closing,
        .options = HTH_OPTION_ROWS(rows),
        .option_names = " json kind key full-keys min-hits limit" OPTIONS_OF_ALL,
    },
    [HTH_CACHE_VERIFY] = {
        .name = "verify",
        .summary = "read every row in full and set damaged rows aside",
        .usage = "usage: hearth cache verify [--json] [-q]\n\n"
              "Reads every row in full and sets damaged rows aside.\n\n",
        .closing = "\nExit codes: 0 done, 1 failed, found damage or nothing cached yet, "
                   "2 wrong usage, 130 interrupted.\n",
        .options = HTH_OPTION_ROWS(rows),
        .option_names = " json quiet" OPTIONS_OF_ALL,
    },
    [HTH_CACHE_GC] = {
        .name = "gc",
        .summary = "evict least recently used rows until at most SIZE is left",
        .usage = "usage: hearth cache gc --to SIZE\n\n"
              "Evicts the least recently used rows until at most SIZE is left.\n\n",
        .closing = "\nSIZE is a number of bytes with an optional K, M, G or T. "
              "Exit codes: 0 done, 1 failed, 2 wrong usage,\n"
              "130 interrupted.\n",
        .options = HTH_OPTION_ROWS(rows),
        .option_names = " to" OPTIONS_OF_ALL,
    },
    [HTH_CACHE_RM] = {
        .name = "rm",
        .alias = "remove",
        .summary = "remove the rows of a key; with --tree all that stand on them, too",
        .usage = "usage: hearth cache rm KEY [--kind KIND] [--tree]\n\n"
              "Removes the rows of a key.\n\n",
        .closing = closing,
        .options = HTH_OPTION_ROWS(rows),
        .option_names = " kind tree" OPTIONS_OF_ALL,
        .arguments = HTH_COMPLETE_NOTHING,
    },
    [HTH_CACHE_EXPORT] = {
        .name = "export",
        .summary = "join the rows of the prefix that KEY ends into one plain KVC file",
        .usage = "usage: hearth cache export KEY FILE [--force]\n\n"
              "Joins the rows of the prefix that KEY ends into one plain KVC file.\n\n",
        .closing = closing,
        .options = HTH_OPTION_ROWS(rows),
        .option_names = " force signing-key quiet" OPTIONS_OF_ALL,
        .arguments = HTH_COMPLETE_NOTHING " " HTH_COMPLETE_FILE,
    },
    [HTH_CACHE_IMPORT] = {
        .name = "import",
        .summary = "put the rows of such a file into the cache",
        .usage = "usage: hearth cache import FILE\n\n"
              "Puts the rows of a file of 'hearth cache export' into the cache.\n\n",
        .closing = closing,
        .options = HTH_OPTION_ROWS(rows),
        .option_names = " signing-key quiet" OPTIONS_OF_ALL,
        .arguments = HTH_COMPLETE_FILE,
    },
    [HTH_CACHE_REPAIR] = {
        .name = "repair",
        .summary = "make the index anew from the files",
        .usage = "usage: hearth cache repair [-q]\n\n"
              "Makes the index of the cache anew from its files.\n\n",
        .closing = closing,
        .options = HTH_OPTION_ROWS(rows),
        .option_names = " quiet" OPTIONS_OF_ALL,
    },
    [HTH_CACHE_PIN] = {
        .name = "pin",
        .summary = "keep the rows of the prefix that KEY ends, until it is unpinned",
        .usage = "usage: hearth cache pin KEY\n\n"
              "Keeps the rows of the prefix that KEY ends, "
              "whatever else goes for room, until it is unpinned; at most half of the\n"
              "quota.\n\n",
        .closing = closing,
        .options = HTH_OPTION_ROWS(rows),
        .option_names = OPTIONS_OF_ALL,
        .arguments = HTH_COMPLETE_NOTHING,
    },
    [HTH_CACHE_UNPIN] = {
        .name = "unpin",
        .summary = "let them age again",
        .usage = "usage: hearth cache unpin KEY\n\n"
              "Lets the rows of the prefix that KEY ends age again.\n\n",
        .closing = closing,
        .options = HTH_OPTION_ROWS(rows),
        .option_names = OPTIONS_OF_ALL,
        .arguments = HTH_COMPLETE_NOTHING,
    },
};

static const hth_manual *const all_verbs[] = {
    &verbs[HTH_CACHE_STAT],  &verbs[HTH_CACHE_LS],     &verbs[HTH_CACHE_VERIFY], &verbs[HTH_CACHE_GC],
    &verbs[HTH_CACHE_RM],    &verbs[HTH_CACHE_EXPORT], &verbs[HTH_CACHE_IMPORT], &verbs[HTH_CACHE_PIN],
    &verbs[HTH_CACHE_UNPIN], &verbs[HTH_CACHE_REPAIR], &hth_cache_why_manual,    NULL
};

const hth_manual hth_cache_manual = {
    .name = "cache",
    .summary = "look after the cache: what is in it, why a prompt was cold, room, copies",
    .usage = "Looks after a cache directory. Safe while servers use it.\n\n",
    .closing = "'hearth help cache VERB' explains a verb and its options.\n",
    .verbs = all_verbs,
};

/* The arguments of a verb. */
typedef struct verb_form {
    int n_arguments;
    const char *arguments;
} verb_form;

static const verb_form forms[HTH_CACHE_VERBS] = {
    [HTH_CACHE_RM] = { 1, "KEY" },  [HTH_CACHE_EXPORT] = { 2, "KEY FILE" }, [HTH_CACHE_IMPORT] = { 1, "FILE" },
    [HTH_CACHE_PIN] = { 1, "KEY" }, [HTH_CACHE_UNPIN] = { 1, "KEY" },
};

static bool read_key(const char *text, const char **out)
{
    const size_t n = strlen(text);

    *out = text;
    if (n >= HTH_CACHE_KEY_DIGITS_MIN && n <= (size_t)2 * HTH_KEY_BYTES && strspn(text, "0123456789abcdef") == n)
        return true;
    return hth_sayf(false, "KEY is '%s'; it must be the first hex digits of a key, as 'hearth cache ls' shows it",
                    text);
}

static bool read_arguments(int n, char **arguments, hth_cache_command_options *out)
{
    const verb_form *form = &forms[out->verb];
    const char *name = verbs[out->verb].name;

    if (n > form->n_arguments)
        return hth_sayf(false, "'cache %s' takes no argument '%s'", name, arguments[form->n_arguments]);
    if (n < form->n_arguments)
        return hth_sayf(false, "'cache %s' needs %s; see 'hearth help cache %s'", name, form->arguments, name);
    if (out->verb == HTH_CACHE_GC && out->to_bytes == HTH_CACHE_NO_SIZE)
        return hth_say("'cache gc' needs --to SIZE, the size to keep", false);
    if (out->verb == HTH_CACHE_IMPORT)
        out->file = arguments[0];
    if (out->verb == HTH_CACHE_EXPORT)
        out->file = arguments[1];
    return strncmp(form->arguments ? form->arguments : "", "KEY", 3) != 0 || read_key(arguments[0], &out->key_begin);
}

/* Read the command line of a verb. out may point into argv and into itself: do not copy or move it. */
static bool parse_options(const hth_manual *verb, int argc, char **argv, hth_cache_command_options *out, int *exit_out)
{
    int first;

    *out = (hth_cache_command_options){ .verb = (hth_cache_verb)(verb - verbs),
                                        .kind = HTH_ROW_KINDS,
                                        .limit = UINT32_MAX,
                                        .to_bytes = HTH_CACHE_NO_SIZE };
    first = hth_manual_parse(verb, &hth_cache_manual, argc, argv, out, exit_out);
    if (first < 0 || !read_arguments(argc - first, argv + first, out))
        return false;
    if (out->directory)
        return true;
    *exit_out = HTH_EXIT_FAILED;
    out->directory = out->default_directory;
    return hth_cache_default_directory(out->default_directory, sizeof(out->default_directory)) ||
           hth_say("no cache directory is known, since HOME is not set; give one with --cache", false);
}

/* ---- the command ---- */

int hth_command_cache(int argc, char **argv)
{
    hth_cache_command_options options;
    int result;
    const hth_manual *verb = hth_verb_read(&hth_cache_manual, argc, argv, &result);

    if (!verb)
        return result;
    if (verb == &hth_cache_why_manual)
        return hth_cache_why(argc - 1, argv + 1);
    if (!parse_options(verb, argc - 1, argv + 1, &options, &result))
        return result;
    switch (options.verb) {
    case HTH_CACHE_STAT:
    case HTH_CACHE_LS: return hth_cache_show(&options);
    case HTH_CACHE_EXPORT:
    case HTH_CACHE_IMPORT: return hth_cache_transfer(&options);
    default: return hth_cache_care(&options);
    }
}
