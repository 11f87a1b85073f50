/*
 * kvc_vectors.h - tests against the vectors of the format's reference
 *
 * A VECTOR_TEST gets the folder of the vectors as folder. Where a shared copy of them lies beside the source, the test
 * runs a second time, with that copy.
 */
#ifndef HTH_TESTS_KVC_VECTORS_H
#define HTH_TESTS_KVC_VECTORS_H

#include <unistd.h>

#include "support/cmocka_all.h"

#define FIXTURES HTH_TEST_FIXTURES "/kvc"
#define SHARED_FIXTURES HTH_TEST_SHARED_DIR "/fixtures/kvc"

static inline int use_fixtures(void **state)
{
    *state = FIXTURES;
    return 0;
}

static inline int use_shared_fixtures(void **state)
{
    *state = SHARED_FIXTURES;
    return 0;
}

#define VECTOR_TEST(name)                                                                            \
    static void name##_is_run(void **state);                                                         \
    __attribute__((constructor)) static void name##_in_the_shared_copy(void)                         \
    {                                                                                                \
        static hth_test_entry entry = {                                                              \
            .path = __BASE_FILE__,                                                                   \
            .line = __LINE__,                                                                        \
            .test = { #name "_in_the_shared_copy", name##_is_run, use_shared_fixtures, NULL, NULL }, \
        };                                                                                           \
        if (access(SHARED_FIXTURES, R_OK) == 0)                                                      \
            hth_test_register(&entry);                                                               \
    }                                                                                                \
    TEST_IN(const char, folder, name, use_fixtures, NULL)

#endif
