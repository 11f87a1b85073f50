/*
 * llama_flags_test.c - llama-server's command lines mean here what they mean there, or say that they do not
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/llama_flags.h"
#include "options/serve_options.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { WORDS_MAX = 64, TEXT_BYTES = 4096 };

static hth_problems problems;          /* large */
static const char *const *environment; /* pairs of a name and a value; NULL ends them */

static char *variable(const char *name)
{
    for (size_t i = 0; environment && environment[i]; i += 2)
        if (strcmp(environment[i], name) == 0)
            return (char *)environment[i + 1];
    return NULL;
}

/* What a line of words between spaces becomes, joined again; the caller frees it. */
static char *translated(const char *given)
{
    char *line = strdup(given), *out = calloc(1, TEXT_BYTES), *words[WORDS_MAX] = { (char *)"serve" }, **argv = NULL;
    int n = 1, argc = 0;
    hth_pool *pool = hth_pool_new();

    memset(&problems, 0, sizeof(problems));
    for (char *word = strtok(line, " "); word && n < WORDS_MAX; word = strtok(NULL, " "))
        words[n++] = word;
    assert_true(hth_llama_flags_translate(pool, &hth_serve_flags, n, words, variable, &argc, &argv, &problems));
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

TEST(a_short_flag_is_not_read_as_a_letter_and_its_value)
{
    expect("-to 600 -lv 4 -s 7 -s -1 -rea off -r STOP -m x", "--write-timeout-ms=600s --log-level=debug --seed=7 "
                                                             "--reasoning=off --stop=STOP -m x");
    expect("--tags a,b --sleep-idle-seconds 60 --sleep-idle-seconds -1 --sse-ping-interval -1",
           "--tag=a --tag=b --unload-after-ms=60s --keep-alive-ms=0");
    assert_int_equal(problems.n, 0);
    free(translated("-hff x.gguf"));
    assert_non_null(strstr(hth_problems_first(&problems), "-hff is not offered"));
}

TEST(a_flag_with_another_meaning_here_is_not_ignored)
{
    static const char *const cases[][2] = {
        { "--reasoning-format none", "--reasoning-format none is not offered: replies have reasoning in a field" },
        { "--reasoning-format deepseek-legacy", "--reasoning-format deepseek-legacy is not offered" },
        { "--no-models-autoload", "with --residency external" },
        { "-lm dio", "-lm dio is not offered: weights are mapped" },
        { "--skip-chat-parsing", "\"parse_tool_calls\": false" },
        { "--no-prefill-assistant", "\"add_generation_prompt\": true" },
        { "--ignore-eos", "\"ignore_eos\": true" },
        { "--list-devices", "'hearth version'" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        free(translated(cases[i][0]));
        assert_int_equal(problems.n_errors, 1);
        if (!strstr(hth_problems_first(&problems), cases[i][1]))
            fail_msg("'%s' says '%s'", cases[i][0], hth_problems_first(&problems));
    }
}

TEST(a_value_chooses_our_options)
{
    expect("-lm none --load-mode mlock -lm mmap+mlock -lm auto -lm mmap -m x",
           "--no-mmap --no-mmap --mlock --mlock -m x");
    expect("--reasoning-format auto --reasoning-format deepseek --no-slots", "--no-slots");
    assert_int_equal(problems.n, 0);
}

TEST(values_of_templates_are_put_together)
{
    expect("--reasoning-effort high -m x", "--chat-template-kwargs {\"reasoning_effort\":\"high\"} -m x");
    expect("--no-reasoning-preserve --chat-template-kwargs {\"a\":1} --reasoning-effort low",
           "--chat-template-kwargs {\"a\":1,\"preserve_reasoning\":false,\"reasoning_effort\":\"low\"}");
    expect("--reasoning-effort default --chat-template-kwargs={\"a\":1}", "--chat-template-kwargs {\"a\":1}");
    expect("--chat-template-kwargs wrong", "--chat-template-kwargs wrong"); /* its own check says so */
}

TEST(a_line_below_stands_for_a_dash_in_long_names)
{
    expect("--ctx_size 4096 --top_k 40 --cache_type_k=q8_0 --log_format=text --no_mmap",
           "--ctx=4096 --top-k 40 --type-k=q8_0 --log-format=text --no-mmap");
}

TEST(the_environment_has_options_too)
{
    static const char *const some[] = { "LLAMA_ARG_CTX_SIZE",
                                        "4096",
                                        "LLAMA_ARG_MODEL",
                                        "x.gguf",
                                        "LLAMA_ARG_MLOCK",
                                        "1",
                                        "LLAMA_ARG_N_PARALLEL",
                                        "4",
                                        "LLAMA_ARG_TOP_K",
                                        "",
                                        NULL };
    static const char *const switches[] = { "LLAMA_ARG_UI",
                                            "false",
                                            "LLAMA_ARG_ENDPOINT_PROPS",
                                            "1",
                                            "LLAMA_ARG_NO_KV_OFFLOAD",
                                            "1",
                                            "LLAMA_ARG_CPU_MOE",
                                            "off",
                                            "LLAMA_ARG_FLASH_ATTN",
                                            "on",
                                            NULL };
    static const char *const not_offered[] = {
        "LLAMA_ARG_MMPROJ", "a.gguf", "LLAMA_ARG_LOAD_MODE", "dio", "LLAMA_ARG_SWA_FULL", "1", NULL
    };
    static const char *const values[] = { "LLAMA_ARG_REASONING_EFFORT", "low", "LLAMA_ARG_CHAT_TEMPLATE_KWARGS",
                                          "{\"a\":1}", NULL };

    environment = some;
    expect("--threads 3", "--ctx=4096 --n-parallel=4 --model x.gguf --threads=3");
    expect("", "--ctx=4096 --n-parallel=4 --model x.gguf");
    environment = switches;
    expect("-m x", "--flash-attn=on --no-kv-offload --no-ui --props -m x");
    assert_int_equal(problems.n, 0);
    environment = values;
    expect("--reasoning-effort high", "--chat-template-kwargs {\"a\":1,\"reasoning_effort\":\"high\"}");
    environment = not_offered;
    expect("-m x", "-m x");
    assert_int_equal(problems.n, 3);
    assert_non_null(strstr(problems.list[1].message, "LLAMA_ARG_MMPROJ: --mmproj is not offered"));
    environment = NULL;
}

TEST(the_command_line_overrules_the_environment)
{
    static const char *const some[] = { "LLAMA_ARG_CTX_SIZE",
                                        "4096",
                                        "LLAMA_ARG_MODEL",
                                        "x.gguf",
                                        "LLAMA_ARG_HOST",
                                        "::",
                                        "LLAMA_ARG_PORT",
                                        "80",
                                        "LLAMA_ARG_ALIAS",
                                        "a,b",
                                        NULL };

    environment = some;
    expect("-c 512 -hf a/b --alias c --listen 8080", "--ctx=512 --model=a/b --alias=c --listen 8080");
    expect("-m y --port 1", "--ctx=4096 --alias=a --alias=b --host :: -m y --port 1");
    environment = NULL;
}

/* Is it one of llama-server's flags in our table, or exactly one of ours? An abbreviation is neither. */
static bool is_known(const char *name)
{
    static hth_flat_table own; /* large */
    char known[HTH_LLAMA_NAME_BYTES];

    hth_option_table_flatten(&hth_serve_flags, true, &own);
    for (size_t i = 0; i < own.n; i++) {
        const hth_option *row = own.rows[i].option;

        if (row->kind != HTH_OPTION_HEADING && ((strncmp(name, "--", 2) == 0 && strcmp(name + 2, row->name) == 0) ||
                                                (name[1] == row->letter && row->letter != 0 && !name[2])))
            return true;
    }
    for (size_t i = 0; hth_llama_flag_name(i, known); i++)
        if (strcmp(name, known) == 0)
            return true;
    return false;
}

/* Is the flag read or refused in full, alone (no value is missing or left over) or with one of these values? */
static bool is_read(const char *name, bool takes_value)
{
    static const char *const values[] = { "1",          "0.5",   "on",   "auto", "none",      "a.gguf",
                                          "a=int:1",    "a:1",   "1-2",  "f16",  "{}",        "a=CPU",
                                          "distribute", "top_k", "yarn", "mean", "localhost", "127.0.0.1:1" };
    static hth_serve_options options; /* large */
    const size_t n_tries = takes_value ? sizeof(values) / sizeof(values[0]) : 1;

    for (size_t i = 0; i < n_tries; i++) {
        char *words[] = { (char *)"serve", (char *)name, takes_value ? (char *)values[i] : NULL, NULL }, **argv;
        hth_pool *pool = hth_pool_new();
        int argc;
        bool ok;

        memset(&problems, 0, sizeof(problems));
        hth_serve_options_init(&options);
        assert_true(hth_llama_flags_translate(pool, &hth_serve_flags, takes_value ? 3 : 2, words, NULL, &argc, &argv,
                                              &problems));
        ok = problems.n_errors > 0 ? strstr(hth_problems_first(&problems), "is not offered") && argc == 1
                                   : hth_option_table_parse(&hth_serve_flags, "hearth", argc, argv, &options) == argc;
        hth_pool_free(pool);
        if (ok)
            return true;
    }
    return false;
}

/* The value's type in a handler of the engine's table, "[](common_params & params, int value)". */
static bool handler_takes_value(const char *handler)
{
    const char *close = strchr(handler, ')'), *comma = strchr(handler, ',');

    return close && comma && comma < close && strncmp(comma, ", bool", strlen(", bool")) != 0;
}

/* The flags of one row of the engine's table: the quoted words with dashes before its handler. */
static size_t check_row(const char *row, const char *handler)
{
    const bool takes_value = handler_takes_value(handler);
    size_t n_names = 0;

    for (const char *at = row; (at = strstr(at, "\"-")) != NULL && at < handler;) {
        const size_t n = strcspn(++at, "\"");
        char name[64];

        if (n < sizeof(name) && strcspn(at, " \"") == n) {
            (void)snprintf(name, sizeof(name), "%.*s", (int)n, at); /* sized for it */
            if (!is_known(name))
                fail_msg("llama-server's %s is unknown", name);
            if (!is_read(name, takes_value))
                fail_msg("llama-server's %s is misread: %s", name, hth_problems_first(&problems));
            n_names++;
        }
        at += n;
    }
    return n_names;
}

static bool has_variable(const char *name)
{
    hth_llama_variable variable;

    if (strcmp(name, "HF_TOKEN") == 0) /* 'hearth pull' and -hf read it themselves */
        return true;
    for (size_t i = 0; hth_llama_variable_at(i, &variable); i++)
        if (strcmp(variable.name, name) == 0)
            return is_known(variable.flag) && (!variable.flag_off[0] || is_known(variable.flag_off));
    return false;
}

/* The variable of one row of the engine's table. */
static void check_variable(const char *row)
{
    static const char begin[] = "set_env(\"";
    const char *at = strstr(row, begin);
    char name[64];

    if (!at)
        return;
    at += strlen(begin);
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "\""), at); /* none is longer */
    if (!has_variable(name))
        fail_msg("llama-server's variable %s is unknown", name);
}

