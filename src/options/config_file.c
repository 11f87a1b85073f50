/*
 * config_file.c - parses the text of a configuration into a tree
 *
 * The reader makes one pass and looks ahead only over white space and comments. Depth and size are bounded. Parsing
 * stops at the first wrong line, with an error that has the line number.
 */
#include "options/config_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "base/utf8.h"
#include "console/text_file.h"
#include "sched/text_stream.h"

typedef struct scanner {
    hth_pool *pool;
    const char *name;
    const char *begin;
    const char *at;
    const char *end; /* points to a zero byte */
    unsigned line;
    unsigned depth;
    hearth_error *err;
} scanner;

/* The tail of the list of nodes in a list or section. */
typedef struct chain {
    const hth_config_node **link;
} chain;

static hearth_status fail_at(const scanner *s, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static hearth_status fail_at(const scanner *s, unsigned line, const char *format, ...)
{
    char message[sizeof(((hearth_error *)NULL)->message)];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments); /* a long text is cut */
    va_end(arguments);
    return hth_fail(s->err, HEARTH_CORRUPT, "%s:%u: %s", s->name, line, message);
}

static hearth_status no_memory(const scanner *s)
{
    return hth_fail(s->err, HEARTH_NO_MEMORY, "no memory to read '%s'", s->name);
}

/* ---- white space and comments ---- */

static bool is_at(const scanner *s, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(s->end - s->at) >= n && memcmp(s->at, text, n) == 0;
}

/* Skip a long comment. These nest, as in UCL. */
static hearth_status skip_long_comment(scanner *s)
{
    unsigned begin = s->line, depth = 0;

    do {
        if (s->at == s->end)
            return fail_at(s, begin, "the comment that begins here has no end, '*/'");
        if (is_at(s, "/*") || is_at(s, "*/")) {
            depth += *s->at == '/' ? 1 : -1U;
            s->at += 2;
            continue;
        }
        s->line += *s->at == '\n';
        s->at++;
    } while (depth > 0);
    return HEARTH_OK;
}

/* Skip spaces, comments and, if lines is true, ends of lines. */
static hearth_status skip(scanner *s, bool lines)
{
    hearth_status status = HEARTH_OK;

    while (s->at < s->end && status == HEARTH_OK) {
        if (*s->at == '#') {
            while (s->at < s->end && *s->at != '\n')
                s->at++;
        } else if (is_at(s, "/*")) {
            status = skip_long_comment(s);
        } else if (*s->at == ' ' || *s->at == '\t' || *s->at == '\r' || (lines && *s->at == '\n')) {
            s->line += *s->at == '\n';
            s->at++;
        } else {
            break;
        }
    }
    return status;
}

/* Is an opening brace next, perhaps on a later line? Moves there only if so. */
static hearth_status skip_to_brace(scanner *s, bool *found_out)
{
    scanner ahead = *s;
    hearth_status status = skip(&ahead, true);

    *found_out = status == HEARTH_OK && ahead.at < ahead.end && *ahead.at == '{';
    if (*found_out)
        *s = ahead;
    return status;
}

/* The text at the scanner, for messages. */
static const char *found_here(const scanner *s, char text[8])
{
    if (s->at == s->end)
        return "the end of the file";
    if (*s->at == '\n')
        return "the end of the line";
    if ((unsigned char)*s->at < ' ' || (unsigned char)*s->at >= 0x7f)
        return "a character that belongs in quotes";
    (void)snprintf(text, 8, "'%c'", *s->at); /* sized for it */
    return text;
}

/* ---- single values ---- */

static int hex_digits(const scanner *s, const char *at)
{
    int value = 0;

    if (s->end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hth_hex_digit(at[i]);

        if (digit < 0)
            return -1;
        value = 16 * value + digit;
    }
    return value;
}

/*
 * Read \uXXXX, and the second half of a surrogate pair; at is after the 'u'. Returns the number of bytes read; 0: the
 * escape is wrong.
 */
