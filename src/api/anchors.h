/*
 * anchors.h - digests of the beginnings of a prompt, taken from a body without parsing it
 *
 * In a fleet, the node that takes a request wants to know which node has read a long beginning of its prompt already.
 * Only a worker can tokenize the prompt. So that node compares texts: an anchor is a digest of the text of the prompt
 * up to one place, and anchors lie at many places. Two bodies whose prompts begin with the same text have the same
 * anchors up to there, wherever both have one. A conversation that grows by turns keeps its places.
 *
 * The text of a prompt is its head and then its growing member. The head consists of the members of the body that a
 * prompt may begin with, such as "system" and "tools", in a fixed order. The growing member is the first of "messages",
 * "input", "input_prefix" and "prompt" that is a string, an array or an object. Both are taken as they are written,
 * without the white space between values: neither that nor the order of the members changes an anchor, but another way
 * to write a character of a string does. Such a difference, or a field that changes the beginning of some prompts only,
 * costs a hint and nothing else: a worker looks for the tokens themselves.
 *
 * Places:
 *
 *   - the end of the head, if there is a head
 *   - the end of the prompt: in an array after its last element, in a string before its closing quote
 *   - the ends of the last HTH_ANCHOR_ENDS elements of an array that are strings, objects or arrays. Elements that are
 *     numbers have none: an array of tokens has thousands of them.
 *   - in the growing member, also within its strings, after each stride bytes of it. The stride is 1024 * 2^k, the
 *     smallest of which a body of this size holds at most HTH_ANCHOR_STRIDES. So a larger body has its strides at
 *     places where a smaller one has them, too.
 */
#ifndef HTH_API_ANCHORS_H
#define HTH_API_ANCHORS_H

#include <stddef.h>
#include <stdint.h>

enum {
    HTH_ANCHORS_MAX = 64,
    HTH_ANCHOR_ENDS = 32,
    HTH_ANCHOR_STRIDES = 24,
    HTH_ANCHOR_STRIDE_BYTES_MIN = 1024,
    HTH_ANCHOR_BODY_BYTES_MAX = 8 << 20,
};

typedef struct hth_anchor {
    uint64_t digest;  /* of the scope and all text before it; never 0 */
    uint32_t n_bytes; /* of that text: of its values, without white space between them */
} hth_anchor;

/*
 * Take the anchors of a body, [n], of any API that generates.
 *
 * scope   [n_scope]: secret bytes, and all that keeps prompts apart that have the same text: model, tenant, API. An
 *         anchor tells nothing about its text to those who do not know the scope, and is equal to none of another one.
 * out     receives the anchors, in increasing order of n_bytes, without equal ones. The last one is the end of the
 *         prompt.
 *
 * Returns the number of anchors. It is 0 if the body has no prompt, is larger than HTH_ANCHOR_BODY_BYTES_MAX or is seen
 * to be malformed, or if there is no memory. Pure; linear time, whatever the body is.
 *
 * A digest is the first 64 bits (little-endian; 0 becomes 1) of SHA-256 over the scope with its length before it, each
 * member of the head with its name, and the name and the text so far of the growing member.
 */
size_t hth_api_anchors(const void *scope, size_t n_scope, const char *body, size_t n, hth_anchor out[HTH_ANCHORS_MAX]);

#endif
