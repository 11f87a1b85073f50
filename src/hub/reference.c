/*
 * reference.c - see reference.h
 */
#include "hub/reference.h"

#include <stdio.h>
#include <string.h>

#include "base/controls.h"
#include "base/gguf_name.h"
#include "base/status.h"

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
