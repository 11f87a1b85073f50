# rpc.cmake - tests that run while two RPC servers listen on loopback: helpers/with_rpc_servers.c starts and ends them
#
# All layers are on the servers, so a restored state does not lie in this process' memory. vectors/* runs the same tests
# with the CPU alone.

function(hth_rpc_test name program)
  add_test(NAME ${name} COMMAND with_rpc_servers 2 ${HTH_ENGINE_RPC_SERVER} ${program} ${ARGN})
  # The CPU's threads must not take the servers' time while they wait.
  set_tests_properties(${name} PROPERTIES TIMEOUT 900
    ENVIRONMENT "OMP_WAIT_POLICY=passive;LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_SOURCE_DIR}/lsan.supp:print_suppressions=0")
endfunction()

if(HTH_ENGINE_RPC_SERVER)
  hth_rpc_test(rpc/restore $<TARGET_FILE:test_vectors> restore)
  hth_rpc_test(rpc/join $<TARGET_FILE:test_vectors> join)
  # The others are about the stub, which computes nothing on a device.
  hth_rpc_test(rpc/kinds $<TARGET_FILE:test_vectors> kinds on_models_of_every_kind)
  hth_rpc_test(rpc/run ${CMAKE_CURRENT_SOURCE_DIR}/e2e/rpc.sh ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  if(TARGET test_kernel_devices)
    hth_rpc_test(kernel/devices $<TARGET_FILE:test_kernel_devices>)
  endif()
endif()
