/*
 * worker_post.c - boxes, and the list of those with news
 *
 * News lie in a box one behind the other, each a head with numbers, log probabilities, statistics, and text, padded to eight bytes.
 * Taking a box swaps its memory with that of the box taken before, so that memory goes round and none is allocated where
 * replies are alike. Results have a place of their own, so that the end of a reply is told without any memory.
 */
#include "server/worker_post.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

enum { ALIGNMENT = 8 };

typedef struct news_head {
    uint32_t kind;
    uint32_t reply;
    uint32_t n_done;
    int32_t token;
    uint32_t index;
    uint32_t n_logprobs; /* 0: none; otherwise one more than the likeliest ones */
    uint32_t n_text;
    uint32_t is_replayed;
    uint32_t n_stats; /* 1: they are between log probabilities and text */
    uint32_t padding;
} news_head;

static_assert(sizeof(news_head) % ALIGNMENT == 0 && sizeof(hearth_logprob) == ALIGNMENT &&
                  sizeof(hearth_stats) % ALIGNMENT == 0,
              "what follows is aligned");

typedef struct box_reply box_reply;
struct box_reply {
    /* The scheduler's. */
    hth_buffer text;             /* by itself, not told yet; what is left of it at the end is told with the end */
    size_t n_due;                /* bytes of text of the last token, which on_text is about to repeat */
    uint32_t n_done;             /* of a restore; 0: nothing new */
    bool lost_news;              /* there was no memory for them */
    _Atomic uint32_t n_restored; /* as it was told last; read by the loop */

    /* The scheduler's until it is in the box's list of ended ones, then the loop's. */
    hearth_result result; /* shown to the loop; what it points to is below */
    hearth_stats stats;
    hearth_logprob *prompt_logprobs;
    bool is_text_told;
    box_reply *next;
};

struct hth_box {
    /* Fixed. */
    hth_post *post;
    void *owner;
    uint32_t n_replies;
    bool tells_stats; /* with each token */
    bool tells_prefill;
    hth_slot_memory *slots; /* NULL: nothing is noted */
    const char *salt;
    uint32_t slot;

    /* Under the post's lock. */
    hth_box *next;
    bool is_open;
    bool is_listed;
    hth_buffer news;
    box_reply *ended;
    box_reply **ended_end;

    box_reply replies[]; /* [n_replies] */
};

struct hth_post {
    int wake_read; /* a pipe, neither end of which blocks */
    int wake_write;
    atomic_bool has_news; /* since the last wake-up */
    atomic_bool is_woken; /* a byte is in the pipe, or about to be */

    /* Guards the fields below, and those of boxes. Innermost lock. */
    pthread_mutex_t lock;
    hth_box *first;
    hth_box **end;

    /* The loop's: the box taken last. */
    hth_box *taken;
    hth_buffer reading;
    size_t n_read;
    box_reply *ended;
};

/* ---- making ---- */

