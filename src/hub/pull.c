/*
 *   list the files of the revision -> choose those of the model -> download and link each -> store the commit
 */
#include "hub/pull.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/grow.h"
#include "base/hex.h"
#include "base/status.h"
#include "hub/choice.h"
#include "hub/client.h"

enum { LISTING_BYTES_MAX = 64 << 20 };

static hearth_status ask_listing(const hth_hub_settings *settings, const char *repo, const char *revision,
                                 hth_hub_listing *out, hearth_error *err)
{
    hth_buffer body = { .text = NULL };
    char escaped[3 * HTH_HUB_REPO_BYTES], path[HTH_FETCH_URL_BYTES];
    hearth_status status;

    (void)hth_hub_escape(revision, "-._~", escaped, sizeof(escaped)); /* as long as a safe revision can be */
    (void)snprintf(path, sizeof(path), "/api/models/%s/revision/%s?blobs=true", repo, escaped);
    status = hth_hub_read(settings, repo, path, NULL, LISTING_BYTES_MAX, &body, err);
    if (status == HEARTH_OK)
        status = hth_hub_listing_read(hth_buffer_text(&body), body.n, out, err);
    hth_buffer_deinit(&body);
    return status;
}

static hearth_status check_revision(const char *revision, hearth_error *err)
{
    if (!revision || hth_hub_revision_is_safe(revision))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "'%.100s' is no branch, tag or commit of a repository", revision);
}

static hearth_status path_in(const hth_hub_shelf *shelf, const char *commit, const char *path, char out[PATH_MAX],
                             hearth_error *err)
{
    if (hth_hub_snapshot_path(shelf, commit, path, out))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "the path of '%s' in the cache is too long; set HF_HUB_CACHE", path);
}

static hearth_status find_in(const hth_hub_shelf *shelf, const char *commit, const hth_hub_reference *wanted,
                             char path_out[PATH_MAX], hearth_error *err)
{
    hth_hub_listing listing = { .files = NULL };
    size_t *chosen = NULL, n_chosen;
    hearth_status status = hth_hub_snapshot_read(shelf, commit, &listing, err);

    if (status == HEARTH_OK)
        status = hth_hub_choose(&listing, wanted, &chosen, &n_chosen, err);
    if (status == HEARTH_OK)
        status = path_in(shelf, commit, listing.files[chosen[0]].path, path_out, err);
    free(chosen);
    hth_hub_listing_deinit(&listing);
    return status;
}

/* Find the model in the newest snapshot that has it. */
static bool find_in_any(const hth_hub_shelf *shelf, const hth_hub_reference *wanted, char path_out[PATH_MAX])
{
    char folder[PATH_MAX], path[PATH_MAX];
    DIR *directory = hth_hub_snapshot_path(shelf, "", "", folder) ? opendir(folder) : NULL;
    const struct dirent *entry;
    time_t newest = 0;
    bool found = false;
    struct stat st;

    while (directory && (entry = readdir(directory)) != NULL) {
        if (!hth_is_hex(entry->d_name, HTH_HUB_COMMIT_BYTES - 1) ||
            !hth_hub_snapshot_path(shelf, entry->d_name, "", path) || stat(path, &st) != 0 ||
            (found && st.st_mtime <= newest) || find_in(shelf, entry->d_name, wanted, path, NULL) != HEARTH_OK)
            continue;
        found = true;
        newest = st.st_mtime;
        (void)snprintf(path_out, PATH_MAX, "%s", path); /* as large */
    }
    if (directory)
        (void)closedir(directory); /* only read from */
    return found;
}

