/*
 * pattern.c - compile a pattern to instructions, and run all its threads in lockstep
 *
 * Jumps are relative, so compiled code can be moved (to put a split before it) and copied (to write out a repetition).
 * Threads are kept in the order of priority, at most one per instruction.
 */
#include "grammar/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum {
    CODE_MAX = 4096, /* instructions */
    GROUPS_MAX = 9,
    NESTING_MAX = 64,
    REPETITIONS_MAX = 1000,
    N_MARKS = 2 * (GROUPS_MAX + 1),
};

typedef enum op {
    OP_BYTE, /* one byte of set */
    OP_JUMP,
    OP_SPLIT, /* a is tried before b */
    OP_MARK,  /* store the position as mark a */
    OP_BEGIN,
    OP_END,
    OP_MATCH,
} op;

typedef struct instruction {
    op op;
    int32_t a, b;
    uint64_t set[4];
} instruction;

struct hth_pattern {
    instruction *code;
    uint32_t n_code;
    uint32_t n_marks;   /* marks of its groups; threads have no others */
    uint32_t n_initial; /* instructions run before the first byte of a match */
    uint64_t starts[4]; /* first bytes of matches; all bytes if a match may be empty or wait for the end */
};

typedef struct marks {
    uint64_t at[N_MARKS]; /* UINT64_MAX: not set */
} marks;

typedef struct thread_list {
    uint32_t *pcs;   /* by priority */
    uint64_t *marks; /* [n_marks of the pattern] of each thread */
    uint32_t n;
} thread_list;

/* A pending step while threads are added: go to pc, or restore a mark. */
typedef struct todo {
    uint32_t pc;
    int32_t mark; /* -1: none */
    uint64_t old;
} todo;

struct hth_pattern_run {
    const hth_pattern *pattern;
    uint64_t position;
    thread_list now, next;
    uint32_t *reached; /* by instruction: the last step that reached it */
    uint32_t step;
    todo *todos;
    uint64_t *n_steps; /* of the caller */
};

/* ---- compiling --------------------------------------------------------------------------------------------------- */

typedef struct compiler {
    const char *text, *at;
    instruction *code;
    uint32_t n;
    int n_groups;
    int depth;
    hearth_status status;
    hearth_error *err;
} compiler;

static void fail(compiler *c, const char *why)
{
    if (c->status == HEARTH_OK)
        c->status = hth_fail(c->err, HEARTH_MISUSE, "the pattern has %s at byte %zu", why, (size_t)(c->at - c->text));
}

static instruction *emit(compiler *c, op what, int32_t a, int32_t b)
{
    if (c->n >= CODE_MAX) {
        fail(c, "too much to repeat or to choose from; it is too long");
        c->n = CODE_MAX - 1;
    }
    c->code[c->n] = (instruction){ .op = what, .a = a, .b = b };
    return &c->code[c->n++];
}

/* Insert an instruction before those from begin on. */
static void insert(compiler *c, uint32_t begin, op what, int32_t a, int32_t b)
{
    emit(c, what, a, b);
    if (c->status != HEARTH_OK)
        return; /* there was no room, so begin may be the end */
    memmove(c->code + begin + 1, c->code + begin, (c->n - 1 - begin) * sizeof(c->code[0]));
    c->code[begin] = (instruction){ .op = what, .a = a, .b = b };
}

/* A split between continuing and leaving; a lazy one leaves first. */
static void insert_split(compiler *c, uint32_t begin, int32_t on, int32_t out, bool lazy)
{
    insert(c, begin, OP_SPLIT, lazy ? out : on, lazy ? on : out);
}

static void set_add(uint64_t set[4], unsigned first, unsigned last)
{
    for (unsigned i = first; i <= last && i < 256; i++)
        set[i / 64] |= UINT64_C(1) << i % 64;
}

