/*
 * trace_fuzz.c - headers traceparent and X-Request-Id
 *
 * What must hold: whatever came, there are a trace and an id that are well-formed, and a trace that is written can be
 * read again, with our span as its parent.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "http/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    char *header = malloc(n_bytes + 1);
    char written[HTH_TRACEPARENT_BYTES], id[HTH_REQUEST_ID_BYTES], again[HTH_REQUEST_ID_BYTES];
    hth_trace trace, next;
    bool is_given;

    if (!header)
        return 0;
    if (n_bytes > 0)
        memcpy(header, bytes, n_bytes);
    header[n_bytes] = '\0';

    is_given = hth_trace_begin(header, &trace);
    require(is_given == (trace.parent_id[0] != '\0'));
    require(!is_given || strncmp(header + 3, trace.trace_id, 32) == 0);
    hth_trace_write(&trace, written);
    require(hth_trace_begin(written, &next));
    require(strcmp(next.trace_id, trace.trace_id) == 0 && strcmp(next.parent_id, trace.span_id) == 0);
    require(next.flags == trace.flags);

    is_given = hth_request_id_begin(header, id);
    require(!is_given || strcmp(header, id) == 0);
    require(hth_request_id_begin(id, again) && strcmp(id, again) == 0);
    free(header);
    return 0;
}