static size_t read_unicode(const scanner *s, const char *at, uint32_t *out)
{
    int high = hex_digits(s, at), low;

    if (high <= 0 || (high >= 0xdc00 && high <= 0xdfff))
        return 0;
    *out = (uint32_t)high;
    if (high < 0xd800 || high > 0xdbff)
        return 4;
    if (s->end - at < 10 || at[4] != '\\' || at[5] != 'u')
        return 0;
    low = hex_digits(s, at + 6);
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    *out = 0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
    return 10;
}

/* Read the rest of an escape; the scanner is after the backslash. */
static hearth_status read_escape(scanner *s, char *out, size_t *n)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *name = s->at < s->end ? memchr(names, *s->at, sizeof(names) - 1) : NULL;
    uint32_t c;
    size_t used;

    if (name) {
        out[(*n)++] = values[name - names];
        s->at++;
        return HEARTH_OK;
    }
    used = s->at < s->end && *s->at == 'u' ? read_unicode(s, s->at + 1, &c) : 0;
    if (used == 0)
        return fail_at(s, s->line,
                       "a backslash in double quotes begins \\\", \\\\, \\/, \\b, \\f, \\n, \\r, \\t or "
                       "\\uXXXX; a text in 'single quotes' is taken as it is");
    *n += hth_utf8_put(c, out + *n);
    s->at += 1 + used;
    return HEARTH_OK;
}

static hearth_status read_quoted(scanner *s, const char **out)
{
    char quote = *s->at;
    size_t n = 0;
    const char *line_end = memchr(s->at, '\n', (size_t)(s->end - s->at));
    const char *end = line_end ? line_end : s->end;
    char *text = hth_pool_alloc(s->pool, (size_t)(end - s->at) + 1); /* no escape is shorter than its meaning */

    if (!text)
        return no_memory(s);
    for (s->at++; s->at < end && *s->at != quote;) {
        if (*s->at != '\\') {
            text[n++] = *s->at++;
        } else if (quote == '"') {
            s->at++;
            if (read_escape(s, text, &n) != HEARTH_OK)
                return HEARTH_CORRUPT;
        } else {
            s->at += end - s->at > 1 && s->at[1] == quote;
            text[n++] = *s->at++;
        }
    }
    if (s->at >= end)
        return fail_at(s, s->line, "the text that begins with %c has no end in its line", quote);
    s->at++;
    *out = text;
    return HEARTH_OK;
}

static bool ends_plain(char c)
{
    return c == '\0' || strchr(" \t\r\n;,{}[]\"'#", c) != NULL;
}

static hearth_status read_plain(scanner *s, const char **out)
{
    const char *begin = s->at;

    if (is_at(s, "<<"))
        return fail_at(s, s->line, "texts of several lines ('<<') are not supported");
    while (s->at < s->end && !ends_plain(*s->at) && !is_at(s, "/*"))
        s->at++;
    *out = hth_pool_text(s->pool, begin, (size_t)(s->at - begin));
    return *out ? HEARTH_OK : no_memory(s);
}

static bool is_quote(const scanner *s)
{
    return s->at < s->end && (*s->at == '"' || *s->at == '\'');
}

/* ---- values ---- */

static hearth_status read_inside(scanner *s, hth_config_node *out, char closing);

/* NULL without memory. */
static hth_config_node *add_node(const scanner *s, chain *to)
{
    hth_config_node *node = hth_pool_alloc(s->pool, sizeof(*node));

    if (!node)
        return NULL;
    *to->link = node;
    to->link = &node->next;
    node->line = node->key_line = s->line;
    node->begin = (size_t)(s->at - s->begin);
    return node;
}

/* After a value: a separator, or the end of the list or section. */
static hearth_status read_end(scanner *s, char closing, const char *of)
{
    char text[8];
    hearth_status status = skip(s, false);

    if (status != HEARTH_OK || s->at == s->end || *s->at == closing || *s->at == ';' || *s->at == ',' || *s->at == '\n')
        return status;
    return fail_at(s, s->line,
                   "after the value of '%s' there must be ';' or the end of the line, not %s; a text with "
                   "spaces or brackets belongs in quotes",
                   of, found_here(s, text));
}