hearth_status hth_post_new(hth_post **out, hearth_error *err)
{
    hth_post *post = calloc(1, sizeof(*post));
    int ends[2];

    if (!post)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker");
    if (pipe(ends) != 0) {
        free(post);
        return hth_fail_errno(err, errno, "cannot make a pipe");
    }
    for (int i = 0; i < 2; i++) { /* flags of descriptors that were made just now can be set */
        (void)fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    post->wake_read = ends[0];
    post->wake_write = ends[1];
    pthread_mutex_init(&post->lock, NULL);
    post->end = &post->first;
    *out = post;
    return HEARTH_OK;
}

void hth_post_free(hth_post *post)
{
    if (!post)
        return;
    close(post->wake_read);
    close(post->wake_write);
    hth_buffer_deinit(&post->reading);
    pthread_mutex_destroy(&post->lock);
    free(post);
}

hth_box *hth_box_new(hth_post *post, uint32_t n_replies, void *owner)
{
    hth_box *box = calloc(1, sizeof(*box) + n_replies * sizeof(box->replies[0]));

    if (!box)
        return NULL;
    box->post = post;
    box->owner = owner;
    box->n_replies = n_replies;
    box->ended_end = &box->ended;
    return box;
}

void hth_box_tell_stats(hth_box *box)
{
    box->tells_stats = true;
}

void hth_box_tell_prefill(hth_box *box)
{
    box->tells_prefill = true;
}

void hth_box_remember(hth_box *box, hth_slot_memory *slots, const char *salt, uint32_t slot)
{
    box->slots = slots;
    box->salt = salt;
    box->slot = slot;
}

uint32_t hth_box_n_restored(const hth_box *box, uint32_t i)
{
    return atomic_load_explicit(&box->replies[i].n_restored, memory_order_relaxed);
}

void *hth_box_owner(const hth_box *box)
{
    return box->owner;
}

static void unlist_locked(hth_post *post, hth_box *box)
{
    hth_box **link = &post->first;

    while (*link && *link != box)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = box->next;
    if (!*link)
        post->end = link;
}

void hth_box_free(hth_box *box)
{
    hth_post *post;

    if (!box)
        return;
    post = box->post;
    pthread_mutex_lock(&post->lock);
    if (box->is_listed)
        unlist_locked(post, box);
    pthread_mutex_unlock(&post->lock);
    if (post->taken == box) {
        post->taken = NULL;
        post->ended = NULL;
    }
    for (uint32_t i = 0; i < box->n_replies; i++) {
        hth_buffer_deinit(&box->replies[i].text);
        free(box->replies[i].prompt_logprobs);
    }
    hth_buffer_deinit(&box->news);
    free(box);
}

/* ---- putting in ---- */

static void list_locked(hth_box *box)
{
    hth_post *post = box->post;

    if (box->is_listed || !box->is_open)
        return;
    box->is_listed = true;
    box->next = NULL;
    *post->end = box;
    post->end = &box->next;
}

/* Append one piece of news; false without memory, or where there are too many. */
static bool put_locked(hth_box *box, const news_head *head, const hearth_logprob *logprobs, const hearth_stats *stats,
                       const char *text)
{
    static const char zeros[ALIGNMENT];
    hth_buffer *news = &box->news;
    size_t n_before = news->n, n_logprobs = head->n_logprobs * sizeof(*logprobs);
    size_t n_stats = head->n_stats * sizeof(*stats);
    size_t n_padding = ALIGNMENT - head->n_text % ALIGNMENT; /* at least one zero ends the text */

    if (news->n + sizeof(*head) + n_logprobs + n_stats + head->n_text + n_padding > HTH_BOX_BYTES_MAX)
        return false;
    hth_buffer_add(news, (const char *)head, sizeof(*head));
    if (n_logprobs > 0)
        hth_buffer_add(news, (const char *)logprobs, n_logprobs);
    if (n_stats > 0)
        hth_buffer_add(news, (const char *)stats, n_stats);
    if (head->n_text > 0)
        hth_buffer_add(news, text, head->n_text);
    hth_buffer_add(news, zeros, n_padding);
    if (!news->failed)
        return true;
    news->failed = false;
    news->n = n_before;
    return false;
}

/* How much was restored, where that is new. */
static bool put_progress_locked(hth_box *box, uint32_t i)
{
    box_reply *reply = &box->replies[i];
    bool is_put = true;

    if (reply->n_done > 0)
        is_put = put_locked(box, &(news_head){ .kind = HTH_NEWS_PROGRESS, .reply = i, .n_done = reply->n_done }, NULL,
                            NULL, NULL);
    reply->n_done = 0;
    return is_put;
}

/* What waited for the next token. */
static bool put_waiting_locked(hth_box *box, uint32_t i)
{
    box_reply *reply = &box->replies[i];
    bool is_put = put_progress_locked(box, i);

    if (reply->text.n > 0)
        is_put &= put_locked(box, &(news_head){ .kind = HTH_NEWS_TEXT, .reply = i, .n_text = (uint32_t)reply->text.n },
                             NULL, NULL, reply->text.text);
    reply->lost_news |= reply->text.failed;
    hth_buffer_clear(&reply->text);
    return is_put;
}

static uint32_t reply_of(const hth_box_part *part, uint64_t id)
{
    uint32_t i = part->first + (uint32_t)(id - part->id);

    assert(i < part->box->n_replies);
    return i;
}

static bool on_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    const hth_box_part *part = user_data;
    hth_box *box = part->box;
    uint32_t i = reply_of(part, id);
    const news_head head = {
        .kind = HTH_NEWS_TOKEN,
        .reply = i,
        .token = event->token,
        .index = event->index,
        .n_logprobs = event->logprobs ? 1 + event->n_top_logprobs : 0,
        .n_text = (uint32_t)event->n_bytes,
        .is_replayed = event->is_replayed,
        .n_stats = box->tells_stats && event->stats,
    };
    bool is_put;

    box->replies[i].n_due = event->n_bytes;
    pthread_mutex_lock(&box->post->lock);
    is_put = put_waiting_locked(box, i) && put_locked(box, &head, event->logprobs, event->stats, event->text);
    if (is_put)
        list_locked(box);
    pthread_mutex_unlock(&box->post->lock);
    box->replies[i].lost_news |= !is_put;
    atomic_store_explicit(&box->post->has_news, true, memory_order_relaxed);
    return is_put;
}

