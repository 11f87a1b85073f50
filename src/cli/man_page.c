/*
 * man_page.c - manuals as pages for `man`, in roff
 *
 * A paragraph of a manual is filled. An indented line is an item, "  word   text", if two spaces follow its word;
 * otherwise it is an example and is not changed.
 */

#include <stdlib.h>
#include <string.h>

#include "cli/command_list.h"
#include "options/serve_config.h"

enum { DEFAULT_BYTES = 512 };

/* Print text as roff, so that no character is read as a request or an escape. */
static void put(const char *text, size_t n, FILE *out)
{
    static const char special[] = "\\-'^~`";
    static const char *const names[] = { "\\e", "\\-", "\\(aq", "\\(ha", "\\(ti", "\\(ga" };

    if (n > 0 && (text[0] == '.' || text[0] == '\''))
        (void)fputs("\\&", out);
    for (size_t i = 0; i < n; i++) {
        const char *found = strchr(special, text[i]);

        if (found)
            (void)fputs(names[found - special], out);
        else
            (void)fputc(text[i], out);
    }
}

static void put_text(const char *text, FILE *out)
{
    put(text, strlen(text), out);
    (void)fputc('\n', out);
}

static void begin(const char *name, int section, FILE *out)
{
    (void)fprintf(out, ".\\\" Made by 'hearth help --man'.\n.TH \"%s\" %d \"\" \"hearth %s\" \"Hearth\"\n.nh\n.ad l\n",
                  name, section, HEARTH_VERSION);
}

/* ---- paragraphs ---- */

static void put_lines(const char *text, FILE *out)
{
    bool is_example = false, is_item = false;

    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        const size_t n = strcspn(text, "\n"), n_indent = strspn(text, " ");
        const char *gap = NULL;
        const bool has_gap = n_indent == 2 && (gap = strstr(text + n_indent, "  ")) && gap < text + n;

        if (is_example && (n_indent == 0 || has_gap)) {
            (void)fputs(".fi\n", out);
            is_example = false;
        }
        if (n == 0) {
            (void)fputs(".PP\n", out);
            is_item = false;
        } else if (has_gap) {
            (void)fputs(".TP\n.B ", out);
            put(text + n_indent, (size_t)(gap - text) - n_indent, out);
            (void)fputc('\n', out);
            gap += strspn(gap, " ");
            put(gap, (size_t)(text + n - gap), out);
            (void)fputc('\n', out);
            is_item = true;
        } else {
            if (n_indent > 0 && !is_item && !is_example)
                (void)fputs(".nf\n", out);
            is_example = is_example || (n_indent > 0 && !is_item);
            put(is_example ? text : text + n_indent, is_example ? n : n - n_indent, out);
            (void)fputc('\n', out);
        }
    }
    if (is_example)
        (void)fputs(".fi\n", out);
}

static void put_usage(const char *line, size_t n, void *user_data)
{
    FILE *out = user_data;

    (void)fputs(".B hearth\n", out);
    put(line, n, out);
    (void)fputs("\n.br\n", out);
}

/* ---- options ---- */

static void put_option(const hth_option *option, const void *defaults, FILE *out)
{
    char text[DEFAULT_BYTES];

    (void)fputs(".TP\n\\fB", out);
    if (option->letter)
        (void)fprintf(out, "\\-%c\\fR, \\fB", option->letter);
    put("--", 2, out);
    put(option->name, strlen(option->name), out);
    (void)fputs("\\fR", out);
    if (option->value) {
        (void)fputs(" \\fI", out);
        put(option->value, strlen(option->value), out);
        (void)fputs("\\fR", out);
    }
    (void)fputc('\n', out);
    hth_option_default_text(option, defaults, text, sizeof(text));
    put(option->help, strlen(option->help), out);
    put_text(text, out);
}

