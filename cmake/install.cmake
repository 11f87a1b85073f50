# install.cmake - what `make install` puts where

include(CMakePackageConfigHelpers)

install(TARGETS hearth RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS hearth_shared hearth_static EXPORT hearth-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/hearth.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS hearth-llama LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/hearth)
if(HTH_ENGINE_RUNTIME)
  install(FILES ${HTH_ENGINE_RUNTIME} DESTINATION ${CMAKE_INSTALL_LIBDIR}/hearth)
endif()
if(HTH_ENGINE_RPC_SERVER)
  install(PROGRAMS ${HTH_ENGINE_RPC_SERVER} DESTINATION ${CMAKE_INSTALL_LIBDIR}/hearth)
endif()
# The licenses of everything that is linked, and of the packages in the page for browsers.
set(HTH_NOTICE ${CMAKE_BINARY_DIR}/NOTICE)
add_custom_command(OUTPUT ${HTH_NOTICE} VERBATIM
  COMMAND ${CMAKE_SOURCE_DIR}/scripts/notices.sh ${CMAKE_BINARY_DIR} ${HEARTH_ENGINE} > ${HTH_NOTICE}
  DEPENDS hearth hearth_shared hearth-llama scripts/notices.sh COMMENT "Collecting licenses")
add_custom_target(hearth_notice ALL DEPENDS ${HTH_NOTICE})
install(FILES LICENSE ${HTH_NOTICE} DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The documents lie to each other as in the repository, so that their links and pictures work.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES models/hearth-tiny.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/models)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN *.md PATTERN *.svg PATTERN *.png PATTERN *.c PATTERN *.py PATTERN *.txt)
# What an operator copies: an example of a configuration, the unit for systemd, alerts, a dashboard.
install(FILES packaging/hearth.conf packaging/prometheus-alerts.yml packaging/grafana-dashboard.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/hearth)
# The unit names the command by its path, which is known when it is installed: `make install PREFIX=...`.
install(CODE "set(HTH_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
  set(HTH_DATADIR \"${CMAKE_INSTALL_DATADIR}\")
  get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  get_filename_component(HTH_BINDIR \"\${HTH_BINDIR}\" ABSOLUTE BASE_DIR \"\${prefix}\")
  get_filename_component(HTH_DATADIR \"\${HTH_DATADIR}\" ABSOLUTE BASE_DIR \"\${prefix}\")
  set(unit \"\${HTH_DATADIR}/hearth/hearth.service\")
  configure_file(\"${CMAKE_SOURCE_DIR}/packaging/hearth.service.in\" \"\$ENV{DESTDIR}\${unit}\" @ONLY
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  message(STATUS \"Installing: \$ENV{DESTDIR}\${unit}\")
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${unit}\")")

# The program prints its own manuals and completions.
install(CODE "set(HTH_PROGRAM \"${CMAKE_BINARY_DIR}/hearth\")
  set(HTH_MANDIR \"${CMAKE_INSTALL_MANDIR}\")
  set(HTH_DATADIR \"${CMAKE_INSTALL_DATADIR}\")
  include(\"${CMAKE_SOURCE_DIR}/cmake/manuals.cmake\")")

set(HTH_PC_SYSTEM "")
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(HTH_PC_SYSTEM liburing)
endif()
# hearth.pc finds the prefix from its own place, so that an installed tree can be moved. Folders that were configured as
# absolute paths do not lie below the prefix: they stay as they are.
set(HTH_PC_LIBDIR ${CMAKE_INSTALL_LIBDIR})
set(HTH_PC_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
foreach(folder HTH_PC_LIBDIR HTH_PC_INCLUDEDIR)
  if(NOT IS_ABSOLUTE ${${folder}})
    set(${folder} "\${prefix}/${${folder}}")
  endif()
endforeach()
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(HTH_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH HTH_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" HTH_PC_PREFIX "\${pcfiledir}/${HTH_PC_PREFIX}")
endif()
configure_file(packaging/hearth.pc.in ${CMAKE_BINARY_DIR}/hearth.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/hearth.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(HTH_ENGINE_DIRECTORY ${CMAKE_INSTALL_LIBDIR}/hearth)
configure_package_config_file(packaging/hearth-config.cmake.in ${CMAKE_BINARY_DIR}/hearth-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hearth PATH_VARS HTH_ENGINE_DIRECTORY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/hearth-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/hearth-config.cmake ${CMAKE_BINARY_DIR}/hearth-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hearth)
install(EXPORT hearth-targets NAMESPACE hearth:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hearth)

# Last: the list of all these files, for `make uninstall`. It keeps files of an earlier version that are still there.
install(CODE "set(folder \"${CMAKE_INSTALL_DATADIR}/hearth\")
  get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  get_filename_component(folder \"\${folder}\" ABSOLUTE BASE_DIR \"\${prefix}\")
  set(list \"\$ENV{DESTDIR}\${folder}/installed\")
  set(lines \"\")
  if(EXISTS \"\${list}\")
    file(STRINGS \"\${list}\" lines)
  endif()
  foreach(file \${CMAKE_INSTALL_MANIFEST_FILES} \"\${folder}/installed\")
    file(RELATIVE_PATH file \"\${prefix}\" \"\${file}\")
    list(APPEND lines \"\${file}\")
  endforeach()
  list(REMOVE_DUPLICATES lines)
  list(JOIN lines \"\\n\" lines)
  file(WRITE \"\${list}\" \"\${lines}\\n\")")
