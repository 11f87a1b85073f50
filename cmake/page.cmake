# page.cmake - the page for browsers, which the folder page/ becomes: one C file, page_source

option(HEARTH_PAGE "Build the page that browsers see at / (needs npm, and its registry once)" ON)
set(page_source ${CMAKE_BINARY_DIR}/page/page.c)
if(HEARTH_PAGE)
  file(GLOB page_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/page/*)
  add_custom_command(OUTPUT ${page_source} DEPENDS ${page_files} ${CMAKE_SOURCE_DIR}/scripts/npm.sh VERBATIM
    COMMAND ${CMAKE_SOURCE_DIR}/page/build.sh ${CMAKE_BINARY_DIR}/page COMMENT "Building the page")
else()
  file(CONFIGURE OUTPUT ${page_source}
    CONTENT "#include \"front/page.h\"\nconst hth_page hth_page_built = { .n_plain = 0 };\n")
endif()
