/*
 * backend_sequences.c - evaluates batches, and tracks the contents of each sequence
 *
 * A batch that does not continue its sequences exactly is refused before the engine sees it. After a failed evaluation,
 * the engine is asked for the contents of sequences of plain attention; others are emptied.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "kernels/attention.h"
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
        context->batch.logits[i] = true; /* the engine would do so itself, with a warning */
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
    /* The engine would return true but be silently wrong, or leave the recurrent state unchanged. */
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
        held->window_begin = first; /* a gap: the window's cells before it no longer count */
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

/*
 * ---- deterministic contexts: the bits of a token do not depend on other rows ----
 *
 * In v0.5.0, on a CPU, two things make a row depend on others (docs/engine.md, "Deterministic contexts"):
 *
 *   the number of rows of a batch. Products with the weights use different code for a single row (F32, F16, BF16), or
 *   for the rows beyond a multiple of 4 (repacked weights). So a batch is padded to a multiple of 4 with rows of a
 *   separate sequence, which is emptied afterwards. The last layer computes only the rows whose logits are wanted, so
 *   their number is also made a multiple of 4.
 *
 *   attention. Hearth's own attention computes all rows in one way, over the sequence's own cells by their positions
 *   (attention_order.h).
 *
 * Threads divide rows and columns among themselves, never sums. The context is checked before its first use, because
 * the kernels depend on the machine and on the types of the weights: tokens throughout a text must have the same logits
 * whether it is evaluated at once or in several parts.
 */

enum {
    CHECK_TOKENS = 72, /* more than a tile of attention */
    CHECK_GROUPS = 12,
};

/* The parts of the text in its second evaluation: row counts of every kind (docs/engine.md). */
static const uint8_t check_groups[CHECK_GROUPS] = { 1, 2, 3, 5, 4, 7, 1, 6, 9, 13, 1, 20 };

/* The number of cells for requests: the others are for the rows that pad batches. */
static uint32_t for_requests(uint32_t n_cells)
{
    return n_cells > HTH_CONTEXT_STEP ? n_cells - HTH_CONTEXT_STEP : 0;
}

hearth_status hth_backend_llama_exact_prepare(const hth_engine_model *model, struct llama_context_params *params,
                                              hearth_error *err)
{
    uint32_t n_short = hth_backend_llama_n_ctx_short(model), n_cells;

    if (model->on_gpu)
        return hth_fail(
            err, HEARTH_UNSUPPORTED,
            "deterministic: only the CPU's results do not depend on what is computed beside them; the model "
            "has layers or devices elsewhere (0 GPU layers and no RPC servers would keep it on the CPU)");
    if (!hth_attention_is_on())
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "deterministic: this needs Hearth's own attention, which this build does not have or "
                        "HEARTH_ATTENTION=engine switches off");
    if (atomic_load(&model->kind) != HTH_MODEL_PLAIN)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "deterministic: architecture '%s' has layers with a window, with recurrent state or with a "
                        "cache of their own, for which results are not known to be equal",
                        model->facts.architecture);
    if (model->has_iq_experts && !getenv("GGML_NO_IQ_PANEL"))
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "deterministic: the results of experts with weights of a type IQ1 to IQ4_XS depend on the "
                        "number of rows that an expert gets; use weights of another type, or set GGML_NO_IQ_PANEL=1 in "
                        "the environment");
    if (params->n_seq_max > 255)
        return hth_fail(err, HEARTH_MISUSE, "deterministic: n_seq_max is %u; it must be at most 255",
                        params->n_seq_max);
    params->n_seq_max++;
    params->n_batch = (params->n_batch + 1 + HTH_EXACT_ROWS_STEP - 1) / HTH_EXACT_ROWS_STEP * HTH_EXACT_ROWS_STEP;
    n_cells = params->n_ctx + HTH_CONTEXT_STEP;
    if (params->n_ctx <= n_short && n_cells > n_short) { /* beyond this, the engine uses other RoPE factors */
        n_cells = n_short;
        hth_info(model->log,
                 "deterministic: the context has %u tokens for requests, not %u: it needs %d more cells, and with more "
                 "than %u, the model would take its RoPE factors for long contexts",
                 for_requests(n_cells), params->n_ctx, HTH_CONTEXT_STEP, n_short);
    }
    params->n_ctx = n_cells;
    return HEARTH_OK;
}

