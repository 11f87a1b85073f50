/*
 * dialog_talk.h - a conversation of `hearth chat`, and its file
 *
 * A file is one JSON object: `model` (the name that the user gave), `system`, `temperature`, and `messages` in OpenAI's
 * form. Files are private (mode 0600) in a folder of their own (mode 0700), and a file is always whole.
 */
#ifndef HTH_CHAT_DIALOG_TALK_H
#define HTH_CHAT_DIALOG_TALK_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "hearth.h"

typedef struct hth_talk {
    json_t *messages;   /* objects with `role`, `content`, and of a reply perhaps `reasoning_content` */
    char *system;       /* the system message; NULL: none */
    double temperature; /* NAN: that of the model */
    bool has_file;      /* was saved, or loaded */
} hth_talk;

bool hth_talk_init(hth_talk *talk); /* false: no memory */
void hth_talk_deinit(hth_talk *talk);
/* Forget all messages; system message and temperature stay. */
void hth_talk_clear(hth_talk *talk);

/* NULL: no system message. False: no memory. */
bool hth_talk_set_system(hth_talk *talk, const char *text);
/* Append a message; reasoning may be empty. False: no memory, or text that is not UTF-8. */
bool hth_talk_add(hth_talk *talk, const char *role, const char *content, const char *reasoning);
/* The content of the user's last message; NULL: there is none. */
const char *hth_talk_last_question(const hth_talk *talk);
/* Has the user's last message no reply? */
bool hth_talk_has_open_question(const hth_talk *talk);
/* Remove what came after the user's last message, and with_question that message, too. */
void hth_talk_drop_reply(hth_talk *talk, bool with_question);
/* The messages of a request: the system message before the others. A new reference; NULL: no memory. */
json_t *hth_talk_request(const hth_talk *talk);

/* The folder of conversations: $XDG_DATA_HOME/hearth/chats or ~/.local/share/hearth/chats. False: no home, too long. */
bool hth_talk_folder(char out[PATH_MAX]);
/*
 * The file of the conversation called name: 1 to 100 bytes, no '/', no '.' at the beginning, no control characters.
 * False, with a message, for others.
 */
bool hth_talk_path(const char *name, char out[PATH_MAX], hearth_error *err);
/* A name for a conversation that begins now: date and time, with a number if that is taken. */
void hth_talk_new_name(char out[NAME_MAX + 1]);
/* Is there a conversation of this name? */
bool hth_talk_is_kept(const char *name);
/*
 * Write the file, and the folder where it is missing. A talk that has no file yet takes another name where this one is
 * taken: two may begin in the same second.
 */
hearth_status hth_talk_save(hth_talk *talk, char name[NAME_MAX + 1], const char *model, hearth_error *err);
/* Write a file of another name, which must be free: HEARTH_MISUSE else. */
hearth_status hth_talk_save_as(hth_talk *talk, const char *name, const char *model, hearth_error *err);
/* Remove its file, if there is one. */
void hth_talk_remove(const char *name);
/* Read a file in place of the present messages, system message and temperature. After a failure they are unchanged. */
hearth_status hth_talk_load(hth_talk *talk, const char *name, hearth_error *err);
/* Print the kept conversations, the newest first, with their first question. False: there are none. */
bool hth_talk_list(FILE *out);
/* The name of the conversation that was saved last; false: there is none. */
bool hth_talk_newest(char out[NAME_MAX + 1]);

#endif
