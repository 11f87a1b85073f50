/*
 * patience.c - see patience.h
 */
#include "supervisor/patience.h"

#include "base/smaller.h"

enum { HELPS = 8 }; /* a mapped file counts for its model, but the system could have freed it before */

void hth_patience_judge(hth_patience *patience, uint64_t wanted_bytes, uint64_t coming_bytes)
{
    const uint64_t longest_ns = patience->first_ns << HTH_PATIENCE_DOUBLINGS;

    if (wanted_bytes == 0) {
        *patience = (hth_patience){ .first_ns = patience->first_ns };
        return;
    }
    if (patience->leaving_bytes == 0 || coming_bytes > 0)
        return;
    if (wanted_bytes < patience->wanted_bytes &&
        patience->wanted_bytes - wanted_bytes >= patience->leaving_bytes / HELPS)
        patience->wait_ns = 0;
    else
        patience->wait_ns =
            patience->wait_ns == 0 ? patience->first_ns : hth_smaller(2 * patience->wait_ns, longest_ns);
    patience->leaving_bytes = 0;
}

void hth_patience_note(hth_patience *patience, uint64_t wanted_bytes, uint64_t leaving_bytes)
{
    if (patience->leaving_bytes == 0)
        patience->wanted_bytes = wanted_bytes;
    patience->leaving_bytes += leaving_bytes;
}

bool hth_patience_keeps(const hth_patience *patience, uint64_t used_ns, uint64_t now_ns)
{
    return now_ns < used_ns || now_ns - used_ns < patience->wait_ns;
}
