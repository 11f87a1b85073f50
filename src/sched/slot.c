/*
 * slot.c - begin, restore, evaluate, draft, preempt, save, end
 */
#include "sched/slot.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/os.h"
#include "base/smaller.h"
#include "cache/why.h"
#include "sched/logprobs.h"
#include "sched/strategy.h"
#include "sched/text_stream.h"

enum {
    RESTORES_MAX = 4,     /* attempts for one prompt; each follows the loss of a row */
    REPLY_EXPECTED = 512, /* tokens of a reply, unless the request asks for fewer */
};

static hearth_stats *stats_of(const hth_slot *slot)
{
    return &slot->reply->result->stats;
}

bool hth_slot_is_cancelled(const hth_slot *slot)
{
    return atomic_load_explicit(&slot->request->cancelled, memory_order_relaxed);
}

bool hth_slot_lingers(const hth_slot *slot)
{
    return atomic_load_explicit(&slot->request->linger_until_ns, memory_order_relaxed) > 0;
}

bool hth_slot_is_paused(const hth_slot *slot)
{
    return atomic_load_explicit(&slot->request->paused, memory_order_relaxed) != 0;
}

bool hth_slot_waits_for_reader(const hth_slot *slot)
{
    return hth_slot_is_paused(slot) && (slot->was_prefilled || slot->state == HTH_SLOT_DELIVER);
}

/* ---- making ---- */

static void drop_saved_logits(hth_slot *slot)
{
    free(slot->saved_logits);
    slot->saved_logits = NULL;
}

void hth_slot_free(hth_slot *slot)
{
    if (!slot)
        return;
    assert(!slot->entry);
    assert(!slot->seat);
    hth_restore_end(slot->restore);
    hth_lookup_deinit(&slot->lookup);
    hth_draft_free(slot->draft);
    hth_reply_free(slot->reply);
    drop_saved_logits(slot);
    free(slot->tokens);
    hth_request_free(slot->request);
    free(slot);
}

hearth_status hth_slot_new(const hth_workplace *workplace, hth_request *request, const hearth_sampling *sampling,
                           const hth_slot *like, hth_slot **out, hearth_error *err)
{
    hth_slot *slot = calloc(1, sizeof(*slot));
    hearth_status status;

    if (!slot)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to run a request");
    slot->place = workplace;
    slot->n_saved = request->n_prompt;
    request->submitted_ns = hth_workplace_now(workplace);
    status = hth_reply_new(workplace, request, sampling, like ? like->reply : NULL, &slot->reply, err);
    if (status != HEARTH_OK) {
        free(slot);
        return status;
    }
    slot->request = request;
    *out = slot;
    return HEARTH_OK;
}

/* Copy prompt and reply into tokens, with room for the expected tokens. False if out of memory. */
static bool gather_tokens(hth_slot *slot)
{
    uint32_t n_reply = hth_reply_n_tokens(slot->reply);
    uint32_t n = slot->request->n_prompt + n_reply;
    hearth_token *grown =
        hth_grown_by(slot->tokens, 0, hth_slot_n_expected(slot) + 1, &slot->tokens_capacity, sizeof(*grown));

    if (!grown)
        return false;
    slot->tokens = grown;
    memcpy(slot->tokens, slot->request->prompt, slot->request->n_prompt * sizeof(*slot->tokens));
    for (uint32_t i = 0; i < n_reply; i++)
        slot->tokens[slot->request->n_prompt + i] = slot->reply->result->tokens[i];
    slot->n_tokens = n;
    return true;
}

uint32_t hth_slot_n_limit(const hth_slot *slot)
{
    return slot->request->n_prompt + hth_reply_n_tokens(slot->reply) - (hth_reply_n_tokens(slot->reply) > 0);
}

bool hth_slot_may_read(const hth_slot *slot)
{
    const hth_request *request = slot->request;

    if (request->options.prompt_logprobs && !slot->was_prefilled)
        return false;
    return !request->options.no_cache_read || slot->has_begun; /* may use cells that it computed itself */
}

hth_pool_query hth_slot_pool_query(const hth_slot *slot)
{
    uint32_t n_reply = hth_reply_n_tokens(slot->reply);

    /* Before the first hth_slot_begin the query has the prompt only; replayed tokens are compared later. */
    return (hth_pool_query){
        .keyspace = &slot->request->keyspace,
        .tokens = slot->tokens ? slot->tokens : slot->request->prompt,
        .n_tokens = slot->tokens ? slot->request->n_prompt + n_reply : slot->request->n_prompt,
        .n_limit = hth_slot_may_read(slot) ? hth_slot_n_limit(slot) : 0,
        .session = slot->request->options.session_id,
    };
}

