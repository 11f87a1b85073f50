/*
 * conversion.h - convert a checkpoint to a GGUF file
 *
 *   1. open: read config, headers and tokenizer, and map every tensor; nothing is written
 *   2. write: write the file sequentially in a type that is not mixed, a few rows of a tensor at a time
 *   3. if the type is mixed, hth_model_writer makes it from that file
 */
#ifndef HTH_CONVERT_CONVERSION_H
#define HTH_CONVERT_CONVERSION_H

#include "engine/model_writer.h"

typedef struct hth_conversion hth_conversion; /* one thread at a time */

typedef struct hth_conversion_plan {
    const char *architecture; /* the engine's name */
    const char *type;         /* of the file that write makes */
    const char *tokenizer;    /* the engine's name, and its pattern */
    const char *tokenizer_pre;
    uint32_t n_ctx;
    size_t n_files, n_tensors, n_tokens;
    uint64_t n_parameters;
    uint64_t bytes_in;
    uint64_t bytes_out;
} hth_conversion_plan;

/*
 * type of the file; if NULL or a mixed one, the type of the checkpoint's weights is written. name general.name of the
 * model.
 *
 * The messages of HEARTH_UNSUPPORTED, HEARTH_CORRUPT, HEARTH_NOT_FOUND and others name the file and the tensor.
 */
hearth_status hth_conversion_open(const hth_model_writer *writer, const char *folder, const char *type,
                                  const char *name, bool require_argument_order, hth_conversion **out,
                                  hearth_error *err);
/* Accepts NULL. */
void hth_conversion_close(hth_conversion *conversion);

/* Borrowed until close. */
const hth_conversion_plan *hth_conversion_planned(const hth_conversion *conversion);

/* Pass the bytes of the file to put, from first to last. Errors of put are returned. */
hearth_status hth_conversion_write(hth_conversion *conversion, hth_put_fn put, void *user_data, hearth_error *err);

/*
 * Check that a GGUF file is a model: load it, and tokenize and detokenize a text. n_tokens is the expected size of the
 * vocabulary. HEARTH_CORRUPT if the text does not survive; errors of loading.
 */
hearth_status hth_converted_check(const char *path, size_t n_tokens, hearth_load_progress_fn progress,
                                  void *progress_user_data, hearth_error *err);

/*
 * The writer of models in the engine's module, which is loaded as hth_backend_llama does. HEARTH_ENGINE if it has none
 * of this version.
 */
hearth_status hth_model_writer_find(const char *engine_directory, const hth_model_writer **out, hearth_error *err);

#endif
