/*
 * events_memory_test.c - a queue without memory for its events loses none silently
 *
 * The linker sends allocations to support/failing_heap.h. The queue's blocks, which their size tells apart, fail from
 * the n-th on. Each reply then ends with HEARTH_NO_MEMORY, in memory that was set aside, and the queue works again when
 * there is memory.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/failing_heap.h"

enum { BLOCK_BYTES_MIN = 16 << 10, BLOCK_BYTES_MAX = BLOCK_BYTES_MIN + 256, PATIENCE_MS = 60000, TAKE_MAX = 256 };

static atomic_int n_blocks_left = -1; /* negative: any number */

ALLOCATION_FAILS(n_bytes)
{
    if (n_bytes < BLOCK_BYTES_MIN || n_bytes >= BLOCK_BYTES_MAX || atomic_load(&n_blocks_left) < 0 ||
        atomic_fetch_sub(&n_blocks_left, 1) > 0)
        return false;
    atomic_store(&n_blocks_left, 0);
    return true;
}

typedef struct ends {
    uint32_t n_tokens;
    uint32_t n_ended;
    uint32_t n_without_memory;
} ends;

static void hear(ends *e, const hearth_event *event)
{
    e->n_tokens += event->kind == HEARTH_EVENT_TOKEN;
    if (event->kind != HEARTH_EVENT_DONE)
        return;
    e->n_ended++;
    if (event->status == HEARTH_OK)
        return;
    assert_int_equal(event->status, HEARTH_NO_MEMORY);
    assert_int_equal(event->error->status, HEARTH_NO_MEMORY);
    assert_true(event->error->message[0] != '\0');
    e->n_without_memory++;
}

/* Run three replies with so many blocks, and take only when all have ended. */
static ends run(const hth_test_stub *f, int n_blocks)
{
    hearth_request request = hth_test_greedy("There is no room for what is told of this", 300);
    const hearth_event *events[TAKE_MAX];
    hearth_events *queue;
    ends e = { .n_tokens = 0 };
    uint64_t id;
    size_t n;

    assert_int_equal(hearth_events_open(NULL, &queue, NULL), HEARTH_OK);
    request.n = 3;
    request.events = queue;
    request.event_flags = HEARTH_EVENTS_STATS | HEARTH_EVENTS_PREFILL;
    atomic_store(&n_blocks_left, n_blocks);
    assert_int_equal(hearth_submit(f->model, &request, &id, NULL), HEARTH_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(hearth_wait(f->model, id + i, PATIENCE_MS, NULL), HEARTH_OK);
    while (e.n_ended < 3) {
        assert_int_equal(hearth_events_take(queue, events, TAKE_MAX, PATIENCE_MS, &n, NULL), HEARTH_OK);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++)
            hear(&e, events[i]);
    }
    atomic_store(&n_blocks_left, -1);
    hearth_events_close(queue);
    return e;
}

STUB_TEST(a_reply_without_memory_for_its_events_says_so)
{
    if (!WRAPS_MALLOC)
        skip();
    for (int n_blocks = 0; n_blocks < 8; n_blocks++) {
        ends e = run(f, n_blocks);

        assert_int_equal(e.n_without_memory, 3);
        assert_true(n_blocks == 0 ? e.n_tokens == 0 : e.n_tokens < 900);
    }
    assert_int_equal(run(f, -1).n_without_memory, 0);
    assert_int_equal(run(f, -1).n_tokens, 900);
}
