/*
 * kvc.c - reading and writing everything before a row's image
 *
 *   offset  size  field                            offset  size  field
 *     0      3    magic "KVC"                        48      8    image_offset
 *     3      1    version                            56      8    image_length
 *     4      1    quant_bits                         64      4    image CRC32C
 *     5      1    save_reason                        68      4    0
 *     6      2    0                                  72      4    prompt length P
 *     8      4    cached_token_count                 76      P    prompt
 *    12      4    hit_count                          76+P    4    record section length T
 *    16      4    context_size                       80+P    T    records: tag u8, length u32, value
 *    20      4    0                                  80+P+T  ...  image
 *    24      8    creation_time
 *    32      8    last_used_time
 *    40      8    image_byte_count
 *
 * The reader goes through the file once, in the order of the checks of the reference. It gets the size of the file and
 * its first bytes. A check that needs more bytes ends the pass and returns the number of bytes that it needs. Positions
 * are 64 bits wide, so a sum of two section lengths cannot overflow them.
 */
#include "rows/kvc.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hex.h"

static_assert(SIZE_MAX >= UINT64_MAX, "positions in a file are counted in size_t");

enum {
    SAVE_REASON_OFFSET = 5,
    CACHED_TOKEN_COUNT_OFFSET = 8,
    CONTEXT_SIZE_OFFSET = 16,
    CREATION_TIME_OFFSET = 24,
    IMAGE_BYTE_COUNT_OFFSET = 40,
    IMAGE_OFFSET_OFFSET = 48,
    IMAGE_LENGTH_OFFSET = 56,
    IMAGE_CRC_OFFSET = 64,
    PROMPT_LENGTH_OFFSET = 72,

    LENGTH_BYTES = 4,
    RECORD_HEAD_BYTES = 1 + LENGTH_BYTES,
    SMALLEST_HEAD_BYTES = PROMPT_LENGTH_OFFSET + 2 * LENGTH_BYTES,
    HMAC_BYTES = 32,
    HEAD_CRC_RECORD_BYTES = RECORD_HEAD_BYTES + 4,
};

static_assert(IMAGE_OFFSET_OFFSET == HTH_KVC_HEADER_BYTES, "the trailer follows the header");
static_assert(PROMPT_LENGTH_OFFSET == HTH_KVC_HEADER_BYTES + HTH_KVC_TRAILER_BYTES, "the prompt follows the trailer");

typedef enum tag {
    TAG_FINGERPRINT = 0x01,
    TAG_FINGERPRINT_MODE = 0x02,
    TAG_QUANT = 0x03,
    TAG_CTX_PARAMS_HASH = 0x04,
    TAG_HOSTNAME = 0x05,
    TAG_WRITER_VERSION = 0x06,
    TAG_SAVE_REASON_DETAIL = 0x07,
    TAG_TOKEN_COUNT = 0x08,
    TAG_TOKENS = 0x09,
    /* Hearth's own tags. */
    TAG_PARENT = 0x80,
    TAG_FIRST_POSITION = 0x81,
    TAG_KIND = 0x82,
    TAG_LOGITS = 0x83,
    TAG_OWN_KEY = 0x84,
    TAG_ENGINE_BUILD = 0x85,
    TAG_HMAC = 0x86,
    TAG_HEAD_CRC = 0x87, /* the last record, whatever its number */
    TAG_MODEL = 0x88,
} tag;

static const uint8_t magic[] = { 'K', 'V', 'C' };

enum { MODE_MAX = HEARTH_FINGERPRINT_FAST_UNSAFE };

/* ---- the checksum of a head ---- */

/* Continue crc with bytes[at, begin), and then with n_zeros zeros in place of the bytes that follow. */
static uint32_t crc_then_zeros(uint32_t crc, const uint8_t *bytes, size_t at, size_t begin, size_t n_zeros)
{
    static const uint8_t zeros[HMAC_BYTES];

    assert(at <= begin);
    assert(n_zeros <= sizeof(zeros));
    crc = hth_crc32c(crc, bytes + at, begin - at);
    return hth_crc32c(crc, zeros, n_zeros);
}

