/*
 * last_reference_test.c - a model's last reference may be given back anywhere, also in one of its own callbacks
 *
 * The end of a model joins the scheduler's thread. Who gives the last reference back does not wait for that: in a
 * callback he would wait for himself.
 */
#include <pthread.h>

#include "hearth.h"
#include "support/api.h"
#include "support/cmocka_all.h"

enum { N_TOKENS = 40 };

static hearth_model *load(hearth_runtime *runtime)
{
    return hth_test_model_load(runtime, "stub:", NULL);
}

/* After the first one was closed. */
static void open_again(hth_test_stub *f)
{
    hearth_runtime_options options = hth_test_runtime_options(f->directory);

    f->runtime = hth_test_runtime_open(&options);
}

/* Who holds a reference that a callback gives back, and what the callback was told. */
typedef struct holder {
    hearth_model *model; /* the reference; NULL: it was given back */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done;
    hearth_status status;
    uint32_t n_tokens;
} holder;

static void holder_init(holder *h, hearth_model *model)
{
    *h = (holder){ .model = model };
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
}

static void give_back(holder *h)
{
    hearth_model_unref(h->model);
    h->model = NULL;
}

static bool give_back_at_text(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    (void)id, (void)text, (void)n_bytes;
    give_back(user_data);
    return true;
}

