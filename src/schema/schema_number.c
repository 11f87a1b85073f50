/*
 * schema_number.c - numbers with bounds and steps, digit by digit
 *
 * Such a number is written without an exponent: a sign, digits, and possibly a point and more digits. The rule of the
 * next digit knows the number of digits before it, and two facts about them:
 *
 *   whether they are the first digits of the lower or the upper bound; then the next digit must not go beyond the bound
 *   their remainder when divided by the step, in units of the step's last digit
 *
 * Two chains of rules run along the bounds. Digits that have left both bounds are free. All free digits share rules, by
 * the number of remaining digits and the remainder. So there are at most (digits of the bounds) + (digits) *
 * (remainders) rules.
 *
 * Bounds are decimals, as written. A step with more than STEPS_MAX remainders can be honored in two cases: there are
 * few multiples between the bounds, so that they can be listed; or it is a smaller step with trailing zeros.
 */
#include <stdlib.h>
#include <string.h>

#include "schema/schema_inside.h"

#define NONE HTH_GBNF_NONE

enum {
    WHOLE_MAX = 320,
    FRACTION_MAX = 80,
    DIGITS = 16,       /* before and after the point, unless a bound needs more */
    EXACT_DIGITS = 15, /* significant digits that a 64-bit real number keeps */
    EXACT_WHOLE = 9,   /* the share of them before the point */
    STEPS_MAX = 256,   /* remainders */
    LISTED_MAX = 4096  /* multiples */
};

/* A number without leading zeros before the point, and without trailing zeros after it. */
typedef struct decimal {
    bool is_negative;
    int n_whole, n_fraction;
    char whole[WHOLE_MAX], fraction[FRACTION_MAX];
} decimal;

typedef struct bound {
    bool is_there, is_open;
    decimal at;
} bound;

typedef struct number {
    hth_schema_work *w;
    uint32_t path;
    bound low, high;
    bool is_whole, is_fraction; /* whole numbers only; other numbers only */
    uint64_t step;              /* in units of 10^-scale; without a step 1, with scale -1 */
    int scale;
    int n_zeros;                 /* trailing zeros of each number */
    int whole_max, fraction_max; /* digits, unless a bound needs more */
    uint32_t *whole_rules;       /* of free digits, by digits left and remainder */
    uint32_t *fraction_rules;    /* of free digits, by digits after the point, whether the last is 0, and remainder */
    const bound *lo, *hi;        /* bounds of the absolute value, for the current sign */
} number;

/* ---- decimals ---------------------------------------------------------------------------------------------------- */

/* Read digits with a point and an exponent. False if there are too many digits. */
static bool decimal_read(const char *text, decimal *out)
{
    char digits[64];
    int n = 0, point = -1, exponent = 0, begin = 0;

    memset(out, 0, sizeof(*out));
    out->is_negative = *text == '-';
    text += out->is_negative;
    for (; *text && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.')
            point = n;
        else
            digits[n++] = *text;
    }
    if (*text)
        exponent = (int)strtol(text + 1, NULL, 10);
    point = (point < 0 ? n : point) + exponent; /* number of digits before it */
    while (begin < n && digits[begin] == '0')
        begin++;
    while (n > begin && digits[n - 1] == '0')
        n--;
    if (begin == n) {
        out->is_negative = false;
        return true;
    }
    if (point - begin > WHOLE_MAX || n - point > FRACTION_MAX)
        return false;
    for (int i = begin; i < point; i++)
        out->whole[out->n_whole++] = i < n ? digits[i] : '0';
    for (int i = point; i < n; i++)
        out->fraction[out->n_fraction++] = i < begin ? '0' : digits[i];
    return true;
}

static int compare_absolute(const decimal *a, const decimal *b)
{
    int n = a->n_fraction < b->n_fraction ? a->n_fraction : b->n_fraction;
    int order = a->n_whole != b->n_whole ? a->n_whole - b->n_whole : memcmp(a->whole, b->whole, (size_t)a->n_whole);

    if (order == 0)
        order = memcmp(a->fraction, b->fraction, (size_t)n);
    return order ? order : a->n_fraction - b->n_fraction;
}

static int compare(const decimal *a, const decimal *b)
{
    if (a->is_negative != b->is_negative)
        return a->is_negative ? -1 : 1;
    return a->is_negative ? compare_absolute(b, a) : compare_absolute(a, b);
}

static bool is_zero(const decimal *d)
{
    return d->n_whole == 0 && d->n_fraction == 0;
}

