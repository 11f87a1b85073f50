# manuals.cmake - installs man pages and completions, which the program HTH_PROGRAM prints
#
# Runs at `make install`. HTH_MANDIR and HTH_DATADIR are absolute, or lie below the prefix.

get_filename_component(prefix "${CMAKE_INSTALL_PREFIX}" ABSOLUTE)
get_filename_component(man "${HTH_MANDIR}" ABSOLUTE BASE_DIR "${prefix}")
get_filename_component(share "${HTH_DATADIR}" ABSOLUTE BASE_DIR "${prefix}")

# install_output(FILE ARGUMENTS...): FILE has the output of the program
function(install_output file)
  execute_process(COMMAND ${HTH_PROGRAM} ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "'hearth ${ARGN}' fails: ${result}")
  endif()
  file(WRITE "$ENV{DESTDIR}${file}" "${text}")
  message(STATUS "Installing: $ENV{DESTDIR}${file}")
  set(CMAKE_INSTALL_MANIFEST_FILES ${CMAKE_INSTALL_MANIFEST_FILES} "${file}" PARENT_SCOPE)
endfunction()

install_output("${man}/man1/hearth.1" help --man)
install_output("${man}/man5/hearth.conf.5" help --man hearth.conf)
execute_process(COMMAND ${HTH_PROGRAM} help --names OUTPUT_VARIABLE commands)
string(REGEX MATCHALL "[^\n]+" commands "${commands}")
foreach(command ${commands})
  install_output("${man}/man1/hearth-${command}.1" help --man ${command})
endforeach()
install_output("${share}/bash-completion/completions/hearth" completion bash)
install_output("${share}/zsh/site-functions/_hearth" completion zsh)
install_output("${share}/fish/vendor_completions.d/hearth.fish" completion fish)
