/*
 * inside.h - the objects of the stub engine, and the functions that its files call of one another
 */
#ifndef HTH_TEST_STUB_INSIDE_H
#define HTH_TEST_STUB_INSIDE_H

#include "engine/backend.h"
#include "rows/row.h"
#include "sampling/sampler.h"
#include "state/image.h"
#include "stub/script.h"

#define TOKEN_BOS 256
#define TOKEN_EOS 257
#define TOKEN_TURN_BEGIN 258
#define TOKEN_TURN_END 259
#define FIRST_WORD_TOKEN 260

#define N_SEQ_MAX 256

/* Two layers, each 16 values of K and of V in f16. Window models keep the second one in their window only. */
#define N_LAYERS 2
#define ROW_BYTES ((size_t)32)
#define LAYER_BYTES (2 * ROW_BYTES)
#define CELL_BYTES (N_LAYERS * LAYER_BYTES)
#define STATE_BYTES 64       /* recurrent state of a sequence */
#define HTH_STUB_EMBEDDING 8 /* values of a vector */

#define EMPTY_CELL UINT32_MAX

struct hth_engine_model {
    hth_model_kind kind;
    uint32_t n_ctx_train;
    uint32_t top_k; /* UINT32_MAX: it recommends nothing */
    uint32_t cell_bytes;
    uint32_t free_mib;
    uint32_t gpu_mib;      /* 0: it tells no needs */
    uint32_t n_gpu_layers; /* the output counts as one */
    uint32_t n_vocab;
    uint32_t joins_words;
    uint32_t n_defined;
    uint32_t delay_us;
    uint32_t step_us;
    char gate[160];       /* a file; empty: none */
    char reading[160];    /* likewise */
    uint32_t n_window;    /* 0: none */
    uint32_t fills;       /* 1: it can be asked for what stands between two texts */
    uint32_t encoder;     /* 1: it does not generate */
    uint32_t embeds;      /* 0: it makes no embeddings */
    uint32_t n_labels;    /* of its classifier; 0: it has none */
    uint32_t errs;        /* one in so many of its tokens is another than those of the model without; 0: none */
    uint32_t other_words; /* 1: the words have other texts */
    uint32_t pairs;       /* 1: a template joins query and document */
    uint32_t n_ctx_short; /* a larger context has other parameters; 0: no such limit */
    bool template_given;
    hth_stub_script *script; /* NULL: none */
    hth_texts *texts;
};

typedef struct cell_owners {
    uint64_t bits[N_SEQ_MAX / 64];
} cell_owners;

typedef struct sequence {
    uint64_t sum;      /* of the digests of its cells: both layers, or the first one of window models */
    uint32_t n_tokens; /* one more than the highest position; 0 when empty */
    uint32_t rest_end; /* one more than the position after which state is; 0: there is none */
    uint32_t last;     /* its last cell, where that cell says so */
    uint8_t state[STATE_BYTES];
} sequence;

struct hth_engine_context {
    const hth_engine_model *model;
    hth_engine_context_params params;
    hth_image_format format;

    uint32_t *positions; /* of cells, [n_ctx]; EMPTY_CELL where there is none */
    cell_owners *owners; /* [n_ctx] */
    uint8_t (*cells)[CELL_BYTES];
    bool *in_window; /* is the window's layer of the cell there? [n_ctx] */
    uint32_t n_used;
    uint32_t first_free; /* no cell below it is free */
    uint32_t n_high;     /* no cell from here on was ever used */

    sequence *sequences; /* [n_seq_max] */
    uint64_t adapters;   /* their change; 0: none */

    size_t n_rows;       /* of the last decode */
    uint32_t *logits_of; /* [n_batch], index into logits; UINT32_MAX where none were asked for */
    float *logits;
    size_t n_logits_rows_max;
    float (*vectors)[HTH_STUB_EMBEDDING]; /* [n_batch], of the rows of the last decode */
    hth_image_layout layout;              /* of the image at hand */
};

/* ---- hash.c ---- */

uint64_t hth_stub_mix(uint64_t x);
uint64_t hth_stub_mix2(uint64_t a, uint64_t b);
uint64_t hth_stub_digest(const uint8_t *bytes, size_t n_bytes);      /* n_bytes: a multiple of 8 */
void hth_stub_expand(uint64_t seed, uint8_t *bytes, size_t n_bytes); /* likewise */

/* ---- model.c: as the functions of hth_backend, but for the first ---- */

const char *hth_stub_kind_name(hth_model_kind kind);
hearth_status hth_stub_model_load(const char *path, const hth_engine_model_params *params, hth_engine_model **out,
                                  hearth_error *err);
void hth_stub_model_free(hth_engine_model *model);
void hth_stub_model_info(const hth_engine_model *model, hth_engine_model_info *out);
void hth_stub_cell_room(const hth_engine_model *model, const char *type_k, const char *type_v, hth_cell_room *out);
hearth_status hth_stub_needs(const hth_engine_model *model, const hth_engine_context_params *params,
                             hth_engine_needs *out, hearth_error *err);
