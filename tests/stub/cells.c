/*
 * cells.c - a context of the stub engine: one buffer of cells that sequences share
 *
 * A cell belongs to every sequence that it is a token of. The layer of a window is gone from cells that the window has
 * left behind. Each sequence keeps the sum of the digests of its cells, so that a token costs the same at any length.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub/inside.h"

bool hth_stub_has_cells(const hth_engine_context *context)
{
    return context->format.has_attention;
}

void hth_stub_context_free(hth_engine_context *context)
{
    if (!context)
        return;
    free(context->positions);
    free(context->owners);
    free(context->cells);
    free(context->in_window);
    free(context->sequences);
    free(context->logits_of);
    free(context->logits);
    free(context->vectors);
    free(context);
}

hearth_status hth_stub_context_new(hth_engine_model *model, const hth_engine_context_params *params,
                                   hth_engine_context **out, hearth_error *err)
{
    hth_engine_context *context;
    uint32_t n_ctx;

    if (!model || !params || !out)
        return hth_fail(err, HEARTH_MISUSE, "a context needs a model and parameters");
    if (model->encoder)
        return hth_fail(err, HEARTH_UNSUPPORTED, "this stub generates nothing");
    n_ctx = params->n_ctx ? params->n_ctx : model->n_ctx_train;
    if (n_ctx > 1u << 24)
        return hth_fail(err, HEARTH_MISUSE, "a context of %u tokens is too long; at most %u", n_ctx, 1u << 24);
    if (params->n_batch < 1 || params->n_batch > 1u << 16)
        return hth_fail(err, HEARTH_MISUSE, "n_batch is %u; it must be 1 to %u", params->n_batch, 1u << 16);
    if (params->n_seq_max < 1 || params->n_seq_max > N_SEQ_MAX)
        return hth_fail(err, HEARTH_MISUSE, "n_seq_max is %u; it must be 1 to %d", params->n_seq_max, N_SEQ_MAX);

    context = calloc(1, sizeof(*context));
    if (!context)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a stub context");
    context->model = model;
    context->params = *params;
    context->params.n_ctx = n_ctx;
    context->format = (hth_image_format){
        .has_attention = model->kind != HTH_MODEL_RECURRENT,
        .has_window = model->n_window > 0,
        .has_recurrent = model->kind == HTH_MODEL_RECURRENT || model->kind == HTH_MODEL_HYBRID,
        .n_window = model->n_window,
    };
    context->positions = malloc(n_ctx * sizeof(context->positions[0]));
    context->owners = calloc(n_ctx, sizeof(context->owners[0]));
    context->cells = calloc(n_ctx, sizeof(context->cells[0]));
    context->in_window = calloc(n_ctx, sizeof(context->in_window[0]));
    context->sequences = calloc(params->n_seq_max, sizeof(context->sequences[0]));
    context->logits_of = malloc(params->n_batch * sizeof(context->logits_of[0]));
    context->vectors = calloc(params->n_batch, sizeof(context->vectors[0]));
    if (!context->positions || !context->owners || !context->cells || !context->in_window || !context->sequences ||
        !context->logits_of || !context->vectors) {
        hth_stub_context_free(context);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a stub context of %u tokens", n_ctx);
    }
    for (uint32_t i = 0; i < n_ctx; i++)
        context->positions[i] = EMPTY_CELL;
    *out = context;
    return HEARTH_OK;
}

void hth_stub_context_info(const hth_engine_context *context, hth_engine_context_info *out)
{
    const uint32_t n_short = context->model->n_ctx_short;

    *out = (hth_engine_context_info){
        .n_ctx = context->params.n_ctx,
        .n_batch = context->params.n_batch,
        .n_seq_max = context->params.n_seq_max,
        .idle_cost = { .cells_max = UINT32_MAX },                    /* they cost nothing */
        .is_deterministic = context->model->kind == HTH_MODEL_PLAIN, /* so that tests see a refusal, too */
    };
    (void)snprintf(out->params_text, sizeof(out->params_text),
                   "backend=stub build=1 rows=2 block=%u kind=%s window=%u vocab=%u%s", HTH_BLOCK_TOKENS,
                   hth_stub_kind_name(context->model->kind), context->model->n_window, context->model->n_vocab,
                   n_short > 0 && context->params.n_ctx > n_short ? " factors=long" : ""); /* fits */
}

bool hth_stub_owns(const hth_engine_context *context, uint32_t cell, uint32_t id)
{
    return context->owners[cell].bits[id / 64] >> id % 64 & 1;
}

static uint64_t layer_digest(const hth_engine_context *context, uint32_t cell, int layer)
{
    uint64_t place = (uint64_t)context->positions[cell] * N_LAYERS + (uint64_t)layer;

    return hth_stub_mix2(place, hth_stub_digest(context->cells[cell] + layer * LAYER_BYTES, LAYER_BYTES));
}

/* What a cell adds to the sum of each of its sequences. */
static uint64_t cell_digest(const hth_engine_context *context, uint32_t cell)
{
    uint64_t sum = layer_digest(context, cell, 0);

    return context->format.has_window ? sum : sum + layer_digest(context, cell, 1);
}

void hth_stub_own(hth_engine_context *context, uint32_t cell, uint32_t id)
{
    context->owners[cell].bits[id / 64] |= UINT64_C(1) << id % 64;
    context->sequences[id].sum += cell_digest(context, cell);
    if (context->positions[cell] >= context->sequences[id].n_tokens)
        context->sequences[id].n_tokens = context->positions[cell] + 1;
}

