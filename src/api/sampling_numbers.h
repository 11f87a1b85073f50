/*
 * sampling_numbers.h - the numbers that choose tokens, each with its names and its range
 *
 * One row a number serves requests, the defaults of a server, the recommendations of a model, and the settings that
 * replies report.
 */
#ifndef HTH_API_SAMPLING_NUMBERS_H
#define HTH_API_SAMPLING_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

/* The window of a penalty (repeat_last_n, dry_last_n) that is the whole context, as far as the library looks back. */
#define HTH_API_WHOLE_CONTEXT UINT32_MAX
enum { HTH_API_LAST_N_MAX = 65536 };

/* Values of the numbers. NAN: not given. Meanings and ranges are those of hearth_sampling; -1 is a whole window. */
typedef struct hth_api_sampling_values {
    double temperature;
    double top_k;
    double top_p;
    double min_p;
    double typical_p;
    double repeat_penalty;
    double repeat_last_n;
    double frequency_penalty;
    double presence_penalty;
    double dry_multiplier;
    double dry_base;
    double dry_allowed_length;
    double dry_last_n;
    double xtc_probability;
    double xtc_threshold;
    double top_n_sigma;
    double dynatemp_range;
    double dynatemp_exponent;
    double mirostat;
    double mirostat_tau;
    double mirostat_eta;
    double adaptive_target;
    double adaptive_decay;
} hth_api_sampling_values;

typedef enum hth_api_number_kind {
    HTH_API_REAL,   /* a float */
    HTH_API_OFF,    /* a float that is off at 0; requests may write -1 or another negative number for that */
    HTH_API_SIGNED, /* an int32_t; requests may write -1 for 0 */
    HTH_API_COUNT,  /* a uint32_t */
    HTH_API_WINDOW, /* a uint32_t, a number of tokens to look back; -1 is HTH_API_WHOLE_CONTEXT */
} hth_api_number_kind;

typedef struct hth_api_sampling_number {
    const char *name;   /* llama.cpp's, of requests and of settings */
    const char *config; /* in a generation_config.json; vLLM's clients use it, too. NULL: none */
    size_t in_values;   /* the offset of the double in hth_api_sampling_values */
    size_t in_sampling; /* the offset in hearth_sampling */
    hth_api_number_kind kind;
    double low, high;
    double off; /* HTH_API_OFF: as llama-server writes that it is off */
} hth_api_sampling_number;

enum { HTH_API_SAMPLING_NUMBERS = sizeof(hth_api_sampling_values) / sizeof(double) };
extern const hth_api_sampling_number hth_api_sampling_numbers[HTH_API_SAMPLING_NUMBERS];

/* Does it have a fraction? */
bool hth_api_number_is_real(const hth_api_sampling_number *number);
/* The number in sampling, with -1 for the whole context. */
double hth_api_sampling_get(const hth_api_sampling_number *number, const hearth_sampling *sampling);
/* Set it to a value from low to high; -1 as above. */
void hth_api_sampling_set(const hth_api_sampling_number *number, double value, hearth_sampling *sampling);

#endif
