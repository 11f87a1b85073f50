/*
 * listing.c - see listing.h
 */
#include "hub/listing.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gguf_name.h"
#include "base/grow.h"
#include "base/hex.h"
#include "base/json_bounds.h"
#include "base/status.h"

enum { LEVELS_MAX = 16, VALUES_MAX = 4 << 20, SHA1_DIGITS = 40, SHA256_DIGITS = 64 };

static const json_int_t file_bytes_max = (json_int_t)1 << 46; /* 64 TiB: above any model, no overflow */

void hth_hub_listing_deinit(hth_hub_listing *listing)
{
    free(listing->files);
    *listing = (hth_hub_listing){ .files = NULL };
}

bool hth_hub_listing_add(hth_hub_listing *listing, const hth_hub_file *file)
{
    hth_hub_file *files = listing->n < HTH_HUB_FILES_MAX
                            ? hth_grown_by(listing->files, listing->n, 1, &listing->capacity, sizeof(*files))
                            : NULL;

    if (!files)
        return false;
    listing->files = files;
    files[listing->n++] = *file;
    return true;
}

static hearth_status read_file(const json_t *object, hth_hub_listing *out, hearth_error *err)
{
    const char *path = json_string_value(json_object_get(object, "rfilename"));
    const json_t *size = json_object_get(object, "size"), *lfs = json_object_get(object, "lfs");
    const json_t *lfs_size = json_object_get(lfs, "size");
    const char *digest = json_string_value(lfs && !json_is_null(lfs) ? json_object_get(lfs, "sha256")
                                                                     : json_object_get(object, "blobId"));
    const size_t n_digits = lfs && !json_is_null(lfs) ? SHA256_DIGITS : SHA1_DIGITS;
    hth_hub_file file = { .path = "" };

    if (!path)
        return hth_fail(err, HEARTH_CORRUPT, "the hub lists a file without a name");
    if (!hth_gguf_is_name(path))
        return HEARTH_OK; /* never downloaded */
    if (!hth_hub_path_is_safe(path))
        return hth_fail(err, HEARTH_CORRUPT,
                        "the hub lists a file whose path would leave its folder, or is none; nothing was downloaded");
    if (!hth_is_hex(digest, n_digits))
        return hth_fail(err, HEARTH_CORRUPT, "the hub gives no digest of '%s'; it could not be checked", path);
    if (lfs_size && size && json_integer_value(lfs_size) != json_integer_value(size))
        return hth_fail(err, HEARTH_CORRUPT, "the hub tells two sizes of '%s'", path);
    size = lfs_size ? lfs_size : size;
    if (!json_is_integer(size) || json_integer_value(size) <= 0 || json_integer_value(size) > file_bytes_max)
        return hth_fail(err, HEARTH_CORRUPT, "the hub tells no possible size of '%s'", path);
    file.bytes = (uint64_t)json_integer_value(size);
    (void)snprintf(file.path, sizeof(file.path), "%s", path);       /* is_safe */
    (void)snprintf(file.digest, sizeof(file.digest), "%s", digest); /* is_hex */
    return hth_hub_listing_add(out, &file) ? HEARTH_OK
                                           : hth_fail(err, HEARTH_NO_MEMORY, "no memory for the hub's list");
}

hearth_status hth_hub_listing_read(const char *text, size_t n_bytes, hth_hub_listing *out, hearth_error *err)
{
    json_t *root =
        hth_json_is_within(text, n_bytes, LEVELS_MAX, VALUES_MAX) ? json_loadb(text, n_bytes, 0, NULL) : NULL;
    const char *commit = json_string_value(json_object_get(root, "sha"));
    const json_t *siblings = json_object_get(root, "siblings");
    hearth_status status = HEARTH_OK;

    *out = (hth_hub_listing){ .files = NULL };
    if (!json_is_array(siblings) || !hth_is_hex(commit, SHA1_DIGITS)) {
        json_decref(root);
        return hth_fail(err, HEARTH_CORRUPT, "the answer is not that of a hub of models; check HF_ENDPOINT");
    }
    (void)snprintf(out->commit, sizeof(out->commit), "%s", commit); /* is_hex */
    for (size_t i = 0; i < json_array_size(siblings) && status == HEARTH_OK; i++)
        status = read_file(json_array_get(siblings, i), out, err);
    json_decref(root);
    return status;
}
