/*
 * numbers.h - the numbers of hearth_sampling: one row each, with everything that Hearth knows about it
 *
 * These rows define the library's checks, the fields of requests, the settings in replies, options and configuration,
 * models' recommendations, drafts, and the test of the documentation. Their order is that of options and replies.
 */
#ifndef HTH_SAMPLING_NUMBERS_H
#define HTH_SAMPLING_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

/* A penalty window of the whole context, as far as penalties look back. The library itself refuses this value. */
#define HTH_WHOLE_CONTEXT UINT32_MAX
enum { HTH_LAST_N_MAX = 65536 }; /* maximum number of tokens that penalties and DRY look back */

typedef enum hth_number_kind {
    HTH_NUMBER_REAL,   /* a float */
    HTH_NUMBER_OFF,    /* a float that is off at 0; requests may write any negative number for that */
    HTH_NUMBER_MINUS,  /* the same; settings report -1 if it is off, as in llama-server */
    HTH_NUMBER_SIGNED, /* an int32_t; requests may write -1 for 0 */
    HTH_NUMBER_COUNT,  /* a uint32_t */
    HTH_NUMBER_WINDOW, /* a uint32_t, a number of tokens to look back; -1 is HTH_WHOLE_CONTEXT */
} hth_number_kind;

enum {
    HTH_NUMBER_COMMON = 1,  /* its option is in the short help */
    HTH_NUMBER_DRAFTED = 2, /* a draft model's guesses also depend on it */
    HTH_NUMBER_OF_DRY = 4,  /* without DRY it may be anything from 0 on, so that a mostly zeroed struct is valid */
};

/*
 * field: the name in hearth_sampling, and the key in a configuration. name: llama.cpp's, in requests and settings.
 * config: the name in a generation_config.json, which vLLM's clients also use; "": none. flag, value, help: of the
 * option.
 */
/* clang-format off */
#define HTH_SAMPLING_NUMBERS_EACH(ROW)                                                                                 \
    /* field, name, config, kind, low, high, default, flags, flag, value, help */                                      \
    ROW(temperature, "temperature", "temperature", OFF, 0, 1000, 0.8, HTH_NUMBER_COMMON | HTH_NUMBER_DRAFTED,          \
        "temp", "T", "temperature; 0 always takes the likeliest token")                                                \
    ROW(top_k, "top_k", "top_k", SIGNED, 0, INT32_MAX, 40, HTH_NUMBER_DRAFTED,                                         \
        "top-k", "K", "keep the K likeliest tokens; 0 keeps all")                                                      \
    ROW(top_p, "top_p", "top_p", REAL, 0, 1, 0.95, HTH_NUMBER_DRAFTED,                                                 \
        "top-p", "P", "keep the likeliest tokens that sum to P")                                                       \
    ROW(min_p, "min_p", "min_p", REAL, 0, 1, 0.05, HTH_NUMBER_DRAFTED,                                                 \
        "min-p", "P", "keep tokens at least P times as likely as the likeliest")                                       \
    ROW(typical_p, "typical_p", "typical_p", REAL, 0, 1, 1, HTH_NUMBER_DRAFTED,                                        \
        "typical-p", "P", "keep the locally typical tokens that sum to P")                                             \
    ROW(repeat_penalty, "repeat_penalty", "repetition_penalty", REAL, 0.01, 1000, 1, 0,                                \
        "repeat-penalty", "X", "divide the logits of recent tokens by X")                                              \
    ROW(repeat_last_n, "repeat_last_n", "", WINDOW, -1, HTH_LAST_N_MAX, 64, 0,                                         \
        "repeat-last-n", "N", "number of recent tokens; -1: as many as the context has")                               \
    ROW(frequency_penalty, "frequency_penalty", "", REAL, -2, 2, 0, 0,                                                 \
        "frequency-penalty", "X", "subtract X for each time that a token is among the recent ones, -2 to 2")           \
    ROW(presence_penalty, "presence_penalty", "", REAL, -2, 2, 0, 0,                                                   \
        "presence-penalty", "X", "subtract X once for a token among the recent ones, -2 to 2")                         \
    ROW(dry_multiplier, "dry_multiplier", "", REAL, 0, 1000, 0, 0,                                                     \
        "dry-multiplier", "X", "DRY, against repeated phrases: strength")                                              \
    ROW(dry_base, "dry_base", "", REAL, 1, 1000, 1.75, HTH_NUMBER_OF_DRY,                                              \
        "dry-base", "X", "DRY: growth of the penalty with the length of the phrase, from 1 on")                        \
    ROW(dry_allowed_length, "dry_allowed_length", "", COUNT, 0, HTH_LAST_N_MAX, 2, 0,                                  \
        "dry-allowed-length", "N", "DRY: repetitions up to N tokens are free")                                         \
    ROW(dry_last_n, "dry_penalty_last_n", "", WINDOW, -1, HTH_LAST_N_MAX, 64, 0,                                       \
        "dry-last-n", "N", "DRY: tokens to look back; -1: as many as the context has")                                 \
    ROW(xtc_probability, "xtc_probability", "", REAL, 0, 1, 0, 0,                                                      \
        "xtc-probability", "P", "XTC, exclude top choices: probability")                                               \
    ROW(xtc_threshold, "xtc_threshold", "", REAL, 0, 1, 0.1, 0,                                                        \
        "xtc-threshold", "P", "XTC: remove all tokens at least this likely, except the least likely of them")          \
    ROW(top_n_sigma, "top_n_sigma", "", MINUS, 0, 1000, 0, HTH_NUMBER_DRAFTED,                                         \
        "top-n-sigma", "N", "keep logits within N standard deviations of the highest; 0 keeps all")                    \
    ROW(dynatemp_range, "dynatemp_range", "", OFF, 0, 1000, 0, 0,                                                      \
        "dynatemp-range", "X", "dynamic temperature: between --temp - X and --temp + X, by the entropy")               \
    ROW(dynatemp_exponent, "dynatemp_exponent", "", REAL, 0, 10, 1, 0,                                                 \
        "dynatemp-exponent", "X", "dynamic temperature: the exponent of the entropy's share")                          \
    ROW(mirostat, "mirostat", "", SIGNED, 0, 2, 0, 0,                                                                  \
        "mirostat", "N", "1 or 2: Mirostat or Mirostat 2.0 instead of the steps that cut; 0: off")                     \
    ROW(mirostat_tau, "mirostat_tau", "", REAL, 0, 100, 5, 0,                                                          \
        "mirostat-tau", "X", "Mirostat: the wanted surprise of a token, in bits")                                      \
    ROW(mirostat_eta, "mirostat_eta", "", REAL, 0, 1, 0.1, 0,                                                          \
        "mirostat-eta", "X", "Mirostat: rate of learning")                                                             \
    ROW(adaptive_target, "adaptive_target", "", MINUS, 0, 1, 0, 0,                                                     \
        "adaptive-target", "P", "adaptive-p: prefer tokens about as likely as P; 0: off")                              \
    ROW(adaptive_decay, "adaptive_decay", "", REAL, 0, 0.99, 0.9, 0,                                                   \
        "adaptive-decay", "X", "adaptive-p: how slowly it forgets the drawn tokens")
