/*
 * backend_context.c - contexts: evaluates batches, tracks the contents of each sequence, and moves parts of its state
 *
 *   1. deterministic contexts
 *   2. evaluating; sequences
 *   3. parts of a sequence's state, as images
 *   4. making a context, and the text of all settings that determine the meaning of its cells' bytes
 *
 * A batch that does not continue its sequences exactly is refused before the engine sees it. After a failed evaluation,
 * the engine is asked for the contents of sequences of plain attention; others are emptied.
 *
 * An image is parsed before the engine sees it, and an image that the engine wrote is parsed in the same way. The first
 * image of a part that the engine writes or accepts in a context defines the layout of all others. A sequence is empty
 * after a failed set.
 */
#include "llama/backend_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/os.h"
#include "engine/engine_options.h"
#include "kernels/attention.h"
#include "rows/row.h"
#include "state/image.h"

#define N_UBATCH_MAX 512
#define ROW_FORMAT_PLAIN 1 /* blocks and tails of plain attention */
#define ROW_FORMAT 2       /* for the other kinds; 1 was snapshots */
#define IDLE_ROW_PS 400    /* docs/performance.md, "Idle sequences" */
#define IDLE_SEQUENCE_PS 3000
#define IDLE_CELLS_MAX 1024

/* The contents of a sequence; zeroed when it is empty. */
typedef struct holding {
    uint32_t begin; /* its positions: [begin, end) */
    uint32_t end;
    uint32_t window_begin; /* the window's cells are [window_begin, end), without a gap; end: none */
    uint32_t rest_end;     /* it has the recurrent state after position rest_end - 1; 0: none */
} holding;

/* Number of parts whose images differ in layout. */
enum { LAYOUTS = 2 };

struct hth_engine_context {
    hth_engine_model *model;
    struct llama_context *llama;
    llama_memory_t memory;
    hth_engine_context_info info;
    hth_image_format format;

    holding *held;       /* [n_seq_max] */
    uint8_t *empty_rest; /* the partial state of an empty sequence, for HTH_MODEL_HYBRID */
    size_t empty_rest_bytes;
    uint8_t *bounce; /* an image that is being cut down */
    size_t bounce_bytes;

    struct llama_batch batch;
    llama_seq_id *sequences; /* of its rows */
    uint32_t n_ubatch;       /* rows that the engine evaluates at once */
    uint32_t *next;          /* [n_seq_max], used while a batch is checked */
    size_t n_rows;           /* of the last evaluation; 0: it failed */
    bool has_vectors;        /* its rows have vectors */
    bool makes_vectors;      /* the engine is set to make vectors */

    hth_cell_order *order; /* NULL: not deterministic */
    int32_t *coming;       /* cell positions of an image that is being restored */
    size_t coming_capacity;
    bool has_added_rows; /* the extra sequence has cells */
    bool is_checked;     /* the deterministic context has passed its check */

    hth_llama_applied applied;

    bool layout_known[LAYOUTS]; /* of HTH_STATE_CELLS, and of HTH_STATE_REST */
    hth_image_layout layouts[LAYOUTS];
    hth_image_layout parsed; /* of the current image */
};

static bool is_sequence(const hth_engine_context *context, uint32_t id)
{
    return id < context->info.n_seq_max;
}

static hth_model_kind model_kind(const hth_engine_context *context)
{
    return (hth_model_kind)atomic_load(&context->model->kind);
}

/* The first position before end that a layer with a window keeps. */
static uint32_t window_begin(const hth_engine_context *context, uint32_t end)
{
    return end > context->format.n_window ? end - context->format.n_window : 0;
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
 *   (attention_order.c).
 *
 * Threads divide rows and columns among themselves, never sums. The context is checked before its first use, because
 * the kernels depend on the machine and on the types of the weights: tokens throughout a text must have the same logits
 * whether it is evaluated at once or in several parts.
 */

enum { EXACT_ROWS_STEP = 4 }; /* the engine computes rows in multiples of this */

/* The number of cells for requests: the others are for the rows that pad batches. */
static uint32_t for_requests(uint32_t n_cells)
{
    return n_cells > HTH_CONTEXT_STEP ? n_cells - HTH_CONTEXT_STEP : 0;
}

/*
 * Change the parameters of a new context to make it deterministic. HEARTH_UNSUPPORTED, with the reason, if that is not
 * possible.
 */
static hearth_status exact_prepare(const hth_engine_model *model, struct llama_context_params *params,
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
                        model->info.architecture);
    if (model->has_iq_experts && !getenv("GGML_NO_IQ_PANEL"))
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "deterministic: the results of experts with weights of a type IQ1 to IQ4_XS depend on the "
                        "number of rows that an expert gets; use weights of another type, or set GGML_NO_IQ_PANEL=1 in "
                        "the environment");
    if (params->n_seq_max > 255)
        return hth_fail(err, HEARTH_MISUSE, "deterministic: n_seq_max is %u; it must be at most 255",
                        params->n_seq_max);
    params->n_seq_max++;
    params->n_batch = (params->n_batch + 1 + EXACT_ROWS_STEP - 1) / EXACT_ROWS_STEP * EXACT_ROWS_STEP;
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

