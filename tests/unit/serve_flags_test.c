/*
 * serve_flags_test.c - flags win over the configuration file, and stand for what it could say
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "support/cmocka_all.h"
#include "support/serve_set.h"
#include "support/support.h"

static hth_problems problems; /* large */

/* What a file in the test's directory comes to with these flags. */
static hth_serve_set *set_of(const char *directory, const char *text, const char *flags)
{
    static char line[2048]; /* outlives the set */
    hth_serve_set *set;

    hth_test_file_write(directory, "t.conf", text, 0644);
    (void)snprintf(line, sizeof(line), "--config %s/t.conf %s", directory, flags);
    set = hth_test_set_of_flags(line, &problems);
    if (problems.n_errors > 0)
        fail_msg("%s", hth_problems_first(&problems));
    return set;
}

static void expect_path(const char *found, const char *directory, const char *name)
{
    char expected[512];

    (void)snprintf(expected, sizeof(expected), "%s/%s", directory, name);
    assert_string_equal(found, expected);
}

/* ---- what wins ---- */

DIRECTORY_TEST(flags_win_over_what_the_file_says_for_all)
{
    hth_serve_set *set = set_of(directory,
                                "listen = [1, 2]\nlimits { requests_max = 7; messages_max = 8 }\n"
                                "cache { directory = kv; writer_threads = 3; more_directories = [a] }\n"
                                "model plain { path = plain.gguf }\n",
                                "--listen 3 --requests-max 9 --writers 5 --ctx 1024 -m flag=stub: --more-cache /b");

    assert_int_equal(set->options.n_listen, 1);
    assert_int_equal(set->options.listen[0].port, 3);
    assert_int_equal(set->options.requests_max, 9);
    assert_int_equal(set->options.worker.requests.messages_max, 8);
    assert_int_equal(set->options.n_models, 2);
    assert_string_equal(set->models[0].name, "flag"); /* the command line's come first */
    assert_string_equal(set->models[1].name, "plain");
    for (int i = 0; i < 2; i++) {
        const hth_model_setup *setup = &set->models[i].setup;

        assert_int_equal(setup->model.n_ctx, 1024);
        expect_path(setup->runtime.cache_directory, directory, "kv");
        assert_int_equal(setup->runtime.n_writer_threads, 5);
        assert_int_equal(setup->runtime.n_more_directories, 1);
        assert_string_equal(setup->more_directories[0], "/b");
    }
    hth_serve_set_free(&set->options);
}

DIRECTORY_TEST(flags_win_over_what_a_model_says_of_itself)
{
    hth_serve_set *set = set_of(
        directory,
        "cache { disk_bytes_max = 3gb }\n"
        "model own { path = own.gguf; context = 512; threads = 3; n_parallel = 2; start = on-demand; ram = 64mb\n"
        "            cache { directory = kv; more_directories = [a, b]; salt = theirs\n"
        "                    policy { min_tokens = 64; cold_min_tokens = 96 } } }\n",
        "--ctx 1024 --ram 128M --start at-once --more-cache /c --policy cold_min_tokens=128 --no-mmap");
    const hth_serve_model *own = &set->models[0];

    assert_int_equal(set->options.n_models, 1);
    assert_string_equal(own->name, "own");
    expect_path(own->setup.path, directory, "own.gguf");
    assert_int_equal(own->setup.model.n_ctx, 1024);
    assert_true(own->setup.model.no_mmap);
    assert_int_equal(own->rules.start, HTH_START_AT_ONCE);
    assert_int_equal(own->setup.runtime.ram_bytes_max, 128 << 20);
    assert_int_equal(own->setup.runtime.n_more_directories, 1); /* a list takes the place of a list */
    assert_string_equal(own->setup.more_directories[0], "/c");
    assert_int_equal(own->setup.policy.cold_min_tokens, 128);

    /* What no flag says is as the file has it. */
    assert_int_equal(own->setup.model.n_threads, 3);
    assert_int_equal(own->setup.model.n_parallel, 2);
    expect_path(own->setup.runtime.cache_directory, directory, "kv");
    assert_string_equal(own->setup.model.cache_salt, "theirs");
    assert_int_equal(own->setup.policy.min_tokens, 64);
    assert_int_equal(own->setup.runtime.disk_bytes_max, UINT64_C(3) << 30);
    hth_serve_set_free(&set->options);
}

