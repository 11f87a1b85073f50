#!/bin/sh
# What `make install` installs is complete: the command finds its engine, and programs build against the library with
# pkg-config and with CMake.
. "$(dirname "$0")/lib.sh"

cmake --install "$build" --prefix "$work/prefix" >"$work/log" 2>&1 || fail "installing failed: $(tail -n 3 "$work/log")"
env -u HEARTH_ENGINE_DIRECTORY "$work/prefix/bin/hearth" run "$tiny" -p 'Once upon a time' --temp 0 -n 4 -q >/dev/null ||
  fail "the installed command does not run"
[ -f "$work/prefix/share/man/man1/hearth.1" ] || fail "the man page is not installed"
[ -f "$work/prefix/share/hearth/hearth.service" ] || fail "the unit for systemd is not installed"
"$work/prefix/bin/hearth" serve --config "$work/prefix/share/hearth/hearth.conf" --print-config >/dev/null ||
  fail "the example that is installed is no configuration"

# The library of a build with a sanitizer wants the same flags; the plain build is what is installed.
if grep -q '^HEARTH_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then exit 0; fi

pc=$(find "$work/prefix" -name hearth.pc)
sed -i "s|^prefix=.*|prefix=$work/prefix|" "$pc"
export PKG_CONFIG_PATH=${pc%/*}
# shellcheck disable=SC2046
cc -std=c11 "$source/examples/complete.c" -o "$work/complete" $(pkg-config --cflags --libs hearth) \
  -Wl,-rpath,"$(pkg-config --variable=libdir hearth)" || fail "building with pkg-config failed"
"$work/complete" "$tiny" 'Once upon a time' >/dev/null || fail "the program built with pkg-config does not run"
libdir=$(pkg-config --variable=libdir hearth)
# shellcheck disable=SC2046
cc -std=c11 "$source/examples/complete.c" -o "$work/complete" $(pkg-config --cflags hearth) "$libdir/libhearth.a" \
  $(pkg-config --static --libs-only-l hearth | sed 's/-lhearth//g') || fail "linking the static library with pkg-config failed"

mkdir "$work/consumer"
cat >"$work/consumer/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(hearth 0.1 REQUIRED)
add_executable(shared $source/examples/complete.c)
target_link_libraries(shared PRIVATE hearth::hearth)
add_executable(static $source/examples/complete.c)
target_link_libraries(static PRIVATE hearth::hearth_static)
END
cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1 &&
  cmake --build "$work/consumer/build" >>"$work/log" 2>&1 || fail "building with CMake failed: $(tail -n 5 "$work/log")"
HEARTH_ENGINE_DIRECTORY=$(dirname "$(find "$work/prefix" -name hearth-llama.so)")
export HEARTH_ENGINE_DIRECTORY
for kind in shared static; do
  "$work/consumer/build/$kind" "$tiny" 'Once upon a time' >/dev/null || fail "the $kind program does not run"
done
