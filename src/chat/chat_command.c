/*
 * chat_command.c - `hearth chat`: a conversation in the terminal
 *
 *   a line -> a command such as /help, or a message -> the source's reply -> the conversation's file
 *
 * Ctrl-C stops a reply; its text so far stays in the conversation.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/os.h"
#include "chat/dialog_line.h"
#include "chat/dialog_signals.h"
#include "chat/dialog_source.h"
#include "chat/dialog_talk.h"
#include "chat/dialog_view.h"
#include "console/nearest.h"
#include "console/output.h"
#include "console/text_file.h"
#include "options/commands.h"
#include "options/default_options.h"
#include "options/model_source.h"
#include "options/option_table.h"
#include "options/values.h"

typedef struct chat_options {
    hth_dialog_settings settings;
    const char *url;
    const char *key;
    const char *system;
    const char *load;
    bool goes_on;
    bool keeps_nothing;
    bool no_wrap;
} chat_options;

#define AT(field) offsetof(chat_options, field)
#define IN_SETUP(field) (AT(settings) + offsetof(hth_dialog_settings, setup) + offsetof(hth_model_setup, field))

static const hth_option rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "Conversation" },
    { "system", 0, HTH_OPTION_TEXT, "TEXT", "the system message", .offset = AT(system), .is_common = true },
    { "continue", 0, HTH_OPTION_FLAG, NULL, "go on with the conversation that was saved last", .offset = AT(goes_on),
      .is_common = true },
    { "load", 0, HTH_OPTION_TEXT, "NAME", "go on with this conversation", .offset = AT(load), .is_common = true },
    { "no-save", 0, HTH_OPTION_FLAG, NULL, "keep neither the conversation nor the typed lines",
      .offset = AT(keeps_nothing), .is_common = true },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_template_options, .offset = AT(settings.setup) },
    { .kind = HTH_OPTION_TABLE, .table = &hth_thinking_options, .offset = IN_SETUP(defaults) },
    { .kind = HTH_OPTION_HEADING, .help = "Server" },
    { "url", 0, HTH_OPTION_TEXT, "URL",
      "talk to the server at this address (or at the socket unix:FILE), with OpenAI's API, instead of loading a model; "
      "MODEL is then a model of the server (default: its first)",
      .offset = AT(url), .is_common = true },
    { "api-key", 0, HTH_OPTION_TEXT, "KEY",
      "the key for it (default: $HEARTH_API_KEY). Other users of this machine can see it: better use the variable",
      .offset = AT(key) },
    { .kind = HTH_OPTION_HEADING, .help = "Replies" },
    { "predict", 'n', HTH_OPTION_COUNT, "N", "at most N tokens a reply", .offset = IN_SETUP(defaults.n_predict),
      .low = 1, .high = INT32_MAX, .is_common = true },
    { .kind = HTH_OPTION_TABLE, .table = &hth_sampling_options, .offset = IN_SETUP(defaults) },
    { .kind = HTH_OPTION_HEADING, .help = "Cache" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_cache_options, .offset = AT(settings.setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Engine" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_engine_options, .offset = AT(settings.setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Output" },
    { "no-wrap", 0, HTH_OPTION_FLAG, NULL, "do not break a terminal's lines between words", .offset = AT(no_wrap) },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "no progress, no numbers, no warnings", .offset = AT(settings.is_quiet),
      .is_common = true },
    { "verbose", 'v', HTH_OPTION_FLAG, NULL, "show the log, including the engine's",
      .offset = AT(settings.is_verbose) },
    { "help", 'h', HTH_OPTION_END, .help = "the most used options", .is_common = true },
    { "help-all", 0, HTH_OPTION_END, .help = "all options: sampling, cache, engine", .is_common = true },
};

/* ---- replies ---- */

/* A conversation of the user with a source of replies. */
typedef struct conversation {
    hth_dialog_source *source;
    hth_talk talk;
    hth_dialog_view view;
    hth_dialog_line *line;
    char name[NAME_MAX + 1];    /* of the conversation's file */
    bool keeps;                 /* the conversation is saved after each reply */
    hth_dialog_figures figures; /* of the last reply */
    bool has_figures;
    bool has_failed; /* a reply failed, or a message was invalid */
    bool is_over;    /* the user has said goodbye */
} conversation;

