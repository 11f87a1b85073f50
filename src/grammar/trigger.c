/*
 * trigger.c - compare words at every byte, and run patterns alongside
 *
 * The whole reply is stored until a trigger fires, because a pattern's group may begin anywhere.
 *
 * While no match has begun, a candidate token costs almost nothing if no match can begin with any of its bytes. When
 * all tokens are checked, tokens with the same beginning are read together (hth_triggers_mask). Every step of a pattern
 * is counted, because one choice may take at most STEPS_MAX. Patterns that would always take longer are refused before
 * they run.
 */
#include "grammar/trigger.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "grammar/pattern.h"

enum {
    STEPS_MAX = 1 << 24,     /* per choice: bytes, and instructions and threads of patterns; about 5 ns each */
    INSTRUCTIONS_MAX = 8192, /* of all patterns */
    INITIAL_MAX = 1024,      /* hth_pattern_n_initial of all patterns: leaves room for 16000 bytes of one choice */
    LEVELS_MAX = 16,         /* prefixes of a token whose states are kept for the next token */
};

typedef struct trigger {
    hearth_trigger_kind kind;
    char *word;
    size_t n_word;
    hearth_token token;
    hth_pattern *pattern;
    hth_pattern_run *run;
    hth_pattern_run *trial; /* a copy of run that reads a candidate token */
} trigger;

struct hth_triggers {
    trigger *triggers;
    size_t n;
    uint8_t *text; /* the reply so far */
    size_t n_text;
    size_t capacity;
    uint64_t n_steps; /* since begin_choice */
    bool begins[256]; /* bytes with which a pattern may begin or a word ends */
};

/* The state of the runs after some bytes of a token: for each busy pattern its number, n and n words. */
typedef struct levels {
    uint64_t *words;
    size_t capacity;
    size_t ends[LEVELS_MAX + 1]; /* of the words of each level */
    uint32_t n;
} levels;

static hearth_status trigger_init(hth_triggers *triggers, size_t i, const hearth_trigger *from, hearth_error *err)
{
    trigger *t = &triggers->triggers[i];
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
        t->run = hth_pattern_run_new(t->pattern, &triggers->n_steps);
        t->trial = hth_pattern_run_new(t->pattern, &triggers->n_steps);
        if (!t->run || !t->trial)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for triggers");
    }
    return HEARTH_OK;
}

/*
 * Refuse patterns that would take too long for every choice. Record the bytes with which a trigger may begin or fire.
 */
static hearth_status measure(hth_triggers *triggers, hearth_error *err)
{
    uint64_t n_instructions = 0, n_initial = 0;

    for (size_t i = 0; i < triggers->n; i++) {
        const trigger *t = &triggers->triggers[i];

        if (t->kind == HEARTH_TRIGGER_WORD && t->n_word > 0)
            triggers->begins[(uint8_t)t->word[t->n_word - 1]] = true;
        if (!t->pattern)
            continue;
        n_instructions += hth_pattern_n_instructions(t->pattern);
        n_initial += hth_pattern_n_initial(t->pattern);
        for (unsigned byte = 0; byte < 256; byte++)
            triggers->begins[byte] = triggers->begins[byte] || hth_pattern_may_begin(t->pattern, (uint8_t)byte);
    }
    if (n_instructions > INSTRUCTIONS_MAX)
        return hth_fail(
            err, HEARTH_MISUSE,
            "sampling: the patterns of triggers have %llu steps when compiled, all of them together; at most "
            "%d can be followed: make them shorter, or fewer",
            (unsigned long long)n_instructions, INSTRUCTIONS_MAX);
    if (n_initial > INITIAL_MAX)
        return hth_fail(
            err, HEARTH_MISUSE,
            "sampling: the patterns of triggers can begin in %llu ways, all of them together; at most %d can "
            "be followed: let them begin with what must be there",
            (unsigned long long)n_initial, INITIAL_MAX);
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
        status = trigger_init(triggers, i, &sampling->triggers[i], err);
    }
    if (status == HEARTH_OK)
        status = measure(triggers, err);
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

size_t hth_triggers_n(const hth_triggers *triggers)
{
    return triggers->n;
}

hearth_token hth_triggers_token(const hth_triggers *triggers, size_t i)
{
    return triggers->triggers[i].kind == HEARTH_TRIGGER_TOKEN ? triggers->triggers[i].token : -1;
}

void hth_triggers_begin_choice(hth_triggers *triggers)
{
    triggers->n_steps = 0;
}