/* Set up what a context with prepared parameters reserves for itself, once its sizes are known. */
static hearth_status exact_begin(hth_engine_context *context, hearth_error *err)
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

static bool is_even(size_t n)
{
    return n % EXACT_ROWS_STEP == 0;
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

/* Add rows and logits requests to the batch of n_rows rows, until the engine computes all of its rows the same way. */
static void exact_fill(hth_engine_context *context, size_t n_rows)
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

/* Called before the image in context->parsed is restored, and exact_done after that and after an evaluation. */
static hearth_status exact_restores(hth_engine_context *context, const uint8_t *bytes, uint32_t n_cells,
                                    hearth_error *err)
{
    const uint8_t *cells = bytes + context->parsed.section_offsets[0] + 8;
    size_t cell_bytes = context->format.has_cell_ext ? 24 : 12;
    int32_t *coming;

    if (!context->order)
        return HEARTH_OK;
    coming = hth_grown_by(context->coming, 0, n_cells, &context->coming_capacity, sizeof(*coming));
    if (!coming)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the positions of %u cells", n_cells);
    context->coming = coming;
    for (size_t i = 0; i < n_cells; i++)
        coming[i] = (int32_t)hth_get_u32(cells + i * cell_bytes);
    hth_cell_order_begin(context->order, coming, n_cells);
    return HEARTH_OK;
}

static hearth_status exact_done(hth_engine_context *context, hearth_error *err)
{
    if (!context->order)
        return HEARTH_OK;
    if (context->has_added_rows) /* a removal visits all cells */
        (void)llama_memory_seq_rm(context->memory, (llama_seq_id)context->info.n_seq_max, -1, -1);
    context->has_added_rows = false;
    if (hth_cell_order_end(context->order))
        return HEARTH_OK;
    if (!context->is_checked)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "deterministic: Hearth's own attention cannot compute that of architecture '%s' with these "
                        "types of K and V, and the engine's depends on the places of cells",
                        context->model->info.architecture);
    return hth_fail(err, HEARTH_ENGINE,
                    "deterministic: the engine filled other cells than expected, or computed attention its own way");
}

/* ---- evaluating ---- */

/* Does the sequence have all state that its next token depends on? True for an empty one. */
static bool is_whole(const hth_engine_context *context, uint32_t id)
{
    const holding *held = &context->held[id];

    if (model_kind(context) == HTH_MODEL_PLAIN)
        return true; /* its blocks are complete as they are */
    return held->begin == 0 && (!context->format.has_recurrent || held->rest_end == held->end) &&
           (!context->format.has_window || held->window_begin <= window_begin(context, held->end));
}

/* Ask the engine for the contents of a sequence, after an operation whose effect is not known exactly. */
static void refresh(hth_engine_context *context, uint32_t id)
{
    llama_pos last = llama_memory_seq_pos_max(context->memory, (llama_seq_id)id);
    llama_pos first = llama_memory_seq_pos_min(context->memory, (llama_seq_id)id);

    context->held[id].end = last < 0 ? 0 : (uint32_t)last + 1;
    context->held[id].begin = last < 0 || first < 0 ? 0 : (uint32_t)first;
}

/* Remove all state of a sequence, which always succeeds. */
static void empty_sequence(hth_engine_context *context, uint32_t id)
{
    (void)llama_memory_seq_rm(context->memory, (llama_seq_id)id, -1, -1); /* whole sequences can always be removed */
    context->held[id] = (holding){ .end = 0 };
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
            return hth_fail(err, HEARTH_MISUSE, "row %zu has token %d, which is not in the vocabulary of %u", i,
                            row->token, context->model->info.n_vocab);
        if (!is_sequence(context, row->sequence))
            return hth_fail(err, HEARTH_MISUSE, "row %zu has sequence %u; there are %u", i, row->sequence,
                            context->info.n_seq_max);
        if (!is_whole(context, row->sequence))
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
    exact_fill(context, n_rows);
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
    if (context->order)
        hth_cell_order_begin(context->order, context->batch.pos, (size_t)context->batch.n_tokens);
    if (context->has_vectors != context->makes_vectors)
        llama_set_embeddings(context->llama, context->has_vectors);
    context->makes_vectors = context->has_vectors;
    status = hth_shim_decode(context->llama, context->batch, &answer, err);
    if (exact_done(context, status == HEARTH_OK && answer == 0 ? err : NULL) != HEARTH_OK && status == HEARTH_OK &&
        answer == 0)
        status = HEARTH_ENGINE;
    hth_backend_llama_adapters_release(context->model);
    if (status == HEARTH_OK && (answer < 0 || answer > 2))
        status = hth_fail(err, HEARTH_ENGINE, "the engine failed to evaluate %zu tokens (%d): %s", n_rows, answer,
                          hth_backend_llama_reason("it does not say why"));
    hth_backend_llama_leave();
    if (status == HEARTH_OK && answer == 0) {
        for (size_t i = 0; i < n_rows; i++) {
            holding *grown = &context->held[rows[i].sequence];

            grown->end = context->next[rows[i].sequence];
            grown->rest_end = context->format.has_recurrent ? grown->end : 0;
            context->batch.logits[i] = rows[i].wants_logits;
        }
        context->n_rows = n_rows;
        *result = HTH_DECODE_OK;
        return HEARTH_OK;
    }
    for (size_t i = 0; i < n_rows && (status != HEARTH_OK || answer != 1); i++) {
        if (model_kind(context) == HTH_MODEL_PLAIN && !context->order)
            refresh(context, rows[i].sequence);
        else
            empty_sequence(context, rows[i].sequence); /* the state to continue from is lost */
    }
    if (status == HEARTH_OK)
        *result = answer == 1 ? HTH_DECODE_NO_ROOM : HTH_DECODE_ABORTED;
    return status;
}

