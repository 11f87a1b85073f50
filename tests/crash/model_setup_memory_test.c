/*
 * model_setup_memory_test.c - a chat template that there is no memory for is refused with a message
 *
 * The linker sends allocations to support/failing_heap.h.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "options/model_options.h"
#include "support/cmocka_all.h"
#include "support/failing_heap.h"
#include "support/support.h"

static failing_heap heap;

ALLOCATION_FAILS(n_bytes)
{
    return failing_heap_counts(&heap);
}

TEST(a_chat_template_without_memory_is_refused_with_a_message)
{
    static hth_model_setup setup; /* large */
    char untouched, *text = &untouched, message[256] = "";
    const int saved = dup(STDERR_FILENO);
    FILE *file = tmpfile();
    bool ok;

    if (!WRAPS_MALLOC)
        skip();
    hth_model_setup_init(&setup);
    setup.chat_template = "chatml";
    assert_non_null(file);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    heap = (failing_heap){ .armed = true, .fail_at = 1, .n_fails = 1 };
    ok = hth_model_setup_template(&setup, &text);
    heap.armed = false;
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    assert_int_equal(close(saved), 0);
    rewind(file);
    (void)!fread(message, 1, sizeof(message) - 1, file);
    assert_int_equal(fclose(file), 0);
    assert_false(ok);
    assert_string_equal(message, "hearth: no memory for the chat template\n");
    assert_ptr_equal(text, &untouched);
}