/* Continue a saved conversation, and tell the user. */
static bool open_talk(conversation *dialog, const char *name, hearth_error *err)
{
    if (hth_talk_load(&dialog->talk, name, err) != HEARTH_OK)
        return false;
    (void)snprintf(dialog->name, sizeof(dialog->name), "%s", name);
    dialog->has_figures = false;
    if (!dialog->view.is_quiet)
        hth_dialog_view_say(&dialog->view, "%s, %zu messages", name, json_array_size(dialog->talk.messages));
    return true;
}

/*
 * Reply to the conversation in its current state, and save it. False if the source failed, which was reported to the
 * user.
 */
static bool reply(conversation *dialog)
{
    hearth_error err = { .message = "" };
    hth_dialog_hooks hooks;
    const char *answer;
    hearth_status status;

    hth_dialog_stop = hth_dialog_ends;
    dialog->figures = (hth_dialog_figures){ .has_counts = false };
    hth_dialog_view_begin(&dialog->view, &hooks);
    status = dialog->source->reply(dialog->source, &dialog->talk, &hooks, &dialog->figures, &err);
    dialog->figures.is_cut = status == HEARTH_CANCELLED;
    dialog->has_figures = status == HEARTH_OK || status == HEARTH_CANCELLED;
    hth_dialog_view_end(&dialog->view, dialog->has_figures ? &dialog->figures : NULL);
    if (status != HEARTH_OK && status != HEARTH_CANCELLED) {
        hth_dialog_view_say(&dialog->view, "hearth: %s", err.message);
        if (status == HEARTH_TOO_LONG)
            hth_dialog_view_say(&dialog->view, "/clear begins a new conversation");
        dialog->has_failed = true;
        return false;
    }
    if (status == HEARTH_CANCELLED)
        hth_dialog_view_say(&dialog->view, "(stopped)");
    /* A stopped reply that ended within reasoning has no answer yet, and is not kept. */
    answer = hth_buffer_text(&dialog->view.answer);
    if (*answer != '\0' && !hth_talk_add(&dialog->talk, "assistant", answer, hth_buffer_text(&dialog->view.thoughts))) {
        hth_dialog_view_say(&dialog->view, "hearth: the reply is no valid text, and is left out of the conversation");
        dialog->has_failed = true;
    }
    hth_dialog_stop = hth_dialog_ends;
    if (dialog->keeps && hth_talk_save(&dialog->talk, dialog->name, dialog->source->model, &err) != HEARTH_OK)
        hth_dialog_view_say(&dialog->view, "hearth: warning: the conversation is not kept: %s", err.message);
    return true;
}

/* ---- words: /help, /save, /temp, ... ---- */

typedef struct word {
    const char *name;  /* without '/' */
    const char *value; /* in the help; NULL: no value */
    const char *help;
    void (*run)(conversation *dialog, const char *value);
} word;

static void save(conversation *dialog, const char *value)
{
    hearth_error err = { .message = "" };
    const char *name = *value ? value : dialog->name;
    const bool is_new = strcmp(name, dialog->name) != 0;
    bool had_file;

    if (is_new && hth_talk_is_kept(name)) {
        hth_dialog_view_say(&dialog->view, "there is a conversation '%s' already; take another name", name);
        return;
    }
    had_file = dialog->talk.has_file;
    if ((is_new ? hth_talk_save_as(&dialog->talk, name, dialog->source->model, &err)
                : hth_talk_save(&dialog->talk, dialog->name, dialog->source->model, &err)) != HEARTH_OK) {
        hth_dialog_view_say(&dialog->view, "%s", err.message);
        return;
    }
    if (is_new) {
        if (had_file)
            hth_talk_remove(dialog->name); /* it has a new name now */
        (void)snprintf(dialog->name, sizeof(dialog->name), "%s", name);
    }
    hth_dialog_view_say(&dialog->view, "saved as '%s'; '/load %s' opens it", dialog->name, dialog->name);
}

static void load(conversation *dialog, const char *value)
{
    hearth_error err = { .message = "" };

    if (!*value && !hth_talk_list(stderr))
        hth_dialog_view_say(&dialog->view, "no conversation is kept yet");
    if (*value && !open_talk(dialog, value, &err))
        hth_dialog_view_say(&dialog->view, "%s", err.message);
}

