/*
 * devices_test.c - the replaced attention is the CPU's: it never meets memory of another device
 *
 * A model is evaluated with all of its layers on RPC servers, with some, and with none. Each entry into the replaced
 * attention is counted (the linker redirects hth_attention_read, the first that it calls), and every tensor that it
 * would touch must lie in memory of the host. The buffers of RPC servers do not: their addresses mean nothing in this
 * process.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend.h>
#include <ggml-rpc.h>
#include <llama.h>

#include "engine/engine_options.h"
#include "kernels/attention.h"
#include "kernels/attention_row.h"
#include "support/cmocka_all.h"
#include "support/devices.h"

enum { N_CTX = 512, N_PROMPT = 100, N_STEPS = 4, ALL = -1 };

static atomic_int n_entries;
static atomic_int n_foreign; /* tensors among them that are not in memory of the host */

bool __real_hth_attention_read(const struct ggml_tensor *operation, hth_attention *out);
bool __wrap_hth_attention_read(const struct ggml_tensor *operation, hth_attention *out);

static bool is_on_host(const struct ggml_tensor *tensor)
{
    const struct ggml_tensor *owner = tensor->view_src ? tensor->view_src : tensor;

    return !owner->buffer || ggml_backend_buffer_is_host(owner->buffer);
}

bool __wrap_hth_attention_read(const struct ggml_tensor *operation, hth_attention *out)
{
    atomic_fetch_add(&n_entries, 1);
    if (!is_on_host(operation))
        atomic_fetch_add(&n_foreign, 1);
    for (int i = 0; i < GGML_MAX_SRC; i++)
        if (operation->src[i] && !is_on_host(operation->src[i]))
            atomic_fetch_add(&n_foreign, 1);
    return __real_hth_attention_read(operation, out);
}

static void be_silent(enum ggml_log_level level, const char *text, void *user_data)
{
    (void)level;
    (void)text;
    (void)user_data;
}

static ggml_backend_dev_t devices[GGML_RPC_MAX_SERVERS + 1];

static int open_devices(void **state)
{
    hth_rpc_addresses servers = { .n = 0 };
    hearth_error err = { .message = "no RPC servers: run this with tests/helpers/with_rpc_servers" };

    (void)state;
    if (!hth_test_rpc_servers() || hth_rpc_addresses_read(hth_test_rpc_servers(), &servers, &err) != HEARTH_OK) {
        print_error("%s\n", err.message);
        return 1;
    }
    llama_log_set(be_silent, NULL);
    hth_attention_start();
    llama_backend_init();
    for (unsigned i = 0; i < servers.n; i++)
        devices[i] = ggml_backend_reg_dev_get(ggml_backend_rpc_add_server(servers.texts[i]), 0);
    return 0;
}

static void evaluate(struct llama_context *context, llama_token first, int32_t n)
{
    llama_token tokens[N_PROMPT];

    for (int32_t i = 0; i < n; i++)
        tokens[i] = first + i;
    assert_int_equal(llama_decode(context, llama_batch_get_one(tokens, n)), 0);
    llama_synchronize(context);
    assert_non_null(llama_get_logits(context));
}

/* Evaluate a prompt and some single tokens; n_entries and n_foreign are then of these. */
static void run(int32_t n_gpu_layers)
{
    struct llama_model_params model_params = llama_model_default_params();
    struct llama_context_params params = llama_context_default_params();
    struct llama_model *model;
    struct llama_context *context;

    model_params.devices = devices;
    model_params.n_gpu_layers = n_gpu_layers;
    model = llama_model_load_from_file(HTH_TEST_MODELS "/hearth-tiny.gguf", model_params);
    assert_non_null(model);
    params.n_ctx = N_CTX;
    params.n_threads = params.n_threads_batch = 2;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.kv_unified = true;
    context = llama_init_from_model(model, params);
    assert_non_null(context);
    atomic_store(&n_entries, 0);
    atomic_store(&n_foreign, 0);
    evaluate(context, 5, N_PROMPT);
    for (int32_t i = 0; i < N_STEPS; i++)
        evaluate(context, 200 + i, 1);
    llama_free(context);
    llama_model_free(model);
}

TEST(with_all_layers_on_servers_it_is_not_entered)
{
    run(ALL);
    assert_int_equal(atomic_load(&n_entries), 0);
}

TEST(with_some_layers_on_servers_it_sees_those_of_the_host)
{
    int n_of_all;

    run(0);
    n_of_all = atomic_load(&n_entries);
    assert_true(n_of_all > 0);
    assert_int_equal(atomic_load(&n_foreign), 0);
    run(2);
    assert_in_range(atomic_load(&n_entries), 1, n_of_all - 1);
    assert_int_equal(atomic_load(&n_foreign), 0);
}

GROUP(with_devices, open_devices, NULL)
