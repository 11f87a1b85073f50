/*
 * row_protocol.h - what two carriers say to each other, inside TLS
 *
 * The client, which wants rows, begins with a request:
 *
 *    0  "HRQ1"
 *    4  u32  number of keys, 1 to HTH_CARRIER_KEYS_MAX
 *    8  for each key of a block boundary, in order: u8 kinds of rows that the client has there, as bits; 32 bytes, the
 *       key
 *
 * The server answers with a manifest, then as many rows, and an end:
 *
 *    0  "HRM1"
 *    4  u32  number of rows
 *    8  u32  number of keys whose blocks lie in a row from the first on, here or at the client
 *   12  u32  0
 *   16  u64  bytes of all files
 *
 *    0  u8   1: a row; 2: the end
 *    1  u8   kind of the row
 *    2  u16  0
 *    4  u32  0
 *    8  u64  bytes of its file, HTH_ROW_FILE_BYTES_MIN to HTH_FETCHED_ROW_BYTES_MAX; at the end 0
 *   16       its key, 32 bytes; at the end zeros; then the file
 *
 * Integers are little-endian. The end may come early: the other rows were removed meanwhile. Further requests may
 * follow. These functions read and write single parts; none trusts a byte.
 */
#ifndef HTH_CARRIER_ROW_PROTOCOL_H
#define HTH_CARRIER_ROW_PROTOCOL_H

#include <stdbool.h>

#include "rows/row.h"
#include "wire/carrier_messages.h"

enum {
    HTH_ROW_REQUEST_BYTES = 8,
    HTH_ROW_WISH_BYTES = 33,
    HTH_ROW_MANIFEST_BYTES = 24,
    HTH_ROW_HEAD_BYTES = 48,
    HTH_ROW_OFFER_MAX = HTH_CARRIER_KEYS_MAX + 64, /* rows of a manifest */
};
#define HTH_FETCHED_ROW_BYTES_MAX (UINT64_C(1) << 30)
#define HTH_ROW_MANIFEST_ROWS_BYTES_MAX (UINT64_C(1) << 40)

/* A key of a request. */
typedef struct hth_row_wish {
    hth_key key;
    uint8_t kinds_there; /* bit 1 << hth_row_kind: the client has the row of this kind */
} hth_row_wish;

static inline bool hth_row_wish_has(const hth_row_wish *wish, hth_row_kind kind)
{
    return (wish->kinds_there >> (unsigned)kind & 1) != 0;
}

typedef struct hth_row_manifest {
    uint32_t n_rows;
    uint32_t n_keys;
    uint64_t n_bytes;
} hth_row_manifest;

/* The head of a row that follows, or the end. */
typedef struct hth_row_frame {
    hth_row_id id;
    uint64_t n_bytes;
    bool is_end;
} hth_row_frame;

void hth_row_request_write(uint32_t n_keys, uint8_t bytes[HTH_ROW_REQUEST_BYTES]);
/* The functions that read return false for bytes that no carrier writes; *out is then undefined. */
bool hth_row_request_read(const uint8_t bytes[HTH_ROW_REQUEST_BYTES], uint32_t *n_keys_out);

void hth_row_wish_write(const hth_row_wish *wish, uint8_t bytes[HTH_ROW_WISH_BYTES]);
bool hth_row_wish_read(const uint8_t bytes[HTH_ROW_WISH_BYTES], hth_row_wish *out);

void hth_row_manifest_write(const hth_row_manifest *manifest, uint8_t bytes[HTH_ROW_MANIFEST_BYTES]);
bool hth_row_manifest_read(const uint8_t bytes[HTH_ROW_MANIFEST_BYTES], hth_row_manifest *out);

void hth_row_frame_write(const hth_row_frame *frame, uint8_t bytes[HTH_ROW_HEAD_BYTES]);
bool hth_row_frame_read(const uint8_t bytes[HTH_ROW_HEAD_BYTES], hth_row_frame *out);

#endif