uint32_t hth_slot_n_expected(const hth_slot *slot)
{
    uint32_t n_reply = hth_reply_n_tokens(slot->reply);
    uint32_t n_more = slot->reply->n_max - n_reply;
    uint32_t n = slot->request->n_prompt + n_reply + (n_more < REPLY_EXPECTED ? n_more : REPLY_EXPECTED);

    return n < slot->place->n_ctx ? n : slot->place->n_ctx;
}

/* ---- the end ---- */

/* Drop the log probabilities of a prompt that was not evaluated to its end: they are incomplete. */
static void drop_prompt_logprobs(hth_slot *slot)
{
    hth_counted_result *result = slot->reply->result;

    free(result->prompt_logprobs);
    result->shown.prompt_logprobs = result->prompt_logprobs = NULL;
}

void hth_slot_stop(hth_slot *slot, hearth_status status, hearth_finish_reason reason, const char *message)
{
    hth_counted_result *result = slot->reply->result;

    if (!slot->reply->ended && message)
        (void)hth_fail(&result->shown.error, status, "%s", message);
    if (status != HEARTH_OK && !slot->was_prefilled) /* also while the prompt's last logits are read */
        drop_prompt_logprobs(slot);
    hth_reply_end(slot->reply, status, reason);
    slot->state = HTH_SLOT_ENDING;
}

/* The error of the result already has its message. */
static void fail(hth_slot *slot, hearth_status status)
{
    hth_slot_stop(slot, status, HEARTH_FINISH_NONE, NULL);
}

/* End an unfinished restore. Only a sequence that can be shortened keeps its cells. */
static void abandon_restore(hth_slot *slot)
{
    if (slot->restore && !hth_sequence_can_be_shortened(slot->entry->sequence))
        (void)hth_sequence_shorten(slot->entry->sequence, 0);
    hth_restore_end(slot->restore);
    slot->restore = NULL;
    hth_lookup_deinit(&slot->lookup);
    drop_saved_logits(slot);
    slot->logits = NULL;
    if (slot->entry)
        slot->entry->is_partial = false;
}

static void leave_draft_model(hth_slot *slot)
{
    if (slot->seat)
        hth_draft_model_leave(slot->place->draft_model, slot->seat, slot->tokens, slot->n_tokens);
    slot->seat = NULL;
}

static void note_finish_key(hth_slot *slot)
{
    hearth_stats *stats = stats_of(slot);
    hth_sequence *sequence = slot->entry->sequence;
    hth_key key;

    stats->finish_tokens = hth_sequence_n_tokens(sequence);
    if (stats->finish_tokens == 0)
        return;
    hth_sequence_key(sequence, &key);
    memcpy(stats->finish_key, key.bytes, sizeof(stats->finish_key));
}

void hth_slot_release(hth_slot *slot, hth_pool *pool, uint64_t session_until_ns)
{
    if (!slot->entry)
        return;
    leave_draft_model(slot);
    abandon_restore(slot);
    note_finish_key(slot); /* in case it ends while waiting */
    hth_pool_release(pool, slot->entry, slot->request->options.session_id, session_until_ns);
    slot->entry = NULL;
}

void hth_slot_conclude(hth_slot *slot, hth_pool *pool, uint64_t session_until_ns)
{
    hearth_stats *stats = stats_of(slot);
    uint64_t now = hth_workplace_now(slot->place);
    uint32_t n_drawn = stats->completion_tokens - slot->request->options.n_replayed;

    if (!slot->was_prefilled)
        drop_prompt_logprobs(slot);
    hth_reply_flush(slot->reply);
    leave_draft_model(slot);
    if (slot->entry) {
        hth_sequence *sequence = slot->entry->sequence;

        abandon_restore(slot);
        if (hth_policy_should_save_finish(hth_sequence_n_tokens(sequence), &slot->place->policy))
            (void)hth_sequence_save_end(sequence, HEARTH_SAVE_FINISH); /* cells that are not saved are computed again */
        hth_slot_release(slot, pool, session_until_ns);
    } else {
        hth_pool_keep_session(pool, slot->request->keyspace.fingerprint, slot->request->options.session_id,
                              session_until_ns);
    }
    if (slot->reply->first_token_ns)
        stats->decode_ms = hth_ms_between(slot->reply->first_token_ns, now);
    if (n_drawn > 1 && stats->decode_ms > 0)
        stats->decode_tps = (n_drawn - 1) / (stats->decode_ms / 1e3);
    slot->state = HTH_SLOT_DONE;
}

bool hth_slot_save_all(hth_slot *slot)
{
    hth_sequence *sequence;

    if (slot->state != HTH_SLOT_EVALUATE)
        return true; /* it has no cells, or restored ones */
    sequence = slot->entry->sequence;
    hth_sequence_save_block(sequence, HEARTH_SAVE_EVICT);
    return hth_sequence_n_tokens(sequence) == 0 || hth_sequence_save_end(sequence, HEARTH_SAVE_EVICT);
}

