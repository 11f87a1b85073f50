/*
 * dialog_talk.h - a conversation of `hearth chat`, and its file
 *
 * A file is one JSON object: `model` (the name that the user gave), `system`, `temperature`, and `messages` in OpenAI's
 * form. Files are private (mode 0600), in a directory of their own (mode 0700), and are written atomically.
 */
#ifndef HTH_CHAT_DIALOG_TALK_H
#define HTH_CHAT_DIALOG_TALK_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "hearth.h"

typedef struct hth_talk {
    json_t *messages;   /* objects with `role`, `content`, and for a reply optionally `reasoning_content` */
    char *system;       /* the system message; NULL: none */
    double temperature; /* NAN: the model's */
    bool has_file;      /* it was saved or loaded */
} hth_talk;

bool hth_talk_init(hth_talk *talk); /* false if out of memory */
void hth_talk_deinit(hth_talk *talk);
/* Remove all messages; the system message and temperature are kept. */
void hth_talk_clear(hth_talk *talk);

/* NULL: no system message. False if out of memory. */
bool hth_talk_set_system(hth_talk *talk, const char *text);
/* Append a message; reasoning may be empty. False if out of memory, or if the text is not UTF-8. */
bool hth_talk_add(hth_talk *talk, const char *role, const char *content, const char *reasoning);
/* The content of the user's last message; NULL: none. */
const char *hth_talk_last_question(const hth_talk *talk);
/* Does the user's last message have no reply yet? */
bool hth_talk_has_open_question(const hth_talk *talk);
/* Remove everything after the user's last message and, if with_question, that message, too. */
void hth_talk_drop_reply(hth_talk *talk, bool with_question);
/* The messages of a request: the system message before the others. A new reference; NULL if out of memory. */
json_t *hth_talk_request(const hth_talk *talk);

/*
 * The directory of conversations: $XDG_DATA_HOME/hearth/chats or ~/.local/share/hearth/chats. False if there is no
 * home, or the path is too long.
 */
bool hth_talk_folder(char out[PATH_MAX]);
/*
 * The file of the conversation called name: 1 to 100 bytes, no '/', no '.' at the beginning, no control characters.
 * False, with a message, for other names.
 */
bool hth_talk_path(const char *name, char out[PATH_MAX], hearth_error *err);
/* A name for a conversation that begins now: date and time, with a number if that is in use. */
void hth_talk_new_name(char out[NAME_MAX + 1]);
/* Is there a conversation of this name? */
bool hth_talk_is_kept(const char *name);
/*
 * Write the file, making the directory if it is missing. A conversation without a file yet gets another name if this
 * one is in use: two may begin in the same second.
 */
hearth_status hth_talk_save(hth_talk *talk, char name[NAME_MAX + 1], const char *model, hearth_error *err);
/* Write a file under another name; HEARTH_MISUSE if the name is in use. */
hearth_status hth_talk_save_as(hth_talk *talk, const char *name, const char *model, hearth_error *err);
/* Remove its file, if there is one. */
void hth_talk_remove(const char *name);
/*
 * Replace the current messages, system message and temperature by those in a file. After a failure they are unchanged.
 */
hearth_status hth_talk_load(hth_talk *talk, const char *name, hearth_error *err);
/* Print the saved conversations, newest first, with their first question. False if there are none. */
bool hth_talk_list(FILE *out);
/* The name of the conversation that was saved last; false if there is none. */
bool hth_talk_newest(char out[NAME_MAX + 1]);

#endif
