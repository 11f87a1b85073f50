/*
 * slot.c - one request, step by step
 */
#include "sched/slot.h"

#include <assert.h>
#include <stdlib.h>

#include "base/os.h"
#include "sched/draw.h"
#include "sched/text_stream.h"

enum { PIECE_BYTES_MAX = 4096 };

struct hth_slot {
    const hth_workplace *place;
    hth_sequence *sequence;
    hth_request *request;
    hth_slot_state state;
    hth_text_stream *text;
    bool refused; /* on_text said no */
    hth_engine_sampler *sampler;
    float *saved_logits; /* [n_vocab], where the first token is sampled from a row */
    const float *logits; /* the next token is sampled from these; NULL: none yet */
    uint32_t n_reply_max;
    uint32_t n_saved; /* tokens that the latest row that was saved of the reply covers */
    size_t text_capacity;
    size_t tokens_capacity;
    hearth_result result;
    uint64_t started_ns;
    uint64_t first_token_ns;
};

static double ms_between(uint64_t begin_ns, uint64_t end_ns)
{
    return (double)(end_ns - begin_ns) / 1e6;
}

static bool is_cancelled(const hth_slot *slot)
{
    return atomic_load_explicit(&slot->request->cancelled, memory_order_relaxed);
}

/* ---- the end ---- */

/* False when there is no memory; nothing was appended then. */
static bool append_text(hth_slot *slot, const char *text, size_t n)
{
    hearth_result *result = &slot->result;

    if (!result->text || result->n_bytes + n + 1 > slot->text_capacity) {
        size_t capacity = 2 * (result->n_bytes + n + 1) + 256;
        char *grown = realloc(result->text, capacity);

        if (!grown)
            return false;
        result->text = grown;
        slot->text_capacity = capacity;
    }
    memcpy(result->text + result->n_bytes, text, n);
    result->n_bytes += n;
    result->text[result->n_bytes] = '\0';
    return true;
}

typedef enum emitted { EMITTED, REFUSED, NO_MEMORY } emitted;

/* Hand text to the caller and to the result. */
static emitted emit(hth_slot *slot, const char *text, size_t n)
{
    if (n == 0)
        return EMITTED;
    if (!append_text(slot, text, n))
        return NO_MEMORY;
    if (!slot->request->on_text || slot->request->on_text(slot->request->id, text, n, slot->request->user_data))
        return EMITTED;
    slot->refused = true;
    return REFUSED;
}

static void finish(hth_slot *slot, hearth_finish_reason reason)
{
    hearth_stats *stats = &slot->result.stats;
    uint32_t n_live = hth_sequence_n_tokens(slot->sequence);
    uint64_t now = hth_os_monotonic_ns();
    const char *text = "";
    size_t n = 0;

    /* What is held back belongs to the reply, unless its reader wants no more of it. */
    if (!slot->refused && (!hth_text_stream_finish(slot->text, &text, &n) || emit(slot, text, n) == NO_MEMORY) &&
        slot->result.status == HEARTH_OK) {
        slot->result.status = hth_fail(&slot->result.error, HEARTH_NO_MEMORY, "no memory for the reply's text");
        reason = HEARTH_FINISH_NONE;
    }
    if (hth_policy_should_save_finish(n_live, &slot->place->policy))
        (void)hth_sequence_save_end(slot->sequence, HEARTH_SAVE_FINISH); /* what is not kept is computed again */
    if (n_live > 0) {
        hth_key key;

        hth_sequence_key(slot->sequence, &key);
        memcpy(stats->finish_key, key.bytes, sizeof(stats->finish_key));
    }
    stats->finish_tokens = n_live;
    if (slot->first_token_ns)
        stats->decode_ms = ms_between(slot->first_token_ns, now);
    if (stats->completion_tokens > 1 && stats->decode_ms > 0)
        stats->decode_tps = (stats->completion_tokens - 1) / (stats->decode_ms / 1e3);
    slot->result.finish_reason = reason;
    slot->state = HTH_SLOT_DONE;
}

static void fail(hth_slot *slot, hearth_status status)
{
    slot->result.status = status;
    slot->result.error.status = status;
    finish(slot, status == HEARTH_CANCELLED ? HEARTH_FINISH_CANCELLED : HEARTH_FINISH_NONE);
}