static void note_end(uint64_t id, const hearth_result *result, void *user_data)
{
    holder *h = user_data;

    (void)id;
    pthread_mutex_lock(&h->lock);
    h->is_done = true;
    h->status = result->status;
    h->n_tokens = result->stats->completion_tokens;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void give_back_at_end(uint64_t id, const hearth_result *result, void *user_data)
{
    give_back(user_data);
    note_end(id, result, user_data);
}

static void submit(hearth_model *model, holder *h, hearth_text_fn on_text, hearth_done_fn on_done)
{
    hearth_request request = hth_test_greedy("There was a miller's son who had three wishes and no shoes.", N_TOKENS);
    hearth_error err;

    request.on_text = on_text;
    request.on_done = on_done;
    request.user_data = h;
    assert_ok(hearth_submit(model, &request, NULL, &err), err);
}

static void wait_for_end(holder *h)
{
    pthread_mutex_lock(&h->lock);
    while (!h->is_done)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static void holder_deinit(holder *h)
{
    wait_for_end(h);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
}

/* ---- in callbacks of the model itself ---- */

RUNTIME_TEST(the_last_reference_may_be_given_back_when_a_reply_ends)
{
    holder h;

    holder_init(&h, load(f->runtime));
    submit(h.model, &h, NULL, give_back_at_end);
    wait_for_end(&h);
    assert_int_equal(h.status, HEARTH_OK);
    assert_int_equal(h.n_tokens, N_TOKENS);
    hearth_runtime_close(f->runtime); /* waits for the model's end */

    /* What its context held was saved. */
    open_again(f);
    assert_true(hth_test_counters(f->runtime).disk_rows > 0);
    holder_deinit(&h);
}

RUNTIME_TEST(given_back_in_the_middle_of_a_reply_it_cancels_the_reply)
{
    holder h;

    holder_init(&h, load(f->runtime));
    submit(h.model, &h, give_back_at_text, note_end);
    wait_for_end(&h);
    assert_int_equal(h.status, HEARTH_CANCELLED);
    assert_true(h.n_tokens < N_TOKENS);
    holder_deinit(&h);
}

RUNTIME_TEST(its_other_requests_end_too)
{
    enum { N_OTHERS = 3 };
    hearth_model *model = load(f->runtime);
    holder first, others[N_OTHERS];

    holder_init(&first, hearth_model_ref(model));
    for (int i = 0; i < N_OTHERS; i++) {
        holder_init(&others[i], NULL);
        submit(model, &others[i], NULL, note_end);
    }
    submit(model, &first, give_back_at_text, note_end);
    hearth_model_unref(model);
    wait_for_end(&first);
    assert_int_equal(first.status, HEARTH_CANCELLED);
    for (int i = 0; i < N_OTHERS; i++)
        holder_deinit(&others[i]); /* each was told */
    holder_deinit(&first);
}

RUNTIME_TEST(a_model_that_is_unloaded_may_be_given_back_there_too)
{
    hearth_model *model = load(f->runtime);
    holder h;

    holder_init(&h, hearth_model_ref(model));
    submit(model, &h, NULL, give_back_at_end);
    hearth_model_unload(model); /* which waits for the reply on a thread of its own */
    hearth_model_unref(model);
    wait_for_end(&h);
    assert_int_equal(h.status, HEARTH_OK);
    assert_int_equal(h.n_tokens, N_TOKENS);
    holder_deinit(&h);
}

static bool unload_at_text(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    holder *h = user_data;

    (void)id, (void)text, (void)n_bytes;
    hearth_model_unload(h->model);
    return true;
}

RUNTIME_TEST(a_model_may_be_unloaded_in_a_callback)
{
    holder h;

    holder_init(&h, load(f->runtime));
    submit(h.model, &h, unload_at_text, note_end);
    wait_for_end(&h);
    assert_int_equal(h.status, HEARTH_OK); /* what runs goes on */
    assert_int_equal(h.n_tokens, N_TOKENS);
    hearth_model_unref(h.model);
    holder_deinit(&h);
}

/* ---- on a thread of the caller's ---- */

typedef struct gate {
    holder holder;
    bool is_held, is_open; /* under the holder's lock */
} gate;

static bool hold(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    gate *g = user_data;

    (void)id, (void)text, (void)n_bytes;
    pthread_mutex_lock(&g->holder.lock);
    g->is_held = true;
    pthread_cond_broadcast(&g->holder.changed);
    while (!g->is_open)
        pthread_cond_wait(&g->holder.changed, &g->holder.lock);
    pthread_mutex_unlock(&g->holder.lock);
    return true;
}

static size_t n_models(hearth_runtime *runtime)
{
    size_t n = 0;

    assert_int_equal(hearth_runtime_models(runtime, NULL, 0, &n, NULL), HEARTH_OK);
    return n;
}

RUNTIME_TEST(giving_it_back_waits_for_nothing)
{
    gate g = { .is_open = false };

    holder_init(&g.holder, load(f->runtime));
    submit(g.holder.model, &g.holder, hold, note_end); /* the holder is the gate's beginning */
    pthread_mutex_lock(&g.holder.lock);
    while (!g.is_held)
        pthread_cond_wait(&g.holder.changed, &g.holder.lock);
    pthread_mutex_unlock(&g.holder.lock);
    hearth_model_unref(g.holder.model); /* whose scheduler's thread stands */
    assert_int_equal(n_models(f->runtime), 1);
    pthread_mutex_lock(&g.holder.lock);
    g.is_open = true;
    pthread_cond_broadcast(&g.holder.changed);
    pthread_mutex_unlock(&g.holder.lock);
    wait_for_end(&g.holder);
    assert_int_equal(g.holder.status, HEARTH_CANCELLED);
    hearth_runtime_close(f->runtime);
    open_again(f);
    holder_deinit(&g.holder);
}

/* ---- in those of another model ---- */

RUNTIME_TEST(two_models_may_give_each_other_back)
{
    enum { ROUNDS = 20 };

    for (int i = 0; i < ROUNDS; i++) {
        hearth_model *first = load(f->runtime), *second = load(f->runtime);
        holder of_first, of_second;

        holder_init(&of_first, first);
        holder_init(&of_second, second);
        hearth_model_ref(first);
        hearth_model_ref(second);
        submit(first, &of_second, NULL, give_back_at_end);
        submit(second, &of_first, NULL, give_back_at_end);
        hearth_model_unref(first);
        hearth_model_unref(second);
        holder_deinit(&of_first);
        holder_deinit(&of_second);
    }
}

/* ---- and the runtime ---- */

RUNTIME_TEST(closing_the_runtime_waits_for_models_that_were_given_back_in_callbacks)
{
    enum { N = 8 };
    holder holders[N];

    for (int i = 0; i < N; i++) {
        hearth_model *model = load(f->runtime);

        holder_init(&holders[i], model);
        submit(model, &holders[i], i % 2 == 0 ? give_back_at_text : NULL, i % 2 == 0 ? note_end : give_back_at_end);
    }
    hearth_runtime_close(f->runtime); /* some have gone, some go, and some are ended by this */
    for (int i = 0; i < N; i++) {
        wait_for_end(&holders[i]);
        hearth_model_unref(holders[i].model); /* NULL, unless the request was ended before its first text */
        holder_deinit(&holders[i]);
    }
    open_again(f);
}
