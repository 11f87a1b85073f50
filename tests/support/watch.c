#include "support/watch.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

static test_watch *watch_of(hth_engine_context *context)
{
    return (test_watch *)(void *)context;
}

hth_engine_context *test_watch_context(test_watch *watch)
{
    return (hth_engine_context *)(void *)watch;
}

/* ---- the account ---- */

static uint32_t *cells_of(const test_watch *watch, uint32_t sequence)
{
    return watch->cells + (size_t)sequence * watch->n_ctx;
}

static void drop(test_watch *watch, uint32_t sequence, uint32_t position)
{
    uint32_t *cell = &cells_of(watch, sequence)[position];

    if (*cell == 0)
        return;
    assert_true(watch->owners[*cell - 1] > 0);
    if (--watch->owners[*cell - 1] == 0)
        watch->unused[watch->n_unused++] = *cell - 1;
    *cell = 0;
}

static void remove_range(test_watch *watch, uint32_t sequence, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end && i < watch->ends[sequence]; i++)
        drop(watch, sequence, i);
    while (watch->ends[sequence] > 0 && cells_of(watch, sequence)[watch->ends[sequence] - 1] == 0)
        watch->ends[sequence]--;
}

static void take(test_watch *watch, uint32_t sequence, uint32_t position)
{
    uint32_t cell;

    assert_true(position < watch->n_ctx);
    assert_int_equal(cells_of(watch, sequence)[position], 0); /* a position is evaluated once */
    assert_true(watch->n_unused > 0);
    cell = watch->unused[--watch->n_unused];
    watch->owners[cell] = 1;
    cells_of(watch, sequence)[position] = cell + 1;
    if (watch->ends[sequence] <= position)
        watch->ends[sequence] = position + 1;
}

static void share(test_watch *watch, uint32_t from, uint32_t to, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        uint32_t cell = cells_of(watch, from)[i];

        if (cell == 0) /* of a part of a sequence, as the scratch one holds */
            continue;
        assert_int_equal(cells_of(watch, to)[i], 0);
        watch->owners[cell - 1]++;
        cells_of(watch, to)[i] = cell;
        if (watch->ends[to] <= i)
            watch->ends[to] = i + 1;
    }
}

static void take_rows(test_watch *watch, const hth_batch_row *rows, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++)
        take(watch, rows[i].sequence, rows[i].position);
}

uint32_t test_watch_n_used(const test_watch *watch)
{
    return watch->n_cells - watch->n_unused;
}

uint32_t test_watch_n_tokens(const test_watch *watch, uint32_t sequence)
{
    return watch->ends[sequence];
}

uint32_t test_watch_n_cells_of(const test_watch *watch, const uint32_t *sequences, size_t n)
{
    bool *seen = calloc(watch->n_cells, sizeof(*seen));
    uint32_t count = 0;

    assert_non_null(seen);
    for (size_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < watch->ends[sequences[i]]; j++) {
            uint32_t cell = cells_of(watch, sequences[i])[j];

            if (cell == 0 || seen[cell - 1])
                continue;
            seen[cell - 1] = true;
            count++;
        }
    free(seen);
    return count;
}

/* ---- the calls ---- */

static hearth_status decode(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                            hth_decode_result *result, hearth_error *err)
{
    test_watch *watch = watch_of(context);
    test_decode_answer answer = watch->hooks.before_decode
                                  ? watch->hooks.before_decode(watch, rows, n_rows, watch->hooks.user_data)
                                  : TEST_DECODE_GOES;
    size_t n_done = answer == TEST_DECODE_GOES                                         ? n_rows
                  : answer == TEST_DECODE_FAILS_INSIDE || answer == TEST_DECODE_ABORTS ? n_rows / 2
                                                                                       : 0;
    hearth_status status = HEARTH_OK;

    *result = HTH_DECODE_OK;
    if (n_done > 0)
        status = watch->inner->decode(watch->context, rows, n_done, result, err);
    if (status == HEARTH_NO_MEMORY)
        return status;
    if (status != HEARTH_OK)
        fail_msg("the engine refused a batch: %s", err ? err->message : "");
    if (*result == HTH_DECODE_OK)
        take_rows(watch, rows, n_done);
    else if (*result == HTH_DECODE_NO_ROOM)
        watch->n_no_room++;
    else
        for (size_t i = 0; i < n_rows; i++) { /* aborted: how far it came shows in its sequences */
            uint32_t n = watch->inner->seq_end(watch->context, rows[i].sequence);

            if (rows[i].position < n)
                take(watch, rows[i].sequence, rows[i].position);
        }
    if (watch->clock_ns)
        *watch->clock_ns += watch->row_ns * n_done + watch->decode_ns;
    switch (answer) {
    case TEST_DECODE_GOES: break;
    case TEST_DECODE_FAILS:
    case TEST_DECODE_FAILS_INSIDE: return hth_fail(err, HEARTH_ENGINE, "the test lets this evaluation fail");
    case TEST_DECODE_NO_ROOM: *result = HTH_DECODE_NO_ROOM; return HEARTH_OK;
    case TEST_DECODE_ABORTS: *result = HTH_DECODE_ABORTED; return HEARTH_OK;
    }
    if (*result != HTH_DECODE_OK)
        return HEARTH_OK;
    watch->n_decodes++;
    watch->n_rows += n_rows;
    if (watch->hooks.after_decode)
        watch->hooks.after_decode(watch, rows, n_rows, watch->hooks.user_data);
    return HEARTH_OK;
}