void hth_slot_suspend(hth_slot *slot, hth_pool *pool, uint64_t session_until_ns)
{
    hth_slot_release(slot, pool, session_until_ns);
    stats_of(slot)->n_preempted++;
    slot->state = HTH_SLOT_WAITING;
}

/* ---- the beginning ---- */

/* Try to read the logits after the prompt from their row. */
static bool take_saved_logits(hth_slot *slot)
{
    if (!slot->place->cache || slot->request->options.no_cache_read)
        return false;
    if (!slot->saved_logits)
        slot->saved_logits = malloc(slot->place->n_vocab * sizeof(float));
    if (slot->saved_logits &&
        hth_sequence_restore_logits(slot->entry->sequence, &slot->lookup, slot->saved_logits, &slot->restored))
        return true;
    drop_saved_logits(slot);
    return false;
}

static void report_progress(const hth_slot *slot, hearth_phase phase)
{
    const hth_request *request = slot->request;
    uint32_t n = hth_sequence_n_tokens(slot->entry->sequence);

    if (request->options.on_progress && !slot->was_prefilled) /* the cells may include part of a known reply */
        request->options.on_progress(request->id, phase, n < request->n_prompt ? n : request->n_prompt,
                                     request->n_prompt, request->options.user_data);
}

/* Is the next token drawn from the logits after these tokens? Not if the last token is still to be evaluated. */
static bool needs_logits(const hth_slot *slot)
{
    return slot->n_tokens == slot->n_limit;
}

/*
 * Can it release its cells after n_tokens? Cells that other slots hold are not freed by that, and the slot was not
 * admitted for cells of its own to replace them. So there must be spare cells for them.
 */
static bool can_give_up(const hth_slot *slot, uint32_t n_tokens)
{
    return hth_sequence_count_shared(slot->entry->sequence, n_tokens) <= slot->n_spare;
}

/*
 * The prompt is known, but not the logits after it. Returns how many tokens to keep for the evaluation that gives these
 * logits. The last token alone may be rounded differently than in the chunk that it was part of. A cache promises the
 * same reply warm and cold, so with a cache the whole last chunk is evaluated again, if there is room. Without a cache,
 * the last token is enough.
 */
static uint32_t without_last_chunk(const hth_slot *slot, uint32_t n_known)
{
    uint32_t n = (n_known - 1) / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;

    return slot->place->cache && can_give_up(slot, n) ? n : n_known - 1;
}

/*
 * The last chunk is evaluated again: its live cells are released, and its rows are not restored. But if a row of logits
 * existed and could not be read, the rows are restored: they may be damaged or gone as well, and would not be saved
 * again. Returns how many tokens are live.
 */
static uint32_t give_up_last_chunk(hth_slot *slot, uint32_t live)
{
    const uint32_t begin = (slot->n_tokens - 1) / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    const uint32_t n = live > begin ? without_last_chunk(slot, slot->n_tokens) : begin;
    hth_lookup *lookup = &slot->lookup;

    while ((lookup->logits_tier == HEARTH_TIER_NONE || slot->request->on_vector) && lookup->n_rows > 0 &&
           lookup->n_cached > n)
        lookup->n_cached = lookup->rows[--lookup->n_rows].meta.first_position;
    return live > n ? hth_sequence_shorten(slot->entry->sequence, n) : live;
}

/*
 * Try once to get the longest known prefix of at most n_limit tokens into the sequence: live cells, then rows.
 * HTH_RESTORE_ROW_LOST asks for another attempt, perhaps with a smaller n_limit; HTH_RESTORE_MORE: a restore has begun.
 */
