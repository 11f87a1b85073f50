/*
 * passed_over.c - see passed_over.h
 */
#include "front/passed_over.h"

#include <stdbool.h>
#include <string.h>

#include "api/notes.h"
#include "base/hash.h"

static bool is_new(hth_passed_over *seen, const char *key, const char *note)
{
    uint32_t crc = hth_crc32c(hth_crc32c(0, key, strlen(key) + 1), note, strlen(note));

    for (size_t i = 0; i < seen->n; i++)
        if (seen->told[i] == crc)
            return false;
    if (seen->n == HTH_PASSED_OVER_MAX)
        return false;
    seen->told[seen->n++] = crc;
    return true;
}

void hth_passed_over_log(hth_passed_over *seen, const hth_log *log, const char *key, const char *endpoint,
                         const char *notes)
{
    char note[HTH_API_NOTE_BYTES + 1];

    if (!hth_log_wants(log, HEARTH_LOG_DEBUG))
        return; /* nothing is logged or remembered: it is logged once the level changes */
    while (hth_api_notes_next(&notes, note))
        if (is_new(seen, key, note))
            hth_debug(log, "%s%s%s: '%s' has no effect here; said once", endpoint, *key ? " from key " : "", key, note);
}
