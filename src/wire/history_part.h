/*
 * history_part.h - the true tokens of a prompt, as a worker tells them and another one gets them before a body
 *
 *   offset  bytes
 *        0      4  bytes of text
 *        4      4  n_tokens
 *        8      4  n_turns
 *       12     12  of each turn: bytes and tokens up to its end, and bytes before it that a model wrote
 *               4  of each token
 *                  the text
 *
 * Integers are little-endian, 32 bits each.
 */
#ifndef HTH_WIRE_HISTORY_PART_H
#define HTH_WIRE_HISTORY_PART_H

#include "api/buffer.h"
#include "sched/true_tokens.h"
#include "wire/frames.h"

/* Append a text. One that would have more than HTH_HISTORY_PART_BYTES_MAX is left out, and so is an empty one. */
void hth_history_part_add(hth_buffer *out, const hth_known_text *text);

/* Are these the bytes of a text, and nothing else? It may still be anything. */
bool hth_history_part_is_whole(const void *bytes, size_t n_bytes);
/* The text, which *out owns then. False if it is not whole, or without memory. */
bool hth_history_part_read(const void *bytes, size_t n_bytes, hth_known_text *out);

#endif
