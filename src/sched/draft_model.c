/*
 * draft_model.c - seats, their statistics, and the evaluations that serve them all
 *
 * One call of hth_draft_model_guess evaluates in rounds. In a round, each open job has rows: some of the tokens that
 * its sequence lacks, up to the next save point, or the token that was guessed last. A job whose sequence is complete
 * gets a guess from the logits.
 */
#include "sched/draft_model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "sampling/filters.h"
#include "sampling/numbers.h"
#include "sched/pool.h"
#include "sched/sequence.h"
#include "sched/strategy.h"

enum {
    CLASSES = 5,    /* of probabilities */
    STEP_ROWS = 4,  /* maximum rows of a reply in an evaluation that counts as a step */
    PAUSE_MIN = 32, /* tokens between two guesses that probably do not pay; doubles each time */
    PAUSE_MAX = 512,
    TICK_PART = 4,  /* prompts may take this fraction of the longest tick: a quarter */
    REPLY_PART = 2, /* and this fraction of the time that the rest of their reply takes */
    SEAT_PART = 16, /* a guess, right or wrong, moves the rate of its reply by this fraction */
    FIRST_PART = 8, /* and the model's estimates by this at first, later by less and less, down to */
    MODEL_PART = 128,
};

static const float class_ends[CLASSES - 1] = { 0.3f, 0.5f, 0.7f, 0.9f };
/* The rates of right guesses, in each class and overall, before any is counted. */
static const float first_probability[CLASSES] = { 0.2f, 0.4f, 0.55f, 0.75f, 0.92f };
static const float first_rate = 0.7f;

struct hth_draft_seat {
    const hth_request *request;  /* NULL: the seat is free */
    hth_pool_entry *entry;       /* NULL: the prompt has not been looked up yet */
    hth_engine_sampler *sampler; /* NULL: the likeliest token is the guess */
    hth_lookup lookup;           /* used by restore */
    hearth_token *restored;      /* used by restore: a copy of the reply's tokens, which move when it grows */
    hth_restore *restore;        /* NULL: none runs */
    uint32_t n_true;             /* leading tokens of the sequence that match the reply */
    uint32_t n_rows, first_row;  /* in the evaluation */
    float rate;                  /* fraction of its guesses that are right */
    uint32_t n_pause, n_rest;    /* tokens between two trial guesses that do not pay, and how many of them are left */
    bool is_look;                /* its guess is a trial, which probably does not pay */
    bool is_out;                 /* it gets no more guesses */
    uint32_t n_needed;           /* cells; 0: without a sequence */
    uint64_t n_filled;           /* number of the last hth_draft_model_guess call that found its prompt incomplete */

    /* The latest guesses, including the one that was not worth verifying. */
    uint32_t guessed_at;
    uint32_t n_guessed;
    hearth_token guessed[HEARTH_DRAFT_MAX];
    uint8_t classes[HEARTH_DRAFT_MAX];
};

struct hth_draft_model {
    hth_draft_model_options options;
    const hth_workplace *place;
    hth_pool *pool;
    hth_draft_seat *seats; /* [n_seats] */
    uint32_t n_seats;
    hth_batch_row *rows; /* [n_batch] */
    uint32_t n_rows;
    uint32_t n_left;  /* rows of prompts that the current call may still evaluate */
    uint64_t n_calls; /* of hth_draft_model_guess */
    float probability[CLASSES];
    uint32_t n_of_class[CLASSES]; /* guesses that were counted, at most MODEL_PART */
    float rate;
    uint64_t row_ns;  /* recent cost of a prompt's row; 0: unknown */
    uint64_t step_ns; /* recent cost of a step, an evaluation of few rows; 0: unknown */
    bool is_broken;   /* the engine failed: no more guesses */
};

void hth_draft_model_close(hth_draft_model *model)
{
    if (!model)
        return;
    for (uint32_t i = 0; model->seats && i < model->n_seats; i++)
        assert(!model->seats[i].request);
    hth_pool_close(model->pool);
    free(model->seats);
    free(model->rows);
    free(model);
}

