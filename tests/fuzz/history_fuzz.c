/*
 * history_fuzz.c - any bytes as a file of the history
 *
 * What is held: nothing outside the bytes is read (a sanitizer sees it); checking costs at most a few times the bytes;
 * and a record that is believed has no other control tokens and user-defined ones than the tokenizer reads in its text.
 * Digests and checksums would keep random bytes out of most of this, so an input is also tried with them put right.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "wholes.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { BYTES_MAX = 1 << 20, CHECKS_MAX = 4 };
/* The layout of history_entry.h. */
enum { AT_BYTES = 8, AT_N_TOKENS = 12, AT_FORM = 16, AT_SIGNED = 17, AT_SPACE = 18, AT_BELOW = 51, AT_DIGEST = 67 };
enum { AT_ZERO = 83, AT_TOKENS = 88 };

static void add_entry(const hth_spelling *s, hth_history *history, const hth_history_entry *entry)
{
    hth_history_record record = entry->record;
    hth_history_end before;
    const hth_history_span span = {
        .space = &record.space, .before = &before, .tokens = record.tokens, .n_tokens = record.n_tokens
    };
    hth_history_digest digest;
    char *text;

    if (!hth_history_end_of(history, &record.space, &record.below, &before))
        return;
    text = hth_spelling_text(&span, entry->form, &record.n_bytes, (void *)s);
    record.text = text;
    if (text && hth_history_digest_of(&record, &digest) && memcmp(&digest, &entry->digest, sizeof(digest)) == 0) {
        check_wholes(s, record.text, record.n_bytes, record.tokens, record.n_tokens,
                     record.space.bytes[HTH_HISTORY_SPACE_BYTES - 1]);
        hth_history_add_record(history, &record, &digest);
    }
    free(text);
}

static void check_file(const uint8_t *bytes, size_t n_bytes)
{
    hth_history_reader reader = { .bytes = bytes, .n_bytes = n_bytes };
    hth_history *history = hth_history_new(BYTES_MAX, N_VOCAB);
    hth_history_entry entry;

    if (!history)
        return;
    while (hth_history_reader_next(&reader, &entry)) {
        add_entry(the_spelling(), history, &entry);
        free(entry.tokens);
    }
    assert(reader.n_checked <= CHECKS_MAX * (uint64_t)n_bytes);
    assert(hth_history_bytes(history) <= BYTES_MAX);
    hth_history_free(history);
}

/* Put an entry's space, digests and checksum right. It may stand on the entry before it, whose text ends so. */
static bool mend(uint8_t *bytes, size_t n_bytes, hth_history_digest *below, hth_history_end *before)
{
    size_t n_tokens = hth_get_u32(bytes + AT_N_TOKENS) % 64 + 1, n = AT_TOKENS + 4 * n_tokens + 4;
    hth_history_record record = { .n_tokens = n_tokens };
    hth_history_span span = { .space = &record.space, .before = before, .n_tokens = n_tokens };
    hearth_token tokens[64];
    bool stands_on = bytes[AT_BELOW] % 2;
    char *text;

    if (n > n_bytes)
        return false;
    hth_put_u32(bytes + AT_BYTES, (uint32_t)n);
    hth_put_u32(bytes + AT_N_TOKENS, (uint32_t)n_tokens);
    bytes[AT_FORM] %= HTH_HISTORY_FORMS;
    bytes[AT_SIGNED] = bytes[AT_ZERO] = 0;
    memset(bytes + AT_SPACE, 0, HTH_HISTORY_SPACE_BYTES - 1);
    bytes[AT_BELOW - 1] &= 3;
    for (size_t i = 0; i < n_tokens; i++) {
        tokens[i] = (hearth_token)(hth_get_u32(bytes + AT_TOKENS + 4 * i) % N_VOCAB);
        hth_put_u32(bytes + AT_TOKENS + 4 * i, (uint32_t)tokens[i]);
    }
    memcpy(record.space.bytes, bytes + AT_SPACE, HTH_HISTORY_SPACE_BYTES);
    if (!stands_on) {
        hth_history_space_digest(&record.space, below);
        *before = (hth_history_end){ .last = -1 };
    }
    record.below = *below;
    memcpy(bytes + AT_BELOW, record.below.bytes, HTH_HISTORY_DIGEST_BYTES);
    record.tokens = span.tokens = tokens;
    text = hth_spelling_text(&span, bytes[AT_FORM], &record.n_bytes, (void *)the_spelling());
    record.text = text;
    memset(below, 0, sizeof(*below));
    if (text && hth_history_digest_of(&record, below)) {
        before->n_bytes = record.n_bytes < sizeof(before->bytes) ? record.n_bytes : sizeof(before->bytes);
        memcpy(before->bytes, text + record.n_bytes - before->n_bytes, before->n_bytes);
        before->last = tokens[n_tokens - 1];
    }
    free(text);
    memcpy(bytes + AT_DIGEST, below->bytes, HTH_HISTORY_DIGEST_BYTES);
    hth_put_u32(bytes + n - 4, hth_crc32c(0, bytes, n - 4));
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    uint8_t *mended = n_bytes > 0 ? malloc(n_bytes) : NULL;
    uint8_t *at = mended;
    hth_history_digest below = { .bytes = { 0 } };
    hth_history_end before = { .last = -1 };

    check_file(bytes, n_bytes);
    if (!mended)
        return 0;
    memcpy(mended, bytes, n_bytes);
    while ((at = memmem(at, n_bytes - (size_t)(at - mended), "HTHHIST1", 8))) {
        size_t n_left = n_bytes - (size_t)(at - mended);

        if (n_left < AT_TOKENS + 4 || !mend(at, n_left, &below, &before))
            break;
        at += hth_get_u32(at + AT_BYTES);
    }
    check_file(mended, n_bytes);
    free(mended);
    return 0;
}
