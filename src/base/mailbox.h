/*
 * mailbox.h - a bounded queue of pointers from many threads to one
 *
 * How everybody talks to a scheduler or a writer thread. The box holds pointers and owns none of them: who takes one
 * out owns it. Closing lets the receiver drain what is in it and refuses what comes later.
 */
#ifndef HTH_BASE_MAILBOX_H
#define HTH_BASE_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_mailbox hth_mailbox;

/* A box for at most capacity pointers; NULL when there is no memory. */
hth_mailbox *hth_mailbox_new(size_t capacity);
/* Empty it first: what is left inside is not freed. Accepts NULL. */
void hth_mailbox_free(hth_mailbox *box);

typedef enum hth_mailbox_result { HTH_MAILBOX_OK, HTH_MAILBOX_FULL, HTH_MAILBOX_CLOSED } hth_mailbox_result;

/* Put one in without waiting. Any thread. */
hth_mailbox_result hth_mailbox_put(hth_mailbox *box, void *message);
/* Take the oldest, or NULL when there is none: at once, after timeout_ms, or as soon as the box is closed and empty. */
void *hth_mailbox_take(hth_mailbox *box, uint32_t timeout_ms);
/* Wait for as long as it takes; NULL only once the box is closed and empty. */
void *hth_mailbox_wait(hth_mailbox *box);
void hth_mailbox_close(hth_mailbox *box);
/* Closed, and nothing left inside. */
bool hth_mailbox_is_closed(hth_mailbox *box);
size_t hth_mailbox_count(hth_mailbox *box);

#endif