static hearth_status attempt(hth_slot *slot, hth_restore_result *result)
{
    hth_sequence *sequence = slot->entry->sequence;
    hth_counted_result *reply = slot->reply->result;
    uint64_t begin = hth_workplace_now(slot->place);
    bool reads = hth_slot_may_read(slot);
    uint32_t live = hth_sequence_n_tokens(sequence);
    bool is_whole;
    hearth_status status;

    if (!hth_sequence_can_be_shortened(sequence)) /* otherwise, cells of an earlier attempt are live now */
        slot->restored = (hth_restored){ .tier = HEARTH_TIER_NONE };
    *result = HTH_RESTORE_DONE;
    hth_lookup_deinit(&slot->lookup);
    status = hth_sequence_lookup(sequence, slot->tokens, slot->n_tokens, slot->n_limit, reads, &slot->lookup,
                                 &reply->shown.error);
    if (status != HEARTH_OK) {
        slot->lookup = (hth_lookup){ .n_tokens = 0 };
        (void)hth_sequence_shorten(sequence, 0); /* its cells and keys are those of an earlier request */
        return status;
    }
    if (!slot->has_begun && slot->n_tokens == slot->request->n_prompt)
        memcpy(reply->stats.prompt_key, slot->lookup.prompt_key.bytes, sizeof(reply->stats.prompt_key));
    reply->stats.lookup_ms += hth_ms_between(begin, hth_workplace_now(slot->place));

    /*
     * All tokens are known, but not the logits, or a vector is wanted, which is never kept. A sequence that cannot be
     * shortened cannot evaluate its end again.
     */
    is_whole = live == slot->n_tokens || slot->lookup.n_cached == slot->n_tokens;
    if (needs_logits(slot) && is_whole &&
        (slot->request->on_vector || (!hth_sequence_end_logits(sequence) && !take_saved_logits(slot)))) {
        slot->lacks_logits = true;
        if (!hth_sequence_can_be_shortened(sequence)) {
            (void)hth_sequence_shorten(sequence, 0);
            slot->n_limit--;
            *result = HTH_RESTORE_ROW_LOST;
            return HEARTH_OK;
        }
        live = give_up_last_chunk(slot, live);
    }
    /*
     * Rows continue at a block boundary. If rows reach further than the live cells, the live cells are cut back to the
     * boundary. Otherwise, or if there is no room for that, only the live cells are used.
     */
    if (slot->lookup.n_cached <= live || !can_give_up(slot, live / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS)) {
        /* A use of live cells counts as a use of the rows that would replace them. */
        if (slot->lookup.n_rows > 0)
            hth_cache_touch(slot->place->cache, &slot->lookup.rows[slot->lookup.n_rows - 1].meta.id, 1);
        return HEARTH_OK;
    }
    (void)hth_sequence_shorten(sequence, live / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS);
    slot->restore = hth_restore_begin(sequence, &slot->lookup, slot->tokens);
    *result = slot->restore ? HTH_RESTORE_MORE : HTH_RESTORE_FAILED;
    slot->entry->is_partial = slot->restore && !hth_sequence_can_be_shortened(sequence);
    return HEARTH_OK;
}

/* Write the hit of the first restore into the statistics. */
static void note_hit(hth_slot *slot, uint32_t n_known)
{
    const hth_request *request = slot->request;
    hearth_stats *stats = stats_of(slot);
    hearth_tier tier = slot->restored.tier;

    stats->cached_tokens = n_known < request->n_prompt ? n_known : request->n_prompt;
    stats->shared_tokens = slot->n_shared < stats->cached_tokens ? slot->n_shared : stats->cached_tokens;
    stats->rows_restored = slot->restored.n_rows;
    stats->restored_bytes = slot->restored.n_bytes;
    stats->tier = n_known == 0 ? HEARTH_TIER_NONE : tier != HEARTH_TIER_NONE ? tier : HEARTH_TIER_LIVE;
    if (n_known == 0)
        stats->hit = HEARTH_HIT_NONE;
    else if (slot->logits || n_known > request->n_prompt)
        stats->hit = HEARTH_HIT_EXACT;
    else if (request->options.parent_key && n_known >= request->n_parent)
        stats->hit = HEARTH_HIT_RESUME;
    else if (stats->tier == HEARTH_TIER_LIVE)
        stats->hit = HEARTH_HIT_LIVE;
    else
        stats->hit = HEARTH_HIT_PREFIX;
}

/* Write the reason for the miss, and where the prompt diverged from the known tokens. */
static void note_miss(hth_slot *slot, uint32_t n_known, hth_restore_result result)
{
    const hth_workplace *place = slot->place;
    const hth_request *request = slot->request;
    hearth_stats *stats = stats_of(slot);
    hth_why_answer why = { .miss = HEARTH_MISS_NONE, .left_at = request->n_prompt };

    if (n_known < request->n_prompt)
        hth_why(place->cache, &request->keyspace, &slot->lookup, &place->policy, slot->tokens, slot->n_tokens, n_known,
                &why);
    if (n_known < slot->lookup.n_cached && result == HTH_RESTORE_FAILED)
        why.miss = HEARTH_MISS_REFUSED;
    else if (n_known < request->n_prompt && slot->lacks_logits)
        why = (hth_why_answer){ .miss = HEARTH_MISS_NO_LOGITS, .left_at = request->n_prompt };
    else if (slot->waited_for_parent && n_known < request->n_parent && why.miss == HEARTH_MISS_NEVER_SEEN)
        why.miss = HEARTH_MISS_IN_FLIGHT;
    stats->miss = why.miss;
    stats->left_at = why.left_at < request->n_prompt ? why.left_at : request->n_prompt;
    static_assert(sizeof(stats->left_text) == HTH_TOKEN_TEXT_BYTES, "the public struct has room for the text");
    if (stats->left_at < request->n_prompt)
        hth_token_text(place->backend, place->engine_model, request->prompt[stats->left_at], stats->left_text);
}

/*
 * Report the tokens that need no prefill before the first token, even if they came without a restore, or if a reported
 * restore gave fewer in the end.
 */
