#include "carrier/row_protocol.h"

#include <string.h>

#include "base/bytes.h"
#include "rows/row_file.h"

enum { ROW = 1, END = 2, KINDS_ALL = (1 << HTH_ROW_KINDS) - 1 };

static const char request_magic[] = "HRQ1", manifest_magic[] = "HRM1";
enum { MAGIC_BYTES = 4 };

void hth_row_request_write(uint32_t n_keys, uint8_t bytes[HTH_ROW_REQUEST_BYTES])
{
    memcpy(bytes, request_magic, MAGIC_BYTES);
    hth_put_u32(bytes + 4, n_keys);
}

bool hth_row_request_read(const uint8_t bytes[HTH_ROW_REQUEST_BYTES], uint32_t *n_keys_out)
{
    *n_keys_out = hth_get_u32(bytes + 4);
    return memcmp(bytes, request_magic, MAGIC_BYTES) == 0 && *n_keys_out > 0 && *n_keys_out <= HTH_CARRIER_KEYS_MAX;
}

void hth_row_wish_write(const hth_row_wish *wish, uint8_t bytes[HTH_ROW_WISH_BYTES])
{
    bytes[0] = wish->kinds_there;
    memcpy(bytes + 1, wish->key.bytes, HTH_KEY_BYTES);
}

bool hth_row_wish_read(const uint8_t bytes[HTH_ROW_WISH_BYTES], hth_row_wish *out)
{
    out->kinds_there = bytes[0];
    memcpy(out->key.bytes, bytes + 1, HTH_KEY_BYTES);
    return (out->kinds_there & ~KINDS_ALL) == 0;
}

void hth_row_manifest_write(const hth_row_manifest *manifest, uint8_t bytes[HTH_ROW_MANIFEST_BYTES])
{
    memcpy(bytes, manifest_magic, MAGIC_BYTES);
    hth_put_u32(bytes + 4, manifest->n_rows);
    hth_put_u32(bytes + 8, manifest->n_keys);
    hth_put_u32(bytes + 12, 0);
    hth_put_u64(bytes + 16, manifest->n_bytes);
}

bool hth_row_manifest_read(const uint8_t bytes[HTH_ROW_MANIFEST_BYTES], hth_row_manifest *out)
{
    out->n_rows = hth_get_u32(bytes + 4);
    out->n_keys = hth_get_u32(bytes + 8);
    out->n_bytes = hth_get_u64(bytes + 16);
    return memcmp(bytes, manifest_magic, MAGIC_BYTES) == 0 && hth_get_u32(bytes + 12) == 0 &&
           out->n_rows <= HTH_ROW_OFFER_MAX && out->n_keys <= HTH_CARRIER_KEYS_MAX &&
           out->n_bytes <= HTH_ROW_MANIFEST_ROWS_BYTES_MAX &&
           out->n_bytes >= (uint64_t)out->n_rows * HTH_ROW_FILE_BYTES_MIN && (out->n_rows > 0 || out->n_bytes == 0);
}

void hth_row_frame_write(const hth_row_frame *frame, uint8_t bytes[HTH_ROW_HEAD_BYTES])
{
    memset(bytes, 0, HTH_ROW_HEAD_BYTES);
    bytes[0] = frame->is_end ? END : ROW;
    if (frame->is_end)
        return;
    bytes[1] = (uint8_t)frame->id.kind;
    hth_put_u64(bytes + 8, frame->n_bytes);
    memcpy(bytes + 16, frame->id.key.bytes, HTH_KEY_BYTES);
}

bool hth_row_frame_read(const uint8_t bytes[HTH_ROW_HEAD_BYTES], hth_row_frame *out)
{
    static const uint8_t end[HTH_ROW_HEAD_BYTES] = { END };

    *out = (hth_row_frame){ .is_end = bytes[0] == END };
    if (out->is_end)
        return memcmp(bytes, end, sizeof(end)) == 0;
    if (bytes[0] != ROW || bytes[1] >= HTH_ROW_KINDS || bytes[2] != 0 || bytes[3] != 0 || hth_get_u32(bytes + 4) != 0)
        return false;
    out->id.kind = (hth_row_kind)bytes[1];
    out->n_bytes = hth_get_u64(bytes + 8);
    memcpy(out->id.key.bytes, bytes + 16, HTH_KEY_BYTES);
    return out->n_bytes >= HTH_ROW_FILE_BYTES_MIN && out->n_bytes <= HTH_FETCHED_ROW_BYTES_MAX;
}
