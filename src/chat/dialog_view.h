/*
 * dialog_view.h - a reply on the screen: dimmed reasoning, the answer, and one line of numbers
 *
 * Colors and numbers are for terminals; NO_COLOR (no-color.org) and TERM=dumb turn colors off. To a pipe, only the
 * answer is written.
 */
#ifndef HTH_CHAT_DIALOG_VIEW_H
#define HTH_CHAT_DIALOG_VIEW_H

#include "api/buffer.h"
#include "chat/dialog_source.h"
#include "console/progress.h"
#include "console/wrap.h"

typedef struct hth_dialog_view {
    bool is_terminal; /* standard output */
    bool has_colours;
    bool is_quiet; /* no line of numbers */
    hth_progress progress;

    /* of the current reply */
    hth_buffer answer, thoughts;
    hth_word_wrap wrap;
    bool is_dim;       /* reasoning was written last */
    bool ends_in_line; /* the last character was a line end, or nothing was written */
    bool has_failed;   /* writing failed */
} hth_dialog_view;

void hth_dialog_view_init(hth_dialog_view *view, bool is_quiet);
void hth_dialog_view_deinit(hth_dialog_view *view);

/* A reply begins; hooks_out directs its text to the view. */
void hth_dialog_view_begin(hth_dialog_view *view, hth_dialog_hooks *hooks_out);
/* The reply has ended; figures NULL: it failed. */
void hth_dialog_view_end(hth_dialog_view *view, const hth_dialog_figures *figures);

/* Print a message that is not part of the conversation to standard error; at most 4095 bytes. */
void hth_dialog_view_say(hth_dialog_view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Explain how much of the prompt was known, and why the rest was not. */
void hth_dialog_view_why(hth_dialog_view *view, const hth_dialog_figures *figures);

#endif
