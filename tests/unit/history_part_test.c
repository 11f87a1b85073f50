/*
 * history_part_test.c - the true tokens of a prompt as bytes: what was written is read, and nothing else
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "support/cmocka_all.h"
#include "support/support.h"
#include "wire/history_part.h"

static const hearth_token tokens[] = { 256, 'A', 260, -1 };
static const hth_history_turn turns[] = { { .n_bytes = 1, .n_tokens = 2, .n_reply_bytes = 0 },
                                          { .n_bytes = 6, .n_tokens = 3, .n_reply_bytes = 5 } };

static hth_buffer written(size_t n_bytes)
{
    const hth_known_text text = { .text = (char *)(uintptr_t) "A w260",
                                  .n_bytes = n_bytes,
                                  .tokens = (hearth_token *)(uintptr_t)tokens,
                                  .n_tokens = 4,
                                  .turns = (hth_history_turn *)(uintptr_t)turns,
                                  .n_turns = 2 };
    hth_buffer out = { .text = NULL };

    hth_history_part_add(&out, &text);
    assert_false(out.failed);
    return out;
}

TEST(what_was_written_is_read)
{
    hth_buffer bytes = written(6);
    hth_known_text text;

    assert_int_equal(bytes.n, 12 + 2 * 12 + 4 * 4 + 6);
    assert_true(hth_history_part_read(bytes.text, bytes.n, &text));
    assert_int_equal(text.n_bytes, 6);
    assert_memory_equal(text.text, "A w260", 6);
    assert_int_equal(text.n_tokens, 4);
    assert_memory_equal(text.tokens, tokens, sizeof(tokens));
    assert_int_equal(text.n_turns, 2);
    assert_memory_equal(text.turns, turns, sizeof(turns));
    hth_known_text_deinit(&text);
    assert_null(text.text);
    hth_buffer_deinit(&bytes);
}

TEST(nothing_is_no_bytes)
{
    hth_buffer bytes = written(0);

    assert_int_equal(bytes.n, 0);
    assert_false(hth_history_part_is_whole("", 0));
}

TEST(other_sizes_are_refused)
{
    hth_buffer bytes = written(6);
    hth_known_text text;

    for (size_t n = 0; n < bytes.n; n++)
        assert_false(hth_history_part_read(bytes.text, n, &text));
    hth_buffer_add(&bytes, "", 1);
    assert_false(hth_history_part_read(bytes.text, bytes.n, &text));
    bytes.n--;
    for (size_t at = 0; at < 12; at += 4) { /* numbers that promise too much, too little, or nothing */
        uint8_t *number = (uint8_t *)bytes.text + at;
        const uint32_t was = hth_get_u32(number), wrong[] = { 0, was - 1, was + 1, UINT32_MAX };

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
            hth_put_u32(number, wrong[i]);
            assert_false(hth_history_part_is_whole(bytes.text, bytes.n));
        }
        hth_put_u32(number, was);
    }
    assert_true(hth_history_part_is_whole(bytes.text, bytes.n));
    hth_buffer_deinit(&bytes);
}

TEST(a_text_that_is_too_long_is_left_out)
{
    hth_known_text text = { .n_bytes = HTH_HISTORY_PART_BYTES_MAX };
    hth_buffer out = { .text = NULL };

    hth_history_part_add(&out, &text);
    text.n_bytes = SIZE_MAX;
    hth_history_part_add(&out, &text);
    assert_int_equal(out.n, 0);
}
