/*
 * llama_devices.cpp - the devices that llama.cpp can compute on
 *
 * A model always gets its devices by name. Otherwise the engine would take all devices that it knows: after one model
 * with RPC servers, also these servers for every later model of the process. For this machine's devices, the engine's
 * own choice (llama_prepare_model_devices in src/llama.cpp of v0.5.0) is reproduced: each GPU once, however many
 * backends see it, and integrated GPUs only if there are no others.
 *
 * The device of an RPC server cannot be queried, so the server's address represents it in ctx_params_hash. A server has
 * one client at a time, and the engine has one connection to it for all models of a process. So only the first of these
 * models checks that the server answers, and the models of each server are counted.
 */
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include <ggml-rpc.h>

#include "engine/module_lock.h"
#include "llama/llama_guard.h"
#include "llama/llama_shim.h"

namespace
{

const char *backend_name(ggml_backend_dev_t device)
{
    return ggml_backend_reg_name(ggml_backend_dev_backend_reg(device));
}

/* "A device, 2 GB" becomes "Adevice_2GB": one word of a text whose words are separated by spaces. */
std::string as_word(const char *text)
{
    std::string word;

    for (; *text; text++) {
        if (*text == ',' || *text == '=')
            word += '_';
        else if ((unsigned char)*text > ' ')
            word += *text;
    }
    return word;
}

hearth_status add(hth_llama_devices *out, ggml_backend_dev_t device, hearth_error *err)
{
    std::string word =
        std::string(out->n > 0 ? "," : "") + backend_name(device) + ":" + as_word(ggml_backend_dev_description(device));
    size_t n = std::strlen(out->word);

    if (out->n == HTH_DEVICES_MAX || n + word.size() >= sizeof(out->word))
        return hth_fail(err, HEARTH_MISUSE, "a model can use at most %d devices, with names of %zu bytes in all",
                        HTH_DEVICES_MAX, sizeof(out->word) - 1);
    std::memcpy(out->word + n, word.c_str(), word.size() + 1);
    out->all[out->n++] = device;
    out->all[out->n] = nullptr;
    return HEARTH_OK;
}

/* The models of this process, by server. Process-wide, like the engine's connections. */
struct {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* also held while a server is checked */
    std::map<std::string, size_t> n_models;
} servers_in_use;

/* Count one more model using a server. */
hearth_status take_server(const char *address, hearth_error *err)
{
    hth_module_guard hold(&servers_in_use.lock);
    size_t &n = servers_in_use.n_models[address];
    hearth_status status = n > 0 ? HEARTH_OK : hth_rpc_server_check(address, err);

    if (status == HEARTH_OK)
        n++;
    return status;
}

hearth_status add_server(hth_llama_devices *out, const char *address, hearth_error *err)
{
    ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
    auto add_rpc_server = rpc ? reinterpret_cast<decltype(&ggml_backend_rpc_add_server)>(
                                    ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server"))
                              : nullptr;
    ggml_backend_reg_t server;
    hearth_status status;

    if (!add_rpc_server)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "this engine was built without RPC (HEARTH_RPC=0), so it cannot use the server '%s'", address);
    status = take_server(address, err);
    if (status != HEARTH_OK)
        return status;
    out->n_servers++;
    server = add_rpc_server(address);
    if (!server)
        return hth_fail(err, HEARTH_ENGINE, "the RPC server '%s' has no devices", address);
    for (size_t i = 0; i < ggml_backend_reg_dev_count(server) && status == HEARTH_OK; i++)
        status = add(out, ggml_backend_reg_dev_get(server, i), err);
    return status;
}

/* Does a device of another backend in the list represent the same hardware? */
bool is_added(const hth_llama_devices *out, ggml_backend_dev_t device)
{
    ggml_backend_dev_props props, other;

    ggml_backend_dev_get_props(device, &props);
    for (size_t i = 0; i < out->n; i++) {
        if (std::strcmp(backend_name(out->all[i]), "RPC") ==
            0) /* another machine's; querying it would take a round trip */
            continue;
        ggml_backend_dev_get_props(out->all[i], &other);
        if (props.device_id && other.device_id && std::strcmp(props.device_id, other.device_id) == 0)
            return true;
    }
    return false;
}

hearth_status add_own(hth_llama_devices *out, hearth_error *err)
{
    static const enum ggml_backend_dev_type types[] = { GGML_BACKEND_DEVICE_TYPE_GPU, GGML_BACKEND_DEVICE_TYPE_IGPU };
    size_t n_before = out->n;

    for (enum ggml_backend_dev_type type : types) {
        ggml_backend_reg_t first = nullptr; /* integrated GPUs are taken from one backend only */

        for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
            ggml_backend_dev_t device = ggml_backend_dev_get(i);
            ggml_backend_reg_t backend = ggml_backend_dev_backend_reg(device);
            hearth_status status;

            if (ggml_backend_dev_type(device) != type || is_added(out, device) ||
                (type == GGML_BACKEND_DEVICE_TYPE_IGPU && first && backend != first))
                continue;
            first = backend;
            status = add(out, device, err);
            if (status != HEARTH_OK)
                return status;
        }
        if (out->n > n_before)
            break;
    }
    return HEARTH_OK;
}

