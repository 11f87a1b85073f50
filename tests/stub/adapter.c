/*
 * adapter.c - adapters of the stub: a number in a file that changes every cell and every logit
 *
 * The file says "stub-adapter NUMBER". With the number 0 the adapter changes nothing, whatever its scale.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub/inside.h"

struct hth_engine_adapter {
    uint64_t number;
};

hearth_status hth_stub_adapter_load(hth_engine_model *model, const char *path, hth_engine_adapter **out,
                                    hearth_error *err)
{
    hth_engine_adapter *adapter;
    uint64_t number = 0;
    FILE *file;
    int n;

    if (!model || !path || !out)
        return hth_fail(err, HEARTH_MISUSE, "an adapter needs a model and a path");
    file = fopen(path, "r");
    if (!file)
        return hth_fail_errno(err, errno, "cannot open the adapter '%s'", path);
    n = fscanf(file, "stub-adapter %" SCNu64, &number);
    (void)fclose(file); /* only read from */
    if (n != 1)
        return hth_fail(err, HEARTH_MISUSE, "'%s' is no adapter: it does not say 'stub-adapter NUMBER'", path);
    adapter = malloc(sizeof(*adapter));
    if (!adapter)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the adapter '%s'", path);
    adapter->number = number;
    *out = adapter;
    return HEARTH_OK;
}

void hth_stub_adapter_free(hth_engine_adapter *adapter)
{
    free(adapter);
}

uint64_t hth_stub_adapters_change(const hth_engine_adapter_use *uses, size_t n)
{
    uint64_t change = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &uses[i].scale, sizeof(bits));
        if (uses[i].adapter->number != 0)
            change += hth_stub_mix2(uses[i].adapter->number, bits);
    }
    return change;
}

hearth_status hth_stub_adapters_apply(hth_engine_context *context, const hth_engine_adapter_use *uses, size_t n,
                                      hearth_error *err)
{
    if (!context || (!uses && n > 0) || n > HTH_ADAPTERS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "a context applies at most %d adapters at once, not %zu", HTH_ADAPTERS_MAX,
                        n);
    context->adapters = hth_stub_adapters_change(uses, n);
    return HEARTH_OK;
}