static void cancel(hth_slot *slot)
{
    (void)hth_fail(&slot->result.error, HEARTH_CANCELLED, "the request was cancelled");
    fail(slot, HEARTH_CANCELLED);
}

/* ---- the beginning ---- */

static void report_progress(hth_slot *slot, hearth_phase phase)
{
    if (slot->request->on_progress)
        slot->request->on_progress(slot->request->id, phase, hth_sequence_n_tokens(slot->sequence),
                                   slot->request->n_prompt, slot->request->user_data);
}

static void report_restore(uint32_t n_tokens, void *user_data)
{
    (void)n_tokens; /* the sequence knows it */
    report_progress(user_data, HEARTH_PHASE_RESTORE);
}

enum { RESTORES_MAX = 4 }; /* of one prompt, each after a row of the one before was lost */

/* How many of the prompt's leading tokens the context still has in a form that can be continued. */
static uint32_t live_tokens(const hth_slot *slot, uint32_t n_limit)
{
    const hth_request *request = slot->request;
    uint32_t live =
        request->no_cache_read ? 0 : hth_sequence_common(slot->sequence, request->prompt, request->n_prompt);

    if (hth_sequence_can_be_shortened(slot->sequence))
        return live < n_limit ? live : n_limit;
    return live == hth_sequence_n_tokens(slot->sequence) && live <= n_limit ? live : 0;
}

/* Try to take the first token's logits from their row. */
static bool take_saved_logits(hth_slot *slot, const hth_lookup *lookup, hth_restored *restored)
{
    if (!slot->place->cache || slot->request->no_cache_read)
        return false;
    if (!slot->saved_logits)
        slot->saved_logits = malloc(slot->place->n_vocab * sizeof(float));
    if (!slot->saved_logits || !hth_sequence_restore_logits(slot->sequence, lookup, slot->saved_logits, restored))
        return false;
    slot->logits = slot->saved_logits;
    return true;
}

/*
 * One attempt to bring the longest known prefix of at most *n_limit tokens into the sequence: what is still live, then
 * rows. HTH_RESTORE_ROW_LOST asks for another one, with *n_limit as it is then.
 */
static hearth_status try_what_is_known(hth_slot *slot, uint32_t *n_limit, hth_restored *restored,
                                       hth_restore_result *result)
{
    hth_request *request = slot->request;
    hearth_stats *stats = &slot->result.stats;
    uint32_t live = live_tokens(slot, *n_limit);
    hth_lookup lookup = { .n_tokens = 0 };
    uint64_t begin = hth_os_monotonic_ns();
    uint64_t looked_up;
    hearth_status status;

    slot->logits = NULL;
    if (!hth_sequence_can_be_shortened(slot->sequence)) /* else what an earlier attempt restored is live now */
        *restored = (hth_restored){ .tier = HEARTH_TIER_NONE };
    *result = HTH_RESTORE_DONE;
    status = hth_sequence_lookup(slot->sequence, request->prompt, request->n_prompt, *n_limit, !request->no_cache_read,
                                 &lookup, &slot->result.error);
    if (status != HEARTH_OK) {
        (void)hth_sequence_shorten(slot->sequence, 0); /* what lives there is another request's, its keys too */
        return status;
    }
    memcpy(stats->prompt_key, lookup.prompt_key.bytes, sizeof(stats->prompt_key));
    looked_up = hth_os_monotonic_ns();
    stats->lookup_ms += ms_between(begin, looked_up);

    /* The state after the last token is of use with its logits only, where it cannot go back by one token. */
    if ((live == request->n_prompt || lookup.n_cached == request->n_prompt) &&
        !take_saved_logits(slot, &lookup, restored) && !hth_sequence_can_be_shortened(slot->sequence)) {
        *n_limit = request->n_prompt - 1;
        *result = HTH_RESTORE_ROW_LOST;
        goto out;
    }
    /*
     * Rows go on where live cells end at a block boundary. When they reach further than the live cells, those are cut
     * back to the boundary; otherwise the live cells are all that is used.
     */
    if (lookup.n_cached > live && live < request->n_prompt)
        live = live / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    live = hth_sequence_shorten(slot->sequence, live);
    if (lookup.n_cached > live)
        *result = hth_sequence_restore(slot->sequence, &lookup, request->prompt, report_restore, slot, restored);
out:
    hth_lookup_deinit(&lookup);
    stats->restore_ms += ms_between(looked_up, hth_os_monotonic_ns());
    return HEARTH_OK;
}

