/*
 * engine_question.h - the engine is asked for needs only while no model of the process is at work
 *
 * A question changes the log of the engine, and all threads share that log. Any thread may call these functions.
 */
#ifndef HTH_MODELS_ENGINE_QUESTION_H
#define HTH_MODELS_ENGINE_QUESTION_H

#include <stdbool.h>

/* Around a question. The first waits for another question to end. False: there are models, and there is no end. */
bool hth_engine_question_begin(void);
void hth_engine_question_end(void);

/* Around the life of a model, from before its load until the engine has freed it. The first waits for a question. */
void hth_engine_questions_refuse(void);
void hth_engine_questions_allow(void);

#endif