/* The devices of this machine that can be named. */
std::string own_names()
{
    std::string names;

    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);

        if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU)
            names += (names.empty() ? "" : ", ") + std::string(ggml_backend_dev_name(device));
    }
    return names.empty() ? "none" : names;
}

hearth_status add_named(hth_llama_devices *out, const char *names, hearth_error *err)
{
    if (std::strcmp(names, "none") == 0)
        return HEARTH_OK;
    for (const char *at = names;; at++) {
        std::string name(at, std::strcspn(at, ","));
        ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str());
        hearth_status status;

        if (!device || ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU)
            return hth_fail(err, HEARTH_MISUSE, "'%s' is no device for a model's layers; this machine has %s",
                            name.c_str(), own_names().c_str());
        for (size_t i = 0; i < out->n; i++)
            if (out->all[i] == device)
                return hth_fail(err, HEARTH_MISUSE, "the device '%s' is named twice", name.c_str());
        status = add(out, device, err);
        at += name.size();
        if (status != HEARTH_OK || !*at)
            return status;
    }
}

void describe(ggml_backend_dev_t device, hth_engine_device *out)
{
    size_t free_bytes = 0, total_bytes = 0;

    ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
    (void)std::snprintf(out->name, sizeof(out->name), "%s", ggml_backend_dev_name(device)); /* all may be truncated */
    (void)std::snprintf(out->description, sizeof(out->description), "%s", ggml_backend_dev_description(device));
    out->memory_bytes = total_bytes;
}

} /* namespace */

extern "C" {

hearth_status hth_llama_devices_pick(const char *rpc_servers, const char *names, hth_llama_devices *out,
                                     hearth_error *err)
{
    return hth_guarded(err, "find its devices", [&] {
        hearth_status status = HEARTH_OK;

        *out = {};
        if (rpc_servers)
            status = hth_rpc_addresses_read(rpc_servers, &out->servers, err);
        for (unsigned i = 0; i < out->servers.n && status == HEARTH_OK; i++)
            status = add_server(out, out->servers.texts[i], err);
        if (status != HEARTH_OK)
            return status;
        return names ? add_named(out, names, err) : add_own(out, err);
    });
}

hearth_status hth_llama_devices_keep(hth_llama_devices *devices, uint32_t index, hearth_error *err)
{
    return hth_guarded(err, "choose a device", [&] {
        ggml_backend_dev_t device;

        if (index >= devices->n)
            return hth_fail(err, HEARTH_MISUSE, "main_gpu is %u; the model has %zu devices, counted from 0", index,
                            devices->n);
        device = devices->all[index];
        devices->n = 0;
        devices->word[0] = '\0';
        return add(devices, device, err);
    });
}

bool hth_llama_devices_split_rows(const hth_llama_devices *devices)
{
    for (size_t i = 0; i < devices->n; i++) /* the engine also looks this up, and fails without it */
        if (!ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(devices->all[i]),
                                               "ggml_backend_split_buffer_type"))
            return false;
    return true;
}

void hth_llama_devices_release(hth_llama_devices *devices)
{
    (void)hth_guarded(nullptr, "give its devices back", [&] {
        hth_module_guard hold(&servers_in_use.lock);

        for (; devices->n_servers > 0; devices->n_servers--) { /* after a failure, a server stays counted */
            auto found = servers_in_use.n_models.find(devices->servers.texts[devices->n_servers - 1]);

            if (found != servers_in_use.n_models.end() && found->second > 0)
                found->second--;
        }
        return HEARTH_OK;
    });
}

void hth_llama_devices_memory(const hth_llama_devices *devices, uint64_t *free_bytes_out, uint64_t *total_bytes_out)
{
    *free_bytes_out = 0;
    *total_bytes_out = 0;
    (void)hth_guarded(nullptr, "ask its devices for memory",
                      [&] { /* unknown memory counts as 0 */
                            for (size_t i = 0; i < devices->n; i++) {
                                size_t free_bytes = 0, total_bytes = 0;

                                ggml_backend_dev_memory(devices->all[i], &free_bytes, &total_bytes);
                                *free_bytes_out += free_bytes;
                                *total_bytes_out += total_bytes;
                            }
                            return HEARTH_OK;
                      });
}

hearth_status hth_llama_devices_list(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err)
{
    return hth_guarded(err, "name its devices", [&] {
        size_t n = 0;

        for (size_t i = 0; i < ggml_backend_reg_count(); i++) {
            ggml_backend_reg_t backend = ggml_backend_reg_get(i);
            size_t n_devices = ggml_backend_reg_dev_count(backend);

            for (size_t k = 0; k < (n_devices ? n_devices : 1); k++, n++) {
                if (n >= capacity)
                    continue;
                out[n] = {};
                (void)std::snprintf(out[n].backend, sizeof(out[n].backend), "%s", ggml_backend_reg_name(backend));
                if (n_devices > 0)
                    describe(ggml_backend_reg_dev_get(backend, k), &out[n]);
            }
        }
        *n_out = n < capacity ? n : capacity;
        return HEARTH_OK;
    });
}

} /* extern "C" */
