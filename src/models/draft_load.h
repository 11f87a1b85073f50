/*
 * draft_load.h - load a draft model together with its target
 *
 * The steps are those of load.c. The weights are loaded before the target's context is made, because the context's size
 * depends on the remaining memory.
 */
#ifndef HTH_MODELS_DRAFT_LOAD_H
#define HTH_MODELS_DRAFT_LOAD_H

#include "models/fingerprinting.h"
#include "models/runtime.h"
#include "sched/draft_model.h"
#include "sched/batch.h"

typedef struct hth_model_draft hth_model_draft;

/* The model whose replies are drafted. */
typedef struct hth_draft_target {
    const char *name;
    const hth_backend *backend;
    const hth_engine_model *engine_model;
    const hth_engine_model_info *info;
    const hth_fingerprint_options *fingerprint; /* for the file of the draft model, too */
} hth_draft_target;

/*
 * Load the weights of options->draft_model. HEARTH_UNSUPPORTED if it cannot draft for the target, with the reason: the
 * first token that differs, or a kind of model whose sequences cannot be shortened. Other statuses as for
 * hearth_model_load.
 */
hearth_status hth_model_draft_load(hearth_runtime *runtime, const hth_draft_target *target,
                                   const hearth_model_options *options, hth_model_draft **out, hearth_error *err);
void hth_model_draft_unload(hth_model_draft *draft); /* frees its engine part, after the scheduler; accepts NULL */
void hth_model_draft_free(hth_model_draft *draft);   /* accepts NULL */
/* Bytes per cell, to be added to the target's; 0: unknown. */
uint64_t hth_model_draft_cell_bytes(const hth_model_draft *draft);
/* Make its context, of n_ctx tokens unless the options give a size. */
hearth_status hth_model_draft_make_context(hth_model_draft *draft, const hearth_model_options *options, uint32_t n_ctx,
                                           const hth_schedule *schedule, hearth_error *err);
/* The second step: wait for its fingerprint, and open it for the scheduler. target is the target's place. */
hearth_status hth_model_draft_identify(hth_model_draft *draft, const hth_workplace *target,
                                       const hth_schedule *schedule, hth_draft_model **out, hearth_error *err);
/* Make the second step end soon with HEARTH_CANCELLED. Any thread; accepts NULL. */
void hth_model_draft_stop_identifying(hth_model_draft *draft);

const hth_workplace *hth_model_draft_place(const hth_model_draft *draft);

#endif