static void tell_known(const hth_slot *slot)
{
    const hth_request *request = slot->request;
    uint32_t n_cached = slot->reply->result->stats.cached_tokens;

    if (request->options.on_progress && (n_cached > 0 || slot->has_reported_restore))
        request->options.on_progress(request->id, HEARTH_PHASE_RESTORE, n_cached, request->n_prompt,
                                     request->options.user_data);
}

/* The known prefix is in the sequence: evaluate the rest. */
static void begun(hth_slot *slot, hth_restore_result result)
{
    hth_sequence *sequence = slot->entry->sequence;
    uint32_t n_known = hth_sequence_n_tokens(sequence);

    slot->logits = NULL;
    if (n_known == slot->n_tokens && slot->saved_logits)
        hth_sequence_keep_logits(sequence, slot->saved_logits);
    drop_saved_logits(slot);
    if (n_known == slot->n_tokens && needs_logits(slot) && !slot->request->on_vector)
        slot->logits = hth_sequence_end_logits(sequence);
    if (n_known == slot->n_tokens && !slot->logits)
        n_known = hth_sequence_shorten(sequence, without_last_chunk(slot, n_known));
    if (!slot->has_begun) {
        note_hit(slot, n_known);
        note_miss(slot, n_known, result);
        tell_known(slot);
    }
    hth_lookup_deinit(&slot->lookup);
    slot->has_begun = true;
    slot->state = HTH_SLOT_EVALUATE;
    report_progress(slot, HEARTH_PHASE_PREFILL); /* once, even for a fully known prompt */
    if (n_known >= slot->request->n_prompt)
        slot->was_prefilled = true;
    if (slot->reply->n_max == 0 && slot->was_prefilled)
        hth_slot_stop(slot, HEARTH_OK, HEARTH_FINISH_LENGTH, NULL);
    if (slot->reply->was_whole) /* the statistics are complete, and nothing is left to do */
        slot->state = HTH_SLOT_ENDING;
}

/* Repeat attempts until one succeeds or begins a restore. */
static void attempt_all(hth_slot *slot)
{
    hth_restore_result result = HTH_RESTORE_ROW_LOST;

    while (result == HTH_RESTORE_ROW_LOST && slot->n_attempts++ < RESTORES_MAX) {
        hearth_status status = attempt(slot, &result);

        if (status != HEARTH_OK) {
            fail(slot, status);
            return;
        }
    }
    if (result == HTH_RESTORE_MORE) {
        slot->state = HTH_SLOT_RESTORE;
        return;
    }
    if (result != HTH_RESTORE_DONE && !hth_sequence_can_be_shortened(slot->entry->sequence))
        (void)hth_sequence_shorten(slot->entry->sequence, 0);
    begun(slot, result);
}

bool hth_slot_tell(hth_slot *slot, uint32_t *n_tokens)
{
    if (slot->reply->is_delivered)
        return true;
    if (slot->state != HTH_SLOT_DELIVER)
        hth_reply_reserve(slot->reply);
    slot->state = HTH_SLOT_DELIVER;
    slot->tells = true;
    *n_tokens -= hth_reply_tell(slot->reply, hth_slot_is_paused(slot) ? 0 : *n_tokens);
    if (slot->reply->ended && !slot->reply->was_whole)
        slot->state = HTH_SLOT_ENDING;
    return slot->state == HTH_SLOT_DELIVER && slot->reply->is_delivered;
}

void hth_slot_begin(hth_slot *slot, hth_pool *pool)
{
    hth_counted_result *result = slot->reply->result;
    hth_pool_query query;
    hearth_status status;

    if (!gather_tokens(slot)) {
        (void)hth_fail(&result->shown.error, HEARTH_NO_MEMORY, "no memory for %u tokens", hth_slot_n_expected(slot));
        fail(slot, HEARTH_NO_MEMORY);
        return;
    }
    slot->n_room = hth_slot_n_expected(slot);
    query = hth_slot_pool_query(slot);
    status = hth_pool_assign(pool, &query, &slot->entry, &slot->n_shared, &result->shown.error);
    if (status != HEARTH_OK) {
        fail(slot, status);
        return;
    }
    slot->n_limit = hth_slot_n_limit(slot);
    slot->restored = (hth_restored){ .tier = HEARTH_TIER_NONE };
    slot->n_attempts = 0;
    attempt_all(slot);
}

void hth_slot_restore(hth_slot *slot, hth_pool *pool, uint64_t until_ns)
{
    uint64_t begin = hth_workplace_now(slot->place);
    hth_restore_result result = HTH_RESTORE_MORE;

    assert(slot->state == HTH_SLOT_RESTORE);
    while (result == HTH_RESTORE_MORE) {
        (void)hth_pool_make_room(pool, hth_restore_n_cells(slot->restore)); /* otherwise the step ends the restore */
        result = hth_restore_step(slot->restore, &slot->restored);
        if (result == HTH_RESTORE_MORE && !slot->has_begun) { /* not for later restores */
            report_progress(slot, HEARTH_PHASE_RESTORE);
            slot->has_reported_restore = true;
        }
        if (result == HTH_RESTORE_MORE && (hth_slot_is_cancelled(slot) || hth_workplace_now(slot->place) >= until_ns))
            break;
    }
    stats_of(slot)->restore_ms += hth_ms_between(begin, hth_workplace_now(slot->place));
    if (result == HTH_RESTORE_MORE)
        return;
    hth_restore_end(slot->restore);
    slot->restore = NULL;
    slot->entry->is_partial = false;
    if (result == HTH_RESTORE_ROW_LOST && slot->n_attempts < RESTORES_MAX)
        attempt_all(slot);
    else
        begun(slot, result);
}