/*
 * The value of the record 0x87 that ends a head of n_bytes. hmac is the position of the value of the HMAC record, which
 * lies before it; 0 if there is none.
 */
static uint32_t head_crc(const uint8_t *bytes, size_t n_bytes, size_t hmac)
{
    size_t own = n_bytes - 4;
    size_t at = HTH_KVC_LAST_USED_OFFSET + 8;
    uint32_t crc = crc_then_zeros(0, bytes, 0, HTH_KVC_HIT_COUNT_OFFSET, 4);

    crc = crc_then_zeros(crc, bytes, HTH_KVC_HIT_COUNT_OFFSET + 4, HTH_KVC_LAST_USED_OFFSET, 8);
    if (hmac > 0) {
        crc = crc_then_zeros(crc, bytes, at, hmac, HMAC_BYTES);
        at = hmac + HMAC_BYTES;
    }
    return crc_then_zeros(crc, bytes, at, own, 4);
}

/* ---- reading ---- */

typedef struct reader {
    const uint8_t *bytes; /* the first n_bytes of the file */
    size_t n_bytes;
    uint64_t file_bytes;
    hth_kvc_info *info;
    hth_kvc_fault *fault;
    uint64_t need; /* set if a check ends the pass for lack of bytes */

    uint64_t records_begin;
    uint64_t records_end;
    uint32_t found;    /* bit t: a valid record of the format itself with the tag t */
    uint64_t hmac;     /* position of the value of the last valid 0x86; 0: none */
    uint64_t head_crc; /* likewise of 0x87 */
} reader;

static bool refuse(reader *r, hth_kvc_reason reason)
{
    r->fault->reason = reason;
    return false;
}

static bool refuse_value(reader *r, hth_kvc_reason reason, uint64_t value)
{
    r->fault->stored = value;
    return refuse(r, reason);
}

static bool refuse_named(reader *r, hth_kvc_reason reason, const char *name)
{
    r->fault->name = name;
    return refuse(r, reason);
}

/* Are bytes[0, end) in the buffer? end is at most file_bytes. */
static bool reach(reader *r, uint64_t end)
{
    assert(end <= r->file_bytes);
    if (end <= r->n_bytes)
        return true;
    r->need = end;
    if (r->need < SMALLEST_HEAD_BYTES && r->file_bytes >= SMALLEST_HEAD_BYTES)
        r->need = SMALLEST_HEAD_BYTES; /* no smaller file is sound; this saves the caller a round */
    return false;
}

static bool read_header(reader *r)
{
    const uint8_t *bytes = r->bytes;
    hth_kvc_info *info = r->info;

    if (r->file_bytes < HTH_KVC_HEADER_BYTES)
        return refuse(r, HTH_KVC_BAD_HEADER);
    if (!reach(r, HTH_KVC_HEADER_BYTES))
        return false;
    if (memcmp(bytes, magic, sizeof(magic)) != 0)
        return refuse(r, HTH_KVC_BAD_HEADER);
    if (bytes[3] != HTH_KVC_VERSION)
        return refuse_value(r, HTH_KVC_UNSUPPORTED_VERSION, bytes[3]);
    if (bytes[SAVE_REASON_OFFSET] > HEARTH_SAVE_FINISH)
        return refuse_value(r, HTH_KVC_UNKNOWN_SAVE_REASON, bytes[SAVE_REASON_OFFSET]);

    info->quant_bits = bytes[4];
    info->save_reason = bytes[SAVE_REASON_OFFSET];
    info->cached_token_count = hth_get_u32(bytes + CACHED_TOKEN_COUNT_OFFSET);
    info->hit_count = hth_get_u32(bytes + HTH_KVC_HIT_COUNT_OFFSET);
    info->context_size = hth_get_u32(bytes + CONTEXT_SIZE_OFFSET);
    info->creation_time = hth_get_u64(bytes + CREATION_TIME_OFFSET);
    info->last_used_time = hth_get_u64(bytes + HTH_KVC_LAST_USED_OFFSET);
    info->image_byte_count = hth_get_u64(bytes + IMAGE_BYTE_COUNT_OFFSET);
    return true;
}