DIRECTORY_TEST(a_flag_is_for_all_models)
{
    hth_serve_set *set = set_of(directory,
                                "model a { path = a.gguf; context = 512 }\nmodel b { path = b.gguf }\n"
                                "model c { path = c.gguf; context = 2048; batch = 64 }\n",
                                "--ctx 1024");

    assert_int_equal(set->options.n_models, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(set->models[i].setup.model.n_ctx, 1024);
    assert_int_equal(set->models[2].setup.model.n_batch, 64);
    hth_serve_set_free(&set->options);
}

/* ---- what stands for the file ---- */

DIRECTORY_TEST(models_of_flags_are_called_by_their_files)
{
    static const struct {
        const char *given;
        const char *name; /* NULL: it is refused */
    } cases[] = {
        { "models/chat.gguf", "chat" },
        { "/m/Llama-3.1_8b.Q4.gguf", "Llama-3.1_8b.Q4" },
        { "chat", "chat" },
        { "org/name:tag=/m/x.gguf", "org/name:tag" },
        { "a=b=c.gguf", "a" },
        { "stub:", "stub:" },
        { "=x", NULL },
        { "a=", NULL },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[256];
        hth_serve_set *set;

        (void)snprintf(line, sizeof(line), "--model=%s", cases[i].given);
        set = hth_test_set_of_flags(line, &problems);
        if (!cases[i].name)
            assert_true(problems.n_errors > 0);
        else if (set->options.n_models != 1)
            fail_msg("'%s': %s", cases[i].given, hth_problems_first(&problems));
        else
            assert_string_equal(set->options.models[0].name, cases[i].name);
        hth_serve_set_free(&set->options);
    }
}

/* Each file is served: under a name that keys and logs can have, and under its own. */
DIRECTORY_TEST(no_file_is_refused_for_its_name)
{
    static const struct {
        const char *given, *name;
        const char *alias; /* NULL: there is none */
    } cases[] = {
        { "/m/with space.gguf", "with-space", "with space" },
        { "-x.gguf", "x", "-x" },
        { "Gr\xc3\xb6\xc3\x9f"
          "e (Q4).gguf",
          "Gr-e-Q4",
          "Gr\xc3\xb6\xc3\x9f"
          "e (Q4)" },
        { "\xe6\xa8\xa1\xe5\x9e\x8b.gguf", "model", "\xe6\xa8\xa1\xe5\x9e\x8b" },
        { "a*b.gguf", "a-b", NULL }, /* a pattern would take other names, too */
        { "a\xe2\x80\xae"
          "b.gguf",
          "a-b", NULL }, /* a mark of direction */
        { "a\tb.gguf", "a-b", NULL },
        { "a\xff"
          "b.gguf",
          "a-b", NULL }, /* no client can send it */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *words[] = { (char *)"serve", (char *)"--model", (char *)cases[i].given, NULL };
        hth_serve_set *set = hth_test_set_of_words(3, words, &problems);

        if (problems.n_errors > 0)
            fail_msg("'%s': %s", cases[i].given, hth_problems_first(&problems));
        assert_string_equal(set->options.models[0].name, cases[i].name);
        assert_int_equal(set->options.models[0].n_aliases, cases[i].alias != NULL);
        if (cases[i].alias)
            assert_string_equal(set->options.models[0].aliases[0], cases[i].alias);
        hth_serve_set_free(&set->options);
    }
}

/* The name of a file that needs no other one stays, wherever it is given, and all have different ones. */
DIRECTORY_TEST(files_of_one_derived_name_have_different_ones)
{
    char *words[] = { (char *)"serve", (char *)"-m",       (char *)"a b.gguf", (char *)"-m",       (char *)"a(b.gguf",
                      (char *)"-m",    (char *)"a-b.gguf", (char *)"-m",       (char *)"c d.gguf", NULL };
    hth_serve_set *set = hth_test_set_of_words(9, words, &problems);
    const hth_server_model *models = set->options.models;

    assert_int_equal(problems.n_errors, 0);
    assert_string_equal(models[0].name, "a-b-63df6594");
    assert_string_equal(models[0].aliases[0], "a b");
    assert_string_equal(models[1].name, "a-b-2df298c7");
    assert_string_equal(models[2].name, "a-b");
    assert_string_equal(models[3].name, "c-d");
    hth_serve_set_free(&set->options);
}

DIRECTORY_TEST(an_alias_of_the_flags_is_that_of_one_model)
{
    char one[] = "-m a=stub: --alias gpt-4o --alias claude-* --default-model none",
         two[] = "-m a=stub: -m b=stub: --alias x";
    hth_serve_set *set = hth_test_set_of_flags(one, &problems);

    assert_int_equal(problems.n_errors, 0);
    assert_int_equal(set->options.models[0].n_aliases, 2);
    assert_string_equal(set->options.models[0].aliases[1], "claude-*");
    assert_string_equal(set->options.default_model, "none");
    hth_serve_set_free(&set->options);
    set = hth_test_set_of_flags(two, &problems);
    assert_int_equal(problems.n_errors, 1);
    assert_non_null(strstr(hth_problems_first(&problems), "the alias 'x' of model 'b' is the alias of model 'a', too"));
    hth_serve_set_free(&set->options);
}

DIRECTORY_TEST(host_and_port_stand_in_for_listen)
{
    char line[] = "-m stub: --port 0", other[] = "-m stub: --host ::1", both[] = "-m stub: --listen 5 --port 6";
    hth_serve_set *set = hth_test_set_of_flags(line, &problems);

    assert_string_equal(set->options.listen[0].host, "127.0.0.1");
    assert_int_equal(set->options.listen[0].port, 0);
    hth_serve_set_free(&set->options);
    set = hth_test_set_of_flags(other, &problems);
    assert_string_equal(set->options.listen[0].host, "::1");
    assert_int_equal(set->options.listen[0].port, 8080);
    hth_serve_set_free(&set->options);
    set = hth_test_set_of_flags(both, &problems);
    assert_int_equal(problems.n_errors, 1);
    assert_non_null(strstr(hth_problems_first(&problems), "--listen and --host or --port exclude each other"));
    hth_serve_set_free(&set->options);
}

static void expect_listen(const hth_serve_set *set, size_t i, const char *host, unsigned port)
{
    assert_true(i < set->options.n_listen);
    assert_string_equal(set->options.listen[i].host, host);
    assert_int_equal(set->options.listen[i].port, port);
}

DIRECTORY_TEST(hosts_are_as_many_as_are_given)
{
    char several[] = "-m stub: --host 127.0.0.1,::1 --host [::ffff:127.0.0.2],localhost --port 5";
    char sockets[] = "-m stub: --host /tmp/a.sock,unix:/tmp/b,127.0.0.1";
    char none[] = "-m stub: --host ,", twice[] = "-m stub: --host ::1,::1", public[] = "-m stub: --host ::1,0.0.0.0";
    hth_serve_set *set = hth_test_set_of_flags(several, &problems);

    expect_listen(set, 0, "127.0.0.1", 5);
    expect_listen(set, 1, "::1", 5);
    expect_listen(set, 2, "::ffff:127.0.0.2", 5);
    expect_listen(set, 3, "localhost", 5);
    hth_serve_set_free(&set->options);

    set = hth_test_set_of_flags(sockets, &problems);
    assert_int_equal(set->options.n_listen, 3);
    assert_string_equal(set->options.listen[0].path, "/tmp/a.sock");
    assert_string_equal(set->options.listen[1].path, "/tmp/b");
    expect_listen(set, 2, "127.0.0.1", 8080);
    hth_serve_set_free(&set->options);

    set = hth_test_set_of_flags(none, &problems);
    assert_non_null(strstr(hth_problems_first(&problems), "--host ',' names no host"));
    hth_serve_set_free(&set->options);
    set = hth_test_set_of_flags(twice, &problems);
    assert_non_null(strstr(hth_problems_first(&problems), "is given twice"));
    hth_serve_set_free(&set->options);
    set = hth_test_set_of_flags(public, &problems);
    assert_non_null(strstr(hth_problems_first(&problems), "can be reached from other machines"));
    hth_serve_set_free(&set->options);

    set = set_of(directory, "listen = [1, 2]\nmodel a { path = 'stub:' }\n", "--host ::1 --port 7");
    assert_int_equal(set->options.n_listen, 1); /* a flag wins over the file */
    expect_listen(set, 0, "::1", 7);
    hth_serve_set_free(&set->options);
}

static bool is_key_of(const hth_server_key *key, const char *secret)
{
    uint8_t digest[HTH_SHA256_BYTES];

    hth_sha256_of(secret, strlen(secret), digest);
    return memcmp(key->sha256, digest, sizeof(digest)) == 0;
}

DIRECTORY_TEST(keys_come_from_flags_and_their_file)
{
    hth_serve_set *set;
    char flags[1024];

    hth_test_file_write(directory, "list", "# ours\nthird\n\nfirst\r\nfourth  \n", 0600);
    hth_test_file_write(
        directory, "keys.conf",
        "key api-key-1 { sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" }\n", 0600);
    (void)snprintf(flags, sizeof(flags),
                   "-m stub: --host 0.0.0.0 --api-key first,second --api-key first --api-key-file %s/list",
                   (const char *)directory);
    set = set_of(directory, "keys = keys.conf", flags);
    assert_int_equal(set->options.n_keys, 5);
    assert_string_equal(set->options.keys[0].name, "api-key-1"); /* of the file of keys; its name is nobody else's */
    assert_string_equal(set->options.keys[1].name, "api-key-2");
    assert_true(is_key_of(&set->options.keys[1], "first"));
    assert_true(is_key_of(&set->options.keys[2], "second"));
    assert_true(is_key_of(&set->options.keys[3], "third"));
    assert_true(is_key_of(&set->options.keys[4], "fourth"));
    assert_false(set->options.keys[1].is_admin);
    assert_int_equal(problems.n, 1);
    assert_true(problems.list[0].is_warning);
    assert_non_null(strstr(problems.list[0].message, "--api-key-file FILE"));
    hth_serve_set_free(&set->options);
}

static void refuse_api_keys(const char *directory, const char *text, mode_t mode, const char *flags,
                            const char *message)
{
    char line[1024];
    hth_serve_set *set;

    hth_test_file_write(directory, "list", text, mode);
    (void)snprintf(line, sizeof(line), "-m stub: %s %s/list", flags, directory);
    set = hth_test_set_of_flags(line, &problems);
    if (problems.n_errors == 0 || !strstr(hth_problems_first(&problems), message))
        fail_msg("'%s' with %s says: %s", text, flags, problems.n > 0 ? hth_problems_first(&problems) : "nothing");
    assert_null(strstr(hth_problems_first(&problems), "hush"));
    hth_serve_set_free(&set->options);
}

DIRECTORY_TEST(keys_that_cannot_be_are_refused_and_not_shown)
{
    char missing[] = "-m stub: --api-key-file /nowhere/list";
    hth_serve_set *set = hth_test_set_of_flags(missing, &problems);

    assert_non_null(strstr(hth_problems_first(&problems), "cannot open the keys in '/nowhere/list'"));
    hth_serve_set_free(&set->options);
    refuse_api_keys(directory, "", 0600, "--api-key-file", "there is no key in");
    refuse_api_keys(directory, "# hush\n\n", 0600, "--api-key-file", "there is no key in");
    refuse_api_keys(directory, "hush hush\n", 0600, "--api-key-file", "has a space");
    refuse_api_keys(directory, "hush\x01\n", 0600, "--api-key-file", "control character");
    refuse_api_keys(directory, "hush\n", 0602, "--api-key-file", "others may write");
    refuse_api_keys(directory, "hush\n", 0600, "--api-key , --api-key-file", "--api-key is empty");
}
