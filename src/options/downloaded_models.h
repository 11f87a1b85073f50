/*
 * downloaded_models.h - the models that 'hearth pull' and other programs downloaded, for a server without configured
 * models
 */
#ifndef HTH_OPTIONS_DOWNLOADED_MODELS_H
#define HTH_OPTIONS_DOWNLOADED_MODELS_H

#include "options/models_folder.h"

/*
 * Find the models in the cache of the hub, at most n_max, under the names that 'hearth models ls' shows. Everything in
 * *out belongs to the pool. Files that are not GGUF files are omitted with a warning. A cache that cannot be read
 * causes a warning, too. False without memory, with the error in problems.
 */
bool hth_downloaded_models_read(hth_pool *pool, size_t n_max, hth_problems *problems, hth_found_models *out);

#endif
