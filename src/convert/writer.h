/*
 * writer.h - the writer of models in the engine's module
 */
#ifndef HTH_CONVERT_WRITER_H
#define HTH_CONVERT_WRITER_H

#include "engine/model_writer.h"

/* Load the module as hth_backend_llama does. HEARTH_ENGINE if it has no writer of this version. */
hearth_status hth_model_writer_find(const char *engine_directory, const hth_model_writer **out, hearth_error *err);

#endif