static void put_options(const hth_manual *manual, FILE *out)
{
    char *defaults = hth_manual_defaults(manual);
    hth_flat_table flat;

    hth_option_table_flatten(manual->options, true, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *option = flat.rows[i].option;

        if (!hth_manual_takes(manual, option))
            continue;
        if (option->kind == HTH_OPTION_HEADING) {
            (void)fputs(".SS \"", out);
            put(option->help, strcspn(option->help, ";"), out);
            (void)fputs("\"\n", out);
            if (strchr(option->help, ';'))
                put_lines(strchr(option->help, ';') + 2, out);
        } else {
            put_option(option, defaults ? defaults + flat.rows[i].offset : NULL, out);
        }
    }
    free(defaults);
}

/* ---- pages ---- */

static void put_verb(const hth_manual *verb, FILE *out)
{
    (void)fputs(".SH \"", out);
    for (const char *c = verb->name; *c; c++) /* in capitals, like headings */
        (void)fputc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, out);
    (void)fputs("\"\n", out);
    hth_manual_visit_usage(verb, put_usage, out);
    (void)fputs(".PP\n", out);
    put_lines(hth_manual_text(verb), out);
    put_options(verb, out);
    if (verb->closing)
        put_lines(verb->closing, out);
}

void hth_man_command_print(const hth_manual *manual, FILE *out)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "hearth-%s", manual->name); /* sized for it */
    begin(name, 1, out);
    (void)fputs(".SH NAME\n", out);
    put(name, strlen(name), out);
    (void)fputs(" \\- ", out);
    put_text(manual->summary, out);
    (void)fputs(".SH SYNOPSIS\n", out);
    hth_manual_visit_usage(manual, put_usage, out);
    (void)fputs(".SH DESCRIPTION\n", out);
    put_lines(hth_manual_text(manual), out);
    for (size_t i = 0; manual->verbs && manual->verbs[i]; i++)
        put_verb(manual->verbs[i], out);
    if (manual->options) {
        (void)fputs(".SH OPTIONS\n", out);
        put_options(manual, out);
    }
    if (manual->closing) {
        (void)fputs(".SH NOTES\n", out);
        put_lines(manual->closing + strspn(manual->closing, "\n"), out);
    }
    (void)fputs(".SH SEE ALSO\n.BR hearth (1)\n", out);
}

static const char environment[] =
    ".SH ENVIRONMENT\n"
    ".TP\n.B HEARTH_CACHE\n"
    "the cache directory, unless \\fB\\-\\-cache\\fR is given; otherwise \\fI$XDG_CACHE_HOME/hearth/kv\\fR or\n"
    "\\fI\\(ti/.cache/hearth/kv\\fR\n"
    ".TP\n.BR HEARTH_URL \", \" HEARTH_API_KEY\n"
    "the address of a server, and the key for it\n"
    ".TP\n.B HEARTH_ENGINE_DIRECTORY\n"
    "the directory of the engine module \\fIhearth\\-llama.so\\fR; otherwise it is beside the program or in the "
    "library\n"
    "directory\n"
    ".TP\n.B HEARTH_ATTENTION\n"
    "\\fBengine\\fR selects the engine\\(aqs own attention for decoding, in builds that have another one; for "
    "comparisons.\n"
    "The two do not share cached rows\n"
    ".TP\n.B NOTIFY_SOCKET\n"
    "the socket on which \\fBhearth serve\\fR tells systemd that it listens, reloads and stops\n"
    ".SH FILES\n"
    ".TP\n.I CACHE/rows/ab/ab12...\\-block.kvc\n"
    "one row: the cells of 256 tokens (block), the cells behind the last block (tail), the state of a whole prefix\n"
    "(snapshot), or the logits at the end of a prompt (logits)\n"
    ".TP\n.I CACHE/index/\n"
    "the list of rows; Hearth makes it again from the files when it is missing\n"
    ".TP\n.I CACHE/quarantine/\n"
    "rows that failed their checks; may be deleted\n"
    ".TP\n.IR CACHE/owners/ \", \" CACHE/temporary/\n"
    "the live processes, and the files that they are writing\n"
    ".TP\n.I CACHE/fingerprints/\n"
    "hashes of model files, so that a large one is hashed once\n"
    ".TP\n.I $XDG_DATA_HOME/hearth/chats\n"
    "conversations of \\fBhearth chat\\fR; default \\fI\\(ti/.local/share/hearth/chats\\fR\n"
    ".SH EXIT STATUS\n"
    "0 done, 1 failed, 2 wrong usage, 130 interrupted. The first Ctrl\\-C ends generation and keeps the computed part; "
    "the\n"
    "second ends the program at once.\n";