const float *hth_backend_llama_logits(hth_engine_context *context, size_t row)
{
    if (!context || row >= context->n_rows || !context->batch.logits[row])
        return NULL;
    return llama_get_logits_ith(context->llama, (int32_t)row);
}

const float *hth_backend_llama_vector(hth_engine_context *context, size_t row)
{
    if (!context || row >= context->n_rows || !context->has_vectors)
        return NULL;
    return llama_get_embeddings_ith(context->llama, (int32_t)row);
}

/* ---- sequences ---- */

bool hth_backend_llama_seq_remove(hth_engine_context *context, uint32_t id, uint32_t begin, uint32_t end)
{
    if (!context || !is_sequence(context, id))
        return false;
    if (begin == 0 && end >= context->held[id].end) {
        empty_sequence(context, id);
        return true;
    }
    if (begin >= end || begin >= context->held[id].end)
        return true;
    /* The engine would return true but be silently wrong, or leave the recurrent state unchanged. */
    if (model_kind(context) != HTH_MODEL_PLAIN)
        return false;
    if (end > context->held[id].end)
        end = context->held[id].end;
    if (!llama_memory_seq_rm(context->memory, (llama_seq_id)id, (llama_pos)begin, (llama_pos)end))
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
    empty_sequence(context, id);
    return hth_fail(err, HEARTH_ENGINE, "the engine does not give up the recurrent state of sequence %u", id);
}

/* Note the contents of to after it got the cells [begin, end) of from. The window's older cells count as lost. */
static void note_copied(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin, uint32_t end)
{
    uint32_t first = window_begin(context, context->held[from].end);
    holding *held = &context->held[to];

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
    const holding *source, *target;
    hearth_status status;

    if (!context || !is_sequence(context, from) || !is_sequence(context, to) || from == to)
        return hth_fail(err, HEARTH_MISUSE, "cannot copy sequence %u to %u", from, to);
    if (model_kind(context) == HTH_MODEL_RECURRENT || model_kind(context) == HTH_MODEL_UNCACHED)
        return hth_fail(err, HEARTH_MISUSE, "sequences of this kind of model have no cells to share");
    source = &context->held[from];
    target = &context->held[to];
    if (begin >= end || begin < source->begin || end > source->end)
        return hth_fail(err, HEARTH_MISUSE, "cannot copy positions %u .. %u of sequence %u, which holds %u .. %u",
                        begin, end, from, source->begin, source->end);
    if ((target->end > begin && target->begin < end) ||
        (model_kind(context) != HTH_MODEL_PLAIN && target->end != 0 && target->end != begin))
        return hth_fail(err, HEARTH_MISUSE, "cannot copy positions %u .. %u to sequence %u, which holds %u .. %u",
                        begin, end, to, target->begin, target->end);
    status =
        hth_shim_seq_copy(context->llama, (llama_seq_id)from, (llama_seq_id)to, (llama_pos)begin, (llama_pos)end, err);
    if (model_kind(context) == HTH_MODEL_PLAIN) {
        refresh(context, to);
    } else if (status != HEARTH_OK) {
        empty_sequence(context, to);
    } else {
        note_copied(context, from, to, begin, end);
        if (context->format.has_recurrent)
            status = drop_rest(context, to, err);
    }
    return status;
}

uint32_t hth_backend_llama_seq_end(hth_engine_context *context, uint32_t id)
{
    return context && is_sequence(context, id) && is_whole(context, id) ? context->held[id].end : 0;
}

/* ---- the check of a deterministic context ---- */

enum {
    CHECK_TOKENS = 72, /* more than a tile of attention */
    CHECK_GROUPS = 12,
};

/* The parts of the text in its second evaluation: row counts of every kind (docs/engine.md). */
static const uint8_t check_groups[CHECK_GROUPS] = { 1, 2, 3, 5, 4, 7, 1, 6, 9, 13, 1, 20 };

/*
 * Evaluate the check's text at once, or in groups. digests, [CHECK_GROUPS][HTH_SHA256_BYTES], receives the digests of
 * the logits of each group's last token. If the context is shorter than the text, only the groups that fit are
 * evaluated.
 */
