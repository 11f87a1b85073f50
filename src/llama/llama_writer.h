/*
 * llama_writer.h - calls of the engine that write model files, without exceptions (see llama_shim.h)
 */
#ifndef HTH_LLAMA_LLAMA_WRITER_H
#define HTH_LLAMA_LLAMA_WRITER_H

#include <llama.h>

#ifdef __cplusplus
extern "C" { /* our own headers are C and have no extern "C" themselves */
#endif

#include "engine/model_writer.h"

/* See hth_model_writer. type is that of the matrices, ftype that of the file. */
hearth_status hth_shim_model_write(const hth_new_model *model, enum ggml_type type, enum llama_ftype ftype,
                                   hth_put_fn put, void *put_user_data, uint64_t *bytes_out, hearth_error *err);
/* False: the engine refuses, and its log says why. */
hearth_status hth_shim_model_quantize(const char *from, const char *to, enum llama_ftype ftype, bool *done,
                                      hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
