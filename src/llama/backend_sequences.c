/*
 * backend_sequences.c - evaluate batches, and track the contents of each sequence
 *
 * A batch that does not continue its sequences exactly is refused before the engine sees it. After a failed evaluation,
 * the engine tells the contents of sequences of plain attention; others are empty.
 */
#include "llama/backend_inside.h"

/* ---- evaluating ---- */

bool hth_backend_llama_is_whole(const hth_engine_context *context, uint32_t id)
{
    const hth_llama_holding *held = &context->held[id];

    if (hth_backend_llama_kind(context) == HTH_MODEL_PLAIN)
        return true; /* its blocks are complete as they are */
    return held->begin == 0 && (!context->format.has_recurrent || held->rest_end == held->end) &&
           (!context->format.has_window || held->window_begin <= hth_backend_llama_window_begin(context, held->end));
}

/* Ask the engine for the contents of a sequence, after an operation whose effect is not known exactly. */
static void refresh(hth_engine_context *context, uint32_t id)
{
    llama_pos last = hth_shim_seq_pos_max(context->llama, (llama_seq_id)id);
    llama_pos first = hth_shim_seq_pos_min(context->llama, (llama_seq_id)id);

    context->held[id].end = last < 0 ? 0 : (uint32_t)last + 1;
    context->held[id].begin = last < 0 || first < 0 ? 0 : (uint32_t)first;
}

void hth_backend_llama_seq_empty(hth_engine_context *context, uint32_t id)
{
    (void)hth_shim_seq_remove(context->llama, (llama_seq_id)id, -1, -1); /* whole sequences can always be removed */
    context->held[id] = (hth_llama_holding){ .end = 0 };
}

static hearth_status fill_batch(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                                hearth_error *err)
{
    context->has_vectors = false;
    for (uint32_t i = 0; i < context->info.n_seq_max; i++)
        context->next[i] = context->held[i].end;
    for (size_t i = 0; i < n_rows; i++) {
        const hth_batch_row *row = &rows[i];

        if (!hth_backend_llama_is_token(context->model, row->token))
            return hth_fail(err, HEARTH_MISUSE, "row %zu has token %d, which is not in the vocabulary of %d", i,
                            row->token, context->model->facts.n_vocab);
        if (!hth_backend_llama_is_sequence(context, row->sequence))
            return hth_fail(err, HEARTH_MISUSE, "row %zu has sequence %u; there are %u", i, row->sequence,
                            context->info.n_seq_max);
        if (!hth_backend_llama_is_whole(context, row->sequence))
            return hth_fail(err, HEARTH_MISUSE, "row %zu has sequence %u, a part of whose state is missing", i,
                            row->sequence);
        if (row->position != context->next[row->sequence])
            return hth_fail(err, HEARTH_MISUSE, "row %zu has position %u of sequence %u, whose next one is %u", i,
                            row->position, row->sequence, context->next[row->sequence]);
        if (row->position >= INT32_MAX - 1)
            return hth_fail(err, HEARTH_MISUSE, "row %zu has position %u, which is too high", i, row->position);
        context->next[row->sequence]++;
        context->batch.token[i] = row->token;
        context->batch.pos[i] = (llama_pos)row->position;
        context->batch.logits[i] = row->wants_logits;
        context->has_vectors |= row->wants_vector;
        context->sequences[i] = (llama_seq_id)row->sequence;
    }
    context->batch.n_tokens = (int32_t)n_rows;
    hth_backend_llama_exact_fill(context, n_rows);
    for (int32_t i = 0; context->has_vectors && i < context->batch.n_tokens; i++)
        context->batch.logits[i] = true; /* the engine would do it, and warn */
    return HEARTH_OK;
}

hearth_status hth_backend_llama_decode(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                                       hth_decode_result *result, hearth_error *err)
{
    int32_t answer = 0;
    hearth_status status;

    if (!context || !rows || !result)
        return hth_fail(err, HEARTH_MISUSE, "decode needs a context and rows");
    context->n_rows = 0;
    if (n_rows < 1 || n_rows > context->info.n_batch)
        return hth_fail(err, HEARTH_MISUSE, "a batch of %zu rows; 1 to %u can be evaluated at once", n_rows,
                        context->info.n_batch);
    status = fill_batch(context, rows, n_rows, err);
    if (status != HEARTH_OK)
        return status;

    hth_backend_llama_enter(context->model->log);
    hth_backend_llama_adapters_hold(context->model);
    hth_backend_llama_exact_evaluates(context);
    if (context->has_vectors != context->makes_vectors)
        hth_shim_set_embeddings(context->llama, context->has_vectors);
    context->makes_vectors = context->has_vectors;
    status = hth_shim_decode(context->llama, context->batch, &answer, err);
    if (hth_backend_llama_exact_done(context, status == HEARTH_OK && answer == 0 ? err : NULL) != HEARTH_OK &&
        status == HEARTH_OK && answer == 0)
        status = HEARTH_ENGINE;
    hth_backend_llama_adapters_release(context->model);
    if (status == HEARTH_OK && (answer < 0 || answer > 2))
        status = hth_fail(err, HEARTH_ENGINE, "the engine failed to evaluate %zu tokens (%d): %s", n_rows, answer,
                          hth_backend_llama_reason("it does not say why"));
    hth_backend_llama_leave();
    if (status == HEARTH_OK && answer == 0) {
        for (size_t i = 0; i < n_rows; i++) {
            hth_llama_holding *grown = &context->held[rows[i].sequence];

            grown->end = context->next[rows[i].sequence];
            grown->rest_end = context->format.has_recurrent ? grown->end : 0;
            context->batch.logits[i] = rows[i].wants_logits;
        }
        context->n_rows = n_rows;
        *result = HTH_DECODE_OK;
        return HEARTH_OK;
    }
    for (size_t i = 0; i < n_rows && (status != HEARTH_OK || answer != 1); i++) {
        if (hth_backend_llama_kind(context) == HTH_MODEL_PLAIN && !context->order)
            refresh(context, rows[i].sequence);
        else
            hth_backend_llama_seq_empty(context, rows[i].sequence); /* the state to continue from is lost */
    }
    if (status == HEARTH_OK)
        *result = answer == 1 ? HTH_DECODE_NO_ROOM : HTH_DECODE_ABORTED;
    return status;
}

