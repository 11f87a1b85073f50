/*
 * worker_settings.h - the server options that its workers use unchanged
 */
#ifndef HTH_WIRE_WORKER_SETTINGS_H
#define HTH_WIRE_WORKER_SETTINGS_H

#include "api/limits.h"
#include "base/folder_room.h"

typedef struct hth_worker_settings {
    hth_api_limits requests;
    const char *slot_directory;    /* of saved slots; NULL: slots cannot be saved */
    hth_folder_limits slot_limits; /* of each of its folders */
    uint32_t linger_ms;            /* prefill continues this long after the client left; 0: it is cancelled at once */
} hth_worker_settings;

static inline hth_worker_settings hth_worker_settings_default(void)
{
    return (hth_worker_settings){
        .requests = hth_api_limits_default(),
        .slot_limits = { .bytes_max = UINT64_C(8) << 30 },
        .linger_ms = 60000,
    };
}

#endif