/* clang-format on */

/* Values of the numbers, before they are applied to a request. NAN: not given; -1: a window of the whole context. */
#define HTH_NUMBER_VALUE(field, ...) double field;
typedef struct hth_sampling_values {
    HTH_SAMPLING_NUMBERS_EACH(HTH_NUMBER_VALUE)
} hth_sampling_values;

typedef struct hth_sampling_number {
    const char *field, *name, *config, *flag;
    size_t in_values;   /* the offset in hth_sampling_values */
    size_t in_sampling; /* the offset in hearth_sampling */
    double low, high, usual;
    hth_number_kind kind;
    int flags;
} hth_sampling_number;

enum { HTH_SAMPLING_NUMBERS = sizeof(hth_sampling_values) / sizeof(double) };
extern const hth_sampling_number hth_sampling_numbers[HTH_SAMPLING_NUMBERS];

/* Does it have a fraction? */
bool hth_sampling_number_is_real(const hth_sampling_number *number);
/* May requests write a negative number for 0? */
bool hth_sampling_number_takes_negatives(const hth_sampling_number *number);
/* The number in sampling, with -1 for the whole context. */
double hth_sampling_get(const hth_sampling_number *number, const hearth_sampling *sampling);
/* Set it to a value from low to high; -1 as above. */
void hth_sampling_set(const hth_sampling_number *number, double value, hearth_sampling *sampling);
/* Its minimum, given the other values of sampling. */
double hth_sampling_low(const hth_sampling_number *number, const hearth_sampling *sampling);

/* Replace windows of the whole context by windows of n_ctx tokens, at most HTH_LAST_N_MAX. */
void hth_sampling_cut_windows(hearth_sampling *sampling, uint32_t n_ctx);

/* HEARTH_MISUSE with a message that names the first number that is out of range. */
hearth_status hth_sampling_check_numbers(const hearth_sampling *sampling, hearth_error *err);

#endif
