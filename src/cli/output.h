/*
 * output.h - the end of standard output
 */
#ifndef HTH_CLI_OUTPUT_H
#define HTH_CLI_OUTPUT_H

/*
 * Flush standard output. Returns exit_code, or that of a failure if output was lost; with a message, unless the reader
 * of a pipe has left.
 */
int hth_output_end(int exit_code);

#endif
