/*
 * tier_check.h - a file tier that nobody uses any more, looked at from outside
 */
#ifndef HTH_TEST_TIER_CHECK_H
#define HTH_TEST_TIER_CHECK_H

#include "cache/upkeep.h"
#include "support/forest.h"

typedef struct test_tier_census {
    uint64_t rows;
    uint64_t bytes;
    hth_verify_counts verified; /* what hth_file_tiers_verify said first */
} test_tier_census;

/*
 * Open the tier in that directory and verify it. Then, by cmocka's assertions: every visible file is, to the last byte,
 * the row of the forest that it is named for; the index is complete and has just those; its totals are the sums of the
 * files; no temporary file, no owner but this one and no reservation is left.
 */
void test_tier_check(const test_forest *forest, const char *directory, test_tier_census *out);

#endif
