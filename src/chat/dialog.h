/*
 * dialog.h - a conversation of the user with a source of replies
 */
#ifndef HTH_CHAT_DIALOG_H
#define HTH_CHAT_DIALOG_H

#include "chat/dialog_line.h"
#include "chat/dialog_source.h"
#include "chat/dialog_talk.h"
#include "chat/dialog_view.h"

/* A program's conversation. */
typedef struct hth_dialog {
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
} hth_dialog;

/*
 * Reply to the conversation in its current state, and save it. False if the source failed, which was reported to the
 * user.
 */
bool hth_dialog_reply(hth_dialog *dialog);
/* Continue a saved conversation, and tell the user. */
bool hth_dialog_open_talk(hth_dialog *dialog, const char *name, hearth_error *err);

/* Run the command in the line, which begins with '/'. Mistakes are reported to the user. */
void hth_dialog_word(hth_dialog *dialog, const char *line);

#endif
