# attention.cmake - can the engine's attention be replaced (src/kernels/attention.c)? Sets HTH_ATTENTION_RANGES
#
# Needs the pinned engine as static libraries, the symbols that are used, and those that are replaced both defined and
# called from another object: a call within one object is not redirected.

include(CheckCCompilerFlag)

set(HTH_WRAPPED_SYMBOLS ggml_compute_forward_flash_attn_ext ggml_graph_compute ggml_backend_tensor_set
  _ZN18llama_batch_allocr4initERK11llama_batchRK11llama_vocabPK14llama_memory_ijjb)
set(HTH_USED_SYMBOLS ggml_barrier ggml_threadpool_chunk_set ggml_threadpool_chunk_add)

function(hth_attention_problem out)
  set(${out} "" PARENT_SCOPE)
  if(NOT HEARTH_ATTENTION_RANGES)
    set(${out} "HEARTH_ATTENTION_RANGES is off" PARENT_SCOPE)
  elseif(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
    set(${out} "it is for 64-bit Linux" PARENT_SCOPE)
  elseif(NOT HTH_ENGINE_VERSION STREQUAL "0.5.0")
    set(${out} "it was made for llama.cpp 0.5.0" PARENT_SCOPE)
  elseif(HTH_ENGINE_SHARED)
    set(${out} "the engine is in shared libraries" PARENT_SCOPE)
  elseif(NOT CMAKE_NM)
    set(${out} "there is no nm to look into the engine with" PARENT_SCOPE)
  else()
    execute_process(COMMAND ${CMAKE_NM} -P ${HEARTH_ENGINE}/lib/libggml-base.a ${HEARTH_ENGINE}/lib/libggml-cpu.a
      ${HEARTH_ENGINE}/lib/libllama.a
      OUTPUT_VARIABLE symbols ERROR_QUIET)
    foreach(symbol ${HTH_WRAPPED_SYMBOLS} ${HTH_USED_SYMBOLS})
      if(NOT symbols MATCHES "(^|\n)${symbol} T ")
        set(${out} "the engine has no ${symbol}" PARENT_SCOPE)
      endif()
    endforeach()
    foreach(symbol ${HTH_WRAPPED_SYMBOLS})
      if(NOT symbols MATCHES "(^|\n)${symbol} U")
        set(${out} "the engine does not call ${symbol} from outside" PARENT_SCOPE)
      endif()
    endforeach()
  endif()
endfunction()

hth_attention_problem(HTH_ATTENTION_PROBLEM)
if(HTH_ATTENTION_PROBLEM)
  set(HTH_ATTENTION_RANGES OFF)
  message(STATUS "Attention: the engine's own (${HTH_ATTENTION_PROBLEM})")
else()
  set(HTH_ATTENTION_RANGES ON)
  message(STATUS "Attention: over own cells")
  # A static engine is built for the machine it is built on.
  check_c_compiler_flag(-march=native HTH_HAS_MARCH_NATIVE)
  check_c_compiler_flag(-mcpu=native HTH_HAS_MCPU_NATIVE)
  if(HTH_HAS_MARCH_NATIVE)
    set(HTH_NATIVE_FLAG -march=native)
  elseif(HTH_HAS_MCPU_NATIVE)
    set(HTH_NATIVE_FLAG -mcpu=native)
  else()
    set(HTH_NATIVE_FLAG "")
  endif()
endif()
