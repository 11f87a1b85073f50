/*
 * adapter_spec.c - see adapter_spec.h
 */
#include "models/adapter_spec.h"

#include "base/gguf_name.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t hth_without_scale(const char *text, float *scale_out)
{
    const char *colon = strrchr(text, ':');
    char *end;
    float scale;

    *scale_out = 1;
    if (!colon || !colon[1])
        return strlen(text);
    scale = strtof(colon + 1, &end);
    if (*end)
        return strlen(text);
    *scale_out = scale;
    return (size_t)(colon - text);
}

hearth_status hth_adapter_spec_read(const char *text, hth_adapter_spec *out, hearth_error *err)
{
    hth_adapter_spec spec;
    size_t n = hth_without_scale(text, &spec.scale), n_name = strcspn(text, "=/");
    bool is_named = n_name < n && text[n_name] == '=';
    const char *path = is_named ? text + n_name + 1 : text;
    size_t n_path = (size_t)(text + n - path);
    const char *name = text;

    if (!is_named) {
        name = path + n_path;
        while (name > path && name[-1] != '/')
            name--;
        n_name = hth_gguf_stem(name, (size_t)(path + n_path - name));
    }
    if (!isfinite(spec.scale))
        return hth_fail(err, HEARTH_MISUSE, "the scale of the adapter '%s' is no number", text);
    if (n_path == 0 || n_path >= sizeof(spec.path))
        return hth_fail(err, HEARTH_MISUSE, "'%s' names no file of an adapter; give [NAME=]FILE[:SCALE]", text);
    if (n_name == 0 || n_name >= sizeof(spec.name))
        return hth_fail(err, HEARTH_MISUSE, "the adapter '%s' has no name of 1 to %zu bytes; give NAME=FILE", text,
                        sizeof(spec.name) - 1);
    (void)snprintf(spec.name, sizeof(spec.name), "%.*s", (int)n_name, name); /* both fit */
    (void)snprintf(spec.path, sizeof(spec.path), "%.*s", (int)n_path, path);
    *out = spec;
    return HEARTH_OK;
}

hearth_status hth_adapter_specs_load(const hth_adapter_specs *specs, hearth_model *model, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < specs->n && status == HEARTH_OK; i++) {
        hearth_adapter_options options = hearth_adapter_options_default();
        hth_adapter_spec spec = { .scale = 1 };

        status = hth_adapter_spec_read(specs->list[i], &spec, err);
        if (status != HEARTH_OK)
            return status;
        options.name = spec.name;
        options.scale = spec.scale;
        status = hearth_adapter_load(model, spec.path, &options, NULL, err);
        if (status == HEARTH_OK && specs->wait) /* after each one: a deterministic model applies at most one */
            status = hearth_adapters_scale(model, NULL, 0, err);
    }
    return status;
}
