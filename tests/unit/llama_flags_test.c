/*
 * llama_flags_test.c - llama-server's command lines mean here what they mean there, or say that they do not
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/llama_flags.h"
#include "cli/serve_options.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { WORDS_MAX = 64, TEXT_BYTES = 4096 };

static hth_problems problems; /* large */

/* What a line of words between spaces becomes, joined again; the caller frees it. */
static char *translated(const char *given)
{
    char *line = strdup(given), *out = calloc(1, TEXT_BYTES), *words[WORDS_MAX] = { (char *)"serve" }, **argv = NULL;
    int n = 1, argc = 0;
    hth_pool *pool = hth_pool_new();

    memset(&problems, 0, sizeof(problems));
    for (char *word = strtok(line, " "); word && n < WORDS_MAX; word = strtok(NULL, " "))
        words[n++] = word;
    assert_true(hth_llama_flags_translate(pool, &hth_serve_flags, n, words, &argc, &argv, &problems));
    assert_null(argv[argc]);
    for (int i = 1; i < argc; i++) {
        size_t at = strlen(out);

        (void)snprintf(out + at, TEXT_BYTES - at, "%s%s", i > 1 ? " " : "", argv[i]);
    }
    hth_pool_free(pool);
    free(line);
    return out;
}

static void expect(const char *given, const char *expected)
{
    char *got = translated(given);

    if (strcmp(got, expected) != 0)
        fail_msg("'%s' becomes '%s' and not '%s'", given, got, expected);
    if (problems.n_errors > 0)
        fail_msg("'%s': %s", given, hth_problems_first(&problems));
    free(got);
}

TEST(a_usual_line_has_our_names)
{
    expect("-m x.gguf -c 4096 -ngl 99 -np 4 -ctk q8_0 -ctv q8_0 -b 256 -t 8 --host ::1 --port 80",
           "-m x.gguf --ctx=4096 --gpu-layers=99 --n-parallel=4 --type-k=q8_0 --type-v=q8_0 -b 256 --threads=8 "
           "--host ::1 --port 80");
    expect("-hf a/b:Q4_0 --offline", "--model=a/b:Q4_0 --offline");
    expect("--ctx-size 4096 --n-gpu-layers=7 --parallel 2 --batch-size 64 --cache-ram 512",
           "--ctx=4096 --gpu-layers=7 --n-parallel=2 --batch=64 --ram=512M");
    expect("--cors-origins localhost,https://a.example --ssl-key-file k --ssl-cert-file c -v",
           "--cors-origin=localhost --cors-origin=https://a.example --tls-key=k --tls-certificate=c "
           "--log-level=debug");
    expect("-m x -ub 64 -tb 2 -fa off -sm row -ts 3,1 -mg 1 -dev CUDA0 -ot a=CPU,b=CPU -cmoe -ncmoe 3 -nkvo --mlock",
           "-m x --ubatch=64 --threads-batch=2 --flash-attn=off --split-mode=row --tensor-split=3,1 --main-gpu=1 "
           "--device=CUDA0 --override-tensor=a=CPU,b=CPU --cpu-moe --n-cpu-moe=3 --no-kv-offload --mlock");
    expect("--rope-scaling yarn --rope-scale 4 --rope-freq-base 20000 --yarn-orig-ctx 4096 --yarn-ext-factor 0.5",
           "--rope-scaling yarn --rope-scale 4 --rope-freq-base=20000 --yarn-orig-ctx=4096 --yarn-ext-factor=0.5");
    expect("-fa --flash-attn=1 -fa 0 --flash-attn auto -m x",
           "--flash-attn=on --flash-attn=on --flash-attn=off --flash-attn=auto -m x");
    expect("-fa enabled -fa disabled -fa -1 --flash-attn=enabled -fit disabled -fit enabled -fa true -m x",
           "--flash-attn=on --flash-attn=off --flash-attn=auto --flash-attn=on --fit --flash-attn=on -m x");
    expect("--numa isolate --override-kv a=int:1", "--numa isolate --override-kv a=int:1");
    expect("-a gpt-4o,claude-* --alias x", "--alias=gpt-4o --alias=claude-* --alias=x");
    expect("--lora a.gguf,b.gguf --lora-scaled c.gguf:0.5", "--lora=a.gguf --lora=b.gguf --lora=c.gguf:0.5");
    expect("--control-vector a.gguf,b.gguf --control-vector-scaled c.gguf:0.5,d.gguf:-1",
           "--control-vector=a.gguf --control-vector=b.gguf --control-vector=c.gguf:0.5 --control-vector=d.gguf:-1");
    expect("--control-vector-scaled c.gguf -0.5 --control-vector-layer-range 10 20 -m x",
           "--control-vector=c.gguf:-0.5 --control-vector-layer-range=10-20 -m x");
    expect("--control-vector-layer-range 10-20 --control-vector-layer-range=1-2",
           "--control-vector-layer-range=10-20 --control-vector-layer-range=1-2");
    expect("-fit on -fitc 8192 --fit --fit=1 -m x", "--fit --fit-ctx=8192 --fit --fit -m x");
    assert_int_equal(problems.n, 0);
}