/* ---- batches ---- */

/*
 * Evaluating many rows at once gives different bits than single rows. So the known part of a reply is evaluated as it
 * was drawn: a chunk ends at the end of the prompt, and the reply follows token by token. Tokens that were drawn on
 * other machines have other bits here anyway, and a deterministic model has the same bits everywhere: both follow in
 * chunks. Returns the end of the tokens that may be in one chunk with token n_known.
 */
static uint32_t end_of_chunks(const hth_slot *slot, uint32_t n_known)
{
    uint32_t n_prompt = slot->request->n_prompt;

    if (n_known < n_prompt)
        return n_prompt;
    return slot->place->is_deterministic ? slot->n_tokens
                                         : n_prompt + (uint32_t)slot->request->options.n_replayed_elsewhere;
}

hearth_plan_item hth_slot_plan_item(const hth_slot *slot)
{
    uint32_t n_known = hth_sequence_n_tokens(slot->entry->sequence);
    uint32_t end = end_of_chunks(slot, n_known);
    bool is_decode = n_known >= slot->request->n_prompt && (n_known >= end || n_known + 1 == slot->n_tokens);
    uint32_t n_ready = is_decode ? 1 : end - n_known;

    /* The logits of each row take n_vocab numbers, so only a few rows that want logits are evaluated at once. */
    if (hth_slot_wants_prompt_logprobs(slot) && n_ready > HTH_CHUNK_MIN - n_known % HTH_CHUNK_MIN)
        n_ready = HTH_CHUNK_MIN - n_known % HTH_CHUNK_MIN;
    return (hearth_plan_item){
        .struct_size = sizeof(hearth_plan_item),
        .is_decode = is_decode,
        .n_ready = n_ready,
        .position = n_known,
    };
}

void hth_slot_fill_rows(const hth_slot *slot, uint32_t n, hth_batch_row *rows)
{
    const hth_sequence *sequence = slot->entry->sequence;
    uint32_t begin = hth_sequence_n_tokens(sequence);
    bool all = hth_slot_wants_prompt_logprobs(slot) || slot->n_draft > 0;

    for (uint32_t i = 0; i < n; i++) {
        bool is_end = begin + i + 1 == slot->n_tokens;

        rows[i] = (hth_batch_row){
            .token = slot->tokens[begin + i],
            .position = begin + i,
            .sequence = hth_sequence_id(sequence),
            .wants_logits = all || (is_end && !slot->request->on_vector),
            .wants_vector = is_end && slot->request->on_vector,
        };
    }
}

bool hth_slot_wants_prompt_logprobs(const hth_slot *slot)
{
    return slot->request->options.prompt_logprobs && !slot->was_prefilled;
}

/* Allocate the prompt's log probabilities. The first token has none. False if out of memory. */
static bool begin_prompt_logprobs(const hth_slot *slot, hth_counted_result *result)
{
    size_t n_each = 1 + (size_t)result->shown.n_top_logprobs;

    result->prompt_logprobs = calloc(slot->request->n_prompt * n_each, sizeof(*result->prompt_logprobs));
    for (size_t i = 0; result->prompt_logprobs && i < n_each; i++)
        result->prompt_logprobs[i] =
            (hearth_logprob){ .token = i == 0 ? slot->request->prompt[0] : -1, .logprob = NAN };
    result->shown.prompt_logprobs = result->prompt_logprobs;
    return result->prompt_logprobs != NULL;
}

void hth_slot_note_prompt_logits(hth_slot *slot, uint32_t i, const float *logits)
{
    hth_counted_result *result = slot->reply->result;
    uint32_t next = hth_sequence_n_tokens(slot->entry->sequence) + i + 1;

    if (!logits) {
        hth_slot_stop(slot, HEARTH_ENGINE, HEARTH_FINISH_NONE,
                      "the engine computed no logits for a token of the prompt");
        return;
    }
    if (!result->prompt_logprobs && !begin_prompt_logprobs(slot, result)) {
        hth_slot_stop(slot, HEARTH_NO_MEMORY, HEARTH_FINISH_NONE, "no memory for the prompt's log probabilities");
        return;
    }
    if (next < slot->request->n_prompt)
        hth_logprobs(logits, slot->place->n_vocab, slot->request->prompt[next], result->shown.n_top_logprobs,
                     result->prompt_logprobs + next * (1 + (size_t)result->shown.n_top_logprobs));
}