/* From the source from which llama-server's own help is made. A row without examples belongs to all programs. */
TEST(no_flag_of_llama_server_is_unknown_or_misread)
{
    static const char begin[] = "add_opt(common_arg(";
    char *text = hth_test_text(HTH_TEST_TEMPLATES "/../../common/arg.cpp");
    size_t n_names = 0;

    if (!text)
        skip(); /* an engine without its source */
    for (char *row = strstr(text, begin), *next; row; row = next) {
        const char *handler, *examples, *excludes;

        next = strstr(row + 1, begin);
        if (next)
            next[-1] = '\0';
        handler = strstr(row, "[](");
        examples = strstr(row, "set_examples({");
        excludes = strstr(row, "set_excludes({");
        if (handler && !(excludes && strstr(excludes, "LLAMA_EXAMPLE_SERVER")) &&
            (!examples || strstr(examples, "LLAMA_EXAMPLE_SERVER"))) {
            n_names += check_row(row, handler);
            check_variable(row);
        }
    }
    if (n_names < 380)
        fail_msg("only %zu flags were found", n_names);
    free(text);
}

TEST(the_document_has_them_all)
{
    char *text = hth_test_text(HTH_TEST_SOURCE_DIR "/docs/flags.md"), quoted[HTH_LLAMA_NAME_BYTES + 2];
    char name[HTH_LLAMA_NAME_BYTES];
    size_t n = 0;

    assert_non_null(text);
    for (; hth_llama_flag_name(n, name); n++) {
        (void)snprintf(quoted, sizeof(quoted), "`%s`", name);
        if (!strstr(text, quoted))
            fail_msg("docs/flags.md lacks %s", name);
    }
    assert_true(n > 40);
    free(text);
}
