#include "base/json_bounds.h"

hth_json_bounds hth_json_measure(const char *text, size_t n_bytes)
{
    hth_json_bounds bounds = { .n_values = 1 };
    uint32_t n_members[HTH_JSON_LEVELS] = { 0 }; /* commas in the open object on each level */
    bool is_object[HTH_JSON_LEVELS] = { false };
    size_t depth = 0;
    bool in_string = false;

    for (size_t i = 0; i < n_bytes; i++) {
        char c = text[i];

        if (in_string) {
            if (c == '\\')
                i++; /* an escaped character does not end the string */
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            bounds.n_values++;
            if (depth < HTH_JSON_LEVELS) {
                n_members[depth] = 0;
                is_object[depth] = c == '{';
            }
            if (++depth > bounds.depth)
                bounds.depth = depth;
        } else if (c == ']' || c == '}') {
            depth -= depth > 0;
        } else if (c == ',') {
            bounds.n_values++;
            if (depth > 0 && depth <= HTH_JSON_LEVELS && is_object[depth - 1])
                bounds.n_pairs += ++n_members[depth - 1];
        }
    }
    return bounds;
}

bool hth_json_is_within(const char *text, size_t n_bytes, size_t depth_max, size_t n_values_max)
{
    hth_json_bounds bounds = hth_json_measure(text, n_bytes);

    return bounds.depth <= depth_max && bounds.n_values <= n_values_max;
}