TEST(values_that_stand_for_the_default_are_the_default)
{
    expect("-c 0 -ngl all -np -1 -t -1 --cache-ram -1 -m x", "--gpu-layers=-1 -m x");
    expect("-ngl auto --gpu-layers all --gpu-layers -1 -ngl 0", "--gpu-layers=auto --gpu-layers=-1 --gpu-layers=-1 "
                                                                "--gpu-layers=0");
    expect("--threads=-1 --ctx-size=0", "");
    expect("--fit off -fit 0 --fit=false", "");
    expect("--no-webui --no-ui", "--no-ui --no-ui");
    expect("-cram 0", "--ram=1M"); /* the least, and not the default */
    expect("-tb -1 --rope-freq-base 0 --rope-freq-scale 0 --yarn-orig-ctx 0 --yarn-ext-factor -1.00 -m x", "-m x");
    expect("-md small.gguf -ngld all -ngld auto", "--draft-model=small.gguf --draft-gpu-layers=-1");
    expect("--spec-draft-n-max 16 --draft-n-min 2", "--draft-max=14 --draft-min=2"); /* the longest there is */
}

TEST(what_has_no_effect_is_left_out_and_warned_of)
{
    expect("-m x --swa-full --jinja -cb --metrics -kvo --webui --warmup -kvu", "-m x");
    assert_int_equal(problems.n, 8);
    for (size_t i = 0; i < problems.n; i++)
        assert_true(problems.list[i].is_warning);
    assert_non_null(strstr(problems.list[0].message, "--swa-full has no effect here: cells that a window"));
    expect("--threads-http 8 -m x", "-m x");
    expect("--prio 2 --prio-batch=1 --priority 3 -m x", "--priority 3 -m x"); /* not a short form of it */
}

TEST(what_is_not_offered_says_why)
{
    static const struct {
        const char *given, *message;
    } cases[] = {
        { "--context-shift", "--context-shift is not offered: a shifted context" },
        { "--mmproj x.gguf", "--mmproj is not offered: pictures" },
        { "--ctx-size", "--ctx-size needs a value" },
        { "-ngl", "-ngl needs a value" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        free(translated(cases[i].given));
        assert_int_equal(problems.n_errors, 1);
        if (!strstr(hth_problems_first(&problems), cases[i].message))
            fail_msg("'%s' says '%s'", cases[i].given, hth_problems_first(&problems));
    }
}

TEST(our_own_options_and_their_values_are_left_alone)
{
    expect("--api-key -np --api-key-file -ngl --cache-salt --metrics -m -cb", "--api-key -np --api-key-file -ngl "
                                                                              "--cache-salt --metrics -m -cb");
    expect("--ctx 4096 --ctx=7 -c4096 --no-mmap --check", "--ctx 4096 --ctx=7 -c4096 --no-mmap --check");
    expect("-m x -- -ngl 4", "-m x -- -ngl 4");
    expect("--unknown -np 4 word -", "--unknown --n-parallel=4 word -");
    expect("--listen", "--listen");
    expect("", "");
}

/* An option that is there by its name alone is not hidden behind one of llama-server's. */
TEST(every_translation_is_an_option_of_ours)
{
    static const char *const values[] = { "--ctx-size 5",       "--batch-size 5",    "--parallel 5",
                                          "--threads 5",        "--ubatch-size 5",   "--threads-batch 5",
                                          "--flash-attn",       "--n-gpu-layers 5",  "--cache-type-k f16",
                                          "--cache-type-v f16", "--cache-ram 5",     "--temperature 0.5",
                                          "--ssl-key-file x",   "--ssl-cert-file x", "--cors-origins localhost",
                                          "--verbose",          "--alias x",         "--typical 0.5",
                                          "--lora-scaled x",    "--n-predict 5",     "--dry-penalty-last-n 5" };
    static hth_serve_options options; /* large */

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char *word = translated(values[i]), *argv[] = { (char *)"serve", word, NULL };

        hth_serve_options_init(&options);
        if (hth_option_table_parse(&hth_serve_flags, "hearth serve", 2, argv, &options) != 2)
            fail_msg("'%s' becomes '%s', which is no option", values[i], word);
        free(word);
    }
}

TEST(the_document_has_them_all)
{
    char *text = hth_test_text(HTH_TEST_SOURCE_DIR "/docs/api.md"), quoted[64];
    size_t n = 0;

    assert_non_null(text);
    for (const char *name; (name = hth_llama_flag_name(n)) != NULL; n++) {
        (void)snprintf(quoted, sizeof(quoted), "`%s`", name);
        if (!strstr(text, quoted))
            fail_msg("docs/api.md lacks %s", name);
    }
    assert_true(n > 40);
    free(text);
}