size_t hth_stub_metadata_count(const hth_engine_model *model);
hearth_status hth_stub_metadata_key(const hth_engine_model *model, size_t index, char **out, hearth_error *err);
hearth_status hth_stub_metadata(const hth_engine_model *model, const char *key, char **out, hearth_error *err);

/* ---- adapter.c: as the functions of hth_backend ---- */

hearth_status hth_stub_adapter_load(hth_engine_model *model, const char *path, hth_engine_adapter **out,
                                    hearth_error *err);
void hth_stub_adapter_free(hth_engine_adapter *adapter);
hearth_status hth_stub_embedder_adapters(hth_engine_embedder *embedder, const hth_engine_adapter_use *uses, size_t n,
                                         hearth_error *err);
/* The change of these adapters; 0: none. */
uint64_t hth_stub_adapters_change(const hth_engine_adapter_use *uses, size_t n);
hearth_status hth_stub_adapters_apply(hth_engine_context *context, const hth_engine_adapter_use *uses, size_t n,
                                      hearth_error *err);

/* ---- vocabulary.c: as the functions of hth_backend ---- */

hearth_status hth_stub_tokenize(const hth_engine_model *model, const char *text, size_t n_bytes, unsigned flags,
                                hearth_token *tokens, size_t capacity, size_t *n_out, hth_tokenize_result *result,
                                const hth_tokenize_stop *stop, hearth_error *err);
uint32_t hth_stub_token_bytes_max(void);
hearth_status hth_stub_piece(const hth_engine_model *model, hearth_token token, bool special, char *bytes,
                             size_t capacity, size_t *n_out, hearth_error *err);
bool hth_stub_is_end(const hth_engine_model *model, hearth_token token);
hearth_status hth_stub_token_flags(const hth_engine_model *model, hearth_token token, unsigned *out, hearth_error *err);
/* The vocabulary's texts, for samplers; NULL without memory. The model outlives them. */
hth_texts *hth_stub_texts_new(const hth_engine_model *model);

/* ---- sampling.c: as the function of hth_backend ---- */

hearth_status hth_stub_sampler_new(const hth_engine_model *model, const hearth_sampling *sampling,
                                   hth_engine_sampler **out, hearth_error *err);

/* ---- cells.c ---- */

bool hth_stub_has_cells(const hth_engine_context *context);
bool hth_stub_owns(const hth_engine_context *context, uint32_t cell, uint32_t id);
/* The sequence owns the cell, too; its bytes and position are set. */
void hth_stub_own(hth_engine_context *context, uint32_t cell, uint32_t id);
/* There is one. */
uint32_t hth_stub_take_free_cell(hth_engine_context *context, uint32_t position);
/* A hash of everything that the sequence's next token depends on. */
uint64_t hth_stub_sequence_digest(const hth_engine_context *context, uint32_t id);
/* As the functions of hth_backend. */
hearth_status hth_stub_context_new(hth_engine_model *model, const hth_engine_context_params *params,
                                   hth_engine_context **out, hearth_error *err);
void hth_stub_context_free(hth_engine_context *context);
void hth_stub_context_info(const hth_engine_context *context, hth_engine_context_info *out);
bool hth_stub_seq_remove(hth_engine_context *context, uint32_t id, uint32_t begin, uint32_t end);
hearth_status hth_stub_seq_copy(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin, uint32_t end,
                                hearth_error *err);
uint32_t hth_stub_seq_end(hth_engine_context *context, uint32_t id);

/* ---- decode.c: as the functions of hth_backend ---- */

hearth_status hth_stub_decode(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                              hth_decode_result *result, hearth_error *err);
const float *hth_stub_logits(hth_engine_context *context, size_t row);
const float *hth_stub_vector(hth_engine_context *context, size_t row);

/* ---- state.c: as the functions of hth_backend ---- */

size_t hth_stub_state_size(hth_engine_context *context, uint32_t id, hth_state_part part);
hearth_status hth_stub_state_get(hth_engine_context *context, uint32_t id, hth_state_part part, uint8_t *bytes,
                                 size_t capacity, size_t *n_out, hearth_error *err);
hearth_status hth_stub_state_set(hth_engine_context *context, uint32_t id, hth_state_part part, const uint8_t *bytes,
                                 size_t n_bytes, uint32_t begin, uint32_t end, hearth_error *err);

/* ---- embedder.c: as the functions of hth_backend ---- */

hearth_status hth_stub_embedder_new(hth_engine_model *model, const hth_embedder_params *params,
                                    hth_engine_embedder **out, hearth_error *err);
void hth_stub_embedder_free(hth_engine_embedder *embedder);
uint32_t hth_stub_embedder_inputs(const hth_engine_embedder *embedder);
hearth_status hth_stub_embed(hth_engine_embedder *embedder, const hth_embedder_input *inputs, size_t n_inputs,
                             hth_decode_result *result, hearth_error *err);
const float *hth_stub_embedding(hth_engine_embedder *embedder, size_t input, uint32_t token);

#endif