static hearth_status evaluate_text(hth_engine_context *context, bool in_groups,
                                   uint8_t digests[CHECK_GROUPS][HTH_SHA256_BYTES], hearth_error *err)
{
    size_t n_vocab = context->model->info.n_vocab;
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

/* Is the context really deterministic? Evaluates some tokens, and leaves it empty. */
static hearth_status exact_check(hth_engine_context *context, hearth_error *err)
{
    uint8_t at_once[CHECK_GROUPS][HTH_SHA256_BYTES] = { { 0 } }, in_groups[CHECK_GROUPS][HTH_SHA256_BYTES] = { { 0 } };
    hearth_status status;

    if (!context->order)
        return HEARTH_OK;
    status = evaluate_text(context, false, at_once, err);
    empty_sequence(context, 0);
    if (status == HEARTH_OK)
        status = evaluate_text(context, true, in_groups, err);
    empty_sequence(context, 0);
    if (status == HEARTH_OK && memcmp(at_once, in_groups, sizeof(at_once)) != 0)
        status = hth_fail(err, HEARTH_UNSUPPORTED,
                          "deterministic: on this machine, the engine computes this model in ways that depend on the "
                          "number of rows");
    context->is_checked = status == HEARTH_OK;
    return status;
}

/* ---- state ---- */

static llama_state_seq_flags flags_of(hth_state_part part)
{
    return part == HTH_STATE_REST ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE;
}

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
    const holding *held;

    if (!is_sequence(context, id) || context->held[id].end == 0 || part == HTH_STATE_CELLS_BARE ||
        !has_part(context, part) || model_kind(context) == HTH_MODEL_UNCACHED)
        return false;
    held = &context->held[id];
    if (part == HTH_STATE_REST)
        return is_whole(context, id);
    if (context->format.has_recurrent)
        return held->rest_end == 0;
    return !context->format.has_window || held->window_begin <= held->begin ||
           held->window_begin <= window_begin(context, held->end);
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
                 context->model->info.architecture, problem.message);
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

    if (!context || !bytes || !n_out || !is_sequence(context, id) || context->held[id].end == 0)
        return hth_fail(err, HEARTH_MISUSE, "sequence %u has no state to get", id);
    if (model_kind(context) == HTH_MODEL_UNCACHED)
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
        n_written = hth_shim_state_get(context->llama, (llama_seq_id)id, flags_of(part), bytes, n_bytes);
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
    llama_state_seq_flags flags = flags_of(part);
    bool has_end = part == HTH_STATE_REST || (part == HTH_STATE_CELLS && !context->format.has_recurrent);
    size_t n_taken = hth_shim_state_set(context->llama, (llama_seq_id)id, flags, bytes, n_bytes);

    if (n_taken != n_bytes)
        return hth_fail(err, HEARTH_ENGINE, "the engine took %zu of %zu bytes of state: %s", n_taken, n_bytes,
                        hth_backend_llama_reason("it does not say why"));
    if (has_end && llama_memory_seq_pos_max(context->memory, (llama_seq_id)id) != (llama_pos)(end - 1))
        return hth_fail(err, HEARTH_ENGINE, "sequence %u ends at %d after restoring up to %u", id,
                        llama_memory_seq_pos_max(context->memory, (llama_seq_id)id), end);
    return HEARTH_OK;
}

static void note_set(hth_engine_context *context, uint32_t id, hth_state_part part, uint32_t begin, uint32_t end)
{
    uint32_t first = window_begin(context, end);
    holding *held = &context->held[id];

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

    if (!context || !bytes || !is_sequence(context, id) || begin >= end || end > INT32_MAX / 2)
        return hth_fail(err, HEARTH_MISUSE, "cannot set positions %u .. %u of sequence %u", begin, end, id);
    if (model_kind(context) == HTH_MODEL_UNCACHED) {
        empty_sequence(context, id);
        return hth_fail(err, HEARTH_UNSUPPORTED, "the state of this kind of model cannot be restored");
    }
    /* The rest belongs to the cells from the first to the last. */
    if (!has_part(context, part) || (is_rest && begin != 0) ||
        (is_rest && context->format.has_attention && (context->held[id].begin != 0 || context->held[id].end != end))) {
        empty_sequence(context, id);
        return hth_fail(err, HEARTH_MISUSE, "sequence %u cannot take that part of a state of %u .. %u", id, begin, end);
    }
    if (!is_rest || !context->format.has_attention)
        empty_sequence(context, id);
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
        status = exact_restores(context, bytes, end - begin, err);
    if (status == HEARTH_OK) {
        hth_backend_llama_enter(context->model->log);
        status = give_image(context, id, part, bytes, n_bytes, end, err);
        if (exact_done(context, status == HEARTH_OK ? err : NULL) != HEARTH_OK && status == HEARTH_OK)
            status = HEARTH_ENGINE;
        hth_backend_llama_leave();
    }
    if (status != HEARTH_OK) {
        empty_sequence(context, id);
        return status;
    }
    note_set(context, id, part, begin, end);
    if (part == stored) { /* the engine accepted it, so its layers are those of this context */
        context->layouts[is_rest] = context->parsed;
        context->layout_known[is_rest] = true;
    }
    return HEARTH_OK;
}

