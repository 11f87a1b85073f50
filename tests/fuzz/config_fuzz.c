/*
 * config_fuzz.c - configuration files of any bytes
 *
 * Nothing crashes, every refusal has a message, and what is accepted is printed as a file that is accepted and comes to
 * the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/serve_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

static char *print_of(const hth_serve_set *set, size_t *n_out)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n_out);

    check(out && hth_serve_config_print(set, out) && fclose(out) == 0, "a configuration cannot be printed");
    return text;
}

/* What was accepted, once more from its print. */
static void read_again(const hth_serve_set *set, hth_problems *problems)
{
    size_t n, n_again;
    char *text = print_of(set, &n);
    hth_serve_set *again = hth_serve_set_of_text("/printed.conf", text, n, problems);
    char *text_again;

    if (problems->n_errors > 0)
        (void)fprintf(stderr, "%s\n%s\n", hth_problems_first(problems), text);
    check(problems->n_errors == 0, "a print is refused");
    text_again = print_of(again, &n_again);
    check(n == n_again && memcmp(text, text_again, n) == 0, "a print comes to something else");
    free(text);
    free(text_again);
    hth_serve_set_free(&again->options);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hth_problems *problems = calloc(2, sizeof(*problems));
    hth_serve_set *set;

    check(problems, "no memory");
    set = hth_serve_set_of_text("/fuzz.conf", n_bytes > 0 ? (const char *)bytes : "", n_bytes, problems);
    check(set, "no memory");
    if (problems->n_errors == 0)
        read_again(set, &problems[1]);
    else
        check(*hth_problems_first(problems), "a refusal says nothing");
    hth_serve_set_free(&set->options);
    free(problems);
    return 0;
}
