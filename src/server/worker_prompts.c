/*
 * worker_prompts.c - prompts in a memo
 */
#include "server/worker_prompts.h"

static void ref_kept(void *prompt)
{
    (void)hth_api_prompt_ref(prompt); /* which is what was given */
}

static void unref_kept(void *prompt)
{
    hth_api_prompt_unref(prompt);
}

hth_memo *hth_prompts_new(size_t bytes_max)
{
    static const hth_memo_kind kind = { .ref = ref_kept, .unref = unref_kept };

    return hth_memo_new(bytes_max, &kind);
}

void hth_prompts_keep(hth_memo *prompts, const uint8_t key[HTH_MEMO_KEY_BYTES], hth_api_prompt *prompt)
{
    hth_memo_keep(prompts, key, prompt, hth_api_prompt_bytes(prompt));
}
