#include "models/adapter_spec.h"

#include "base/gguf_name.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The length of the text without ":SCALE". *scale_out is the scale, which may be infinite or NAN; 1 if there is none.
 */
static size_t without_scale(const char *text, float *scale_out)
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
    size_t n = without_scale(text, &spec.scale), n_name = strcspn(text, "=/");
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

/* ---- control vectors ---- */

hearth_status hth_control_vector_read(const char *text, hth_control_vector *out, hearth_error *err)
{
    float scale = 1;
    size_t n = text ? without_scale(text, &scale) : 0;

    if (n == 0 || n >= sizeof(out->path))
        return hth_fail(err, HEARTH_MISUSE, "'%s' names no file of a control vector; give FILE[:SCALE]",
                        text ? text : "");
    if (!isfinite(scale))
        return hth_fail(err, HEARTH_MISUSE, "the scale of the control vector '%s' is no finite number", text);
    memcpy(out->path, text, n);
    out->path[n] = '\0';
    out->scale = scale;
    return HEARTH_OK;
}

hearth_status hth_control_vectors_check(const hearth_model_options *options, hearth_error *err)
{
    const uint32_t first = options->control_layer_first, last = options->control_layer_last;
    hearth_status status = HEARTH_OK;

    if (options->n_control_vectors > HEARTH_CONTROL_VECTORS_MAX ||
        (options->n_control_vectors > 0 && !options->control_vectors))
        return hth_fail(err, HEARTH_MISUSE, "control_vectors is NULL, or has %zu entries; it must be at most %d",
                        options->n_control_vectors, HEARTH_CONTROL_VECTORS_MAX);
    if (last > 0 && first > last)
        return hth_fail(err, HEARTH_MISUSE, "control vectors cannot change the layers %u to %u; the first comes first",
                        first, last);
    for (size_t i = 0; i < options->n_control_vectors && status == HEARTH_OK; i++) {
        hth_control_vector read;

        status = hth_control_vector_read(options->control_vectors[i], &read, err);
    }
    return status;
}

hearth_status hth_control_vectors_read(const hearth_model_options *options, hth_control_vector **out, hearth_error *err)
{
    const size_t n = options->n_control_vectors;
    hth_control_vector *vectors = n > 0 ? calloc(n, sizeof(*vectors)) : NULL;

    if (n > 0 && !vectors)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the paths of %zu control vectors", n);
    for (size_t i = 0; i < n; i++)
        (void)hth_control_vector_read(options->control_vectors[i], &vectors[i], NULL); /* it was checked */
    *out = vectors;
    return HEARTH_OK;
}
