/*
 * model.h - what the runtime needs of a model
 */
#ifndef HTH_MODELS_MODEL_H
#define HTH_MODELS_MODEL_H

#include "base/status.h"
#include "engine/backend.h"
#include "models/chat_templates.h"

/*
 * hearth_model_load in two steps, for who has a use for a model that does not take requests yet.
 *
 * After the first, *out is not in the runtime's list. Tokens, templates and hearth_model_info_get work (the fingerprint in
 * it is zeros); nothing else is called but hth_model_identify, once, hth_model_shut_down and hearth_model_unref.
 */
hearth_status hth_model_load_engine(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                                    hearth_model **out, hearth_error *err);
/*
 * Wait for the file's fingerprint and start the scheduler. Blocks for as long as the file is read. Failed, the model
 * stays as it was, to be given back. HEARTH_CANCELLED when it is shut down meanwhile; else as hearth_model_load.
 */
hearth_status hth_model_identify(hearth_model *model, hearth_error *err);

/*
 * Take a reference of a model that is in the runtime's list, unless its last one is being given back. Called with the
 * runtime's list locked, which a dying model takes before it goes.
 */
bool hth_model_try_ref(hearth_model *model);

/* A copy of the model's chat template, released with free; *out is NULL, with HEARTH_OK, where it has none. Any thread. */
hearth_status hth_model_template(hearth_model *model, char **out, hearth_error *err);

/*
 * The control tokens that come before a text, between it and the text that follows, and before what stands between the two.
 * False: the model was not made for that. Any thread.
 */
bool hth_model_fill_tokens(const hearth_model *model, hearth_token out[3]);

/* What the model's file recommends for sampling. Fixed as long as the handle lives. */
void hth_model_advice(const hearth_model *model, hth_sampling_advice *out);

/* The template of ours that its conversations have; NULL: the model's, or one that was given. Likewise. */
const hth_chat_template *hth_model_chat_template(const hearth_model *model);

/* Is a prompt of so many tokens kept for later ones, as far as there is room? Fixed as long as the model is loaded. */
bool hth_model_keeps_prompt(hearth_model *model, size_t n_tokens);

/*
 * End a model's work at once: cancel its requests, save, free the engine's part. The handle stays. Blocks. Accepts NULL.
 */
void hth_model_shut_down(hearth_model *model);
/* Shut down and free a model without references. Blocks; on no scheduler's thread. */
void hth_model_end(hearth_model *model);

#endif
