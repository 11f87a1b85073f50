/*
 * kvc.h - the KVC file format: reading and writing of one row's bytes
 *
 * The format is described in docs/format.md and held by the vectors in tests/fixtures/kvc. This codec works on memory
 * and knows no files: the RAM tier keeps rows as complete KVC images, and the file tier writes and reads the same
 * bytes.
 *
 * Layout: 48-byte header, 24-byte trailer, prompt section, TLV section, payload. All integers little-endian. The
 * trailer holds a CRC32C of the payload; our TLV 0x87 holds one of everything before it, in which these bytes count as
 * zeros: hit_count and last_used_time (rewritten in place), the value of the HMAC record 0x86 (computed over the
 * finished file) and the value of 0x87 itself. So every bit of a row is held by a checksum, a length or the HMAC, but
 * for the two fields that may change.
 *
 * Our records are 0x80 and up; other readers of the format skip them. A file that has any of 0x80 to 0x84 or 0x86 is a
 * row of ours and is read strictly: 0x87 must be there, as the last record and right before the payload. A damaged
 * length field can hide records without breaking the format's own rules, so a file whose last nine bytes before the
 * payload spell a 0x87 record is read as a row of ours, too.
 */
#ifndef HTH_CACHE_KVC_H
#define HTH_CACHE_KVC_H

#include "cache/row.h"

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
    HTH_KVC_PAYLOAD_LENGTH_MISMATCH,
    HTH_KVC_TRUNCATED,
    HTH_KVC_TRAILING_BYTES,
    HTH_KVC_MISSING_TLV,  /* name: which */
    HTH_KVC_CRC_MISMATCH, /* arguments: stored, computed */
    HTH_KVC_KEY_MISMATCH, /* keys: expected, computed */
    /* Beyond the reference: what only our own records can tell. */
    HTH_KVC_HEAD_CRC_MISMATCH, /* arguments: stored, computed (TLV 0x87) */
    HTH_KVC_BAD_ROW,           /* name: which own record is missing or contradicts the others */
    HTH_KVC_NO_MEMORY,         /* says nothing about the file: a key could not be computed */
    /* Found by kvc_signature.h, where a signing key is configured. */
    HTH_KVC_UNSIGNED,      /* no HMAC */
    HTH_KVC_BAD_SIGNATURE, /* an HMAC of another key or of another file */
} hth_kvc_reason;

typedef struct hth_kvc_fault {
    hth_kvc_reason reason;
    uint64_t stored;   /* first argument */
    uint64_t computed; /* second argument */
    const char *name;  /* static string */
    hth_key expected_key;
    hth_key computed_key;
} hth_kvc_fault;

/* The reference's word for a reason, "crc_mismatch". A static string. */
const char *hth_kvc_reason_name(hth_kvc_reason reason);
/* One sentence for a human about a fault, into text[capacity], always terminated. */
void hth_kvc_fault_text(const hth_kvc_fault *fault, char *text, size_t capacity);

/* Bytes inside the parsed buffer. data is NULL when the record is absent. */
typedef struct hth_kvc_bytes {
    const uint8_t *data;
    uint32_t n;
} hth_kvc_bytes;

/* Everything before the payload. Pointers are borrowed from the parsed buffer. */
typedef struct hth_kvc_info {
    uint8_t quant_bits;
    uint8_t save_reason;
    uint32_t cached_token_count;
    uint32_t hit_count;
    uint32_t context_size;
    uint64_t creation_time;
    uint64_t last_used_time;
    uint64_t payload_byte_count; /* on encoding: set by the encoder */
    uint64_t payload_offset;     /* likewise */
    uint32_t payload_crc32c;     /* likewise */

    hth_kvc_bytes prompt;
    hth_keyspace keyspace;
    hth_kvc_bytes tokens; /* u32 little-endian each; n is in bytes. Encoding: may be host tokens on little-endian */
    hth_kvc_bytes hostname;
    hth_kvc_bytes writer_version;
    hth_kvc_bytes save_reason_detail;

    /* Our own records; a plain file of another writer has none of them. */
    bool has_parent;
    hth_key parent; /* 0x80 */
    bool has_first_position;
    uint32_t first_position; /* 0x81 */
    bool has_kind;
    uint8_t kind;         /* 0x82, hth_row_kind */
    hth_kvc_bytes logits; /* 0x83, f32 little-endian each: after the last token; in exported files only */
    bool has_own_key;
    hth_key own_key;            /* 0x84 */
    hth_kvc_bytes engine_build; /* 0x85 */
    hth_kvc_bytes hmac;         /* 0x86, 32 bytes; not checked here, see kvc_signature.h */
    bool has_head_crc;
    uint32_t head_crc32c; /* 0x87; on encoding: computed, and written where has_head_crc or a row record asks */
} hth_kvc_info;

/* Token i of a parsed file. */
hearth_token hth_kvc_token(const hth_kvc_info *info, size_t i);
static inline size_t hth_kvc_n_tokens(const hth_kvc_info *info)
{
    return info->tokens.n / 4;
}

/*
 * Parse everything before the payload.
 *
 * bytes       the first n_bytes bytes of the file.
 * file_bytes  size of the whole file, >= n_bytes.
 * need_out    when the head does not fit in n_bytes but the file is longer: how many bytes to come back with, and the
 *             result is false with fault->reason HTH_KVC_OK. Otherwise 0. May be NULL when n_bytes == file_bytes.
 *
 * True when the head is sound by the reference's rules (its checks, in its order) and then, for a row of ours, by
 * these: TLV 0x87 is in its place and matches, the kind is known, a first position comes with a parent, a row that
 * starts later than token 0 names itself (0x84), and one that starts there and has tokens has their key where it claims
 * one in 0x84. fault is always written, out on success only. Never reads outside bytes[0, n_bytes). Thread-safe.
 */
bool hth_kvc_parse_meta(const uint8_t *bytes, size_t n_bytes, uint64_t file_bytes, hth_kvc_info *out,
                        hth_kvc_fault *fault, size_t *need_out);

/*
 * Parse a whole file: parse_meta, then the payload's CRC32C, then the key. expected_key NULL skips the comparison. The
 * computed key is that of the tokens for a row from token 0; a row that starts later is compared by its 0x84 record,
 * which only somebody who has the tokens before it can check.
 */
bool hth_kvc_parse(const uint8_t *bytes, size_t n_bytes, const hth_key *expected_key, hth_kvc_info *out,
                   hth_kvc_fault *fault);

/* Bytes before the payload for this info. SIZE_MAX when the records do not fit their 32-bit length. */
size_t hth_kvc_head_bytes(const hth_kvc_info *info);

/*
 * Write everything before the payload into bytes[hth_kvc_head_bytes(info)], for a payload of payload_bytes bytes with
 * the given CRC32C. Records in the reference's order, ours behind them in the order of their tags. Optional strings are
 * left out when n is 0. A save reason, fingerprint mode or kind that a reader would refuse, or an HMAC of a length
 * other than 0 or 32, is the caller's bug (asserted); an unknown quant byte is written, and refused on reading, as the
 * format has it.
 */
void hth_kvc_encode_head(const hth_kvc_info *info, uint64_t payload_bytes, uint32_t payload_crc32c, uint8_t *bytes);

/* Where the two fields that may be rewritten in place are. */
#define HTH_KVC_HIT_COUNT_OFFSET 12
#define HTH_KVC_LAST_USED_OFFSET 32

#endif