static hearth_status adapters_apply(hth_engine_context *context, const hth_engine_adapter_use *uses, size_t n,
                                    hearth_error *err)
{
    test_watch *watch = watch_of(context);
    bool is_same = n == watch->n_adapters;

    for (size_t i = 0; i < n && is_same; i++)
        is_same = uses[i].adapter == watch->adapters[i].adapter && uses[i].scale == watch->adapters[i].scale;
    if (!is_same)
        watch->n_changes++;
    for (size_t i = 0; i < n; i++)
        watch->adapters[i] = uses[i];
    watch->n_adapters = n;
    return watch->inner->adapters_apply(watch->context, uses, n, err);
}

static const float *logits(hth_engine_context *context, size_t row)
{
    test_watch *watch = watch_of(context);

    return watch->inner->logits(watch->context, row);
}

static bool seq_remove(hth_engine_context *context, uint32_t sequence, uint32_t begin, uint32_t end)
{
    test_watch *watch = watch_of(context);

    if (!watch->inner->seq_remove(watch->context, sequence, begin, end))
        return false;
    remove_range(watch, sequence, begin, end);
    if (watch->hooks.on_remove)
        watch->hooks.on_remove(watch, sequence, begin, end, watch->hooks.user_data);
    return true;
}

static hearth_status seq_copy(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin, uint32_t end,
                              hearth_error *err)
{
    test_watch *watch = watch_of(context);
    hearth_status status;

    if (watch->hooks.refuses_copy && watch->hooks.refuses_copy(watch, watch->hooks.user_data))
        return hth_fail(err, HEARTH_ENGINE, "the test refuses this copy");
    status = watch->inner->seq_copy(watch->context, from, to, begin, end, err);
    if (status != HEARTH_OK)
        fail_msg("the engine refused a copy: %s", err ? err->message : "");
    share(watch, from, to, begin, end);
    if (watch->hooks.on_copy)
        watch->hooks.on_copy(watch, from, to, begin, end, watch->hooks.user_data);
    return HEARTH_OK;
}

static uint32_t seq_end(hth_engine_context *context, uint32_t sequence)
{
    test_watch *watch = watch_of(context);

    return watch->inner->seq_end(watch->context, sequence);
}

static size_t state_size(hth_engine_context *context, uint32_t sequence, hth_state_part part)
{
    test_watch *watch = watch_of(context);

    return watch->inner->state_size(watch->context, sequence, part);
}

static hearth_status state_get(hth_engine_context *context, uint32_t sequence, hth_state_part part, uint8_t *bytes,
                               size_t capacity, size_t *n_out, hearth_error *err)
{
    test_watch *watch = watch_of(context);

    return watch->inner->state_get(watch->context, sequence, part, bytes, capacity, n_out, err);
}

static hearth_status state_set(hth_engine_context *context, uint32_t sequence, hth_state_part part,
                               const uint8_t *bytes, size_t n_bytes, uint32_t begin, uint32_t end, hearth_error *err)
{
    test_watch *watch = watch_of(context);
    bool is_added = part == HTH_STATE_REST && watch->kind != HTH_MODEL_RECURRENT;
    hearth_status status;

    if (watch->hooks.refuses_set && watch->hooks.refuses_set(watch, watch->hooks.user_data)) {
        (void)seq_remove(context, sequence, 0, UINT32_MAX);
        return hth_fail(err, HEARTH_ENGINE, "the test refuses this state");
    }
    status = watch->inner->state_set(watch->context, sequence, part, bytes, n_bytes, begin, end, err);
    if (!is_added || status != HEARTH_OK)
        remove_range(watch, sequence, 0, UINT32_MAX);
    if (status != HEARTH_OK)
        return status;
    for (uint32_t i = begin; !is_added && i < end; i++)
        take(watch, sequence, i);
    if (watch->hooks.on_set)
        watch->hooks.on_set(watch, sequence, part, bytes, n_bytes, begin, end, watch->hooks.user_data);
    return HEARTH_OK;
}

static void context_info(const hth_engine_context *context, hth_engine_context_info *out)
{
    const test_watch *watch = (const test_watch *)(const void *)context;

    watch->inner->context_info(watch->context, out);
}

void test_watch_init(test_watch *watch, const hth_backend *inner, hth_engine_context *context, hth_model_kind kind)
{
    hth_engine_context_info info;

    inner->context_info(context, &info);
    *watch = (test_watch){
        .inner = inner,
        .context = context,
        .backend = *inner,
        .kind = kind,
        .n_sequences = info.n_seq_max,
        .n_ctx = info.n_ctx,
        .n_cells = kind == HTH_MODEL_RECURRENT ? info.n_seq_max * info.n_ctx : info.n_ctx,
    };
    watch->backend.decode = decode;
    watch->backend.logits = logits;
    watch->backend.seq_remove = seq_remove;
    watch->backend.adapters_apply = adapters_apply;
    watch->backend.seq_copy = seq_copy;
    watch->backend.seq_end = seq_end;
    watch->backend.state_size = state_size;
    watch->backend.state_get = state_get;
    watch->backend.state_set = state_set;
    watch->backend.context_info = context_info;
    watch->cells = calloc((size_t)info.n_seq_max * info.n_ctx, sizeof(*watch->cells));
    watch->ends = calloc(info.n_seq_max, sizeof(*watch->ends));
    watch->owners = calloc(watch->n_cells, sizeof(*watch->owners));
    watch->unused = calloc(watch->n_cells, sizeof(*watch->unused));
    assert_true(watch->cells && watch->ends && watch->owners && watch->unused);
    for (uint32_t i = 0; i < watch->n_cells; i++)
        watch->unused[watch->n_unused++] = i;
}

void test_watch_deinit(test_watch *watch)
{
    free(watch->cells);
    free(watch->ends);
    free(watch->owners);
    free(watch->unused);
}