hearth_status hth_backend_llama_exact_begin(hth_engine_context *context, hearth_error *err)
{
    if (for_requests(context->info.n_ctx) == 0)
        return hth_fail(err, HEARTH_UNSUPPORTED, "deterministic: a context of %u tokens is too small",
                        context->info.n_ctx);
    context->order = hth_cell_order_new(context->info.n_ctx);
    if (!context->order)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the positions of %u cells", context->info.n_ctx);
    context->info.n_ctx = for_requests(context->info.n_ctx);
    context->info.n_seq_max--;
    context->info.is_deterministic = true;
    return HEARTH_OK;
}

void hth_backend_llama_exact_end(hth_engine_context *context)
{
    hth_cell_order_free(context->order);
    free(context->coming);
}

/* ---- evaluating ---- */

static bool is_even(size_t n)
{
    return n % HTH_EXACT_ROWS_STEP == 0;
}

/* Make the number of rows with logits in [begin, end) a multiple of the step, if there are any. */
static void fill_logits(hth_engine_context *context, size_t begin, size_t end)
{
    int8_t *logits = context->batch.logits;
    size_t n = 0;

    for (size_t i = begin; i < end; i++)
        n += logits[i] != 0;
    for (size_t i = end; i > begin && !is_even(n); i--)
        if (!logits[i - 1]) {
            logits[i - 1] = true;
            n++;
        }
}

void hth_backend_llama_exact_fill(hth_engine_context *context, size_t n_rows)
{
    struct llama_batch *batch = &context->batch;
    size_t n = n_rows;

    if (!context->order)
        return;
    for (; !is_even(n); n++) {
        batch->token[n] = batch->token[0];
        batch->pos[n] = (llama_pos)(n - n_rows);
        batch->logits[n] = false;
        context->sequences[n] = (llama_seq_id)context->info.n_seq_max; /* beyond those of the caller */
    }
    batch->n_tokens = (int32_t)n;
    context->has_added_rows |= n > n_rows;
    for (size_t at = 0; at < n; at += context->n_ubatch)
        fill_logits(context, at, at + context->n_ubatch < n ? at + context->n_ubatch : n);
}

void hth_backend_llama_exact_evaluates(hth_engine_context *context)
{
    if (context->order)
        hth_cell_order_begin(context->order, context->batch.pos, (size_t)context->batch.n_tokens);
}

hearth_status hth_backend_llama_exact_restores(hth_engine_context *context, const uint8_t *bytes, uint32_t n_cells,
                                               hearth_error *err)
{
    const uint8_t *cells = bytes + context->parsed.section_offsets[0] + 8;
    size_t cell_bytes = context->format.has_cell_ext ? 24 : 12;

    if (!context->order)
        return HEARTH_OK;
    if (n_cells > context->coming_capacity) {
        int32_t *grown = realloc(context->coming, n_cells * sizeof(*grown));

        if (!grown)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the positions of %u cells", n_cells);
        context->coming = grown;
        context->coming_capacity = n_cells;
    }
    for (size_t i = 0; i < n_cells; i++)
        context->coming[i] = (int32_t)hth_get_u32(cells + i * cell_bytes);
    hth_cell_order_begin(context->order, context->coming, n_cells);
    return HEARTH_OK;
}

