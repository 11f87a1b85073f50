#include "support/devices.h"

#include <stdlib.h>

const char *hth_test_rpc_servers(void)
{
    const char *servers = getenv("HTH_TEST_RPC");

    return servers && *servers ? servers : NULL;
}

bool hth_test_has_devices(void)
{
    const char *gpu = getenv("HTH_TEST_GPU");

    return hth_test_rpc_servers() || (gpu && *gpu == '1');
}

int32_t hth_test_gpu_layers(void)
{
    return hth_test_has_devices() ? -1 : 0;
}