hearth_status hth_hub_find(const hth_hub_settings *settings, const hth_hub_reference *wanted, const char *revision,
                           char path_out[PATH_MAX], hearth_error *err)
{
    char commit[HTH_HUB_COMMIT_BYTES];
    hth_hub_shelf shelf;
    hearth_status status = check_revision(revision, err);

    if (status == HEARTH_OK)
        status = hth_hub_shelf_init(&shelf, settings->cache, wanted->repo, err);
    if (status != HEARTH_OK)
        return status;
    if (!hth_hub_commit_read(&shelf, revision ? revision : HTH_HUB_REVISION, commit)) {
        status = hth_fail(err, HEARTH_NOT_FOUND, "'%s' is not in the cache at '%s'; download it with 'hearth pull'",
                          wanted->repo, settings->cache);
    } else {
        status = find_in(&shelf, commit, wanted, path_out, err);
        if (status == HEARTH_NOT_FOUND)
            hth_fail_prefix(err, "in the cache at '%s'", settings->cache);
    }
    /* Another download may have moved the branch to a commit for which this model was not downloaded. */
    return status == HEARTH_NOT_FOUND && !revision && find_in_any(&shelf, wanted, path_out) ? HEARTH_OK : status;
}

static hearth_status download_all(const hth_hub_settings *settings, const hth_hub_reference *wanted,
                                  const hth_hub_shelf *shelf, const hth_hub_listing *listing,
                                  const hth_hub_watch *watch, char path_out[PATH_MAX], hearth_error *err)
{
    size_t *chosen = NULL, n_chosen = 0;
    hearth_status status = hth_hub_choose(listing, wanted, &chosen, &n_chosen, err);

    for (size_t i = 0; i < n_chosen && status == HEARTH_OK; i++) {
        const hth_hub_file *file = &listing->files[chosen[i]];

        status = hth_hub_download(settings, shelf, wanted->repo, listing->commit, file, watch, err);
    }
    if (status == HEARTH_OK)
        status = path_in(shelf, listing->commit, listing->files[chosen[0]].path, path_out, err);
    free(chosen);
    return status;
}

hearth_status hth_hub_pull(const hth_hub_settings *settings, const hth_hub_reference *wanted, const char *revision,
                           const hth_hub_watch *watch, char path_out[PATH_MAX], hearth_error *err)
{
    hth_hub_listing listing = { .files = NULL };
    hth_hub_shelf shelf;
    hearth_status status = check_revision(revision, err);

    if (status != HEARTH_OK)
        return status;
    if (settings->is_offline) {
        status = hth_hub_find(settings, wanted, revision, path_out, err);
        if (status == HEARTH_NOT_FOUND)
            hth_fail_prefix(err, "HF_HUB_OFFLINE is set, so nothing is downloaded");
        return status;
    }
    revision = revision ? revision : HTH_HUB_REVISION;
    status = hth_hub_shelf_init(&shelf, settings->cache, wanted->repo, err);
    if (status == HEARTH_OK)
        status = ask_listing(settings, wanted->repo, revision, &listing, err);
    if (status == HEARTH_OK)
        status = download_all(settings, wanted, &shelf, &listing, watch, path_out, err);
    if (status == HEARTH_OK)
        status = hth_hub_commit_write(&shelf, revision, listing.commit, err);
    hth_hub_listing_deinit(&listing);
    return status;
}

/* ---- offers ---- */

static bool is_here(const hth_hub_shelf *shelf, const hth_hub_file *file)
{
    char blob[PATH_MAX];

    return hth_hub_blob_path(shelf, file->digest, blob) && hth_hub_blob_is_there(blob, file->bytes);
}

/* The listing of a revision: from the hub, or if offline, of the files in the cache. */
static hearth_status read_listing(const hth_hub_settings *settings, const hth_hub_shelf *shelf, const char *repo,
                                  const char *revision, hth_hub_listing *out, hearth_error *err)
{
    char commit[HTH_HUB_COMMIT_BYTES];

    if (!settings->is_offline)
        return ask_listing(settings, repo, revision, out, err);
    if (!hth_hub_commit_read(shelf, revision, commit))
        return hth_fail(err, HEARTH_NOT_FOUND, "HF_HUB_OFFLINE is set, and '%s' is not in the cache at '%s'", repo,
                        settings->cache);
    return hth_hub_snapshot_read(shelf, commit, out, err);
}