hearth_status hth_draft_model_open(const hth_draft_model_options *options, hth_draft_model **out, hearth_error *err)
{
    hth_draft_model *model = calloc(1, sizeof(*model));
    hearth_status status;

    if (model) {
        model->options = *options;
        model->place = options->place;
        model->n_seats = options->n_sequences - 1;
        model->seats = calloc(model->n_seats, sizeof(*model->seats));
        model->rows = calloc(options->place->n_batch, sizeof(*model->rows));
        model->rate = first_rate;
        memcpy(model->probability, first_probability, sizeof(model->probability));
    }
    if (!model || !model->seats || !model->rows) {
        hth_draft_model_close(model);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a draft model");
    }
    status = hth_pool_open(model->place, options->n_sequences, &model->pool, err);
    if (status != HEARTH_OK) {
        hth_draft_model_close(model);
        return status;
    }
    hth_pool_limit_idle(model->pool, model->place->idle_cost.cells_max);
    *out = model;
    return HEARTH_OK;
}

/*
 * The prefix separates the rows from those of the same file when it is used as a target: a draft model evaluates
 * prompts in different chunks, whose bits may differ. The rows belong to no tenant that an explanation could name.
 */
void hth_draft_model_keyspace(const hth_workplace *place, const hth_keyspace *request, hth_keyspace *out)
{
    char salt[sizeof("hearth-draft-") + 2 * sizeof(request->tenancy.scope)] = "hearth-draft-";
    /* If the salts are not known, nothing is shared with other fingerprints. */
    const uint8_t *owner = hth_keyspace_has_tenancy(request) ? request->tenancy.scope : request->fingerprint;

    hth_hex_encode(owner, sizeof(request->tenancy.scope), salt + strlen(salt));
    *out = place->keyspace;
    hth_keyspace_salt(out, salt);
    out->tenancy = (hth_tenancy){ .scope = { 0 } };
}

/* ---- learning ---- */

static uint8_t class_of(float probability)
{
    uint8_t c = 0;

    while (c < CLASSES - 1 && probability >= class_ends[c])
        c++;
    return c;
}

static void move(float *mean, bool is_right, uint32_t part)
{
    *mean += ((is_right ? 1.0f : 0.0f) - *mean) / (float)part;
}

static void move_class(hth_draft_model *model, uint8_t c, bool is_right)
{
    uint32_t n = FIRST_PART + model->n_of_class[c];

    move(&model->probability[c], is_right, n);
    if (n < MODEL_PART)
        model->n_of_class[c]++;
}

/* Compare the latest guesses with the tokens drawn since then, up to the first wrong guess. */
static void learn(hth_draft_model *model, hth_draft_seat *seat, const hth_draft_job *job)
{
    for (uint32_t i = 0; i < seat->n_guessed && seat->guessed_at + i < job->n_tokens; i++) {
        bool is_right = job->tokens[seat->guessed_at + i] == seat->guessed[i];

        move(&seat->rate, is_right, SEAT_PART);
        move(&model->rate, is_right, MODEL_PART);
        move_class(model, seat->classes[i], is_right);
        if (!is_right)
            break;
    }
    seat->n_guessed = 0;
}

/* Does a guess pay that is right at this rate, or is a trial due? A seat without a sequence makes no trials. */
static bool is_worth(hth_draft_model *model, hth_draft_seat *seat, float cost)
{
    seat->is_look = seat->rate <= cost;
    if (!seat->is_look) {
        seat->n_rest = seat->n_pause = PAUSE_MIN;
        return true;
    }
    if (!seat->entry) {
        model->rate += (first_rate - model->rate) / MODEL_PART; /* a new reply may do better */
        return false;
    }
    if (seat->n_rest > 0)
        seat->n_rest--;
    return seat->n_rest == 0; /* remains true until the trial gives a guess */
}

/* ---- seats ---- */