bool hth_triggers_is_too_much(const hth_triggers *triggers)
{
    return triggers->n_steps > STEPS_MAX;
}

/* Append bytes to the text. False if out of memory. */
static bool append(hth_triggers *triggers, const uint8_t *bytes, size_t n_bytes)
{
    uint8_t *text =
        n_bytes > 0 ? hth_grown_by(triggers->text, triggers->n_text, n_bytes, &triggers->capacity, 1) : NULL;

    if (n_bytes == 0)
        return true;
    if (!text)
        return false;
    triggers->text = text;
    memcpy(triggers->text + triggers->n_text, bytes, n_bytes);
    triggers->n_text += n_bytes;
    return true;
}

static hth_pattern_run *run_of(const trigger *t, bool is_trial)
{
    return is_trial ? t->trial : t->run;
}

static bool any_is_busy(const hth_triggers *triggers, bool is_trial)
{
    for (size_t i = 0; i < triggers->n; i++)
        if (triggers->triggers[i].pattern && !hth_pattern_run_is_idle(run_of(&triggers->triggers[i], is_trial)))
            return true;
    return false;
}

/* Does t fire with the text's byte at `at`? is_last: the text ends with it. */
static bool fires_at(hth_triggers *triggers, const trigger *t, bool is_trial, size_t at, bool is_last, uint64_t *begin)
{
    if (t->kind == HEARTH_TRIGGER_PATTERN) {
        hth_pattern_run *run = run_of(t, is_trial);

        if (hth_pattern_run_is_idle(run)) {
            if (!hth_pattern_may_begin(t->pattern, triggers->text[at]))
                return false;
            hth_pattern_skip_to(run, at);
        }
        return hth_pattern_read(run, triggers->text[at], begin) || (is_last && hth_pattern_at_end(run, begin));
    }
    if (t->kind != HEARTH_TRIGGER_WORD || at + 1 < t->n_word ||
        memcmp(triggers->text + at + 1 - t->n_word, t->word, t->n_word) != 0)
        return false;
    *begin = at + 1 - t->n_word;
    return true;
}

/*
 * Read the byte at `at`. If several triggers fire with it, the first in the request counts. *is_busy is the result of
 * any_is_busy, before and after.
 */
static bool read_byte(hth_triggers *triggers, size_t at, bool is_trial, bool is_last, bool *is_busy, uint64_t *begin)
{
    triggers->n_steps++;
    if (!*is_busy && !triggers->begins[triggers->text[at]])
        return false;
    triggers->n_steps += triggers->n;
    for (size_t i = 0; i < triggers->n; i++)
        if (fires_at(triggers, &triggers->triggers[i], is_trial, at, is_last, begin))
            return true;
    *is_busy = any_is_busy(triggers, is_trial);
    return false;
}