static void clear(conversation *dialog, const char *value)
{
    (void)value; /* it takes none */
    hth_talk_clear(&dialog->talk);
    hth_talk_new_name(dialog->name);
    dialog->has_figures = false;
    hth_dialog_view_say(&dialog->view, "a new conversation");
}

static void set_system(conversation *dialog, const char *value)
{
    if (*value && !hth_talk_set_system(&dialog->talk, strcmp(value, "-") == 0 ? NULL : value))
        hth_dialog_view_say(&dialog->view, "no memory for the system message");
    else
        hth_dialog_view_say(&dialog->view, "system message: %s", dialog->talk.system ? dialog->talk.system : "none");
}

static void set_temperature(conversation *dialog, const char *value)
{
    hearth_error err = { .message = "" };

    if (strcmp(value, "-") == 0)
        dialog->talk.temperature = NAN;
    else if (*value && !hth_value_number("the temperature", value, 0, 100, &dialog->talk.temperature, &err))
        hth_dialog_view_say(&dialog->view, "%s", err.message);
    if (*err.message)
        return;
    if (isnan(dialog->talk.temperature))
        hth_dialog_view_say(&dialog->view, "temperature: that of the model");
    else
        hth_dialog_view_say(&dialog->view, "temperature: %g", dialog->talk.temperature);
}

static bool has_question(conversation *dialog)
{
    if (hth_talk_last_question(&dialog->talk))
        return true;
    hth_dialog_view_say(&dialog->view, "there is no message yet");
    return false;
}

static void regenerate(conversation *dialog, const char *value)
{
    (void)value; /* it takes none */
    if (!has_question(dialog))
        return;
    hth_talk_drop_reply(&dialog->talk, false);
    (void)reply(dialog); /* a failure was reported; the question stays for another /regen */
}

static void ask_instead(conversation *dialog, const char *text)
{
    json_t *valid = json_string(text);

    if (valid) {
        hth_talk_drop_reply(&dialog->talk, true);
        (void)hth_talk_add(&dialog->talk, "user", text, "");
        (void)reply(dialog); /* as above */
    } else {
        hth_dialog_view_say(&dialog->view, "the message is no valid UTF-8");
        dialog->has_failed = true;
    }
    json_decref(valid);
}

/* The shell command to edit a path; false if it is too long. */
static bool editor_command(const char *editor, const char *path, char *out, size_t capacity)
{
    size_t n = (size_t)snprintf(out, capacity, "%s '", editor);

    for (; *path && n + 4 < capacity; path++)
        n += (size_t)snprintf(out + n, capacity - n, "%s%c", *path == '\'' ? "'\\'" : "", *path);
    return n + 1 < capacity && *path == '\0' && snprintf(out + n, capacity - n, "'") == 1;
}

/* The editor receives signals; system() shields this program from them meanwhile. */
static bool run_editor(const char *command)
{
    int status;

    hth_dialog_signals_let_in(true);
    status = system(command); /* NOLINT(cert-env33-c): the user's own editor, as other programs start it */
    hth_dialog_signals_let_in(false);
    hth_dialog_stop = hth_dialog_ends;
    return status == 0;
}

/* Let the user edit text in an editor; NULL, with a message, on failure. The caller frees the result. */
static char *edit_text(conversation *dialog, const char *text)
{
    const char *editor = getenv("VISUAL"), *folder = getenv("TMPDIR");
    char path[PATH_MAX], command[4 * PATH_MAX], *changed = NULL;
    bool is_written;
    FILE *file;
    int fd;

    editor = editor && *editor ? editor : getenv("EDITOR");
    (void)snprintf(path, sizeof(path), "%s/hearth-message-XXXXXX", folder && *folder ? folder : "/tmp");
    fd = mkstemp(path);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        hth_dialog_view_say(&dialog->view, "cannot make a file in the folder for temporary files: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
            (void)unlink(path); /* it was made above */
        }
        return NULL;
    }
    is_written = fputs(text, file) >= 0;
    is_written &= fclose(file) == 0;
    if (!is_written)
        hth_dialog_view_say(&dialog->view, "cannot write '%s'", path);
    else if (!editor_command(editor && *editor ? editor : "vi", path, command, sizeof(command)) || !run_editor(command))
        hth_dialog_view_say(&dialog->view,
                            "the editor failed; $VISUAL or $EDITOR names another, '/edit TEXT' needs none");
    else
        changed = hth_text_file_read(path);
    (void)unlink(path); /* it was made above */
    return changed;
}