static bool make_sampler(const hth_draft_model *model, hth_draft_seat *seat)
{
    const hearth_sampling *from = &seat->request->sampling;
    hearth_sampling sampling = hearth_sampling_default();

    if (from->temperature <= 0)
        return true;
    sampling.seed = from->seed;
    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++)
        if (hth_sampling_numbers[i].flags & HTH_NUMBER_DRAFTED)
            hth_sampling_set(&hth_sampling_numbers[i], hth_sampling_get(&hth_sampling_numbers[i], from), &sampling);
    return model->place->backend->sampler_new(model->place->engine_model, &sampling, &seat->sampler, NULL) == HEARTH_OK;
}

static hth_draft_seat *sit(hth_draft_model *model, const hth_request *request)
{
    for (uint32_t i = 0; i < model->n_seats; i++) {
        hth_draft_seat *seat = &model->seats[i];

        if (seat->request)
            continue;
        *seat = (hth_draft_seat){ .request = request, .rate = model->rate, .n_pause = PAUSE_MIN, .n_rest = PAUSE_MIN };
        if (make_sampler(model, seat))
            return seat;
        seat->request = NULL;
        return NULL;
    }
    return NULL; /* there are as many seats as running requests */
}

static void end_restore(hth_draft_seat *seat)
{
    hth_restore_end(seat->restore);
    hth_lookup_deinit(&seat->lookup);
    free(seat->restored);
    seat->restored = NULL;
    seat->restore = NULL;
    seat->lookup = (hth_lookup){ .n_rows = 0 };
}

/* Count the tokens of the reply in the sequence, and remove the rest. */
static void cut(hth_draft_seat *seat, const hearth_token *tokens, uint32_t n_tokens)
{
    hth_sequence *sequence = seat->entry->sequence;
    uint32_t n = hth_sequence_n_tokens(sequence);

    if (n > n_tokens)
        n = n_tokens;
    while (seat->n_true < n && hth_sequence_token(sequence, seat->n_true) == tokens[seat->n_true])
        seat->n_true++;
    if (seat->n_true > n)
        seat->n_true = n;
    seat->n_true = hth_sequence_shorten(sequence, seat->n_true);
}

/* Save and release the sequence of a seat. */
static void give_up(hth_draft_model *model, hth_draft_seat *seat, const hearth_token *tokens, uint32_t n_tokens)
{
    end_restore(seat);
    if (seat->entry) {
        cut(seat, tokens, n_tokens);
        if (hth_policy_should_save_finish(hth_sequence_n_tokens(seat->entry->sequence), &model->place->policy))
            /* cells that are not saved are computed again */
            (void)hth_sequence_save_end(seat->entry->sequence, HEARTH_SAVE_FINISH);
        hth_pool_release(model->pool, seat->entry, NULL, 0);
    }
    seat->entry = NULL;
    seat->n_true = seat->n_guessed = seat->n_needed = 0;
}

/* Is there room for all tokens of the job, in addition to the sequences of the other seats? */
static bool fits(const hth_draft_model *model, const hth_draft_seat *seat, const hth_draft_job *job)
{
    uint64_t n = (uint64_t)job->n_tokens + HEARTH_DRAFT_MAX;

    for (uint32_t i = 0; i < model->n_seats; i++)
        n += &model->seats[i] == seat ? 0 : model->seats[i].n_needed;
    return n <= model->place->n_ctx;
}

/* Does another seat evaluate more of a prompt with the same beginning? If so, its cells are shared once they exist. */
static bool waits_for_another(const hth_draft_model *model, const hth_draft_seat *seat)
{
    const hth_request *own = seat->request;

    for (uint32_t i = 0; i < model->n_seats; i++) {
        const hth_draft_seat *other = &model->seats[i];
        uint32_t n, n_most;

        if (other == seat || !other->entry || other->n_filled + 1 < model->n_calls)
            continue;
        if (memcmp(other->request->keyspace.fingerprint, own->keyspace.fingerprint, sizeof(own->keyspace.fingerprint)))
            continue;
        n_most = own->n_prompt < other->request->n_prompt ? own->n_prompt : other->request->n_prompt;
        n = hth_tokens_common(own->prompt, other->request->prompt, n_most);
        if (n >= HTH_BLOCK_TOKENS && n > hth_sequence_n_tokens(other->entry->sequence))
            return true;
    }
    return false;
}

