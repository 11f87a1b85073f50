#include "hub/choice.h"

#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/gguf_name.h"
#include "base/status.h"

/* ---- quants ---- */

/* What separates the words of a name; an underscore is part of a quant. */
static const char separators[] = "-./ ";

/* "Q4_0", "iq2_xxs", "TQ1_0", "q8"; also "BF16", "F16", "FP16", "F32", "MXFP4_MOE" */
static bool is_quant(const char *word, size_t n)
{
    static const char *const floats[] = { "BF16", "F16", "FP16", "F32", "FP32" };
    const size_t begin = n > 2 && strchr("iItT", word[0]) ? 1 : 0;

    if (n >= HTH_HUB_QUANT_BYTES)
        return false;
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        if (n == strlen(floats[i]) && strncasecmp(word, floats[i], n) == 0)
            return true;
    if (n >= strlen("MXFP4") && strncasecmp(word, "MXFP4", strlen("MXFP4")) == 0)
        return true;
    return n >= begin + 2 && (word[begin] == 'q' || word[begin] == 'Q') && isdigit((unsigned char)word[begin + 1]) &&
           (n == begin + 2 || word[begin + 2] == '_');
}

bool hth_hub_quant_of(const char *path, char out[HTH_HUB_QUANT_BYTES])
{
    const char *last = NULL;
    size_t n_last = 0;

    for (const char *word = path; *word;) {
        const size_t n = strcspn(word, separators);

        if (is_quant(word, n)) {
            last = word;
            n_last = n;
        }
        word += n + (word[n] ? 1 : 0);
    }
    out[0] = '\0';
    if (!last)
        return false;
    if (last - path >= 3 && strncasecmp(last - 3, "UD-", 3) == 0 && n_last + 3 < HTH_HUB_QUANT_BYTES) {
        last -= 3; /* "dynamic" quants of one publisher, whose repositories have both kinds */
        n_last += 3;
    }
    for (size_t i = 0; i < n_last; i++)
        out[i] = (char)toupper((unsigned char)last[i]);
    out[n_last] = '\0';
    return true;
}

static bool ends_word(char c)
{
    return c == '\0' || strchr(separators, c);
}

bool hth_hub_path_has_word(const char *path, const char *word)
{
    const size_t n = strlen(word), n_path = strlen(path);

    for (size_t i = 0; n > 0 && i + n <= n_path; i++)
        if (strncasecmp(path + i, word, n) == 0 && ends_word(path[i + n]) &&
            (i == 0 || ends_word(path[i - 1]) || path[i - 1] == '_'))
            return true;
    return false;
}

enum { NAMES_BYTES = 300 };

bool hth_hub_is_model(const char *path)
{
    hth_gguf_part part;

    return !strcasestr(hth_gguf_base_name(path), "mmproj") && !strcasestr(hth_gguf_base_name(path), "imatrix") &&
           (!hth_gguf_part_read(path, &part) || part.number == 1);
}

bool hth_hub_is_same_model(const char *a, const char *b)
{
    hth_gguf_part first, second;

    if (strcmp(a, b) == 0)
        return true;
    return hth_gguf_part_read(a, &first) && hth_gguf_part_read(b, &second) && first.n_parts == second.n_parts &&
           first.n_stem == second.n_stem && strncmp(a, b, first.n_stem) == 0;
}

/* ---- the model ---- */

typedef bool (*fits_fn)(const char *path, const char *choice);

static bool fits_path(const char *path, const char *choice)
{
    return hth_hub_is_same_model(path, choice);
}

static bool fits_base_name(const char *path, const char *choice)
{
    return hth_hub_is_same_model(hth_gguf_base_name(path), choice);
}

static bool fits_quant(const char *path, const char *choice)
{
    char quant[HTH_HUB_QUANT_BYTES];

    return hth_hub_quant_of(path, quant) && strcasecmp(quant, choice) == 0;
}

static bool fits_word(const char *path, const char *choice)
{
    return hth_hub_path_has_word(path, choice);
}

static bool fits_all(const char *path, const char *choice)
{
    (void)path;
    (void)choice;
    return true;
}

/* The number of models that match, and the first of them. */
static size_t count(const hth_hub_listing *listing, fits_fn fits, const char *choice, const hth_hub_file **first)
{
    size_t n = 0;

    for (size_t i = listing->n; i-- > 0;) {
        const hth_hub_file *file = &listing->files[i];

        if (hth_hub_is_model(file->path) && fits(file->path, choice)) {
            *first = file;
            n++;
        }
    }
    return n;
}

const char *hth_hub_choice_name(const hth_hub_listing *listing, const char *path, char out[HTH_HUB_QUANT_BYTES])
{
    const hth_hub_file *unused;

    return hth_hub_quant_of(path, out) && count(listing, fits_quant, out, &unused) == 1 ? out : path;
}