void hth_slot_note_evaluated(hth_slot *slot, uint32_t n, const float *logits, uint64_t begin_ns, uint64_t end_ns)
{
    hth_sequence *sequence = slot->entry->sequence;
    uint32_t n_known = hth_sequence_n_tokens(sequence);
    hearth_stats *stats = stats_of(slot);

    if (slot->was_prefilled) {
        stats->n_decode_evaluations++;
    } else {
        slot->n_evaluated += n;
        stats->n_prefill_evaluations++;
        stats->prefill_ms += hth_ms_between(begin_ns, end_ns);
    }
    hth_sequence_extend(sequence, slot->tokens + n_known, n);
    slot->logits = n_known + n == slot->n_tokens + slot->n_draft ? logits : NULL;
    if (!slot->was_prefilled)
        report_progress(slot, HEARTH_PHASE_PREFILL);
}

void hth_slot_note_broken(hth_slot *slot)
{
    hth_sequence_roll_back(slot->entry->sequence);
    slot->logits = NULL;
}

void hth_slot_draw(hth_slot *slot)
{
    const float *logits = slot->logits, *vector = slot->vector;
    uint32_t n_before = hth_reply_n_tokens(slot->reply);
    hearth_token *grown;

    slot->logits = slot->vector = NULL;
    if ((!logits && !vector) || slot->state != HTH_SLOT_EVALUATE)
        return;
    if (vector)
        slot->request->on_vector(vector, slot->request->options.user_data);
    if (slot->reply->n_max == 0) {
        hth_slot_stop(slot, HEARTH_OK, HEARTH_FINISH_LENGTH, NULL);
        return;
    }
    if (!hth_reply_draw(slot->reply, logits)) {
        slot->state = HTH_SLOT_ENDING;
        return;
    }
    grown = hth_grown(slot->tokens, slot->n_tokens, &slot->tokens_capacity, sizeof(*grown));
    if (!grown) {
        hth_slot_stop(slot, HEARTH_NO_MEMORY, HEARTH_FINISH_NONE, "no memory for the reply");
        return;
    }
    slot->tokens = grown;
    slot->tokens[slot->n_tokens++] = slot->reply->result->tokens[n_before];
}

/* ---- saving ---- */

/* Save the end of the prompt and its logits, so that the next exact hit needs no evaluation. */
static void save_prompt_end(hth_slot *slot, const float *logits, bool keep_logits)
{
    hth_sequence *sequence = slot->entry->sequence;

    if (hth_policy_should_save_prompt(slot->request->n_prompt, &slot->place->policy) &&
        hth_sequence_save_end(sequence, HEARTH_SAVE_COLD) && logits)
        hth_sequence_save_logits(sequence, logits, HEARTH_SAVE_COLD);
    if (keep_logits && logits)
        hth_sequence_keep_logits(sequence, logits);
    slot->n_saved = slot->request->n_prompt;
}

/* Save a growing reply: each full block, and tails in between if the policy asks for shorter intervals. */
static void save_continued(hth_slot *slot)
{
    const hth_policy *policy = &slot->place->policy;
    hth_sequence *sequence = slot->entry->sequence;
    uint32_t n_live = hth_sequence_n_tokens(sequence);

    if (!hth_policy_should_save_finish(n_live, policy))
        return;
    hth_sequence_save_block(sequence, HEARTH_SAVE_CONTINUED);
    if (n_live % HTH_BLOCK_TOKENS == 0) {
        slot->n_saved = n_live;
    } else if (policy->continued_interval < HTH_BLOCK_TOKENS &&
               hth_policy_should_save_continued(n_live, slot->n_saved, policy)) {
        (void)hth_sequence_save_end(sequence, HEARTH_SAVE_CONTINUED); /* after a failure, the next save comes soon */
        slot->n_saved = n_live;
    }
}

void hth_slot_save(hth_slot *slot, const float *logits, bool keep_logits)
{
    hth_sequence *sequence = slot->entry->sequence;
    uint32_t n_live = hth_sequence_n_tokens(sequence);
    uint32_t n_prompt = slot->request->n_prompt;

    if (slot->was_prefilled || n_live > n_prompt) /* a restored prompt, possibly with part of its reply */
        save_continued(slot);
    else if (n_live <= hth_policy_cold_save(n_prompt, &slot->place->policy))
        hth_sequence_save_block(sequence, HEARTH_SAVE_COLD);
    if (slot->was_prefilled || n_live < n_prompt)
        return;
    slot->was_prefilled = true;
    if (n_live == n_prompt)
        save_prompt_end(slot, logits, keep_logits);
}

/* ---- drafts ---- */

/*
 * The draft may only use promised cells. It ends with the reply, and at the end of a block, because a block can be
 * saved only when the sequence ends there.
 */
