/*
 * module.c - the entry of the module hearth-stub
 *
 * HTH_TEST_MODULE_APPENDS_TO names a file that grows while the module is loaded.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stub/backend.h"

__attribute__((visibility("default"))) const hth_backend *hearth_backend(void);

const hth_backend *hearth_backend(void)
{
    const char *path = getenv("HTH_TEST_MODULE_APPENDS_TO");
    FILE *file = path ? fopen(path, "ab") : NULL;

    if (file) {
        (void)fputc('x', file);
        (void)fclose(file);
    }
    return hth_backend_stub();
}
