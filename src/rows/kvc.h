/*
 * kvc.h - the KVC file format: reading and writing the bytes of one row
 *
 * docs/format.md describes the format, and the vectors in tests/fixtures/kvc pin it. This codec works on memory and
 * knows no files: the RAM tier keeps rows as complete KVC files, and the file tier writes and reads the same bytes.
 *
 * Layout: 48-byte header, 24-byte trailer, prompt section, TLV section, image. All integers are little-endian. The
 * trailer holds a CRC32C of the image. Our TLV 0x87 holds a CRC32C of all bytes before the image. There, these bytes
 * count as zeros: hit_count and last_used_time (rewritten in place), the value of the HMAC record 0x86 (computed over
 * the finished file) and the value of 0x87 itself. So a checksum, a length or the HMAC protects every bit of a row,
 * except the two fields that may change.
 *
 * Our records are 0x80 and up; other readers of the format skip them. A file with any of 0x80 to 0x84 or 0x86 is a row
 * of ours, and the reader is strict: 0x87 must be there, as the last record and right before the image. A damaged
 * length field can hide records while the file still follows the rules of the format. So a file is also a row of ours
 * if the nine bytes before the image spell a 0x87 record.
 */
#ifndef HTH_ROWS_KVC_H
#define HTH_ROWS_KVC_H

#include "rows/row.h"

#define HTH_KVC_HEADER_BYTES 48
#define HTH_KVC_TRAILER_BYTES 24
#define HTH_KVC_VERSION 1

/* Why bytes are not a KVC file, in the words of the reference vectors. */
typedef enum hth_kvc_reason {
    HTH_KVC_OK = 0,
    HTH_KVC_BAD_HEADER,
    HTH_KVC_UNSUPPORTED_VERSION, /* argument: version */
    HTH_KVC_UNKNOWN_SAVE_REASON, /* argument: byte */
    HTH_KVC_BAD_TRAILER,
    HTH_KVC_BAD_LENGTH_PREFIXED_SECTION,
    HTH_KVC_BAD_TLV,
    HTH_KVC_UNKNOWN_FINGERPRINT_MODE, /* argument: byte */
    HTH_KVC_UNKNOWN_QUANT_BYTE,       /* argument: byte */
    HTH_KVC_IMAGE_LENGTH_MISMATCH,
    HTH_KVC_TRUNCATED,
    HTH_KVC_TRAILING_BYTES,
    HTH_KVC_MISSING_TLV,  /* name: which */
    HTH_KVC_CRC_MISMATCH, /* arguments: stored, computed */
    HTH_KVC_KEY_MISMATCH, /* keys: expected, computed */
    /* Beyond the reference: these are found only through our own records. */
    HTH_KVC_HEAD_CRC_MISMATCH, /* arguments: stored, computed (TLV 0x87) */
    HTH_KVC_BAD_ROW,           /* name: the own record that is missing or contradicts the others */
    HTH_KVC_NO_MEMORY,         /* says nothing about the file: a key could not be computed */
    /* Found by kvc_signature.h, where a signing key is configured. */
    HTH_KVC_UNSIGNED,      /* no HMAC */
    HTH_KVC_BAD_SIGNATURE, /* an HMAC for another key or another file */
} hth_kvc_reason;

typedef struct hth_kvc_fault {
    hth_kvc_reason reason;
    uint64_t stored;   /* first argument */
    uint64_t computed; /* second argument */
    const char *name;  /* static string */
    hth_key expected_key;
    hth_key computed_key;
} hth_kvc_fault;

/* The word of the reference for a reason, "crc_mismatch". A static string. */
const char *hth_kvc_reason_name(hth_kvc_reason reason);
/* Write one sentence about a fault for a human into text[capacity], always terminated. */
void hth_kvc_fault_text(const hth_kvc_fault *fault, char *text, size_t capacity);

/* Bytes inside the parsed buffer. data is NULL when the record is absent. */
typedef struct hth_kvc_bytes {
    const uint8_t *data;
    uint32_t n;
} hth_kvc_bytes;

