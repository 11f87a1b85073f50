# labels.cmake - one or two labels for each test: `ctest -L quick`
#
#     browser   needs a browser
#     agents    needs packages of npm: official clients and agents
#     packages  makes and installs packages of a system
#     slow      took more than 10 seconds on two processors; 3 in unit and property, so that `make check` is short
#     quick     the others
#     threads   also: it has threads of its own
set(slow_unit api_tools attention conversation devices embed embed_cache file_tier file_tier_failures fingerprint fit
  grammar hostile_templates http_stream index_life llama_chat llama_sampler long_prompt plain_text render resumed_reply
  supervised_worker supervisor supervisor_moves supervisor_orders supervisor_residency tier_faults worker worker_body
  worker_resume)
set(slow_property cache_property conversations_property events_property scheduler_property slices)
set(slow_crash cache_crash publish scheduler_memory)
set(slow_vectors batching deterministic exact kinds restore)
set(slow_kernel attention)
set(slow_rpc kinds restore run)
set(slow_gpu run vectors)
set(slow_bench cache generation server suite)
set(slow_e2e bench cache chaos convert curl defaults deterministic drafts embed fleet fleet_chaos fleet_cut fleet_entries
  fleet_entry fleet_links fleet_partition fleet_pull fleet_store
  front_ends history hub install long_replies models_soak names operators pressure readme registry residency schema_suite slots soak streams torture)

get_property(tests DIRECTORY PROPERTY TESTS)
foreach(test ${tests})
  get_filename_component(place ${test} DIRECTORY)
  get_filename_component(name ${test} NAME)
  if(test MATCHES "^e2e/(page|dashboard|pictures)$")
    set(label browser)
  elseif(test MATCHES "^e2e/(agents|codex|clients_.*)$")
    set(label agents)
  elseif(place STREQUAL packages)
    set(label packages)
  elseif(name IN_LIST slow_${place})
    set(label slow)
  else()
    set(label quick)
  endif()
  set(source ${CMAKE_SOURCE_DIR}/tests/${test}_test.c)
  if(place MATCHES "^(unit|property)$" AND EXISTS ${source})
    file(STRINGS ${source} threads REGEX "pthread" LIMIT_COUNT 1)
    if(threads)
      list(APPEND label threads)
    endif()
  endif()
  set_property(TEST ${test} PROPERTY LABELS ${label})
endforeach()