/* Add the model whose first file has this path, if the repository has all of it. */
static hearth_status add_offer(const hth_hub_listing *listing, const hth_hub_shelf *shelf, bool all_are_here,
                               const hth_hub_reference *wanted, hth_hub_offer *offer)
{
    size_t *files = NULL, n = 0;
    hearth_status status = hth_hub_choose(listing, wanted, &files, &n, NULL);

    if (status != HEARTH_OK)
        return status;
    *offer = (hth_hub_offer){ .n_parts = n, .is_here = true };
    for (size_t i = 0; i < n; i++) {
        offer->bytes += listing->files[files[i]].bytes;
        offer->is_here = offer->is_here && (all_are_here || is_here(shelf, &listing->files[files[i]]));
    }
    (void)snprintf(offer->path, sizeof(offer->path), "%s", listing->files[files[0]].path); /* as large */
    (void)snprintf(offer->choice, sizeof(offer->choice), "%s",
                   hth_hub_choice_name(listing, offer->path, offer->quant)); /* a path or a quant */
    (void)hth_hub_quant_of(offer->path, offer->quant);
    free(files);
    return HEARTH_OK;
}

static hearth_status read_offers(const hth_hub_listing *listing, const hth_hub_shelf *shelf, bool all_are_here,
                                 const char *repo, hth_hub_offer **out, size_t *n_out, hearth_error *err)
{
    hth_hub_reference wanted = { .is_file = false };
    size_t *chosen = NULL, n_chosen = 0, capacity = 0;
    hearth_status status;

    (void)snprintf(wanted.repo, sizeof(wanted.repo), "%s", repo);        /* as large */
    status = hth_hub_choose(listing, &wanted, &chosen, &n_chosen, NULL); /* several may match */
    for (size_t i = 0; i < listing->n && status != HEARTH_NO_MEMORY; i++) {
        hth_hub_offer *offers = *out;

        if (!hth_hub_is_model(listing->files[i].path))
            continue;
        offers = hth_grown_by(offers, *n_out, 1, &capacity, sizeof(*offers));
        if (!offers) {
            status = HEARTH_NO_MEMORY;
            break;
        }
        *out = offers;
        wanted.is_file = true;
        (void)snprintf(wanted.choice, sizeof(wanted.choice), "%s", listing->files[i].path); /* as large */
        status = add_offer(listing, shelf, all_are_here, &wanted, &offers[*n_out]);
        if (status == HEARTH_OK)
            offers[(*n_out)++].is_chosen = n_chosen > 0 && chosen[0] == i;
    }
    free(chosen);
    if (status == HEARTH_NO_MEMORY)
        return hth_fail(err, status, "no memory for the models of '%s'", repo);
    return HEARTH_OK;
}

hearth_status hth_hub_offers_read(const hth_hub_settings *settings, const char *repo, const char *revision,
                                  hth_hub_offer **out, size_t *n_out, hearth_error *err)
{
    hth_hub_listing listing = { .files = NULL };
    hth_hub_offer *offers = NULL;
    size_t n = 0;
    hth_hub_shelf shelf;
    hearth_status status = check_revision(revision, err);

    if (status == HEARTH_OK)
        status = hth_hub_shelf_init(&shelf, settings->cache, repo, err);
    if (status != HEARTH_OK)
        return status;
    status = read_listing(settings, &shelf, repo, revision ? revision : HTH_HUB_REVISION, &listing, err);
    if (status == HEARTH_OK)
        status = read_offers(&listing, &shelf, settings->is_offline, repo, &offers, &n, err);
    hth_hub_listing_deinit(&listing);
    if (status != HEARTH_OK) {
        free(offers);
        return status;
    }
    *out = offers;
    *n_out = n;
    return HEARTH_OK;
}
