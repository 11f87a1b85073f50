/*
 * control_vector.h - the control vectors in the options of a model: "FILE[:SCALE]"
 *
 * The scale is the number behind the last ':'; 1 without one.
 */
#ifndef HTH_MODELS_CONTROL_VECTOR_H
#define HTH_MODELS_CONTROL_VECTOR_H

#include "engine/backend.h"

/* HEARTH_MISUSE names the part that is wrong. */
hearth_status hth_control_vector_read(const char *text, hth_control_vector *out, hearth_error *err);

/* Check the options that are about control vectors: HEARTH_MISUSE. */
hearth_status hth_control_vectors_check(const hearth_model_options *options, hearth_error *err);
/* Read the control vectors of checked options: *out for free(), NULL when there are none. HEARTH_NO_MEMORY. */
hearth_status hth_control_vectors_read(const hearth_model_options *options, hth_control_vector **out,
                                       hearth_error *err);

#endif
