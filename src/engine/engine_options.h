/*
 * engine_options.h - read and check hearth_engine_options and the texts in them, and addresses of RPC servers
 *
 * The functions know neither the model nor the devices: hth_backend.model_load checks the rest. Any thread may call
 * them.
 */
#ifndef HTH_ENGINE_ENGINE_OPTIONS_H
#define HTH_ENGINE_ENGINE_OPTIONS_H

#include "hearth.h"

#ifdef __cplusplus
extern "C" { /* our own headers are C and have no extern "C" themselves */
#endif

#include "base/status.h"
#include "engine/backend.h"

/*
 * Read the caller's options into ours; NULL: the defaults. The message of HEARTH_MISUSE names the option or text that
 * is wrong, and the remedy. The caller keeps owning the strings.
 */
hearth_status hth_engine_options_read(const hearth_engine_options *given, hearth_engine_options *out,
                                      hearth_error *err);
/*
 * The options of a draft model. It does not use its target's RPC servers, so device numbers would mean different
 * devices.
 */
hearth_engine_options hth_engine_options_of_draft(const hearth_engine_options *target, bool target_has_servers);

/* Does an option change the RoPE angles of positions? */
bool hth_engine_options_turn(const hearth_engine_options *options);

/* Read "3,1" into *n_out shares, which are finite and not negative, with a sum above 0. HEARTH_MISUSE. */
hearth_status hth_tensor_split_read(const char *text, float out[HTH_DEVICES_MAX], size_t *n_out, hearth_error *err);

/* "PATTERN=BUFFER" */
typedef struct hth_tensor_override {
    char pattern[512];
    char buffer[64];
} hth_tensor_override;

typedef enum hth_metadata_type {
    HTH_METADATA_INT,
    HTH_METADATA_FLOAT,
    HTH_METADATA_BOOL,
    HTH_METADATA_STR
} hth_metadata_type;

/* "KEY=TYPE:VALUE" */
typedef struct hth_metadata_override {
    char key[128];
    hth_metadata_type type;
    int64_t integer;
    double number;
    bool flag;
    char text[128];
} hth_metadata_override;

/*
 * Read the item at *at, up to a comma or the end, and move *at past it. The list ends where **at is 0. The message of
 * HEARTH_MISUSE shows the item and the right form.
 */
hearth_status hth_tensor_override_read(const char **at, hth_tensor_override *out, hearth_error *err);
hearth_status hth_metadata_override_read(const char **at, hth_metadata_override *out, hearth_error *err);

/* ---- addresses of RPC servers ---- */

enum { HTH_RPC_SERVERS_MAX = 16, HTH_RPC_ADDRESS_BYTES = 300 };

/* The addresses in "host:port,host:port", in order. */
typedef struct hth_rpc_addresses {
    char texts[HTH_RPC_SERVERS_MAX][HTH_RPC_ADDRESS_BYTES]; /* "host:port" */
    uint16_t ports[HTH_RPC_SERVERS_MAX];
    unsigned n;
} hth_rpc_addresses;

/*
 * HEARTH_MISUSE for a text that is not an address, an address given twice, or too many addresses; the message names the
 * first such text.
 */
hearth_status hth_rpc_addresses_read(const char *text, hth_rpc_addresses *out, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