static bool read_trailer(reader *r)
{
    if (r->file_bytes < PROMPT_LENGTH_OFFSET)
        return refuse(r, HTH_KVC_BAD_TRAILER);
    if (!reach(r, PROMPT_LENGTH_OFFSET))
        return false;
    r->info->image_offset = hth_get_u64(r->bytes + IMAGE_OFFSET_OFFSET);
    r->info->image_crc32c = hth_get_u32(r->bytes + IMAGE_CRC_OFFSET);
    return true;
}

/* A u32 length at that position, followed by as many bytes, all inside the file. */
static bool measure_section(reader *r, uint64_t at, uint32_t *n_out)
{
    uint32_t n;

    if (r->file_bytes < at + LENGTH_BYTES)
        return refuse(r, HTH_KVC_BAD_LENGTH_PREFIXED_SECTION);
    if (!reach(r, at + LENGTH_BYTES))
        return false;
    n = hth_get_u32(r->bytes + at);
    if (n > r->file_bytes - (at + LENGTH_BYTES))
        return refuse(r, HTH_KVC_BAD_LENGTH_PREFIXED_SECTION);
    *n_out = n;
    return true;
}

static bool read_sections(reader *r)
{
    uint32_t n_prompt, n_records;

    if (!measure_section(r, PROMPT_LENGTH_OFFSET, &n_prompt))
        return false;
    r->records_begin = (uint64_t)SMALLEST_HEAD_BYTES + n_prompt;
    if (!measure_section(r, r->records_begin - LENGTH_BYTES, &n_records))
        return false;
    r->records_end = r->records_begin + n_records;
    if (!reach(r, r->records_end))
        return false;
    r->info->prompt = (hth_kvc_bytes){ .data = r->bytes + PROMPT_LENGTH_OFFSET + LENGTH_BYTES, .n = n_prompt };
    return true;
}

/*
 * Process one of our own records. A record of the wrong length counts as unknown; the last of several valid ones wins.
 */
static void take_own_record(reader *r, uint8_t which, const uint8_t *value, uint32_t n)
{
    hth_kvc_info *info = r->info;

    if (which == TAG_PARENT && n == HTH_KEY_BYTES) {
        memcpy(info->parent.bytes, value, HTH_KEY_BYTES);
        info->has_parent = true;
    } else if (which == TAG_FIRST_POSITION && n == 4) {
        info->first_position = hth_get_u32(value);
        info->has_first_position = true;
    } else if (which == TAG_KIND && n == 1) {
        info->kind = value[0];
        info->has_kind = true;
    } else if (which == TAG_LOGITS && n > 0 && n % 4 == 0) {
        info->logits = (hth_kvc_bytes){ .data = value, .n = n };
    } else if (which == TAG_OWN_KEY && n == HTH_KEY_BYTES) {
        memcpy(info->own_key.bytes, value, HTH_KEY_BYTES);
        info->has_own_key = true;
    } else if (which == TAG_ENGINE_BUILD) {
        info->engine_build = (hth_kvc_bytes){ .data = value, .n = n };
    } else if (which == TAG_MODEL) {
        info->model = (hth_kvc_bytes){ .data = value, .n = n };
    } else if (which == TAG_HMAC && n == HMAC_BYTES) {
        info->hmac = (hth_kvc_bytes){ .data = value, .n = n };
        r->hmac = (uint64_t)(value - r->bytes);
    } else if (which == TAG_HEAD_CRC && n == 4) {
        info->head_crc32c = hth_get_u32(value);
        info->has_head_crc = true;
        r->head_crc = (uint64_t)(value - r->bytes);
    }
}

