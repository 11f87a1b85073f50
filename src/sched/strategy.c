/*
 * strategy.c - the built-in strategies, and the check of their plans
 */
#include "sched/strategy.h"

#include <string.h>

#include "base/smaller.h"

/* Tokens of an item up to the next multiple of chunk, or the end of the prompt. */
static uint32_t one_chunk(const hearth_plan_item *item, uint32_t chunk)
{
    return hth_smaller(item->n_ready, chunk - item->position % chunk);
}

/* Assign room to items of one kind in order. Returns the remaining room. */
static uint32_t fill(const hearth_plan_item *items, size_t n, bool decodes, uint32_t room, uint32_t chunk,
                     uint32_t *n_tokens_out)
{
    for (size_t i = 0; i < n && room > 0; i++) {
        uint32_t wanted = decodes ? 1 : one_chunk(&items[i], chunk);

        if (items[i].is_decode != decodes)
            continue;
        n_tokens_out[i] = hth_smaller(wanted, room);
        room -= n_tokens_out[i];
    }
    return room;
}

static uint32_t n_decodes(const hearth_plan_item *items, size_t n)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += items[i].is_decode;
    return count;
}

/* Prompts first. Up to kept tokens of the batch are reserved for replies. */
static void prompts_first(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk, uint32_t kept,
                          uint32_t *n_tokens_out)
{
    uint32_t room = n_batch - hth_smaller(kept, n_decodes(items, n));
    uint32_t unused = fill(items, n, false, room, chunk, n_tokens_out);

    (void)fill(items, n, true, n_batch - room + unused, chunk, n_tokens_out);
}

static void decode_maximal(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk,
                           uint32_t *n_tokens_out, void *user_data)
{
    (void)user_data;
    prompts_first(items, n, n_batch, chunk, n_batch, n_tokens_out);
}

static void prefill_priority(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk,
                             uint32_t *n_tokens_out, void *user_data)
{
    (void)user_data;
    prompts_first(items, n, n_batch, chunk, n_batch < 8 ? 1 : n_batch / 8, n_tokens_out);
}

static void balanced(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk, uint32_t *n_tokens_out,
                     void *user_data)
{
    (void)user_data;
    prompts_first(items, n, n_batch, chunk, (n_batch + 1) / 2, n_tokens_out);
}

static const struct {
    const char *name;
    hearth_strategy_fn plan;
} builtins[] = {
    { "decode_maximal", decode_maximal }, /* the default */
    { "prefill_priority", prefill_priority },
    { "balanced", balanced },
};

bool hth_strategy_builtin(const char *name, hth_strategy *out)
{
    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++)
        if (!name || strcmp(name, builtins[i].name) == 0) {
            *out = (hth_strategy){ .plan = builtins[i].plan };
            memcpy(out->name, builtins[i].name, strlen(builtins[i].name) + 1);
            return true;
        }
    return false;
}

/*
 * The planned tokens of an item that fit into room. A chunk inside a prompt is cut to a multiple of HTH_CHUNK_MIN,
 * unless n_for_prompts, the room without replies, is smaller than that: prompts would otherwise never progress.
 */
static uint32_t sound(const hearth_plan_item *item, uint32_t planned, uint32_t room, uint32_t n_for_prompts,
                      uint32_t chunk)
{
    uint32_t n = hth_smaller(hth_smaller(planned, room), item->is_decode ? 1 : one_chunk(item, chunk));
    uint32_t end;

    if (n == item->n_ready || n_for_prompts < HTH_CHUNK_MIN)
        return n;
    end = (item->position + n) / HTH_CHUNK_MIN * HTH_CHUNK_MIN;
    return end > item->position ? end - item->position : 0;
}

/* The room of the batch without the tokens of the planned replies. */
static uint32_t n_for_prompts(const hearth_plan_item *items, size_t n, uint32_t n_batch, const uint32_t *n_planned)
{
    for (size_t i = 0; i < n && n_batch > 0; i++)
        n_batch -= items[i].is_decode && n_planned[i] > 0;
    return n_batch;
}

void hth_strategy_plan(const hth_strategy *strategy, const hearth_plan_item *items, size_t n, uint32_t n_batch,
                       uint32_t chunk, uint32_t *n_tokens_out)
{
    uint32_t room = n_batch, left;

    memset(n_tokens_out, 0, n * sizeof(*n_tokens_out));
    strategy->plan(items, n, n_batch, chunk, n_tokens_out, strategy->user_data);
    left = n_for_prompts(items, n, n_batch, n_tokens_out);
    for (size_t i = 0; i < n; i++) {
        n_tokens_out[i] = sound(&items[i], n_tokens_out[i], room, left, chunk);
        room -= n_tokens_out[i];
    }
    if (room == n_batch)
        n_tokens_out[0] = sound(&items[0], n_batch, n_batch, n_batch, chunk);
}
