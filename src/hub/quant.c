/*
 * quant.c - see quant.h
 */
#include "hub/quant.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* What separates the words of a name; an underscore is part of a quant. */
static const char separators[] = "-./ ";

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

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
    return n >= begin + 2 && (word[begin] == 'q' || word[begin] == 'Q') && is_digit(word[begin + 1]) &&
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
