#!/bin/sh
# `make install` is complete: the command finds its engine, and programs build against the library with pkg-config and
# with CMake. This also holds for a moved tree, for a staging folder, and for libraries outside lib/.
. "$(dirname "$0")/lib.sh"
. "$source/tests/headers/links.sh"

# The lines of the README, in a directory like a checkout.
mkdir "$work/checkout" "$work/home"
ln -s "$source/Makefile" "$source/scripts" "$source/examples" "$source/models" "$work/checkout/"
sed -n '/^export PREFIX=/,/^```/{/^```/!p;}' "$source/README.md" >"$work/recipe"
[ "$(wc -l <"$work/recipe")" -ge 4 ] || fail "the README says nothing of the library"
is_plain=yes # the library of a build with a sanitizer wants the same flags
if grep -q '^HEARTH_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then is_plain=; sed -i '/^export PREFIX\|^make/!d' "$work/recipe"; fi
(cd "$work/checkout" && env -u HEARTH_ENGINE_DIRECTORY -u PREFIX HOME="$work/home" BUILD="$build" sh -eux "$work/recipe") \
  >"$work/out" 2>"$work/log" || fail "what the README says does not work: $(tail -n 3 "$work/log")"
prefix=$work/home/.local
grep -q '^export PREFIX=$HOME/.local$' "$work/recipe" || fail "the README installs elsewhere than this test looks"

env -u HEARTH_ENGINE_DIRECTORY "$prefix/bin/hearth" run "$tiny" -p 'Once upon a time' --temp 0 -n 4 -q >/dev/null ||
  fail "the installed command does not run"
if env -u HEARTH_ENGINE_DIRECTORY "$prefix/bin/hearth" run stub: -p x -n 1 -q >/dev/null 2>&1; then
  fail "the tests' engine is installed"
fi
for page in man1/hearth.1 man1/hearth-serve.1 man5/hearth.conf.5; do
  [ -s "$prefix/share/man/$page" ] || fail "the man page $page is not installed"
done
for file in bash-completion/completions/hearth zsh/site-functions/_hearth fish/vendor_completions.d/hearth.fish; do
  [ -s "$prefix/share/$file" ] || fail "the completion $file is not installed"
done
for part in llama.cpp nlohmann-json cpp-httplib page; do
  grep -q "^==== $part$" "$prefix/share/doc/hearth/NOTICE" || fail "NOTICE lacks the license of $part"
done
documents=$prefix/share/doc/hearth
for page in "$documents/README.md" "$documents"/docs/*.md; do
  links "$page" >"$work/links"
  while read -r link; do
    case $link in *include/* | ../page | ../tests/*) continue ;; esac # of the sources alone
    target=${link%%#*}
    [ -e "$(dirname "$page")/$target" ] || fail "$page: the link '$link' leads nowhere"
  done <"$work/links"
done
[ -f "$prefix/share/hearth/hearth.service" ] || fail "the unit for systemd is not installed"
"$prefix/bin/hearth" serve --config "$prefix/share/hearth/hearth.conf" --models-dir "$source/models" --print-config >/dev/null ||
  fail "the example that is installed is no configuration"

# The tree may move: from here on it lies in another place. Only the unit for systemd has the first place in it.
expect "the command in the unit" "$(sed -n 's/^ExecStart=\(.*\) serve .*/\1/p' "$prefix/share/hearth/hearth.service")" "$prefix/bin/hearth"
expect "the check in the unit" "$(sed -n 's/^ExecStartPre=\(.*\) serve .*/\1/p' "$prefix/share/hearth/hearth.service")" "$prefix/bin/hearth"
installed=$prefix
mkdir "$work/elsewhere"
mv "$prefix" "$work/elsewhere/moved"
prefix=$work/elsewhere/moved
if grep -rIlF -e "$installed" "$prefix" | grep -v '/hearth\.service$' >"$work/found"; then
  fail "these name the folder that they were installed in: $(cat "$work/found")"
fi
env -u HEARTH_ENGINE_DIRECTORY "$prefix/bin/hearth" run "$tiny" -p 'Once upon a time' --temp 0 -n 4 -q >/dev/null ||
  fail "the command does not run once it was moved"

