# gpu.cmake - tests that run on this machine's GPUs, where the engine was built for some and there is one

if(HTH_ENGINE_OPTIONS MATCHES "cuda=ON|metal=ON|vulkan=(ON|SOFTWARE)")
  foreach(part vectors run)
    add_test(NAME gpu/${part} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/gpu.sh ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR} ${part})
    # A software device takes its time.
    set_tests_properties(gpu/${part} PROPERTIES TIMEOUT 3600 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
  endforeach()
endif()