static void disown(hth_engine_context *context, uint32_t cell, uint32_t id)
{
    cell_owners *owners = &context->owners[cell];

    context->sequences[id].sum -= cell_digest(context, cell);
    owners->bits[id / 64] &= ~(UINT64_C(1) << id % 64);
    for (size_t i = 0; i < sizeof(owners->bits) / sizeof(owners->bits[0]); i++)
        if (owners->bits[i])
            return;
    context->positions[cell] = EMPTY_CELL;
    context->n_used--;
    if (cell < context->first_free)
        context->first_free = cell;
}

uint32_t hth_stub_take_free_cell(hth_engine_context *context, uint32_t position)
{
    uint32_t cell = context->first_free;

    while (context->positions[cell] != EMPTY_CELL)
        cell++;
    context->first_free = cell + 1;
    if (context->n_high <= cell)
        context->n_high = cell + 1;
    context->positions[cell] = position;
    context->n_used++;
    return cell;
}

/* A hash of all that the sequence's next token depends on. */
uint64_t hth_stub_sequence_digest(const hth_engine_context *context, uint32_t id)
{
    const sequence *seq = &context->sequences[id];
    uint64_t hash = hth_stub_mix2(seq->sum, seq->n_tokens);

    if (context->format.has_recurrent && seq->n_tokens > 0) /* zeros where there is none */
        hash = hth_stub_mix2(hash, hth_stub_digest(seq->state, STATE_BYTES));
    if (context->format.has_window) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < context->n_high; i++)
            if (hth_stub_owns(context, i, id) && context->in_window[i] &&
                context->positions[i] + context->format.n_window >= seq->n_tokens)
                sum += layer_digest(context, i, 1);
        hash = hth_stub_mix2(hash, sum);
    }
    return hash;
}

bool hth_stub_seq_remove(hth_engine_context *context, uint32_t id, uint32_t begin, uint32_t end)
{
    sequence *seq;

    if (!context || id >= context->params.n_seq_max)
        return false;
    seq = &context->sequences[id];
    if (begin > 0 || end < seq->n_tokens) {
        /* Window and recurrent state cannot go back, and cannot lose its past. */
        if (context->model->kind != HTH_MODEL_PLAIN)
            return begin >= end || begin >= seq->n_tokens;
    }
    if (hth_stub_has_cells(context)) {
        uint32_t n_tokens = 0;

        for (uint32_t i = 0; i < context->n_high; i++) {
            if (!hth_stub_owns(context, i, id))
                continue;
            if (context->positions[i] >= begin && context->positions[i] < end)
                disown(context, i, id);
            else if (context->positions[i] >= n_tokens)
                n_tokens = context->positions[i] + 1;
        }
        seq->n_tokens = n_tokens;
    }
    if (begin == 0 && end >= seq->n_tokens)
        *seq = (sequence){ 0 };
    return true;
}

hearth_status hth_stub_seq_copy(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin, uint32_t end,
                                hearth_error *err)
{
    if (!context || from >= context->params.n_seq_max || to >= context->params.n_seq_max || from == to)
        return hth_fail(err, HEARTH_MISUSE, "cannot copy sequence %u to %u", from, to);
    if (!hth_stub_has_cells(context))
        return hth_fail(err, HEARTH_MISUSE, "sequences of a %s model have no cells to share",
                        hth_stub_kind_name(context->model->kind));
    if (begin >= end || end > context->sequences[from].n_tokens)
        return hth_fail(err, HEARTH_MISUSE, "cannot copy positions %u .. %u of sequence %u, which has %u tokens", begin,
                        end, from, context->sequences[from].n_tokens);
    for (uint32_t i = 0; i < context->n_high; i++)
        if (hth_stub_owns(context, i, to) && context->positions[i] >= begin && context->positions[i] < end)
            return hth_fail(err, HEARTH_MISUSE, "sequence %u already has position %u", to, context->positions[i]);
    for (uint32_t i = 0; i < context->n_high; i++)
        if (hth_stub_owns(context, i, from) && context->positions[i] >= begin && context->positions[i] < end)
            hth_stub_own(context, i, to);
    /* The real engine copies the state as of now; its backend takes that away again. */
    memset(context->sequences[to].state, 0, STATE_BYTES);
    context->sequences[to].rest_end = 0;
    return HEARTH_OK;
}

/* Has the sequence all that its next token depends on? An empty one has. */
static bool is_whole(const hth_engine_context *context, uint32_t id)
{
    const sequence *seq = &context->sequences[id];
    uint32_t n_needed = seq->n_tokens < context->format.n_window ? seq->n_tokens : context->format.n_window;
    uint32_t n_cells = 0, n_in_window = 0;

    if (context->model->kind == HTH_MODEL_PLAIN)
        return true; /* as the real one: its blocks are complete as they are */
    if (context->format.has_recurrent && seq->rest_end != seq->n_tokens)
        return false;
    for (uint32_t i = 0; hth_stub_has_cells(context) && i < context->n_high; i++) {
        bool is_own = hth_stub_owns(context, i, id);

        n_cells += is_own;
        n_in_window += is_own && context->in_window[i] && context->positions[i] + n_needed >= seq->n_tokens;
    }
    return !hth_stub_has_cells(context) ||
           (n_cells == seq->n_tokens && (!context->format.has_window || n_in_window == n_needed));
}

uint32_t hth_stub_seq_end(hth_engine_context *context, uint32_t id)
{
    return context && id < context->params.n_seq_max && is_whole(context, id) ? context->sequences[id].n_tokens : 0;
}
