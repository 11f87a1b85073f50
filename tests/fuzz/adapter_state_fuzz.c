/*
 * adapter_state_fuzz.c - the adapters of a model as front and worker exchange them, and the scales that clients set
 *
 * What must hold: a refused text has an error; an accepted state is the same when it is written and read again.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/adapter_state.h"

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
    error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (hth_adapter_scales_read((const char *)bytes, n_bytes, scales, &n, &error))
        require(n <= HTH_ADAPTERS_MAX);
    else
        require(error.message[0] != '\0');
    return 0;
}
