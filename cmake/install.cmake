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
install(FILES ${HEARTH_ENGINE}/LICENSE.llama.cpp LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES packaging/hearth.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
# What an operator copies: an example of a configuration, the unit for systemd, alerts, a dashboard.
install(FILES packaging/hearth.conf packaging/hearth.service packaging/prometheus-alerts.yml packaging/grafana-dashboard.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/hearth)

set(HTH_PC_SYSTEM "")
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(HTH_PC_SYSTEM liburing)
endif()
# Where it is installed is known no sooner than then: `make install PREFIX=...`.
set(HTH_PC_PREFIX "@HTH_PC_PREFIX@")
configure_file(packaging/hearth.pc.in ${CMAKE_BINARY_DIR}/hearth.pc.in @ONLY)
install(CODE "get_filename_component(HTH_PC_PREFIX \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  configure_file(\"${CMAKE_BINARY_DIR}/hearth.pc.in\" \"${CMAKE_BINARY_DIR}/hearth.pc\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/hearth.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(HTH_ENGINE_DIRECTORY ${CMAKE_INSTALL_LIBDIR}/hearth)
configure_package_config_file(packaging/hearth-config.cmake.in ${CMAKE_BINARY_DIR}/hearth-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hearth PATH_VARS HTH_ENGINE_DIRECTORY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/hearth-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/hearth-config.cmake ${CMAKE_BINARY_DIR}/hearth-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hearth)
install(EXPORT hearth-targets NAMESPACE hearth:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hearth)