/* ---- keywords ---------------------------------------------------------------------------------------------------- */

static void take_bound(number *x, const hth_schema_item *item, const char *key, const json_t *given, bool is_low,
                       bool is_open)
{
    bound *to = is_low ? &x->low : &x->high;
    bound one = { .is_there = true, .is_open = is_open };
    char text[64];
    int order;

    if (!json_is_number(given)) {
        hth_schema_fail(x->w, item->path, key, "'%s' must be a number", key);
        return;
    }
    hth_schema_number_text(given, text);
    if (!decimal_read(text, &one.at)) {
        hth_schema_fail(x->w, item->path, key, "'%s' has too many digits", key);
        return;
    }
    order = to->is_there ? compare(&one.at, &to->at) : is_low ? 1 : -1;
    if (is_low ? order > 0 : order < 0)
        *to = one;
    else if (order == 0)
        to->is_open = to->is_open || is_open;
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Make the step the least common multiple of itself and another one. False if there are too many digits. */
static bool join_step(number *x, const decimal *step)
{
    uint64_t value = 0;
    int scale = step->n_fraction > x->scale ? step->n_fraction : x->scale, n = step->n_whole + step->n_fraction;

    scale = scale < 0 ? 0 : scale;
    if (n > 17 || scale > 17)
        return false;
    for (int i = 0; i < n; i++)
        value = value * 10 + (uint64_t)((i < step->n_whole ? step->whole[i] : step->fraction[i - step->n_whole]) - '0');
    for (int i = step->n_fraction; i < scale; i++)
        if (__builtin_mul_overflow(value, 10, &value))
            return false;
    if (x->scale >= 0)
        for (int i = x->scale; i < scale; i++)
            if (__builtin_mul_overflow(x->step, 10, &x->step))
                return false;
    if (x->scale < 0)
        x->step = value;
    else if (__builtin_mul_overflow(x->step, value / divisor(x->step, value), &x->step))
        return false;
    x->scale = scale;
    return true;
}

static void take_keywords(number *x, const hth_schema_item *item)
{
    static const struct {
        const char *key, *opens;
        bool is_low, is_open;
    } bounds[] = { { "minimum", "exclusiveMinimum", true, false },
                   { "exclusiveMinimum", NULL, true, true },
                   { "maximum", "exclusiveMaximum", false, false },
                   { "exclusiveMaximum", NULL, false, true } };
    const json_t *given = json_object_get(item->schema, "multipleOf");
    decimal step;
    char text[64];

    for (size_t i = 0; i < 4; i++) {
        const json_t *one = json_object_get(item->schema, bounds[i].key);

        if (!one || (bounds[i].is_open && json_is_boolean(one))) /* in draft 4 it is a flag of the other keyword */
            continue;
        take_bound(x, item, bounds[i].key, one, bounds[i].is_low,
                   bounds[i].is_open || json_is_true(json_object_get(item->schema, bounds[i].opens)));
    }
    if (!given)
        return;
    if (!json_is_number(given) || !(json_number_value(given) > 0)) {
        hth_schema_fail(x->w, item->path, "multipleOf", "'multipleOf' must be a number above 0");
        return;
    }
    hth_schema_number_text(given, text);
    if (!decimal_read(text, &step) || !join_step(x, &step))
        hth_schema_fail(x->w, item->path, "multipleOf", "'multipleOf' has too many digits to be honoured");
    x->path = item->path;
}

/* ---- digits ------------------------------------------------------------------------------------------------------ */

/* The facts about the digits so far. */
typedef struct place {
    bool at_low, at_high; /* the digits are the first digits of the bound */
    bool is_zero;         /* the last one is 0, which matters for numbers that must not be whole */
    uint64_t rest;
} place;

static int digit_of(const bound *b, bool is_whole, int i)
{
    if (is_whole)
        return b->at.n_whole == 0 ? 0 : b->at.whole[i] - '0';
    return i < b->at.n_fraction ? b->at.fraction[i] - '0' : 0;
}

/* May the number end here, with n_fraction digits after the point? */
static bool may_end(const number *x, place at, int n_fraction)
{
    uint64_t rest = at.rest;

    if (x->is_fraction && (n_fraction == 0 || at.is_zero))
        return false;
    if (at.at_low && (n_fraction < x->lo->at.n_fraction || x->lo->is_open))
        return false;
    if (at.at_high && n_fraction >= x->hi->at.n_fraction && x->hi->is_open)
        return false;
    for (int i = n_fraction; i < x->scale; i++)
        rest = rest * 10 % x->step;
    return x->step == 1 || rest == 0;
}

static void push_zeros(const number *x)
{
    for (int i = 0; i < x->n_zeros; i++)
        hth_schema_push_text(x->w, "0");
}

static uint32_t after_whole(number *x, place at, int n_left, int n, bool is_first);
static uint32_t after_fraction(number *x, place at, int n);

/* Add the alternatives of rule, by the next digit: digit i of the n before the point, or digit i after it. */
static void add_digits(number *x, uint32_t rule, place at, bool is_whole, int i, int n)
{
    hth_schema_work *w = x->w;
    place to[10];
    uint32_t digits[10]; /* as bits */
    size_t n_to = 0, base = w->tables.n_stack;

    if (!hth_schema_spend(w, x->path, 16))
        return;
    for (int d = is_whole && i == 0 && n > 1 ? 1 : 0; d <= 9; d++) {
        int low = at.at_low ? digit_of(x->lo, is_whole, i) : 0, high = at.at_high ? digit_of(x->hi, is_whole, i) : 9;
        place next = { .at_low = at.at_low && d == low,
                       .at_high = at.at_high && d == high,
                       .is_zero = x->is_fraction && d == 0,
                       .rest = (at.rest * 10 + (uint64_t)d) % x->step };
        size_t j = 0;

        if (d < low || d > high)
            continue;
        while (j < n_to && !(to[j].at_low == next.at_low && to[j].at_high == next.at_high &&
                             to[j].is_zero == next.is_zero && to[j].rest == next.rest))
            j++;
        if (j == n_to) {
            to[n_to] = next;
            digits[n_to++] = 0;
        }
        digits[j] |= 1u << d;
    }
    for (size_t j = 0; j < n_to && !hth_schema_failed(w); j++) {
        uint32_t next = is_whole ? after_whole(x, to[j], n - i - 1, n, false) : after_fraction(x, to[j], i + 1);
        hth_gbnf_range ranges[10];
        size_t n_ranges = 0;

        if (hth_schema_failed(w))
            return;
        for (uint32_t d = 0; d <= 9; d++)
            if (digits[j] >> d & 1)
                ranges[n_ranges++] = (hth_gbnf_range){ '0' + d, '0' + d };
        hth_schema_push_ranges(w, ranges, n_ranges);
        hth_schema_push_rule(w, next);
        hth_schema_end(w, rule, base);
    }
}

/* The rule of the rest after n digits after the point. */
static uint32_t after_fraction(number *x, place at, int n)
{
    hth_schema_work *w = x->w;
    bool is_free = !at.at_low && !at.at_high;
    uint32_t *known = &x->fraction_rules[((size_t)n * 2 + at.is_zero) * x->step + at.rest];
    size_t base = w->tables.n_stack;
    uint32_t rule;

    if (is_free && *known != NONE)
        return *known;
    rule = hth_gbnf_add_rule(&w->tables);
    if (is_free)
        *known = rule;
    if (n > 0 && may_end(x, at, n))
        hth_schema_end(w, rule, base);
    if (n < x->fraction_max)
        add_digits(x, rule, at, false, n, 0);
    return rule;
}

/* The rule of the rest when n_left of the n digits before the point are still to come. */
static uint32_t after_whole(number *x, place at, int n_left, int n, bool is_first)
{
    hth_schema_work *w = x->w;
    bool is_free = !at.at_low && !at.at_high && !is_first;
    uint32_t *known = &x->whole_rules[(size_t)n_left * x->step + at.rest];
    size_t base = w->tables.n_stack;
    uint32_t rule, fraction;

    if (is_free && *known != NONE)
        return *known;
    rule = hth_gbnf_add_rule(&w->tables);
    if (is_free)
        *known = rule;
    if (n_left > 0) {
        add_digits(x, rule, at, true, n - n_left, n);
        return rule;
    }
    if (may_end(x, at, 0)) {
        push_zeros(x);
        hth_schema_end(w, rule, base);
    }
    if (!x->is_whole && x->fraction_max > 0) {
        at.is_zero = false;
        fraction = after_fraction(x, at, 0);
        hth_schema_push_text(w, ".");
        hth_schema_push_rule(w, fraction);
        hth_schema_end(w, rule, base);
    }
    return rule;
}

/* Add the numbers of one sign whose absolute values are in the bounds lo and hi. */
static void add_side(number *x, uint32_t rule, const char *sign, const bound *lo, const bound *hi)
{
    int least = lo->at.n_whole > 1 ? lo->at.n_whole : 1, most = least + 3 > x->whole_max ? least + 3 : x->whole_max;
    int n_high = hi->at.n_whole > 1 ? hi->at.n_whole : 1;
    size_t base = x->w->tables.n_stack;

    x->lo = lo;
    x->hi = hi;
    if (hi->is_there && n_high > most && n_high <= 19)
        most = n_high;
    if (hi->is_there && n_high < most)
        most = n_high;
    for (int n = least; n <= most && !hth_schema_failed(x->w); n++) {
        place at = { .at_low = n == least && (lo->is_open || !is_zero(&lo->at)),
                     .at_high = hi->is_there && n == n_high };
        uint32_t one = after_whole(x, at, n, n, true);

        hth_schema_push_text(x->w, sign);
        hth_schema_push_rule(x->w, one);
        hth_schema_end(x->w, rule, base);
    }
}

static void add_sides(number *x, uint32_t rule)
{
    bound zero = { .is_there = true }, lo, hi;
    static const char most[] = "9223372036854775807";

    /* Whole numbers beyond 64 bits are not needed, unless a bound requires them. */
    if (x->is_whole && x->low.is_there && !x->high.is_there && x->low.at.n_whole >= DIGITS) {
        (void)decimal_read(most, &hi.at);
        hi.is_there = true, hi.is_open = false;
        if (compare(&x->low.at, &hi.at) < 0)
            x->high = hi;
    } else if (x->is_whole && x->high.is_there && !x->low.is_there && x->high.at.n_whole >= DIGITS) {
        (void)decimal_read(most, &lo.at);
        lo.is_there = lo.at.is_negative = true, lo.is_open = false;
        if (compare(&x->high.at, &lo.at) > 0)
            x->low = lo;
    }
    if (!x->high.is_there || !x->high.at.is_negative) {
        lo = x->low.is_there && !x->low.at.is_negative ? x->low : zero;
        lo.is_open = lo.is_open || (x->n_zeros > 0 && is_zero(&lo.at));
        add_side(x, rule, "", &lo, &x->high);
    }
    if (!x->low.is_there || x->low.at.is_negative) {
        lo = x->high.is_there && x->high.at.is_negative ? x->high : zero;
        lo.is_open = lo.is_open || is_zero(&lo.at); /* 0 has no sign */
        hi = x->low;
        lo.at.is_negative = hi.at.is_negative = false;
        add_side(x, rule, "-", &lo, &hi);
    }
}

/* ---- multiples one by one ---------------------------------------------------------------------------------------- */

/* A bound in units of 10^-scale, rounded inward. False if it is too large. */
static bool in_units(const bound *b, int scale, bool is_low, int64_t *out)
{
    int64_t value = 0;
    bool is_cut = b->at.n_fraction > scale;

    for (int i = 0; i < b->at.n_whole + scale; i++) {
        int at = i - b->at.n_whole;
        int digit = at < 0 ? b->at.whole[i] - '0' : at < b->at.n_fraction ? b->at.fraction[at] - '0' : 0;

        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value))
            return false;
    }
    value = b->at.is_negative ? -value : value;
    if (is_cut ? b->at.is_negative != is_low : b->is_open)
        value += is_low ? 1 : -1;
    *out = value;
    return true;
}

