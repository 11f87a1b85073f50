/*
 * model_source.h - finds the file of a model that a user names: a path, a hub's model, or one of Ollama's
 */
#ifndef HTH_OPTIONS_MODEL_SOURCE_H
#define HTH_OPTIONS_MODEL_SOURCE_H

#include <limits.h>
#include <stdbool.h>

#include "console/problems.h"
#include "options/pool.h"
#include "hearth.h"

/*
 * Write the path that text means: text itself if there is such a file; the cached file of the hub's model
 * OWNER/REPO[:QUANT], which is downloaded if it is missing and may_pull is true; likewise that of Ollama's model
 * NAME[:TAG] or ollama:OWNER/NAME[:TAG], if the environment names a registry. Any other text is used unchanged.
 * is_quiet: show no progress. Blocks. HEARTH_NOT_FOUND: there is no such file, and err names the sources of models.
 * Other statuses as hth_hub_pull.
 */
hearth_status hth_model_source_find(const char *text, bool may_pull, bool is_quiet, char path_out[PATH_MAX],
                                    hearth_error *err);

/* Is it a model of Ollama's: "NAME[:TAG]", or a text with its prefix? Otherwise it is a hub's. */
bool hth_model_source_is_ollama(const char *text);
/*
 * Download such a model, and write the path of its file; the revision (NULL: the main branch) is that of a hub's.
 * HEARTH_MISUSE for a wrong name or setting; other statuses as hth_hub_pull.
 */
hearth_status hth_model_source_pull(const char *text, const char *revision, bool is_quiet, char path_out[PATH_MAX],
                                    hearth_error *err);

/*
 * Find a file as above, for a server, which downloads nothing itself; the file may be missing. The path belongs to the
 * pool. After a failure, problems has the message, and text is returned.
 */
const char *hth_model_source_downloaded(hth_pool *pool, const char *text, hth_problems *problems);

#endif
