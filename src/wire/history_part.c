#include "wire/history_part.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { HEAD_BYTES = 12, TURN_BYTES = 12, TOKEN_BYTES = 4 };

static uint64_t part_bytes(uint64_t n_text, uint64_t n_tokens, uint64_t n_turns)
{
    return HEAD_BYTES + TURN_BYTES * n_turns + TOKEN_BYTES * n_tokens + n_text; /* of numbers with 32 bits: fits */
}

static void add_u32(hth_buffer *out, uint32_t value)
{
    uint8_t bytes[4];

    hth_put_u32(bytes, value);
    hth_buffer_add(out, (const char *)bytes, sizeof(bytes));
}

void hth_history_part_add(hth_buffer *out, const hth_known_text *text)
{
    if (text->n_bytes == 0 || text->n_bytes > HTH_HISTORY_PART_BYTES_MAX ||
        part_bytes(text->n_bytes, text->n_tokens, text->n_turns) > HTH_HISTORY_PART_BYTES_MAX)
        return;
    add_u32(out, (uint32_t)text->n_bytes);
    add_u32(out, (uint32_t)text->n_tokens);
    add_u32(out, (uint32_t)text->n_turns);
    for (size_t i = 0; i < text->n_turns; i++) {
        add_u32(out, text->turns[i].n_bytes);
        add_u32(out, text->turns[i].n_tokens);
        add_u32(out, text->turns[i].n_reply_bytes);
    }
    for (size_t i = 0; i < text->n_tokens; i++)
        add_u32(out, (uint32_t)text->tokens[i]);
    hth_buffer_add(out, text->text, text->n_bytes);
}

bool hth_history_part_is_whole(const void *bytes, size_t n_bytes)
{
    const uint8_t *at = bytes;

    return n_bytes >= HEAD_BYTES && n_bytes <= HTH_HISTORY_PART_BYTES_MAX && hth_get_u32(at) > 0 &&
           hth_get_u32(at + 4) > 0 && hth_get_u32(at + 8) > 0 &&
           part_bytes(hth_get_u32(at), hth_get_u32(at + 4), hth_get_u32(at + 8)) == n_bytes;
}

bool hth_history_part_read(const void *bytes, size_t n_bytes, hth_known_text *out)
{
    const uint8_t *at = bytes;
    hth_known_text text;

    if (!hth_history_part_is_whole(bytes, n_bytes))
        return false;
    text =
        (hth_known_text){ .n_bytes = hth_get_u32(at), .n_tokens = hth_get_u32(at + 4), .n_turns = hth_get_u32(at + 8) };
    text.text = malloc(text.n_bytes);
    text.tokens = malloc(text.n_tokens * sizeof(*text.tokens));
    text.turns = malloc(text.n_turns * sizeof(*text.turns));
    if (!text.text || !text.tokens || !text.turns) {
        hth_known_text_deinit(&text);
        return false;
    }
    at += HEAD_BYTES;
    for (size_t i = 0; i < text.n_turns; i++, at += TURN_BYTES)
        text.turns[i] = (hth_history_turn){ .n_bytes = hth_get_u32(at),
                                            .n_tokens = hth_get_u32(at + 4),
                                            .n_reply_bytes = hth_get_u32(at + 8) };
    for (size_t i = 0; i < text.n_tokens; i++, at += TOKEN_BYTES)
        text.tokens[i] = (hearth_token)hth_get_u32(at);
    memcpy(text.text, at, text.n_bytes);
    *out = text;
    return true;
}
