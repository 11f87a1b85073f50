/*
 * worker_prompts.h - the prompts that a worker made lately, so that those that come again are not made again
 */
#ifndef HTH_SERVER_WORKER_PROMPTS_H
#define HTH_SERVER_WORKER_PROMPTS_H

#include "api/prompt.h"

typedef struct hth_prompts hth_prompts; /* any thread */

hth_prompts *hth_prompts_new(size_t bytes_max); /* NULL without memory */
void hth_prompts_free(hth_prompts *prompts);    /* prompts that others hold stay; accepts NULL */

/* A reference to the prompt of that key; NULL: it is not known (any more). */
hth_api_prompt *hth_prompts_find(hth_prompts *prompts, const uint8_t key[HTH_API_PROMPT_KEY_BYTES]);
/* Keep one until others need its room. One that is larger than an eighth of it is not kept. */
void hth_prompts_keep(hth_prompts *prompts, const uint8_t key[HTH_API_PROMPT_KEY_BYTES], hth_api_prompt *prompt);

#endif
