/*
 * chat_command.c - `hearth chat`: a conversation in the terminal
 *
 *   a line -> a command such as /help (dialog.c), or a message -> the source's reply -> the conversation's file
 *
 * Ctrl-C stops a reply; its text so far stays in the conversation.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "chat/dialog.h"
#include "chat/dialog_signals.h"
#include "console/output.h"
#include "options/commands.h"
#include "options/model_source.h"
#include "options/option_table.h"

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

/* ---- the conversation ---- */

static void ask(hth_dialog *dialog, const char *text, size_t n_bytes)
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
    } else if (!hth_dialog_reply(dialog)) {
        hth_talk_drop_reply(&dialog->talk, true); /* the user can ask again */
    }
}

static void converse(hth_dialog *dialog)
{
    const char *text;
    size_t n_bytes;

    while (!dialog->is_over && !hth_dialog_ends && !dialog->view.has_failed &&
           (text = hth_dialog_line_read(dialog->line, &n_bytes))) {
        if (*text == '/' && !hth_dialog_line_was_block(dialog->line) && strlen(text) == n_bytes) {
            hth_dialog_word(dialog, text);
        } else {
            ask(dialog, text, n_bytes);
        }
    }
    if (dialog->view.has_failed)
        (void)hth_output_end(HTH_EXIT_FAILED); /* reports it */
    if (hth_dialog_line_fault(dialog->line))
        hth_dialog_view_say(&dialog->view, "hearth: %s", hth_dialog_line_fault(dialog->line));
}

static int exit_code_of(const hth_dialog *dialog)
{
    if (hth_dialog_ends)
        return hth_dialog_signals_exit_code();
    if (dialog->view.has_failed || hth_dialog_line_fault(dialog->line))
        return HTH_EXIT_FAILED;
    /* On a terminal, the user saw the failure and continued. */
    return dialog->has_failed && !hth_dialog_line_is_terminal(dialog->line) ? HTH_EXIT_FAILED : HTH_EXIT_OK;
}

static bool begin(hth_dialog *dialog, const chat_options *options, hearth_error *err)
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
    if (name && !hth_dialog_open_talk(dialog, name, err))
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
static void greet(hth_dialog *dialog)
{
    const char *model = dialog->source->model;
    char *name = hth_gguf_is_name(model) ? hth_gguf_name_of_path(model) : NULL;

    hth_dialog_view_say(&dialog->view, "%s. Type a message; /help shows the words, Ctrl-D ends.", name ? name : model);
    free(name);
}

static int chat_with(hth_dialog_source *source, const chat_options *options)
{
    hth_dialog dialog = { .source = source, .keeps = !options->keeps_nothing };
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
