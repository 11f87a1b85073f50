#include "hub/listing.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/controls.h"
#include "base/gguf_name.h"
#include "base/grow.h"
#include "base/hex.h"
#include "base/json_bounds.h"
#include "base/status.h"

/* ---- names ---- */

enum { WORD_BYTES_MAX = 96 };

/* The hubs' rule for names; the cache's directories separate owner and repository by "--". */
static bool is_word(const char *text, size_t n)
{
    if (n == 0 || n > WORD_BYTES_MAX || text[0] == '.' || text[0] == '-')
        return false;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];

        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", c) ||
            (i > 0 && (c == '-' || c == '.') && text[i - 1] == c))
            return false;
    }
    return true;
}

hearth_status hth_hub_reference_read(const char *text, hth_hub_reference *out, hearth_error *err)
{
    const size_t n = strcspn(text, ":"), n_owner = strcspn(text, "/:");
    const char *choice = text[n] ? text + n + 1 : NULL;

    if (n_owner + 1 >= n || !is_word(text, n_owner) || !is_word(text + n_owner + 1, n - n_owner - 1))
        return hth_fail(err, HEARTH_MISUSE,
                        "'%.200s' is not the name of a model at a hub; the form is OWNER/REPO, OWNER/REPO:QUANT or "
                        "OWNER/REPO:FILE.gguf",
                        text);
    if (choice && (!hth_hub_path_is_safe(choice) || (!hth_gguf_is_name(choice) && strchr(choice, '/'))))
        return hth_fail(err, HEARTH_MISUSE,
                        "'%.200s' names no quant and no file after the colon; such are Q4_K_M and model-Q4_K_M.gguf",
                        text);
    *out = (hth_hub_reference){ .is_file = choice && hth_gguf_is_name(choice) };
    (void)snprintf(out->repo, sizeof(out->repo), "%.*s", (int)n, text);           /* is_word */
    (void)snprintf(out->choice, sizeof(out->choice), "%s", choice ? choice : ""); /* is_safe */
    return HEARTH_OK;
}

bool hth_hub_is_reference(const char *text)
{
    hth_hub_reference reference;
    const size_t n = strcspn(text, ":");

    return hth_hub_reference_read(text, &reference, NULL) == HEARTH_OK && (text[n] || !hth_gguf_is_name(text));
}

bool hth_hub_path_is_safe(const char *path)
{
    const size_t n = strlen(path);

    if (n == 0 || n >= HTH_HUB_PATH_BYTES || hth_has_controls(path) || strchr(path, '\\'))
        return false;
    for (const char *part = path; part;) {
        const size_t n_part = strcspn(part, "/");

        if (n_part == 0 || (n_part <= 2 && strspn(part, ".") >= n_part))
            return false;
        part = part[n_part] ? part + n_part + 1 : NULL;
    }
    return true;
}

bool hth_hub_revision_is_safe(const char *revision)
{
    return hth_hub_path_is_safe(revision) && strlen(revision) < HTH_HUB_REPO_BYTES && revision[0] != '-' &&
           !strpbrk(revision, " ?#%*:~^[");
}

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
                        "the hub lists a file whose path would leave its folder or is invalid; nothing was downloaded");
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
