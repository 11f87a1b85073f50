/*
 * exposition.h - Prometheus' text format, version 0.0.4
 *
 * See https://prometheus.io/docs/instrumenting/exposition_formats/. A family has one HELP line, one TYPE line and then
 * all its samples. The caller must keep this order. This file writes values and labels in the required form.
 */
#ifndef HTH_WIRE_EXPOSITION_H
#define HTH_WIRE_EXPOSITION_H

#include <stdint.h>

#include "api/buffer.h"

typedef struct hth_label {
    const char *name;
    const char *value; /* any text; it is escaped */
} hth_label;

/* The labels of a sample; n 0: none. */
typedef struct hth_labels {
    const hth_label *labels; /* [n] */
    size_t n;
} hth_labels;

/* Upper bounds of a histogram's buckets, ascending, without the infinite one. */
enum { HTH_SCALE_BOUNDS_MAX = 16 };
typedef struct hth_scale {
    size_t n; /* at most HTH_SCALE_BOUNDS_MAX */
    double upper[HTH_SCALE_BOUNDS_MAX];
} hth_scale;

/* The counts of a histogram. All zeros: nothing was observed. */
typedef struct hth_observations {
    uint64_t n[HTH_SCALE_BOUNDS_MAX + 1]; /* in each bucket, not cumulative; the last bucket is above all bounds */
    double sum;
} hth_observations;

/* Observe a value n times. NaN, an infinity or a value below zero counts as zero. */
void hth_observations_add(hth_observations *observations, const hth_scale *scale, double value, uint64_t n);

/* Begin a family. help is one line without backslashes; type is "counter", "gauge" or "histogram". */
void hth_exposition_family(hth_buffer *out, const char *name, const char *type, const char *help);
void hth_exposition_count(hth_buffer *out, const char *name, hth_labels labels, uint64_t value);
void hth_exposition_number(hth_buffer *out, const char *name, hth_labels labels, double value);
void hth_exposition_histogram(hth_buffer *out, const char *name, hth_labels labels, const hth_scale *scale,
                              const hth_observations *observations);

#endif
