/*
 * row_protocol_test.c - what carriers write is read as it was, and no other bytes are
 */
#include <stdlib.h>
#include <string.h>

#include "carrier/row_protocol.h"
#include "support/cmocka_all.h"
#include "support/support.h"

TEST(a_request_is_read_as_it_was_written)
{
    uint8_t head[HTH_ROW_REQUEST_BYTES], bytes[HTH_ROW_WISH_BYTES];
    hth_row_wish wish = { .kinds_there = 1u << HTH_ROW_BLOCK }, got;
    uint32_t n = 0;

    hth_row_request_write(HTH_CARRIER_KEYS_MAX, head);
    assert_true(hth_row_request_read(head, &n));
    assert_int_equal(n, HTH_CARRIER_KEYS_MAX);
    hth_row_request_write(HTH_CARRIER_KEYS_MAX + 1, head);
    assert_false(hth_row_request_read(head, &n));
    hth_row_request_write(0, head);
    assert_false(hth_row_request_read(head, &n));
    memset(wish.key.bytes, 7, sizeof(wish.key.bytes));
    hth_row_wish_write(&wish, bytes);
    assert_true(hth_row_wish_read(bytes, &got));
    assert_true(hth_key_equal(&got.key, &wish.key));
    assert_true(hth_row_wish_has(&got, HTH_ROW_BLOCK));
    assert_false(hth_row_wish_has(&got, HTH_ROW_LOGITS));
}

TEST(an_answer_is_read_as_it_was_written)
{
    hth_row_manifest manifest = { .n_rows = 9, .n_keys = 8, .n_bytes = UINT64_C(1) << 33 }, again;
    hth_row_frame frame = { .id = { .kind = HTH_ROW_TAIL }, .n_bytes = 4096 }, got;
    uint8_t list[HTH_ROW_MANIFEST_BYTES], head[HTH_ROW_HEAD_BYTES];

    hth_row_manifest_write(&manifest, list);
    assert_true(hth_row_manifest_read(list, &again));
    assert_true(again.n_rows == 9 && again.n_keys == 8 && again.n_bytes == manifest.n_bytes);
    manifest.n_rows = HTH_ROW_OFFER_MAX + 1;
    hth_row_manifest_write(&manifest, list);
    assert_false(hth_row_manifest_read(list, &again));
    memset(frame.id.key.bytes, 9, sizeof(frame.id.key.bytes));
    hth_row_frame_write(&frame, head);
    assert_true(hth_row_frame_read(head, &got));
    assert_true(hth_row_id_equal(&got.id, &frame.id));
    assert_true(got.n_bytes == 4096 && !got.is_end);
    hth_row_frame_write(&(hth_row_frame){ .is_end = true }, head);
    assert_true(hth_row_frame_read(head, &got));
    assert_true(got.is_end);
    frame.n_bytes = HTH_FETCHED_ROW_BYTES_MAX + 1;
    hth_row_frame_write(&frame, head);
    assert_false(hth_row_frame_read(head, &got));
    frame.n_bytes = 4;
    hth_row_frame_write(&frame, head);
    assert_false(hth_row_frame_read(head, &got));
}

TEST(any_bytes_are_refused_or_within_the_bounds)
{
    static const uint8_t list_magic[] = { 'H', 'R', 'M', '1' }, request_magic[] = { 'H', 'R', 'Q', '1' };
    uint64_t seed = 5;
    uint8_t bytes[HTH_ROW_HEAD_BYTES];

    for (int i = 0; i < 200000; i++) {
        hth_row_frame frame;
        hth_row_manifest manifest;
        uint32_t n;

        for (size_t k = 0; k < sizeof(bytes); k++)
            bytes[k] =
                (uint8_t)(hth_test_random(&seed, 3) == 0 ? hth_test_random(&seed, 256) : hth_test_random(&seed, 3));
        if (hth_row_frame_read(bytes, &frame))
            assert_true(frame.is_end || (frame.n_bytes >= 80 && frame.n_bytes <= HTH_FETCHED_ROW_BYTES_MAX));
        memcpy(bytes, list_magic, sizeof(list_magic));
        if (hth_row_manifest_read(bytes, &manifest))
            assert_true(manifest.n_rows <= HTH_ROW_OFFER_MAX && manifest.n_bytes <= HTH_ROW_MANIFEST_ROWS_BYTES_MAX);
        memcpy(bytes, request_magic, sizeof(request_magic));
        if (hth_row_request_read(bytes, &n))
            assert_in_range(n, 1, HTH_CARRIER_KEYS_MAX);
    }
}
