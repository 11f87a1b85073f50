/*
 * slot_request.c - the body of POST /slots/N
 *
 * Its file lies in a folder of the operator's, so its name is a name and nothing else: what means something to a shell or to a
 * path, or shows as another name than it is, is refused.
 */
#include <string.h>

#include "api/request_inside.h"

enum { FILENAME_BYTES_MAX = 255 };

/* What stands in texts for a NUL, and for what was no character. */
static const char replacement[] = "\xEF\xBF\xBD";

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
    static const char *const known[] = { "model", "filename", "cache_salt", NULL };
    hth_api_request *request = parse->request;

    hth_fields_rest(&parse->body, known);
    hth_fields_string(&parse->body, "model", FILENAME_BYTES_MAX, &request->model);
    hth_fields_string(&parse->body, "filename", parse->limits->body_bytes_max, &request->filename);
    hth_fields_string(&parse->body, "cache_salt", HTH_API_SALT_BYTES_MAX, &request->options.cache_salt);
    if (request->filename && !is_filename(request->filename))
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "filename",
                     "'filename' is no plain name of a file: give 1 to %d bytes without '/', '\\' and control "
                     "characters, that do not begin with '.'",
                     FILENAME_BYTES_MAX);
}
