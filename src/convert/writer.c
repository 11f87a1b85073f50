/*
 * writer.c - find the second entry point of the engine's module, which is already loaded for its first
 */
#include "convert/writer.h"

#include <dlfcn.h>
#include <string.h>

#include "engine/backend.h"

hearth_status hth_model_writer_find(const char *engine_directory, const hth_model_writer **out, hearth_error *err)
{
    const hth_backend *backend = NULL;
    const hth_model_writer *writer = NULL;
    hth_model_writer_entry entry;
    hearth_status status = hth_backend_llama(engine_directory, &backend, err);
    void *handle = NULL, *symbol = NULL;
    Dl_info info = { 0 };

    if (status != HEARTH_OK)
        return status;
    if (dladdr((const void *)backend, &info) && info.dli_fname)
        handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL); /* it is already loaded, and stays loaded */
    if (handle)
        symbol = dlsym(handle, HTH_MODEL_WRITER_SYMBOL);
    if (symbol) {
        memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no cast from object to function pointers */
        writer = entry();
    }
    if (!writer || writer->abi != HTH_MODEL_WRITER_ABI)
        return hth_fail(err, HEARTH_ENGINE, "the engine '%s' cannot write models for this program; reinstall both",
                        info.dli_fname ? info.dli_fname : "");
    *out = writer;
    return HEARTH_OK;
}
