/*
 * admin_models.c - /admin/models: what the front knows of its workers, as JSON
 *
 * Texts of the engine come from a worker's memory; those that are no text are shown as null.
 */
#include "server/admin_pages.h"

#include <string.h>

#include "base/hash.h"

/* A text of a field of a fixed size. */
static json_t *text_json(const char *text, size_t capacity)
{
    json_t *value = json_stringn(text, strnlen(text, capacity));

    return value ? value : json_null();
}

/* NULL for zeros: it is not known yet. */
static json_t *hex_json(const uint8_t bytes[32])
{
    static const uint8_t zeros[32];
    char text[65];

    if (memcmp(bytes, zeros, sizeof(zeros)) == 0)
        return NULL;
    hth_hex_encode(bytes, 32, text);
    return json_string(text);
}

static json_t *count_json(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* A member; NULL is taken as no memory, which the end of the page tells. */
static bool set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

#define TEXT(field) text_json(info->field, sizeof(info->field))

static json_t *model_json(const hearth_model_info *info)
{
    return json_pack("{s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:I, s:I, s:I, s:I, s:b, s:o*, s:o*}", "architecture",
                     TEXT(architecture), "description", TEXT(description), "quant_type", TEXT(quant_type),
                     "chat_template_kind", TEXT(chat_template_kind), "file_bytes", count_json(info->file_bytes),
                     "n_params", count_json(info->n_params), "n_ctx", (json_int_t)info->n_ctx, "n_ctx_train",
                     (json_int_t)info->n_ctx_train, "n_vocab", (json_int_t)info->n_vocab, "block_tokens",
                     (json_int_t)info->block_tokens, "rows_are_blocks", info->rows_are_blocks, "fingerprint",
                     hex_json(info->fingerprint), "ctx_params_hash", hex_json(info->ctx_params_hash));
}

static json_t *scheduler_json(const hth_status *status)
{
    const hearth_model_info *info = &status->info;

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o*, s:o*, s:o*, s:f}", "running", (json_int_t)info->n_running,
                     "waiting", (json_int_t)info->n_waiting, "parallel", (json_int_t)info->n_parallel, "idle_sequences",
                     (json_int_t)info->n_idle_sequences, "cells", (json_int_t)info->n_ctx, "cells_used",
                     (json_int_t)info->n_cells_used, "evaluations", count_json(info->n_ticks), "preempted",
                     count_json(info->n_preempted), "strategy", TEXT(strategy), "evaluating_ms",
                     (double)status->tick_ns / 1e6);
}

static json_t *tier_json(uint64_t rows, uint64_t bytes)
{
    return json_pack("{s:o*, s:o*}", "rows", count_json(rows), "bytes", count_json(bytes));
}

static json_t *hits_json(const hearth_counters *counters)
{
    return json_pack("{s:o*, s:o*, s:o*, s:o*, s:o*}", "live", count_json(counters->hits_live), "exact",
                     count_json(counters->hits_exact), "resume", count_json(counters->hits_resume), "prefix",
                     count_json(counters->hits_prefix), "none", count_json(counters->misses));
}

static json_t *cache_json(const hearth_counters *counters)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        { "requests", counters->requests },
        { "tokens_prompt", counters->tokens_prompt },
        { "tokens_cached", counters->tokens_cached },
        { "tokens_generated", counters->tokens_generated },
        { "rows_restored", counters->rows_restored },
        { "bytes_restored", counters->bytes_restored },
        { "rows_saved", counters->rows_saved },
        { "bytes_saved", counters->bytes_saved },
        { "rows_written", counters->rows_written },
        { "bytes_written", counters->bytes_written },
        { "rows_evicted", counters->rows_evicted },
        { "rows_removed", counters->rows_removed },
        { "rows_quarantined", counters->rows_quarantined },
        { "saves_dropped", counters->saves_dropped },
        { "writes_failed", counters->writes_failed },
    };
    json_t *object = json_object();
    bool is_good = object && set(object, "hits", hits_json(counters));

    for (size_t i = 0; is_good && i < sizeof(counts) / sizeof(counts[0]); i++)
        is_good = set(object, counts[i].name, count_json(counts[i].value));
    is_good = is_good && set(object, "ram", tier_json(counters->ram_rows, counters->ram_bytes)) &&
              set(object, "ram_file", tier_json(counters->ram_file_rows, counters->ram_file_bytes)) &&
              set(object, "disk", tier_json(counters->disk_rows, counters->disk_bytes)) &&
              set(object, "write_queue", tier_json(counters->write_queue_rows, counters->write_queue_bytes));
    if (is_good)
        return object;
    json_decref(object);
    return NULL;
}

/* What is there only in some states. */
static bool set_state(json_t *object, const hth_worker_view *view)
{
    if (view->pid > 0 && !set(object, "pid", json_integer(view->pid)))
        return false;
    if (view->state == HTH_WORKER_STARTING && !set(object, "load_progress", json_real((double)view->load_progress)))
        return false;
    if ((view->state == HTH_WORKER_WAITING || view->state == HTH_WORKER_BROKEN) &&
        !set(object, "restart_in_ms", json_integer(view->restart_in_ms)))
        return false;
    if (view->last_death[0] && !set(object, "last_death", text_json(view->last_death, sizeof(view->last_death))))
        return false;
    return !view->status.has_numbers || (set(object, "model", model_json(&view->status.info)) &&
                                         set(object, "scheduler", scheduler_json(&view->status)) &&
                                         set(object, "cache", cache_json(&view->status.counters)));
}

static json_t *worker_json(const hth_worker_view *view)
{
    json_t *object = json_pack("{s:s, s:s, s:o*, s:o*, s:o*, s:o*, s:o*, s:I, s:o*}", "name", view->model, "state",
                               hth_worker_state_name(view->state), "generation", count_json(view->generation), "starts",
                               count_json(view->n_starts), "deaths", count_json(view->n_deaths), "hangs",
                               count_json(view->n_hangs), "up_ms", count_json(view->up_ms), "waiting_requests",
                               (json_int_t)view->n_waiters, "resident_bytes", count_json(view->resident_bytes));

    if (object && set_state(object, view))
        return object;
    json_decref(object);
    return NULL;
}

void hth_admin_write_models(const hth_admin *admin, const hth_http_numbers *http, hth_buffer *out)
{
    json_t *page =
        json_pack("{s:s, s:b, s:I, s:I, s:[]}", "version", hearth_version(), "draining", admin->is_draining, "requests",
                  (json_int_t)admin->n_requests, "connections", (json_int_t)http->n_connections, "models");
    json_t *models = json_object_get(page, "models");
    hth_worker_view view;

    for (size_t i = 0; models && i < hth_supervisor_n(admin->supervisor); i++) {
        hth_supervisor_view(admin->supervisor, i, &view);
        if (json_array_append_new(models, worker_json(&view)) != 0)
            models = NULL;
    }
    if (!models) {
        json_decref(page);
        page = NULL;
    }
    hth_buffer_add_json_take(out, page);
    hth_buffer_add_text(out, "\n");
}
