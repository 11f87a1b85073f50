/*
 * sampler_names.c - see sampler_names.h
 */
#include "api/sampler_names.h"

#include <ctype.h>
#include <string.h>

#include "base/status.h"

static const char letters[] = "edskypmxta"; /* by hearth_sampler */

static const struct {
    const char *name; /* squashed */
    hearth_sampler sampler;
} names[] = {
    { "penalties", HEARTH_SAMPLER_PENALTIES },
    { "dry", HEARTH_SAMPLER_DRY },
    { "topnsigma", HEARTH_SAMPLER_TOP_N_SIGMA },
    { "topk", HEARTH_SAMPLER_TOP_K },
    { "typp", HEARTH_SAMPLER_TYPICAL_P },
    { "typ", HEARTH_SAMPLER_TYPICAL_P },
    { "typicalp", HEARTH_SAMPLER_TYPICAL_P },
    { "topp", HEARTH_SAMPLER_TOP_P },
    { "nucleus", HEARTH_SAMPLER_TOP_P },
    { "minp", HEARTH_SAMPLER_MIN_P },
    { "xtc", HEARTH_SAMPLER_XTC },
    { "temperature", HEARTH_SAMPLER_TEMPERATURE },
    { "temp", HEARTH_SAMPLER_TEMPERATURE },
    { "adaptivep", HEARTH_SAMPLER_ADAPTIVE_P },
};

bool hth_api_sampler_of_name(const char *name, size_t n_bytes, hearth_sampler *out)
{
    char squashed[32];
    size_t n = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        if (name[i] == '_' || name[i] == '-' || name[i] == ' ')
            continue;
        if (n + 1 == sizeof(squashed))
            return false;
        squashed[n++] = (char)tolower((unsigned char)name[i]);
    }
    squashed[n] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(squashed, names[i].name) == 0) {
            *out = names[i].sampler;
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

void hth_api_sampler_unknown(const char *word, size_t n_bytes, hearth_error *err)
{
    (void)hth_fail(err, HEARTH_MISUSE,
                   "'%.*s' is no sampler; there are penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, "
                   "temperature and adaptive_p (letters: %s)",
                   n_bytes < 40 ? (int)n_bytes : 40, word, letters);
}

bool hth_api_samplers_read(const char *text, hearth_sampler out[HTH_API_SAMPLERS_MAX], size_t *n_out, hearth_error *err)
{
    hearth_sampler found[HTH_API_SAMPLERS_MAX], one;
    size_t n = 0, n_text = strlen(text);
    bool is_letters = !strpbrk(text, ";,") && !hth_api_sampler_of_name(text, n_text, &one);

    while (*text) {
        size_t n_word = is_letters ? 1 : strcspn(text, ";,");

        if (n == HTH_API_SAMPLERS_MAX) {
            (void)hth_fail(err, HEARTH_MISUSE, "there are more than %d samplers", HTH_API_SAMPLERS_MAX);
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