/* Read the text from `from` to its end. The trigger that fires first counts. */
static bool read_text(hth_triggers *triggers, size_t from, bool is_trial, uint64_t *begin)
{
    bool is_busy = any_is_busy(triggers, is_trial);

    triggers->n_steps += triggers->n;
    for (size_t at = from; at < triggers->n_text; at++) {
        if (is_trial && hth_triggers_is_too_much(triggers))
            return false;
        if (read_byte(triggers, at, is_trial, at + 1 == triggers->n_text, &is_busy, begin))
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

static void copy_to_trial(hth_triggers *triggers)
{
    triggers->n_steps += triggers->n;
    for (size_t i = 0; i < triggers->n; i++) {
        const trigger *t = &triggers->triggers[i];

        if (!t->pattern)
            continue;
        hth_pattern_run_copy(t->trial, t->run);
    }
}

void hth_triggers_try(hth_triggers *triggers, const uint8_t *bytes, size_t n_bytes, bool *fires,
                      const uint8_t **text_out, size_t *n_out)
{
    size_t from = triggers->n_text;
    uint64_t begin;

    *fires = false;
    if (hth_triggers_is_too_much(triggers) || !append(triggers, bytes, n_bytes))
        return;
    copy_to_trial(triggers);
    *fires = read_text(triggers, from, true, &begin);
    if (*fires) {
        *text_out = triggers->text + begin;
        *n_out = triggers->n_text - (size_t)begin;
    }
    triggers->n_text = from;
}

/* ---- all tokens -------------------------------------------------------------------------------------------------- */

/* Keep the state of the trial as the next level. False if out of memory. */
static bool push_level(hth_triggers *triggers, levels *l, bool is_busy)
{
    size_t begin = l->n > 0 ? l->ends[l->n - 1] : 0;
    size_t n = begin;

    assert(l->n <= LEVELS_MAX);
    for (size_t i = 0; is_busy && i < triggers->n; i++)
        if (triggers->triggers[i].pattern && !hth_pattern_run_is_idle(triggers->triggers[i].trial))
            n += 2 + hth_pattern_run_n_words(triggers->triggers[i].trial);
    if (n > begin) {
        uint64_t *words = hth_grown_by(l->words, begin, n - begin, &l->capacity, sizeof(words[0]));

        if (!words)
            return false;
        l->words = words;
    }
    n = begin;
    for (size_t i = 0; is_busy && i < triggers->n; i++) {
        hth_pattern_run *trial = triggers->triggers[i].trial;

        if (!triggers->triggers[i].pattern || hth_pattern_run_is_idle(trial))
            continue;
        assert(l->words); /* it is busy, so n was counted */
        l->words[n++] = i;
        l->words[n++] = hth_pattern_run_n_words(trial);
        hth_pattern_run_save(trial, l->words + n);
        n += l->words[n - 1];
    }
    l->ends[l->n++] = n;
    return true;
}

/*
 * Restore the trial to its state after n bytes of a token that begins at `from`. is_busy is any_is_busy now; the result
 * is any_is_busy of the restored state.
 */
static bool pop_to_level(hth_triggers *triggers, levels *l, uint32_t n, size_t from, bool is_busy)
{
    size_t at = n > 0 ? l->ends[n - 1] : 0;

    assert(n < l->n);
    l->n = n + 1;
    triggers->n_text = from + n;
    if (is_busy) {
        triggers->n_steps += triggers->n;
        for (size_t i = 0; i < triggers->n; i++)
            if (triggers->triggers[i].pattern)
                hth_pattern_run_restore(triggers->triggers[i].trial, NULL, 0);
    }
    if (at == l->ends[n])
        return false;
    while (at < l->ends[n]) {
        hth_pattern_run *trial = triggers->triggers[l->words[at]].trial;

        hth_pattern_run_restore(trial, l->words + at + 2, (size_t)l->words[at + 1]);
        hth_pattern_skip_to(trial, from + n);
        at += 2 + (size_t)l->words[at + 1];
    }
    return true;
}

hearth_status hth_triggers_mask(hth_triggers *triggers, const hth_vocabulary *vocabulary, bool *allowed,
                                hth_triggers_may_begin_fn may_begin, void *user_data, hearth_error *err)
{
    size_t from = triggers->n_text;
    levels l = { .n = 0 };
    uint32_t fired_after = 0; /* bytes of the last token; 0: it fired nothing, or only because it ended there */
    uint64_t begin = 0;
    bool is_busy = true; /* assumed, also after a trigger fired */
    bool ok;

    for (uint32_t i = 0; i < vocabulary->n_tokens; i++)
        allowed[i] = true;
    copy_to_trial(triggers);
    ok = push_level(triggers, &l, any_is_busy(triggers, true));
    for (uint32_t i = 0; ok && i < vocabulary->n_sorted && !hth_triggers_is_too_much(triggers); i++) {
        const hth_piece *piece = &vocabulary->sorted[i];
        uint32_t shared = vocabulary->shared[i];
        bool fires = fired_after > 0 && fired_after <= shared;

        if (!fires) {
            uint32_t depth = shared < l.n ? shared : l.n - 1;

            is_busy = pop_to_level(triggers, &l, depth, from, is_busy);
            fired_after = 0;
            ok = append(triggers, piece->bytes + depth, piece->n_bytes - depth);
            for (; ok && !fires && depth < piece->n_bytes && !hth_triggers_is_too_much(triggers); depth++) {
                bool is_last = depth + 1 == piece->n_bytes;

                fires = read_byte(triggers, from + depth, true, is_last, &is_busy, &begin);
                if (fires && !is_last)
                    fired_after = depth + 1;
                if (fires)
                    is_busy = true;
                else if (depth < LEVELS_MAX && l.n == depth + 1)
                    ok = push_level(triggers, &l, is_busy);
            }
        } else {
            triggers->n_text = from;
            ok = append(triggers, piece->bytes, piece->n_bytes);
        }
        if (ok && fires)
            allowed[piece->token] = may_begin(user_data, triggers->text + begin, triggers->n_text - (size_t)begin);
    }
    free(l.words);
    triggers->n_text = from;
    return ok ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory to look for triggers");
}
