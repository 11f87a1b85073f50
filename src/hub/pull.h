/*
 * pull.h - a model of a hub: found in the cache, or brought into it
 */
#ifndef HTH_HUB_PULL_H
#define HTH_HUB_PULL_H

#include "hub/download.h"
#include "hub/reference.h"

#define HTH_HUB_REVISION "main"

/*
 * The path of the model's file, or of its first part, in the cache, without a question to the hub. revision NULL: that
 * of HTH_HUB_REVISION, else of the newest snapshot that has the model. HEARTH_NOT_FOUND: it is not there, or not all of
 * it.
 */
hearth_status hth_hub_find(const hth_hub_settings *settings, const hth_hub_reference *wanted, const char *revision,
                           char path_out[PATH_MAX], hearth_error *err);

/*
 * Ask the hub for the revision's files, and download those of the model that the cache lacks. Where the settings are
 * offline, the same as hth_hub_find. revision NULL: HTH_HUB_REVISION. Statuses as hth_hub_download.
 */
hearth_status hth_hub_pull(const hth_hub_settings *settings, const hth_hub_reference *wanted, const char *revision,
                           const hth_hub_watch *watch, char path_out[PATH_MAX], hearth_error *err);

#endif