/* Process one record, by the same two rules. False only for a value that the format does not know. */
static bool take_record(reader *r, uint8_t which, const uint8_t *value, uint32_t n)
{
    hth_kvc_info *info = r->info;
    hth_kvc_bytes bytes = { .data = value, .n = n };
    bool good = true;

    if (which == TAG_FINGERPRINT && n == 32) {
        memcpy(info->keyspace.fingerprint, value, 32);
    } else if (which == TAG_FINGERPRINT_MODE && n == 1) {
        if (value[0] > MODE_MAX)
            return refuse_value(r, HTH_KVC_UNKNOWN_FINGERPRINT_MODE, value[0]);
        info->keyspace.fingerprint_mode = value[0];
    } else if (which == TAG_QUANT && n == 1) {
        if (!hth_quant_name(value[0]))
            return refuse_value(r, HTH_KVC_UNKNOWN_QUANT_BYTE, value[0]);
        info->keyspace.quant_byte = value[0];
    } else if (which == TAG_CTX_PARAMS_HASH && n == 32) {
        memcpy(info->keyspace.ctx_params_hash, value, 32);
    } else if (which == TAG_TOKENS && n % 4 == 0) {
        info->tokens = bytes;
    } else if (which == TAG_HOSTNAME) {
        info->hostname = bytes;
    } else if (which == TAG_WRITER_VERSION) {
        info->writer_version = bytes;
    } else if (which == TAG_SAVE_REASON_DETAIL) {
        info->save_reason_detail = bytes;
    } else {
        good = false;
        take_own_record(r, which, value, n);
    }
    if (good)
        r->found |= UINT32_C(1) << which;
    return true;
}

static bool read_records(reader *r)
{
    uint64_t at = r->records_begin;

    while (at < r->records_end) {
        uint64_t rest = r->records_end - at;
        uint32_t n;

        if (rest < RECORD_HEAD_BYTES)
            return refuse(r, HTH_KVC_BAD_TLV);
        n = hth_get_u32(r->bytes + at + 1);
        if (n > rest - RECORD_HEAD_BYTES)
            return refuse(r, HTH_KVC_BAD_TLV);
        if (!take_record(r, r->bytes[at], r->bytes + at + RECORD_HEAD_BYTES, n))
            return false;
        at += RECORD_HEAD_BYTES + (uint64_t)n;
    }
    return true;
}

static bool check_image_range(reader *r)
{
    uint64_t n_image = hth_get_u64(r->bytes + IMAGE_LENGTH_OFFSET);
    uint64_t end;

    if (n_image != r->info->image_byte_count)
        return refuse(r, HTH_KVC_IMAGE_LENGTH_MISMATCH);
    if (__builtin_add_overflow(r->info->image_offset, n_image, &end) || end > r->file_bytes)
        return refuse(r, HTH_KVC_TRUNCATED);
    if (end < r->file_bytes)
        return refuse(r, HTH_KVC_TRAILING_BYTES);
    return true;
}

static bool check_required_records(reader *r)
{
    static const struct {
        tag tag;
        const char *name;
    } required[] = {
        { TAG_FINGERPRINT, "fingerprint" }, { TAG_FINGERPRINT_MODE, "fingerprint_mode" },
        { TAG_QUANT, "quant_type" },        { TAG_CTX_PARAMS_HASH, "ctx_params_hash" },
        { TAG_TOKENS, "tokens" },
    };

    for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
        if (!(r->found & UINT32_C(1) << required[i].tag))
            return refuse_named(r, HTH_KVC_MISSING_TLV, required[i].name);
    return true;
}

/* Do the bytes right before the image spell a 0x87 record, even if the records do not seem to reach it? */
static bool ends_in_head_crc(const reader *r)
{
    static const uint8_t record_head[RECORD_HEAD_BYTES] = { TAG_HEAD_CRC, 4, 0, 0, 0 };
    uint64_t end = r->info->image_offset;

    return end >= SMALLEST_HEAD_BYTES + HEAD_CRC_RECORD_BYTES &&
           memcmp(r->bytes + end - HEAD_CRC_RECORD_BYTES, record_head, RECORD_HEAD_BYTES) == 0;
}

static bool check_head_crc(reader *r)
{
    uint64_t end = r->info->image_offset;
    uint32_t computed;

    if (!r->info->has_head_crc || r->head_crc + 4 != end || r->records_end != end)
        return refuse_named(r, HTH_KVC_BAD_ROW, "head_crc32c");
    computed = head_crc(r->bytes, end, r->hmac);
    if (r->info->head_crc32c == computed)
        return true;
    r->fault->stored = r->info->head_crc32c;
    r->fault->computed = computed;
    return refuse(r, HTH_KVC_HEAD_CRC_MISMATCH);
}

