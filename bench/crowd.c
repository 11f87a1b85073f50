/*
 * crowd.c - callbacks that note the time
 */
#include "crowd.h"

#include <stdlib.h>

#include "base/os.h"
#include "report.h"

void hth_crowd_init(hth_crowd *crowd)
{
    *crowd = (hth_crowd){ .n = 0 };
    pthread_mutex_init(&crowd->lock, NULL);
    pthread_cond_init(&crowd->changed, NULL);
}

void hth_crowd_deinit(hth_crowd *crowd)
{
    hth_crowd_wait(crowd);
    for (size_t i = 0; i < crowd->n; i++)
        free(crowd->members[i].token_ns);
    pthread_cond_destroy(&crowd->changed);
    pthread_mutex_destroy(&crowd->lock);
}

static bool note_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    uint64_t now = hth_os_monotonic_ns();
    hth_member *member = user_data;

    (void)id, (void)event;
    pthread_mutex_lock(&member->crowd->lock);
    if (member->n_tokens < member->n_tokens_max)
        member->token_ns[member->n_tokens++] = now;
    pthread_cond_broadcast(&member->crowd->changed);
    pthread_mutex_unlock(&member->crowd->lock);
    return true;
}

static void note_end(uint64_t id, const hearth_result *result, void *user_data)
{
    hth_member *member = user_data;

    (void)id;
    if (result->status != HEARTH_OK && result->status != HEARTH_CANCELLED)
        hth_report_die("%s", result->error.message);
    if (member->n_tokens != result->stats->completion_tokens)
        hth_report_die("a reply of %u tokens told of %zu", result->stats->completion_tokens, member->n_tokens);
    pthread_mutex_lock(&member->crowd->lock);
    member->status = result->status;
    member->stats = *result->stats;
    member->is_done = true;
    pthread_cond_broadcast(&member->crowd->changed);
    pthread_mutex_unlock(&member->crowd->lock);
}

hth_member *hth_crowd_submit(hth_crowd *crowd, hearth_model *model, const hearth_request *request)
{
    hearth_error err = { .message = "" };
    hearth_request own = *request;
    hth_member *member;

    if (crowd->n == HTH_CROWD_MAX)
        hth_report_die("more than %d requests at once", HTH_CROWD_MAX);
    member = &crowd->members[crowd->n++];
    member->crowd = crowd;
    member->n_tokens_max = (size_t)request->n_predict;
    member->token_ns = calloc(member->n_tokens_max, sizeof(*member->token_ns));
    if (!member->token_ns)
        hth_report_die("no memory for the times of %zu tokens", member->n_tokens_max);
    own.on_token = note_token;
    own.on_done = note_end;
    own.user_data = member;
    member->submitted_ns = hth_os_monotonic_ns();
    hth_report_check(hearth_submit(model, &own, &member->id, &err), &err);
    return member;
}

void hth_crowd_wait_tokens(hth_member *member, size_t n)
{
    pthread_mutex_lock(&member->crowd->lock);
    while (member->n_tokens < n && !member->is_done)
        pthread_cond_wait(&member->crowd->changed, &member->crowd->lock);
    pthread_mutex_unlock(&member->crowd->lock);
}

void hth_crowd_wait(hth_crowd *crowd)
{
    for (size_t i = 0; i < crowd->n; i++)
        hth_crowd_wait_tokens(&crowd->members[i], SIZE_MAX);
}
