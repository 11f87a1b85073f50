/*
 * pattern.h - regular expressions over a text that is still being written
 *
 * The engine searches for its triggers with std::regex, which takes exponential time at worst and starts over for each
 * token. This machine follows all possibilities at once, byte by byte (R. Pike's virtual machine; R. Cox, "Regular
 * Expression Matching: the Virtual Machine Approach", 2009). A byte costs at most the length of the compiled pattern.
 *
 * The notation is ECMAScript's, except for look-around and back-references, which such a machine cannot support.
 * Characters: themselves, ".", classes "[a-z]" of ASCII, \d \D \w \W \s \S \n \r \t \f \v \xHH and any escaped
 * punctuation. "^" is the beginning of the text, "$" its end so far. Groups "(...)", "(?:...)"; "|"; "*", "+", "?",
 * "{m}", "{m,}", "{m,n}", lazy with a "?" after them.
 */
#ifndef HTH_GRAMMAR_PATTERN_H
#define HTH_GRAMMAR_PATTERN_H

#include "base/status.h"

typedef struct hth_pattern hth_pattern;         /* immutable */
typedef struct hth_pattern_run hth_pattern_run; /* the state of one text */

/* HEARTH_MISUSE with the error and its position; HEARTH_NO_MEMORY. */
hearth_status hth_pattern_new(const char *text, hth_pattern **out, hearth_error *err);
void hth_pattern_free(hth_pattern *pattern); /* accepts NULL */
uint32_t hth_pattern_n_instructions(const hth_pattern *pattern);
/*
 * The number of instructions run at each position where a match may begin: the cost of a byte while no match has begun.
 */
uint32_t hth_pattern_n_initial(const hth_pattern *pattern);
/* May a match begin with this byte? An idle run need not read a byte for which this is false. */
bool hth_pattern_may_begin(const hth_pattern *pattern, uint8_t byte);

/*
 * Begin a text. pattern is borrowed. The steps of the run, which are the instructions and threads that are visited,
 * added or copied, are added to *n_steps. NULL if out of memory.
 */
hth_pattern_run *hth_pattern_run_new(const hth_pattern *pattern, uint64_t *n_steps);
void hth_pattern_run_free(hth_pattern_run *run); /* accepts NULL */
/* Copy the state of from to to, a run of the same pattern. */
void hth_pattern_run_copy(hth_pattern_run *to, const hth_pattern_run *from);
/* Is there no partial match that may continue? */
bool hth_pattern_run_is_idle(const hth_pattern_run *run);

/* Save the state of a run, without its position, as hth_pattern_run_n_words words, and restore it. */
size_t hth_pattern_run_n_words(const hth_pattern_run *run);
void hth_pattern_run_save(hth_pattern_run *run, uint64_t *words);
void hth_pattern_run_restore(hth_pattern_run *run, const uint64_t *words, size_t n_words);
/* Set the position of the next byte. The bytes before it were read, or skipped while the run was idle. */
void hth_pattern_skip_to(hth_pattern_run *run, uint64_t position);

/*
 * Read one byte. True if the text now contains a match; the leftmost counts. *begin_out is the beginning of its first
 * group that is not empty, or of the match if there is no such group. Do not read further after a match.
 */
bool hth_pattern_read(hth_pattern_run *run, uint8_t byte, uint64_t *begin_out);
/* Is there a match if the text ends here? For patterns with "$"; changes nothing. */
bool hth_pattern_at_end(hth_pattern_run *run, uint64_t *begin_out);

#endif
