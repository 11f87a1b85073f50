/*
 * needs_text_test.c - the needs of a model travel as text
 */
#include "wire/needs_text.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"

static hth_model_needs example(void)
{
    hth_model_needs needs = {
        .memory = { .host = { .weight_bytes = 1000, .cell_bytes = 200, .compute_bytes = 30 },
                    .repacked_bytes = 500,
                    .n_devices = 2 },
        .process_bytes = 4,
        .n_ctx = 4096,
        .fit = { .n_ctx_max = 131072, .n_layers = 20, .n_layers_max = 33 },
    };

    (void)snprintf(needs.memory.devices[0].name, sizeof(needs.memory.devices[0].name), "CUDA0");
    needs.memory.devices[0].share = (hth_engine_share){ .weight_bytes = 10, .cell_bytes = 20, .compute_bytes = 40 };
    needs.memory.devices[0].free_bytes = 70;
    needs.memory.devices[0].total_bytes = 80;
    (void)snprintf(needs.memory.devices[1].name, sizeof(needs.memory.devices[1].name), "A device, 2 GB");
    needs.memory.devices[1].share.weight_bytes = 7;
    return needs;
}

/* Read all lines of a text. False: one of them was refused. */
static bool read_all(char *text, hth_model_needs *out)
{
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (!hth_needs_read(line, out))
            return false;
    return true;
}

TEST(needs_are_read_as_they_were_written)
{
    const hth_model_needs needs = example();
    hth_model_needs read;
    hth_buffer text = { .text = NULL };

    memset(&read, 0, sizeof(read));
    hth_needs_write(&needs, &text);
    assert_string_equal(hth_buffer_text(&text), "device 10 20 40 70 80 CUDA0\n"
                                                "device 7 0 0 0 0 A device, 2 GB\n"
                                                "fit 131072 20 33\n"
                                                "host 1000 500 200 30 4 4096\n");
    assert_true(read_all(text.text, &read));
    assert_memory_equal(&read, &needs, sizeof(read));
    hth_buffer_deinit(&text);
}

TEST(sums_are_of_one_place)
{
    const hth_model_needs needs = example();

    assert_int_equal(hth_needs_host_bytes(&needs), 1734);
    assert_int_equal(hth_needs_device_bytes(&needs), 77);
}

TEST(lines_of_another_form_are_refused)
{
    static const char *const lines[] = {
        "",
        "host",
        "host 1 2 3 4 5",
        "host 1 2 3 4 5 6 7",
        "host 1 2 3 4 5 0",
        "host 1 2 3 4 5 4294967296",
        "host 1 2 -3 4 5 6",
        "host 1  2 3 4 5 6",
        "host 1 2 3 4 5 6x",
        "host 1125899906842625 2 3 4 5 6",
        "host 99999999999999999999 2 3 4 5 6",
        "hostage 1 2 3 4 5 6",
        "device 1 2 3 4 5",
        "device 1 2 3 4 5 ",
        "device 1 2 3 4 CUDA0",
        "device 1 2 3 4 x CUDA0",
        "fit 1 2",
        "fit 0 1 2",
        "fit 1 3 2",
        "fit 4294967296 1 2",
        "fit 1 1 4294967296",
        "fit 1 2 3 4",
        "other 1",
    };
    hth_model_needs needs, zeros;

    memset(&needs, 0, sizeof(needs));
    memset(&zeros, 0, sizeof(zeros));
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (hth_needs_read(lines[i], &needs))
            fail_msg("'%s' is taken", lines[i]);
        assert_memory_equal(&needs, &zeros, sizeof(needs));
    }
}

TEST(there_are_only_so_many_devices)
{
    hth_model_needs needs = { .n_ctx = 0 };

    for (size_t i = 0; i < HTH_DEVICES_MAX; i++)
        assert_true(hth_needs_read("device 1 2 3 4 5 GPU", &needs));
    assert_false(hth_needs_read("device 1 2 3 4 5 GPU", &needs));
    assert_int_equal(needs.memory.n_devices, HTH_DEVICES_MAX);
}

TEST(memory_that_was_found_is_read_as_it_was_written)
{
    static const char *const wrong[] = { "", "8", "8:", ":A", "-1:A", "8 :A", "x:A", "9999999999999999999:A" };
    hth_fit_found_device found = { .name = "CUDA0: a device", .bytes = 4096 }, read = { .bytes = 7 };
    char text[HTH_FOUND_TEXT_BYTES], long_name[100];

    hth_found_write(&found, text);
    assert_string_equal(text, "4096:CUDA0: a device");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(hth_found_read(wrong[i], &read));
    (void)snprintf(long_name, sizeof(long_name), "1:%064d", 0);
    assert_false(hth_found_read(long_name, &read));
    assert_int_equal(read.bytes, 7);
    assert_true(hth_found_read(text, &read));
    assert_int_equal(read.bytes, 4096);
    assert_string_equal(read.name, "CUDA0: a device");
}
