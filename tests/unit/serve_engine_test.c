/*
 * serve_engine_test.c - options of the engine in a configuration: a preset, a section over it, and the worker's line
 */
#include <stdio.h>
#include <string.h>

#include "options/serve_config.h"
#include "support/cmocka_all.h"

enum { ARGS_MAX = 128 };

static hth_problems problems; /* large */

static hth_serve_set *set_of(const char *text)
{
    memset(&problems, 0, sizeof(problems));
    return hth_serve_set_of_text("/etc/hearth/t.conf", text, strlen(text), &problems);
}

/* The text has this one error. */
static void assert_refused(const char *text, const char *message)
{
    hth_serve_set *set = set_of(text);

    assert_int_equal(problems.n_errors, 1);
    if (!strstr(problems.list[0].message, message))
        fail_msg("the problem is '%s', expected '%s'", problems.list[0].message, message);
    hth_serve_set_free(&set->options);
}

static const char *worker_line(const hth_server_model *model, char *out, size_t capacity)
{
    out[0] = '\0';
    for (size_t i = 0; model->worker[i]; i++) {
        size_t n = strlen(out);

        (void)snprintf(out + n, capacity - n, "%s%s", i > 0 ? " " : "", model->worker[i]);
    }
    return out;
}

TEST(a_worker_is_told_the_options_of_the_engine)
{
    static const char text[] =
        "preset gpus { split_mode = row; tensor_split = '3,1'; main_gpu = 1; device = 'CUDA0,CUDA1'; flash_attn = on "
        "}\n"
        "model m {\n path = 'stub:'; preset = gpus; main_gpu = 0; ubatch = 256; threads_batch = 3; mlock = true\n"
        " numa = isolate; override_tensor = ['a=CPU', 'b=CUDA0,c=CPU']; cpu_moe = yes; n_cpu_moe = 2\n"
        " no_kv_offload = true; rope_scaling = yarn; rope_scale = 4; rope_freq_base = 20000; yarn_orig_ctx = 4096\n"
        " yarn_ext_factor = 0; yarn_attn_factor = 1; yarn_beta_slow = 2; yarn_beta_fast = 3\n"
        " override_kv = 'x.y=bool:true'; defaults { priority = -5 }\n}";
    static const char line_of[] =
        "--model stub: --name m --ubatch 256 --threads-batch 3 --flash-attn on --mlock --numa isolate --device "
        "CUDA0,CUDA1 "
        "--split-mode row --tensor-split 3,1 --override-tensor a=CPU --override-tensor b=CUDA0,c=CPU --cpu-moe "
        "--n-cpu-moe 2 --no-kv-offload --rope-scaling yarn --rope-freq-base 20000 --rope-freq-scale 0.25 "
        "--yarn-orig-ctx "
        "4096 --yarn-ext-factor 0 --yarn-attn-factor 1 --yarn-beta-slow 2 --yarn-beta-fast 3 --override-kv "
        "x.y=bool:true ";
    hth_serve_set *set = set_of(text);
    const char *const *worker = set->options.models[0].worker;
    hearth_engine_options engine;
    hearth_model_options model;
    hth_model_setup read;
    char line[4096], *argv[ARGS_MAX + 1] = { (char *)"worker" };
    int argc = 1;

    if (problems.n_errors > 0)
        fail_msg("%s", hth_problems_first(&problems));
    assert_non_null(strstr(worker_line(&set->options.models[0], line, sizeof(line)), "--priority -5"));
    if (strncmp(line, line_of, strlen(line_of)) != 0)
        fail_msg("'%s' does not begin with '%s'", line, line_of);
    for (size_t i = 0; worker[i] && strcmp(worker[i], "--cache") != 0 && strcmp(worker[i], "--ram") != 0; i++)
        argv[argc++] = (char *)worker[i];
    hth_model_setup_init(&read);
    assert_int_equal(hth_option_table_parse(&hth_worker_model_options, "hearth worker", argc, argv, &read), argc);
    model = hth_model_setup_model(&read, &engine);
    assert_ptr_equal(model.engine, &engine);
    assert_int_equal(engine.n_ubatch, 256);
    assert_int_equal(engine.split_mode, HEARTH_SPLIT_MODE_ROW);
    assert_int_equal(engine.n_tensor_overrides, 2);
    assert_string_equal(engine.tensor_overrides[1], "b=CUDA0,c=CPU");
    assert_string_equal(engine.metadata_overrides[0], "x.y=bool:true");
    assert_true(engine.rope_freq_scale == 0.25 && engine.yarn_ext_factor == 0 && engine.mlock && engine.cpu_moe);
    hth_serve_set_free(&set->options);
}

TEST(a_wrong_value_is_told_with_its_line_and_a_right_one)
{
    assert_refused("model m {\n path = 'stub:'\n override_tensor = 'ffn'\n}",
                   "t.conf:3: override_tensor: 'ffn' overrides no tensor; give PATTERN=BUFFER");
    assert_refused("model m {\n path = 'stub:'\n override_kv = 'a=list:1'\n}",
                   "t.conf:3: override_kv: 'a=list:1' overrides no metadata; give KEY=TYPE:VALUE");
    assert_refused("model m {\n path = 'stub:'\n tensor_split = 'a'\n}",
                   "t.conf:3: tensor_split is 'a'; it must be the shares of 1 to 16 devices, such as 3,1");
    assert_refused("model m {\n path = 'stub:'\n rope_scale = 0\n}",
                   "t.conf:3: rope_scale is '0'; it must be a number from 0.001");
    assert_refused("model m {\n path = 'stub:'\n split_mode = tensor\n}",
                   "t.conf:3: split_mode is 'tensor'; it must be layer, none or row");
}