/* Checks beyond the format: are our records complete and consistent? Files from other writers have none of them. */
static bool check_own_records(reader *r)
{
    const hth_kvc_info *info = r->info;
    hth_key key;

    if (!reach(r, info->image_offset)) /* bytes between the records and the image */
        return false;
    if (!info->has_parent && !info->has_first_position && !info->has_kind && !info->logits.data && !info->has_own_key &&
        !info->hmac.data && !info->has_head_crc && !ends_in_head_crc(r))
        return true;

    if (!check_head_crc(r))
        return false;
    if (info->has_kind && info->kind >= HTH_ROW_KINDS)
        return refuse_named(r, HTH_KVC_BAD_ROW, "kind");
    if (info->has_first_position && !info->has_parent)
        return refuse_named(r, HTH_KVC_BAD_ROW, "parent");
    if (info->first_position > 0 && !info->has_own_key)
        return refuse_named(r, HTH_KVC_BAD_ROW, "own_key");
    if (info->first_position == 0 && info->has_own_key && info->tokens.n > 0) {
        if (!hth_key_of_bytes(&info->keyspace, info->tokens.data, info->tokens.n, &key))
            return refuse(r, HTH_KVC_NO_MEMORY);
        if (!hth_key_equal(&key, &info->own_key))
            return refuse_named(r, HTH_KVC_BAD_ROW, "own_key");
    }
    return true;
}

bool hth_kvc_parse_meta(const uint8_t *bytes, size_t n_bytes, uint64_t file_bytes, hth_kvc_info *out,
                        hth_kvc_fault *fault, size_t *need_out)
{
    hth_kvc_info info = { .quant_bits = 0 };
    reader r = { .bytes = bytes, .n_bytes = n_bytes, .file_bytes = file_bytes, .info = &info, .fault = fault };
    bool sound;

    assert(n_bytes <= file_bytes);
    assert(need_out || n_bytes == file_bytes);
    *fault = (hth_kvc_fault){ .reason = HTH_KVC_OK };
    sound = read_header(&r) && read_trailer(&r) && read_sections(&r) && read_records(&r) && check_image_range(&r) &&
            check_required_records(&r) && check_own_records(&r);
    if (need_out)
        *need_out = (size_t)r.need;
    if (sound)
        *out = info;
    return sound;
}

bool hth_kvc_parse(const uint8_t *bytes, size_t n_bytes, const hth_key *expected_key, hth_kvc_info *out,
                   hth_kvc_fault *fault)
{
    hth_kvc_info info;
    uint32_t crc;
    hth_key key;

    if (!hth_kvc_parse_meta(bytes, n_bytes, n_bytes, &info, fault, NULL))
        return false;

    crc = hth_crc32c(0, bytes + info.image_offset, (size_t)info.image_byte_count);
    if (crc != info.image_crc32c) {
        *fault = (hth_kvc_fault){ .reason = HTH_KVC_CRC_MISMATCH, .stored = info.image_crc32c, .computed = crc };
        return false;
    }
    if (expected_key) {
        if (info.first_position > 0) {
            key = info.own_key; /* parse_meta checked that it is there */
        } else if (!hth_key_of_bytes(&info.keyspace, info.tokens.data, info.tokens.n, &key)) {
            fault->reason = HTH_KVC_NO_MEMORY;
            return false;
        }
        if (!hth_key_equal(&key, expected_key)) {
            *fault = (hth_kvc_fault){
                .reason = HTH_KVC_KEY_MISMATCH,
                .expected_key = *expected_key,
                .computed_key = key,
            };
            return false;
        }
    }
    *out = info;
    return true;
}

hearth_token hth_kvc_token(const hth_kvc_info *info, size_t i)
{
    assert(i < hth_kvc_n_tokens(info));
    return (hearth_token)hth_get_u32(info->tokens.data + 4 * i);
}

/* ---- faults in words ---- */

