/*
 * metadata.c - the metadata in a model's file, and its chat template
 *
 * The strings in a file may contain any bytes. The functions repair them to UTF-8.
 */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "models/model_inside.h"

/* A terminated text, repaired. n_out may be NULL. */
static hearth_status repair(const char *text, char **out, size_t *n_out, hearth_error *err)
{
    size_t n = 0;
    char *repaired = hth_utf8_repaired(text, strlen(text), &n);

    if (!repaired)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the model's metadata");
    *out = repaired;
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
    if (status == HEARTH_OK)
        status = repair(text, value_out, n_out, err);
    free(text);
    return status;
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
    if (status == HEARTH_OK)
        status = repair(text, key_out, NULL, err);
    free(text);
    return status;
}

/* A copy of one of the engine's texts, which is valid until we leave the model; NULL if it is NULL. */
static hearth_status copy_text(hearth_model *model, const char *const *text, char **out, const char *function,
                               hearth_error *err)
{
    hearth_status status = hth_model_enter(model, function, err);

    if (status != HEARTH_OK)
        return status;
    if (*text)
        status = repair(*text, out, NULL, err);
    else
        *out = NULL;
    hth_model_leave(model);
    return status;
}

hearth_status hth_model_template(hearth_model *model, char **out, hearth_error *err)
{
    return copy_text(model, &model->info.chat_template, out, "hth_model_template", err);
}

hearth_status hth_model_template_abilities(hearth_model *model, char **out, hearth_error *err)
{
    return copy_text(model, &model->info.chat_abilities, out, "hth_model_template_abilities", err);
}
