/*
 * filters.c - arithmetic of the filters
 *
 * Sums are made in double and relative to the highest logit, so that no exponential overflows and no order of
 * candidates matters. Sorting is by heap: in place, and without the memory that qsort may take.
 */
#include "sampling/filters.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* Does a come after b in the list? The heap has the last candidate at the top. */
static bool is_behind(const hth_candidate *a, const hth_candidate *b)
{
    return a->probability != b->probability ? a->probability < b->probability : a->token > b->token;
}

static void swap(hth_candidate *a, hth_candidate *b)
{
    hth_candidate c = *a;

    *a = *b;
    *b = c;
}

/* heap[at] may be too likely for its position: move it down. */
static void sink(hth_candidate *heap, size_t n, size_t at)
{
    for (;;) {
        size_t last = at;

        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++)
            if (is_behind(&heap[child], &heap[last]))
                last = child;
        if (last == at)
            return;
        swap(&heap[at], &heap[last]);
        at = last;
    }
}

static void make_heap(hth_candidate *heap, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sink(heap, n, i);
}

/* Turn the heap into a list, likeliest first. */
static void sort_heap(hth_candidate *heap, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        swap(&heap[0], &heap[i]);
        sink(heap, i, 0);
    }
}

size_t hth_filter_likeliest(const float *logits, size_t n, hth_candidate *out, size_t k)
{
    size_t n_out = 0;
    size_t i = 0;
    float least;

    if (k == 0)
        return 0;
    for (; i < n && n_out < k; i++)
        if (fabsf(logits[i]) <= FLT_MAX)
            out[n_out++] = (hth_candidate){ .token = (hearth_token)i, .probability = logits[i] };
    make_heap(out, n_out);
    least = n_out > 0 ? out[0].probability : 0;
    for (; i < n; i++)
        /* Of equal logits, the one already in the list has the lower id. False for NaN. */
        if (logits[i] > least && logits[i] <= FLT_MAX) {
            out[0] = (hth_candidate){ .token = (hearth_token)i, .probability = logits[i] };
            sink(out, n_out, 0);
            least = out[0].probability;
        }
    sort_heap(out, n_out);
    return n_out;
}

void hth_filter_sort(hth_candidate *candidates, size_t n)
{
    make_heap(candidates, n);
    sort_heap(candidates, n);
}

size_t hth_filter_from(const float *logits, size_t n, float floor, hth_candidate *out)
{
    size_t n_out = 0;

    for (size_t i = 0; i < n; i++)
        if (logits[i] >= floor && fabsf(logits[i]) <= FLT_MAX)
            out[n_out++] = (hth_candidate){ .token = (hearth_token)i, .probability = logits[i] };
    hth_filter_sort(out, n_out);
    return n_out;
}

double hth_filter_total(const float *logits, size_t n, float floor, float highest)
{
    double total = 0;

    for (size_t i = 0; i < n; i++)
        if (logits[i] >= floor && fabsf(logits[i]) <= FLT_MAX &&
            logits[i] > (double)highest - 60) /* smaller terms do not change a double */
            total += exp((double)logits[i] - highest);
    return total;
}

double hth_filter_total_of(const hth_candidate *candidates, size_t n)
{
    double total = 0;

    for (size_t i = 0; i < n; i++)
        total += exp((double)candidates[i].probability - candidates[0].probability);
    return total;
}

/* The logarithm of the probability of candidate i; total as in hth_filter_top_p. */
static double log_of(const hth_candidate *candidates, size_t i, double log_total)
{
    return candidates[i].probability - (double)candidates[0].probability - log_total;
}

size_t hth_filter_typical_p(hth_candidate *candidates, size_t n, float p, size_t *first_out)
{
    double log_total = log(hth_filter_total_of(candidates, n));
    double entropy = 0, sum = 0;
    size_t begin, end = 0, first, n_equal = 0;

    for (size_t i = 0; i < n; i++)
        entropy -= exp(log_of(candidates, i, log_total)) * log_of(candidates, i, log_total);
    while (end < n && -log_of(candidates, end, log_total) < entropy)
        end++;
    begin = end;
    /* Surprisal rises along the list, so those that are kept are neighbours: [begin, end). */
    while ((begin > 0 || end < n) && (begin == end || sum <= p)) {
        bool takes_likelier = end == n || (begin > 0 && entropy + log_of(candidates, begin - 1, log_total) <=
                                                            -log_of(candidates, end, log_total) - entropy);

        sum += exp(log_of(candidates, takes_likelier ? --begin : end++, log_total));
    }
    /* Of equal candidates, those with the lowest ids are kept. */
    first = begin;
    while (first > 0 && candidates[first - 1].probability == candidates[begin].probability)
        first--;
    while (begin + n_equal < end && candidates[begin + n_equal].probability == candidates[begin].probability)
        n_equal++;
    memmove(&candidates[begin], &candidates[first], n_equal * sizeof(*candidates));
    *first_out = begin;
    return end - begin;
}

