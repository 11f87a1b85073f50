/*
 * http_target.h - the server that http_bench drives, in a process of its own
 *
 * Its replies, by path:
 *
 *   /hello    a few bytes
 *   /later    the same after some milliseconds, unless the client leaves before
 *   /stream   4 MiB in pieces; the backlog never exceeds a writer's limit
 *   /numbers  numbers: connections, exchanges, descriptors, timers or streams that wait; bytes of memory; microseconds
 *             of processor time so far
 */
#ifndef BENCH_HTTP_TARGET_H
#define BENCH_HTTP_TARGET_H

/*
 * Serve on a free port of 127.0.0.1, which is printed, and on a unix socket, until standard input ends. Returns the
 * exit status of the process.
 */
int hth_http_target_run(const char *socket_path);

#endif