/* Of each reason: the word of the reference, and a sentence; NULL if the sentence has arguments. */
static const struct {
    const char *name;
    const char *sentence;
} reasons[] = {
    [HTH_KVC_OK] = { "ok", "it is sound" },
    [HTH_KVC_BAD_HEADER] = { "bad_header", "it does not begin with the header of a KVC file" },
    [HTH_KVC_UNSUPPORTED_VERSION] = { "unsupported_version", NULL },
    [HTH_KVC_UNKNOWN_SAVE_REASON] = { "unknown_save_reason", NULL },
    [HTH_KVC_BAD_TRAILER] = { "bad_trailer", "it ends before the prompt's length" },
    [HTH_KVC_BAD_LENGTH_PREFIXED_SECTION] = { "bad_length_prefixed_section",
                                              "its prompt or its records reach beyond its end" },
    [HTH_KVC_BAD_TLV] = { "bad_tlv", "one of its records does not fit among the records" },
    [HTH_KVC_UNKNOWN_FINGERPRINT_MODE] = { "unknown_fingerprint_mode", NULL },
    [HTH_KVC_UNKNOWN_QUANT_BYTE] = { "unknown_quant_byte", NULL },
    [HTH_KVC_IMAGE_LENGTH_MISMATCH] = { "payload_length_mismatch",
                                        "its header and its trailer give the image different lengths" },
    [HTH_KVC_TRUNCATED] = { "truncated", "it ends before its image does" },
    [HTH_KVC_TRAILING_BYTES] = { "trailing_bytes", "it goes on after its image" },
    [HTH_KVC_MISSING_TLV] = { "missing_tlv", NULL },
    [HTH_KVC_CRC_MISMATCH] = { "crc_mismatch", NULL },
    [HTH_KVC_KEY_MISMATCH] = { "key_mismatch", NULL },
    [HTH_KVC_HEAD_CRC_MISMATCH] = { "head_crc_mismatch", NULL },
    [HTH_KVC_BAD_ROW] = { "bad_row", NULL },
    [HTH_KVC_NO_MEMORY] = { "no_memory", "there was no memory to compute its key" },
    [HTH_KVC_UNSIGNED] = { "unsigned", "it is not signed, and a signing key is configured" },
    [HTH_KVC_BAD_SIGNATURE] = { "bad_signature", "its signature was made with another key, or it was changed since" },
};

enum { N_REASONS = sizeof(reasons) / sizeof(reasons[0]) };

const char *hth_kvc_reason_name(hth_kvc_reason reason)
{
    const char *name = (unsigned)reason < N_REASONS ? reasons[reason].name : NULL;

    return name ? name : "unknown";
}

void hth_kvc_fault_text(const hth_kvc_fault *fault, char *text, size_t capacity)
{
    char expected[2 * HTH_KEY_BYTES + 1], computed[2 * HTH_KEY_BYTES + 1];
    const char *plain = (unsigned)fault->reason < N_REASONS ? reasons[fault->reason].sentence : NULL;
    const char *name = fault->name ? fault->name : "?";

    switch (fault->reason) {
    case HTH_KVC_UNSUPPORTED_VERSION:
        (void)snprintf(text, capacity, "it is of version %" PRIu64 " of the format, and only version %d can be read",
                       fault->stored, HTH_KVC_VERSION);
        break;
    case HTH_KVC_UNKNOWN_SAVE_REASON:
        (void)snprintf(text, capacity, "its save reason is %" PRIu64 ", not one of 0 to %d", fault->stored,
                       HEARTH_SAVE_FINISH);
        break;
    case HTH_KVC_UNKNOWN_FINGERPRINT_MODE:
        (void)snprintf(text, capacity, "its fingerprint mode is %" PRIu64 ", not one of 0 to %d", fault->stored,
                       MODE_MAX);
        break;
    case HTH_KVC_UNKNOWN_QUANT_BYTE:
        (void)snprintf(text, capacity, "its quant type is %" PRIu64 ", which has no name", fault->stored);
        break;
    case HTH_KVC_MISSING_TLV: (void)snprintf(text, capacity, "it has no record of its %s", name); break;
    case HTH_KVC_BAD_ROW:
        (void)snprintf(text, capacity, "its record %s is missing or contradicts the others", name);
        break;
    case HTH_KVC_CRC_MISMATCH:
    case HTH_KVC_HEAD_CRC_MISMATCH:
        (void)snprintf(text, capacity, "its %s was written with the CRC32C %08" PRIx64 " and has %08" PRIx64,
                       fault->reason == HTH_KVC_CRC_MISMATCH ? "payload" : "head", fault->stored, fault->computed);
        break;
    case HTH_KVC_KEY_MISMATCH:
        hth_hex_encode(fault->expected_key.bytes, HTH_KEY_BYTES, expected);
        hth_hex_encode(fault->computed_key.bytes, HTH_KEY_BYTES, computed);
        (void)snprintf(text, capacity, "its key is %s and not %s", computed, expected);
        break;
    default: (void)snprintf(text, capacity, "%s", plain ? plain : "it is refused for an unknown reason"); break;
    }
}

