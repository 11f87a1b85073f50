#include "api/sampler_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

static const char letters[] = "edskypmxta"; /* indexed by hearth_sampler */

/* Further names, squashed. */
static const struct {
    const char *name;
    hearth_sampler sampler;
} others[] = {
    { "typ", HEARTH_SAMPLER_TYPICAL_P },
    { "typicalp", HEARTH_SAMPLER_TYPICAL_P },
    { "nucleus", HEARTH_SAMPLER_TOP_P },
    { "temp", HEARTH_SAMPLER_TEMPERATURE },
};

enum { SQUASHED_BYTES = 32 };

/* Convert to lower case and remove the separators between words. False if it is longer than any name. */
static bool squash(const char *name, size_t n_bytes, char out[SQUASHED_BYTES])
{
    size_t n = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        if (name[i] == '_' || name[i] == '-' || name[i] == ' ')
            continue;
        if (n + 1 == SQUASHED_BYTES)
            return false;
        out[n++] = (char)tolower((unsigned char)name[i]);
    }
    out[n] = '\0';
    return true;
}

bool hth_api_sampler_of_name(const char *name, size_t n_bytes, hearth_sampler *out)
{
    char given[SQUASHED_BYTES], known[SQUASHED_BYTES];
    const char *own;

    if (!squash(name, n_bytes, given))
        return false;
    for (int i = 0; (own = hearth_sampler_name((hearth_sampler)i)); i++)
        if (squash(own, strlen(own), known) && strcmp(given, known) == 0) {
            *out = (hearth_sampler)i;
            return true;
        }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(given, others[i].name) == 0) {
            *out = others[i].sampler;
            return true;
        }
    return false;
}

bool hth_api_sampler_of_letter(char letter, hearth_sampler *out)
{
    const char *at = letter ? strchr(letters, letter) : NULL;

    if (at)
        *out = (hearth_sampler)(at - letters);
    return at != NULL;
}

void hth_api_sampler_list(char text[HTH_API_SAMPLER_LIST_BYTES])
{
    const char *name;
    size_t n = 0;

    for (int i = 0; (name = hearth_sampler_name((hearth_sampler)i)); i++)
        n += (size_t)snprintf(text + n, HTH_API_SAMPLER_LIST_BYTES - n, "%s, ", name); /* sized for it */
    (void)snprintf(text + n, HTH_API_SAMPLER_LIST_BYTES - n, "or their letters %s", letters);
}

void hth_api_sampler_unknown(const char *word, size_t n_bytes, hearth_error *err)
{
    char list[HTH_API_SAMPLER_LIST_BYTES];

    hth_api_sampler_list(list);
    (void)hth_fail(err, HEARTH_MISUSE, "'%.*s' is no sampler; there are %s", n_bytes < 40 ? (int)n_bytes : 40, word,
                   list);
}

bool hth_api_samplers_read(const char *text, hearth_sampler out[HTH_SAMPLERS_MAX], size_t *n_out, hearth_error *err)
{
    hearth_sampler found[HTH_SAMPLERS_MAX], one;
    size_t n = 0, n_text = strlen(text);
    bool is_letters = !strpbrk(text, ";,") && !hth_api_sampler_of_name(text, n_text, &one);

    while (*text) {
        size_t n_word = is_letters ? 1 : strcspn(text, ";,");

        if (n == HTH_SAMPLERS_MAX) {
            (void)hth_fail(err, HEARTH_MISUSE, "there are more than %d samplers", HTH_SAMPLERS_MAX);
            return false;
        }
        if (!(is_letters ? hth_api_sampler_of_letter(*text, &found[n])
                         : hth_api_sampler_of_name(text, n_word, &found[n]))) {
            hth_api_sampler_unknown(text, is_letters ? strlen(text) : n_word, err);
            return false;
        }
        n++;
        text += n_word;
        text += !is_letters && *text; /* the semicolon */
    }
    memcpy(out, found, n * sizeof(found[0]));
    *n_out = n;
    return true;
}