void hth_man_overview_print(FILE *out)
{
    begin("hearth", 1, out);
    (void)fputs(".SH NAME\nhearth \\- run language models without computing the same prompt twice\n"
                ".SH SYNOPSIS\n.B hearth\n.I COMMAND\n.RI [ OPTIONS ]\n"
                ".SH DESCRIPTION\nEach command has a page of its own, such as\n.BR hearth\\-run (1).\n",
                out);
    for (const hth_command *c = hth_commands; c->manual; c++) {
        if (c->group) {
            (void)fputs(".SS \"", out);
            put(c->group, strlen(c->group), out);
            (void)fputs("\"\n", out);
        }
        (void)fprintf(out, ".TP\n.BR hearth\\-%s (1)\n", c->manual->name);
        put_text(c->manual->summary, out);
    }
    (void)fputs(environment, out);
    (void)fputs(".SH EXAMPLES\n.nf\n"
                "hearth chat model.gguf\n"
                "hearth run model.gguf \\-\\-chat \\-p \\(aqWhy is the sky blue?\\(aq\n"
                "hearth serve \\-m chat=model.gguf \\-\\-port 8080\n"
                "hearth cache why model.gguf \\-f report.txt\n"
                ".fi\n"
                ".SH SEE ALSO\n.BR hearth.conf (5)\n",
                out);
}

/* ---- hearth.conf ---- */

static void put_key(const hth_serve_key *key, void *user_data)
{
    const hth_option *option = key->option;
    FILE *out = user_data;

    (void)fputs(".TP\n\\fB", out);
    put(key->section, strlen(key->section), out);
    put(option->key, strlen(option->key), out);
    (void)fputs("\\fR", out);
    if (option->value) {
        (void)fputs(" = \\fI", out);
        put(option->value, strlen(option->value), out);
        (void)fputs("\\fR", out);
    }
    (void)fputc('\n', out);
    if (option->kind == HTH_OPTION_TABLE) {
        (void)fprintf(out, "a section with the keys of \\fB%s\\fR; what it has wins over \\fB%s\\fR for this model\n",
                      option->key, option->key);
        return;
    }
    put(option->help, strlen(option->help), out);
    if (key->value) {
        (void)fputs(" (default ", out);
        put(key->value, strlen(key->value), out);
        (void)fputc(')', out);
    }
    (void)fputc('\n', out);
}

void hth_man_config_print(FILE *out)
{
    begin("hearth.conf", 5, out);
    (void)fputs(".SH NAME\nhearth.conf \\- configuration of the server of Hearth\n"
                ".SH SYNOPSIS\n.B hearth serve \\-\\-config\n.I FILE\n"
                ".SH DESCRIPTION\n",
                out);
    put_lines("Keys have the form 'key = value;'. A section is a name with keys between braces, and here the name of a "
              "section and a dot stand before its keys. A model is a section 'model \"NAME\" { ... }', which may come "
              "several times. A '#' begins a comment. A relative path starts from the folder of the file.\n"
              "\n"
              "'hearth serve --config FILE --check' checks a file, 'hearth serve --print-config' prints the keys in "
              "effect as such a file, and SIGHUP lets a server read its file again. Options of the command line win "
              "over the file.\n",
              out);
    (void)fputs(".SH KEYS\n", out);
    (void)hth_serve_keys_visit(put_key, out); /* if out of memory, there are no keys */
    (void)fputs(
        ".SH EXAMPLE\n.nf\nlisten = [\"127.0.0.1:8080\"];\nmodel \"chat\" {\n  path = \"/srv/models/chat.gguf\";\n"
        "  context = 32768;\n}\n.fi\n"
        ".SH SEE ALSO\n.BR hearth\\-serve (1)\n",
        out);
}