static uint32_t n_draft_max(const hth_slot *slot)
{
    uint32_t n_reply = slot->reply->n_max - hth_reply_n_tokens(slot->reply);
    uint32_t n_block = HTH_BLOCK_TOKENS - (slot->n_tokens - 1) % HTH_BLOCK_TOKENS;
    uint32_t n_room = slot->n_room > slot->n_tokens ? slot->n_room - slot->n_tokens : 0;

    return hth_smaller(hth_smaller(slot->request->draft_max, n_room), hth_smaller(n_reply, n_block) - 1);
}

/* The source of drafts, updated with all tokens of the reply. NULL if out of memory. */
static hth_draft *source_of(hth_slot *slot)
{
    const hth_request *request = slot->request;
    uint32_t n_prompt = request->n_prompt, n_known;

    if (!slot->draft)
        slot->draft =
            hth_draft_new(request->prompt, n_prompt, request->options.draft_tokens, request->options.n_draft_tokens);
    if (!slot->draft)
        return NULL;
    n_known = n_prompt + hth_draft_n_reply(slot->draft);
    if (hth_draft_append(slot->draft, slot->tokens + n_known, slot->n_tokens - n_known))
        return slot->draft;
    hth_draft_free(slot->draft);
    slot->draft = NULL;
    return NULL;
}

/* May a draft of at most *n_max tokens follow its last token? *n_max is reduced to the room that there is. */
static bool has_room(const hth_slot *slot, uint32_t *n_max)
{
    if (slot->request->draft_max == 0 || !hth_sequence_can_be_shortened(slot->entry->sequence) ||
        !slot->was_prefilled || hth_sequence_n_tokens(slot->entry->sequence) + 1 != slot->n_tokens)
        return false;
    *n_max = hth_smaller(*n_max, n_draft_max(slot));
    return *n_max > 0;
}

static void put(hth_slot *slot, const hearth_token *guess, const float *right, uint32_t n)
{
    hearth_token *grown;

    if (n < slot->request->draft_min)
        return;
    grown = hth_grown_by(slot->tokens, slot->n_tokens, n + 1, &slot->tokens_capacity, sizeof(*grown));
    if (!grown)
        return;
    slot->tokens = grown;
    memcpy(slot->tokens + slot->n_tokens, guess, n * sizeof(*guess));
    memcpy(slot->draft_right, right, n * sizeof(*right));
    slot->n_draft = n;
}

void hth_slot_plan_draft(hth_slot *slot, float least)
{
    hearth_token guess[HEARTH_DRAFT_MAX];
    float right[HEARTH_DRAFT_MAX];
    uint32_t n_max = HEARTH_DRAFT_MAX;
    hth_draft *draft = has_room(slot, &n_max) ? source_of(slot) : NULL;

    if (draft)
        put(slot, guess, right, hth_draft_guess(draft, least, n_max, guess, right));
}

bool hth_slot_draft_job(hth_slot *slot, uint32_t n_max, hth_draft_job *out)
{
    if (!has_room(slot, &n_max) || n_max < slot->request->draft_min)
        return false;
    *out = (hth_draft_job){
        .request = slot->request,
        .seat = &slot->seat,
        .tokens = slot->tokens,
        .n_tokens = slot->n_tokens,
        .n_max = n_max,
        .owner = slot,
    };
    return true;
}

void hth_slot_take_draft(hth_slot *slot, const hth_draft_job *job)
{
    put(slot, job->guess, job->right, job->n);
}

bool hth_slot_has_drawn_draft(const hth_slot *slot, uint32_t i)
{
    const hth_sequence *sequence = slot->entry ? slot->entry->sequence : NULL;
    uint32_t at;

    if (i >= slot->n_draft || slot->state != HTH_SLOT_EVALUATE || hth_slot_is_cancelled(slot) ||
        hth_slot_is_paused(slot))
        return false;
    at = hth_sequence_n_tokens(sequence) - slot->n_draft + i;
    return slot->n_tokens == at + 1 && slot->tokens[at] == hth_sequence_token(sequence, at);
}

void hth_slot_end_draft(hth_slot *slot)
{
    hearth_stats *stats = &slot->reply->result->stats;
    uint32_t n_evaluated, n_keep;

    if (slot->n_draft == 0)
        return;
    n_evaluated = hth_sequence_n_tokens(slot->entry->sequence);
    /* The last drawn token is evaluated next, unless it ended the reply: in that case the slot does not have it. */
    n_keep = slot->n_tokens - (slot->state == HTH_SLOT_EVALUATE);
    stats->draft_tokens += slot->n_draft;
    stats->draft_accepted_tokens += slot->n_draft - (n_evaluated - n_keep);
    slot->n_draft = 0;
    (void)hth_sequence_shorten(slot->entry->sequence, n_keep); /* if the engine refuses, all is computed again */
}
