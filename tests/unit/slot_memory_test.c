/*
 * slot_memory_test.c - slots have numbers, and what ran in them last is theirs
 */
#include "worker/slot_memory.h"

#include <stdlib.h>

#include "support/cmocka_all.h"

static const hearth_token one[] = { 1, 2, 3, 4 };
static const hearth_token other[] = { 1, 2, 9 };

static const hth_slot_adapters none, half = { .n = 1, .list = { { .id = 0, .scale = 0.5F } } };
static hth_slot_adapters adapters; /* of the slot that was asked for last */

static int set_up(void **state)
{
    *state = hth_slot_memory_new(10);
    return *state ? 0 : 1;
}

static int tear_down(void **state)
{
    hth_slot_memory_free(*state);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(hth_slot_memory, memory, name, set_up, tear_down)

static uint32_t n_in(hth_slot_memory *memory, const char *salt, uint32_t number)
{
    uint32_t n = 0;

    free(hth_slot_memory_tokens(memory, salt, number, &adapters, &n));
    return n;
}

FIXTURE_TEST(a_request_gets_the_number_it_wants_or_the_least_used_one)
{
    assert_int_equal(hth_slot_memory_take(memory, -1, 2), 0);
    assert_int_equal(hth_slot_memory_take(memory, -1, 2), 1);
    assert_int_equal(hth_slot_memory_take(memory, -1, 2), 0);
    assert_int_equal(hth_slot_memory_take(memory, 0, 2), 0);
    assert_int_equal(hth_slot_memory_take(memory, 2, 2), 1);
    hth_slot_memory_give_back(memory, 0);
    hth_slot_memory_give_back(memory, 0);
    assert_int_equal(hth_slot_memory_take(memory, -1, 2), 0);
    assert_int_equal(hth_slot_memory_take(memory, 1, 1), 0);
}

FIXTURE_TEST(a_slot_holds_what_ran_there_last)
{
    hearth_token *tokens;
    uint32_t n = 0;

    assert_int_equal(n_in(memory, NULL, 0), 0);
    hth_slot_memory_note(memory, NULL, &none, 0, other, 3, NULL, 0);
    hth_slot_memory_note(memory, NULL, &none, 0, one, 3, one + 3, 1);
    tokens = hth_slot_memory_tokens(memory, "", 0, &adapters, &n);
    assert_non_null(tokens);
    assert_int_equal(n, 4);
    assert_memory_equal(tokens, one, sizeof(one));
    free(tokens);
    assert_int_equal(n_in(memory, NULL, 1), 0);
    hth_slot_memory_clear(memory, NULL, 0);
    assert_int_equal(n_in(memory, NULL, 0), 0);
}

FIXTURE_TEST(under_another_salt_a_slot_is_another_one)
{
    hth_slot_memory_note(memory, "a", &none, 0, one, 4, NULL, 0);
    assert_int_equal(n_in(memory, NULL, 0), 0);
    assert_int_equal(n_in(memory, "b", 0), 0);
    hth_slot_memory_note(memory, "b", &none, 1, one, 4, NULL, 0);
    assert_int_equal(hth_slot_memory_shared(memory, "a", &none, 0, one, 4), 0);
    hth_slot_memory_clear(memory, "b", 0);
    hth_slot_memory_clear(memory, NULL, 0);
    assert_int_equal(n_in(memory, "a", 0), 4);
}

FIXTURE_TEST(what_other_slots_begin_with_is_shared)
{
    hth_slot_memory_note(memory, NULL, &none, 0, one, 4, NULL, 0);
    assert_int_equal(hth_slot_memory_shared(memory, NULL, &none, 0, one, 4), 0);
    hth_slot_memory_note(memory, NULL, &none, 1, other, 3, NULL, 0);
    assert_int_equal(hth_slot_memory_shared(memory, NULL, &none, 0, one, 4), 2);
    assert_int_equal(hth_slot_memory_shared(memory, NULL, &none, 2, one, 4), 4);
    assert_int_equal(hth_slot_memory_shared(memory, NULL, &half, 2, one, 4), 0);
}

FIXTURE_TEST(the_slot_that_was_used_least_lately_makes_room)
{
    hth_slot_memory_note(memory, NULL, &none, 0, one, 4, NULL, 0);
    hth_slot_memory_note(memory, NULL, &none, 1, one, 4, NULL, 0);
    assert_int_equal(n_in(memory, NULL, 0), 4); /* a use */
    hth_slot_memory_note(memory, NULL, &none, 2, one, 4, NULL, 0);
    assert_int_equal(n_in(memory, NULL, 0), 4);
    assert_int_equal(n_in(memory, NULL, 1), 0);
    assert_int_equal(n_in(memory, NULL, 2), 4);
    hth_slot_memory_note(memory, NULL, &none, 2, one, 4, one, 4); /* fits alone */
    assert_int_equal(n_in(memory, NULL, 2), 8);
    assert_int_equal(n_in(memory, NULL, 0), 0);
}

FIXTURE_TEST(a_slot_remembers_the_adapters_of_its_request)
{
    const hth_slot_adapters two = { .n = 2, .list = { { 3, 0.5f }, { 7, 1 } } };

    hth_slot_memory_note(memory, NULL, &two, 0, one, 4, NULL, 0);
    assert_int_equal(n_in(memory, NULL, 0), 4);
    assert_int_equal(adapters.n, 2);
    assert_int_equal(adapters.list[1].id, 7);
    hth_slot_memory_note(memory, NULL, &none, 0, one, 4, NULL, 0);
    assert_int_equal(n_in(memory, NULL, 0), 4);
    assert_int_equal(adapters.n, 0);
}
