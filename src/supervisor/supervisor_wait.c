/*
 * supervisor_wait.c - what a request waits for, in words for its client
 *
 * It only looks at workers, and changes nothing. A text is short ASCII without the names of other models, because
 * clients may not know them. It is a snapshot: a place in the line may grow again when a model goes first that waited
 * for longer. Loading counts what is hashed of the file, too. A worker whose engine has loaded first takes requests,
 * and they wait in it for the rest of the hashing.
 */
#include <stdio.h>

#include "supervisor/supervisor_inside.h"

/* Does its process end, and another one follows? */
static bool comes_again(const hth_model_worker *worker)
{
    switch (hth_model_worker_state(worker)) {
    case HTH_WORKER_WAITING:
    case HTH_WORKER_BROKEN: return true;
    case HTH_WORKER_STOPPING: return hth_model_worker_residence(worker) == HTH_RESIDENCE_IN;
    default: return false;
    }
}

/* The place of a model in the line of those that wait for room, from 1. */
static unsigned place_in_line(const hth_supervisor *supervisor, const hth_model_worker *worker)
{
    hth_resident own, other, kept;
    unsigned place = 1;

    hth_model_worker_resident(worker, &hth_device_pools_none, &own, &kept);
    for (size_t i = 0; i < supervisor->present.n; i++) {
        if (supervisor->present.at[i] == worker)
            continue;
        hth_model_worker_resident(supervisor->present.at[i], &hth_device_pools_none, &other, &kept);
        place += other.residence == HTH_RESIDENCE_OUT && other.wanted_ns > 0 &&
                 (own.wanted_ns == 0 || other.wanted_ns < own.wanted_ns);
    }
    return place;
}

static const char *ending_of(unsigned n)
{
    if (n % 100 >= 11 && n % 100 <= 13)
        return "th";
    switch (n % 10) {
    case 1: return "st";
    case 2: return "nd";
    case 3: return "rd";
    default: return "th";
    }
}

void hth_supervisor_tell_wait(const hth_supervisor *supervisor, const char *model, uint64_t generation,
                              char out[HTH_WAIT_TEXT_BYTES])
{
    const hth_model_worker *worker = hth_supervisor_worker_of(supervisor, model, NULL);
    unsigned place;

    out[0] = 0;
    if (worker && generation == hth_model_worker_generation(worker) && hth_model_worker_is_hashing(worker))
        (void)snprintf(out, HTH_WAIT_TEXT_BYTES, "hashing %d%%", (int)(100 * hth_model_worker_progress(worker)));
    if (!worker || generation > 0 || hth_model_worker_takes_requests(worker))
        return;
    if (hth_model_worker_state(worker) == HTH_WORKER_STARTING) {
        (void)snprintf(out, HTH_WAIT_TEXT_BYTES, "loading %d%%", (int)(100 * hth_model_worker_progress(worker)));
    } else if (comes_again(worker)) {
        (void)snprintf(out, HTH_WAIT_TEXT_BYTES, "waiting for another worker");
    } else {
        place = place_in_line(supervisor, worker);
        (void)snprintf(out, HTH_WAIT_TEXT_BYTES, "waiting for room, %u%s in line", place, ending_of(place));
    }
}