/* ---- writing ---- */

static bool wants_head_crc(const hth_kvc_info *info)
{
    return info->has_head_crc || info->has_parent || info->has_first_position || info->has_kind || info->logits.n > 0 ||
           info->has_own_key || info->hmac.n > 0;
}

/* The bytes of a record; 0 if it is optional and left out. */
static uint64_t record_bytes(bool present, uint32_t n)
{
    return present ? RECORD_HEAD_BYTES + (uint64_t)n : 0;
}

static uint64_t records_bytes(const hth_kvc_info *info)
{
    return record_bytes(true, 32) + record_bytes(true, 1) + record_bytes(true, 1) + record_bytes(true, 32) +
           record_bytes(true, 4) + record_bytes(true, info->tokens.n) +
           record_bytes(info->hostname.n > 0, info->hostname.n) +
           record_bytes(info->writer_version.n > 0, info->writer_version.n) +
           record_bytes(info->save_reason_detail.n > 0, info->save_reason_detail.n) +
           record_bytes(info->has_parent, HTH_KEY_BYTES) + record_bytes(info->has_first_position, 4) +
           record_bytes(info->has_kind, 1) + record_bytes(info->logits.n > 0, info->logits.n) +
           record_bytes(info->has_own_key, HTH_KEY_BYTES) +
           record_bytes(info->engine_build.n > 0, info->engine_build.n) +
           record_bytes(info->model.n > 0, info->model.n) + record_bytes(info->hmac.n > 0, HMAC_BYTES) +
           record_bytes(wants_head_crc(info), 4);
}

size_t hth_kvc_head_bytes(const hth_kvc_info *info)
{
    uint64_t n_records = records_bytes(info);

    if (n_records > UINT32_MAX)
        return SIZE_MAX;
    return SMALLEST_HEAD_BYTES + (size_t)info->prompt.n + (size_t)n_records;
}

/* Write one record. Returns the place of the next one. */
static uint8_t *put_record(uint8_t *at, tag which, const void *value, uint32_t n)
{
    at[0] = (uint8_t)which;
    hth_put_u32(at + 1, n);
    if (n > 0)
        memcpy(at + RECORD_HEAD_BYTES, value, n);
    return at + RECORD_HEAD_BYTES + n;
}

static uint8_t *put_record_u32(uint8_t *at, tag which, uint32_t value)
{
    uint8_t bytes[4];

    hth_put_u32(bytes, value);
    return put_record(at, which, bytes, sizeof(bytes));
}

static uint8_t *put_record_if_any(uint8_t *at, tag which, hth_kvc_bytes value)
{
    return value.n > 0 ? put_record(at, which, value.data, value.n) : at;
}

