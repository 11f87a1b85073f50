/*
 * exposition.h - Prometheus' text format, version 0.0.4
 *
 * https://prometheus.io/docs/instrumenting/exposition_formats/: a family has one HELP, one TYPE and all its samples in a
 * row, which is for the caller to keep; values and labels are written here as the format wants them.
 */
#ifndef HTH_SERVER_EXPOSITION_H
#define HTH_SERVER_EXPOSITION_H

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

/* Upper bounds of a histogram's buckets, rising, without the infinite one. */
enum { HTH_HISTOGRAM_BUCKETS_MAX = 16 };
typedef struct hth_scale {
    size_t n; /* at most HTH_HISTOGRAM_BUCKETS_MAX */
    double upper[HTH_HISTOGRAM_BUCKETS_MAX];
} hth_scale;

/* All zeros: nothing was observed. */
typedef struct hth_histogram {
    uint64_t n[HTH_HISTOGRAM_BUCKETS_MAX + 1]; /* in each bucket alone; the last: above all bounds */
    double sum;
} hth_histogram;

/* Observe a value n times. What is no number, or below zero, counts as zero. */
void hth_histogram_note(hth_histogram *histogram, const hth_scale *scale, double value, uint64_t n);

/* A family begins. help is one line without backslashes; type is "counter", "gauge" or "histogram". */
void hth_exposition_family(hth_buffer *out, const char *name, const char *type, const char *help);
void hth_exposition_count(hth_buffer *out, const char *name, hth_labels labels, uint64_t value);
void hth_exposition_number(hth_buffer *out, const char *name, hth_labels labels, double value);
void hth_exposition_histogram(hth_buffer *out, const char *name, hth_labels labels, const hth_scale *scale,
                              const hth_histogram *histogram);

#endif
