/*
 * control_vector.h - the control vectors in the options of a model: "FILE[:SCALE]"
 *
 * The scale is the number after the last ':'; 1 without one. The functions open no file and keep no pointers. Any
 * thread may call them. After an error, outputs do not change.
 */
#ifndef HTH_MODELS_CONTROL_VECTOR_H
#define HTH_MODELS_CONTROL_VECTOR_H

#include "engine/backend.h"

/* Read one. HEARTH_MISUSE, also for NULL text, with a message that names the wrong part. */
hearth_status hth_control_vector_read(const char *text, hth_control_vector *out, hearth_error *err);

/*
 * Check the options for control vectors. HEARTH_MISUSE with a message that names the wrong option or text. The model is
 * not known here: hth_backend.model_load checks the files and the layers against it.
 */
hearth_status hth_control_vectors_check(const hearth_model_options *options, hearth_error *err);
/*
 * Read the control vectors of options that hth_control_vectors_check accepted. *out, [options->n_control_vectors], is
 * freed by the caller; NULL if there are none. HEARTH_NO_MEMORY.
 */
hearth_status hth_control_vectors_read(const hearth_model_options *options, hth_control_vector **out,
                                       hearth_error *err);

#endif
