/*
 * worker_prompts.h - prompts that were made lately: rendering and tokenizing one costs as much as all the rest of a
 * request whose rows are known
 *
 * A memo (base/memo.h) by hth_api_prompt_key, for hth_memo_find and hth_memo_free. Any thread.
 */
#ifndef HTH_SERVER_WORKER_PROMPTS_H
#define HTH_SERVER_WORKER_PROMPTS_H

#include "api/prompt.h"
#include "base/memo.h"

hth_memo *hth_prompts_new(size_t bytes_max); /* NULL without memory */
/* Keep one until others need its room. One that is larger than an eighth of it is not kept. */
void hth_prompts_keep(hth_memo *prompts, const uint8_t key[HTH_MEMO_KEY_BYTES], hth_api_prompt *prompt);

#endif
