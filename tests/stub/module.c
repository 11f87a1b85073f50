/*
 * module.c - the entry of the module hearth-stub
 */
#include "stub/backend.h"

__attribute__((visibility("default"))) const hth_backend *hearth_backend(void);

const hth_backend *hearth_backend(void)
{
    return hth_backend_stub();
}