/* For a seat that is about to begin: is its prompt cheap enough for the rest of its reply? */
static bool may_pay(const hth_draft_model *model, const hth_draft_seat *seat, const hth_draft_job *job,
                    uint32_t n_known, uint64_t token_ns)
{
    const hth_request *request = seat->request;
    uint64_t n_missing = job->n_tokens > n_known ? job->n_tokens - n_known : 0;
    uint64_t n_written = job->n_tokens - request->n_prompt;
    uint64_t n_rest = request->options.n_predict > 0 && (uint64_t)request->options.n_predict > n_written
                        ? (uint64_t)request->options.n_predict - n_written
                        : model->place->n_ctx;

    return token_ns == 0 || n_missing * model->row_ns <= n_rest * token_ns / REPLY_PART;
}

/* Look up prompt and reply: the sequence begins with shared cells, and rows beyond them are restored. */
static bool begin(hth_draft_model *model, hth_draft_seat *seat, const hth_draft_job *job, uint64_t token_ns)
{
    const hth_request *request = seat->request;
    bool reads = !request->options.no_cache_read;
    hth_keyspace keyspace;
    hth_pool_query query = {
        .keyspace = &keyspace,
        .tokens = job->tokens,
        .n_tokens = job->n_tokens,
        .n_limit = reads ? job->n_tokens - 1 : 0,
    };
    hth_sequence *sequence;
    uint32_t n_live;

    hth_draft_model_keyspace(model->place, &request->keyspace, &keyspace);
    if (hth_pool_assign(model->pool, &query, &seat->entry, &n_live, NULL) != HEARTH_OK)
        return false;
    sequence = seat->entry->sequence;
    if (hth_sequence_lookup(sequence, job->tokens, job->n_tokens, job->n_tokens - 1, reads, &seat->lookup, NULL) !=
        HEARTH_OK) {
        (void)hth_sequence_shorten(sequence, 0); /* its keys belong to a different prompt */
        hth_pool_release(model->pool, seat->entry, NULL, 0);
        seat->entry = NULL;
        return false;
    }
    if (seat->lookup.n_cached > n_live) {
        (void)hth_sequence_shorten(sequence, n_live / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS);
        seat->restored = malloc(job->n_tokens * sizeof(*seat->restored));
        if (seat->restored) { /* if out of memory, there is no restore */
            memcpy(seat->restored, job->tokens, job->n_tokens * sizeof(*seat->restored));
            seat->restore = hth_restore_begin(sequence, &seat->lookup, seat->restored);
        }
    }
    seat->is_out = !may_pay(model, seat, job, seat->restore ? seat->lookup.n_cached : n_live, token_ns);
    if (seat->is_out)
        give_up(model, seat, job->tokens, job->n_tokens);
    else if (!seat->restore)
        end_restore(seat);
    return !seat->is_out;
}

/* Continue a restore; false if it is not finished and continues with the next tick. */
static bool restore(hth_draft_model *model, hth_draft_seat *seat, uint64_t until_ns)
{
    hth_restored restored = { .tier = HEARTH_TIER_NONE };
    hth_restore_result result = HTH_RESTORE_MORE;

    while (seat->restore && result == HTH_RESTORE_MORE) {
        (void)hth_pool_make_room(model->pool, hth_restore_n_cells(seat->restore)); /* otherwise the step ends it */
        result = hth_restore_step(seat->restore, &restored);
        if (result == HTH_RESTORE_MORE && hth_workplace_now(model->place) >= until_ns)
            return false;
    }
    if (seat->restore)
        end_restore(seat); /* lost rows are computed again */
    return true;
}

void hth_draft_model_leave(hth_draft_model *model, hth_draft_seat *seat, const hearth_token *tokens, uint32_t n_tokens)
{
    give_up(model, seat, tokens, n_tokens);
    model->place->backend->sampler_free(seat->sampler);
    *seat = (hth_draft_seat){ .request = NULL };
}

