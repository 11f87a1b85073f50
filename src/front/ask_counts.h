/*
 * ask_counts.h - how questions for the true tokens of prompts ended (history_ask.h)
 */
#ifndef HTH_FRONT_ASK_COUNTS_H
#define HTH_FRONT_ASK_COUNTS_H

#include <stdint.h>

#include "api/buffer.h"

typedef enum hth_ask_end {
    HTH_ASK_WELL,
    HTH_ASK_NOTHING, /* it knows nothing of the prompt */
    HTH_ASK_BROKEN,  /* it did not answer in time, or wrongly */
    HTH_ASK_ENDS,
} hth_ask_end;

/* Append the numbers of questions that ended so, to a page of Prometheus' format. */
void hth_ask_counts_write_metrics(const uint64_t n[HTH_ASK_ENDS], hth_buffer *out);

#endif