/*
 * The prompt is known, but not the logits after it. Its last token alone, evaluated once more, may differ in rounding
 * from what the chunk that it was part of gave; so with a cache, which promises the same answer warm as cold, all of
 * that chunk is. Without one the sequence is only the last request's, and its last token is enough.
 */
static uint32_t without_last_chunk(const hth_slot *slot, uint32_t n_known)
{
    return slot->place->cache ? (n_known - 1) / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS : n_known - 1;
}

/* Are the parent's rows, or longer ones, among what a lookup finds for the prompt, or its cells in the context? */
static bool parent_is_known(const hth_slot *slot, bool *failed_out)
{
    const hth_request *request = slot->request;
    uint32_t n_live = hth_sequence_n_tokens(slot->sequence);
    hth_lookup lookup;
    bool known;

    *failed_out = false;
    if (n_live > 0 && hth_sequence_common(slot->sequence, request->prompt, request->n_prompt) == n_live) {
        hth_key key;

        hth_sequence_key(slot->sequence, &key);
        if (memcmp(key.bytes, request->parent_key, sizeof(key.bytes)) == 0)
            return true;
    }
    if (hth_sequence_peek(slot->sequence, request->prompt, request->n_prompt, &lookup, NULL) != HEARTH_OK) {
        *failed_out = true; /* no memory: the real lookup says so */
        return false;
    }
    known = lookup.n_cached == request->n_prompt;
    for (size_t i = lookup.n_rows; i-- > 0 && !known;)
        known = memcmp(lookup.rows[i].meta.id.key.bytes, request->parent_key, sizeof(request->parent_key)) == 0;
    hth_lookup_deinit(&lookup);
    return known;
}

/*
 * A parent key that is not known yet may name rows that another process is still writing. Wait for them for as long as
 * anything is written at all, at most resume_wait_ms: what is not heard of for a tenth of that time is not coming. Only
 * this request's own lookup decides, so that the wait tells nothing of rows under other salts.
 */
static void await_parent(const hth_slot *slot)
{
    enum { SLICE_MS = 50, QUIET_PART = 10 }; /* a cancel is seen between two slices */
    const hth_request *request = slot->request;
    uint64_t wait_ns = (uint64_t)slot->place->resume_wait_ms * 1000000u;
    uint64_t now = hth_os_monotonic_ns(), end_ns = now + wait_ns;
    uint64_t quiet_end_ns = now + wait_ns / QUIET_PART;

    if (!request->has_parent_key || !slot->place->cache || !hth_cache_is_shared(slot->place->cache) ||
        request->no_cache_read || slot->place->kind == HTH_MODEL_UNCACHED)
        return;
    while (!is_cancelled(slot)) {
        uint32_t seen = hth_cache_changes(slot->place->cache);
        bool failed = false;

        if (parent_is_known(slot, &failed) || failed || now >= end_ns || now >= quiet_end_ns)
            return;
        if (!hth_cache_wait_change(slot->place->cache, seen, SLICE_MS)) {
            now = hth_os_monotonic_ns();
            continue;
        }
        now = hth_os_monotonic_ns();
        quiet_end_ns = now + wait_ns / QUIET_PART;
    }
}

/*
 * Bring the longest known prefix into the sequence. Sets cached_tokens, hit and tier. At least one prompt token is left
 * to evaluate unless the logits after the prompt are saved.
 */
