/*
 * kvc_fuzz.c - any bytes as a KVC file
 *
 * What is held: nothing outside the bytes is read (a sanitizer sees it); reading the head in pieces gives the verdict
 * of the whole; what is accepted lies inside the file; and what is accepted and written again is accepted, with the
 * same contents. Checksums would keep random bytes out of most of this, so an input is also tried with its checksums
 * put right.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "rows/kvc.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { ROUNDS_MAX = 5, IMAGE_CRC_OFFSET = 64 };

static void check_inside(const uint8_t *bytes, size_t n_bytes, hth_kvc_bytes part)
{
    if (!part.data)
        return;
    assert(part.data >= bytes);
    assert(part.data <= bytes + n_bytes);
    assert(part.n <= (size_t)(bytes + n_bytes - part.data));
}

static void check_accepted(const uint8_t *bytes, size_t n_bytes, const hth_kvc_info *info)
{
    assert(info->image_offset <= n_bytes);
    assert(info->image_byte_count == n_bytes - info->image_offset);
    check_inside(bytes, n_bytes, info->prompt);
    check_inside(bytes, n_bytes, info->tokens);
    check_inside(bytes, n_bytes, info->hostname);
    check_inside(bytes, n_bytes, info->writer_version);
    check_inside(bytes, n_bytes, info->save_reason_detail);
    check_inside(bytes, n_bytes, info->engine_build);
    check_inside(bytes, n_bytes, info->model);
    check_inside(bytes, n_bytes, info->logits);
    check_inside(bytes, n_bytes, info->hmac);
    assert(info->tokens.data);
    assert(info->save_reason <= HEARTH_SAVE_FINISH);
    assert(hth_quant_name(info->keyspace.quant_byte));
    for (size_t i = 0; i < hth_kvc_n_tokens(info); i++)
        (void)hth_kvc_token(info, i); /* inside, or a sanitizer sees it */
}

static bool same_bytes(hth_kvc_bytes a, hth_kvc_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.data, b.data, a.n) == 0);
}

/* Write an accepted file anew and read that. Only what the format does not carry twice may differ: unknown records. */
static void check_rewritten(const uint8_t *bytes, const hth_kvc_info *info)
{
    size_t n_head = hth_kvc_head_bytes(info), n_image = (size_t)info->image_byte_count;
    uint8_t *again = malloc(n_head + n_image);
    hth_kvc_info read;
    hth_kvc_fault fault;
    bool sound;

    assert(n_head != SIZE_MAX);
    if (!again)
        return;
    hth_kvc_encode_head(info, n_image, info->image_crc32c, again);
    if (n_image > 0)
        memcpy(again + n_head, bytes + info->image_offset, n_image);
    sound = hth_kvc_parse(again, n_head + n_image, NULL, &read, &fault);
    if (!sound) { /* without its unknown records a plain file may end like a row of ours, and be refused as one */
        assert(fault.reason == HTH_KVC_BAD_ROW);
        assert(!info->has_head_crc);
        goto out;
    }
    assert(read.has_kind == info->has_kind);
    assert(read.has_own_key == info->has_own_key);
    assert(hth_key_equal(&read.own_key, &info->own_key));
    assert(memcmp(&read.keyspace, &info->keyspace, sizeof(read.keyspace)) == 0);
    assert(same_bytes(read.prompt, info->prompt));
    assert(same_bytes(read.tokens, info->tokens));
    assert(same_bytes(read.hostname, info->hostname));
    assert(same_bytes(read.engine_build, info->engine_build));
    assert(same_bytes(read.model, info->model));
out:
    free(again);
}

static void check_in_rounds(const uint8_t *bytes, size_t n_bytes, bool whole, const hth_kvc_fault *whole_fault)
{
    size_t n_there = 0, need = 0, n_rounds = 0;
    hth_kvc_info info;
    hth_kvc_fault fault;
    bool sound;

    do {
        uint8_t *part = need > 0 ? malloc(need) : NULL; /* exactly what was asked for */

        if (!part && need > 0)
            return;
        n_there = need;
        if (n_there > 0)
            memcpy(part, bytes, n_there);
        sound = hth_kvc_parse_meta(part, n_there, n_bytes, &info, &fault, &need);
        free(part);
        assert(need == 0 || !sound);
        assert(need == 0 || need > n_there);
        assert(need <= n_bytes);
        assert(++n_rounds <= ROUNDS_MAX);
    } while (need > 0);
    assert(sound == whole);
    assert(fault.reason == whole_fault->reason);
    assert(fault.stored == whole_fault->stored);
    assert(fault.computed == whole_fault->computed);
    assert(fault.name == whole_fault->name);
}

static hth_kvc_fault check_file(const uint8_t *bytes, size_t n_bytes)
{
    hth_kvc_info info;
    hth_kvc_fault fault;
    char text[256];
    bool sound = hth_kvc_parse_meta(bytes, n_bytes, n_bytes, &info, &fault, NULL);

    assert(sound == (fault.reason == HTH_KVC_OK));
    check_in_rounds(bytes, n_bytes, sound, &fault);
    if (sound)
        check_accepted(bytes, n_bytes, &info);
    if (hth_kvc_parse(bytes, n_bytes, NULL, &info, &fault)) {
        assert(sound);
        check_rewritten(bytes, &info);
    }
    hth_kvc_fault_text(&fault, text, sizeof(text));
    assert(text[0]);
    return fault;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hth_kvc_fault fault = check_file(bytes, n_bytes);
    uint8_t *mended = n_bytes > 0 ? malloc(n_bytes) : NULL;

    /* An image's checksum is part of the head, so the head's may have to be put right twice. */
    for (int i = 0; mended && i < 3; i++) {
        if (i == 0)
            memcpy(mended, bytes, n_bytes);
        if (fault.reason == HTH_KVC_HEAD_CRC_MISMATCH)
            hth_put_u32(mended + hth_get_u64(mended + 48) - 4, (uint32_t)fault.computed);
        else if (fault.reason == HTH_KVC_CRC_MISMATCH)
            hth_put_u32(mended + IMAGE_CRC_OFFSET, (uint32_t)fault.computed);
        else
            break;
        fault = check_file(mended, n_bytes);
    }
    free(mended);
    return 0;
}
