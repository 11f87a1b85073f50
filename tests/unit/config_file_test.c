/*
 * config_file_test.c - the syntax of configuration files: what it means, and in which line it is wrong
 */
#include <stdio.h>
#include <string.h>

#include "options/config_file.h"
#include "support/cmocka_all.h"

static int set_up(void **state)
{
    *state = hth_pool_new();
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    hth_pool_free(*state);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(hth_pool, pool, name, set_up, tear_down)

/* A tree in one line: key=word, key="text", key[...], key{...}, with @line behind single values. */
static void show(const hth_config_node *node, char *out, size_t capacity)
{
    for (; node; node = node->next) {
        size_t n = strlen(out);

        (void)snprintf(out + n, capacity - n, "%s%s", n > 0 && !strchr("[{", out[n - 1]) ? " " : "",
                       node->key ? node->key : "");
        n = strlen(out);
        if (node->kind == HTH_CONFIG_PLAIN)
            (void)snprintf(out + n, capacity - n, "=%s@%u", node->text, node->line);
        else if (node->kind == HTH_CONFIG_QUOTED)
            (void)snprintf(out + n, capacity - n, "=\"%s\"@%u", node->text, node->line);
        else
            (void)snprintf(out + n, capacity - n, "%c", node->kind == HTH_CONFIG_LIST ? '[' : '{');
        if (node->kind == HTH_CONFIG_LIST || node->kind == HTH_CONFIG_SECTION) {
            show(node->first, out, capacity);
            n = strlen(out);
            (void)snprintf(out + n, capacity - n, "%c", node->kind == HTH_CONFIG_LIST ? ']' : '}');
        }
    }
}

static void assert_means(hth_pool *pool, const char *text, const char *tree)
{
    const hth_config_node *root = NULL;
    hearth_error err = { .message = "" };
    char shown[4096] = "";

    if (hth_config_file_parse(pool, "t.conf", text, strlen(text), &root, &err) != HEARTH_OK)
        fail_msg("'%s': %s", text, err.message);
    show(root->first, shown, sizeof(shown));
    assert_string_equal(shown, tree);
}

static void assert_wrong(hth_pool *pool, const char *text, const char *message)
{
    const hth_config_node *root = NULL;
    hearth_error err = { .message = "" };

    if (hth_config_file_parse(pool, "t.conf", text, strlen(text), &root, &err) == HEARTH_OK)
        fail_msg("'%s' is accepted", text);
    if (!strstr(err.message, message))
        fail_msg("'%s' is refused with '%s', not '%s'", text, err.message, message);
}

FIXTURE_TEST(keys_and_values_are_written_in_several_ways)
{
    assert_means(pool, "a = 1; b: 2, c 3\nd=four", "a=1@1 b=2@1 c=3@1 d=four@2");
    assert_means(pool, "  a\t=\r\n 1 ;;\n\n;b = x", "a=1@2 b=x@4");
    assert_means(pool, "a = \"x y\"; 'b' = 'it\\'s \\n'; \"c d\" = 127.0.0.1:8080",
                 "a=\"x y\"@1 b=\"it's \\n\"@1 c d=127.0.0.1:8080@1");
    assert_means(pool, "", "");
    assert_means(pool, "# nothing", "");
}

FIXTURE_TEST(escapes_are_those_of_json)
{
    assert_means(pool, "a = \"\\\"\\\\\\/\\t\\u0041\\u00e4\\u20ac\\ud83d\\ude00\"",
                 "a=\"\"\\/\tA\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"@1");
    assert_wrong(pool, "a = \"\\x\"", "t.conf:1: a backslash");
    assert_wrong(pool, "a = \"\\u12\"", "t.conf:1: a backslash");
    assert_wrong(pool, "a = \"\\u0000\"", "t.conf:1: a backslash");
    assert_wrong(pool, "a = \"\\ud83d\"", "t.conf:1: a backslash");
    assert_wrong(pool, "a = \"\\ud83d\\u0041\"", "t.conf:1: a backslash");
    assert_wrong(pool, "a = \"\\udc00\"", "t.conf:1: a backslash");
    assert_wrong(pool, "\n\na = \"\\", "t.conf:3: a backslash");
}

FIXTURE_TEST(comments_are_skipped_and_counted)
{
    assert_means(pool, "# one\na = 1 # two\n/* three\n /* inside */ \n*/ b = 2 /* x */; c = 3", "a=1@2 b=2@5 c=3@5");
    assert_means(pool, "a = x/* y */\nb = '#/*'", "a=x@1 b=\"#/*\"@2");
    assert_wrong(pool, "a = 1\n\n/* no\nend", "t.conf:3: the comment that begins here has no end");
    assert_wrong(pool, "/* /* */", "t.conf:1: the comment");
}

FIXTURE_TEST(lists_keep_their_elements_lines)
{
    assert_means(pool, "a = [1, 'x',\n\"y\"\n z,]; b [ ]", "a[=1@1 =\"x\"@1 =\"y\"@2 =z@3] b[]");
    assert_means(pool, "a = [[1], {b=2}]", "a[[=1@1] {b=2@1}]");
    assert_wrong(pool, "\na = [1,\n2", "t.conf:2: the list that begins here has no end");
    assert_wrong(pool, "a = [1 2]", "t.conf:1: after the value of 'a' there must be ';'");
}

FIXTURE_TEST(sections_may_have_titles)
{
    assert_means(pool, "s { a = 1 }\nt = { b = 2; }", "s{a=1@1} t{b=2@2}");
    assert_means(pool, "model \"chat\" { a = 1 }\nmodel org/x:7b\n{ a = 2 }",
                 "model{chat{a=1@1}} model{org/x:7b{a=2@3}}");
    assert_means(pool, "s {}\nt\n{ }", "s{} t{}");
    assert_wrong(pool, "s {\n a = 1\n", "t.conf:1: the section that begins here has no end");
    assert_wrong(pool, "a = 1\n}", "t.conf:2: there are more '}'");
    assert_wrong(pool, "s { a = 1 ]", "t.conf:1: after the value of 'a'");
}

FIXTURE_TEST(json_is_accepted)
{
    assert_means(pool, "{\"a\": 1, \"b\": [true, null, \"x\"], \"s\": {\"c\": -1.5e3}}\n",
                 "a=1@1 b[=true@1 =null@1 =\"x\"@1] s{c=-1.5e3@1}");
    assert_means(pool, "# before\n{ }", "");
    assert_wrong(pool, "{\"a\": 1}\n\nb = 2", "t.conf:3: nothing may follow");
    assert_wrong(pool, "{\"a\": 1", "t.conf:1: the section that begins here has no end");
}

FIXTURE_TEST(what_is_missing_is_said_with_its_line)
{
    assert_wrong(pool, "\na = ;", "t.conf:2: 'a' lacks its value; ';' is here");
    assert_wrong(pool, "a =", "t.conf:1: 'a' lacks its value; the end of the file is here");
    assert_wrong(pool, "a\nb = 1", "t.conf:1: 'a' lacks its value; the end of the line is here");
    assert_wrong(pool, "a = 1 2", "t.conf:1: after the value of 'a' there must be ';' or the end of the line, not '2'");
    assert_wrong(pool, "listen = [::1]:8080", "brackets belongs in quotes");
    assert_wrong(pool, "\n= 1", "t.conf:2: a key is expected here, not '='");
    assert_wrong(pool, "{{", "t.conf:1: a key is expected here, not '{'");
    assert_wrong(pool, "a = \"x\nb = 2", "t.conf:1: the text that begins with \" has no end in its line");
    assert_wrong(pool, "a = 'x", "t.conf:1: the text that begins with '");
    assert_wrong(pool, "a = \xc3\xa4 \xc3\xa4",
                 "t.conf:1: after the value of 'a' there must be ';' or the end of the line, "
                 "not a character that belongs in quotes");
}

FIXTURE_TEST(what_ucl_has_beyond_that_is_refused)
{
    assert_wrong(pool, "a = 1\n.include \"b.conf\"", "t.conf:2: commands such as '.include' are not supported");
    assert_wrong(pool, "a = <<EOD\nx\nEOD", "t.conf:1: texts of several lines");
}

FIXTURE_TEST(bounds_hold)
{
    char deep[64] = "a = ";
    const hth_config_node *root;
    hearth_error err;

    memset(deep + 4, '[', HTH_CONFIG_DEPTH_MAX + 1);
    assert_wrong(pool, deep, "more than 16 deep");
    assert_int_equal(hth_config_file_parse(pool, "t.conf", "a = \0b", 6, &root, &err), HEARTH_CORRUPT);
    assert_int_equal(hth_config_file_parse(pool, "t.conf", "a = \xff", 5, &root, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "'t.conf' is no text in UTF-8"));
}
