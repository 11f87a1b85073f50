/*
 * kvc_signature.h - the HMAC of a KVC file (record 0x86)
 *
 * HMAC-SHA256 over the whole finished file, payload and checksums included, in which these bytes count as zeros: the
 * HMAC's own value, hit_count and last_used_time, which may be rewritten in place. The record comes with the head that
 * hth_kvc_encode_head writes; its value is filled in when the payload is complete:
 *
 *     info.hmac = hth_kvc_signature_room();
 *     ... hth_kvc_encode_head, the payload behind it ...
 *     hth_kvc_sign(image, n_bytes, key);
 *
 * The head's CRC32C (0x87) does not cover the HMAC's value, so it stays right.
 */
#ifndef HTH_CACHE_KVC_SIGNATURE_H
#define HTH_CACHE_KVC_SIGNATURE_H

#include "cache/kvc.h"
#include "cache/signing_key.h"

/* A value for hth_kvc_info.hmac that makes the encoder leave room for a signature. Borrowed, for ever. */
hth_kvc_bytes hth_kvc_signature_room(void);

/*
 * Sign a complete image, made by hth_kvc_encode_head from an info with an hmac. Writes the HMAC into the image and
 * touches nothing else; of an image that is signed with that key already nothing is written. False, with the image
 * unchanged, when there is no memory, and for any bytes that are no such image. Thread-safe.
 */
bool hth_kvc_sign(uint8_t *bytes, size_t n_bytes, const hth_signing_key *key);

/*
 * The same for a file whose payload does not lie behind its head in memory: begin with the head, feed the payload with
 * hth_hmac_update, end. begin gives NULL when there is no memory, or the head is no such head; end writes the HMAC into
 * the head and frees signing.
 */
hth_hmac *hth_kvc_sign_begin(const uint8_t *head, size_t n_head, const hth_signing_key *key);
void hth_kvc_sign_end(hth_hmac *signing, uint8_t *head, size_t n_head);

/*
 * Is this the file that a holder of the key signed? info is what hth_kvc_parse or hth_kvc_parse_meta gave for these
 * very bytes, which are the whole file. Where no key is configured do not ask: the record is then ignored. The
 * comparison takes the same time wherever the values differ.
 *
 * False with fault->reason HTH_KVC_UNSIGNED (no HMAC), HTH_KVC_BAD_SIGNATURE (another key, or a changed file) or
 * HTH_KVC_NO_MEMORY (nothing is known). fault is always written. Thread-safe.
 */
bool hth_kvc_verify_signature(const uint8_t *bytes, size_t n_bytes, const hth_kvc_info *info,
                              const hth_signing_key *key, hth_kvc_fault *fault);

#endif
