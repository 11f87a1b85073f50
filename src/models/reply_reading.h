/*
 * reply_reading.h - do two texts of a reply mean the same?
 *
 * The chat template's parser reads both. They mean the same if reasoning and content are equal, and the calls have the
 * same names, in the same order, and arguments that are the same JSON: equal except for white space between its parts
 * and for escapes in its strings. Objects with a different key order count as different.
 */
#ifndef HTH_MODELS_REPLY_READING_H
#define HTH_MODELS_REPLY_READING_H

#include "engine/backend.h"

typedef struct hth_reply_reading {
    const hth_backend *backend;
    const char *parser;             /* of the rendered conversation */
    hth_engine_chat_reader *reader; /* made on first use; initially NULL */
} hth_reply_reading;

void hth_reply_reading_end(hth_reply_reading *reading);

/* An hth_same_reply_fn; user_data is an hth_reply_reading. One thread at a time. */
bool hth_reply_says_the_same(const char *a, size_t n_a, const char *b, size_t n_b, void *user_data);

/* Are two texts the same JSON? */
bool hth_same_json(const char *a, size_t n_a, const char *b, size_t n_b);

#endif
