/*
 * worker_post.h - what a worker's requests tell, on its way from the library's queue of events to the event loop
 *
 * Each request has a box. The loop collects what waits in the queue, sorted by boxes, and takes box after box with all
 * that has come for it, so that what a request was told in one round leaves in one piece. The queue wakes the loop once
 * for a round of the scheduler.
 *
 * A token's news has the text that it released, and text that comes by itself (a prompt that is echoed, what was held back
 * at the end) goes with the next token of its reply, or with its end: whoever has some of the news of a reply has for each
 * token either all or nothing of what it released.
 */
#ifndef HTH_SERVER_WORKER_POST_H
#define HTH_SERVER_WORKER_POST_H

#include "api/buffer.h"
#include "hearth.h"
#include "models/events.h"
#include "server/slot_memory.h"

typedef struct hth_post hth_post; /* of a worker */
typedef struct hth_box hth_box;   /* of a request */

typedef enum hth_news_kind {
    HTH_NEWS_PROGRESS, /* of a restore */
    HTH_NEWS_PREFILL,  /* where it is to be told: the prompt is read so far */
    HTH_NEWS_TEXT,     /* text by itself, right before the token or the end that it belongs to */
    HTH_NEWS_TOKEN,
    HTH_NEWS_DONE, /* the reply's last */
} hth_news_kind;

typedef struct hth_news {
    hth_news_kind kind;
    uint32_t reply;
    uint32_t n_done;             /* PROGRESS, PREFILL */
    hearth_token_event event;    /* TOKEN; of TEXT its text and n_bytes */
    const hearth_result *result; /* DONE: until the next hth_post_collect */
} hth_news;

/* HEARTH_NO_MEMORY, HEARTH_IO. */
hearth_status hth_post_new(hth_post **out, hearth_error *err);
void hth_post_free(hth_post *post); /* every box is freed; accepts NULL */

/* ---- before a request is submitted ---- */

/* n_replies; owner is for the loop. NULL without memory. Any thread. */
hth_box *hth_box_new(hth_post *post, uint32_t n_replies, void *owner);
/* Every end of its replies was read, or nothing was submitted. Accepts NULL. Event loop. */
void hth_box_free(hth_box *box);
void *hth_box_owner(const hth_box *box);
/* News of tokens have their statistics, too, which are large. Before a request is submitted. */
void hth_box_tell_stats(hth_box *box);
/* How far prompts were read is news, each time. Before a request is submitted. */
void hth_box_tell_prefill(hth_box *box);

/* What was evaluated for reply 0 is noted under that number when it ends. salt outlives the box. Before a request is submitted. */
void hth_box_remember(hth_box *box, hth_slot_memory *slots, const char *salt, uint32_t slot);

/* The replies first, first + 1, ... of a box are those of one submission. It outlives the request. */
typedef struct hth_box_part {
    hth_box *box;
    uint32_t first;
    uint64_t id;              /* hearth_submit's id_out */
    hth_event_source *source; /* holds the news until the part is opened */
} hth_box_part;

/* Have a request put its news into part. Then: hth_submit_held(model, request, &part->id, &part->source, ...). */
void hth_box_part_connect(hth_box_part *part, hearth_request *request);
/* The loop may have the news of a request that was submitted from now on. Before this they wait. */
void hth_box_part_open(hth_box_part *part);

/* Wake the loop. Any thread. */
void hth_post_wake(hth_post *post);

/* ---- event loop ---- */

/* How much of reply i's prompt was restored, as far as it was told by now, whether or not that is news yet. */
uint32_t hth_box_n_restored(const hth_box *box, uint32_t i);

/* Readable while the loop is to collect; of hth_post_wake, too. */
int hth_post_fd(const hth_post *post);
/* Collect what has come. What was taken before is not valid any more; every box was taken and read to its end. */
void hth_post_collect(hth_post *post);
/* The next box with news among what was collected; NULL: none has any. */
hth_box *hth_post_take(hth_post *post);
/* The next news of the box taken last; false: that was all. What it points to is valid until the next collection. */
bool hth_post_read(hth_post *post, hth_news *out);

#endif
