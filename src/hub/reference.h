/*
 * reference.h - the name of a model at a hub: "OWNER/REPO", "OWNER/REPO:QUANT" or "OWNER/REPO:FILE.gguf"
 */
#ifndef HTH_HUB_REFERENCE_H
#define HTH_HUB_REFERENCE_H

#include <stdbool.h>

#include "hearth.h"

enum { HTH_HUB_REPO_BYTES = 200, HTH_HUB_PATH_BYTES = 512 };

typedef struct hth_hub_reference {
    char repo[HTH_HUB_REPO_BYTES];   /* "OWNER/REPO" */
    char choice[HTH_HUB_PATH_BYTES]; /* the quant, or the path of a file in the repository; "": not given */
    bool is_file;                    /* the choice is a path: it ends in ".gguf" */
} hth_hub_reference;

/* HEARTH_MISUSE, with the expected form, if it is not a reference. */
hearth_status hth_hub_reference_read(const char *text, hth_hub_reference *out, hearth_error *err);
/* Could it be meant as a reference? True if it has one '/' before the first ':' and does not look like a file path. */
bool hth_hub_is_reference(const char *text);

/* May a hub's file have this path? Relative, and no part of it is empty, "." or ".."; no control characters. */
bool hth_hub_path_is_safe(const char *path);
/* A branch, a tag or a commit, such as "main" or "refs/pr/1". */
bool hth_hub_revision_is_safe(const char *revision);

#endif