static bool on_text(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    const hth_box_part *part = user_data;
    box_reply *reply = &part->box->replies[reply_of(part, id)];

    if (reply->n_due == 0)
        hth_buffer_add(&reply->text, text, n_bytes);
    reply->n_due = 0; /* it came with its token */
    return !reply->text.failed;
}

static void on_progress(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    const hth_box_part *part = user_data;
    hth_box *box = part->box;
    uint32_t i = reply_of(part, id);
    box_reply *reply = &box->replies[i];
    bool is_put;

    (void)n_total;
    if (phase == HEARTH_PHASE_RESTORE) {
        reply->n_done = n_done;
        atomic_store_explicit(&reply->n_restored, n_done, memory_order_relaxed);
        return;
    }
    if (!box->tells_prefill)
        return;
    pthread_mutex_lock(&box->post->lock);
    is_put = put_progress_locked(box, i) &&
             put_locked(box, &(news_head){ .kind = HTH_NEWS_PREFILL, .reply = i, .n_done = n_done }, NULL, NULL, NULL);
    if (is_put)
        list_locked(box);
    pthread_mutex_unlock(&box->post->lock);
    reply->lost_news |= !is_put;
    atomic_store_explicit(&box->post->has_news, true, memory_order_relaxed);
}

static bool keep_prompt_logprobs(box_reply *to, const hearth_result *result)
{
    size_t n_bytes =
        result->stats->prompt_tokens * (1 + (size_t)result->n_top_logprobs) * sizeof(*result->prompt_logprobs);

    if (!result->prompt_logprobs || n_bytes == 0)
        return true;
    to->result.prompt_logprobs = to->prompt_logprobs = malloc(n_bytes);
    if (to->prompt_logprobs)
        memcpy(to->prompt_logprobs, result->prompt_logprobs, n_bytes);
    return to->prompt_logprobs != NULL;
}

/* What the loop needs of a result. */
static void keep_result(box_reply *reply, const hearth_result *result)
{
    reply->stats = *result->stats;
    reply->result = (hearth_result){
        .struct_size = sizeof(reply->result),
        .status = result->status,
        .finish_reason = result->finish_reason,
        .stats = &reply->stats,
        .error = result->error,
        .stop_number = result->stop_number,
        .n_top_logprobs = result->n_top_logprobs,
    };
    reply->lost_news |= !keep_prompt_logprobs(reply, result);
    if (!reply->lost_news)
        return;
    reply->result.status = hth_fail(&reply->result.error, HEARTH_NO_MEMORY, "no memory for the reply");
    reply->result.finish_reason = HEARTH_FINISH_NONE;
}

/* Prompt and reply as far as they were evaluated: of a reply that ended in order, all but its last token. */
static void note_slot(const hth_box *box, const hearth_result *result)
{
    const hearth_stats *stats = result->stats;
    uint32_t n_prompt = stats->finish_tokens < stats->prompt_tokens ? stats->finish_tokens : stats->prompt_tokens;
    uint32_t n_reply = stats->finish_tokens - n_prompt;

    if (!box->slots || !result->prompt || stats->finish_tokens == 0)
        return; /* it never ran: what the slot holds stays */
    if (n_reply > stats->completion_tokens)
        n_reply = stats->completion_tokens;
    hth_slot_memory_note(box->slots, box->salt, box->slot, result->prompt, n_prompt, result->tokens, n_reply);
}

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    const hth_box_part *part = user_data;
    hth_box *box = part->box;
    uint32_t i = reply_of(part, id);
    box_reply *reply = &box->replies[i];

    if (i == 0)
        note_slot(box, result);
    pthread_mutex_lock(&box->post->lock);
    reply->lost_news |= !put_progress_locked(box, i) || reply->text.failed;
    keep_result(reply, result);
    *box->ended_end = reply;
    box->ended_end = &reply->next;
    list_locked(box);
    atomic_store_explicit(&box->post->has_news, true, memory_order_relaxed);
    pthread_mutex_unlock(&box->post->lock); /* the last touch of the box */
}

