/*
 * engine_question.c - see engine_question.h
 */
#include "models/engine_question.h"

#include <assert.h>
#include <pthread.h>
#include <stddef.h>

/* Global, like the engine and its log. */
static struct {
    pthread_mutex_t lock; /* held during a query */
    size_t n_models;
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool hth_engine_question_begin(void)
{
    pthread_mutex_lock(&process.lock);
    if (process.n_models == 0)
        return true;
    pthread_mutex_unlock(&process.lock);
    return false;
}

void hth_engine_question_end(void)
{
    pthread_mutex_unlock(&process.lock);
}

void hth_engine_questions_refuse(void)
{
    pthread_mutex_lock(&process.lock);
    process.n_models++;
    pthread_mutex_unlock(&process.lock);
}

void hth_engine_questions_allow(void)
{
    pthread_mutex_lock(&process.lock);
    assert(process.n_models > 0);
    process.n_models--;
    pthread_mutex_unlock(&process.lock);
}