/* The content of everything before the image. Pointers are borrowed from the parsed buffer. */
typedef struct hth_kvc_info {
    uint8_t quant_bits;
    uint8_t save_reason;
    uint32_t cached_token_count;
    uint32_t hit_count;
    uint32_t context_size;
    uint64_t creation_time;
    uint64_t last_used_time;
    uint64_t image_byte_count; /* on encoding: set by the encoder */
    uint64_t image_offset;     /* likewise */
    uint32_t image_crc32c;     /* likewise */

    hth_kvc_bytes prompt;
    hth_keyspace keyspace;
    hth_kvc_bytes tokens; /* u32 little-endian each; n is in bytes. Encoding: may be host tokens on little-endian */
    hth_kvc_bytes hostname;
    hth_kvc_bytes writer_version;
    hth_kvc_bytes save_reason_detail;

    /* Our own records. A plain file from another writer has none. */
    bool has_parent;
    hth_key parent; /* 0x80 */
    bool has_first_position;
    uint32_t first_position; /* 0x81; 0 without that record */
    bool has_kind;
    uint8_t kind;         /* 0x82, hth_row_kind */
    hth_kvc_bytes logits; /* 0x83, f32 little-endian each: after the last token; in exported files only */
    bool has_own_key;
    hth_key own_key;            /* 0x84 */
    hth_kvc_bytes engine_build; /* 0x85 */
    hth_kvc_bytes model;        /* 0x88: its name, for display; not part of the key */
    hth_kvc_bytes hmac;         /* 0x86, 32 bytes; not checked here, see kvc_signature.h */
    bool has_head_crc;
    uint32_t head_crc32c; /* 0x87; on encoding: computed, and written if has_head_crc or a row record is set */
} hth_kvc_info;

/* Does a parsed file name itself as this row? */
static inline bool hth_kvc_is_row(const hth_kvc_info *info, const hth_row_id *id)
{
    return info->has_kind && info->kind == (uint8_t)id->kind && info->has_own_key &&
           hth_key_equal(&info->own_key, &id->key);
}

/* Token i of a parsed file. */
hearth_token hth_kvc_token(const hth_kvc_info *info, size_t i);
static inline size_t hth_kvc_n_tokens(const hth_kvc_info *info)
{
    return info->tokens.n / 4;
}

/*
 * Parse everything before the image.
 *
 *   bytes       the first n_bytes bytes of the file.
 *   file_bytes  size of the whole file, >= n_bytes.
 *   need_out    receives 0, or the number of bytes to call again with if the head does not fit in n_bytes and the file
 *               is longer: then the result is false with fault->reason HTH_KVC_OK. May be NULL if
 *               n_bytes == file_bytes.
 *
 * True if the head passes the checks of the reference, in its order, and then, for a row of ours, these: TLV 0x87 is in
 * its place and matches; the kind is known; a first position comes with a parent; a row that starts after token 0
 * contains its own key (0x84); and if a row that starts at token 0 has tokens and a key in 0x84, that key is the one of
 * its tokens. fault is always written; out is written only on success. Never reads outside bytes[0, n_bytes).
 * Thread-safe.
 */
bool hth_kvc_parse_meta(const uint8_t *bytes, size_t n_bytes, uint64_t file_bytes, hth_kvc_info *out,
                        hth_kvc_fault *fault, size_t *need_out);

/*
 * Parse a whole file: parse_meta, then the CRC32C of the image, then the key. expected_key NULL skips the comparison.
 * For a row from token 0 the key is computed from its tokens. For a row that starts later the key is its 0x84 record:
 * only the owner of the earlier tokens can check that.
 */
bool hth_kvc_parse(const uint8_t *bytes, size_t n_bytes, const hth_key *expected_key, hth_kvc_info *out,
                   hth_kvc_fault *fault);

/* The number of bytes before the image for this info. SIZE_MAX if the records do not fit in their 32-bit length. */
size_t hth_kvc_head_bytes(const hth_kvc_info *info);

/*
 * Write everything before the image into bytes[hth_kvc_head_bytes(info)], for an image of image_bytes bytes with the
 * given CRC32C. The records of the reference come first in its order, then ours in the order of hth_kvc_info. An
 * optional string with n 0 is left out. A save reason, fingerprint mode or kind that a reader would refuse, or an HMAC
 * of a length other than 0 or 32, is a bug of the caller (asserted). An unknown quant byte is written, and readers
 * refuse it, as the format requires.
 */
void hth_kvc_encode_head(const hth_kvc_info *info, uint64_t image_bytes, uint32_t image_crc32c, uint8_t *bytes);

/* Offsets of the two fields that may be rewritten in place. */
#define HTH_KVC_HIT_COUNT_OFFSET 12
#define HTH_KVC_LAST_USED_OFFSET 32

#endif
