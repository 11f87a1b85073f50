#include "front/ask_counts.h"

#include "wire/exposition.h"

void hth_ask_counts_write_metrics(const uint64_t n[HTH_ASK_ENDS], hth_buffer *out)
{
    static const char name[] = "hearth_fleet_history_asks_total";
    static const char *const ends[HTH_ASK_ENDS] = { "well", "nothing", "broken" };

    hth_exposition_family(out, name, "counter", "Questions for the true tokens of prompts, by their end.");
    for (int end = 0; end < HTH_ASK_ENDS; end++)
        hth_exposition_count(out, name, (hth_labels){ &(hth_label){ "end", ends[end] }, 1 }, n[end]);
}