# No installed file names the build directory.
if grep -rlF -e "$build" -e "$source" "$prefix/share" "$prefix/include" "$(dirname "$(find "$prefix" -name hearth.pc)")" \
  "$(dirname "$(find "$prefix" -name hearth-config.cmake)")" >"$work/found"; then
  fail "these name the folder that they were built in: $(cat "$work/found")"
fi
engine=$(find "$prefix" -name hearth-llama.so)
if command -v readelf >/dev/null; then
  for file in "$prefix/bin/hearth" "$(find "$prefix" -name libhearth.so)" "$engine"; do
    paths=$(readelf -d "$file" | sed -n 's/.*R\(UN\)\{0,1\}PATH.*\[\(.*\)\]/\2/p')
    case $paths in '' | '$ORIGIN') ;; *) fail "$file looks for libraries in '$paths'" ;; esac
  done
fi
[ "$is_plain" ] || exit 0

[ -s "$work/out" ] || fail "the program of the README says nothing"

# The same lines again, in the moved tree.
grep -q '^make install$' "$work/recipe" || fail "the README does not install with 'make install'"
sed "s|^export PREFIX=.*|export PREFIX=$prefix|; /^make install\$/d" "$work/recipe" >"$work/moved-recipe"
rm "$work/checkout/complete"
(cd "$work/checkout" && env -u HEARTH_ENGINE_DIRECTORY HOME="$work/home" sh -eux "$work/moved-recipe") >"$work/out" 2>"$work/log" ||
  fail "what the README says does not work in a moved tree: $(tail -n 3 "$work/log")"
[ -s "$work/out" ] || fail "the program of the README says nothing in a moved tree"
PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH
variable() { realpath "$(pkg-config --variable="$1" hearth)"; }
expect "the prefix" "$(variable prefix)" "$(realpath "$prefix")"
expect "the engine's folder" "$(variable enginedir)" "$(realpath "$(dirname "$engine")")"

# A static program looks for the engine beside itself, or in the configured directory.
# shellcheck disable=SC2046
cc -std=c11 "$source/examples/complete.c" -o "$work/complete" $(pkg-config --cflags hearth) \
  $(pkg-config --static --libs hearth | sed 's/-lhearth/-l:libhearth.a/') || fail "linking the static library failed"
if ldd "$work/complete" | grep libhearth >&2; then fail "the static program needs the shared library"; fi
run() { env -u HEARTH_ENGINE_DIRECTORY "$@" "$tiny" 'Once upon a time' >/dev/null 2>"$work/log"; }
run "$work/complete" && fail "there is an engine beside the static program"
grep -q "no engine: 'hearth-llama.so' is not in $work/hearth, .*; install it there or set HEARTH_ENGINE_DIRECTORY" "$work/log" ||
  fail "without an engine the static program says: $(cat "$work/log")"
run env HEARTH_ENGINE_DIRECTORY="$(pkg-config --variable=enginedir hearth)" "$work/complete" ||
  fail "the static program does not run: $(cat "$work/log")"
cp "$work/complete" "$prefix/bin/complete"
run "$prefix/bin/complete" || fail "installed beside the command, the static program does not find the engine: $(cat "$work/log")"

mkdir "$work/consumer"
cat >"$work/consumer/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(hearth 0.1 REQUIRED)
foreach(kind shared static)
  add_executable(\${kind} $source/examples/complete.c)
endforeach()
target_link_libraries(shared PRIVATE hearth::hearth)
target_link_libraries(static PRIVATE hearth::hearth_static)
file(WRITE \${CMAKE_BINARY_DIR}/engine "\${hearth_ENGINE_DIRECTORY}")
END
cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 &&
  cmake --build "$work/consumer/build" >>"$work/log" 2>&1 || fail "building with CMake failed: $(tail -n 5 "$work/log")"
expect "the engine's folder of the CMake package" "$(cat "$work/consumer/build/engine")" "$(dirname "$engine")"
run "$work/consumer/build/shared" || fail "the shared program of CMake does not run: $(cat "$work/log")"
run env HEARTH_ENGINE_DIRECTORY="$(cat "$work/consumer/build/engine")" "$work/consumer/build/static" ||
  fail "the static program of CMake does not run: $(cat "$work/log")"

# For packages: for /usr, into a staging folder.
make -s -C "$work/checkout" BUILD="$build" PREFIX=/usr DESTDIR="$work/stage" install >"$work/log" 2>&1 ||
  fail "'make install' with PREFIX=/usr and DESTDIR fails: $(tail -n 3 "$work/log")"
