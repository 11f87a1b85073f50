/*
 * notes.h - the fields of a request that had no effect
 *
 * A client that sends unknown fields still gets its reply. The header x-hearth-ignored lists these fields. A note is
 * the path of a field, with "[]" for each index, so that one field in a hundred messages is one note. No note appears
 * twice. Names come from clients, so a note holds only letters, digits and "_-.[]/#=:+$"; any other byte becomes "?". A
 * full list ends with "and more".
 */
#ifndef HTH_API_NOTES_H
#define HTH_API_NOTES_H

#include <stdbool.h>
#include <stddef.h>

enum {
    HTH_API_NOTES_BYTES = 512, /* of the list, including the terminator */
    HTH_API_NOTE_BYTES = 80,   /* of one note; a longer one is truncated */
};

#define HTH_API_NOTES_HEADER "x-hearth-ignored"
#define HTH_API_NOTES_REST "and more"

typedef struct hth_api_notes {
    char text[HTH_API_NOTES_BYTES]; /* "a, b.c[]"; "" for none */
    size_t n_bytes;                 /* of the notes, without the end of a full list */
    bool is_full;                   /* a note did not fit */
} hth_api_notes;

/* Add a note; does nothing if notes is NULL. One thread at a time. */
void hth_api_note(hth_api_notes *notes, const char *path);

/* Add all notes of another list. */
void hth_api_notes_join(hth_api_notes *notes, const hth_api_notes *more);

/*
 * Iterate over a list in the form of the header: copy the note at *at to out and advance *at past it. False if there
 * are no more notes, or the rest is not a list of notes.
 */
bool hth_api_notes_next(const char **at, char out[HTH_API_NOTE_BYTES + 1]);

#endif
