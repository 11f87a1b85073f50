/*
 * decode.c - the stub's evaluation: a token becomes a cell, and all cells of a sequence become logits
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "stub/inside.h"

/* The window's layer of cells that the sequence has left behind is used for others. */
static void leave_window(hth_engine_context *context, uint32_t id)
{
    for (uint32_t i = 0; i < context->n_high; i++)
        if (hth_stub_owns(context, i, id) &&
            context->positions[i] + context->format.n_window < context->sequences[id].n_tokens)
            context->in_window[i] = false;
}

/* Where in the script a sequence stands: its last cell has it. */
static void find_place(hth_engine_context *context, uint32_t id, hth_stub_place *out)
{
    sequence *seq = &context->sequences[id];

    *out = (hth_stub_place){ .where = 0 };
    if (seq->n_tokens == 0)
        return;
    for (uint32_t i = 0; i < context->n_high &&
                         (!hth_stub_owns(context, seq->last, id) || context->positions[seq->last] + 1 != seq->n_tokens);
         i++)
        seq->last = i;
    hth_stub_place_read(context->cells[seq->last], out);
}

static int script_token(hearth_token token)
{
    return token < TOKEN_BOS                             ? token
         : token == TOKEN_TURN_BEGIN                     ? HTH_STUB_TURN_BEGIN
         : token == TOKEN_TURN_END || token == TOKEN_EOS ? HTH_STUB_TURN_END
                                                         : HTH_STUB_OTHER;
}

static void append(hth_engine_context *context, const hth_batch_row *row)
{
    sequence *seq = &context->sequences[row->sequence];
    uint64_t seed = hth_stub_mix2(hth_stub_mix2(hth_stub_sequence_digest(context, row->sequence), (uint64_t)row->token),
                                  row->position) ^
                    context->adapters;

    if (hth_stub_has_cells(context)) {
        uint32_t cell = hth_stub_take_free_cell(context, row->position);

        hth_stub_expand(seed, context->cells[cell], CELL_BYTES);
        if (context->model->script) {
            hth_stub_place place;

            find_place(context, row->sequence, &place);
            hth_stub_place_push(&place, script_token(row->token));
            hth_stub_place_write(&place, context->cells[cell]);
            seq->last = cell;
        }
        context->in_window[cell] = context->format.has_window;
        hth_stub_own(context, cell, row->sequence);
    }
    if (context->format.has_recurrent) {
        hth_stub_expand(hth_stub_mix(seed), seq->state, STATE_BYTES);
        seq->rest_end = row->position + 1;
    }
    seq->n_tokens = row->position + 1;
    if (context->format.has_window)
        leave_window(context, row->sequence);
}

/* Printable ASCII is far likelier than other bytes; one state in 64 ends the reply. */
static void compute_logits(hth_engine_context *context, uint32_t id, float *logits)
{
    uint64_t hash = hth_stub_sequence_digest(context, id) ^ context->adapters;
    int scripted = HTH_STUB_OTHER;

    if (context->model->errs > 0 && hth_stub_mix(hash + 1) % context->model->errs == 0)
        hash = hth_stub_mix(hash);
    for (uint32_t i = 0; i < context->model->n_vocab; i++) {
        float logit = (float)(hth_stub_mix2(hash, i) >> 40) * (8.0f / (1 << 24)); /* 0 .. 8 */

        if (i < TOKEN_BOS)
            logits[i] = i >= ' ' && i <= '~' ? logit : logit - 12.0f;
        else
            logits[i] = i < FIRST_WORD_TOKEN ? logit - 24.0f : logit - 1.0f;
    }
    if (hth_stub_mix(hash) % 64 == 0)
        logits[TOKEN_EOS] = 16.0f;
    if (context->model->script) {
        hth_stub_place place;

        find_place(context, id, &place);
        scripted = hth_stub_script_next(context->model->script, &place);
    }
    if (scripted != HTH_STUB_OTHER)
        logits[scripted == HTH_STUB_TURN_END ? TOKEN_TURN_END : scripted] = 100.0f;
}

static void compute_vector(const hth_engine_context *context, uint32_t id, float *vector)
{
    uint64_t hash = hth_stub_sequence_digest(context, id) ^ context->adapters;

    for (uint32_t i = 0; i < HTH_STUB_EMBEDDING; i++)
        vector[i] = (float)(hth_stub_mix2(hash, i) >> 40) * (2.0f / (1 << 24)) - 1.0f;
}