static hearth_status skip_separators(scanner *s)
{
    hearth_status status = skip(s, true);

    while (status == HEARTH_OK && s->at < s->end && (*s->at == ';' || *s->at == ',')) {
        s->at++;
        status = skip(s, true);
    }
    return status;
}

static hearth_status read_value_here(scanner *s, hth_config_node *out)
{
    hearth_status status;
    char text[8];

    if (s->at == s->end || (ends_plain(*s->at) && !strchr("{[\"'", *s->at)))
        return fail_at(s, s->line, "'%s' lacks its value; %s is here", out->key ? out->key : "the list",
                       found_here(s, text));
    if (is_quote(s)) {
        out->kind = HTH_CONFIG_QUOTED;
        return read_quoted(s, &out->text);
    }
    if (*s->at != '{' && *s->at != '[') {
        out->kind = HTH_CONFIG_PLAIN;
        return read_plain(s, &out->text);
    }
    if (s->depth == HTH_CONFIG_DEPTH_MAX)
        return fail_at(s, s->line, "sections and lists are nested more than %d deep", HTH_CONFIG_DEPTH_MAX);
    s->depth++;
    status = read_inside(s, out, *s->at == '{' ? '}' : ']');
    s->depth--;
    return status;
}

static hearth_status read_value(scanner *s, hth_config_node *out)
{
    hearth_status status;

    out->line = s->line;
    out->value_begin = (size_t)(s->at - s->begin);
    status = read_value_here(s, out);
    out->end = (size_t)(s->at - s->begin);
    return status;
}

/* ---- sections ---- */

static bool is_key_character(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' || c == '/';
}

static hearth_status read_key(scanner *s, const char **out)
{
    const char *begin = s->at;
    char text[8];

    if (is_quote(s))
        return read_quoted(s, out);
    if (*s->at == '.')
        return fail_at(s, s->line, "commands such as '.include' are not supported; a configuration is one file");
    while (s->at < s->end && is_key_character(*s->at))
        s->at++;
    if (s->at == begin)
        return fail_at(s, s->line, "a key is expected here, not %s", found_here(s, text));
    *out = hth_pool_text(s->pool, begin, (size_t)(s->at - begin));
    return *out ? HEARTH_OK : no_memory(s);
}

/* Read a word after a key without '=': the value, or the title of a section that follows. */
static hearth_status read_word(scanner *s, hth_config_node *node)
{
    chain inside = { &node->first };
    const char *title;
    hth_config_node *titled;
    bool has_brace;
    hearth_status status = read_value(s, node);

    if (status == HEARTH_OK)
        status = skip_to_brace(s, &has_brace);
    if (status != HEARTH_OK || !has_brace)
        return status;
    title = node->text;
    node->kind = HTH_CONFIG_SECTION;
    node->text = NULL;
    titled = add_node(s, &inside);
    if (!titled)
        return no_memory(s);
    titled->key = title;
    titled->key_line = node->key_line;
    titled->begin = node->value_begin;
    status = read_value(s, titled);
    node->end = titled->end;
    return status;
}

static hearth_status read_member(scanner *s, hth_config_node *node)
{
    bool has_brace = false, has_sign;
    hearth_status status = read_key(s, &node->key);

    if (status == HEARTH_OK)
        status = skip(s, false);
    if (status != HEARTH_OK)
        return status;
    has_sign = s->at < s->end && (*s->at == '=' || *s->at == ':');
    if (has_sign) {
        s->at++;
        status = skip(s, true);
    } else {
        status = skip_to_brace(s, &has_brace);
    }
    if (status != HEARTH_OK)
        return status;
    if (has_sign || has_brace || s->at == s->end || *s->at == '[')
        return read_value(s, node);
    return read_word(s, node);
}

