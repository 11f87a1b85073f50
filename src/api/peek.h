/*
 * peek.h - whose a request is, before anybody parses it
 *
 * The front hands a body to the worker of the model that it names, and only that worker parses it. So the front looks for
 * two of its fields in one pass over the text, without memory. Nothing is validated: what is malformed is the worker's to
 * refuse, and where it begins, this ends.
 */
#ifndef HTH_API_PEEK_H
#define HTH_API_PEEK_H

#include <stdbool.h>
#include <stddef.h>

enum { HTH_API_PEEK_MODEL_BYTES_MAX = 256 };

typedef struct hth_api_peeked {
    bool has_model;    /* there is a "model", and it is a text; null and other types are none */
    bool model_is_cut; /* it is longer than what is here: no model has such a name */
    bool has_stream;   /* likewise "stream", true or false */
    bool stream;
    char model[HTH_API_PEEK_MODEL_BYTES_MAX +
               1]; /* decoded; perhaps not UTF-8, where the body is not; "" where there is none */
} hth_api_peeked;

/*
 * Look for "model" and "stream" in the object body, [n]; of a key given twice, the first counts. Reads until both were
 * met, the object ends, or it is no JSON: false then, with what was found before. out is always filled. Pure, linear.
 */
bool hth_api_peek(const char *body, size_t n, hth_api_peeked *out);
/* The same where another key, of at most 15 bytes, names the model. */
bool hth_api_peek_as(const char *body, size_t n, const char *model_key, hth_api_peeked *out);

/* Responses that a body of /v1/responses goes on from, or names items of. */
enum {
    HTH_API_PEEK_PAST_MAX = 16, /* those beyond are not looked for */
    HTH_API_PEEK_ID_BYTES = 64,
};
typedef struct hth_api_peeked_past {
    char ids[HTH_API_PEEK_PAST_MAX][HTH_API_PEEK_ID_BYTES]; /* "resp_..." */
    size_t n;
} hth_api_peeked_past;

/*
 * Look for "previous_response_id", and for item references in "input", in the object body, [n]. As above; an id that is
 * longer than those that are given out here is none. Ids of items have their response's in them: "msg_0123_4".
 */
bool hth_api_peek_past(const char *body, size_t n, hth_api_peeked_past *out);

#endif
