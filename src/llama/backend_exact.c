/*
 * backend_exact.c - contexts whose tokens have the same bits in any company
 *
 * In v0.5.0, on a CPU, two things make a row depend on others (docs/engine.md, "Deterministic contexts"):
 *
 *   the number of rows of a batch. Products with the weights take other code for a single row (F32, F16, BF16), or for
 *   the rows beyond a multiple of 4 (repacked weights). So a batch is filled up to a multiple of 4 with rows of a
 *   sequence of its own, which is emptied afterwards. The last layer computes only the rows whose logits are wanted, so
 *   their number is made a multiple of 4, too.
 *
 *   attention. Hearth's own attention computes all rows in one way, over the sequence's own cells by their positions
 *   (attention_order.h).
 *
 * Threads share out rows and columns, never sums. The context is checked before its first use, because the kernels
 * depend on the machine and on the types of the weights: tokens all over a text must have the same logits after one
 * evaluation and after several.
 */
#include "llama/backend_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "kernels/attention.h"

enum {
    CHECK_TOKENS = 72, /* more than a tile of attention */
    CHECK_GROUPS = 12,
};

/* The text's parts when it is evaluated the second time: numbers of rows of every kind (docs/engine.md). */
static const uint8_t check_groups[CHECK_GROUPS] = { 1, 2, 3, 5, 4, 7, 1, 6, 9, 13, 1, 20 };

/* The cells that requests get: the others are for the rows that fill batches up. */
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
    if (params->n_ctx <= n_short && n_cells > n_short) { /* beyond, the engine takes other RoPE factors */
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

/* Make the number of rows with logits in [begin, end) a multiple, if there are any. */
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
    if (context->has_added_rows) /* a removal looks at all cells */
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
 * Evaluate the check's text at once, or in groups. digests, [CHECK_GROUPS][HTH_SHA256_BYTES], receives those of the
 * logits of each group's last token. A context that is shorter than the text gets the groups that fit.
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
        hth_decode_result result;
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
