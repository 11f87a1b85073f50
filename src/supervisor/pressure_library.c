#include "supervisor/pressure_library.h"

#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

#include "base/status.h"

static bool is_symbol(const char *text)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

    return *text && !isdigit((unsigned char)*text) && !text[strspn(text, characters)];
}

bool hth_pressure_library_split(const char *text, char file[PATH_MAX], const char **symbol)
{
    const char *colon = strrchr(text, ':');
    const size_t n = colon ? (size_t)(colon - text) : 0;

    if (n == 0 || n >= PATH_MAX || !is_symbol(colon + 1))
        return false;
    memcpy(file, text, n);
    file[n] = '\0';
    *symbol = colon + 1;
    return true;
}

hearth_status hth_pressure_library_ask(const char *text, uint64_t *used, uint64_t *total, hearth_error *err)
{
    char file[PATH_MAX];
    const char *symbol;
    hth_pressure_library_fn ask;
    uint64_t used_bytes = 0, total_bytes = 0;
    void *library, *function;
    int rc;

    if (!hth_pressure_library_split(text, file, &symbol))
        return hth_fail(err, HEARTH_MISUSE,
                        "'%.200s' names no function of a library; give FILE:SYMBOL, such as /usr/lib/memory.so:used",
                        text);
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();

        return hth_fail(err, HEARTH_NOT_FOUND,
                        "cannot load the library of pressure.library (--pressure-library): %s; give the path of a "
                        "shared library for this machine",
                        reason ? reason : file);
    }
    function = dlsym(library, symbol);
    if (!function)
        return hth_fail(err, HEARTH_NOT_FOUND,
                        "the library '%s' has no function '%s'; name one that it exports with C linkage, in "
                        "pressure.library (--pressure-library)",
                        file, symbol);
    memcpy(&ask, &function, sizeof(ask)); /* ISO C has no cast from object pointers to function pointers */
    rc = ask(&used_bytes, &total_bytes);
    if (rc != 0)
        return hth_fail(err, HEARTH_FAILED,
                        "the function '%s' of '%s' returned %d; it must set both numbers and return 0", symbol, file,
                        rc);
    if (total_bytes == 0 || used_bytes > total_bytes)
        return hth_fail(err, HEARTH_FAILED,
                        "the function '%s' of '%s' tells %llu used bytes of %llu; all bytes must be above 0, and no "
                        "less than the used ones",
                        symbol, file, (unsigned long long)used_bytes, (unsigned long long)total_bytes);
    *used = used_bytes;
    *total = total_bytes;
    return HEARTH_OK;
}
