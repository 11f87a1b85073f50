/*
 * worker_eviction.c - see worker_eviction.h
 */
#include "worker/worker_eviction.h"

#include "base/os.h"
#include "models/runtime.h"

static void *run(void *user_data)
{
    hth_worker_eviction *eviction = user_data;

    hth_os_thread_name("hearth-evict");
    eviction->ram_freed = eviction->ram_file_freed = 0;
    if (eviction->sets_quota)
        hth_cache_set_ram_bytes_max(hth_runtime_cache(eviction->runtime), eviction->ram_quota);
    /* A failure frees less, as the front sees from the result. */
    if (eviction->ram_bytes > 0)
        (void)hearth_runtime_evict(eviction->runtime, eviction->ram_bytes, HEARTH_EVICT_RAM, &eviction->ram_freed,
                                   NULL);
    if (eviction->ram_file_bytes > 0)
        (void)hearth_runtime_evict(eviction->runtime, eviction->ram_file_bytes, HEARTH_EVICT_RAM_FILE,
                                   &eviction->ram_file_freed, NULL);
    atomic_store(&eviction->has_ended, true);
    return NULL;
}

static bool begin(hth_worker_eviction *eviction, hearth_runtime *runtime)
{
    eviction->runtime = runtime;
    eviction->is_running = pthread_create(&eviction->thread, NULL, run, eviction) == 0;
    return eviction->is_running;
}

bool hth_worker_eviction_begin(hth_worker_eviction *eviction, hearth_runtime *runtime, uint64_t ram_bytes,
                               uint64_t ram_file_bytes)
{
    if (eviction->is_running)
        return false;
    eviction->ram_bytes = ram_bytes;
    eviction->ram_file_bytes = ram_file_bytes;
    eviction->sets_quota = false;
    return begin(eviction, runtime);
}

bool hth_worker_eviction_begin_quota(hth_worker_eviction *eviction, hearth_runtime *runtime, uint64_t quota)
{
    if (eviction->is_running || !hth_runtime_cache(runtime))
        return false;
    eviction->ram_bytes = eviction->ram_file_bytes = 0;
    eviction->ram_quota = quota;
    eviction->sets_quota = true;
    return begin(eviction, runtime);
}

bool hth_worker_eviction_take(hth_worker_eviction *eviction)
{
    if (!eviction->is_running || !atomic_load(&eviction->has_ended))
        return false;
    hth_worker_eviction_end(eviction);
    return true;
}

void hth_worker_eviction_end(hth_worker_eviction *eviction)
{
    if (!eviction->is_running)
        return;
    pthread_join(eviction->thread, NULL);
    eviction->is_running = false;
    atomic_store(&eviction->has_ended, false);
}
