/*
 * api_ollama_fuzz.c - Ollama's requests, and replies to them; see api_input.h
 *
 * The first byte of an input says which endpoint.
 */
#include "api_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static const hth_api_kind kinds[] = { HTH_API_OLLAMA_CHAT, HTH_API_OLLAMA_GENERATE, HTH_API_OLLAMA_SHOW };

    if (n_bytes > 0)
        fuzz_api(kinds[bytes[0] % (sizeof(kinds) / sizeof(kinds[0]))], bytes + 1, n_bytes - 1);
    return 0;
}
