/*
 * dialog_words.h - the commands within `hearth chat`: /help, /save, /temp, ...
 */
#ifndef HTH_CHAT_DIALOG_WORDS_H
#define HTH_CHAT_DIALOG_WORDS_H

#include "chat/dialog.h"

/* Run the command in the line, which begins with '/'. Mistakes are reported to the user. */
void hth_dialog_word(hth_dialog *dialog, const char *line);

#endif
