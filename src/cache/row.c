/*
 * row.c - names of row kinds
 */
#include "cache/row.h"

const char *hth_row_kind_name(hth_row_kind kind)
{
    switch (kind) {
    case HTH_ROW_BLOCK: return "block";
    case HTH_ROW_TAIL: return "tail";
    case HTH_ROW_SNAPSHOT: return "snapshot";
    case HTH_ROW_STATE: return "state";
    case HTH_ROW_LOGITS: return "logits";
    case HTH_ROW_KINDS: break;
    }
    return "unknown";
}
