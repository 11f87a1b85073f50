/*
 * reply_reading.h - do two texts of a reply say the same?
 *
 * The parser of the chat template reads both. They say the same if reasoning and content are equal, and the calls have
 * the same names, in the same order, and arguments that are the same JSON: equal but for blanks between its parts and
 * for escapes in its texts. Objects with another order of keys count as different.
 */
#ifndef HTH_MODELS_REPLY_READING_H
#define HTH_MODELS_REPLY_READING_H

#include "engine/backend.h"

typedef struct hth_reply_reading {
    const hth_backend *backend;
    const char *parser;             /* of the rendered conversation */
    hth_engine_chat_reader *reader; /* made when it is needed; NULL at first */
} hth_reply_reading;

void hth_reply_reading_end(hth_reply_reading *reading);

/* hth_same_reply_fn with an hth_reply_reading. One thread at a time. */
bool hth_reply_says_the_same(const char *a, size_t n_a, const char *b, size_t n_b, void *user_data);

/* Are two texts the same JSON? */
bool hth_same_json(const char *a, size_t n_a, const char *b, size_t n_b);

#endif