const float *hth_backend_llama_logits(hth_engine_context *context, size_t row)
{
    if (!context || row >= context->n_rows || !context->batch.logits[row])
        return NULL;
    return hth_shim_logits(context->llama, (int32_t)row);
}

const float *hth_backend_llama_vector(hth_engine_context *context, size_t row)
{
    if (!context || row >= context->n_rows || !context->has_vectors)
        return NULL;
    return hth_shim_embedding_of_row(context->llama, (int32_t)row);
}

/* ---- sequences ---- */

bool hth_backend_llama_seq_remove(hth_engine_context *context, uint32_t id, uint32_t begin, uint32_t end)
{
    if (!context || !hth_backend_llama_is_sequence(context, id))
        return false;
    if (begin == 0 && end >= context->held[id].end) {
        hth_backend_llama_seq_empty(context, id);
        return true;
    }
    if (begin >= end || begin >= context->held[id].end)
        return true;
    /* The engine would return true and be silently wrong, or leave the recurrent state unchanged. */
    if (hth_backend_llama_kind(context) != HTH_MODEL_PLAIN)
        return false;
    if (end > context->held[id].end)
        end = context->held[id].end;
    if (!hth_shim_seq_remove(context->llama, (llama_seq_id)id, (llama_pos)begin, (llama_pos)end))
        return false;
    refresh(context, id);
    return true;
}

/* Remove the recurrent state that came with a range of cells. */
static hearth_status drop_rest(hth_engine_context *context, uint32_t id, hearth_error *err)
{
    if (hth_shim_state_set(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY, context->empty_rest,
                           context->empty_rest_bytes) == context->empty_rest_bytes)
        return HEARTH_OK;
    hth_backend_llama_seq_empty(context, id);
    return hth_fail(err, HEARTH_ENGINE, "the engine does not give up the recurrent state of sequence %u", id);
}

/* Note the contents of to after it got the cells [begin, end) of from. The window's older cells count as lost. */
static void note_copied(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin, uint32_t end)
{
    uint32_t first = hth_backend_llama_window_begin(context, context->held[from].end);
    hth_llama_holding *held = &context->held[to];

    if (first < context->held[from].window_begin)
        first = context->held[from].window_begin;
    if (first > end)
        first = end;
    if (held->end == 0) {
        held->begin = begin;
        held->window_begin = first > begin ? first : begin;
    } else if (first > begin) {
        held->window_begin = first; /* a gap: the window's cells before it do not count any more */
    }
    held->end = end;
    held->rest_end = 0;
}

hearth_status hth_backend_llama_seq_copy(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin,
                                         uint32_t end, hearth_error *err)
{
    const hth_llama_holding *source, *target;
    hearth_status status;

    if (!context || !hth_backend_llama_is_sequence(context, from) || !hth_backend_llama_is_sequence(context, to) ||
        from == to)
        return hth_fail(err, HEARTH_MISUSE, "cannot copy sequence %u to %u", from, to);
    if (hth_backend_llama_kind(context) == HTH_MODEL_RECURRENT || hth_backend_llama_kind(context) == HTH_MODEL_UNCACHED)
        return hth_fail(err, HEARTH_MISUSE, "sequences of this kind of model have no cells to share");
    source = &context->held[from];
    target = &context->held[to];
    if (begin >= end || begin < source->begin || end > source->end)
        return hth_fail(err, HEARTH_MISUSE, "cannot copy positions %u .. %u of sequence %u, which holds %u .. %u",
                        begin, end, from, source->begin, source->end);
    if ((target->end > begin && target->begin < end) ||
        (hth_backend_llama_kind(context) != HTH_MODEL_PLAIN && target->end != 0 && target->end != begin))
        return hth_fail(err, HEARTH_MISUSE, "cannot copy positions %u .. %u to sequence %u, which holds %u .. %u",
                        begin, end, to, target->begin, target->end);
    status =
        hth_shim_seq_copy(context->llama, (llama_seq_id)from, (llama_seq_id)to, (llama_pos)begin, (llama_pos)end, err);
    if (hth_backend_llama_kind(context) == HTH_MODEL_PLAIN) {
        refresh(context, to);
    } else if (status != HEARTH_OK) {
        hth_backend_llama_seq_empty(context, to);
    } else {
        note_copied(context, from, to, begin, end);
        if (context->format.has_recurrent)
            status = drop_rest(context, to, err);
    }
    return status;
}

uint32_t hth_backend_llama_seq_end(hth_engine_context *context, uint32_t id)
{
    return context && hth_backend_llama_is_sequence(context, id) && hth_backend_llama_is_whole(context, id)
             ? context->held[id].end
             : 0;
}
