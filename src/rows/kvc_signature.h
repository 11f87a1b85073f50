/*
 * kvc_signature.h - the HMAC of a KVC file (record 0x86)
 *
 * HMAC-SHA256 over the whole finished file, with image and checksums. These bytes count as zeros: the value of the HMAC
 * itself, hit_count and last_used_time (rewritten in place). hth_kvc_encode_head writes the record; its value follows
 * when the image is complete:
 *
 *     info.hmac = hth_kvc_signature_room();
 *     ... hth_kvc_encode_head, then the image ...
 *     hth_kvc_sign(file, n_bytes, key);
 *
 * The CRC32C of the head (0x87) does not cover the value of the HMAC, so it stays valid.
 */
#ifndef HTH_ROWS_KVC_SIGNATURE_H
#define HTH_ROWS_KVC_SIGNATURE_H

#include "rows/kvc.h"
#include "rows/signing_key.h"

/* A value for hth_kvc_info.hmac that makes the encoder leave room for a signature. Static. */
hth_kvc_bytes hth_kvc_signature_room(void);

/*
 * Sign a complete file that hth_kvc_encode_head made from an info with an hmac. Writes only the HMAC, or nothing if the
 * file already has the signature of that key. False, with the file unchanged, if memory is short or the bytes are not
 * such a file. Thread-safe.
 */
bool hth_kvc_sign(uint8_t *bytes, size_t n_bytes, const hth_signing_key *key);

/*
 * The same for a file whose image does not follow its head in memory: begin with the head, feed the image with
 * hth_hmac_update, end. begin returns NULL without memory or if the head has no room for a signature. end writes the
 * HMAC into the head and frees signing.
 */
hth_hmac *hth_kvc_sign_begin(const uint8_t *head, size_t n_head, const hth_signing_key *key);
void hth_kvc_sign_end(hth_hmac *signing, uint8_t *head, size_t n_head);

/*
 * Did a holder of the key sign this file? bytes are the whole file, and info is the result of hth_kvc_parse or
 * hth_kvc_parse_meta for these bytes. Do not call it if no key is configured: the record is then ignored. The
 * comparison takes constant time.
 *
 * False with fault->reason HTH_KVC_UNSIGNED (no HMAC), HTH_KVC_BAD_SIGNATURE (another key, or a changed file) or
 * HTH_KVC_NO_MEMORY (nothing is known). fault is always written. Thread-safe.
 */
bool hth_kvc_verify_signature(const uint8_t *bytes, size_t n_bytes, const hth_kvc_info *info,
                              const hth_signing_key *key, hth_kvc_fault *fault);

#endif