void hth_box_part_connect(hth_box_part *part, hearth_request *request)
{
    request->on_token = on_token;
    request->on_text = on_text;
    request->on_progress = on_progress;
    request->on_done = on_done;
    request->user_data = part;
}

/* ---- waking ---- */

void hth_post_wake(hth_post *post)
{
    if (atomic_exchange(&post->is_woken, true))
        return;
    while (write(post->wake_write, "", 1) < 0 && errno == EINTR) /* a full pipe wakes, too */
        ;
}

void hth_post_pass_on(hth_post *post)
{
    if (atomic_load_explicit(&post->has_news, memory_order_relaxed) && atomic_exchange(&post->has_news, false))
        hth_post_wake(post);
}

void hth_box_open(hth_box *box)
{
    hth_post *post = box->post;

    pthread_mutex_lock(&post->lock);
    box->is_open = true;
    list_locked(box);
    pthread_mutex_unlock(&post->lock);
}

/* ---- taking out ---- */

int hth_post_fd(const hth_post *post)
{
    return post->wake_read;
}

void hth_post_clear_wake(hth_post *post)
{
    char bytes[64];

    while (read(post->wake_read, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
        ;
    atomic_store(&post->is_woken, false); /* before boxes are taken: what comes later wakes again */
}

hth_box *hth_post_take(hth_post *post)
{
    hth_box *box;

    hth_buffer_clear(&post->reading);
    post->n_read = 0;
    pthread_mutex_lock(&post->lock);
    box = post->first;
    if (box) {
        hth_buffer swapped = box->news;

        post->first = box->next;
        if (!post->first)
            post->end = &post->first;
        box->is_listed = false;
        box->news = post->reading;
        post->reading = swapped;
        post->ended = box->ended;
        box->ended = NULL;
        box->ended_end = &box->ended;
    }
    pthread_mutex_unlock(&post->lock);
    post->taken = box;
    return box;
}

/*
 * The text that was held back until the end comes right before it: news of another reply between them would part them, and
 * whoever knows only the first of two parts has the text without the end that released it.
 */
static bool read_ended(hth_post *post, hth_news *out)
{
    box_reply *reply = post->ended;

    if (!reply)
        return false;
    if (reply->text.n > 0 && !reply->is_text_told) {
        reply->is_text_told = true;
        *out = (hth_news){
            .kind = HTH_NEWS_TEXT,
            .reply = (uint32_t)(reply - post->taken->replies),
            .event = { .text = reply->text.text, .n_bytes = reply->text.n },
        };
        return true;
    }
    post->ended = reply->next;
    *out = (hth_news){
        .kind = HTH_NEWS_DONE,
        .reply = (uint32_t)(reply - post->taken->replies),
        .result = &reply->result,
    };
    return true;
}

bool hth_post_read(hth_post *post, hth_news *out)
{
    const char *at, *stats;
    news_head head;

    assert(post->taken);
    if (post->n_read == post->reading.n)
        return read_ended(post, out);
    at = post->reading.text + post->n_read;
    memcpy(&head, at, sizeof(head));
    at += sizeof(head);
    stats = at + head.n_logprobs * sizeof(hearth_logprob);
    *out = (hth_news){
        .kind = (hth_news_kind)head.kind,
        .reply = head.reply,
        .n_done = head.n_done,
        .event = {
            .token = head.token,
            .index = head.index,
            .text = stats + head.n_stats * sizeof(hearth_stats),
            .n_bytes = head.n_text,
            .logprobs = head.n_logprobs > 0 ? (const hearth_logprob *)(const void *)at : NULL,
            .n_top_logprobs = head.n_logprobs > 0 ? head.n_logprobs - 1 : 0,
            .is_replayed = head.is_replayed != 0,
            .stats = head.n_stats > 0 ? (const hearth_stats *)(const void *)stats : NULL,
        },
    };
    post->n_read += sizeof(head) + head.n_logprobs * sizeof(hearth_logprob) + head.n_stats * sizeof(hearth_stats) +
                    head.n_text + ALIGNMENT - head.n_text % ALIGNMENT;
    return true;
}
