/*
 * named_models.c - see named_models.h
 */
#include "cli/named_models.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

hearth_status hth_named_models_add(hth_named_models *models, const char *name, const char *file, hearth_error *err)
{
    const size_t n_name = strlen(name), n_file = strlen(file);
    char *given;

    if (strchr(name, '='))
        return hth_fail(err, HEARTH_MISUSE, "'%s' is no name of a model: it has a '='", name);
    if (models->n == HTH_SERVE_MODELS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "model '%s' is one too many; at most %d are allowed", name,
                        HTH_SERVE_MODELS_MAX);
    given = malloc(n_name + n_file + 2);
    if (!given)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for model '%s'", name);
    memcpy(given, name, n_name);
    given[n_name] = '=';
    memcpy(given + n_name + 1, file, n_file + 1);
    models->given[models->n++] = given;
    return HEARTH_OK;
}

hearth_status hth_named_models_remove(hth_named_models *models, const char *name, hearth_error *err)
{
    const size_t n_name = strlen(name);

    for (size_t i = models->n; i-- > 0;) { /* the newest first: after a failed reload, that one is taken back */
        if (strncmp(models->given[i], name, n_name) != 0 || models->given[i][n_name] != '=')
            continue;
        free(models->given[i]);
        models->n--;
        memmove(models->given + i, models->given + i + 1, (models->n - i) * sizeof(models->given[0]));
        return HEARTH_OK;
    }
    return hth_fail(err, HEARTH_NOT_FOUND,
                    "no model '%s' was named while the server runs; take one of the configuration out of the "
                    "configuration, and reload",
                    name);
}

void hth_named_models_deinit(hth_named_models *models)
{
    while (models->n > 0)
        free(models->given[--models->n]);
}
