/*
 * worker_job_slots.c - what runs under the number of each slot, for GET /slots
 *
 * A slot is a number of a request (slot_memory.h). A client sees the facts, without texts and tokens, about requests
 * under its key's salt that add no salt of their own; of all others, only that they run.
 */
#include "worker/worker_job_inside.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "api/native_settings.h"
#include "models/model.h"

/* The facts about the first reply of a job that runs, or ran. The caller owns slot->params. */
static hth_api_slot slot_of(const hth_job *job)
{
    const hearth_request *request = &job->task.prepared.requests[0];
    const hth_job_reply *reply = &job->replies[0];
    const bool is_running = job->n_ended < job->task.n_submitted;
    const uint32_t n_prompt = (uint32_t)request->n_tokens; /* at most the context */
    const uint32_t n_done = reply->n_tokens > 0 ? n_prompt : reply->n_read;
    const uint32_t n_evaluated = n_done > reply->n_cached ? n_done - reply->n_cached : 0;
    const int64_t n_remain = (int64_t)request->n_predict - reply->n_tokens;

    return (hth_api_slot){
        .is_processing = is_running,
        .task = job->number,
        .params = hth_api_native_numbers(request, job->task.request),
        .n_prompt = n_prompt,
        .n_cached = reply->n_cached,
        .n_read = n_evaluated,
        .n_decoded = reply->n_tokens,
        .n_remain = request->n_predict < 0 ? -1 : n_remain,
        .has_next = is_running,
        .has_new_line = reply->has_new_line,
    };
}

/* The salt of the key whose clients see the facts, "" for none; NULL: nobody does. */
static const char *salt_of(const hth_job *job)
{
    if (job->task.has_own_salt)
        return NULL;
    return job->task.front_salt ? job->task.front_salt : "";
}

static bool is_seen_by(const char *salt, const char *asker)
{
    return salt && strcmp(salt, asker) == 0;
}

void hth_seen_slot_deinit(hth_seen_slot *seen)
{
    json_decref(seen->slot.params);
    free(seen->salt);
}

void hth_job_keep_slot(const hth_job *job)
{
    hth_seen_slot *seen = &job->jobs->seen_slots[job->task.slot];
    const char *salt = salt_of(job);

    if (job->number == 0 || job->number < seen->slot.task)
        return;
    hth_seen_slot_deinit(seen);
    *seen = (hth_seen_slot){ .slot = slot_of(job), .salt = salt ? strdup(salt) : NULL };
}

/* slots[HTH_SLOT_NUMBERS_MAX] = what ran. The caller owns the params. */
static void add_seen(const hth_jobs *jobs, const char *asker, hth_api_slot *slots)
{
    for (size_t i = 0; i < HTH_SLOT_NUMBERS_MAX; i++)
        if (is_seen_by(jobs->seen_slots[i].salt, asker)) {
            slots[i] = jobs->seen_slots[i].slot;
            json_incref(slots[i].params);
        }
}

/* Put what runs in the place of what ran: of several jobs with a number, the last. Returns how many replies may run. */
static uint32_t add_running(const hth_jobs *jobs, const char *asker, hth_api_slot *slots)
{
    uint32_t n_replies = 0;
    const hth_job *job;

    DL_FOREACH(jobs->list, job)
    {
        hth_api_slot *slot = &slots[job->task.slot];
        const uint32_t n_running = job->task.n_submitted - job->n_ended;

        if (job->number == 0)
            continue;
        n_replies += n_running;
        json_decref(slot->params);
        if (is_seen_by(salt_of(job), asker))
            *slot = slot_of(job);
        else
            *slot = (hth_api_slot){ .is_processing = n_running > 0, .n_decoded = job->replies[0].n_tokens };
    }
    return n_replies;
}

/*
 * Mark as many slots as processing as requests run. A request that waits has a number already, so it may lose its mark.
 * A request with several replies has one number, so idle slots are marked for the others. A request with a token runs,
 * even if n_running was read before that.
 */
static void mark_running(hth_api_slot *slots, uint32_t n_slots, uint32_t n_running)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_slots; i++)
        n += slots[i].is_processing && slots[i].n_decoded > 0;
    for (uint32_t i = 0; i < n_slots; i++) {
        if (!slots[i].is_processing || slots[i].n_decoded > 0)
            continue;
        slots[i].is_processing = n < n_running;
        n += slots[i].is_processing;
    }
    for (uint32_t i = 0; i < n_slots && n < n_running; i++) {
        n += !slots[i].is_processing;
        slots[i].is_processing = true;
    }
}

void hth_jobs_slots_write(const hth_jobs *jobs, const hearth_model_info *info, const char *salt, hth_buffer *out)
{
    hth_api_slot *slots = calloc(HTH_SLOT_NUMBERS_MAX, sizeof(*slots));
    const char *asker = salt ? salt : "";
    uint32_t n_replies;

    out->failed |= !slots;
    if (!slots)
        return;
    add_seen(jobs, asker, slots);
    n_replies = add_running(jobs, asker, slots);
    mark_running(slots, info->n_parallel, n_replies < info->n_running ? n_replies : info->n_running);
    hth_api_slots_write(info, slots, jobs->model && hth_model_drafts(jobs->model), out);
    for (size_t i = 0; i < HTH_SLOT_NUMBERS_MAX; i++)
        json_decref(slots[i].params);
    free(slots);
}