void hth_draft_model_save(hth_draft_model *model, hearth_save_reason reason)
{
    for (uint32_t i = 0; i < model->n_seats; i++)
        if (model->seats[i].entry && !model->seats[i].restore)
            model->seats[i].n_true = hth_sequence_shorten(model->seats[i].entry->sequence, model->seats[i].n_true);
    hth_pool_save(model->pool, reason);
}

void hth_draft_model_forget(hth_draft_model *model, const uint8_t fingerprint[32], const hearth_token *tokens,
                            uint32_t n_tokens, uint32_t n_kept)
{
    hth_pool_forget(model->pool, fingerprint, tokens, n_tokens, n_kept);
}

/* ---- one evaluation ---- */

/* The next save point of the sequence, or the end of its tokens. */
static uint32_t end_of_rows(const hth_draft_job *job, uint32_t begin)
{
    uint32_t end = (begin / HTH_BLOCK_TOKENS + 1) * HTH_BLOCK_TOKENS, n_prompt = job->request->n_prompt;

    if (begin < n_prompt && n_prompt < end)
        end = n_prompt;
    return end < job->n_tokens + job->n ? end : job->n_tokens + job->n;
}

/* Does the sequence of the job lack at most the tokens of a step? */
static bool is_step(const hth_draft_job *job)
{
    return job->n_tokens + job->n - hth_sequence_n_tokens((*job->seat)->entry->sequence) <= STEP_ROWS;
}

/* Write the rows of one job. */
static void add_rows(hth_draft_model *model, hth_draft_job *job)
{
    hth_draft_seat *seat = *job->seat;
    const hth_sequence *sequence = seat->entry->sequence;
    uint32_t begin = hth_sequence_n_tokens(sequence), end = end_of_rows(job, begin);
    uint32_t n_room = model->place->n_batch - model->n_rows;
    bool is_prompt = !is_step(job);

    if (is_prompt && n_room > model->n_left)
        n_room = model->n_left;
    if (end - begin > n_room)
        end = begin + n_room;
    seat->first_row = model->n_rows;
    seat->n_rows = end - begin;
    for (uint32_t i = begin; i < end; i++) {
        hearth_token token = i < job->n_tokens ? job->tokens[i] : job->guess[i - job->n_tokens];

        if ((uint32_t)token >= model->place->n_vocab) { /* the target has more tokens */
            model->n_rows = seat->first_row;
            seat->n_rows = 0;
            seat->is_out = true;
            break;
        }
        model->rows[model->n_rows++] = (hth_batch_row){
            .token = token,
            .position = i,
            .sequence = hth_sequence_id(sequence),
            .wants_logits = i + 1 == job->n_tokens + job->n,
        };
    }
    if (is_prompt)
        model->n_left -= seat->n_rows;
    job->is_open = seat->n_rows > 0; /* otherwise the rest is done in the next tick */
}

/* Evaluate the rows of n_jobs. False if they give no guesses. */
static bool evaluate(hth_draft_model *model, uint32_t n_jobs)
{
    const hth_workplace *place = model->place;
    uint64_t begin_ns = hth_workplace_now(place), spent_ns;
    hth_decode_result result = HTH_DECODE_OK;
    hearth_error err = { .message = "" };
    hearth_status status;

    hth_pool_limit_idle(model->pool, place->idle_cost.cells_max);
    if (!hth_pool_make_room(model->pool, model->n_rows))
        return false;
    status = place->backend->decode(place->context, model->rows, model->n_rows, &result, &err);
    if (status == HEARTH_OK && result == HTH_DECODE_NO_ROOM &&
        hth_pool_make_room(model->pool, hth_cells_n_unheld(hth_pool_cells(model->pool))))
        status = place->backend->decode(place->context, model->rows, model->n_rows, &result, &err);
    if (status != HEARTH_OK) {
        model->is_broken = true;
        hth_warn(place->log, "the draft model failed, and makes no more drafts: %s", err.message);
    }
    if (status != HEARTH_OK || result != HTH_DECODE_OK)
        return false;
    spent_ns = hth_workplace_now(place) - begin_ns;
    if (model->n_rows <= STEP_ROWS * n_jobs)
        hth_move_mean(&model->step_ns, spent_ns);
    if (model->n_rows >= HTH_CHUNK_MIN)
        hth_move_mean(&model->row_ns, spent_ns / model->n_rows + 1);
    return true;
}

