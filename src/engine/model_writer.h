/*
 * model_writer.h - writes a model as a GGUF file: the second function table that the llama.cpp module exports
 *
 * The caller describes a model: its metadata, and the names and shapes of its tensors. The writer asks for a few rows
 * at a time, converts them to the type of the file, and emits the bytes of the file from first to last. So memory use
 * does not grow with the model. Mixed types, which combine several types by rules of the engine, are made in a second
 * step, from a complete file.
 */
#ifndef HTH_ENGINE_MODEL_WRITER_H
#define HTH_ENGINE_MODEL_WRITER_H

#include "base/log.h"
#include "base/status.h"

/* Increases with every change of this header. A module with another number is refused. */
#define HTH_MODEL_WRITER_ABI 1u

/* The symbol: const hth_model_writer *hearth_model_writer(void). */
#define HTH_MODEL_WRITER_SYMBOL "hearth_model_writer"

enum { HTH_META_NAME_BYTES = 80, HTH_TENSOR_NAME_BYTES = 64 };

typedef enum hth_meta_kind {
    HTH_META_U32,
    HTH_META_F32,
    HTH_META_BOOL,
    HTH_META_TEXT,
    HTH_META_TEXTS, /* lists of n values */
    HTH_META_I32S,
    HTH_META_F32S,
} hth_meta_kind;

typedef struct hth_meta {
    char name[HTH_META_NAME_BYTES];
    hth_meta_kind kind;
    union {
        uint32_t u32;
        float f32;
        bool flag;
        const char *text;
        const char *const *texts;
        const int32_t *i32s;
        const float *f32s;
    } value;
    size_t n;
} hth_meta;

typedef struct hth_new_tensor {
    char name[HTH_TENSOR_NAME_BYTES];
    uint64_t row_length;
    uint64_t n_rows;
    bool is_vector; /* of one row; written as F32 */
} hth_new_tensor;

/* Provide n rows of a tensor, starting with row first, as floats. */
typedef hearth_status (*hth_rows_fn)(void *user_data, size_t tensor, uint64_t first, uint64_t n, float *out,
                                     hearth_error *err);

typedef struct hth_new_model {
    const hth_meta *metas; /* without general.file_type */
    size_t n_metas;
    const hth_new_tensor *tensors; /* with distinct names */
    size_t n_tensors;
    hth_rows_fn rows;
    void *user_data;
} hth_new_model;

/* Receives the next bytes of the file. */
typedef hearth_status (*hth_put_fn)(void *user_data, const void *bytes, size_t n_bytes, hearth_error *err);

typedef struct hth_model_writer {
    uint32_t abi;
    /* Is it the name of a type? *mixed: only quantize can make it, not write. */
    bool (*type_find)(const char *type, bool *mixed);
    /* The name of type i; NULL after the last one. */
    const char *(*type_name)(size_t i);
    /*
     * Write a model in a type that is not mixed: matrices in it (q8_0 whose rows do not fit its blocks: f16), vectors
     * as F32. *bytes_out is the size of the file. put NULL: only the size is computed. HEARTH_UNSUPPORTED for a tensor,
     * named in the message, with values that f16 cannot hold. Errors of the callbacks are passed on.
     */
    hearth_status (*write)(const hth_new_model *model, const char *type, hth_put_fn put, void *put_user_data,
                           uint64_t *bytes_out, hearth_error *err);
    /*
     * Make a file of a mixed type from one that write made. to is a path whose file is overwritten. The log gets lines
     * from the engine; those that begin with "[ 3/ 290]" report progress. HEARTH_ENGINE with the engine's reason.
     */
    hearth_status (*quantize)(const char *from, const char *to, const char *type, const hth_log *log,
                              hearth_error *err);
} hth_model_writer;

typedef const hth_model_writer *(*hth_model_writer_entry)(void);

#endif
