/*
 * api_embed_fuzz.c - requests for embeddings and scores, and their answers; see api_input.h
 *
 * The first byte of an input says which endpoint.
 */
#include "api_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static const hth_api_kind kinds[] = { HTH_API_EMBEDDINGS, HTH_API_NATIVE_EMBEDDING, HTH_API_RERANK,
                                          HTH_API_OLLAMA_EMBED, HTH_API_OLLAMA_EMBEDDINGS };

    if (n_bytes > 0)
        fuzz_api(kinds[bytes[0] % (sizeof(kinds) / sizeof(kinds[0]))], bytes + 1, n_bytes - 1);
    return 0;
}