expect "the command in the staged unit" \
  "$(sed -n 's/^ExecStart=\(.*\) serve .*/\1/p' "$work/stage/usr/share/hearth/hearth.service")" /usr/bin/hearth
if grep -rIlF -e "$work" -e "$build" -e "$source" "$work/stage" >"$work/found"; then
  fail "these name the staging folder, or the one that they were built in: $(cat "$work/found")"
fi
grep -q '^prefix=${pcfiledir}/../..$' "$work/stage/usr/lib/pkgconfig/hearth.pc" || fail "the staged hearth.pc cannot be moved"
PKG_CONFIG_PATH=$work/stage/usr/lib/pkgconfig
expect "the staged prefix" "$(variable prefix)" "$(realpath "$work/stage/usr")"

# Every installed file is removed, but nothing else; also those of an earlier version, which this one does not install.
stage=$work/stage/usr
echo old >"$stage/share/hearth/old"
echo share/hearth/old >>"$stage/share/hearth/installed"
make -s -C "$work/checkout" BUILD="$build" PREFIX=/usr DESTDIR="$work/stage" install >"$work/log" 2>&1 ||
  fail "it cannot be installed again: $(tail -n 3 "$work/log")"
echo mine >"$stage/share/hearth/mine"
uninstall() { make -s -C "$work/checkout" PREFIX=/usr DESTDIR="$work/stage" uninstall >"$work/log" 2>&1; }
uninstall || fail "'make uninstall' fails: $(cat "$work/log")"
expect "what is left after 'make uninstall'" "$(find "$work/stage" ! -type d)" "$stage/share/hearth/mine"
expect "folders of hearth that are left" "$(find "$work/stage" -type d -name hearth)" "$stage/share/hearth"
if uninstall; then fail "'make uninstall' finds nothing to remove, and says nothing"; fi
grep -q "nothing to remove: there is no '$stage/share/hearth/installed'" "$work/log" || fail "it says $(cat "$work/log")"

# Libraries in a folder of the architecture. Only configured files are made anew; the binaries come from this build.
cmake -S "$source" -B "$work/multiarch" -DHEARTH_ENGINE="$(sed -n 's/^HEARTH_ENGINE:PATH=//p' "$build/CMakeCache.txt")" \
  -DCMAKE_INSTALL_LIBDIR=lib/some-linux-gnu -DBUILD_TESTING=OFF >"$work/log" 2>&1 ||
  fail "it cannot be configured for lib/some-linux-gnu: $(tail -n 3 "$work/log")"
for file in "$build/hearth" "$build"/libhearth.* "$build"/*.so "$build/NOTICE"; do
  [ ! -f "$file" ] || cp -a "$file" "$work/multiarch/"
done
make -s -C "$work/checkout" BUILD="$work/multiarch" PREFIX="$work/arch" install >"$work/log" 2>&1 ||
  fail "it cannot be installed into lib/some-linux-gnu: $(tail -n 3 "$work/log")"
mv "$work/arch" "$work/arch-moved"
PKG_CONFIG_PATH=$work/arch-moved/lib/some-linux-gnu/pkgconfig
expect "the prefix above lib/some-linux-gnu" "$(variable prefix)" "$(realpath "$work/arch-moved")"
# shellcheck disable=SC2046
cc -std=c11 "$source/examples/complete.c" -o "$work/arch-complete" $(pkg-config --cflags --libs hearth) \
  -Wl,-rpath,"$(pkg-config --variable=libdir hearth)" || fail "linking against lib/some-linux-gnu failed"
run "$work/arch-complete" || fail "the program does not find the library or engine in lib/some-linux-gnu: $(cat "$work/log")"
rm -r "$work/consumer/build"
cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$work/arch-moved" \
  -Dhearth_DIR="$work/arch-moved/lib/some-linux-gnu/cmake/hearth" >"$work/log" 2>&1 &&
  cmake --build "$work/consumer/build" --target shared >>"$work/log" 2>&1 ||
  fail "building with CMake against lib/some-linux-gnu failed: $(tail -n 5 "$work/log")"
run "$work/consumer/build/shared" || fail "the program of CMake does not run: $(cat "$work/log")"
