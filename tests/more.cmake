# more.cmake - tests that are not one cmocka program: headers, layers, symbols, installation, whole programs

# The public header compiles alone, as C11 and as C++17, with every warning an error.
foreach(language c cpp)
  add_executable(test_header_${language} headers/public_header.${language})
  target_include_directories(test_header_${language} PRIVATE ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(test_header_${language} PRIVATE -Werror -Wpedantic)
  target_link_libraries(test_header_${language} PRIVATE hearth_shared)
  add_test(NAME headers/public_${language} COMMAND test_header_${language})
endforeach()

add_test(NAME headers/rooms COMMAND node ${CMAKE_CURRENT_SOURCE_DIR}/headers/rooms.mjs ${CMAKE_SOURCE_DIR})
add_test(NAME headers/sizes COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/headers/sizes.sh ${CMAKE_SOURCE_DIR})
add_test(NAME headers/docs COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/headers/docs.sh ${CMAKE_SOURCE_DIR})
add_test(NAME headers/symbols COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/headers/symbols.sh $<TARGET_FILE:hearth_shared>
  $<TARGET_FILE:hearth-llama> $<TARGET_FILE:hearth-stub>)

# The list of the interface is of 64-bit machines with GNU's or LLVM's compiler.
if(CMAKE_SIZEOF_VOID_P EQUAL 8 AND NOT APPLE)
  add_test(NAME headers/interface COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/headers/interface.sh ${CMAKE_C_COMPILER}
    $<TARGET_FILE:hearth_shared> ${CMAKE_SOURCE_DIR})
endif()

# The replaced attention, linked with the engine as the engine module is. ThreadSanitizer would report a race for all
# memory that the engine's threads share with the test; there, unit/attention tests the same code.
if(HTH_ATTENTION_RANGES AND NOT HEARTH_SANITIZE STREQUAL "thread")
  set(kernel_tests attention mask)
  if(HTH_ENGINE_RPC_SERVER)
    list(APPEND kernel_tests devices)
  endif()
  foreach(name ${kernel_tests})
    add_executable(test_kernel_${name} kernel/${name}_test.c)
    hth_replace_attention(test_kernel_${name})
    target_include_directories(test_kernel_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(test_kernel_${name} PRIVATE hth_test_main hth_engine_libs)
    set_target_properties(test_kernel_${name} PROPERTIES LINKER_LANGUAGE CXX)
  endforeach()
  if(TARGET test_kernel_devices)
    target_link_options(test_kernel_devices PRIVATE -Wl,--wrap=hth_attention_read)
  endif()
  add_test(NAME kernel/mask COMMAND test_kernel_mask)
  add_test(NAME kernel/attention COMMAND test_kernel_attention)
  set_tests_properties(kernel/attention PROPERTIES TIMEOUT 900 ENVIRONMENT OMP_WAIT_POLICY=passive)
endif()

include(${CMAKE_CURRENT_SOURCE_DIR}/rpc.cmake)
include(${CMAKE_CURRENT_SOURCE_DIR}/gpu.cmake)

# Whole programs: shell scripts that get the build directory. Each works in its own directory. The soak depends on the
# speed of the machine, so it is off by default.
option(HEARTH_SOAK "Run twenty seconds of the soak (tests/soak) among the tests" OFF)
file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/e2e/*_test.sh)
if(NOT HEARTH_SOAK)
  list(FILTER scripts EXCLUDE REGEX "/soak_test.sh$")
endif()
# An instrumented server is too slow for the timeouts of agents, and the suite of schemas takes minutes; what a browser
# does with the pages is not of instrumented code. Other tests send the same requests. The soak of many models has a
# bound for the memory of the front.
if(HEARTH_SANITIZE)
  list(FILTER scripts EXCLUDE REGEX "/(agents|codex|schema_suite|models_soak|page|dashboard)_test.sh$")
endif()
# The memory of ThreadSanitizer counts as that of the process, and differs between a measurement and a load.
if(HEARTH_SANITIZE STREQUAL "thread")
  list(FILTER scripts EXCLUDE REGEX "/fit_test.sh$")
endif()
foreach(script ${scripts})
  get_filename_component(name ${script} NAME_WE)
  string(REGEX REPLACE "_test$" "" name ${name})
  add_test(NAME e2e/${name} COMMAND ${script} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  set_tests_properties(e2e/${name} PROPERTIES TIMEOUT 900)
  if(name MATCHES "^(page|dashboard|pictures)$")
    set_tests_properties(e2e/${name} PROPERTIES SKIP_RETURN_CODE 77) # without a browser, or without the page
  endif()
endforeach()

# Debian packages of this build, in a new Debian system, and the container file that installs such packages. They have no
# code of sanitizers. The first is skipped without the tools of Debian, or without a mirror of its packages.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT HEARTH_SANITIZE AND NOT HEARTH_FUZZ)
  add_test(NAME packages/containerfile COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packages/containerfile_test.sh
    ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  add_test(NAME packages/deb COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packages/build_test.sh ${CMAKE_BINARY_DIR})
  set_tests_properties(packages/deb PROPERTIES TIMEOUT 1800 SKIP_RETURN_CODE 77)
endif()

# These tests let calls of a file system fail, or keep their own model of a disk. So they need no disk, whose fsync
# would be most of their time.
if(IS_DIRECTORY /dev/shm)
  foreach(name crash/cache_fault crash/power_loss unit/file_tier_failures unit/tier_faults)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT TMPDIR=/dev/shm)
  endforeach()
endif()

# A kill proves what is on the disk, which the ordinary build tests. Instrumented code needs fewer of them.
if(HEARTH_SANITIZE)
  foreach(name crash/cache_crash crash/publish crash/ram_tier)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT HTH_KILLS=100)
  endforeach()
endif()

# These tests count allocations and let them fail.
if(NOT APPLE)
  target_compile_definitions(test_crash_memory PRIVATE HTH_TEST_WRAPS_MALLOC)
  target_link_options(test_crash_memory PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=strndup)
  # This test counts how often grammars are read.
  target_compile_definitions(test_unit_replies_grammar PRIVATE HTH_TEST_WRAPS_GBNF)
  target_link_options(test_unit_replies_grammar PRIVATE -Wl,--wrap=hth_gbnf_new)
  hth_link_stub(test_unit_replies_grammar)
  # This test looks which file is opened.
  target_compile_definitions(test_unit_hub_settings PRIVATE HTH_TEST_WRAPS_FOPEN)
  target_link_options(test_unit_hub_settings PRIVATE -Wl,--wrap=fopen)
  # This test delays a byte to a pipe.
  target_compile_definitions(test_unit_run_many PRIVATE HTH_TEST_WRAPS_WRITE)
  target_link_options(test_unit_run_many PRIVATE -Wl,--wrap=write)
endif()

# A simulated fleet under simulated load (sim/fleet_sim.c), with the real choice of a node.
add_executable(fleet_sim sim/fleet_sim.c)
target_include_directories(fleet_sim PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(fleet_sim PRIVATE hth_fleet m)
add_test(NAME sim/fleet COMMAND fleet_sim --check)

# All fuzz targets; and all that tests run but have not in their own programs, such as the scripts of e2e.
add_custom_target(fuzzers)
add_custom_target(programs)
add_dependencies(programs hearth_notice)
foreach(folder src bench examples tests)
  get_property(targets DIRECTORY ${CMAKE_SOURCE_DIR}/${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(target MATCHES "^fuzz_")
      add_dependencies(fuzzers ${target})
    elseif(type MATCHES "EXECUTABLE|_LIBRARY" AND NOT target MATCHES "^test_(unit|property|crash|vectors|kernel)")
      add_dependencies(programs ${target})
    endif()
  endforeach()
endforeach()