static hearth_status use_what_is_known(hth_slot *slot)
{
    hth_request *request = slot->request;
    hearth_stats *stats = &slot->result.stats;
    hth_restored restored = { .tier = HEARTH_TIER_NONE };
    hth_restore_result result = HTH_RESTORE_ROW_LOST;
    uint32_t n_limit = request->n_prompt;
    uint32_t n_known;

    for (int i = 0; i < RESTORES_MAX && result == HTH_RESTORE_ROW_LOST; i++) {
        hearth_status status = try_what_is_known(slot, &n_limit, &restored, &result);

        if (status != HEARTH_OK)
            return status;
    }
    if (result != HTH_RESTORE_DONE && !hth_sequence_can_be_shortened(slot->sequence))
        (void)hth_sequence_shorten(slot->sequence, 0);
    n_known = hth_sequence_n_tokens(slot->sequence);
    if (n_known < request->n_prompt)
        slot->logits = NULL;
    else if (!slot->logits)
        n_known = hth_sequence_shorten(slot->sequence, without_last_chunk(slot, n_known));

    stats->cached_tokens = n_known;
    stats->rows_restored = restored.n_rows;
    stats->restored_bytes = restored.n_bytes;
    stats->tier = restored.tier != HEARTH_TIER_NONE ? restored.tier : n_known > 0 ? HEARTH_TIER_LIVE : HEARTH_TIER_NONE;
    if (n_known == 0)
        stats->hit = HEARTH_HIT_NONE;
    else if (slot->logits)
        stats->hit = HEARTH_HIT_EXACT;
    else if (stats->tier == HEARTH_TIER_LIVE)
        stats->hit = HEARTH_HIT_LIVE;
    else
        stats->hit = HEARTH_HIT_PREFIX;
    if (n_known == 0)
        stats->tier = HEARTH_TIER_NONE;
    if (request->has_parent_key && n_known > 0 && stats->hit != HEARTH_HIT_EXACT) {
        hth_key key;

        hth_sequence_key(slot->sequence, &key);
        if (memcmp(key.bytes, request->parent_key, sizeof(request->parent_key)) == 0)
            stats->hit = HEARTH_HIT_RESUME;
    }
    return HEARTH_OK;
}

static hearth_status make_sampler(hth_slot *slot)
{
    const hth_backend *backend = slot->place->backend;
    const hth_request *request = slot->request;
    uint32_t n_recent =
        request->sampling.repeat_last_n < request->n_prompt ? request->sampling.repeat_last_n : request->n_prompt;
    hearth_status status =
        backend->sampler_new(slot->place->engine_model, &request->sampling, &slot->sampler, &slot->result.error);

    for (uint32_t i = request->n_prompt - n_recent; status == HEARTH_OK && i < request->n_prompt; i++)
        status = backend->sampler_accept(slot->sampler, request->prompt[i], false, &slot->result.error);
    return status;
}

hearth_status hth_slot_start(const hth_workplace *workplace, hth_sequence *sequence, hth_request *request,
                             hth_slot **out, hearth_error *err)
{
    hth_slot *slot = calloc(1, sizeof(*slot));
    uint32_t room;
    hearth_status status;

    if (slot)
        slot->text = hth_text_stream_new((const char *const *)request->stop, request->n_stop);
    if (!slot || !slot->text || !append_text(slot, "", 0)) { /* an empty reply is an empty text, not a missing one */
        hth_slot_free(slot);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to run a request");
    }
    slot->place = workplace;
    slot->sequence = sequence;
    slot->request = request;
    slot->state = HTH_SLOT_PREFILL;
    slot->started_ns = hth_os_monotonic_ns();
    slot->result.stats.prompt_tokens = request->n_prompt;
    slot->result.stats.queue_ms = ms_between(request->submitted_ns, slot->started_ns);

    /* The last token of a reply needs no cell: nothing is evaluated after it. */
    assert(request->n_prompt <= workplace->n_ctx);
    room = workplace->n_ctx - request->n_prompt + 1;
    slot->n_reply_max =
        request->n_predict < 0 || (uint32_t)request->n_predict > room ? room : (uint32_t)request->n_predict;
    *out = slot;

    status = hth_sequence_set_fingerprint(
        sequence, request->has_salt ? request->fingerprint : workplace->keyspace.fingerprint, &slot->result.error);
    if (status == HEARTH_OK) {
        await_parent(slot);
        status = use_what_is_known(slot);
    }
    if (status == HEARTH_OK)
        status = make_sampler(slot);
    if (status != HEARTH_OK)
        fail(slot, status);
    else if (slot->logits)
        slot->state = HTH_SLOT_GENERATE;
    slot->n_saved = request->n_prompt;
    if (slot->state == HTH_SLOT_GENERATE && slot->n_reply_max == 0)
        finish(slot, HEARTH_FINISH_LENGTH);
    return HEARTH_OK;
}

/* ---- prefill ---- */

/* Evaluate tokens; false when that ended the request. *result is then meaningless, else OK or NO_ROOM. */
static bool evaluate(hth_slot *slot, const hearth_token *tokens, uint32_t n, bool wants_logits,
                     hth_decode_result *result)
{
    hearth_status status =
        hth_sequence_evaluate(slot->sequence, tokens, n, wants_logits, &slot->logits, result, &slot->result.error);

    if (status != HEARTH_OK)
        fail(slot, status);
    else if (*result == HTH_DECODE_ABORTED)
        cancel(slot);
    return slot->state != HTH_SLOT_DONE;
}

