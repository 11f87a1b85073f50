/*
 * backend_state.c - reads parts of a sequence's state from the engine, and writes them back
 *
 * An image is parsed before the engine sees it, and an image that the engine wrote is parsed in the same way. The first
 * image of a part that the engine writes or accepts in a context defines the layout of all others. A sequence is empty
 * after a failed set.
 */
#include "llama/backend_inside.h"

#include <stdlib.h>

static bool has_part(const hth_engine_context *context, hth_state_part part)
{
    switch (part) {
    case HTH_STATE_CELLS: return context->format.has_attention;
    case HTH_STATE_CELLS_BARE: return context->format.has_window && !context->format.has_recurrent;
    case HTH_STATE_REST: return context->format.has_recurrent;
    }
    return false;
}

/* Does the sequence hold the part, and does it hold nothing that the engine would write with the part? */
static bool can_get(const hth_engine_context *context, uint32_t id, hth_state_part part)
{
    const hth_llama_holding *held;

    if (!hth_backend_llama_is_sequence(context, id) || context->held[id].end == 0 || part == HTH_STATE_CELLS_BARE ||
        !has_part(context, part) || hth_backend_llama_kind(context) == HTH_MODEL_UNCACHED)
        return false;
    held = &context->held[id];
    if (part == HTH_STATE_REST)
        return hth_backend_llama_is_whole(context, id);
    if (context->format.has_recurrent)
        return held->rest_end == 0;
    return !context->format.has_window || held->window_begin <= held->begin ||
           held->window_begin <= hth_backend_llama_window_begin(context, held->end);
}

