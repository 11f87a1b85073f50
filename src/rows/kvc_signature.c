/*
 * kvc_signature.c - signing and checking KVC files
 *
 * The encoder puts the HMAC record right before the record of the checksum of the head, which ends the head. A record
 * in any other place is not signed: files may come from other machines or from adopted memory, so the code trusts
 * nothing about their heads. The parse of a file gives the position of its HMAC.
 */
#include "rows/kvc_signature.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

enum {
    IMAGE_OFFSET_OFFSET = 48,
    RECORD_HEAD_BYTES = 5,
    HEAD_CRC_RECORD_BYTES = RECORD_HEAD_BYTES + 4,
    /* From the value of the HMAC to the image, in the output of the encoder. */
    FROM_VALUE_TO_IMAGE = HTH_HMAC_BYTES + HEAD_CRC_RECORD_BYTES,
    TAG_HMAC = 0x86,
    TAG_HEAD_CRC = 0x87,
};

static const uint8_t zeros[HTH_HMAC_BYTES];

hth_kvc_bytes hth_kvc_signature_room(void)
{
    return (hth_kvc_bytes){ .data = zeros, .n = sizeof(zeros) };
}

/*
 * Feed bytes[0, n_bytes), the beginning of a file, with zeros for the two fields that may change and for the value of
 * the HMAC.
 */
static void feed(hth_hmac *mac, const uint8_t *bytes, size_t n_bytes, size_t value)
{
    size_t at = HTH_KVC_LAST_USED_OFFSET + 8;

    hth_hmac_update(mac, bytes, HTH_KVC_HIT_COUNT_OFFSET);
    hth_hmac_update(mac, zeros, 4);
    hth_hmac_update(mac, bytes + HTH_KVC_HIT_COUNT_OFFSET + 4, HTH_KVC_LAST_USED_OFFSET - HTH_KVC_HIT_COUNT_OFFSET - 4);
    hth_hmac_update(mac, zeros, 8);
    hth_hmac_update(mac, bytes + at, value - at);
    hth_hmac_update(mac, zeros, HTH_HMAC_BYTES);
    at = value + HTH_HMAC_BYTES;
    hth_hmac_update(mac, bytes + at, n_bytes - at);
}

/* Position of the value of the HMAC in a head with the layout of the encoder; 0 for other heads. */
static size_t value_in_head(const uint8_t *head, size_t n_head)
{
    size_t value;

    if (n_head <= HTH_KVC_HEADER_BYTES + HTH_KVC_TRAILER_BYTES + RECORD_HEAD_BYTES + FROM_VALUE_TO_IMAGE ||
        hth_get_u64(head + IMAGE_OFFSET_OFFSET) != n_head)
        return 0;
    value = n_head - FROM_VALUE_TO_IMAGE;
    if (head[value - RECORD_HEAD_BYTES] != TAG_HMAC || hth_get_u32(head + value - 4) != HTH_HMAC_BYTES ||
        head[n_head - HEAD_CRC_RECORD_BYTES] != TAG_HEAD_CRC)
        return 0;
    return value;
}

hth_hmac *hth_kvc_sign_begin(const uint8_t *head, size_t n_head, const hth_signing_key *key)
{
    size_t value = value_in_head(head, n_head);
    hth_hmac *mac = value > 0 ? hth_hmac_new(key) : NULL;

    if (mac)
        feed(mac, head, n_head, value);
    return mac;
}

void hth_kvc_sign_end(hth_hmac *signing, uint8_t *head, size_t n_head)
{
    size_t value = value_in_head(head, n_head);
    uint8_t computed[HTH_HMAC_BYTES];

    assert(value > 0); /* hth_kvc_sign_begin checked it */
    hth_hmac_final(signing, computed);
    hth_hmac_free(signing);
    if (memcmp(head + value, computed, sizeof(computed)) != 0)
        memcpy(head + value, computed, sizeof(computed));
}

bool hth_kvc_sign(uint8_t *bytes, size_t n_bytes, const hth_signing_key *key)
{
    bool has_trailer = n_bytes >= HTH_KVC_HEADER_BYTES + HTH_KVC_TRAILER_BYTES;
    uint64_t n_head = has_trailer ? hth_get_u64(bytes + IMAGE_OFFSET_OFFSET) : UINT64_MAX;
    hth_hmac *mac = n_head <= n_bytes ? hth_kvc_sign_begin(bytes, (size_t)n_head, key) : NULL;

    if (!mac)
        return false;
    hth_hmac_update(mac, bytes + n_head, n_bytes - (size_t)n_head);
    hth_kvc_sign_end(mac, bytes, (size_t)n_head);
    return true;
}

bool hth_kvc_verify_signature(const uint8_t *bytes, size_t n_bytes, const hth_kvc_info *info,
                              const hth_signing_key *key, hth_kvc_fault *fault)
{
    uint8_t computed[HTH_HMAC_BYTES];
    hth_hmac *mac;
    size_t value;

    *fault = (hth_kvc_fault){ .reason = HTH_KVC_OK };
    if (!info->hmac.data) {
        fault->reason = HTH_KVC_UNSIGNED;
        return false;
    }
    /* The parser found it in the records, which come after the two fields that may change. */
    assert(info->hmac.data > bytes + HTH_KVC_LAST_USED_OFFSET);
    value = (size_t)(info->hmac.data - bytes);
    assert(value + HTH_HMAC_BYTES <= n_bytes);
    mac = hth_hmac_new(key);
    if (!mac) {
        fault->reason = HTH_KVC_NO_MEMORY;
        return false;
    }
    feed(mac, bytes, n_bytes, value);
    hth_hmac_final(mac, computed);
    hth_hmac_free(mac);
    if (!hth_hmac_equal(computed, info->hmac.data))
        fault->reason = HTH_KVC_BAD_SIGNATURE;
    return fault->reason == HTH_KVC_OK;
}
