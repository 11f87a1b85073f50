/*
 * dialog.c - see dialog.h
 */
#include "chat/dialog.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "chat/dialog_signals.h"
#include "console/nearest.h"
#include "console/text_file.h"
#include "options/values.h"

bool hth_dialog_open_talk(hth_dialog *dialog, const char *name, hearth_error *err)
{
    if (hth_talk_load(&dialog->talk, name, err) != HEARTH_OK)
        return false;
    (void)snprintf(dialog->name, sizeof(dialog->name), "%s", name);
    dialog->has_figures = false;
    if (!dialog->view.is_quiet)
        hth_dialog_view_say(&dialog->view, "%s, %zu messages", name, json_array_size(dialog->talk.messages));
    return true;
}

bool hth_dialog_reply(hth_dialog *dialog)
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

/* ---- commands: /help, /save, /temp, ... ---- */

typedef struct word {
    const char *name;  /* without '/' */
    const char *value; /* in the help; NULL: no value */
    const char *help;
    void (*run)(hth_dialog *dialog, const char *value);
} word;

/* ---- the conversation ---- */

static void save(hth_dialog *dialog, const char *value)
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

static void load(hth_dialog *dialog, const char *value)
{
    hearth_error err = { .message = "" };

    if (!*value && !hth_talk_list(stderr))
        hth_dialog_view_say(&dialog->view, "no conversation is kept yet");
    if (*value && !hth_dialog_open_talk(dialog, value, &err))
        hth_dialog_view_say(&dialog->view, "%s", err.message);
}

static void clear(hth_dialog *dialog, const char *value)
{
    (void)value; /* it takes none */
    hth_talk_clear(&dialog->talk);
    hth_talk_new_name(dialog->name);
    dialog->has_figures = false;
    hth_dialog_view_say(&dialog->view, "a new conversation");
}

static void set_system(hth_dialog *dialog, const char *value)
{
    if (*value && !hth_talk_set_system(&dialog->talk, strcmp(value, "-") == 0 ? NULL : value))
        hth_dialog_view_say(&dialog->view, "no memory for the system message");
    else
        hth_dialog_view_say(&dialog->view, "system message: %s", dialog->talk.system ? dialog->talk.system : "none");
}

static void set_temperature(hth_dialog *dialog, const char *value)
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

/* ---- the last turn ---- */

static bool has_question(hth_dialog *dialog)
{
    if (hth_talk_last_question(&dialog->talk))
        return true;
    hth_dialog_view_say(&dialog->view, "there is no message yet");
    return false;
}

static void regenerate(hth_dialog *dialog, const char *value)
{
    (void)value; /* it takes none */
    if (!has_question(dialog))
        return;
    hth_talk_drop_reply(&dialog->talk, false);
    (void)hth_dialog_reply(dialog); /* a failure was reported; the question stays for another /regen */
}

static void ask_instead(hth_dialog *dialog, const char *text)
{
    json_t *valid = json_string(text);

    if (valid) {
        hth_talk_drop_reply(&dialog->talk, true);
        (void)hth_talk_add(&dialog->talk, "user", text, "");
        (void)hth_dialog_reply(dialog); /* as above */
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
static char *edit_text(hth_dialog *dialog, const char *text)
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

static void edit(hth_dialog *dialog, const char *value)
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

static void why(hth_dialog *dialog, const char *value)
{
    (void)value; /* it takes none */
    if (dialog->has_figures)
        hth_dialog_view_why(&dialog->view, &dialog->figures);
    else
        hth_dialog_view_say(&dialog->view, "there is no reply yet");
}

static void quit(hth_dialog *dialog, const char *value)
{
    (void)value; /* it takes none */
    dialog->is_over = true;
}

/* ---- the list ---- */

static void help(hth_dialog *dialog, const char *value);

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

static void help(hth_dialog *dialog, const char *value)
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

static void run_word(hth_dialog *dialog, const char *name, const char *value)
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

void hth_dialog_word(hth_dialog *dialog, const char *line)
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