/* Save rows that end with the evaluated tokens, as a slot does for the target. */
static void save(const hth_draft_seat *seat, const hth_workplace *place)
{
    hth_sequence *sequence = seat->entry->sequence;
    uint32_t n = hth_sequence_n_tokens(sequence), n_prompt = seat->request->n_prompt;

    if (n > n_prompt) {
        if (hth_policy_should_save_finish(n, &place->policy))
            hth_sequence_save_block(sequence, HEARTH_SAVE_CONTINUED);
        return;
    }
    if (n <= hth_policy_cold_save(n_prompt, &place->policy))
        hth_sequence_save_block(sequence, HEARTH_SAVE_COLD);
    if (n == n_prompt && hth_policy_should_save_prompt(n_prompt, &place->policy))
        (void)hth_sequence_save_end(sequence, HEARTH_SAVE_COLD); /* if it fails, it is computed again */
}

/* ---- guesses ---- */

/* The likeliest token. Its probability is relative to the two likeliest tokens only. */
static hearth_token likeliest(const float *logits, uint32_t n_vocab, float *probability_out)
{
    float first = logits[0], second = -HUGE_VALF;
    uint32_t at = 0;

    for (uint32_t i = 1; i < n_vocab; i++) {
        if (logits[i] > first) {
            second = first;
            first = logits[i];
            at = i;
        } else if (logits[i] > second) {
            second = logits[i];
        }
    }
    *probability_out = 1.0f / (1.0f + expf(second - first));
    return (hearth_token)at;
}

static hearth_token draw(const hth_draft_model *model, const hth_draft_seat *seat, const float *logits,
                         uint64_t position, float *probability_out)
{
    hth_sample_at at = { .position = position };
    const hth_candidate *candidates;
    hearth_token token;
    size_t n;

    if (!seat->sampler)
        return likeliest(logits, model->place->n_vocab, probability_out);
    if (model->place->backend->sampler_apply(seat->sampler, logits, &at, &candidates, &n, NULL) != HEARTH_OK)
        return HTH_NO_TOKEN;
    token = hth_draw_token(candidates, n, seat->request->sampling.seed, position);
    for (size_t i = 0; i < n; i++)
        if (candidates[i].token == token)
            *probability_out = candidates[i].probability;
    return token;
}

/* Take the guess from the logits of its last row. The job closes when the next guess would cost more than it saves. */
static void take_guess(hth_draft_model *model, hth_draft_job *job, float price, float step_price)
{
    hth_draft_seat *seat = *job->seat;
    uint32_t at = job->n_tokens + job->n;
    const float *logits = model->place->backend->logits(model->place->context, seat->first_row + seat->n_rows - 1);
    float probability = 0;
    hearth_token token = logits ? draw(model, seat, logits, at, &probability) : HTH_NO_TOKEN;

    job->is_open = false;
    if (token < 0 || (uint32_t)token >= model->options.n_vocab)
        return;
    if (job->n == 0) {
        seat->guessed_at = at;
        if (seat->is_look)
            seat->n_rest = seat->n_pause = seat->n_pause < PAUSE_MAX ? 2 * seat->n_pause : PAUSE_MAX;
    }
    seat->guessed[job->n] = token;
    seat->classes[job->n] = class_of(probability);
    seat->n_guessed = job->n + 1;
    job->all_right *= model->probability[seat->classes[job->n]];
    if (job->all_right <= price)
        return;
    job->right[job->n] = job->all_right;
    job->guess[job->n++] = token;
    job->is_open = job->n < job->n_max && job->all_right * seat->rate > price + step_price;
}