/* ---- making a context ---- */

static bool type_by_name(const char *name, enum ggml_type *out)
{
    static const enum ggml_type types[] = {
        GGML_TYPE_F16,  GGML_TYPE_F32,  GGML_TYPE_BF16, GGML_TYPE_Q8_0,   GGML_TYPE_Q4_0,
        GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL,
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(ggml_type_name(types[i]), name) == 0) {
            *out = types[i];
            return true;
        }
    }
    return false;
}

/* The bytes of one cell in all layers, if each layer keeps keys and values of every cell. */
static double cell_bytes(const hth_engine_model *model, enum ggml_type type_k, enum ggml_type type_v)
{
    const hth_shim_model_facts *facts = &model->facts;
    uint32_t head_bytes_default = facts->n_head > 0 ? (uint32_t)(facts->n_embd / facts->n_head) : 0;
    double values_k = hth_backend_llama_number(model, "attention.key_length", head_bytes_default);
    double values_v = hth_backend_llama_number(model, "attention.value_length", head_bytes_default);

    return (values_k * (double)ggml_type_size(type_k) / (double)ggml_blck_size(type_k) +
            values_v * (double)ggml_type_size(type_v) / (double)ggml_blck_size(type_v)) *
           facts->n_head_kv * model->info.n_layers;
}

static bool cells_on_devices(const hth_engine_model *model)
{
    return model->on_gpu && !model->options.no_kv_offload;
}

/*
 * Approximate size of the KV buffer. 0: unknown, because some layers keep less, or the buffer is not in this machine's
 * main memory.
 */
static uint64_t kv_bytes(const hth_engine_model *model, const struct llama_context_params *params)
{
    if (atomic_load(&model->kind) != HTH_MODEL_PLAIN || cells_on_devices(model) ||
        hth_backend_llama_number(model, "attention.kv_lora_rank", 0) > 0)
        return 0;
    return (uint64_t)(cell_bytes(model, params->type_k, params->type_v) * params->n_ctx);
}

static uint64_t less(uint64_t bytes, uint64_t others)
{
    return bytes > others ? bytes - others : 0;
}

/* Every layer counts as if it kept every cell. An unknown type counts as f16. */
void hth_backend_llama_cell_room(const hth_engine_model *model, const char *type_k, const char *type_v,
                                 hth_cell_room *out)
{
    enum ggml_type k = GGML_TYPE_F16, v = GGML_TYPE_F16;
    uint64_t weight_bytes = model->info.weight_bytes;

    if (type_k)
        (void)type_by_name(type_k, &k);
    if (type_v)
        (void)type_by_name(type_v, &v);
    *out = (hth_cell_room){
        .cell_bytes = (uint64_t)cell_bytes(model, k, v),
        .is_device = cells_on_devices(model),
    };
    if (out->is_device) {
        hth_llama_devices_memory(&model->devices, &out->free_bytes, &out->total_bytes);
    } else {
        out->free_bytes = hth_os_memory_available_bytes();
        out->total_bytes = hth_os_memory_bytes();
    }
    if (out->is_device != model->on_gpu) /* the weights are not there */
        return;
    /* Mapped weights are in the page cache, which counts as free although the weights are needed. */
    if (model->no_weights || (model->is_mapped && !model->on_gpu))
        out->free_bytes = less(out->free_bytes, weight_bytes);
    out->total_bytes = less(out->total_bytes, weight_bytes);
}

/*
 * Write all settings that determine the meaning of a cell's bytes. A model's own RoPE values are written as they are,
 * and so are values that were given instead. portable: of any build, on any CPU.
 */
