/*
 * peek.h - finds a few fields of a body without parsing it
 *
 * The front passes a body to the worker of the model that the body names, and only that worker parses it. So the front
 * looks for a few fields in one pass over the text and allocates nothing. It validates nothing either: the worker
 * refuses malformed bodies, and the search ends where a body is malformed.
 */
#ifndef HTH_API_PEEK_H
#define HTH_API_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTH_API_PEEK_MODEL_BYTES_MAX = 256 };

typedef struct hth_api_peeked {
    bool has_model;    /* "model" is there and is a text; null and other types do not count */
    bool model_is_cut; /* the name did not fit: no model has such a long name */
    bool has_stream;   /* "stream" is there and is true or false */
    bool stream;
    char model[HTH_API_PEEK_MODEL_BYTES_MAX + 1]; /* decoded; not UTF-8 where the body is not; "" when there is none */
} hth_api_peeked;

/*
 * Look for "model" and "stream" in the object body, [n]. The first of several equal keys counts. Returns true when both
 * were found or the object ended; false when the text is no JSON, with everything that was found before. out is always
 * filled. Pure; linear time.
 */
bool hth_api_peek(const char *body, size_t n, hth_api_peeked *out);
/* The same, where another key of at most 15 bytes names the model. */
bool hth_api_peek_as(const char *body, size_t n, const char *model_key, hth_api_peeked *out);

/*
 * Look for "keep_alive" in the object body, [n], of Ollama's API: for how long the model stays without use, in
 * milliseconds; UINT64_MAX: for ever. False, with *ms unchanged: it is not there, or is neither a number nor a
 * duration. Pure; linear time.
 */
bool hth_api_peek_keep_alive(const char *body, size_t n, uint64_t *ms);

/* The earlier responses that a body of /v1/responses continues, or whose items it names. */
enum {
    HTH_API_PEEK_PAST_MAX = 16, /* further ones are ignored */
    HTH_API_PEEK_ID_BYTES = 64,
};
typedef struct hth_api_peeked_past {
    char ids[HTH_API_PEEK_PAST_MAX][HTH_API_PEEK_ID_BYTES]; /* "resp_..." */
    size_t n;
} hth_api_peeked_past;

/*
 * Look for "previous_response_id", and for references to items in "input", in the object body, [n]. Results are as
 * above. An id that is too long for this server to have made it is ignored. The id of an item contains that of its
 * response: "msg_0123_4".
 */
bool hth_api_peek_past(const char *body, size_t n, hth_api_peeked_past *out);

#endif
