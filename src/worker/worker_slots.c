#include "worker/worker_slots.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/os.h"
#include "base/whole_file.h"
#include "models/model.h"
#include "models/prefix.h"

enum {
    TENANT_BYTES = 16, /* of a digest, in the name of a folder */
    INSUFFICIENT_STORAGE = 507,
};

/* A valid order. */
typedef struct order {
    hth_task *task;
    const char *salt; /* NULL: none */
    hth_slot_adapters adapters;
    const char *filename;
    char folder[PATH_MAX]; /* of the file */
    char path[PATH_MAX];
    uint32_t number;
    uint64_t begun_ns;
} order;

/* ---- reading an order ---- */

/* Copy a word. A longer text is cut, and then matches no known word. */
static void copy_word(char out[HTH_TASK_WORD_BYTES], const char *text)
{
    (void)snprintf(out, HTH_TASK_WORD_BYTES, "%s", text ? text : "");
}

void hth_slot_order_read(hth_http_exchange *exchange, hth_task *task)
{
    const char *slash = strrchr(hth_http_path(exchange), '/');

    copy_word(task->slot_number, slash ? slash + 1 : "");
    copy_word(task->slot_action, hth_http_query(exchange, "action"));
}

static bool read_number(order *o)
{
    const char *text = o->task->slot_number;
    hearth_model_info info = { .struct_size = sizeof(info) };
    size_t n = strlen(text);

    (void)hearth_model_info_get(o->task->shared->model, &info, NULL); /* cannot fail with a model */
    if (n > 0 && n <= 4 && strspn(text, "0123456789") == n)
        o->number = (uint32_t)strtoul(text, NULL, 10);
    else
        o->number = UINT32_MAX;
    if (o->number >= info.n_parallel)
        hth_api_fail(&o->task->error, HTH_API_INVALID_VALUE, NULL,
                     "Invalid slot ID: '%s' is not one of 0 to %u, the slots of this model", text, info.n_parallel - 1);
    return o->number < info.n_parallel;
}

/* Remove the folder from a message: clients see only the name of the file. */
static void hide_folder(const order *o, hearth_error *err)
{
    const size_t n = strlen(o->folder) + 1; /* including the slash */
    char *at;

    while (n > 1 && (at = strstr(err->message, o->path)) != NULL)
        memmove(at, at + n, strlen(at + n) + 1);
    /* Another path in the folder, or a path that was cut. */
    if (n > 1 && (strstr(err->message, o->folder) || strlen(o->path) > sizeof(err->message) / 2))
        (void)snprintf(err->message, sizeof(err->message), "the slot's file '%.200s' cannot be read or written",
                       o->filename);
}

/* Set the error. is_of_file: a missing or damaged file is the fault of the request. */
static void fail(const order *o, bool is_of_file, hearth_error *err)
{
    hide_folder(o, err);
    if (err->status == HEARTH_NOT_FOUND || (is_of_file && err->status == HEARTH_CORRUPT))
        err->status = HEARTH_MISUSE;
    hth_api_fail_status(&o->task->error, err);
}

static bool find_path(order *o)
{
    hth_api_error *error = &o->task->error;
    const char *directory = o->task->shared->settings->slot_directory;
    uint8_t digest[HTH_SHA256_BYTES];
    char tenant[2 * TENANT_BYTES + 1];
    int n;

    if (!directory)
        hth_api_fail(error, HTH_API_UNSUPPORTED, NULL,
                     "This server does not support slots action. Start it with `--slot-save-path`, and a folder for "
                     "the files");
    else if (!o->filename)
        hth_api_fail(error, HTH_API_MISSING, "filename", "'filename' is missing: the name of the slot's file");
    if (error->kind != HTH_API_NO_ERROR)
        return false;
    if (o->salt && *o->salt) {
        hth_sha256_of(o->salt, strlen(o->salt), digest); /* unique to the salt, and does not reveal it */
        hth_hex_encode(digest, TENANT_BYTES, tenant);
        n = snprintf(o->folder, sizeof(o->folder), "%s/.tenant-%s", directory, tenant);
    } else {
        n = snprintf(o->folder, sizeof(o->folder), "%s", directory);
    }
    if (n > 0 && (size_t)n < sizeof(o->folder))
        n = snprintf(o->path, sizeof(o->path), "%s/%s", o->folder, o->filename);
    if (n > 0 && (size_t)n < sizeof(o->path))
        return true;
    hth_api_fail(error, HTH_API_INVALID_VALUE, "filename", "'filename' is too long for the folder of slots");
    return false;
}

/* ---- execution of an order ---- */

static double ms_since(uint64_t begun_ns)
{
    return (double)(hth_os_monotonic_ns() - begun_ns) / 1e6;
}

/* The tokens of the slot. NULL: none (*n_out is 0), or no memory (with the error). */
static hearth_token *tokens_of(order *o, uint32_t *n_out)
{
    hearth_token *tokens = hth_slot_memory_tokens(o->task->shared->slots, o->salt, o->number, &o->adapters, n_out);

    if (!tokens && *n_out > 0)
        hth_api_fail(&o->task->error, HTH_API_OVERLOADED, NULL, "no memory for the slot's %u tokens", *n_out);
    return tokens;
}

/* The requests that ran in the slot. */
static hth_prefix_owner owner_of(const order *o)
{
    return (hth_prefix_owner){ .cache_salt = o->salt, .adapters = o->adapters.list, .n_adapters = o->adapters.n };
}

