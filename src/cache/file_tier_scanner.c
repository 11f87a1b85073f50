/*
 * file_tier_scanner.c - the tier's thread that scans the files: at the start, and again after the index was replaced
 */
#include "base/os.h"
#include "cache/file_tier_inside.h"

enum { FOREIGN_S = 24 * 60 * 60 }; /* age at which another machine's temporary file counts as abandoned */

static void set_busy_locked(hth_file_tier *tier, bool is_busy)
{
    tier->scanner_is_busy = is_busy;
    atomic_store(&tier->is_scanning, is_busy);
}

/* A row of another version is not damaged: its head cannot be read here. */
static bool is_damaged(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data)
{
    hth_kvc_fault fault;
    hth_kvc_info info;

    (void)user_data;
    return !hth_kvc_parse(bytes, n_bytes, &id->key, &info, &fault) && fault.reason != HTH_KVC_NO_MEMORY &&
           fault.reason != HTH_KVC_UNSUPPORTED_VERSION;
}

static bool set_damaged_aside(const hth_row_id *id, void *user_data)
{
    return hth_file_tier_quarantine_if(user_data, id, is_damaged, NULL, "its head is damaged");
}

static hth_scan scan_of(hth_file_tier *tier)
{
    return (hth_scan){
        .fs = tier->fs,
        .log = tier->log,
        .index = tier->index,
        .rows_directory = tier->rows,
        .temporary_directory = tier->temporary,
        .durable = tier->durable,
        .foreign_s = tier->is_shared_by_machines ? FOREIGN_S : 0,
        .stop = &tier->stop,
        .damaged = set_damaged_aside,
        .damaged_user_data = tier,
    };
}

/* Fill the index; true when the scan was complete. The caller tells the index so. */
static bool fill_index(hth_file_tier *tier, hth_scan *scan)
{
    bool complete = hth_scan_rebuild(scan);

    atomic_store(&tier->bytes_known, scan->bytes);
    atomic_fetch_add(&tier->n_rows_adopted, scan->n_adopted);
    return complete;
}

static void note_quota(hth_file_tier *tier)
{
    uint64_t quota = 0;

    if (tier->bytes_max != UINT64_MAX && hth_index_quota(tier->index, &quota, NULL) == HEARTH_OK &&
        quota != tier->bytes_max)
        (void)hth_index_set_quota(tier->index, tier->bytes_max, NULL); /* only shown to people */
}

void hth_file_tier_recover(hth_file_tier *tier)
{
    hth_scan scan = scan_of(tier);

    hth_scan_recover(&scan);
    atomic_fetch_add(&tier->n_rows_adopted, scan.n_adopted);
}

static void scan_once(hth_file_tier *tier, bool rebuild)
{
    hth_scan scan = scan_of(tier);
    hth_index_totals totals;
    bool complete = false;

    hth_file_tier_recover(tier);
    if (!rebuild && hth_index_totals_get(tier->index, &totals, NULL) == HEARTH_OK)
        atomic_store(&tier->bytes_known, totals.bytes);
    else /* without an index the sum of the file sizes keeps the quota */
        complete = fill_index(tier, &scan) && rebuild;
    note_quota(tier);

    pthread_mutex_lock(&tier->scan_lock);
    if (complete && !tier->rebuild_wanted)          /* else the filled index was replaced meanwhile */
        (void)hth_index_rebuilt(tier->index, NULL); /* on failure the next start fills it again */
    else if (rebuild && !complete)
        hth_index_rebuild_failed(tier->index);
    pthread_mutex_unlock(&tier->scan_lock);
}

bool hth_file_tier_rebuild_index(hth_file_tier *tier, hth_scan_progress_fn progress, void *user_data)
{
    hth_scan scan = scan_of(tier);
    bool complete = false;

    scan.progress = progress;
    scan.user_data = user_data;
    /* Take the place of the tier's own thread, which then does not start. */
    pthread_mutex_lock(&tier->scan_lock);
    while (tier->scanner_is_busy)
        pthread_cond_wait(&tier->scan_ended, &tier->scan_lock);
    set_busy_locked(tier, true);
    pthread_mutex_unlock(&tier->scan_lock);

    if (hth_index_clear(tier->index, NULL) == HEARTH_OK) {
        complete = fill_index(tier, &scan);
        note_quota(tier);
    }

    pthread_mutex_lock(&tier->scan_lock);
    if (tier->rebuild_wanted) { /* the index was replaced meanwhile */
        complete = false;
        set_busy_locked(tier, false);
        (void)hth_file_tier_start_scan_locked(
            tier, true); /* without a thread the index stays incomplete until the next start */
    } else {
        if (complete)
            complete = hth_index_rebuilt(tier->index, NULL) == HEARTH_OK;
        else
            hth_index_rebuild_failed(tier->index);
        set_busy_locked(tier, false);
    }
    pthread_cond_broadcast(&tier->scan_ended);
    pthread_mutex_unlock(&tier->scan_lock);
    return complete;
}

static void *scan_files(void *context)
{
    hth_file_tier *tier = context;

    hth_os_thread_name("hearth-scan");
    pthread_mutex_lock(&tier->scan_lock);
    do {
        bool rebuild = tier->rebuild_wanted;

        tier->rebuild_wanted = false;
        pthread_mutex_unlock(&tier->scan_lock);
        if (!rebuild)
            rebuild =
                hth_index_claim_rebuild(tier->index); /* in this thread, because it may wait for another process */
        scan_once(tier, rebuild);
        pthread_mutex_lock(&tier->scan_lock);
    } while (tier->rebuild_wanted && !atomic_load(&tier->stop));
    set_busy_locked(tier, false);
    pthread_cond_broadcast(&tier->scan_ended);
    pthread_mutex_unlock(&tier->scan_lock);
    return NULL;
}

int hth_file_tier_start_scan_locked(hth_file_tier *tier, bool rebuild)
{
    int failed;

    tier->rebuild_wanted = tier->rebuild_wanted || rebuild;
    if (tier->scanner_is_busy)
        return 0;
    if (tier->scanner_exists)
        (void)pthread_join(tier->scanner, NULL); /* it has released the lock for the last time, so this does not wait */
    set_busy_locked(tier, true);
    failed = pthread_create(&tier->scanner, NULL, scan_files, tier);
    tier->scanner_exists = failed == 0;
    set_busy_locked(tier, failed == 0);
    return failed;
}

void hth_file_tier_settle(hth_file_tier *tier)
{
    pthread_mutex_lock(&tier->scan_lock);
    while (tier->scanner_is_busy)
        pthread_cond_wait(&tier->scan_ended, &tier->scan_lock);
    pthread_mutex_unlock(&tier->scan_lock);
}