/* The prompt's end: keep what makes the next exact hit need no evaluation at all. */
static void prompt_is_evaluated(hth_slot *slot)
{
    if (hth_policy_should_save_prompt(slot->request->n_prompt, &slot->place->policy) &&
        hth_sequence_save_end(slot->sequence, HEARTH_SAVE_COLD))
        hth_sequence_save_logits(slot->sequence, slot->logits, HEARTH_SAVE_COLD);
    slot->n_saved = slot->request->n_prompt;
    slot->state = HTH_SLOT_GENERATE;
    if (slot->n_reply_max == 0)
        finish(slot, HEARTH_FINISH_LENGTH);
}

static void step_prefill(hth_slot *slot)
{
    const hth_request *request = slot->request;
    uint32_t begin = hth_sequence_n_tokens(slot->sequence);
    uint32_t end = (begin / HTH_BLOCK_TOKENS + 1) * HTH_BLOCK_TOKENS;
    uint64_t begin_ns = hth_os_monotonic_ns();
    hth_decode_result result = HTH_DECODE_OK;
    bool is_last, evaluated;

    if (end > request->n_prompt)
        end = request->n_prompt;
    if (end - begin > slot->place->n_batch)
        end = begin + slot->place->n_batch;
    is_last = end == request->n_prompt;
    evaluated = evaluate(slot, request->prompt + begin, end - begin, is_last, &result);
    slot->result.stats.prefill_ms += ms_between(begin_ns, hth_os_monotonic_ns());
    slot->result.stats.n_prefill_evaluations++;
    if (!evaluated)
        return;
    if (result == HTH_DECODE_NO_ROOM) {
        fail(slot, hth_fail(&slot->result.error, HEARTH_ENGINE, "no room for %u prompt tokens in a context of %u",
                            request->n_prompt, slot->place->n_ctx));
        return;
    }
    if (end <= hth_policy_cold_save(request->n_prompt, &slot->place->policy))
        hth_sequence_save_block(slot->sequence, HEARTH_SAVE_COLD);
    report_progress(slot, HEARTH_PHASE_PREFILL);
    if (is_last)
        prompt_is_evaluated(slot);
}

/* ---- generation ---- */

static hearth_status choose(hth_slot *slot, hearth_token *out)
{
    hth_sample_at at = { .position = (uint64_t)slot->request->n_prompt + slot->result.stats.completion_tokens };
    const hth_candidate *candidates;
    size_t n;
    hearth_status status =
        slot->place->backend->sampler_apply(slot->sampler, slot->logits, &at, &candidates, &n, &slot->result.error);

    if (status != HEARTH_OK)
        return status;
    *out = hth_draw_token(candidates, n, slot->request->sampling.seed,
                          (uint64_t)slot->request->n_prompt + slot->result.stats.completion_tokens);
    return slot->place->backend->sampler_accept(slot->sampler, *out, true, &slot->result.error);
}

static bool append_token(hth_slot *slot, hearth_token token)
{
    hearth_result *result = &slot->result;

    if (result->stats.completion_tokens == slot->tokens_capacity) {
        size_t capacity = 2 * slot->tokens_capacity + 64;
        hearth_token *grown = realloc(result->tokens, capacity * sizeof(*grown));

        if (!grown)
            return false;
        result->tokens = grown;
        slot->tokens_capacity = capacity;
    }
    result->tokens[result->stats.completion_tokens++] = token;
    return true;
}

/* Stamp the times of the first two tokens. */
static void note_token_time(hth_slot *slot)
{
    uint64_t now = hth_os_monotonic_ns();
    hearth_stats *stats = &slot->result.stats;

    if (stats->completion_tokens == 1) {
        slot->first_token_ns = now;
        stats->ttft_ms = ms_between(slot->request->submitted_ns, now);
    } else if (stats->completion_tokens == 2) {
        stats->second_token_ms = ms_between(slot->request->submitted_ns, now);
    }
}

