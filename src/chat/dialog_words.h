/*
 * dialog_words.h - the words of `hearth chat` that are no messages: /help, /save, /temp, ...
 */
#ifndef HTH_CHAT_DIALOG_WORDS_H
#define HTH_CHAT_DIALOG_WORDS_H

#include "chat/dialog.h"

/* Do what the line says, which begins with '/'. Mistakes are told to the user. */
void hth_dialog_word(hth_dialog *dialog, const char *line);

#endif
