/*
 * prompt_text.c - see prompt_text.h
 */
#include "sched/prompt_text.h"

#include <stdlib.h>
#include <string.h>

hth_prompt_text *hth_prompt_text_new(const char *text, size_t n_bytes, unsigned flags, uint32_t n_known)
{
    hth_prompt_text *made = malloc(sizeof(*made) + n_bytes);

    if (!made)
        return NULL;
    made->flags = flags;
    made->n_known = n_known;
    made->n_bytes = n_bytes;
    atomic_init(&made->references, 1);
    memcpy(made->bytes, text, n_bytes);
    return made;
}

hth_prompt_text *hth_prompt_text_ref(hth_prompt_text *text)
{
    if (text)
        atomic_fetch_add_explicit(&text->references, 1, memory_order_relaxed);
    return text;
}

void hth_prompt_text_unref(hth_prompt_text *text)
{
    if (text && atomic_fetch_sub_explicit(&text->references, 1, memory_order_acq_rel) == 1)
        free(text);
}
