/*
 * downloaded_models.c - see downloaded_models.h
 */
#include "options/downloaded_models.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/gguf_text.h"
#include "hub/settings.h"
#include "hub/stock.h"

static bool is_gguf(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool is_one = fd >= 0 && hth_gguf_is_file(fd);

    if (fd >= 0)
        (void)close(fd); /* only read */
    return is_one;
}

/* False without memory. */
static bool name_model(hth_pool *pool, const hth_hub_model *from, hth_found_model *out)
{
    *out = (hth_found_model){ .at = HTH_FOUND_PATH, .path = hth_pool_text(pool, from->path, strlen(from->path)) };
    return out->path && hth_found_model_name_by_path(pool, from->name, strlen(from->name), out);
}

static bool add_models(hth_pool *pool, const hth_hub_model *models, size_t n, size_t n_max, hth_problems *problems,
                       hth_found_models *out)
{
    out->list = hth_pool_alloc(pool, (n + 1) * sizeof(*out->list));
    if (!out->list)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (hth_gguf_is_projector(models[i].path))
            continue;
        if (!is_gguf(models[i].path))
            hth_problems_warn(problems, "'%s' is no GGUF file, or cannot be read; it is left out", models[i].path);
        else if (out->n == n_max)
            hth_problems_warn(problems, "'%s' is left out: %zu models are served already", models[i].name, n_max);
        else if (!name_model(pool, &models[i], &out->list[out->n++]))
            return false;
    }
    return true;
}

bool hth_downloaded_models_read(hth_pool *pool, size_t n_max, hth_problems *problems, hth_found_models *out)
{
    hth_hub_settings settings;
    hth_hub_model *models = NULL;
    hearth_error err;
    size_t n = 0;
    bool ok;

    *out = (hth_found_models){ .n = 0 };
    if (hth_hub_settings_read(&settings, &err) != HEARTH_OK ||
        hth_hub_models_read(settings.cache, &models, &n, &err) != HEARTH_OK)
        hth_problems_warn(problems, "downloaded models are not served: %s", err.message);
    ok = add_models(pool, models, n, n_max, problems, out);
    free(models);
    if (!ok)
        hth_problems_add(problems, "no memory for the list of downloaded models");
    return ok;
}
