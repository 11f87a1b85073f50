/*
 * tokenizer_fuzz.c - any bytes as a tokenizer.model, and any JSON as a tokenizer.json
 *
 * Nothing outside the bytes is read (a sanitizer sees it), and a vocabulary that is accepted has a piece for each
 * token.
 */
#include <assert.h>
#include <string.h>

#include "base/json_bounds.h"
#include "convert/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { N_TOKENS = 64, DEPTH_MAX = 32, VALUES_MAX = 10000 };

static void check(hth_token_list *vocabulary, hearth_status status)
{
    if (status == HEARTH_OK && hth_token_list_fill(vocabulary, "fuzz", NULL) == HEARTH_OK)
        for (size_t i = 0; i < vocabulary->n; i++) {
            assert(vocabulary->pieces[i]);
            assert(vocabulary->types[i] >= HTH_TOKEN_NORMAL);
            assert(vocabulary->types[i] <= HTH_TOKEN_BYTE);
        }
    hth_token_list_deinit(vocabulary);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hth_token_list vocabulary;
    json_t *tokenizer = NULL;
    bool adds_bos = false, adds_eos = false;

    if (hth_token_list_init(&vocabulary, N_TOKENS, NULL) == HEARTH_OK)
        check(&vocabulary, hth_sentencepiece_read("fuzz", bytes, n_bytes, &vocabulary, NULL));
    if (hth_json_is_within((const char *)bytes, n_bytes, DEPTH_MAX, VALUES_MAX))
        tokenizer = json_loadb((const char *)bytes, n_bytes, JSON_REJECT_DUPLICATES, NULL);
    if (tokenizer && hth_token_list_init(&vocabulary, N_TOKENS, NULL) == HEARTH_OK) {
        check(&vocabulary, hth_tokenizer_json_read(tokenizer, &vocabulary, NULL));
        hth_tokenizer_json_ends(tokenizer, "<s>", "</s>", &adds_bos, &adds_eos);
    }
    json_decref(tokenizer);
    return 0;
}