static hearth_status write_params_text(hth_engine_context *context, const struct llama_context_params *params,
                                       bool portable, hearth_error *err)
{
    static const char *const rope_keys[] = {
        "rope.freq_base",
        "rope.dimension_count",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scale_linear",
        "rope.scaling.original_context_length",
        "rope.scaling.attn_factor",
        "rope.scaling.yarn_log_multiplier",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
    };
    const hth_engine_model *model = context->model;
    const char *rotation_off = getenv("LLAMA_ATTN_ROT_DISABLE");
    bool has_flash_attention = params->flash_attn_type != LLAMA_FLASH_ATTN_TYPE_DISABLED;
    const char *long_rope = !model->has_long_rope_factors                              ? "none"
                          : context->info.n_ctx > hth_backend_llama_n_ctx_short(model) ? "long"
                                                                                       : "short";
    char text[4096];
    size_t n;

    n = portable ? (size_t)snprintf(text, sizeof(text), "backend=llama.cpp portable")
                 : (size_t)snprintf(text, sizeof(text), "backend=llama.cpp build=%s features=%s", hth_shim_version(),
                                    hth_backend_llama_features());
    if (n < sizeof(text))
        n += (size_t)snprintf(
            text + n, sizeof(text) - n,
            " gpu=%d%s%s%s rows=%d block=%u k=%s v=%s fa=%d%s%s unified=1 repack=%d panel=%d rotate=%d longrope=%s "
            "rope_type=%d freq_scale=%a",
            model->n_gpu_layers, model->on_gpu ? " devices=" : "", model->devices.word, model->placement->words,
            atomic_load(&model->kind) == HTH_MODEL_PLAIN ? ROW_FORMAT_PLAIN : ROW_FORMAT, HTH_BLOCK_TOKENS,
            ggml_type_name(params->type_k), ggml_type_name(params->type_v), has_flash_attention,
            has_flash_attention && hth_attention_is_on() ? " attn=own2" : "", context->order ? " exact=2" : "",
            !model->on_gpu, getenv("GGML_NO_IQ_PANEL") == NULL, !(rotation_off && strtol(rotation_off, NULL, 10) != 0),
            long_rope, model->facts.rope_type, (double)model->facts.rope_freq_scale);
    for (size_t i = 0; i < sizeof(rope_keys) / sizeof(rope_keys[0]) && n < sizeof(text); i++) {
        char value[128];

        if (hth_backend_llama_own_meta(model, rope_keys[i], value, sizeof(value)))
            n += (size_t)snprintf(text + n, sizeof(text) - n, " %s=%s", rope_keys[i], value);
    }
    if (n < sizeof(text) && hth_engine_options_turn(&model->options))
        n += (size_t)snprintf(text + n, sizeof(text) - n,
                              " given.scaling=%d given.freq_base=%a given.freq_scale=%a given.orig_ctx=%u "
                              "given.ext_factor=%a given.attn_factor=%a given.beta_slow=%a given.beta_fast=%a",
                              (int)params->rope_scaling_type, (double)params->rope_freq_base,
                              (double)params->rope_freq_scale, params->yarn_orig_ctx, (double)params->yarn_ext_factor,
                              (double)params->yarn_attn_factor, (double)params->yarn_beta_slow,
                              (double)params->yarn_beta_fast);
    if (n >= sizeof(text))
        return hth_fail(err, HEARTH_ENGINE, "the names of features and devices are too long to describe the cache");
    if (n < sizeof(context->info.params_text)) {
        memcpy(context->info.params_text, text, n + 1);
    } else {
        uint8_t digest[HTH_SHA256_BYTES];
        char hex[2 * HTH_SHA256_BYTES + 1];

        hth_sha256_of(text, n, digest);
        hth_hex_encode(digest, sizeof(digest), hex);
        (void)snprintf(context->info.params_text, sizeof(context->info.params_text), "backend=llama.cpp %s%s sha256=%s",
                       portable ? "portable" : "build=", portable ? "" : hth_shim_version(), hex); /* fits */
    }
    return HEARTH_OK;
}

static hth_image_format format_of(const hth_engine_model *model)
{
    hth_model_kind kind = (hth_model_kind)atomic_load(&model->kind);
    int32_t rope_type = model->facts.rope_type;

    return (hth_image_format){
        .has_attention = kind != HTH_MODEL_RECURRENT,
        .has_window = kind != HTH_MODEL_RECURRENT && model->facts.n_swa > 0,
        .has_recurrent = kind == HTH_MODEL_RECURRENT || kind == HTH_MODEL_HYBRID,
        .has_cell_ext = rope_type == LLAMA_ROPE_TYPE_MROPE || rope_type == LLAMA_ROPE_TYPE_IMROPE,
        .may_lack_v = hth_backend_llama_number(model, "attention.key_length_mla", 0) > 0,
        .n_window = model->facts.n_swa > 0 ? (uint32_t)model->facts.n_swa : 0,
    };
}

void hth_backend_llama_context_free(hth_engine_context *context)
{
    if (!context)
        return;
    hth_backend_llama_adapters_part(&context->applied);
    hth_cell_order_free(context->order);
    free(context->coming);
    if (context->llama) {
        hth_backend_llama_enter(context->model->log);
        llama_free(context->llama);
        hth_backend_llama_leave();
    }
    free(context->held);
    free(context->empty_rest);
    free(context->bounce);
    free(context->next);
    hth_backend_llama_batch_deinit(&context->batch, context->sequences);
    free(context);
}

static hearth_status allocate_arrays(hth_engine_context *context, size_t n_rows, hearth_error *err)
{
    context->held = calloc(context->info.n_seq_max, sizeof(context->held[0]));
    context->next = calloc(context->info.n_seq_max, sizeof(context->next[0]));
    context->sequences = hth_backend_llama_batch_init(&context->batch, n_rows);
    return context->held && context->next && context->sequences
             ? HEARTH_OK
             : hth_fail(err, HEARTH_NO_MEMORY, "no memory for batches of %zu tokens", n_rows);
}

/*
 * Does the CPU compute the attention of some layers? Attention is computed where the cells are. The output counts as a
 * layer.
 */
static bool attends_on_cpu(const hth_engine_model *model)
{
    const int32_t n_layers = (int32_t)model->info.n_layers + llama_model_n_layer_nextn(model->llama);

    return !cells_on_devices(model) || (model->n_gpu_layers >= 0 && model->n_gpu_layers <= n_layers);
}