size_t hth_backend_llama_state_size(hth_engine_context *context, uint32_t id, hth_state_part part)
{
    size_t whole, partial;

    if (!context || !can_get(context, id, part))
        return 0;
    if (part == HTH_STATE_REST)
        return hth_shim_state_size(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    whole = hth_shim_state_size(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_NONE);
    if (!context->format.has_window || !context->format.has_recurrent || whole == 0)
        return whole;
    /*
     * Subtract the window's cells: the partial state includes them, and the partial state of an empty sequence is the
     * rest.
     */
    partial = hth_shim_state_size(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    return partial == 0 || partial > whole ? 0 : whole - partial + context->empty_rest_bytes;
}

static hearth_status grow_bounce(hth_engine_context *context, size_t n_bytes, hearth_error *err)
{
    uint8_t *grown;

    if (n_bytes <= context->bounce_bytes)
        return HEARTH_OK;
    grown = realloc(context->bounce, n_bytes);
    if (!grown)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu bytes of state", n_bytes);
    context->bounce = grown;
    context->bounce_bytes = n_bytes;
    return HEARTH_OK;
}

/* An image that the engine wrote must pass the same checks as an image that it is given. */
static hearth_status check_own_image(hth_engine_context *context, uint32_t id, hth_state_part part,
                                     const uint8_t *bytes, size_t n_bytes, hearth_error *err)
{
    hth_image_format format = hth_image_part_format(&context->format, part);
    uint32_t begin = part == HTH_STATE_REST ? 0 : context->held[id].begin;
    bool *known = &context->layout_known[part == HTH_STATE_REST];
    hth_image_layout *layout = &context->layouts[part == HTH_STATE_REST];
    hearth_error problem = { .message = "" };
    hearth_status status =
        hth_image_parse(&format, bytes, n_bytes, begin, context->held[id].end, &context->parsed, &problem);

    if (status == HEARTH_NO_MEMORY)
        return hth_fail(err, status, "%s", problem.message);
    if (status == HEARTH_OK && *known && !hth_image_layout_equal(&context->parsed, layout))
        return hth_fail(err, HEARTH_ENGINE, "the engine wrote sequence %u with other layers than before", id);
    if (status == HEARTH_OK) {
        *layout = context->parsed;
        *known = true;
        return HEARTH_OK;
    }
    if (!*known) {
        atomic_store(&context->model->kind, (int)HTH_MODEL_UNCACHED);
        hth_warn(context->model->log, "nothing is cached for architecture '%s': its state has an unknown form (%s)",
                 context->model->facts.architecture, problem.message);
    }
    return hth_fail(err, HEARTH_ENGINE, "the engine wrote sequence %u in an unexpected form: %s", id, problem.message);
}

/* With a window and recurrent layers, the engine writes the window's cells with the others. Leave them out. */
static size_t get_bare(hth_engine_context *context, uint32_t id, uint8_t *bytes, size_t n_bytes)
{
    size_t n_whole = hth_shim_state_size(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_NONE);
    hth_image_format format = hth_image_part_format(&context->format, HTH_STATE_CELLS);

    format.window_is_empty = false;
    if (n_whole == 0 || grow_bounce(context, n_whole, NULL) != HEARTH_OK ||
        hth_shim_state_get(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_NONE, context->bounce, n_whole) !=
            n_whole ||
        hth_image_parse(&format, context->bounce, n_whole, context->held[id].begin, context->held[id].end,
                        &context->parsed, NULL) != HEARTH_OK ||
        hth_image_bare_bytes(&context->parsed, n_whole) != n_bytes)
        return 0;
    hth_image_write_bare(&context->parsed, context->bounce, n_whole, bytes);
    return n_bytes;
}

hearth_status hth_backend_llama_state_get(hth_engine_context *context, uint32_t id, hth_state_part part, uint8_t *bytes,
                                          size_t capacity, size_t *n_out, hearth_error *err)
{
    size_t n_bytes, n_written;
    hearth_status status;

    if (!context || !bytes || !n_out || !hth_backend_llama_is_sequence(context, id) || context->held[id].end == 0)
        return hth_fail(err, HEARTH_MISUSE, "sequence %u has no state to get", id);
    if (hth_backend_llama_kind(context) == HTH_MODEL_UNCACHED)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the state of this kind of model cannot be cut");
    if (!can_get(context, id, part))
        return hth_fail(err, HEARTH_MISUSE, "sequence %u does not hold that part of its state alone", id);
    hth_backend_llama_enter(context->model->log);
    n_bytes = hth_backend_llama_state_size(context, id, part);
    if (n_bytes > capacity)
        n_written = 0;
    else if (part == HTH_STATE_CELLS && context->format.has_window && context->format.has_recurrent)
        n_written = get_bare(context, id, bytes, n_bytes);
    else
        n_written = hth_shim_state_get(
            context->llama, (llama_seq_id)id,
            part == HTH_STATE_REST ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE, bytes, n_bytes);
    if (n_bytes > capacity)
        status =
            hth_fail(err, HEARTH_MISUSE, "the state of sequence %u needs %zu bytes, not %zu", id, n_bytes, capacity);
    else if (n_written == 0 || n_written != n_bytes)
        status = hth_fail(err, HEARTH_ENGINE, "the engine wrote %zu of %zu bytes of sequence %u: %s", n_written,
                          n_bytes, id, hth_backend_llama_reason("it does not say why"));
    else
        status = check_own_image(context, id, part, bytes, n_bytes, err);
    hth_backend_llama_leave();
    if (status == HEARTH_OK)
        *n_out = n_bytes;
    return status;
}

/*
 * Give a checked image to the engine. With HTH_MODEL_HYBRID the engine cannot report the end of a sequence that has
 * cells but no recurrent state.
 */
static hearth_status give_image(hth_engine_context *context, uint32_t id, hth_state_part part, const uint8_t *bytes,
                                size_t n_bytes, uint32_t end, hearth_error *err)
{
    llama_state_seq_flags flags =
        part == HTH_STATE_REST ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE;
    bool is_told = part == HTH_STATE_REST || (part == HTH_STATE_CELLS && !context->format.has_recurrent);
    size_t n_taken = hth_shim_state_set(context->llama, (llama_seq_id)id, flags, bytes, n_bytes);

    if (n_taken != n_bytes)
        return hth_fail(err, HEARTH_ENGINE, "the engine took %zu of %zu bytes of state: %s", n_taken, n_bytes,
                        hth_backend_llama_reason("it does not say why"));
    if (is_told && hth_shim_seq_pos_max(context->llama, (llama_seq_id)id) != (llama_pos)(end - 1))
        return hth_fail(err, HEARTH_ENGINE, "sequence %u ends at %d after restoring up to %u", id,
                        hth_shim_seq_pos_max(context->llama, (llama_seq_id)id), end);
    return HEARTH_OK;
}

/* Does the sequence have the cells to which the rest belongs? */
static bool can_take_rest(const hth_engine_context *context, uint32_t id, uint32_t begin, uint32_t end)
{
    const hth_llama_holding *held = &context->held[id];

    return begin == 0 && (!context->format.has_attention || (held->begin == 0 && held->end == end));
}

static void note_set(hth_engine_context *context, uint32_t id, hth_state_part part, uint32_t begin, uint32_t end)
{
    uint32_t first = hth_backend_llama_window_begin(context, end);
    hth_llama_holding *held = &context->held[id];

    held->begin = begin;
    held->end = end;
    held->rest_end = part == HTH_STATE_REST ? end : 0;
    if (part == HTH_STATE_CELLS_BARE || (part == HTH_STATE_CELLS && context->format.has_recurrent))
        held->window_begin = end;
    else
        held->window_begin = first > begin ? first : begin;
}

hearth_status hth_backend_llama_state_set(hth_engine_context *context, uint32_t id, hth_state_part part,
                                          const uint8_t *bytes, size_t n_bytes, uint32_t begin, uint32_t end,
                                          hearth_error *err)
{
    hth_state_part stored = part == HTH_STATE_CELLS_BARE ? HTH_STATE_CELLS : part;
    bool is_rest = part == HTH_STATE_REST;
    hth_image_format format;
    hearth_status status;

    if (!context || !bytes || !hth_backend_llama_is_sequence(context, id) || begin >= end || end > INT32_MAX / 2)
        return hth_fail(err, HEARTH_MISUSE, "cannot set positions %u .. %u of sequence %u", begin, end, id);
    if (hth_backend_llama_kind(context) == HTH_MODEL_UNCACHED) {
        hth_backend_llama_seq_empty(context, id);
        return hth_fail(err, HEARTH_UNSUPPORTED, "the state of this kind of model cannot be restored");
    }
    if (!has_part(context, part) || (is_rest && !can_take_rest(context, id, begin, end))) {
        hth_backend_llama_seq_empty(context, id);
        return hth_fail(err, HEARTH_MISUSE, "sequence %u cannot take that part of a state of %u .. %u", id, begin, end);
    }
    if (!is_rest || !context->format.has_attention)
        hth_backend_llama_seq_empty(context, id);
    format = hth_image_part_format(&context->format, stored);
    status = hth_image_parse(&format, bytes, n_bytes, begin, end, &context->parsed, err);
    if (status == HEARTH_OK && context->layout_known[is_rest] &&
        !hth_image_layout_equal(&context->parsed, &context->layouts[is_rest]))
        status = hth_fail(err, HEARTH_CORRUPT, "state image has other layers than this context");
    if (status == HEARTH_OK && part == HTH_STATE_CELLS_BARE) {
        size_t n_bare = hth_image_bare_bytes(&context->parsed, n_bytes);

        status = grow_bounce(context, n_bare, err);
        if (status == HEARTH_OK) {
            hth_image_write_bare(&context->parsed, bytes, n_bytes, context->bounce);
            bytes = context->bounce;
            n_bytes = n_bare;
        }
    }
    if (status == HEARTH_OK)
        status = hth_backend_llama_exact_restores(context, bytes, end - begin, err);
    if (status == HEARTH_OK) {
        hth_backend_llama_enter(context->model->log);
        status = give_image(context, id, part, bytes, n_bytes, end, err);
        if (hth_backend_llama_exact_done(context, status == HEARTH_OK ? err : NULL) != HEARTH_OK && status == HEARTH_OK)
            status = HEARTH_ENGINE;
        hth_backend_llama_leave();
    }
    if (status != HEARTH_OK) {
        hth_backend_llama_seq_empty(context, id);
        return status;
    }
    note_set(context, id, part, begin, end);
    if (part == stored) { /* the engine accepted it, so its layers are those of this context */
        context->layouts[is_rest] = context->parsed;
        context->layout_known[is_rest] = true;
    }
    return HEARTH_OK;
}