static hearth_status check_batch(const hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                                 size_t *n_wanted, hearth_error *err)
{
    uint32_t next[N_SEQ_MAX];
    bool fails = false, wants_vector = false;

    for (uint32_t i = 0; i < context->params.n_seq_max; i++)
        next[i] = context->sequences[i].n_tokens;
    *n_wanted = 0;
    for (size_t i = 0; i < n_rows; i++) {
        if (rows[i].token < 0 || (uint32_t)rows[i].token >= context->model->n_vocab)
            return hth_fail(err, HEARTH_MISUSE, "row %zu has token %d, which is not in the vocabulary of %u", i,
                            rows[i].token, context->model->n_vocab);
        if (rows[i].sequence >= context->params.n_seq_max)
            return hth_fail(err, HEARTH_MISUSE, "row %zu has sequence %u; there are %u", i, rows[i].sequence,
                            context->params.n_seq_max);
        if (rows[i].position != next[rows[i].sequence])
            return hth_fail(err, HEARTH_MISUSE, "row %zu has position %u of sequence %u, whose next one is %u", i,
                            rows[i].position, rows[i].sequence, next[rows[i].sequence]);
        next[rows[i].sequence]++;
        *n_wanted += rows[i].wants_logits;
        fails |= rows[i].token == 1;
        wants_vector |= rows[i].wants_vector;
    }
    if (fails && wants_vector) /* as embedder.c */
        return hth_fail(err, HEARTH_ENGINE, "an input has the byte 1 in it");
    return HEARTH_OK;
}

static bool is_aborted(const hth_engine_context *context)
{
    return context->params.abort && context->params.abort(context->params.abort_user_data);
}

/* Is this position closed by the gate? One that cannot be read is closed: its number is being written, or a sandbox
 * hides the file. */
static bool is_closed(const hth_engine_context *context, uint32_t position)
{
    unsigned long closed_from = 0;
    char number[16];
    FILE *file;

    if (!context->model->gate[0])
        return false;
    file = fopen(context->model->gate, "r");
    if (!file)
        return errno != ENOENT;
    if (fgets(number, sizeof(number), file))
        closed_from = strtoul(number, NULL, 10);
    (void)fclose(file); /* only read from */
    return position >= closed_from;
}

static void pause_us(uint32_t us)
{
    struct timespec pause = { .tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000 };

    (void)nanosleep(&pause, NULL); /* a signal only makes the stub faster */
}

/* True: aborted. */
static bool wait_for_row(const hth_engine_context *context, uint32_t position)
{
    if (is_aborted(context))
        return true;
    while (is_closed(context, position)) {
        pause_us(1000);
        if (is_aborted(context))
            return true;
    }
    if (context->model->delay_us > 0)
        pause_us(context->model->delay_us);
    return false;
}

hearth_status hth_stub_decode(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                              hth_decode_result *result, hearth_error *err)
{
    hearth_status status;
    size_t n_wanted;
    uint32_t n_computed = 0;

    if (!context || !rows || !result)
        return hth_fail(err, HEARTH_MISUSE, "decode needs a context and rows");
    context->n_rows = 0;
    if (n_rows < 1 || n_rows > context->params.n_batch)
        return hth_fail(err, HEARTH_MISUSE, "a batch of %zu rows; 1 to %u can be evaluated at once", n_rows,
                        context->params.n_batch);
    status = check_batch(context, rows, n_rows, &n_wanted, err);
    if (status != HEARTH_OK)
        return status;
    if (hth_stub_has_cells(context) && n_rows > context->params.n_ctx - context->n_used) {
        *result = HTH_DECODE_NO_ROOM;
        return HEARTH_OK;
    }
    if (n_wanted > context->n_logits_rows_max) {
        float *grown = realloc(context->logits, n_wanted * context->model->n_vocab * sizeof(*grown));

        if (!grown)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the logits of %zu rows", n_wanted);
        context->logits = grown;
        context->n_logits_rows_max = n_wanted;
    }
    if (context->model->step_us > 0)
        pause_us(context->model->step_us);
    for (size_t i = 0; i < n_rows; i++) {
        if (wait_for_row(context, rows[i].position)) {
            *result = HTH_DECODE_ABORTED;
            return HEARTH_OK;
        }
        append(context, &rows[i]);
        context->logits_of[i] = UINT32_MAX;
        if (rows[i].wants_logits) {
            compute_logits(context, rows[i].sequence, context->logits + (size_t)n_computed * context->model->n_vocab);
            context->logits_of[i] = n_computed++;
        }
        if (rows[i].wants_vector)
            compute_vector(context, rows[i].sequence, context->vectors[i]);
    }
    context->n_rows = n_rows;
    *result = HTH_DECODE_OK;
    return HEARTH_OK;
}

const float *hth_stub_vector(hth_engine_context *context, size_t row)
{
    return context && row < context->n_rows ? context->vectors[row] : NULL;
}

const float *hth_stub_logits(hth_engine_context *context, size_t row)
{
    if (!context || row >= context->n_rows || context->logits_of[row] == UINT32_MAX)
        return NULL;
    return context->logits + (size_t)context->logits_of[row] * context->model->n_vocab;
}