size_t hth_filter_top_p(const hth_candidate *candidates, size_t n, float p, double total)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += exp((double)candidates[i].probability - candidates[0].probability) / total;
        if (sum >= p)
            return i + 1;
    }
    return n + 1;
}

size_t hth_filter_xtc(const hth_candidate *candidates, size_t n, float threshold)
{
    double total = hth_filter_total_of(candidates, n);
    size_t n_top = 0;

    while (n_top < n && exp((double)candidates[n_top].probability - candidates[0].probability) / total >= threshold)
        n_top++;
    return n_top > 1 ? n_top - 1 : 0;
}

float hth_filter_sigma_floor(const float *logits, size_t n_logits, float floor, float n)
{
    double sum = 0, squares = 0, mean;
    float highest = -FLT_MAX;
    size_t n_finite = 0;

    for (size_t i = 0; i < n_logits; i++)
        if (logits[i] >= floor && fabsf(logits[i]) <= FLT_MAX) {
            sum += logits[i];
            highest = logits[i] > highest ? logits[i] : highest;
            n_finite++;
        }
    if (n_finite == 0)
        return floor;
    mean = sum / (double)n_finite;
    for (size_t i = 0; i < n_logits; i++)
        if (logits[i] >= floor && fabsf(logits[i]) <= FLT_MAX)
            squares += (logits[i] - mean) * (logits[i] - mean);
    return (float)fmax(floor, highest - n * sqrt(squares / (double)n_finite));
}

double hth_filter_entropy(const float *logits, size_t n, float floor, float highest, size_t *n_out)
{
    double total = 0, weighted = 0;
    size_t n_finite = 0;

    for (size_t i = 0; i < n; i++)
        if (logits[i] >= floor && fabsf(logits[i]) <= FLT_MAX) {
            double log_weight = (double)logits[i] - highest;

            total += exp(log_weight);
            weighted += exp(log_weight) * log_weight;
            n_finite++;
        }
    *n_out = n_finite;
    return n_finite > 1 ? log(total) - weighted / total : 0;
}

size_t hth_filter_mirostat(const hth_candidate *candidates, size_t n, uint32_t n_vocab, float mu)
{
    enum { HEAD = 100 };
    double sum_tb = 0, sum_tt = 0, s, epsilon, share, k;

    if (n < 2)
        return n;
    for (size_t i = 0; i + 1 < HEAD && i + 1 < n; i++) {
        double t = log((double)(i + 2) / (double)(i + 1));

        sum_tb += t * ((double)candidates[i].probability - candidates[i + 1].probability);
        sum_tt += t * t;
    }
    s = sum_tb / sum_tt;
    epsilon = s - 1;
    share = fabs(epsilon) < 1e-9 ? 1 / log(n_vocab) : epsilon / (1 - pow(n_vocab, -epsilon));
    k = pow(share * exp2((double)mu), 1 / s);
    return k >= (double)n || isnan(k) ? n : k < 1 ? 1 : (size_t)k; /* equal logits: s is 0 */
}

size_t hth_filter_soften(hth_candidate *candidates, size_t n, float temperature)
{
    double highest = candidates[0].probability;
    double total = 0;
    size_t n_kept = 0;

    for (size_t i = 0; i < n; i++)
        total += exp((candidates[i].probability - highest) / temperature);
    for (; n_kept < n; n_kept++) {
        candidates[n_kept].probability = (float)(exp((candidates[n_kept].probability - highest) / temperature) / total);
        if (candidates[n_kept].probability <= 0 && n_kept > 0) /* the rest is even less likely */
            break;
    }
    return n_kept;
}

hearth_token hth_draw_token(const hth_candidate *candidates, size_t n, uint64_t seed, uint64_t position)
{
    double at = hth_draw_uniform(seed, position);
    double sum = 0;

    assert(n > 0);
    for (size_t i = 0; i + 1 < n; i++) {
        sum += candidates[i].probability;
        if (at < sum)
            return candidates[i].token;
    }
    return candidates[n - 1].token; /* also if rounding leaves the sum slightly below 1 */
}
