#include "hub/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"

/* An empty variable counts as not set. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static bool join(char out[PATH_MAX], const char *folder, const char *name)
{
    return snprintf(out, PATH_MAX, "%s%s", folder, name) < PATH_MAX;
}

/* The directory where this ecosystem stores everything. */
static bool find_home(char out[PATH_MAX])
{
    if (variable("HF_HOME"))
        return join(out, variable("HF_HOME"), "");
    if (variable("XDG_CACHE_HOME"))
        return join(out, variable("XDG_CACHE_HOME"), "/huggingface");
    return variable("HOME") && join(out, variable("HOME"), "/.cache/huggingface");
}

bool hth_hub_is_offline(void)
{
    static const char *const words[] = { "1", "true", "yes", "on" };
    const char *value = variable("HF_HUB_OFFLINE");

    for (size_t i = 0; value && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

/* Surrounding white space is removed. False if it is too long, or not allowed in a header. */
static bool take_token(const char *text, char out[HTH_HUB_TOKEN_BYTES])
{
    const char *begin = text + strspn(text, " \t\r\n");
    const size_t n = strcspn(begin, " \t\r\n");

    if (n >= HTH_HUB_TOKEN_BYTES || begin[n + strspn(begin + n, " \t\r\n")] != '\0')
        return false;
    for (size_t i = 0; i < n; i++)
        if (begin[i] <= ' ' || begin[i] > '~')
            return false;
    (void)snprintf(out, HTH_HUB_TOKEN_BYTES, "%.*s", (int)n, begin);
    return true;
}

/* home is "" if there is none. */
static hearth_status read_token(const char *home, hth_hub_settings *out, hearth_error *err)
{
    const char *path = variable("HF_TOKEN_PATH");
    char beside[PATH_MAX], text[HTH_HUB_TOKEN_BYTES + 64] = "";
    FILE *file;

    if (variable("HF_TOKEN"))
        return take_token(variable("HF_TOKEN"), out->token)
                 ? HEARTH_OK
                 : hth_fail(err, HEARTH_MISUSE, "HF_TOKEN is not a token: it is too long or has strange characters");
    if (!path && *home && join(beside, home, "/token"))
        path = beside;
    if (!path)
        return HEARTH_OK;
    file = fopen(path, "re");
    if (!file)
        return HEARTH_OK;                         /* most users have none */
    (void)fread(text, 1, sizeof(text) - 1, file); /* if it cannot be read, there is no token */
    (void)fclose(file);                           /* only read from */
    return take_token(text, out->token)
             ? HEARTH_OK
             : hth_fail(err, HEARTH_MISUSE, "the file '%s' has no token; remove it, or write the token into it", path);
}

bool hth_hub_endpoint_take(const char *value, char out[HTH_HUB_ENDPOINT_BYTES])
{
    const size_t n_scheme = strncmp(value, "https://", 8) == 0 ? 8 : strncmp(value, "http://", 7) == 0 ? 7 : 0;
    size_t n = strlen(value);

    while (n > 0 && value[n - 1] == '/')
        n--;
    if (n_scheme == 0 || n <= n_scheme || n >= HTH_HUB_ENDPOINT_BYTES || strpbrk(value, " \t\r\n?#@"))
        return false;
    (void)snprintf(out, HTH_HUB_ENDPOINT_BYTES, "%.*s", (int)n, value);
    return true;
}

hearth_status hth_hub_settings_read(hth_hub_settings *out, hearth_error *err)
{
    hth_hub_settings settings = { .is_offline = hth_hub_is_offline(),
                                  .called = "hub",
                                  .cache_variable = "HF_HUB_CACHE" };
    const char *cache = variable("HF_HUB_CACHE") ? variable("HF_HUB_CACHE") : variable("HUGGINGFACE_HUB_CACHE");
    const char *endpoint = variable("HF_ENDPOINT") ? variable("HF_ENDPOINT") : HTH_HUB_ENDPOINT;
    char home[PATH_MAX] = "";
    hearth_status status;

    if (!find_home(home))
        home[0] = '\0'; /* the path was too long and was truncated */
    if (!*home && !cache)
        return hth_fail(err, HEARTH_MISUSE, "there is no folder for models; set HOME, HF_HOME or HF_HUB_CACHE");
    if (!join(settings.cache, cache ? cache : home, cache ? "" : "/hub"))
        return hth_fail(err, HEARTH_MISUSE, "the path of the folder for models is too long; set HF_HUB_CACHE");
    if (!hth_hub_endpoint_take(endpoint, settings.endpoint))
        return hth_fail(err, HEARTH_MISUSE, "HF_ENDPOINT is not the address of a hub; the default is %s",
                        HTH_HUB_ENDPOINT);
    status = read_token(home, &settings, err);
    if (status == HEARTH_OK)
        *out = settings;
    return status;
}
