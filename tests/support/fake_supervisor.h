/*
 * fake_supervisor.h - what a supervisor shows, without processes
 *
 * For tests of pages. The program that includes this has these functions instead of the supervisor's.
 */
#ifndef HTH_TESTS_FAKE_SUPERVISOR_H
#define HTH_TESTS_FAKE_SUPERVISOR_H

#include <string.h>

#include "base/status.h"
#include "supervisor/supervisor.h"

struct hth_supervisor {
    hth_worker_view views[8];
    size_t n;
    char restarted[64]; /* by an order */
    const char *order;
};

size_t hth_supervisor_n(const hth_supervisor *supervisor)
{
    return supervisor->n;
}

void hth_supervisor_view(const hth_supervisor *supervisor, size_t i, hth_worker_view *out)
{
    *out = supervisor->views[i];
}

hth_supervisor_memory hth_supervisor_memory_of(const hth_supervisor *supervisor)
{
    (void)supervisor;
    return (hth_supervisor_memory){
        .pools = { { .limit_bytes = 1000, .used_bytes = 700, .pinned_bytes = 300 },
                   { .name = "CUDA0",
                     .limit_bytes = 500,
                     .used_bytes = 600,
                     .pinned_bytes = 600,
                     .pinned_over_commit = true },
                   { .name = "CUDA1", .limit_bytes = UINT64_MAX, .used_bytes = 7 } },
        .n = 3,
    };
}

static inline hearth_status take_order(hth_supervisor *supervisor, const char *order, const char *model,
                                       hearth_error *err)
{
    for (size_t i = 0; i < supervisor->n; i++) {
        if (strcmp(supervisor->views[i].model, model) == 0 && strlen(model) < sizeof(supervisor->restarted)) {
            memcpy(supervisor->restarted, model, strlen(model) + 1);
            supervisor->order = order;
            return HEARTH_OK;
        }
    }
    return hth_fail(err, HEARTH_NOT_FOUND, "there is no model '%s'", model);
}

hearth_status hth_supervisor_restart(hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    return take_order(supervisor, "restart", model, err);
}

hearth_status hth_supervisor_load(hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    return take_order(supervisor, "load", model, err);
}

hearth_status hth_supervisor_unload(hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    return take_order(supervisor, "unload", model, err);
}

hearth_status hth_supervisor_set_residency(hth_supervisor *supervisor, const char *model, hth_residency to,
                                           hearth_error *err)
{
    if (to == HTH_RESIDENCY_HOST)
        return hth_fail(err, HEARTH_UNSUPPORTED, "model '%s' has no folder", model);
    if (to == HTH_RESIDENCY_PINNED_DEVICE)
        return hth_fail(err, HEARTH_FULL, "there is no room for model '%s'", model);
    return take_order(supervisor, hth_residency_name(to), model, err);
}

hearth_status hth_supervisor_preload(hth_supervisor *supervisor, const char *const *models, size_t n, json_t **out,
                                     hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < n && status == HEARTH_OK; i++)
        status = take_order(supervisor, "preload", models[i], err);
    if (status == HEARTH_OK)
        *out = json_pack("{s:[s]}", "loading", models[0]);
    return status;
}

hearth_status hth_supervisor_release_all(hth_supervisor *supervisor, bool drops_rows, json_t **out, hearth_error *err)
{
    (void)err;
    supervisor->order = drops_rows ? "release rows" : "release";
    *out = json_pack("{s:[]}", "releasing");
    return HEARTH_OK;
}

hearth_status hth_supervisor_compact(hth_supervisor *supervisor, json_t **out, hearth_error *err)
{
    (void)supervisor;
    (void)out;
    return hth_fail(err, HEARTH_BUSY, "the server is shutting down");
}

#endif
