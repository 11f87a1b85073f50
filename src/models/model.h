/*
 * model.h - functions of a model, beyond hearth.h, for the library and the server
 */
#ifndef HTH_MODELS_MODEL_H
#define HTH_MODELS_MODEL_H

#include <stdatomic.h>

#include "base/status.h"
#include "engine/backend.h"
#include "models/chat_templates.h"
#include "sched/embedder.h"
#include "sched/true_tokens.h"

/* Flags for the text of a rendered conversation; see hearth_chat_prompt. */
enum { HTH_TOKENIZE_CHAT = HEARTH_TOKENIZE_SPECIAL | HEARTH_TOKENIZE_BOS };

/*
 * hearth_model_load in two steps. Between them the model can be used, but takes no requests.
 *
 * After the first step, *out is not in the runtime's list. Tokens, templates and hearth_model_info_get work, with a
 * fingerprint of zeros. The only other legal calls are hth_model_identify (once), hth_model_shut_down and
 * hearth_model_unref.
 */
hearth_status hth_model_load_engine(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                                    hearth_model **out, hearth_error *err);
/*
 * The second step: wait for the file's fingerprint and start the scheduler. Blocks while the file is read. After a
 * failure the model is unchanged, and the caller unrefs it. HEARTH_CANCELLED if it is shut down meanwhile; other
 * statuses as for hearth_model_load.
 */
hearth_status hth_model_identify(hearth_model *model, hearth_error *err);

/*
 * A copy of the model's chat template, with U+FFFD for invalid UTF-8, which the caller frees. HEARTH_OK with NULL if it
 * has none. Any thread.
 */
hearth_status hth_model_template(hearth_model *model, char **out, hearth_error *err);
/* The same for the template's capabilities: a JSON object of booleans with llama.cpp's names. */
hearth_status hth_model_template_abilities(hearth_model *model, char **out, hearth_error *err);

/* A text that is a whole prompt. */
typedef struct hth_prompt_source {
    const char *text; /* [n_bytes] */
    size_t n_bytes;
    unsigned flags;         /* HEARTH_TOKENIZE_... */
    const char *cache_salt; /* the request's; NULL: none */
    bool no_cache_read;     /* the history is not read */
    /*
     * The rendered conversation that the text comes from; its plain spans are read as text, and it shares no history
     * with other texts. NULL: none.
     */
    const hearth_chat_prompt *chat;
    const atomic_bool *is_gone; /* true: the client is gone, which returns HEARTH_CANCELLED; NULL: never */
} hth_prompt_source;

typedef struct hth_prompt_tokens {
    hearth_token *tokens; /* [n_tokens], released with free */
    size_t n_tokens;
    hth_prompt_text *text; /* a reference, for hth_submit_held; NULL: no history */
} hth_prompt_tokens;

/* The tokens of a prompt, beginning with those from the history. Statuses as for hearth_tokenize. Any thread. */
hearth_status hth_model_prompt_of_text(hearth_model *model, const hth_prompt_source *source, hth_prompt_tokens *out,
                                       hearth_error *err);
/* The longest beginning of a prompt that the history knows, which *out owns then; zeros: none. Likewise. */
hearth_status hth_model_known_of_text(hearth_model *model, const hth_prompt_source *source, hth_known_text *out,
                                      hearth_error *err);
/*
 * Add what another node knows, of a text with these flags (HEARTH_TOKENIZE_..., HTH_PROMPT_CHAT) and the salt of its
 * requests, to the history. True: it was sound, and not known yet. Any thread.
 */
bool hth_model_learn(hearth_model *model, const char *cache_salt, unsigned flags, const hth_known_text *text);
/*
 * Fill err with HEARTH_TOO_LONG: this many tokens do not fit in the context. The message includes the remedy.
 * n_ctx_train 0: unknown.
 */
hearth_status hth_prompt_too_long(size_t n_tokens, uint32_t n_ctx, uint32_t n_ctx_train, hearth_error *err);
/*
 * HEARTH_TOO_LONG, as above, if a text of n_bytes certainly has more tokens than fit in the context, with their minimum
 * number. HEARTH_OK for a text that is short enough to be tokenized. Any thread.
 */