hearth_status hth_backend_llama_exact_done(hth_engine_context *context, hearth_error *err)
{
    if (!context->order)
        return HEARTH_OK;
    if (context->has_added_rows) /* a removal visits all cells */
        (void)hth_shim_seq_remove(context->llama, (llama_seq_id)context->info.n_seq_max, -1, -1);
    context->has_added_rows = false;
    if (hth_cell_order_end(context->order))
        return HEARTH_OK;
    if (!context->is_checked)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "deterministic: Hearth's own attention cannot compute that of architecture '%s' with these "
                        "types of K and V, and the engine's depends on the places of cells",
                        context->model->facts.architecture);
    return hth_fail(err, HEARTH_ENGINE,
                    "deterministic: the engine filled other cells than expected, or computed attention its own way");
}

/* ---- the check ---- */

/*
 * Evaluate the check's text at once, or in groups. digests, [CHECK_GROUPS][HTH_SHA256_BYTES], receives the digests of
 * the logits of each group's last token. If the context is shorter than the text, only the groups that fit are
 * evaluated.
 */
static hearth_status evaluate_text(hth_engine_context *context, bool in_groups,
                                   uint8_t digests[CHECK_GROUPS][HTH_SHA256_BYTES], hearth_error *err)
{
    size_t n_vocab = (size_t)context->model->facts.n_vocab;
    size_t n_most = context->info.n_batch < CHECK_TOKENS ? context->info.n_batch : CHECK_TOKENS;
    size_t waiting[CHECK_TOKENS], n_waiting = 0, n_rows = 0, group = 0; /* groups of rows with logits */
    uint32_t end = check_groups[0];
    hth_batch_row rows[CHECK_TOKENS];

    for (uint32_t i = 0; i < CHECK_TOKENS && i < context->info.n_ctx; i++) {
        bool is_last = i + 1 == end; /* of its group */
        hth_decode_result result = HTH_DECODE_ABORTED;
        hearth_status status;

        rows[n_rows++] = (hth_batch_row){ .token = (hearth_token)((7919u * i + 13) % (uint32_t)n_vocab),
                                          .position = i,
                                          .wants_logits = is_last };
        if (is_last) {
            waiting[n_waiting++] = n_rows - 1;
            end += group + n_waiting < CHECK_GROUPS ? check_groups[group + n_waiting] : 0;
        }
        if (n_rows < n_most && i + 1 < CHECK_TOKENS && i + 1 < context->info.n_ctx && !(in_groups && is_last))
            continue;
        status = hth_backend_llama_decode(context, rows, n_rows, &result, err);
        if (status != HEARTH_OK)
            return status;
        if (result != HTH_DECODE_OK)
            return hth_fail(err, HEARTH_ENGINE, "deterministic: the engine did not finish the evaluation of the check");
        for (size_t k = 0; k < n_waiting; k++) {
            const float *logits = hth_backend_llama_logits(context, waiting[k]);

            if (!logits)
                return hth_fail(err, HEARTH_ENGINE, "deterministic: the engine gave no logits to the check");
            hth_sha256_of(logits, n_vocab * sizeof(*logits), digests[group++]);
        }
        n_rows = n_waiting = 0;
    }
    return HEARTH_OK;
}

hearth_status hth_backend_llama_exact_check(hth_engine_context *context, hearth_error *err)
{
    uint8_t at_once[CHECK_GROUPS][HTH_SHA256_BYTES] = { { 0 } }, in_groups[CHECK_GROUPS][HTH_SHA256_BYTES] = { { 0 } };
    hearth_status status;

    if (!context->order)
        return HEARTH_OK;
    status = evaluate_text(context, false, at_once, err);
    hth_backend_llama_seq_empty(context, 0);
    if (status == HEARTH_OK)
        status = evaluate_text(context, true, in_groups, err);
    hth_backend_llama_seq_empty(context, 0);
    if (status == HEARTH_OK && memcmp(at_once, in_groups, sizeof(at_once)) != 0)
        status = hth_fail(err, HEARTH_UNSUPPORTED,
                          "deterministic: on this machine, the engine computes this model in ways that depend on the "
                          "number of rows");
    context->is_checked = status == HEARTH_OK;
    return status;
}
