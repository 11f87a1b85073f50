/*
 * peek.h - finds a few fields of a body without parsing it
 *
 * The front passes a body to the worker of the model that the body names, and only that worker parses it. So the front
 * looks for a few fields in one pass over the text and allocates nothing. It does not validate either: the search ends
 * where a body is malformed, and the worker refuses such a body.
 */
#ifndef HTH_API_PEEK_H
#define HTH_API_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTH_API_PEEK_MODEL_BYTES_MAX = 256 };

typedef struct hth_api_peeked {
    bool has_model;    /* "model" is present and is a string; null and other types do not count */
    bool model_is_cut; /* the name did not fit: no model has a name this long */
    bool has_stream;   /* "stream" is present and is true or false */
    bool stream;
    char model[HTH_API_PEEK_MODEL_BYTES_MAX + 1]; /* decoded; not UTF-8 if the body is not; "" if there is none */
} hth_api_peeked;

/*
 * Look for "model" and "stream" in the object body, [n]. The first of several equal keys counts. Returns true when both
 * were found or the object ended; false if the text is not JSON; out then has what was found before the fault. out is
 * always filled. Pure; linear time.
 */
bool hth_api_peek(const char *body, size_t n, hth_api_peeked *out);
/* The same, with another key of at most 15 bytes for the model's name. */
bool hth_api_peek_as(const char *body, size_t n, const char *model_key, hth_api_peeked *out);

/*
 * Look for "keep_alive" in the object body, [n], of Ollama's API: how long the model stays loaded without use, in
 * milliseconds; UINT64_MAX: forever. False, with *ms unchanged, if the field is absent, or is neither a number nor a
 * duration. Pure; linear time.
 */
bool hth_api_peek_keep_alive(const char *body, size_t n, uint64_t *ms);

/*
 * Read a number of seconds, or a duration in Go's form ("1h30m", "300ms", "-1s"), into *ms. Negative values mean
 * forever: UINT64_MAX. False, with *ms unchanged, if the text is neither. Pure.
 */
bool hth_api_keep_alive_read(const char *text, uint64_t *ms);

/*
 * The parts of a body, [n], of any API that generates, with which its prompt begins: instructions for the model, and
 * the messages up to the end of the first one of a user, or, without one, the first bytes. They stay the same while a
 * conversation grows. Returns the number of parts, which point into body. Pure; linear time.
 */
enum {
    HTH_API_PEEK_SPANS_MAX = 4,
    HTH_API_PEEK_PROMPT_BYTES = 1024,
};
typedef struct hth_api_span {
    const char *at;
    size_t n;
} hth_api_span;
size_t hth_api_peek_beginning(const char *body, size_t n, hth_api_span spans[HTH_API_PEEK_SPANS_MAX]);

/* The earlier responses that a body of /v1/responses continues, or whose items it names. */
enum {
    HTH_API_PEEK_PAST_MAX = 16, /* any more are ignored */
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