/* Use the results of an evaluation that succeeded. */
static void use(hth_draft_model *model, hth_draft_job *job, float price, float step_price)
{
    hth_draft_seat *seat = *job->seat;
    hth_sequence *sequence = seat->entry->sequence;

    for (uint32_t i = 0; i < seat->n_rows; i++)
        hth_sequence_extend(sequence, &model->rows[seat->first_row + i].token, 1);
    if (hth_sequence_n_tokens(sequence) == job->n_tokens + job->n)
        take_guess(model, job, price, step_price);
    if (hth_sequence_n_tokens(sequence) <= job->n_tokens) {
        seat->n_true = hth_sequence_n_tokens(sequence);
        save(seat, model->place);
    }
}

/* Prepare the sequence of a job for an evaluation. False if it gets no guesses now. */
static bool prepare(hth_draft_model *model, hth_draft_job *job, float cost, uint64_t until_ns, uint64_t token_ns)
{
    hth_draft_seat *seat = *job->seat;

    if (!seat)
        seat = *job->seat = sit(model, job->request);
    if (!seat)
        return false;
    learn(model, seat, job);
    if (seat->is_out || !fits(model, seat, job)) {
        give_up(model, seat, job->tokens, job->n_tokens);
        return false;
    }
    if (!is_worth(model, seat, cost) || (!seat->entry && waits_for_another(model, seat)) ||
        (!seat->entry && !begin(model, seat, job, token_ns)))
        return false;
    seat->n_needed = job->n_tokens + HEARTH_DRAFT_MAX;
    if (!restore(model, seat, until_ns))
        return false;
    cut(seat, job->tokens, job->n_tokens - 1); /* the logits after the last token are needed */
    if (!is_step(job))
        seat->n_filled = model->n_calls;
    return true;
}

/* Rows of prompts in the time that they may take: whole minimal chunks, at least one. */
static uint32_t n_in_time(const hth_draft_model *model, uint64_t slice_ns)
{
    uint64_t n = model->row_ns > 0 ? slice_ns / model->row_ns / HTH_CHUNK_MIN * HTH_CHUNK_MIN : 0;

    return n < HTH_CHUNK_MIN ? HTH_CHUNK_MIN : n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void hth_draft_model_guess(hth_draft_model *model, hth_draft_job *jobs, uint32_t n, float price, uint64_t token_ns)
{
    uint64_t longest_ns = hth_ms_to_ns(model->options.max_tick_ms) / TICK_PART;
    uint64_t slice_ns = token_ns > 0 && token_ns < longest_ns ? token_ns : longest_ns;
    uint64_t until_ns = hth_workplace_now(model->place) + slice_ns;
    float step_price = token_ns > 0 ? (float)model->step_ns / (float)n / (float)token_ns : 0;

    model->n_calls++;
    model->n_left = n_in_time(model, slice_ns);
    for (uint32_t i = 0; i < n; i++) {
        jobs[i].n = 0;
        jobs[i].all_right = 1;
        jobs[i].is_open = !model->is_broken && prepare(model, &jobs[i], price + step_price, until_ns, token_ns);
    }
    for (;;) {
        uint32_t n_open = 0;
        bool is_evaluated;

        model->n_rows = 0;
        for (uint32_t i = 0; i < n; i++) /* replies first, so that a long prompt does not use up their rows */
            if (jobs[i].is_open && is_step(&jobs[i]))
                add_rows(model, &jobs[i]);
        for (uint32_t i = 0; i < n; i++) {
            if (jobs[i].is_open && !is_step(&jobs[i]))
                add_rows(model, &jobs[i]);
            n_open += jobs[i].is_open;
        }
        if (n_open == 0)
            return;
        is_evaluated = evaluate(model, n_open);
        for (uint32_t i = 0; i < n; i++) {
            if (!jobs[i].is_open)
                continue;
            if (is_evaluated)
                use(model, &jobs[i], price, step_price);
            else
                hth_sequence_roll_back((*jobs[i].seat)->entry->sequence);
            jobs[i].is_open &= is_evaluated;
        }
    }
}
