/*
 * trigger.c - words are compared at every byte, patterns run along
 *
 * The whole reply is kept until a trigger fires, because a pattern's group may begin anywhere.
 */
#include "engine/trigger.h"

#include <stdlib.h>
#include <string.h>

#include "engine/pattern.h"

enum { STEPS_MAX = 1 << 24 }; /* threads of patterns that are copied or read for one choice */

typedef struct trigger {
    hearth_trigger_kind kind;
    char *word;
    size_t n_word;
    hearth_token token;
    hth_pattern *pattern;
    hth_pattern_run *run;
    hth_pattern_run *trial; /* a copy of run that reads a token that may come */
} trigger;

struct hth_triggers {
    trigger *triggers;
    size_t n;
    uint8_t *text; /* of the reply so far */
    size_t n_text;
    size_t capacity;
    uint64_t n_steps; /* since begin_choice */
};

static hearth_status trigger_init(trigger *t, const hearth_trigger *from, size_t i, hearth_error *err)
{
    hearth_status status;

    *t = (trigger){ .kind = from->kind, .token = from->token };
    if (from->kind == HEARTH_TRIGGER_WORD) {
        t->word = strdup(from->text);
        if (!t->word)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for triggers");
        t->n_word = strlen(from->text);
    } else if (from->kind == HEARTH_TRIGGER_PATTERN) {
        status = hth_pattern_new(from->text, &t->pattern, err);
        if (status != HEARTH_OK) {
            hth_fail_prefix(err, "sampling: triggers[%zu]", i);
            return status;
        }
        t->run = hth_pattern_run_new(t->pattern);
        t->trial = hth_pattern_run_new(t->pattern);
        if (!t->run || !t->trial)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for triggers");
    }
    return HEARTH_OK;
}

hearth_status hth_triggers_new(const hearth_sampling *sampling, hth_triggers **out, hearth_error *err)
{
    hth_triggers *triggers = calloc(1, sizeof(*triggers));
    hearth_status status = HEARTH_OK;

    if (triggers)
        triggers->triggers = calloc(sampling->n_triggers ? sampling->n_triggers : 1, sizeof(triggers->triggers[0]));
    if (!triggers || !triggers->triggers) {
        free(triggers);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for triggers");
    }
    for (size_t i = 0; i < sampling->n_triggers && status == HEARTH_OK; i++) {
        triggers->n = i + 1;
        status = trigger_init(&triggers->triggers[i], &sampling->triggers[i], i, err);
    }
    if (status != HEARTH_OK) {
        hth_triggers_free(triggers);
        return status;
    }
    *out = triggers;
    return HEARTH_OK;
}

void hth_triggers_free(hth_triggers *triggers)
{
    if (!triggers)
        return;
    for (size_t i = 0; i < triggers->n; i++) {
        free(triggers->triggers[i].word);
        hth_pattern_run_free(triggers->triggers[i].run);
        hth_pattern_run_free(triggers->triggers[i].trial);
        hth_pattern_free(triggers->triggers[i].pattern);
    }
    free(triggers->triggers);
    free(triggers->text);
    free(triggers);
}

bool hth_triggers_has_token(const hth_triggers *triggers, hearth_token token)
{
    for (size_t i = 0; i < triggers->n; i++)
        if (triggers->triggers[i].kind == HEARTH_TRIGGER_TOKEN && triggers->triggers[i].token == token)
            return true;
    return false;
}

void hth_triggers_begin_choice(hth_triggers *triggers)
{
    triggers->n_steps = 0;
}

bool hth_triggers_is_too_much(const hth_triggers *triggers)
{
    return triggers->n_steps > STEPS_MAX;
}

/* Put bytes behind the text; false without memory. */
static bool append(hth_triggers *triggers, const uint8_t *bytes, size_t n_bytes)
{
    if (triggers->capacity - triggers->n_text < n_bytes) {
        size_t capacity = 2 * triggers->capacity + n_bytes + 1024;
        uint8_t *text = realloc(triggers->text, capacity);

        if (!text)
            return false;
        triggers->text = text;
        triggers->capacity = capacity;
    }
    if (n_bytes > 0)
        memcpy(triggers->text + triggers->n_text, bytes, n_bytes);
    triggers->n_text += n_bytes;
    return true;
}

/* Does t fire with the text's byte at `at`? Patterns read it with run. */
static bool fires_at(hth_triggers *triggers, const trigger *t, hth_pattern_run *run, size_t at, uint64_t *begin)
{
    if (run)
        triggers->n_steps += hth_pattern_run_n_threads(run) + 1;
    if (t->kind == HEARTH_TRIGGER_PATTERN)
        return hth_pattern_read(run, triggers->text[at], begin) ||
               (at + 1 == triggers->n_text && hth_pattern_at_end(run, begin));
    if (t->kind != HEARTH_TRIGGER_WORD || at + 1 < t->n_word ||
        memcmp(triggers->text + at + 1 - t->n_word, t->word, t->n_word) != 0)
        return false;
    *begin = at + 1 - t->n_word;
    return true;
}

/* Read the text from `from` to its end. The trigger that fires first counts; of those at one byte, the first given. */
static bool read_text(hth_triggers *triggers, size_t from, bool is_trial, uint64_t *begin)
{
    for (size_t at = from; at < triggers->n_text; at++)
        for (size_t i = 0; i < triggers->n; i++) {
            trigger *t = &triggers->triggers[i];

            if (fires_at(triggers, t, is_trial ? t->trial : t->run, at, begin))
                return true;
        }
    return false;
}

hearth_status hth_triggers_read(hth_triggers *triggers, const uint8_t *bytes, size_t n_bytes, bool *fires,
                                const uint8_t **text_out, size_t *n_out, hearth_error *err)
{
    size_t from = triggers->n_text;
    uint64_t begin;

    if (!append(triggers, bytes, n_bytes))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to look for triggers");
    *fires = read_text(triggers, from, false, &begin);
    if (*fires) {
        *text_out = triggers->text + begin;
        *n_out = triggers->n_text - (size_t)begin;
    }
    return HEARTH_OK;
}

void hth_triggers_try(hth_triggers *triggers, const uint8_t *bytes, size_t n_bytes, bool *fires,
                      const uint8_t **text_out, size_t *n_out)
{
    size_t from = triggers->n_text;
    uint64_t begin;

    *fires = false;
    if (hth_triggers_is_too_much(triggers) || !append(triggers, bytes, n_bytes))
        return;
    for (size_t i = 0; i < triggers->n; i++) {
        const trigger *t = &triggers->triggers[i];

        if (!t->run)
            continue;
        hth_pattern_run_copy(t->trial, t->run);
        triggers->n_steps += hth_pattern_run_n_threads(t->run) + 1;
    }
    *fires = read_text(triggers, from, true, &begin);
    if (*fires) {
        *text_out = triggers->text + begin;
        *n_out = triggers->n_text - (size_t)begin;
    }
    triggers->n_text = from;
}
