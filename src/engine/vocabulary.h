/*
 * vocabulary.h - the text of every token, for samplers that look at text
 *
 * Grammars, triggers and DRY's sequence breakers work on text. A backend makes one vocabulary per model, once, and
 * every sampler of the model reads it. Immutable, so any number of threads may read it.
 */
#ifndef HTH_ENGINE_VOCABULARY_H
#define HTH_ENGINE_VOCABULARY_H

#include "base/status.h"

/* A token's text as in replies. Control tokens have none. */
typedef struct hth_piece {
    const uint8_t *bytes;
    uint32_t n_bytes;
    hearth_token token;
} hth_piece;

typedef struct hth_vocabulary {
    uint32_t n_tokens;
    hth_piece *pieces; /* by token, [n_tokens] */
    hth_piece *sorted; /* pieces with text, in byte order, [n_sorted] */
    uint32_t *shared;  /* number of leading bytes that sorted[i] shares with sorted[i - 1], [n_sorted] */
    uint32_t n_sorted;
    uint32_t n_bytes_max; /* of the longest piece */
    bool *is_end;         /* the token ends a reply, [n_tokens] */
    uint8_t *bytes;       /* of all pieces */
} hth_vocabulary;

/* The source of the tokens. piece is as in hth_backend, with special false. */
typedef struct hth_vocabulary_source {
    uint32_t n_tokens;
    hearth_status (*piece)(const void *model, hearth_token token, char *bytes, size_t capacity, size_t *n_out);
    bool (*is_end)(const void *model, hearth_token token);
    const void *model;
} hth_vocabulary_source;

/* Read all tokens. A token whose text cannot be read, or is longer than 64 KiB, has none. HEARTH_NO_MEMORY. */
hearth_status hth_vocabulary_new(const hth_vocabulary_source *source, hth_vocabulary **out, hearth_error *err);
void hth_vocabulary_free(hth_vocabulary *vocabulary); /* accepts NULL */

/*
 * A model's vocabulary, read by the first call that needs it, because few requests need the text. Any thread, at any
 * time. Results live as long as the object.
 */
typedef struct hth_texts hth_texts;
hth_texts *hth_texts_new(const hth_vocabulary_source *source); /* NULL without memory */
void hth_texts_free(hth_texts *texts);                         /* accepts NULL */
uint32_t hth_texts_n_tokens(const hth_texts *texts);
/* Both return HEARTH_OK or HEARTH_NO_MEMORY. ends: the tokens that end a reply. */
hearth_status hth_texts_ends(hth_texts *texts, const hearth_token **ends, size_t *n_ends, hearth_error *err);
hearth_status hth_texts_vocabulary(hth_texts *texts, const hth_vocabulary **out, hearth_error *err);

#endif