/*
 * Number of rows that the engine computes at once: at least one per sequence, and no more than our own attention
 * accepts.
 */
static uint32_t n_ubatch(const hth_engine_model *model, const struct llama_context_params *params, bool deterministic)
{
    const uint32_t step = deterministic ? EXACT_ROWS_STEP : 1;
    uint32_t n = model->options.n_ubatch > 0 ? model->options.n_ubatch : N_UBATCH_MAX;

    if (n > N_UBATCH_MAX && hth_attention_is_on() && attends_on_cpu(model)) {
        if (!model->no_weights)
            hth_warn(model->log, "n_ubatch is %u; the CPU computes attention, of at most %d tokens at once", n,
                     N_UBATCH_MAX);
        n = N_UBATCH_MAX;
    }
    n = n > params->n_seq_max ? n : params->n_seq_max;
    n = (n + step - 1) / step * step;
    return n < params->n_batch ? n : params->n_batch;
}

/* The engine's parameters for a context, except flash attention. Statuses as context_new. */
static hearth_status fill_params(const hth_engine_model *model, const hth_engine_context_params *params,
                                 struct llama_context_params *out, hearth_error *err)
{
    const char *type_k = params->type_k ? params->type_k : "f16";
    const char *type_v = params->type_v ? params->type_v : "f16";
    uint32_t n_ctx = params->n_ctx ? params->n_ctx : model->info.n_ctx_train;
    uint32_t n_threads = params->n_threads ? params->n_threads : hth_os_n_cpus();
    hearth_status status = HEARTH_OK;

    *out = llama_context_default_params();
    if (n_ctx < 1 || n_ctx > INT32_MAX / 2)
        return hth_fail(err, HEARTH_MISUSE, "n_ctx is %u; it must be 1 to %d", n_ctx, INT32_MAX / 2);
    if (params->n_batch < 1 || params->n_batch > 1u << 16)
        return hth_fail(err, HEARTH_MISUSE, "n_batch is %u; it must be 1 to %u", params->n_batch, 1u << 16);
    if (params->n_seq_max < 1 || params->n_seq_max > 256)
        return hth_fail(err, HEARTH_MISUSE, "n_seq_max is %u; it must be 1 to 256", params->n_seq_max);
    if (n_threads > 1024)
        return hth_fail(err, HEARTH_MISUSE, "n_threads is %u; it must be at most 1024", n_threads);
    if (!type_by_name(type_k, &out->type_k) || !type_by_name(type_v, &out->type_v))
        return hth_fail(err, HEARTH_MISUSE,
                        "'%s' is no type for the KV cache: f16, f32, bf16, q8_0, q5_0, q5_1, q4_0, q4_1 and iq4_nl are",
                        type_by_name(type_k, &out->type_k) ? type_v : type_k);
    if (model->options.flash_attention == HEARTH_FLASH_ATTENTION_OFF && ggml_is_quantized(out->type_v))
        return hth_fail(err, HEARTH_MISUSE, "V of type '%s' needs flash attention; do not switch it off, or take f16",
                        type_v);
    /* The engine rounds up anyway, but only after it bounds the batch by the requested size. */
    out->n_ctx = (n_ctx + HTH_CONTEXT_STEP - 1) / HTH_CONTEXT_STEP * HTH_CONTEXT_STEP;
    /*
     * The engine aborts if a batch has no room for one row of every sequence. hth_backend_llama_decode() still enforces
     * the requested number.
     */
    out->n_batch = params->n_batch > params->n_seq_max ? params->n_batch : params->n_seq_max;
    out->n_seq_max = params->n_seq_max;
    out->n_threads = (int32_t)n_threads;
    out->n_threads_batch = (int32_t)n_threads;
    out->abort_callback = params->abort;
    out->abort_callback_data = params->abort_user_data;
    out->embeddings = false;
    out->pooling_type = LLAMA_POOLING_TYPE_NONE; /* a row that wants a vector gets its own vector */
    out->no_perf = true;
    out->swa_full = false;
    out->kv_unified = true;
    if (params->deterministic)
        status = exact_prepare(model, out, err);
    out->n_ubatch = n_ubatch(model, out, params->deterministic);
    return status;
}

/* Save the partial state of sequence 0, which is empty. */
static hearth_status learn_empty_rest(hth_engine_context *context, hearth_error *err)
{
    size_t n_bytes = hth_shim_state_size(context->llama, 0, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);

    context->empty_rest = malloc(n_bytes ? n_bytes : 1);
    if (!context->empty_rest)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu bytes of state", n_bytes);
    if (n_bytes == 0 || hth_shim_state_get(context->llama, 0, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY, context->empty_rest,
                                           n_bytes) != n_bytes)
        return hth_fail(err, HEARTH_ENGINE, "the engine does not write the state of an empty sequence");
    context->empty_rest_bytes = n_bytes;
    return HEARTH_OK;
}