static void save(order *o)
{
    hth_task *task = o->task;
    hth_prefix_saved saved;
    hearth_error err = { .message = "" };
    hearth_token *tokens;
    uint32_t n_tokens = 0;

    if (!find_path(o))
        return;
    tokens = tokens_of(o, &n_tokens);
    if (n_tokens == 0)
        hth_api_fail(&task->error, HTH_API_INVALID_VALUE, NULL,
                     "slot %u is empty: no request of this key has run there since the model was loaded", o->number);
    if (tokens && mkdir(o->folder, 0700) != 0 && errno != EEXIST) {
        hth_api_fail(&task->error, HTH_API_INTERNAL, NULL, "the folder of slots cannot be written: %s",
                     strerror(errno));
    } else if (tokens) {
        const hth_prefix_owner owner = owner_of(o);

        hth_whole_file_sweep(o->path); /* remains of a killed worker would take up room for ever */
        if (hth_prefix_save(task->shared->model, &owner, tokens, n_tokens, o->path,
                            &task->shared->settings->slot_limits, &saved, &err) == HEARTH_OK)
            hth_buffer_add_json_take(
                &task->answer, json_pack("{s:I, s:s, s:I, s:I, s:{s:f}}", "id_slot", (json_int_t)o->number, "filename",
                                         o->filename, "n_saved", (json_int_t)saved.file.n_tokens, "n_written",
                                         (json_int_t)saved.file.bytes, "timings", "save_ms", ms_since(o->begun_ns)));
        else
            fail(o, false, &err);
        if (err.status == HEARTH_FULL) /* not load: the same request would have no room a little later either */
            task->error.status = INSUFFICIENT_STORAGE;
    }
    free(tokens);
}

static void restore(order *o)
{
    hth_task *task = o->task;
    hth_imported restored;
    hth_prefix_owner owner;
    hearth_error err = { .message = "" };

    if (!find_path(o))
        return;
    o->adapters.n = task->request->options.n_adapters;
    for (size_t i = 0; i < o->adapters.n; i++)
        o->adapters.list[i] = task->request->options.adapters[i];
    owner = owner_of(o);
    if (hth_prefix_restore(task->shared->model, &owner, o->path, &restored, &err) != HEARTH_OK) {
        fail(o, true, &err);
        return;
    }
    hth_slot_memory_note(task->shared->slots, o->salt, &o->adapters, o->number, restored.tokens, restored.n_tokens,
                         NULL, 0);
    free(restored.tokens);
    hth_buffer_add_json_take(&task->answer,
                             json_pack("{s:I, s:s, s:I, s:I, s:{s:f}}", "id_slot", (json_int_t)o->number, "filename",
                                       o->filename, "n_restored", (json_int_t)restored.n_tokens, "n_read",
                                       (json_int_t)restored.bytes, "timings", "restore_ms", ms_since(o->begun_ns)));
}

/* Erase, except for the tokens that other slots share or that the operator has pinned. */
static hearth_status erase_own(const order *o, const hearth_token *tokens, uint32_t n_tokens, uint32_t *n_erased_out,
                               hearth_error *err)
{
    uint32_t n_kept =
                 hth_slot_memory_shared(o->task->shared->slots, o->salt, &o->adapters, o->number, tokens, n_tokens),
             n_pinned = 0;
    const hth_prefix_owner owner = owner_of(o);
    hearth_status status = hth_prefix_pinned(o->task->shared->model, &owner, tokens, n_tokens, &n_pinned, err);

    if (status != HEARTH_OK)
        return status;
    return hth_prefix_erase(o->task->shared->model, &owner, tokens, n_tokens, n_pinned > n_kept ? n_pinned : n_kept,
                            n_erased_out, err);
}

static void erase(order *o)
{
    hth_task *task = o->task;
    hearth_error err = { .message = "" };
    uint32_t n_tokens = 0, n_erased = 0;
    hearth_token *tokens = tokens_of(o, &n_tokens);

    if (tokens && erase_own(o, tokens, n_tokens, &n_erased, &err) == HEARTH_OK)
        hth_slot_memory_clear(task->shared->slots, o->salt, o->number);
    else if (tokens)
        fail(o, false, &err);
    free(tokens);
    hth_buffer_add_json_take(
        &task->answer, json_pack("{s:I, s:I}", "id_slot", (json_int_t)o->number, "n_erased", (json_int_t)n_erased));
}

void hth_slot_order_run(hth_task *task)
{
    order *o = calloc(1, sizeof(*o));

    if (!o) {
        hth_api_fail(&task->error, HTH_API_OVERLOADED, NULL, "no memory for the request");
        return;
    }
    o->task = task;
    o->begun_ns = hth_os_monotonic_ns();
    o->filename = task->request->filename;
    if (read_number(o)) {
        o->salt = task->request->options.cache_salt;
        if (strcmp(task->slot_action, "save") == 0)
            save(o);
        else if (strcmp(task->slot_action, "restore") == 0)
            restore(o);
        else if (strcmp(task->slot_action, "erase") == 0)
            erase(o);
        else
            hth_api_fail(&task->error, HTH_API_INVALID_VALUE, NULL,
                         "Invalid action '%s': it must be save, restore or erase, as in /slots/0?action=save",
                         task->slot_action);
    }
    free(o);
}
