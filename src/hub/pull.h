/*
 * pull.h - a model of a hub: found in the cache, or downloaded into it
 */
#ifndef HTH_HUB_PULL_H
#define HTH_HUB_PULL_H

#include "hub/choice.h"
#include "hub/download.h"
#include "hub/listing.h"

#define HTH_HUB_REVISION "main"

/*
 * The path of the model's file, or of its first part, in the cache, without contacting the hub. revision NULL:
 * HTH_HUB_REVISION, otherwise the newest snapshot that has the model. HEARTH_NOT_FOUND if it is missing or incomplete.
 */
hearth_status hth_hub_find(const hth_hub_settings *settings, const hth_hub_reference *wanted, const char *revision,
                           char path_out[PATH_MAX], hearth_error *err);

/*
 * Ask the hub for the revision's files, and download the model's files that the cache lacks. If the settings are
 * offline, the same as hth_hub_find. revision NULL: HTH_HUB_REVISION. Statuses as for hth_hub_download.
 */
hearth_status hth_hub_pull(const hth_hub_settings *settings, const hth_hub_reference *wanted, const char *revision,
                           const hth_hub_watch *watch, char path_out[PATH_MAX], hearth_error *err);

/* A model that a repository has. */
typedef struct hth_hub_offer {
    char path[HTH_HUB_PATH_BYTES];   /* of its file, or of its first part, in the repository */
    char choice[HTH_HUB_PATH_BYTES]; /* for "OWNER/REPO:CHOICE": its quant, or its path if others have that quant */
    char quant[HTH_HUB_QUANT_BYTES]; /* "": the file name has none */
    uint64_t bytes;                  /* of all parts */
    size_t n_parts;
    bool is_here;   /* the cache has it completely */
    bool is_chosen; /* the one that hth_hub_pull takes by default */
} hth_hub_offer;

/*
 * Ask the hub for the revision's models, in the order of its list, [*n_out], which the caller frees. Models that lack
 * parts are left out. Nothing is downloaded, and the cache does not change. If the settings are offline, the models in
 * the cache. Statuses as for hth_hub_pull.
 */
hearth_status hth_hub_offers_read(const hth_hub_settings *settings, const char *repo, const char *revision,
                                  hth_hub_offer **out, size_t *n_out, hearth_error *err);

#endif
