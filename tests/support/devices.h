/*
 * devices.h - where the models of a test are computed
 *
 * On the CPU, unless the environment says otherwise: HTH_TEST_RPC="host:port,..." for the devices of RPC servers,
 * HTH_TEST_GPU=1 for this machine's GPUs. So the same tests run on every back end.
 */
#ifndef HTH_TEST_SUPPORT_DEVICES_H
#define HTH_TEST_SUPPORT_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

/* Are there such devices? */
bool hth_test_has_devices(void);
/* For n_gpu_layers: all or none. */
int32_t hth_test_gpu_layers(void);
/* For rpc_servers: NULL where there are none. */
const char *hth_test_rpc_servers(void);

#endif