static uint8_t *put_own_records(uint8_t *at, const hth_kvc_info *info, uint8_t *bytes)
{
    size_t hmac = 0;

    if (info->has_parent)
        at = put_record(at, TAG_PARENT, info->parent.bytes, HTH_KEY_BYTES);
    if (info->has_first_position)
        at = put_record_u32(at, TAG_FIRST_POSITION, info->first_position);
    if (info->has_kind)
        at = put_record(at, TAG_KIND, &info->kind, 1);
    at = put_record_if_any(at, TAG_LOGITS, info->logits);
    if (info->has_own_key)
        at = put_record(at, TAG_OWN_KEY, info->own_key.bytes, HTH_KEY_BYTES);
    at = put_record_if_any(at, TAG_ENGINE_BUILD, info->engine_build);
    at = put_record_if_any(at, TAG_MODEL, info->model);
    if (info->hmac.n > 0) {
        hmac = (size_t)(at - bytes) + RECORD_HEAD_BYTES;
        at = put_record(at, TAG_HMAC, info->hmac.data, HMAC_BYTES);
    }
    if (wants_head_crc(info)) {
        at = put_record_u32(at, TAG_HEAD_CRC, 0);
        hth_put_u32(at - 4, head_crc(bytes, (size_t)(at - bytes), hmac));
    }
    return at;
}

void hth_kvc_encode_head(const hth_kvc_info *info, uint64_t image_bytes, uint32_t image_crc32c, uint8_t *bytes)
{
    size_t n_head = hth_kvc_head_bytes(info);
    const hth_keyspace *keyspace = &info->keyspace;
    uint8_t *at = bytes + SMALLEST_HEAD_BYTES + info->prompt.n;

    assert(n_head != SIZE_MAX);
    assert(info->save_reason <= HEARTH_SAVE_FINISH);
    assert(keyspace->fingerprint_mode <= MODE_MAX);
    assert(info->tokens.n % 4 == 0);
    assert(!info->has_kind || info->kind < HTH_ROW_KINDS);
    assert(info->logits.n % 4 == 0);
    assert(info->hmac.n == 0 || info->hmac.n == HMAC_BYTES);

    memset(bytes, 0, SMALLEST_HEAD_BYTES);
    memcpy(bytes, magic, sizeof(magic));
    bytes[3] = HTH_KVC_VERSION;
    bytes[4] = info->quant_bits;
    bytes[SAVE_REASON_OFFSET] = info->save_reason;
    hth_put_u32(bytes + CACHED_TOKEN_COUNT_OFFSET, info->cached_token_count);
    hth_put_u32(bytes + HTH_KVC_HIT_COUNT_OFFSET, info->hit_count);
    hth_put_u32(bytes + CONTEXT_SIZE_OFFSET, info->context_size);
    hth_put_u64(bytes + CREATION_TIME_OFFSET, info->creation_time);
    hth_put_u64(bytes + HTH_KVC_LAST_USED_OFFSET, info->last_used_time);
    hth_put_u64(bytes + IMAGE_BYTE_COUNT_OFFSET, image_bytes);
    hth_put_u64(bytes + IMAGE_OFFSET_OFFSET, n_head);
    hth_put_u64(bytes + IMAGE_LENGTH_OFFSET, image_bytes);
    hth_put_u32(bytes + IMAGE_CRC_OFFSET, image_crc32c);
    hth_put_u32(bytes + PROMPT_LENGTH_OFFSET, info->prompt.n);
    if (info->prompt.n > 0)
        memcpy(bytes + PROMPT_LENGTH_OFFSET + LENGTH_BYTES, info->prompt.data, info->prompt.n);
    hth_put_u32(at - LENGTH_BYTES, (uint32_t)records_bytes(info));

    at = put_record(at, TAG_FINGERPRINT, keyspace->fingerprint, 32);
    at = put_record(at, TAG_FINGERPRINT_MODE, &keyspace->fingerprint_mode, 1);
    at = put_record(at, TAG_QUANT, &keyspace->quant_byte, 1);
    at = put_record(at, TAG_CTX_PARAMS_HASH, keyspace->ctx_params_hash, 32);
    at = put_record_u32(at, TAG_TOKEN_COUNT, (uint32_t)hth_kvc_n_tokens(info));
    at = put_record(at, TAG_TOKENS, info->tokens.data, info->tokens.n);
    at = put_record_if_any(at, TAG_HOSTNAME, info->hostname);
    at = put_record_if_any(at, TAG_WRITER_VERSION, info->writer_version);
    at = put_record_if_any(at, TAG_SAVE_REASON_DETAIL, info->save_reason_detail);
    at = put_own_records(at, info, bytes);
    assert((size_t)(at - bytes) == n_head);
}
