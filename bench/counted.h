/*
 * counted.h - the hot paths whose instructions are counted
 *
 * Each function prepares a path, runs it once so that memory and tables are there, and counts one more run between
 * hth_count_begin and hth_count_end. Inputs are fixed, and no other thread works meanwhile.
 */
#ifndef BENCH_COUNTED_H
#define BENCH_COUNTED_H

/* Count the instructions of this thread from here, and write them under the name of the path. */
void hth_count_begin(void);
void hth_count_end(const char *path);

/* directory is empty, for the rows in files. */
void hth_count_cache(const char *directory);
void hth_count_requests(void);
void hth_count_replies(void);
void hth_count_tokens(void);

#endif