/* The names that match, in the form that users give them, for a message. */
static void list_names(const hth_hub_listing *listing, fits_fn fits, const char *choice, char out[NAMES_BYTES])
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < listing->n; i++) {
        const char *path = listing->files[i].path, *name;
        char quant[HTH_HUB_QUANT_BYTES];

        if (!hth_hub_is_model(path) || !fits(path, choice))
            continue;
        name = hth_hub_choice_name(listing, path, quant);
        if (n + strlen(name) + sizeof(", ...") > NAMES_BYTES) {
            (void)snprintf(out + n, NAMES_BYTES - n, ", ...");
            return;
        }
        n += (size_t)snprintf(out + n, NAMES_BYTES - n, "%s%s", n > 0 ? ", " : "", name);
    }
}

static hearth_status refuse(const hth_hub_listing *listing, const hth_hub_reference *wanted, fits_fn fits,
                            hearth_error *err)
{
    const hth_hub_file *unused;
    char names[NAMES_BYTES];

    if (count(listing, fits_all, "", &unused) == 0)
        return hth_fail(err, HEARTH_NOT_FOUND, "'%s' has no model in a GGUF file; look for a repository of GGUF files",
                        wanted->repo);
    list_names(listing, fits ? fits : fits_all, wanted->choice, names);
    if (!wanted->choice[0] || fits)
        return hth_fail(err, HEARTH_NOT_FOUND, "'%s' has several models%s%s; name one as %s:NAME: %s", wanted->repo,
                        fits ? " that fit " : "", fits ? wanted->choice : "", wanted->repo, names);
    return hth_fail(err, HEARTH_NOT_FOUND, "'%s' has no '%s', but: %s", wanted->repo, wanted->choice, names);
}

static hearth_status find_first(const hth_hub_listing *listing, const hth_hub_reference *wanted,
                                const hth_hub_file **out, hearth_error *err)
{
    /* Small files with little loss first, then those that repositories with few files have. */
    static const char *const preferred[] = { "Q4_K_M", "Q8_0", "Q4_0", "Q4_K_S", "Q5_K_M", "Q6_K", "UD-Q4_K_XL", NULL };
    static const fits_fn of_file[] = { fits_path, fits_base_name, NULL }, of_quant[] = { fits_quant, fits_word, NULL };

    if (!wanted->choice[0]) {
        size_t n = 0;

        for (size_t i = 0; preferred[i] && n == 0; i++)
            n = count(listing, fits_quant, preferred[i], out);
        if (n == 0)
            n = count(listing, fits_all, "", out);
        return n == 1 ? HEARTH_OK : refuse(listing, wanted, NULL, err);
    }
    for (const fits_fn *fits = wanted->is_file ? of_file : of_quant; *fits; fits++) {
        const size_t n = count(listing, *fits, wanted->choice, out);

        if (n > 0)
            return n == 1 ? HEARTH_OK : refuse(listing, wanted, *fits, err);
    }
    return refuse(listing, wanted, NULL, err);
}

/* ---- its files ---- */

static hearth_status find_part(const hth_hub_listing *listing, const char *path, size_t *out, hearth_error *err)
{
    for (size_t i = 0; i < listing->n; i++) {
        if (strcmp(listing->files[i].path, path) == 0) {
            *out = i;
            return HEARTH_OK;
        }
    }
    return hth_fail(err, HEARTH_NOT_FOUND, "the part '%s' of a split file is missing; choose another quant", path);
}

hearth_status hth_hub_choose(const hth_hub_listing *listing, const hth_hub_reference *wanted, size_t **out,
                             size_t *n_out, hearth_error *err)
{
    const hth_hub_file *first = NULL;
    hth_gguf_part part = { .n_parts = 1 };
    char path[HTH_HUB_PATH_BYTES];
    size_t *indexes;
    hearth_status status = find_first(listing, wanted, &first, err);
    bool is_split;

    if (status != HEARTH_OK)
        return status;
    assert(first);
    is_split = hth_gguf_part_read(first->path, &part);
    if (part.n_parts == 0 || part.n_parts > listing->n)
        return hth_fail(err, HEARTH_NOT_FOUND, "'%s' lacks parts of '%s'; choose another quant", wanted->repo,
                        first->path);
    indexes = calloc(part.n_parts, sizeof(*indexes));
    if (!indexes)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the parts of '%s'", first->path);
    for (unsigned i = 0; i < part.n_parts && status == HEARTH_OK; i++) {
        if (is_split)
            hth_gguf_part_path(first->path, &part, i + 1, path, sizeof(path));
        status = find_part(listing, is_split ? path : first->path, &indexes[i], err);
    }
    if (status != HEARTH_OK) {
        free(indexes);
        return status;
    }
    *out = indexes;
    *n_out = part.n_parts;
    return HEARTH_OK;
}
