/*
 * slot_request.c - the body of POST /slots/N
 *
 * The file is in a directory of the operator, so its name must be a plain file name. Names with a special meaning in a
 * shell or a path, or that look like another name, are refused.
 */
#include <string.h>

#include "api/parse.h"
#include "base/utf8.h"
#include "dialects/kinds.h"

enum { FILENAME_BYTES_MAX = 255 };

/* The character that replaces NUL and invalid characters in texts. */
static const char replacement[] = HTH_UTF8_REPLACEMENT;

static bool is_filename(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F || name[i] == '/' || name[i] == '\\')
            return false;
    return n > 0 && n <= FILENAME_BYTES_MAX && name[0] != '.' && !strstr(name, replacement);
}

void hth_api_parse_slot(hth_api_parse *parse)
{
    static const char *const known[] = { "model", "filename", "cache_salt", "lora", NULL };
    hth_api_request *request = parse->request;

    hth_fields_rest(&parse->body, known);
    hth_fields_string(&parse->body, "model", FILENAME_BYTES_MAX, &request->model);
    hth_fields_string(&parse->body, "filename", parse->limits->body_bytes_max, &request->filename);
    hth_fields_string(&parse->body, "cache_salt", HTH_API_SALT_BYTES_MAX, &request->options.cache_salt);
    hth_api_parse_adapters(parse);
    if (request->filename && !is_filename(request->filename))
        hth_fields_fail(&parse->body, HTH_API_INVALID_VALUE, "filename",
                        "is no plain name of a file: give 1 to %d bytes without '/', '\\' and control characters, that "
                        "do not begin with '.'",
                        FILENAME_BYTES_MAX);
}
