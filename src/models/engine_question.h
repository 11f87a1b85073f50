/*
 * engine_question.h - memory needs are queried from the engine only while the process has no model
 *
 * A query changes the engine's log, which all threads share. Any thread may call these functions.
 */
#ifndef HTH_MODELS_ENGINE_QUESTION_H
#define HTH_MODELS_ENGINE_QUESTION_H

#include <stdbool.h>

/*
 * Call before and after a query. begin waits for another query to end. False if the process has models: do not query,
 * and do not call end.
 */
bool hth_engine_question_begin(void);
void hth_engine_question_end(void);

/* Call before a model is loaded and after the engine has freed it. The first function waits for a query to end. */
void hth_engine_questions_refuse(void);
void hth_engine_questions_allow(void);

#endif