hearth_status hth_model_check_length(const hearth_model *model, size_t n_bytes, hearth_error *err);
/* hearth_tokenize, but HEARTH_CANCELLED as soon as is_gone (may be NULL) is set. */
hearth_status hth_model_tokenize(hearth_model *model, const char *text, size_t n_bytes, unsigned flags,
                                 const atomic_bool *is_gone, hearth_token *tokens, size_t capacity, size_t *n_out,
                                 hearth_error *err);

/*
 * The control tokens of fill-in-the-middle: before the prefix, before the suffix, and before the text of the gap. False
 * if the model has none. Any thread.
 */
bool hth_model_fill_tokens(const hearth_model *model, hearth_token out[3]);

/* Is speculative drafting on for requests that do not set it? Never changes. Any thread. */
bool hth_model_drafts(const hearth_model *model);
/* Copy the model file's recommendations for sampling. They never change. Any thread. */
void hth_model_advice(const hearth_model *model, hth_sampling_advice *out);

/* The requests that a prefix belongs to: their salt, and the adapters that they name (hearth_request). */
typedef struct hth_prefix_owner {
    const char *cache_salt;
    const hearth_adapter_scale *adapters; /* [n_adapters]; NULL: those of the model */
    size_t n_adapters;
} hth_prefix_owner;

/* The properties of an adapter that stay the same in the next process, whatever its scale is then. */
typedef struct hth_adapter_identity {
    uint32_t id;      /* greater than all ids assigned so far */
    float load_scale; /* from when it was first loaded */
} hth_adapter_identity;

/* hearth_adapter_load for an adapter that an earlier process had; identity NULL: a new one. */
hearth_status hth_model_adapter_load(hearth_model *model, const char *path, const hearth_adapter_options *options,
                                     const hth_adapter_identity *identity, uint32_t *id_out, hearth_error *err);
/*
 * The adapters of requests that name none, with their scales: *n_out of them. With a name, only the adapter of that
 * name, with the scale that it was loaded with or, if that is 0, with 1. False if no adapter has the name, or the model
 * is unloaded.
 */
bool hth_model_adapters(hearth_model *model, const char *name, hearth_adapter_scale out[HTH_ADAPTERS_MAX],
                        size_t *n_out);
/*
 * A digest of the effect of these adapters, [n]; zeros for none. HEARTH_NOT_FOUND, with a message that names the id
 * that is not loaded.
 */
hearth_status hth_model_adapters_digest(hearth_model *model, const hearth_adapter_scale *adapters, size_t n,
                                        uint8_t out[32], hearth_error *err);

/* Does the policy save a prompt of n_tokens, if there is room? Fixed while the model is loaded. Any thread. */
bool hth_model_keeps_prompt(hearth_model *model, size_t n_tokens);

/* A server's terms for a request for embeddings. */
typedef struct hth_embed_terms {
    const atomic_bool *is_gone;    /* true: the request counts as cancelled; NULL: never */
    uint64_t n_values_max;         /* of all its vectors together */
    hth_embed_worked_fn on_worked; /* called with the request's user_data; may be NULL */
    bool counts_answer; /* the vectors count as memory of waiting requests until the last reference is released */
} hth_embed_terms;

/* hearth_embed_submit on these terms, which are copied. HEARTH_MISUSE beyond n_values_max. */
hearth_status hth_embed_submit(hearth_model *model, const hearth_embed_request *request, const hth_embed_terms *terms,
                               uint64_t *id_out, hearth_error *err);
/* Wait until every on_done has returned. The model is not unloaded meanwhile. */
void hth_embed_wait_idle(hearth_model *model);

/*
 * Cancel the model's requests, save, and free the engine part. The handle remains. Blocks. Must not be called on a
 * scheduler's thread. Accepts NULL.
 */
void hth_model_shut_down(hearth_model *model);
/* Shut down and free a model without references. Blocks. Must not be called on a scheduler's thread. */
void hth_model_end(hearth_model *model);

#endif
