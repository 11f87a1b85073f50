/*
 * dialog.c - see dialog.h
 */
#include "chat/dialog.h"

#include <stdio.h>

#include "chat/dialog_signals.h"

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

/* A stopped reply that ended within reasoning has no answer yet, and is not kept. */
static bool keep_reply(hth_dialog *dialog)
{
    const char *answer = hth_buffer_text(&dialog->view.answer);

    return *answer == '\0' || hth_talk_add(&dialog->talk, "assistant", answer, hth_buffer_text(&dialog->view.thoughts));
}

bool hth_dialog_reply(hth_dialog *dialog)
{
    hearth_error err = { .message = "" };
    hth_dialog_hooks hooks;
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
    if (!keep_reply(dialog)) {
        hth_dialog_view_say(&dialog->view, "hearth: the reply is no valid text, and is left out of the conversation");
        dialog->has_failed = true;
    }
    hth_dialog_stop = hth_dialog_ends;
    if (dialog->keeps && hth_talk_save(&dialog->talk, dialog->name, dialog->source->model, &err) != HEARTH_OK)
        hth_dialog_view_say(&dialog->view, "hearth: warning: the conversation is not kept: %s", err.message);
    return true;
}
