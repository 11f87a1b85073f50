/*
 * linked.c - the stub engine that a program links serves its models "stub:", in place of the module
 *
 * For programs that count or replace calls with the linker's --wrap, which does not reach into a module.
 */
#include <string.h>

#include "stub/backend.h"

/* The names are the linker's. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
hearth_status __real_hth_backend_of_model(const char *directory, const char *model_path, const hth_backend **out,
                                          hearth_error *err);
hearth_status __wrap_hth_backend_of_model(const char *directory, const char *model_path, const hth_backend **out,
                                          hearth_error *err);
bool __real_hth_model_path_is_file(const char *directory, const char *model_path);
bool __wrap_hth_model_path_is_file(const char *directory, const char *model_path);

static bool is_stub(const char *model_path)
{
    return strncmp(model_path, "stub:", 5) == 0;
}

hearth_status __wrap_hth_backend_of_model(const char *directory, const char *model_path, const hth_backend **out,
                                          hearth_error *err)
{
    if (!is_stub(model_path))
        return __real_hth_backend_of_model(directory, model_path, out, err);
    *out = hth_backend_stub();
    return HEARTH_OK;
}

bool __wrap_hth_model_path_is_file(const char *directory, const char *model_path)
{
    return !is_stub(model_path) && __real_hth_model_path_is_file(directory, model_path);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
