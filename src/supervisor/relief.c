#include "supervisor/relief.h"

#include <string.h>

enum { NONE = -1 };

typedef enum tier { TIER_ABSENT, TIER_RAM, TIER_RAM_FILE, TIER_MODELS, N_TIERS } tier;

/* The bytes of a model that this tier can free now. */
static uint64_t bytes_in(const hth_relief_model *model, const hth_relief_order *order, tier from)
{
    switch (from) {
    case TIER_ABSENT: return model->keeps_rows || order->drops_rows ? 0 : model->absent_row_bytes;
    case TIER_RAM: return model->may_leave && order->ram_bytes == 0 ? model->ram_bytes : 0;
    case TIER_RAM_FILE: return model->may_leave && order->ram_file_bytes == 0 ? model->ram_file_bytes : 0;
    case TIER_MODELS: /* the two were measured at different times */
        return model->may_leave && !model->stays && !order->leaves && model->model_bytes > order->ram_bytes
                 ? model->model_bytes - order->ram_bytes
                 : 0;
    case N_TIERS: break;
    }
    return 0;
}

/* Was the folder that this model shares with others already ordered to free all that it can? */
static bool is_shared_taken(const hth_relief_model *models, size_t n, const hth_relief_order *orders, size_t i)
{
    for (size_t k = 0; k < n; k++)
        if (models[i].ram_file_folder && models[k].ram_file_folder && orders[k].ram_file_bytes > 0 &&
            strcmp(models[i].ram_file_folder, models[k].ram_file_folder) == 0)
            return true;
    return false;
}

static ptrdiff_t next_in(const hth_relief_model *models, size_t n, const hth_relief_order *orders, tier from)
{
    ptrdiff_t oldest = NONE;

    for (size_t i = 0; i < n; i++)
        if (bytes_in(&models[i], &orders[i], from) > 0 &&
            !(from == TIER_RAM_FILE && is_shared_taken(models, n, orders, i)) &&
            (oldest == NONE || models[i].used_ns < models[oldest].used_ns))
            oldest = (ptrdiff_t)i;
    return oldest;
}

/* Take bytes from a tier of a model, at most `wanted` if the tier can be divided. Returns the number. */
static uint64_t take(const hth_relief_model *model, hth_relief_order *order, tier from, uint64_t wanted)
{
    const uint64_t bytes = bytes_in(model, order, from), part = bytes < wanted ? bytes : wanted;

    if (from == TIER_RAM)
        order->ram_bytes = part;
    else if (from == TIER_RAM_FILE)
        order->ram_file_bytes = part;
    else if (from == TIER_ABSENT)
        order->drops_rows = true;
    else
        order->leaves = true;
    return from == TIER_RAM || from == TIER_RAM_FILE ? part : bytes;
}

uint64_t hth_relief_plan(const hth_relief_model *models, size_t n, uint64_t n_bytes, bool is_device,
                         hth_relief_order *orders)
{
    uint64_t freed = 0;
    ptrdiff_t i;

    memset(orders, 0, n * sizeof(*orders));
    for (size_t k = 0; k < n; k++)
        freed += models[k].coming_bytes;
    for (tier from = is_device ? TIER_MODELS : TIER_ABSENT; from < N_TIERS; from++)
        while (freed < n_bytes && (i = next_in(models, n, orders, from)) != NONE)
            freed += take(&models[i], &orders[i], from, n_bytes - freed);
    return freed;
}