static void edit(conversation *dialog, const char *value)
{
    char *changed;

    if (!has_question(dialog))
        return;
    if (*value) {
        ask_instead(dialog, value);
        return;
    }
    if (!hth_dialog_line_is_terminal(dialog->line)) {
        hth_dialog_view_say(&dialog->view, "without a terminal, /edit needs the new text behind it");
        return;
    }
    changed = edit_text(dialog, hth_talk_last_question(&dialog->talk));
    if (changed && changed[strspn(changed, " \t\r\n")] == '\0')
        hth_dialog_view_say(&dialog->view, "the message is empty, and stays as it was");
    else if (changed)
        ask_instead(dialog, changed);
    free(changed);
}

static void why(conversation *dialog, const char *value)
{
    (void)value; /* it takes none */
    if (dialog->has_figures)
        hth_dialog_view_why(&dialog->view, &dialog->figures);
    else
        hth_dialog_view_say(&dialog->view, "there is no reply yet");
}

static void quit(conversation *dialog, const char *value)
{
    (void)value; /* it takes none */
    dialog->is_over = true;
}

static void help(conversation *dialog, const char *value);

static const word words[] = {
    { "help", NULL, "show this list", help },
    { "why", NULL, "how much of the last prompt was known, and why", why },
    { "regen", NULL, "another reply to the last message", regenerate },
    { "edit", "[TEXT]", "change the last message, in $EDITOR or to TEXT", edit },
    { "clear", NULL, "begin a new conversation with the same settings", clear },
    { "save", "[NAME]", "give the conversation a name", save },
    { "load", "[NAME]", "open a conversation, or list them", load },
    { "system", "[TEXT]", "set the system message, or show it; -: none", set_system },
    { "temp", "[T]", "set the temperature, or show it; -: the model's", set_temperature },
    { "quit", NULL, "end; so does Ctrl-D", quit },
    { "bye", NULL, NULL, quit }, /* familiar to users of Ollama */
    { "exit", NULL, NULL, quit },
};

enum { N_WORDS = sizeof(words) / sizeof(words[0]) };

static void help(conversation *dialog, const char *value)
{
    (void)value; /* it takes none */
    for (size_t i = 0; i < N_WORDS; i++) {
        char shown[32];

        if (!words[i].help)
            continue;
        (void)snprintf(shown, sizeof(shown), "/%s %s", words[i].name, words[i].value ? words[i].value : "");
        hth_dialog_view_say(&dialog->view, "  %-16s %s", shown, words[i].help);
    }
    hth_dialog_view_say(&dialog->view,
                        "A backslash at the end of a line continues the message; \"\"\" begins and ends\n"
                        "one of many lines. Ctrl-C stops a reply.");
}

static void run_word(conversation *dialog, const char *name, const char *value)
{
    hth_nearest nearest;

    hth_nearest_init(&nearest, name);
    for (size_t i = 0; i < N_WORDS; i++) {
        if (strcmp(words[i].name, name) == 0) {
            words[i].run(dialog, value);
            return;
        }
        hth_nearest_try(&nearest, words[i].name);
    }
    dialog->has_failed = true;
    if (nearest.name)
        hth_dialog_view_say(&dialog->view, "there is no word '/%s'; did you mean '/%s'?", name, nearest.name);
    else
        hth_dialog_view_say(&dialog->view, "there is no word '/%s'; /help lists them", name);
}

/* Run the command in the line, which begins with '/'. Mistakes are reported to the user. */
static void take_word(conversation *dialog, const char *line)
{
    char *copy = strdup(line + 1), *value;
    size_t n = copy ? strlen(copy) : 0;

    if (!copy) {
        hth_dialog_view_say(&dialog->view, "no memory");
        return;
    }
    while (n > 0 && strchr(" \t\n", copy[n - 1]))
        copy[--n] = '\0';
    value = copy + strcspn(copy, " \t\n");
    if (*value)
        *value++ = '\0';
    run_word(dialog, copy, value + strspn(value, " \t\n"));
    free(copy);
}

