#include "options/file_name.h"

#include <ctype.h>
#include <string.h>

#include "base/controls.h"
#include "base/hash.h"
#include "options/serve_options.h"
#include "sched/text_stream.h"

bool hth_name_make_safe(char *text, const char *others)
{
    size_t n = 0;

    for (const char *at = text; *at; at++) {
        const bool is_good = isalnum((unsigned char)*at) || *at == '.' || *at == '_' || strchr(others, *at);

        if (is_good || (n > 0 && text[n - 1] != '-'))
            text[n++] = is_good ? *at : '-';
    }
    while (n > 0 && text[n - 1] == '-')
        n--;
    text[n] = '\0';
    return n > 0 && isalnum((unsigned char)text[0]);
}

const char *hth_file_name_safe(hth_pool *pool, const char *file, size_t n)
{
    char *name = hth_pool_text(pool, file, n), *begin = name;

    if (!name || hth_serve_name_is_good(name))
        return name;
    (void)hth_name_make_safe(name, "/");
    while (*begin && !isalnum((unsigned char)*begin))
        begin++;
    if (strlen(begin) > HTH_SERVE_NAME_BYTES_MAX)
        begin[HTH_SERVE_NAME_BYTES_MAX] = '\0';
    return *begin ? begin : "model"; /* it has only letters of other scripts */
}

const char *hth_file_name_parted(hth_pool *pool, const char *name, const char *file)
{
    enum { NUMBER_BYTES = sizeof("-12345678") - 1 };

    return hth_pool_format(pool, "%.*s-%08x", HTH_SERVE_NAME_BYTES_MAX - NUMBER_BYTES, name,
                           (unsigned)hth_crc32c(0, file, strlen(file)));
}

bool hth_alias_is_good(const char *text)
{
    const size_t n = strlen(text);

    return n > 0 && n <= HTH_SERVE_ALIAS_BYTES_MAX && hth_utf8_is_valid(text, n) && !hth_has_controls(text);
}

bool hth_serve_name_is_good(const char *name)
{
    static const char others[] = "._-:/";
    const size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr(others, name[i]))
            return false;
    return n > 0 && n <= HTH_SERVE_NAME_BYTES_MAX && isalnum((unsigned char)name[0]);
}
