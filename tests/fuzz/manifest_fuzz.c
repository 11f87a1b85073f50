/*
 * manifest_fuzz.c - any bytes as the manifest of a registry's model
 *
 * What must hold of a manifest that is taken: it has a model; each digest is the name of a file, once; each size is
 * possible.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "hub/ollama.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static hth_ollama_manifest manifest; /* large */

    if (hth_ollama_manifest_read((const char *)bytes, n_bytes, &manifest, NULL) != HEARTH_OK)
        return 0;
    require(manifest.model < manifest.n && manifest.n <= HTH_OLLAMA_LAYERS_MAX + 1);
    for (size_t i = 0; i < manifest.n; i++) {
        const hth_ollama_layer *layer = &manifest.layers[i];

        require(hth_is_hex(layer->digest, HTH_HUB_DIGEST_BYTES - 1));
        require(layer->bytes > 0 && layer->bytes <= UINT64_C(1) << 46);
        for (size_t j = 0; j < i; j++)
            require(strcmp(layer->digest, manifest.layers[j].digest) != 0);
    }
    return 0;
}