/* ---- the conversation ---- */

static void ask(conversation *dialog, const char *text, size_t n_bytes)
{
    if (strlen(text) < n_bytes) {
        hth_dialog_view_say(&dialog->view, "hearth: the message has a zero byte, and is left out");
        dialog->has_failed = true;
        return;
    }
    if (hth_talk_has_open_question(&dialog->talk)) { /* templates refuse two questions in a row */
        hth_dialog_view_say(&dialog->view, "(the message before this one has no reply, and is left out)");
        hth_talk_drop_reply(&dialog->talk, true);
    }
    if (!hth_talk_add(&dialog->talk, "user", text, "")) {
        hth_dialog_view_say(&dialog->view, "hearth: the message is no valid UTF-8, and is left out");
        dialog->has_failed = true;
    } else if (!reply(dialog)) {
        hth_talk_drop_reply(&dialog->talk, true); /* the user can ask again */
    }
}

static void converse(conversation *dialog)
{
    const char *text;
    size_t n_bytes;

    while (!dialog->is_over && !hth_dialog_ends && !dialog->view.has_failed &&
           (text = hth_dialog_line_read(dialog->line, &n_bytes))) {
        if (*text == '/' && !hth_dialog_line_was_block(dialog->line) && strlen(text) == n_bytes) {
            take_word(dialog, text);
        } else {
            ask(dialog, text, n_bytes);
        }
    }
    if (dialog->view.has_failed)
        (void)hth_output_end(HTH_EXIT_FAILED); /* reports it */
    if (hth_dialog_line_fault(dialog->line))
        hth_dialog_view_say(&dialog->view, "hearth: %s", hth_dialog_line_fault(dialog->line));
}

static int exit_code_of(const conversation *dialog)
{
    if (hth_dialog_ends)
        return hth_dialog_signals_exit_code();
    if (dialog->view.has_failed || hth_dialog_line_fault(dialog->line))
        return HTH_EXIT_FAILED;
    /* On a terminal, the user saw the failure and continued. */
    return dialog->has_failed && !hth_dialog_line_is_terminal(dialog->line) ? HTH_EXIT_FAILED : HTH_EXIT_OK;
}

static bool begin(conversation *dialog, const chat_options *options, hearth_error *err)
{
    char newest[NAME_MAX + 1];
    const char *name = options->load;

    hth_talk_new_name(dialog->name);
    if (options->goes_on && !name) {
        if (!hth_talk_newest(newest)) {
            (void)snprintf(err->message, sizeof(err->message), "--continue: no conversation is kept yet");
            return false;
        }
        name = newest;
    }
    if (name && !open_talk(dialog, name, err))
        return false;
    if (!isnan(options->settings.setup.defaults.sampling.temperature))
        dialog->talk.temperature = options->settings.setup.defaults.sampling.temperature;
    if (options->system && !hth_talk_set_system(&dialog->talk, options->system)) {
        (void)snprintf(err->message, sizeof(err->message), "no memory for the system message");
        return false;
    }
    return true;
}

/* A model from a file is shown by the file's name, without directories. */
static void greet(conversation *dialog)
{
    const char *model = dialog->source->model;
    char *name = hth_gguf_is_name(model) ? hth_gguf_name_of_path(model) : NULL;

    hth_dialog_view_say(&dialog->view, "%s. Type a message; /help shows the words, Ctrl-D ends.", name ? name : model);
    free(name);
}

static int chat_with(hth_dialog_source *source, const chat_options *options)
{
    conversation dialog = { .source = source, .keeps = !options->keeps_nothing };
    char history[PATH_MAX + 16], folder[PATH_MAX];
    hearth_error err = { .message = "" };
    int exit_code = HTH_EXIT_FAILED;

    if (hth_talk_folder(folder))
        (void)snprintf(history, sizeof(history), "%s/.history", folder); /* sized for it */
    else
        dialog.keeps = false;
    hth_dialog_view_init(&dialog.view, options->settings.is_quiet);
    dialog.view.wrap.is_off = options->no_wrap;
    dialog.line = hth_dialog_line_open(dialog.keeps ? history : NULL);
    if (!hth_talk_init(&dialog.talk) || !dialog.line) {
        (void)fputs("hearth: no memory for a conversation\n", stderr);
    } else if (!begin(&dialog, options, &err)) {
        hth_say_error(&err);
    } else {
        if (hth_dialog_line_is_terminal(dialog.line) && !options->settings.is_quiet)
            greet(&dialog);
        converse(&dialog);
        exit_code = exit_code_of(&dialog);
    }
    hth_dialog_line_close(dialog.line);
    hth_talk_deinit(&dialog.talk);
    hth_dialog_view_deinit(&dialog.view);
    return exit_code;
}

