/*
 * metadata.c - the metadata in a model's file
 *
 * The strings in a file may contain any bytes. The functions repair them to UTF-8.
 */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "models/model_inside.h"

/* Repair a terminated text. Frees bytes_take. n_out may be NULL. */
static hearth_status give(char *bytes_take, char **out, size_t *n_out, hearth_error *err)
{
    size_t n = 0;
    char *text = hth_utf8_repaired(bytes_take, strlen(bytes_take), &n);

    free(bytes_take);
    if (!text)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the model's metadata");
    *out = text;
    if (n_out)
        *n_out = n;
    return HEARTH_OK;
}

hearth_status hearth_model_metadata_count(hearth_model *model, size_t *n_out, hearth_error *err)
{
    hearth_status status;

    if (!n_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_model_metadata_count: n_out is NULL");
    status = hth_model_enter(model, "hearth_model_metadata_count", err);
    if (status != HEARTH_OK)
        return status;
    *n_out = model->backend->metadata_count(model->engine_model);
    hth_model_leave(model);
    return HEARTH_OK;
}

hearth_status hearth_model_metadata(hearth_model *model, const char *key, char **value_out, size_t *n_out,
                                    hearth_error *err)
{
    char *text = NULL;
    hearth_status status;

    if (!key || !value_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_model_metadata: key or value_out is NULL");
    status = hth_model_enter(model, "hearth_model_metadata", err);
    if (status != HEARTH_OK)
        return status;
    status = model->backend->metadata(model->engine_model, key, &text, err);
    hth_model_leave(model);
    return status == HEARTH_OK ? give(text, value_out, n_out, err) : status;
}

hearth_status hearth_model_metadata_key(hearth_model *model, size_t index, char **key_out, hearth_error *err)
{
    char *text = NULL;
    hearth_status status;

    if (!key_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_model_metadata_key: key_out is NULL");
    status = hth_model_enter(model, "hearth_model_metadata_key", err);
    if (status != HEARTH_OK)
        return status;
    status = model->backend->metadata_key(model->engine_model, index, &text, err);
    hth_model_leave(model);
    return status == HEARTH_OK ? give(text, key_out, NULL, err) : status;
}
