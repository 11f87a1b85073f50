/*
 * pull_judge.h - is it still worth waiting for rows of another node?
 *
 * A request waits for the rows instead of computing them, so the judge compares with the time of computing. What came
 * is kept in any case, so giving up costs only what was waited for, less what came. The parts of the computing time
 * below bound that: a slow link costs a twentieth before it is noticed, a silent one a tenth, a fifth at most.
 *
 * Where a prefix needs a recurrent state, which is of use only with all blocks before it, giving up in the middle saves
 * nothing. Then a fetch may take a fifth of the computing time, whatever its link does.
 */
#ifndef HTH_CARRIER_PULL_JUDGE_H
#define HTH_CARRIER_PULL_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#define HTH_PULL_MS UINT64_C(1000000)
#define HTH_PULL_LIMIT_NS (60000 * HTH_PULL_MS)  /* of a fetch, if nothing is known of computing */
#define HTH_PULL_TOKEN_NS (2 * HTH_PULL_MS)      /* a guess of computing, before a worker has measured it */
#define HTH_PULL_SILENCE_NS (2000 * HTH_PULL_MS) /* the longest wait for a byte */
#define HTH_PULL_PATIENCE_NS (50 * HTH_PULL_MS)  /* and the shortest one, for a network's hiccups */
#define HTH_PULL_FORGET_NS (30000 * HTH_PULL_MS) /* then the rate of a node is measured anew */

typedef struct hth_pull {
    uint64_t compute_ns;  /* in which the rows would be computed; 0: unknown */
    uint64_t bytes_total; /* of the manifest */
    uint64_t bytes_got;
    uint64_t passed_ns; /* since the fetch began */
    uint64_t data_ns;   /* since the manifest came; 0: it did not yet */
    uint64_t silent_ns; /* since the last byte */
    bool needs_all;     /* a part of the rows is of no use */
} hth_pull;

/* The time in which a worker computes n_tokens: as it measured it, or a guess if that is 0. */
static inline uint64_t hth_pull_compute_ns(uint64_t measured_ns, uint32_t n_tokens)
{
    return measured_ns ? measured_ns : n_tokens * HTH_PULL_TOKEN_NS;
}

/* The longest time that a fetch may take. */
static inline uint64_t hth_pull_limit_ns(uint64_t compute_ns, bool needs_all)
{
    if (!compute_ns)
        return HTH_PULL_LIMIT_NS;
    return needs_all ? compute_ns / 5 : compute_ns / 10 * 9;
}

/* The longest time without a byte. */
static inline uint64_t hth_pull_silence_ns(uint64_t compute_ns)
{
    uint64_t ns = compute_ns / 10;

    if (!compute_ns || ns > HTH_PULL_SILENCE_NS)
        return HTH_PULL_SILENCE_NS;
    if (ns < HTH_PULL_PATIENCE_NS)
        ns = HTH_PULL_PATIENCE_NS;
    return ns < compute_ns / 5 ? ns : compute_ns / 5;
}

/*
 * The manifest is there: are its bytes worth waiting for? rate: of the node, in bytes a second; 0: unknown. age_ns: how
 * long ago that was measured; an old rate does not count, or a link that was slow once would never be tried again.
 * Whether a part would be of use is not known yet.
 */
static inline bool hth_pull_is_worth_it(uint64_t compute_ns, uint64_t bytes_total, double rate, uint64_t age_ns)
{
    return !compute_ns || !(rate > 0) || age_ns >= HTH_PULL_FORGET_NS ||
           (double)bytes_total / rate * 1e9 <= (double)hth_pull_limit_ns(compute_ns, false);
}

/* Go on waiting? */
static inline bool hth_pull_goes_on(const hth_pull *pull)
{
    const uint64_t limit_ns = hth_pull_limit_ns(pull->compute_ns, pull->needs_all);

    if (pull->passed_ns > limit_ns || pull->silent_ns > hth_pull_silence_ns(pull->compute_ns))
        return false;
    if (!pull->compute_ns || pull->data_ns <= pull->compute_ns / 20 || pull->bytes_got >= pull->bytes_total)
        return true;
    /* The end, if the rest comes as fast as what came. Without a byte there is none. */
    return pull->bytes_got > 0 && (double)pull->passed_ns + (double)(pull->bytes_total - pull->bytes_got) *
                                                                (double)pull->data_ns / (double)pull->bytes_got <=
                                      (double)limit_ns;
}

/* What earlier fetches from a node tell. All zeros: nothing. */
typedef struct hth_pull_past {
    double rate;         /* in bytes a second; 0: unknown */
    uint64_t rated_ns;   /* when it was last measured */
    uint64_t gave_up_ns; /* when a fetch was last given up before it told a rate; 0: never */
    uint64_t gave_up_of; /* the time in which that one would have been computed */
} hth_pull_past;

/*
 * A fetch has ended now: so many bytes came in ns, whole rows or not. A rate that was known counts for a half, unless
 * it is old. gave_up: the judge ended it. compute_ns: as it had it.
 */
static inline void hth_pull_note(hth_pull_past *past, uint64_t bytes, uint64_t ns, bool gave_up, uint64_t compute_ns,
                                 uint64_t now_ns)
{
    enum { BYTES_MIN = 256 << 10 }; /* fewer say nothing of a link */
    const double measured = ns ? (double)bytes * 1e9 / (double)ns : 0;

    if (bytes >= BYTES_MIN && ns) {
        past->rate =
            past->rate > 0 && now_ns - past->rated_ns < HTH_PULL_FORGET_NS ? (past->rate + measured) / 2 : measured;
        past->rated_ns = now_ns;
    } else if (gave_up) {
        past->gave_up_ns = now_ns;
        past->gave_up_of = compute_ns ? compute_ns : UINT64_MAX;
    }
}

/*
 * May a fetch be tried? A node that was silent, or too slow to be measured, is left alone for a while, but not if the
 * fetch has more than twice the time: what was too late for a short prompt may be early for a long one.
 */
static inline bool hth_pull_may_begin(const hth_pull_past *past, uint64_t compute_ns, uint64_t now_ns)
{
    return past->gave_up_ns == 0 || now_ns - past->gave_up_ns >= HTH_PULL_FORGET_NS ||
           (compute_ns ? compute_ns : UINT64_MAX) / 2 > past->gave_up_of;
}

#endif
