/*
 * adapter_state_fuzz.c - the adapters of a model as front and worker exchange them, and the scales that clients set
 *
 * What must hold: a refused text has an error; an accepted state is the same when it is written and read again. A
 * worker's list may be anything: each adapter of the state is on the page once, in its place, or there is no page.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "front/admin.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_again(const hth_adapter_state *state)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer first = { .text = NULL }, second = { .text = NULL };
    static hth_adapter_state again;

    hth_adapter_state_write(state, &first);
    require(!first.failed);
    require(hth_adapter_state_read(first.text, first.n, &again, &error));
    hth_adapter_state_write(&again, &second);
    require(first.n == second.n && memcmp(first.text, second.text, first.n) == 0);
    for (size_t i = 0; i < state->n_loaded; i++)
        require(hth_adapter_state_find(&again, state->loaded[i].name) != NULL);
    hth_buffer_deinit(&first);
    hth_buffer_deinit(&second);
}

static void check_page(const uint8_t *bytes, size_t n_bytes)
{
    static hth_adapter_state state;
    json_t *list = json_loadb((const char *)bytes, n_bytes, 0, NULL), *page, *adapters;

    state = (hth_adapter_state){ .n_loaded = 2 };
    state.loaded[0] = (hth_live_adapter){ .id = 64, .name = "a", .file = "a.gguf" };
    state.loaded[1] = (hth_live_adapter){ .id = 65, .name = "b", .file = "more/b.gguf", .scale = 1 };
    hth_adapter_state_learn(&state, list);
    page = hth_adapter_page("model", NULL, &state, list);
    adapters = json_object_get(page, "adapters");
    for (size_t i = 0; page && i < 2; i++) {
        const json_t *one = json_array_get(adapters, json_array_size(adapters) - 2 + i);

        require(json_integer_value(json_object_get(one, "id")) == (json_int_t)state.loaded[i].id);
        require(json_is_boolean(json_object_get(one, "loaded")));
    }
    json_decref(page);
    json_decref(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hearth_adapter_scale scales[HTH_ADAPTERS_MAX];
    static hth_adapter_state state;
    size_t n = 0;

    if (hth_adapter_state_read((const char *)bytes, n_bytes, &state, &error))
        check_again(&state);
    else
        require(error.message[0] != '\0');
    check_page(bytes, n_bytes);
    error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (hth_adapter_scales_read((const char *)bytes, n_bytes, scales, &n, &error))
        require(n <= HTH_ADAPTERS_MAX);
    else
        require(error.message[0] != '\0');
    return 0;
}