/* ---- the command ---- */

static void init(void *options)
{
    chat_options *out = options;

    memset(out, 0, sizeof(*out));
    hth_model_setup_init(&out->settings.setup);
    out->settings.setup.model.n_parallel = 1;
}

const hth_manual hth_chat_manual = {
    .name = "chat",
    .summary = "talk with a model in the terminal",
    .usage =
        "usage: hearth chat MODEL [OPTIONS]\n"
        "       hearth chat --url URL [MODEL] [OPTIONS]\n"
        "\n"
        "Talks with a model in the terminal. Conversations are kept, and what the model computed with them: a "
        "conversation\n"
        "that is opened again goes on at once. Type /help there for its words.\n"
        "MODEL is the path of a GGUF file, OWNER/REPO[:QUANT] of a hub, which is downloaded if it is not there, or\n"
        "NAME[:TAG] of Ollama. Without a terminal each line of standard input is a message.\n"
        "\n",
    .closing =
        "\nCtrl-C stops a reply, Ctrl-D ends. Exit codes: 0 done; 1 failed, without a terminal also if a message or a\n"
        "reply did; 2 wrong usage; 130 interrupted; 143 ended by SIGTERM.\n"
        "\n"
        "  hearth chat models/hearth-tiny.gguf\n"
        "  hearth chat --url http://127.0.0.1:8080\n",
    .options = HTH_OPTION_ROWS(rows),
    .init = init,
    .n_bytes = sizeof(chat_options),
    .arguments = HTH_COMPLETE_MODEL,
};

static hearth_status open_source(chat_options *options, const char *model, hth_dialog_source **out, hearth_error *err)
{
    static char path[PATH_MAX];
    const char *key = options->key ? options->key : getenv("HEARTH_API_KEY");
    hearth_status status;

    if (options->url) {
        hth_dialog_signals_catch();
        return hth_dialog_server_open(options->url, key && *key ? key : NULL, model, &options->settings.setup.defaults,
                                      out, err);
    }
    /* Before signals are caught: an interrupted download needs no cleanup. */
    status = hth_model_source_find(model, true, options->settings.is_quiet, path, err);
    if (status != HEARTH_OK)
        return status;
    hth_dialog_signals_catch();
    options->settings.name = model;
    options->settings.setup.path = path;
    return hth_dialog_local_open(&options->settings, out, err);
}

int hth_command_chat(int argc, char **argv)
{
    static chat_options options;
    hth_dialog_source *source = NULL;
    hearth_error err = { .message = "" };
    hearth_status status;
    int first, exit_code;

    init(&options);
    first = hth_manual_parse(&hth_chat_manual, NULL, argc, argv, &options, &exit_code);
    if (first < 0)
        return exit_code;
    if (argc - first > 1)
        return hth_say("chat takes one MODEL; messages are typed, or come from standard input", HTH_EXIT_USAGE);
    if (first == argc && !options.url)
        return hth_say("chat needs a MODEL, a GGUF file or OWNER/REPO[:QUANT] of a hub, or --url; 'hearth chat --help' "
                       "shows an example",
                       HTH_EXIT_USAGE);
    if (options.load && options.goes_on)
        return hth_say("--load and --continue exclude each other; give one", HTH_EXIT_USAGE);
    status = open_source(&options, first < argc ? argv[first] : NULL, &source, &err);
    if (status != HEARTH_OK) {
        if (status != HEARTH_CANCELLED)
            hth_say_error(&err);
        return status == HEARTH_CANCELLED ? hth_dialog_signals_exit_code() : HTH_EXIT_FAILED;
    }
    exit_code = chat_with(source, &options);
    source->close(source);
    return exit_code;
}