static void list_multiples(number *x, uint32_t rule)
{
    int64_t low = 0, high = 0, step = (int64_t)x->step, unit = 1;
    size_t base = x->w->tables.n_stack;

    for (int i = 0; i < x->scale; i++)
        unit *= 10; /* scale is at most 17 */
    if (!x->low.is_there || !x->high.is_there || !in_units(&x->low, x->scale, true, &low) ||
        !in_units(&x->high, x->scale, false, &high) || low < -INT64_MAX / 2 || high > INT64_MAX / 2 ||
        step > INT64_MAX / 4 || (high - low) / step > LISTED_MAX) {
        hth_schema_fail(
            x->w, x->path, "multipleOf",
            "'multipleOf' of so many digits cannot be honoured unless 'minimum' and 'maximum' leave at most "
            "%d multiples",
            LISTED_MAX);
        return;
    }
    for (int64_t i = low / step - 1; i <= high / step + 1 && !hth_schema_failed(x->w); i++) {
        int64_t value = i * step, whole = (value < 0 ? -value : value) / unit,
                part = (value < 0 ? -value : value) % unit;
        char text[64];
        int n;

        if (value < low || value > high || (x->is_whole && part != 0) || (x->is_fraction && part == 0))
            continue;
        n = snprintf(text, sizeof(text), "%s%lld", value < 0 ? "-" : "", (long long)whole);
        if (part != 0)
            n += snprintf(text + n, sizeof(text) - (size_t)n, ".%0*lld", x->scale, (long long)part);
        while (part != 0 && text[n - 1] == '0')
            text[--n] = '\0';
        hth_schema_push_text(x->w, text);
        hth_schema_end(x->w, rule, base);
    }
}

