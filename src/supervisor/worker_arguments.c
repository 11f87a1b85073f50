#include "supervisor/worker_arguments.h"

#include <stdlib.h>
#include <string.h>

const char *const *hth_worker_arguments_copy(const char *const *arguments)
{
    size_t n = 0, n_bytes = 0;
    const char **copy;
    char *at;

    for (; arguments[n]; n++)
        n_bytes += strlen(arguments[n]) + 1;
    copy = malloc((n + 1) * sizeof(*copy) + n_bytes);
    if (!copy)
        return NULL;
    at = (char *)(copy + n + 1);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = strlen(arguments[i]) + 1;

        copy[i] = memcpy(at, arguments[i], bytes);
        at += bytes;
    }
    copy[n] = NULL;
    return copy;
}

bool hth_worker_arguments_equal(const char *const *a, const char *const *b)
{
    size_t i = 0;

    while (a[i] && b[i] && strcmp(a[i], b[i]) == 0)
        i++;
    return !a[i] && !b[i];
}

/* The value of the n-th occurrence (from 0) of the option; "": none. */
static const char *value_of(const char *const *strings, const char *option, size_t n)
{
    for (size_t i = 0; strings[i] && strings[i + 1]; i++)
        if (strcmp(strings[i], option) == 0 && n-- == 0)
            return strings[i + 1];
    return "";
}

const char *hth_worker_arguments_value(const char *const *arguments, const char *option)
{
    return value_of(arguments, option, 0);
}

bool hth_worker_arguments_have_same(const char *const *a, const char *const *b, const char *option)
{
    for (size_t n = 0;; n++) {
        const char *value = value_of(a, option, n);

        if (strcmp(value, value_of(b, option, n)) != 0)
            return false;
        if (!*value)
            return true;
    }
}

bool hth_worker_arguments_have_flag(const char *const *arguments, const char *flag)
{
    while (*arguments && strcmp(*arguments, flag) != 0)
        arguments++;
    return *arguments;
}

bool hth_worker_arguments_mean_same(const char *const *a, const char *const *b)
{
    static const char *const options[] = {
        "--model",
        "--chat-template",
        "--chat-template-file",
        "--chat-template-kwargs",
        "--system",
        "--reasoning",
        "--predict",
        "--stop",
        "--lora",
        "--control-vector",
        "--control-vector-layer-range",
        "--override-kv",
        "--rope-scaling",
        "--rope-freq-base",
        "--rope-freq-scale",
        "--yarn-orig-ctx",
        "--yarn-ext-factor",
        "--yarn-attn-factor",
        "--yarn-beta-slow",
        "--yarn-beta-fast",
    };
    static const char no_apply[] = "--lora-init-without-apply";

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (!hth_worker_arguments_have_same(a, b, options[i]))
            return false;
    return hth_worker_arguments_have_flag(a, no_apply) == hth_worker_arguments_have_flag(b, no_apply);
}
