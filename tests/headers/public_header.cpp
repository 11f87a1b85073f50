/* public_header.cpp - hearth.h needs nothing before it, as C++17 */
#include <hearth.h>

int main()
{
    hearth_runtime_options runtime = hearth_runtime_options_default();
    hearth_model_options model = hearth_model_options_default();
    hearth_request request = hearth_request_default();

    return !(runtime.struct_size == sizeof(runtime) && model.struct_size == sizeof(model) &&
             request.struct_size == sizeof(request) && hearth_version()[0] != '\0');
}
