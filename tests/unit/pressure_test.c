/*
 * pressure_test.c - memory as programs tell it
 */
#include "supervisor/pressure.h"

#include "support/cmocka_all.h"

#define GIB (UINT64_C(1) << 30)

TEST(lines_of_nvidia_smi_are_devices)
{
    static const char *const wrong[] = { "", "no devices", "1", "5, 4\n", "[N/A], [N/A]\n", "1, 2\nx" };
    hth_memory_limits sample;

    assert_true(hth_pressure_read_devices("1024, 8192\n6144, 8192\n", &sample));
    assert_int_equal(sample.n, 2);
    assert_int_equal(sample.at[0].used_bytes, GIB);
    assert_int_equal(sample.at[1].total_bytes, 8 * GIB);
    assert_true(hth_pressure_use(&sample) == 0.75);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(hth_pressure_read_devices(wrong[i], &sample));
}

TEST(a_command_prints_two_numbers_or_a_share)
{
    static const char *const wrong[] = { "", "much", "1.5\n", "-0.1\n", "nan\n", "0.5 x\n", "1 0\n", "1 2 3\n" };
    hth_memory_limits sample;

    assert_true(hth_pressure_read_command("750 1000\n", 0, &sample));
    assert_true(hth_pressure_use(&sample) == 0.75);
    assert_true(hth_pressure_read_command("0.25\n", 4 * GIB, &sample));
    assert_int_equal(sample.at[0].used_bytes, GIB);
    assert_true(hth_pressure_read_command("1", 4 * GIB, &sample));
    assert_int_equal(sample.at[0].used_bytes, 4 * GIB);
    assert_false(hth_pressure_read_command("0.25\n", 0, &sample));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(hth_pressure_read_command(wrong[i], 4 * GIB, &sample));
}