/* Read the elements of a list or the members of a section. closing: '\0' for the members of a file without braces. */
static hearth_status read_inside(scanner *s, hth_config_node *out, char closing)
{
    const bool is_list = closing == ']';
    chain inside = { &out->first };
    hearth_status status;

    out->kind = is_list ? HTH_CONFIG_LIST : HTH_CONFIG_SECTION;
    s->at += closing != '\0';
    for (;;) {
        hth_config_node *node;

        status = skip_separators(s);
        if (status != HEARTH_OK || s->at == s->end || *s->at == (is_list ? ']' : '}'))
            break;
        node = add_node(s, &inside);
        if (!node)
            return no_memory(s);
        status = is_list ? read_value(s, node) : read_member(s, node);
        if (status == HEARTH_OK)
            status = read_end(s, closing, !is_list ? node->key : out->key ? out->key : "an element");
        if (status != HEARTH_OK)
            break;
    }
    if (status != HEARTH_OK)
        return status;
    if (closing && s->at == s->end)
        return fail_at(s, out->line, "the %s that begins here has no end, '%c'", is_list ? "list" : "section", closing);
    if (!closing && s->at < s->end)
        return fail_at(s, s->line, "there are more '}' than '{'; take one out");
    s->at += closing != '\0';
    return HEARTH_OK;
}

hearth_status hth_config_file_parse(hth_pool *pool, const char *name, const char *text, size_t n,
                                    const hth_config_node **out, hearth_error *err)
{
    scanner s = { .pool = pool, .name = name, .begin = text, .at = text, .end = text + n, .line = 1, .err = err };
    hth_config_node *root = hth_pool_alloc(pool, sizeof(*root));
    hearth_status status;
    bool has_braces;

    if (!root)
        return no_memory(&s);
    if (memchr(text, '\0', n) || !hth_utf8_is_valid(text, n))
        return hth_fail(err, HEARTH_CORRUPT, "'%s' is no text in UTF-8, so it is no configuration", name);
    root->line = root->key_line = 1;
    status = skip_to_brace(&s, &has_braces); /* as in JSON */
    if (status == HEARTH_OK)
        status = read_inside(&s, root, has_braces ? '}' : '\0');
    if (status == HEARTH_OK && has_braces)
        status = skip_separators(&s);
    if (status == HEARTH_OK && s.at < s.end)
        status = fail_at(&s, s.line, "nothing may follow the '}' that ends the configuration");
    if (status == HEARTH_OK)
        *out = root;
    return status;
}

/* ---- files ---- */

static hearth_status read_all(hth_pool *pool, int fd, const char *name, hth_config_file *out, hearth_error *err)
{
    hth_buffer text = { .text = NULL };
    hearth_status status = HEARTH_OK;

    if (hth_read_to_end(fd, HTH_CONFIG_BYTES_MAX, &text)) {
        out->n_text = text.n;
        out->text = hth_pool_text(pool, hth_buffer_text(&text), text.n);
        if (!out->text)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to read '%s'", name);
    } else if (errno == EFBIG) {
        status = hth_fail(err, HEARTH_CORRUPT, "'%s' is larger than %d MiB, so it is no configuration", name,
                          HTH_CONFIG_BYTES_MAX >> 20);
    } else {
        status = hth_fail_errno(err, errno, "cannot read '%s'", name);
    }
    hth_buffer_deinit(&text);
    return status;
}

hearth_status hth_config_file_read(hth_pool *pool, const char *path, hth_config_file *out, hearth_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    hearth_status status = HEARTH_OK;

    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot open '%s'", name);
    *out = (hth_config_file){ .name = name };
    if (fstat(fd, &st) != 0)
        status = hth_fail_errno(err, errno, "cannot read the type of '%s'", name);
    if (status == HEARTH_OK)
        status = read_all(pool, fd, name, out, err);
    if (!is_stdin)
        (void)close(fd); /* only read */
    if (status != HEARTH_OK)
        return status;
    out->permissions = (uint32_t)st.st_mode & 0777;
    out->owner = (uint32_t)st.st_uid;
    out->is_regular = S_ISREG(st.st_mode);
    return hth_config_file_parse(pool, name, out->text, out->n_text, &out->root, err);
}

void hth_config_quote(const char *text, FILE *out)
{
    (void)fputc('"', out);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            (void)fprintf(out, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            (void)fprintf(out, "\\u%04x", c);
        else
            (void)fputc(c, out);
    }
    (void)fputc('"', out);
}
