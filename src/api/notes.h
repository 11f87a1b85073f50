/*
 * notes.h - what of a request was passed over
 *
 * A client that sends more than the server knows gets its answer all the same, and is told in one place what had no effect:
 * the header x-hearth-ignored. A note is a field's path, in which an index is "[]", so that a field of a hundred messages is
 * one note. Each is there once. Names come from clients, so a note has nothing but letters, digits and "_-.[]/#=:+$"; any other
 * byte is a "?". A list that has no room for a note ends with "and more".
 */
#ifndef HTH_API_NOTES_H
#define HTH_API_NOTES_H

#include <stdbool.h>
#include <stddef.h>

enum {
    HTH_API_NOTES_BYTES = 512, /* of the list, with its end */
    HTH_API_NOTE_BYTES = 80,   /* of one note; longer ones are cut */
};

#define HTH_API_NOTES_HEADER "x-hearth-ignored"
#define HTH_API_NOTES_REST "and more"

typedef struct hth_api_notes {
    char text[HTH_API_NOTES_BYTES]; /* "a, b.c[]"; "" for none */
    size_t n_bytes;                 /* of the notes, without what ends a full list */
    bool is_full;                   /* something had no room */
} hth_api_notes;

/* Note a path. NULL notes: nothing is noted. One thread at a time. */
void hth_api_note(hth_api_notes *notes, const char *path);

/* Note all that another list has. */
void hth_api_notes_join(hth_api_notes *notes, const hth_api_notes *more);

/*
 * Go through a list as the header has it: copies the note that begins at *at into out, and moves *at behind it. False: that
 * was all, or what follows is no list of notes.
 */
bool hth_api_notes_next(const char **at, char out[HTH_API_NOTE_BYTES + 1]);

#endif
