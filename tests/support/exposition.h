/*
 * exposition.h - a strict reader of Prometheus' text format
 *
 * Stricter than Prometheus: HELP, TYPE and the samples of a family follow one another, names fit their types, nothing
 * is there twice, and histograms are whole.
 */
#ifndef HTH_TESTS_EXPOSITION_H
#define HTH_TESTS_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>

/* False, and what is wrong in problem, with the line. */
bool hth_test_exposition_is_good(const char *text, char *problem, size_t capacity);
/* The value of a sample, named as in the text: "name" or "name{label=\"value\"}"; -1: it is not there. */
double hth_test_exposition_value(const char *text, const char *sample);
/* Call for every family, in order. */
void hth_test_exposition_families(const char *text,
                                  void (*on_family)(const char *name, const char *type, void *user_data),
                                  void *user_data);

#endif
