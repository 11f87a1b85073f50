/*
 * vulkan.hpp - the system's, with what llama.cpp v0.5.0 needs of newer ones
 *
 * VK_EXT_layer_settings came with version 1.3.272; Debian 12 has 1.3.239. It carries settings for layers that help
 * developers, and a loader that does not know the structure passes it by.
 */
#ifndef HTH_VULKAN_SOFTWARE_VULKAN_HPP
#define HTH_VULKAN_SOFTWARE_VULKAN_HPP

#include_next <vulkan/vulkan.hpp>

#ifndef VK_EXT_layer_settings

#include <cstdint>
#include <vector>

namespace vk
{

enum class LayerSettingTypeEXT { eBool32 = 0 };

struct LayerSettingEXT {
    const char *layer;
    const char *setting;
    LayerSettingTypeEXT type;
    uint32_t n_values;
    const void *values;
};

struct LayerSettingsCreateInfoEXT {
    VkStructureType type = static_cast<VkStructureType>(1000496000);
    const void *next = nullptr;
    uint32_t n_settings;
    const LayerSettingEXT *settings;

    explicit LayerSettingsCreateInfoEXT(const std::vector<LayerSettingEXT> &all)
        : n_settings(static_cast<uint32_t>(all.size())), settings(all.data())
    {
    }
};

} /* namespace vk */

#endif
#endif
