/*
 * pattern.h - regular expressions over a text that is still being written
 *
 * What std::regex, with which the engine looks for its triggers, does in exponential time at worst and from the beginning
 * for each token, is done here byte by byte with all possibilities at once (R. Pike's virtual machine; R. Cox, "Regular
 * Expression Matching: the Virtual Machine Approach", 2009). A byte costs at most the length of the compiled pattern.
 *
 * The notation is that of ECMAScript without what cannot be done so: no look-around and no back-references. Characters:
 * themselves, ".", classes "[a-z]" of ASCII, \d \D \w \W \s \S \n \r \t \f \v \xHH and any escaped punctuation. "^" is
 * the beginning of the text, "$" its end so far. Groups "(...)", "(?:...)"; "|"; "*", "+", "?", "{m}", "{m,}", "{m,n}",
 * lazy with a "?" behind.
 */
#ifndef HTH_ENGINE_PATTERN_H
#define HTH_ENGINE_PATTERN_H

#include "base/status.h"

typedef struct hth_pattern hth_pattern;         /* immutable */
typedef struct hth_pattern_run hth_pattern_run; /* a text read with it so far */

/* HEARTH_MISUSE says what is wrong and where; HEARTH_NO_MEMORY. */
hearth_status hth_pattern_new(const char *text, hth_pattern **out, hearth_error *err);
void hth_pattern_free(hth_pattern *pattern); /* accepts NULL */
uint32_t hth_pattern_n_instructions(const hth_pattern *pattern);
/* Instructions that are looked at wherever a match may begin: what a byte costs where nothing was matched before. */
uint32_t hth_pattern_n_initial(const hth_pattern *pattern);
/* May a match begin with this byte? With one that it may not, an idle run need not read it. */
bool hth_pattern_may_begin(const hth_pattern *pattern, uint8_t byte);

/* Begin a text. pattern is borrowed. NULL without memory. */
hth_pattern_run *hth_pattern_run_new(const hth_pattern *pattern);
void hth_pattern_run_free(hth_pattern_run *run); /* accepts NULL */
/* Let to, of the same pattern, be where from is. */
void hth_pattern_run_copy(hth_pattern_run *to, const hth_pattern_run *from);
/* Has no match begun that may go on? */
bool hth_pattern_run_is_idle(const hth_pattern_run *run);
/* The work since this was asked last: instructions and threads that were looked at, added or copied. */
uint64_t hth_pattern_run_take_steps(hth_pattern_run *run);

/* Where a run is, but for its position, as hth_pattern_run_n_words words, and back. */
size_t hth_pattern_run_n_words(const hth_pattern_run *run);
void hth_pattern_run_save(hth_pattern_run *run, uint64_t *words);
void hth_pattern_run_restore(hth_pattern_run *run, const uint64_t *words, size_t n_words);
/* The next byte is at this position of the text; those before it were read, or skipped where the run was idle. */
void hth_pattern_skip_to(hth_pattern_run *run, uint64_t position);

/*
 * Read one more byte; true when the text now holds a match: *begin_out is where its first group that is not empty
 * begins, or it itself where there is none. The leftmost match counts. Not to be read on then.
 */
bool hth_pattern_read(hth_pattern_run *run, uint8_t byte, uint64_t *begin_out);
/* Is there a match if the text ends here? For patterns with "$"; changes nothing. */
bool hth_pattern_at_end(hth_pattern_run *run, uint64_t *begin_out);

#endif