hearth_status hth_backend_llama_context_new(hth_engine_model *model, const hth_engine_context_params *params,
                                            hth_engine_context **out, hearth_error *err)
{
    struct llama_context_params llama_params;
    hth_engine_context *context;
    size_t n_rows = 0; /* of the engine's batches */
    hearth_status status;

    if (!model || !params || !out)
        return hth_fail(err, HEARTH_MISUSE, "a context needs a model and parameters");
    if (model->facts.has_encoder || !model->facts.has_decoder || model->facts.is_diffusion)
        return hth_fail(err, HEARTH_UNSUPPORTED, "models of architecture '%s' do not generate text token by token",
                        model->info.architecture);
    context = calloc(1, sizeof(*context));
    if (!context)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a context");
    context->model = model;
    context->format = format_of(model);

    hth_backend_llama_enter(model->log);
    status = fill_params(model, params, &llama_params, err);
    if (status == HEARTH_OK)
        status = hth_backend_llama_check_memory(kv_bytes(model, &llama_params), "the context", err);
    if (status == HEARTH_OK)
        status = hth_backend_llama_make_context(model, &llama_params, &context->llama, err);
    hth_backend_llama_leave();
    if (status == HEARTH_OK) {
        context->memory = llama_get_memory(context->llama);
        if (!context->memory)
            status =
                hth_fail(err, HEARTH_UNSUPPORTED, "models of architecture '%s' do not generate text token by token",
                         model->info.architecture);
    }
    if (status == HEARTH_OK && params->deterministic && llama_params.flash_attn_type == LLAMA_FLASH_ATTN_TYPE_DISABLED)
        status = hth_fail(err, HEARTH_UNSUPPORTED,
                          "deterministic: this needs flash attention, which is switched off, or which the engine does "
                          "not have for architecture '%s'",
                          model->info.architecture);
    if (status == HEARTH_OK) {
        context->info.n_ctx = llama_n_ctx(context->llama);
        context->info.n_batch = llama_n_batch(context->llama);
        context->info.n_seq_max = llama_n_seq_max(context->llama);
        n_rows = context->info.n_batch;
        context->n_ubatch = llama_params.n_ubatch;
        if (context->info.n_batch > params->n_batch)
            context->info.n_batch = params->n_batch;
        if (params->deterministic)
            status = exact_begin(context, err);
    }
    if (status == HEARTH_OK)
        status = allocate_arrays(context, n_rows, err);
    if (status == HEARTH_OK && atomic_load(&model->kind) == HTH_MODEL_HYBRID)
        status = learn_empty_rest(context, err);
    if (status == HEARTH_OK)
        status = exact_check(context, err);
    if (status == HEARTH_OK)
        status = write_params_text(context, &llama_params, params->portable, err);
    if (status != HEARTH_OK) {
        hth_backend_llama_context_free(context);
        return status;
    }
    hth_backend_llama_adapters_join(&context->applied, model, context->llama);
    *out = context;
    return HEARTH_OK;
}

hearth_status hth_backend_llama_adapters_apply(hth_engine_context *context, const hth_engine_adapter_use *uses,
                                               size_t n, hearth_error *err)
{
    if (!context)
        return hth_fail(err, HEARTH_MISUSE, "adapters are applied by a context");
    return hth_backend_llama_applied_set(&context->applied, uses, n, err);
}

/*
 * With our own attention, the only cost of idle cells to a row is its mask: the engine fills it, mostly by copying the
 * row before, and it is read once. The first row of a sequence costs more, because the engine visits its cells one by
 * one. Without our attention, the kernel itself may visit all cells. On a fast device, the cost per row is too small to
 * measure, but few idle cells are right there in any case.
 */
static hth_idle_cost idle_cost(const hth_engine_model *model)
{
    bool is_ours = hth_attention_is_on() && !model->on_gpu;

    if (atomic_load(&model->kind) == HTH_MODEL_RECURRENT)
        return (hth_idle_cost){ .cells_max = UINT32_MAX }; /* no row reads another sequence's state */
    return (hth_idle_cost){
        .row_ps = is_ours ? IDLE_ROW_PS : 0,
        .sequence_ps = is_ours ? IDLE_SEQUENCE_PS : 0,
        .cells_max = IDLE_CELLS_MAX,
    };
}

void hth_backend_llama_context_info(const hth_engine_context *context, hth_engine_context_info *out)
{
    *out = context->info;
    out->idle_cost = idle_cost(context->model);
}

hearth_status hth_backend_llama_needs(const hth_engine_model *model, const hth_engine_context_params *params,
                                      hth_engine_needs *out, hearth_error *err)
{
    struct llama_context_params context;
    hearth_status status;

    if (!model || !params || !out)
        return hth_fail(err, HEARTH_MISUSE, "the needs of a model are asked with the parameters of a context");
    hth_backend_llama_enter(model->log);
    status = fill_params(model, params, &context, err);
    if (status == HEARTH_OK) {
        hth_backend_llama_apply_options(model, &context);
        status = hth_llama_needs(model->path, &model->placement->params, model->info.weight_bytes, &context, out, err);
    }
    hth_backend_llama_leave();
    return status;
}
