/*
 * control_vector.c - see control_vector.h
 */
#include "models/control_vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/adapter_spec.h"

hearth_status hth_control_vector_read(const char *text, hth_control_vector *out, hearth_error *err)
{
    float scale = 1;
    size_t n = text ? hth_without_scale(text, &scale) : 0;

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
