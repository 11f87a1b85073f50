/*
 * llama_guard.h - shared by the C++ files of this folder: exceptions become statuses, and heads of GGUF files
 */
#ifndef HTH_LLAMA_LLAMA_GUARD_H
#define HTH_LLAMA_LLAMA_GUARD_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include <ggml-cpp.h>

extern "C" {
#include "base/status.h"
}

/* An error in a conversation or its template. */
struct hth_refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* Run call. An exception becomes a status: HEARTH_MISUSE if it is hth_refused. */
template <typename Call> hearth_status hth_guarded(hearth_error *err, const char *what, Call call) noexcept
{
    try {
        return call();
    } catch (const hth_refused &e) {
        return hth_fail(err, HEARTH_MISUSE, "%s", e.what());
    } catch (const std::bad_alloc &) {
        return hth_fail(err, HEARTH_NO_MEMORY, "not enough memory to %s", what);
    } catch (const std::exception &e) {
        return hth_fail(err, HEARTH_ENGINE, "the engine could not %s: %s", what, e.what());
    } catch (...) {
        return hth_fail(err, HEARTH_ENGINE, "the engine could not %s", what);
    }
}

/* The engine's own limit (LLAMA_MAX_LAYERS in v0.5.0). */
constexpr uint32_t hth_layers_max = 512;

/* "llama.attention.layer_norm_rms_epsilon" ends with "epsilon". */
inline bool hth_ends_with(const std::string &text, const char *end)
{
    const size_t n = std::strlen(end);

    return text.size() >= n && text.compare(text.size() - n, n, end) == 0;
}

/* The metadata of a file, and the names, types and shapes of its tensors. Both are null if it cannot be read. */
struct hth_gguf_head {
    explicit hth_gguf_head(const char *path)
    {
        ggml_context *read = nullptr;

        file.reset(gguf_init_from_file(path, { /* no_alloc = */ true, /* ctx = */ &read }));
        tensors.reset(read);
    }

    gguf_context_ptr file;
    ggml_context_ptr tensors;
};

/* The text of a key; "": missing, or not a text. */
inline const char *hth_gguf_text(const gguf_context *file, const char *key)
{
    const int64_t id = gguf_find_key(file, key);

    return id < 0 || gguf_get_kv_type(file, id) != GGUF_TYPE_STRING ? "" : gguf_get_val_str(file, id);
}

/* An unsigned value, whatever its width; 0 when it is missing or something else. */
inline uint32_t hth_gguf_u32(const gguf_context *file, const char *key)
{
    const int64_t id = gguf_find_key(file, key);

    switch (id < 0 ? GGUF_TYPE_COUNT : gguf_get_kv_type(file, id)) {
    case GGUF_TYPE_UINT8: return gguf_get_val_u8(file, id);
    case GGUF_TYPE_UINT16: return gguf_get_val_u16(file, id);
    case GGUF_TYPE_UINT32: return gguf_get_val_u32(file, id);
    case GGUF_TYPE_INT32: return (uint32_t)std::max(gguf_get_val_i32(file, id), 0);
    default: return 0;
    }
}

#endif