/* ---- top level --------------------------------------------------------------------------------------------------- */

static void add_number(number *x, uint32_t rule)
{
    size_t base = x->w->tables.n_stack, n_rules;
    uint32_t *rules;
    bool is_plain, is_exact;

    /* A step of 1000 is a step of 1 with three trailing zeros. */
    while (x->step > STEPS_MAX && x->step % 10 == 0 && x->scale <= 0 && !x->low.is_there && !x->high.is_there &&
           !x->is_fraction) {
        x->step /= 10;
        x->n_zeros++;
    }
    if (x->step > STEPS_MAX) {
        list_multiples(x, rule);
        return;
    }
    if (x->n_zeros > 0) {
        hth_schema_push_text(x->w, "0");
        hth_schema_end(x->w, rule, base);
    }
    /* Readers round long numbers. The result must not be on an open bound, between multiples, or wrongly whole. */
    is_exact = x->is_fraction || (!x->is_whole && (x->low.is_open || x->high.is_open));
    x->whole_max = x->scale >= 0 ? EXACT_DIGITS - x->scale : is_exact ? EXACT_WHOLE : DIGITS;
    x->whole_max = x->whole_max < 1 ? 1 : x->whole_max;
    x->fraction_max = x->scale >= 0 ? x->scale : is_exact ? EXACT_DIGITS - EXACT_WHOLE : DIGITS;
    if (x->scale < 0 && x->low.is_there && x->low.at.n_fraction + 2 > x->fraction_max)
        x->fraction_max = x->low.at.n_fraction + 2;
    if (x->scale < 0 && x->high.is_there && x->high.at.n_fraction + 2 > x->fraction_max)
        x->fraction_max = x->high.at.n_fraction + 2;
    if (x->is_whole)
        x->fraction_max = 0;
    n_rules = (WHOLE_MAX + 8 + 2 * (FRACTION_MAX + 8)) * x->step;
    /* Without a step, all numbers share the rules of free digits. */
    is_plain = x->step == 1 && !x->is_fraction && x->n_zeros == 0 && x->fraction_max == (x->is_whole ? 0 : DIGITS);
    rules = is_plain ? x->w->digit_rules[x->is_whole] : NULL;
    if (!rules && hth_schema_spend(x->w, x->path, n_rules / 16)) {
        rules = malloc(n_rules * sizeof(rules[0]));
        if (rules)
            memset(rules, 0xFF, n_rules * sizeof(rules[0]));
        else
            hth_schema_fail_memory(x->w);
    }
    if (!rules)
        return;
    x->whole_rules = rules;
    x->fraction_rules = rules + (WHOLE_MAX + 8) * x->step;
    add_sides(x, rule);
    if (is_plain)
        x->w->digit_rules[x->is_whole] = rules;
    else
        free(rules);
}

void hth_schema_number(hth_schema_work *w, const hth_schema_items *items, uint32_t types, uint32_t rule)
{
    number *x = calloc(1, sizeof(*x));
    size_t base = w->tables.n_stack;

    if (!x) {
        hth_schema_fail_memory(w);
        return;
    }
    x->w = w;
    x->is_whole = types == HTH_TYPE_INTEGER;
    x->is_fraction = types == HTH_TYPE_FRACTION;
    x->step = 1;
    x->scale = -1;
    x->path = items->n > 0 ? items->at[0].path : 0;
    for (size_t i = 0; i < items->n; i++)
        take_keywords(x, &items->at[i]);
    if (!hth_schema_failed(w) && !x->low.is_there && !x->high.is_there && x->scale < 0 && !x->is_fraction) {
        hth_schema_push_shared(w, x->is_whole ? HTH_SHARED_INTEGER : HTH_SHARED_NUMBER);
        hth_schema_end(w, rule, base);
    } else if (!hth_schema_failed(w)) {
        add_number(x, rule);
    }
    free(x);
}
