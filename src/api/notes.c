#include "api/notes.h"

#include <stdio.h>
#include <string.h>

static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.[]/#=:+$?";
static const char separator[] = ", ";

static const char rest[] = ", " HTH_API_NOTES_REST;

/* Write the path as a note. Returns the length of the note. */
static size_t write_note(const char *path, char out[HTH_API_NOTE_BYTES + 1])
{
    size_t n = 0;

    while (*path && n < HTH_API_NOTE_BYTES) {
        char c = *path++;

        out[n++] = strchr(good, c) ? c : '?';
        if (c == '[')
            path += strspn(path, "0123456789");
    }
    out[n] = '\0';
    return n;
}

bool hth_api_notes_next(const char **at, char out[HTH_API_NOTE_BYTES + 1])
{
    const char *begin = *at + (**at == ',' ? strspn(*at, separator) : 0);
    size_t n = strspn(begin, good);

    if (n == 0 || n > HTH_API_NOTE_BYTES || (begin[n] && begin[n] != ','))
        return false;
    memcpy(out, begin, n);
    out[n] = '\0';
    *at = begin + n;
    return true;
}

static bool has_note(const hth_api_notes *notes, const char *note)
{
    char one[HTH_API_NOTE_BYTES + 1];
    const char *at = notes->text;

    while (hth_api_notes_next(&at, one))
        if (strcmp(one, note) == 0)
            return true;
    return false;
}

void hth_api_note(hth_api_notes *notes, const char *path)
{
    char note[HTH_API_NOTE_BYTES + 1];
    size_t n = write_note(path, note);

    if (!notes || n == 0 || has_note(notes, note))
        return;
    if (!notes->is_full && notes->n_bytes + sizeof(separator) + n + sizeof(rest) <= sizeof(notes->text)) {
        notes->n_bytes += (size_t)snprintf(notes->text + notes->n_bytes, sizeof(notes->text) - notes->n_bytes, "%s%s",
                                           notes->n_bytes > 0 ? separator : "", note); /* fits */
        return;
    }
    notes->is_full = true;
    memcpy(notes->text + notes->n_bytes, rest, sizeof(rest));
}

void hth_api_notes_join(hth_api_notes *notes, const hth_api_notes *more)
{
    char note[HTH_API_NOTE_BYTES + 1];
    const char *at = more->text;

    while (hth_api_notes_next(&at, note))
        hth_api_note(notes, note);
}