/* Sample and emit one token; true when it is to be evaluated for the next one. */
static bool generate_token(hth_slot *slot, hearth_token *token_out)
{
    char piece[PIECE_BYTES_MAX];
    const char *text;
    size_t n_piece = 0, n_text;
    bool stopped = false;
    hearth_token token;
    hearth_status status = choose(slot, &token);

    if (status != HEARTH_OK) {
        fail(slot, status);
        return false;
    }
    if (!append_token(slot, token)) {
        fail(slot, hth_fail(&slot->result.error, HEARTH_NO_MEMORY, "no memory for the reply"));
        return false;
    }
    note_token_time(slot);
    if (!slot->request->ignore_eos && slot->place->backend->is_end(slot->place->engine_model, token)) {
        finish(slot, HEARTH_FINISH_STOP);
        return false;
    }
    status = slot->place->backend->piece(slot->place->engine_model, token, false, piece, sizeof(piece), &n_piece,
                                         &slot->result.error);
    if (status != HEARTH_OK) {
        fail(slot, status);
        return false;
    }
    if (!hth_text_stream_feed(slot->text, piece, n_piece, &text, &n_text, &stopped)) {
        fail(slot, hth_fail(&slot->result.error, HEARTH_NO_MEMORY, "no memory for the reply's text"));
        return false;
    }
    switch (emit(slot, text, n_text)) {
    case EMITTED: break;
    case REFUSED: cancel(slot); return false;
    case NO_MEMORY:
        fail(slot, hth_fail(&slot->result.error, HEARTH_NO_MEMORY, "no memory for the reply's text"));
        return false;
    }
    if (stopped) {
        finish(slot, HEARTH_FINISH_STOP);
        return false;
    }
    if (slot->result.stats.completion_tokens >= slot->n_reply_max) {
        finish(slot, HEARTH_FINISH_LENGTH);
        return false;
    }
    *token_out = token;
    return true;
}

/* Save a growing reply: each block when it is full, and in between where the policy asks for shorter intervals. */
static void save_continued(hth_slot *slot)
{
    const hth_policy *policy = &slot->place->policy;
    uint32_t n_live = hth_sequence_n_tokens(slot->sequence);

    if (!hth_policy_should_save_finish(n_live, policy))
        return;
    hth_sequence_save_block(slot->sequence, HEARTH_SAVE_CONTINUED);
    if (n_live % HTH_BLOCK_TOKENS == 0) {
        slot->n_saved = n_live;
    } else if (policy->continued_interval < HTH_BLOCK_TOKENS &&
               hth_policy_should_save_continued(n_live, slot->n_saved, policy)) {
        (void)hth_sequence_save_end(slot->sequence, HEARTH_SAVE_CONTINUED); /* the next one comes soon */
        slot->n_saved = n_live;
    }
}

static void step_generate(hth_slot *slot)
{
    hth_decode_result result = HTH_DECODE_OK;
    hearth_token token;

    if (!generate_token(slot, &token))
        return;
    slot->result.stats.n_decode_evaluations++;
    if (!evaluate(slot, &token, 1, true, &result))
        return;
    if (result == HTH_DECODE_NO_ROOM) {
        finish(slot, HEARTH_FINISH_LENGTH);
        return;
    }
    save_continued(slot);
}

void hth_slot_step(hth_slot *slot)
{
    if (slot->state == HTH_SLOT_DONE)
        return;
    if (is_cancelled(slot))
        cancel(slot);
    else if (slot->state == HTH_SLOT_PREFILL)
        step_prefill(slot);
    else
        step_generate(slot);
}

hth_slot_state hth_slot_state_of(const hth_slot *slot)
{
    return slot->state;
}

const hearth_result *hth_slot_result(hth_slot *slot)
{
    return &slot->result;
}

void hth_slot_progress(const hth_slot *slot, uint32_t *n_done_out, uint32_t *n_total_out)
{
    bool prefilling = slot->state == HTH_SLOT_PREFILL;

    *n_done_out = prefilling ? hth_sequence_n_tokens(slot->sequence) : slot->result.stats.completion_tokens;
    *n_total_out = prefilling ? slot->request->n_prompt : slot->n_reply_max;
}

void hth_slot_free(hth_slot *slot)
{
    if (!slot)
        return;
    if (slot->sampler)
        slot->place->backend->sampler_free(slot->sampler);
    hth_text_stream_free(slot->text);
    free(slot->saved_logits);
    hearth_result_free(&slot->result);
    free(slot);
}