/* The set of \d, \w or \s; false for another letter. */
static bool class_escape(char letter, uint64_t set[4])
{
    uint64_t own[4] = { 0 };

    switch (letter | 0x20) {
    case 'd': set_add(own, '0', '9'); break;
    case 'w':
        set_add(own, '0', '9');
        set_add(own, 'a', 'z');
        set_add(own, 'A', 'Z');
        set_add(own, '_', '_');
        break;
    case 's':
        set_add(own, '\t', '\r');
        set_add(own, ' ', ' ');
        break;
    default: return false;
    }
    for (int i = 0; i < 4; i++)
        set[i] |= letter & 0x20 ? own[i] : ~own[i];
    return true;
}

/* The byte that an escape stands for; -1 with the compiler failed. */
static int byte_escape(compiler *c)
{
    char letter = *c->at;

    if (letter)
        c->at++;
    switch (letter) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'x':
        if (hth_hex_digit(c->at[0]) >= 0 && hth_hex_digit(c->at[1]) >= 0) {
            c->at += 2;
            return hth_hex_digit(c->at[-2]) * 16 + hth_hex_digit(c->at[-1]);
        }
        break;
    default:
        if (letter > ' ' && letter < 0x7F && hth_hex_digit(letter) < 0 &&
            !((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z'))
            return letter;
    }
    fail(c, letter >= '1' && letter <= '9' ? "a back-reference, which cannot be used here," : "an unknown escape");
    return -1;
}

static void compile_class(compiler *c)
{
    instruction *one = emit(c, OP_BYTE, 0, 0);
    bool negated = *c->at == '^';

    c->at += negated;
    while (c->status == HEARTH_OK && *c->at != ']') {
        int first = (uint8_t)*c->at++;
        int last;

        if (first == '\\' && class_escape(*c->at, one->set)) {
            c->at++;
            continue;
        }
        if (first == '\\')
            first = byte_escape(c);
        else if (first == '\0' || first >= 0x80) {
            c->at -= first == '\0';
            fail(c, first ? "a class with a character that is not ASCII" : "a class without its ']'");
        }
        last = first;
        if (c->status == HEARTH_OK && c->at[0] == '-' && c->at[1] != ']' && c->at[1]) {
            c->at++;
            last = (uint8_t)*c->at++;
            if (last == '\\')
                last = byte_escape(c);
            if (last < first || last >= 0x80)
                fail(c, "a range that is not one of ASCII characters in their order");
        }
        if (c->status == HEARTH_OK)
            set_add(one->set, (unsigned)first, (unsigned)last);
    }
    if (c->status != HEARTH_OK)
        return;
    c->at++;
    for (int i = 0; negated && i < 4; i++)
        one->set[i] = ~one->set[i];
}

static void compile_choice(compiler *c);

static void compile_group(compiler *c)
{
    int group = 0;

    if (c->at[0] == '?' && c->at[1] == ':')
        c->at += 2;
    else if (c->at[0] == '?')
        fail(c, "look-around or a named group, which cannot be used here,");
    else
        group = ++c->n_groups;
    if (group > GROUPS_MAX)
        fail(c, "more than 9 groups; write (?:...)");
    if (++c->depth > NESTING_MAX)
        fail(c, "groups nested more than 64 deep");
    if (c->status != HEARTH_OK)
        return;
    if (group)
        emit(c, OP_MARK, 2 * group, 0);
    compile_choice(c);
    if (group)
        emit(c, OP_MARK, 2 * group + 1, 0);
    if (*c->at != ')')
        fail(c, "a group without its ')'");
    else
        c->at++;
    c->depth--;
}

/* Compile one atom: an expression that can be repeated. */
static void compile_atom(compiler *c)
{
    uint8_t byte = (uint8_t)*c->at++;

    switch (byte) {
    case '(': compile_group(c); return;
    case '[': compile_class(c); return;
    case '^': emit(c, OP_BEGIN, 0, 0); return;
    case '$': emit(c, OP_END, 0, 0); return;
    case '.': {
        instruction *one = emit(c, OP_BYTE, 0, 0);

        memset(one->set, 0xFF, sizeof(one->set));
        one->set[0] &= ~(UINT64_C(1) << '\n' | UINT64_C(1) << '\r');
        return;
    }
    case '*':
    case '+':
    case '?':
    case '{':
        c->at--;
        fail(c, "nothing to repeat");
        return;
    case '\\': {
        uint64_t set[4] = { 0 };

        if (*c->at && class_escape(*c->at, set)) {
            c->at++;
            memcpy(emit(c, OP_BYTE, 0, 0)->set, set, sizeof(set));
        } else {
            int value = byte_escape(c);

            if (value >= 0)
                set_add(emit(c, OP_BYTE, 0, 0)->set, (unsigned)value, (unsigned)value);
        }
        return;
    }
    default:
        set_add(emit(c, OP_BYTE, 0, 0)->set, byte, byte);
        while (byte >= 0xC0 && hth_utf8_goes_on(*c->at)) { /* the rest of a character */
            uint8_t more = (uint8_t)*c->at++;

            set_add(emit(c, OP_BYTE, 0, 0)->set, more, more);
        }
    }
}

static int read_count(compiler *c)
{
    int value = 0;

    if (*c->at < '0' || *c->at > '9') {
        fail(c, "a repetition that is not {m}, {m,} or {m,n}");
        return 0;
    }
    for (; *c->at >= '0' && *c->at <= '9'; c->at++)
        if (value <= REPETITIONS_MAX)
            value = value * 10 + (*c->at - '0');
    if (value > REPETITIONS_MAX)
        fail(c, "more than 1000 repetitions");
    return value;
}

/* Repeat the code from begin on, least to most times; most -1: any number of times. */
static void repeat(compiler *c, uint32_t begin, int least, int most, bool lazy)
{
    uint32_t n = c->n - begin;
    instruction *copy = malloc((n ? n : 1) * sizeof(copy[0]));

    if (!copy) {
        if (c->status == HEARTH_OK)
            c->status = hth_fail(c->err, HEARTH_NO_MEMORY, "no memory for a pattern");
        return;
    }
    memcpy(copy, c->code + begin, n * sizeof(copy[0]));
    c->n = begin;
    for (int i = 0; i < (most < 0 ? least + 1 : most) && c->status == HEARTH_OK; i++) {
        uint32_t at = c->n;

        if (n + 2 > CODE_MAX - c->n) { /* plus a split and a jump; c->n may be CODE_MAX */
            fail(c, "too much to repeat; it is too long");
            break;
        }
        memcpy(c->code + at, copy, n * sizeof(copy[0]));
        c->n += n;
        if (i >= least) {
            insert_split(c, at, 1, (int32_t)n + (most < 0 ? 2 : 1), lazy);
            if (most < 0)
                emit(c, OP_JUMP, -(int32_t)(n + 1), 0);
        }
    }
    free(copy);
}

static void compile_sequence(compiler *c)
{
    while (c->status == HEARTH_OK && *c->at && *c->at != '|' && *c->at != ')') {
        uint32_t begin = c->n;
        int least = 1, most = 1;
        char sign;

        compile_atom(c);
        sign = *c->at;
        if (c->status != HEARTH_OK || !sign || !strchr("*+?{", sign))
            continue;
        c->at++;
        if (sign == '{') {
            least = read_count(c);
            most = least;
            if (*c->at == ',') {
                c->at++;
                most = *c->at == '}' ? -1 : read_count(c);
            }
            if (*c->at != '}' || (most >= 0 && most < least))
                fail(c, "a repetition that is not {m}, {m,} or {m,n}");
            else
                c->at++;
        } else {
            least = sign == '+';
            most = sign == '?' ? 1 : -1;
        }
        if (c->status == HEARTH_OK) {
            bool lazy = *c->at == '?';

            c->at += lazy;
            repeat(c, begin, least, most, lazy);
        }
    }
}

static void compile_choice(compiler *c)
{
    int32_t last_jump = -1; /* the jumps are a list, each with the one before it, until the end is known */

    for (;;) {
        uint32_t begin = c->n;

        compile_sequence(c);
        if (c->status != HEARTH_OK)
            return;
        if (*c->at != '|')
            break;
        c->at++;
        insert(c, begin, OP_SPLIT, 1, (int32_t)(c->n - begin) + 2);
        emit(c, OP_JUMP, last_jump, 0);
        last_jump = (int32_t)c->n - 1;
    }
    while (last_jump >= 0) {
        int32_t before = c->code[last_jump].a;

        c->code[last_jump].a = (int32_t)c->n - last_jump;
        last_jump = before;
    }
}

/* Find n_initial and starts: the instructions reached without a byte. reached: [n_code] of false. */
static void find_starts(hth_pattern *pattern, bool *reached, uint32_t *todos)
{
    uint32_t n_todo = 0;

    todos[n_todo++] = 0;
    while (n_todo > 0) {
        uint32_t pc = todos[--n_todo];
        const instruction *one = &pattern->code[pc];

        if (reached[pc])
            continue;
        reached[pc] = true;
        pattern->n_initial++;
        switch (one->op) {
        case OP_JUMP: todos[n_todo++] = pc + (uint32_t)one->a; break;
        case OP_SPLIT:
            todos[n_todo++] = pc + (uint32_t)one->b;
            todos[n_todo++] = pc + (uint32_t)one->a;
            break;
        case OP_MARK:
        case OP_BEGIN: todos[n_todo++] = pc + 1; break;
        case OP_BYTE:
            for (int i = 0; i < 4; i++)
                pattern->starts[i] |= one->set[i];
            break;
        case OP_END:
        case OP_MATCH: memset(pattern->starts, 0xFF, sizeof(pattern->starts)); break;
        }
    }
}

hearth_status hth_pattern_new(const char *text, hth_pattern **out, hearth_error *err)
{
    hth_pattern *pattern = calloc(1, sizeof(*pattern));
    compiler c = { .text = text, .at = text, .code = malloc(CODE_MAX * sizeof(instruction)), .err = err };
    bool *reached = calloc(CODE_MAX, sizeof(reached[0]));
    uint32_t *todos = malloc((2 * CODE_MAX + 2) * sizeof(todos[0]));
    instruction *fitted;

    if (!pattern || !c.code || !reached || !todos) {
        c.status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a pattern");
    } else {
        emit(&c, OP_MARK, 0, 0);
        compile_choice(&c);
        if (*c.at == ')')
            fail(&c, "a ')' without its '('");
        emit(&c, OP_MARK, 1, 0);
        emit(&c, OP_MATCH, 0, 0);
    }
    if (c.status == HEARTH_OK) {
        /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): each pattern has instructions */
        fitted = realloc(c.code, c.n * sizeof(c.code[0]));
        pattern->code = fitted ? fitted : c.code;
        pattern->n_code = c.n;
        pattern->n_marks = 2 * ((uint32_t)c.n_groups + 1);
        find_starts(pattern, reached, todos);
        *out = pattern;
    } else {
        free(c.code);
        free(pattern);
    }
    free(reached);
    free(todos);
    return c.status;
}

uint32_t hth_pattern_n_instructions(const hth_pattern *pattern)
{
    return pattern->n_code;
}

uint32_t hth_pattern_n_initial(const hth_pattern *pattern)
{
    return pattern->n_initial;
}

bool hth_pattern_may_begin(const hth_pattern *pattern, uint8_t byte)
{
    return pattern->starts[byte / 64] >> byte % 64 & 1;
}

void hth_pattern_free(hth_pattern *pattern)
{
    if (!pattern)
        return;
    free(pattern->code);
    free(pattern);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/*
 * Add the thread at pc, and all that it leads to without a byte. True if one of them is a match: *found has its marks,
 * and threads of lower priority need not be added.
 */
static bool add_thread(hth_pattern_run *run, thread_list *list, uint32_t first, marks *m, bool at_end, marks *found)
{
    uint32_t n_todo = 0;

    run->todos[n_todo++] = (todo){ .pc = first, .mark = -1 };
    while (n_todo > 0) {
        todo t = run->todos[--n_todo];
        const instruction *one = &run->pattern->code[t.pc];

        ++*run->n_steps;
        if (t.mark >= 0) {
            m->at[t.mark] = t.old;
            continue;
        }
        if (run->reached[t.pc] == run->step)
            continue;
        run->reached[t.pc] = run->step;
        switch (one->op) {
        case OP_JUMP: run->todos[n_todo++] = (todo){ .pc = t.pc + (uint32_t)one->a, .mark = -1 }; break;
        case OP_SPLIT:
            run->todos[n_todo++] = (todo){ .pc = t.pc + (uint32_t)one->b, .mark = -1 };
            run->todos[n_todo++] = (todo){ .pc = t.pc + (uint32_t)one->a, .mark = -1 };
            break;
        case OP_MARK:
            run->todos[n_todo++] = (todo){ .mark = one->a, .old = m->at[one->a] };
            run->todos[n_todo++] = (todo){ .pc = t.pc + 1, .mark = -1 };
            m->at[one->a] = run->position;
            break;
        case OP_BEGIN:
            if (run->position == 0)
                run->todos[n_todo++] = (todo){ .pc = t.pc + 1, .mark = -1 };
            break;
        case OP_END:
        case OP_BYTE:
            if (one->op == OP_END && at_end) {
                run->todos[n_todo++] = (todo){ .pc = t.pc + 1, .mark = -1 };
                break;
            }
            list->pcs[list->n] = t.pc; /* it waits for a byte, or for the end of the text */
            memcpy(list->marks + (size_t)list->n * run->pattern->n_marks, m->at,
                   run->pattern->n_marks * sizeof(m->at[0]));
            list->n++;
            ++*run->n_steps;
            break;
        case OP_MATCH: *found = *m; return true;
        }
    }
    return false;
}

static void begin_step(hth_pattern_run *run)
{
    if (++run->step == 0) {
        memset(run->reached, 0, run->pattern->n_code * sizeof(run->reached[0]));
        run->step = 1;
    }
}

static marks no_marks(void)
{
    marks m;

    memset(&m, 0xFF, sizeof(m));
    return m;
}

static marks marks_of(const hth_pattern_run *run, uint32_t thread)
{
    marks m = no_marks();

    memcpy(m.at, run->now.marks + (size_t)thread * run->pattern->n_marks, run->pattern->n_marks * sizeof(m.at[0]));
    return m;
}

static uint64_t begin_of(const marks *m)
{
    for (size_t i = 1; i <= GROUPS_MAX; i++)
        if (m->at[2 * i] != UINT64_MAX && m->at[2 * i + 1] != UINT64_MAX && m->at[2 * i + 1] > m->at[2 * i])
            return m->at[2 * i];
    return m->at[0];
}

hth_pattern_run *hth_pattern_run_new(const hth_pattern *pattern, uint64_t *n_steps)
{
    hth_pattern_run *run = calloc(1, sizeof(*run));
    thread_list *lists[] = { run ? &run->now : NULL, run ? &run->next : NULL };
    bool ok = run != NULL;

    for (int i = 0; i < 2 && ok; i++) {
        lists[i]->pcs = calloc(pattern->n_code, sizeof(lists[i]->pcs[0]));
        lists[i]->marks = calloc((size_t)pattern->n_code * pattern->n_marks, sizeof(lists[i]->marks[0]));
        ok = lists[i]->pcs && lists[i]->marks;
    }
    if (ok) {
        run->pattern = pattern;
        run->n_steps = n_steps;
        run->reached = calloc(pattern->n_code, sizeof(run->reached[0]));
        run->todos = calloc(2 * (size_t)pattern->n_code + 2, sizeof(run->todos[0]));
        ok = run->reached && run->todos;
    }
    if (!ok) {
        hth_pattern_run_free(run);
        return NULL;
    }
    return run;
}

void hth_pattern_run_free(hth_pattern_run *run)
{
    if (!run)
        return;
    free(run->now.pcs);
    free(run->now.marks);
    free(run->next.pcs);
    free(run->next.marks);
    free(run->reached);
    free(run->todos);
    free(run);
}

bool hth_pattern_run_is_idle(const hth_pattern_run *run)
{
    return run->now.n == 0;
}

void hth_pattern_run_copy(hth_pattern_run *to, const hth_pattern_run *from)
{
    to->position = from->position;
    to->now.n = from->now.n;
    *to->n_steps += from->now.n;
    if (from->now.n == 0)
        return;
    memcpy(to->now.pcs, from->now.pcs, from->now.n * sizeof(from->now.pcs[0]));
    memcpy(to->now.marks, from->now.marks, (size_t)from->now.n * from->pattern->n_marks * sizeof(from->now.marks[0]));
}

size_t hth_pattern_run_n_words(const hth_pattern_run *run)
{
    return (size_t)run->now.n * (1 + run->pattern->n_marks);
}

void hth_pattern_run_save(hth_pattern_run *run, uint64_t *words)
{
    size_t n = run->now.n;

    for (size_t i = 0; i < n; i++)
        words[i] = run->now.pcs[i];
    if (n > 0)
        memcpy(words + n, run->now.marks, n * run->pattern->n_marks * sizeof(words[0]));
    *run->n_steps += n;
}

void hth_pattern_run_restore(hth_pattern_run *run, const uint64_t *words, size_t n_words)
{
    size_t n = n_words / (1 + run->pattern->n_marks);

    for (size_t i = 0; i < n; i++)
        run->now.pcs[i] = (uint32_t)words[i];
    if (n > 0)
        memcpy(run->now.marks, words + n, n * run->pattern->n_marks * sizeof(words[0]));
    run->now.n = (uint32_t)n;
    *run->n_steps += n;
}

void hth_pattern_skip_to(hth_pattern_run *run, uint64_t position)
{
    run->position = position;
}

bool hth_pattern_read(hth_pattern_run *run, uint8_t byte, uint64_t *begin_out)
{
    marks found, fresh = no_marks();
    thread_list swap;

    /* A match may begin at this byte. Its priority is lower than that of all threads that began earlier. */
    begin_step(run);
    *run->n_steps += 2 * (uint64_t)run->now.n + 1;
    for (uint32_t i = 0; i < run->now.n; i++)
        run->reached[run->now.pcs[i]] = run->step;
    if (hth_pattern_may_begin(run->pattern, byte) && add_thread(run, &run->now, 0, &fresh, false, &found)) {
        *begin_out = begin_of(&found); /* an empty match */
        return true;
    }
    begin_step(run);
    run->next.n = 0;
    run->position++;
    for (uint32_t i = 0; i < run->now.n; i++) {
        const instruction *one = &run->pattern->code[run->now.pcs[i]];
        marks m;

        if (one->op != OP_BYTE || !(one->set[byte / 64] >> byte % 64 & 1))
            continue;
        m = marks_of(run, i);
        if (add_thread(run, &run->next, run->now.pcs[i] + 1, &m, false, &found)) {
            *begin_out = begin_of(&found);
            return true;
        }
    }
    swap = run->now;
    run->now = run->next;
    run->next = swap;
    return false;
}

bool hth_pattern_at_end(hth_pattern_run *run, uint64_t *begin_out)
{
    begin_step(run);
    run->next.n = 0;
    *run->n_steps += run->now.n;
    for (uint32_t i = 0; i < run->now.n; i++) {
        marks found, m;

        if (run->pattern->code[run->now.pcs[i]].op != OP_END)
            continue;
        m = marks_of(run, i);
        if (add_thread(run, &run->next, run->now.pcs[i] + 1, &m, true, &found)) {
            *begin_out = begin_of(&found);
            return true;
        }
    }
    return false;
}
