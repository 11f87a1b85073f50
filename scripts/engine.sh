#!/bin/sh
# engine.sh - get and build the inference engine, llama.cpp v0.5.0
#
#   1. find the source: LLAMA_CPP_DIR; else the git bundle inside the npm package that ships it; else its git repository
#   2. check its integrity, unpack it into the cache directory
#   3. build only what Hearth links, out of tree, and put the result under a key made of version, options, compiler
#      and (for a build tuned to this machine) the CPU's features
#
# The script checks all requirements before it fetches or builds anything.
#
# The result appears by one rename, so a kill leaves nothing that looks finished; the next run goes on where the last
# one stopped. Two builds at once take turns by a lock file. The only line on standard output is the finished directory;
# progress goes to standard error. The script writes nothing into the checkout.
#
# Environment:
#   LLAMA_CPP_DIR         a source tree of llama.cpp v0.5.0 to use instead of downloading one
#   HEARTH_ENGINE_CACHE   where builds are kept (default: $XDG_CACHE_HOME/hearth or ~/.cache/hearth)
#   HEARTH_CUDA=1, HEARTH_VULKAN=1, HEARTH_METAL=1   adds a GPU backend
#   CUDAARCHS             the GPUs of a CUDA backend, as CMake reads them (default: those of this machine)
#   HEARTH_VULKAN=software   the Vulkan backend for Mesa's software device only; old headers and compilers suffice
#   HEARTH_RPC=0          leave out the backend for devices of other machines, and its server program
#   HEARTH_PORTABLE=1     build every CPU variant, chosen at run time (for packages)
#   HEARTH_JOBS           parallel compile jobs (default: number of CPUs)
set -eu

version=0.5.0
npm_package=node-llama-cpp@3.22.1
npm_sha512='bltIipuWmc123H7tMIgDGKSsSrhmhlQYeVUC48XTjVW7XGJJiJJyCdlTMzQ/LiWoPkGDpcL4FviDpgw7qfTiDw=='
bundle_commit=de3ff815ea7d559ee917f063901b8986f038abc6
git_repository=https://github.com/ggml-org/llama.cpp
layout=5    # raise when the contents of the result change

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
if [ "${HEARTH_VULKAN:-0}" = software ]; then vulkan=SOFTWARE; fi
rpc=$(on "${HEARTH_RPC:-1}")
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
# The GPUs that CUDA code is for, in CMake's terms ("90;120"); without it, those of this machine.
cuda_for=; if [ "$cuda" = ON ]; then cuda_for=${CUDAARCHS:-native}; fi
options="layout=$layout source=$source_id cuda=$cuda vulkan=$vulkan metal=$metal rpc=$rpc portable=$portable cpu=$cpu"
options="$options${cuda_for:+ cuda_for=$cuda_for} compiler=$compiler"
key=v$version-$(printf '%s' "$options" | hash_text)
final=$cache/$key
build=$cache/$key.build
source=$cache/source-v$version

# The licenses of all that the result links. Results of earlier versions of this script lack some of them.
licenses_of='llama.cpp=LICENSE nlohmann-json=licenses/LICENSE-jsonhpp cpp-httplib=vendor/cpp-httplib/LICENSE'
copy_licenses() {
  for license in $licenses_of; do
    [ -f "$1/LICENSE.${license%%=*}" ] || cp "$source/${license#*=}" "$1/LICENSE.${license%%=*}"
  done
}
finished() {
  [ -f "$final/engine.cmake" ] || return 1
  if [ -d "$source" ]; then copy_licenses "$final"; fi
  echo "$final"
}

if [ "${1:-}" = --print ]; then echo "$final"; exit 0; fi
if finished; then exit 0; fi

# The pinned version, from the first lines of a source tree.
check_version() {
  found=$(sed -n 's/^set(LLAMA_VERSION_[MP][A-Z]* \([0-9]*\)).*/\1/p' "$1/CMakeLists.txt" 2>/dev/null | paste -s -d . -)
  [ "$found" = "$version" ] ||
    die "'$1' is llama.cpp ${found:-of an unknown version}; Hearth supports $version only, on which its engine layer was" \
      "measured: name such a tree, or unset LLAMA_CPP_DIR (docs/engine.md says what another version would need)"
}
if [ -n "${LLAMA_CPP_DIR:-}" ]; then check_version "$LLAMA_CPP_DIR"; fi

# The requirements of the switches. CMake would fail on most of them too, but late and without the name of a package.
missing=     # sentences
packages=    # on this distribution
family=$( (. /etc/os-release && echo "${ID:-} ${ID_LIKE:-}") 2>/dev/null || true)
lacks() {    # what, package on Debian and Ubuntu, on Fedora, on Arch
  missing="$missing$1; "
  case " $family " in
    *' debian '*) packages="$packages $2" ;;
    *' fedora '*) packages="$packages $3" ;;
    *' arch '*) packages="$packages $4" ;;
  esac
}
compiles() { # C++ that must be accepted, with further arguments
  text=$1; shift
  printf '%s\n' "$text" | ${CXX:-c++} ${VULKAN_SDK:+"-I$VULKAN_SDK/include"} ${VULKAN_SDK:+"-L$VULKAN_SDK/lib"} \
    -x c++ - "$@" >/dev/null 2>&1
}
if [ "$vulkan" != OFF ]; then
  compiles '#include <vulkan/vulkan.hpp>' -E || lacks "the headers of Vulkan (vulkan/vulkan.hpp)" libvulkan-dev vulkan-headers vulkan-headers
  compiles 'int main() { return 0; }' -o /dev/null -lvulkan || lacks "the loader of Vulkan (libvulkan)" libvulkan-dev vulkan-loader-devel vulkan-icd-loader
  compiles '#include <spirv/unified1/spirv.hpp>' -E || lacks "the headers of SPIR-V (spirv/unified1/spirv.hpp)" spirv-headers spirv-headers-devel spirv-headers
  if [ -n "${VULKAN_SDK:-}" ] && [ -x "$VULKAN_SDK/bin/glslc" ]; then PATH=$VULKAN_SDK/bin:$PATH; fi
  command -v glslc >/dev/null || lacks "the shader compiler glslc" glslc glslc shaderc
fi
if [ "$cuda" = ON ] && ! command -v "${CUDACXX:-nvcc}" >/dev/null &&
  { [ -n "${CUDACXX:-}" ] || [ ! -x /usr/local/cuda/bin/nvcc ]; }; then
  lacks "the CUDA compiler ${CUDACXX:-nvcc}" nvidia-cuda-toolkit cuda-toolkit cuda
fi
if [ "$metal" = ON ] && ! command -v xcrun >/dev/null; then lacks "Apple's tools (xcrun); Metal is for macOS" '' '' ''; fi
if [ -n "$missing" ]; then
  # shellcheck disable=SC2086
  packages=$(printf '%s\n' $packages | sort -u | paste -s -d ' ' -)
  die "a backend that was asked for (cuda=$cuda vulkan=$vulkan metal=$metal) needs what is not here:" \
    "${missing%; }${packages:+. Packages: $packages}"
fi
if [ "$cuda_for" = native ] && ! nvidia-smi -L >/dev/null 2>&1; then
  die "HEARTH_CUDA=1 builds for the GPUs of this machine, and nvidia-smi finds none: install the driver, or say in CUDAARCHS" \
    "what to build for (CUDAARCHS=90 for an H100)"
fi
# The features that llama.cpp of this version expects and Debian 12 lacks.
if [ "$vulkan" = ON ]; then
  old=
  compiles '#include <vulkan/vulkan.hpp>
    vk::LayerSettingEXT setting;' -fsyntax-only || old="the headers of Vulkan (1.3.272 is needed)"
  printf '#version 450\n#extension GL_KHR_cooperative_matrix : require\nvoid main() {}\n' |
    glslc -fshader-stage=compute -o /dev/null - 2>/dev/null ||
    old="${old:+$old and }the shader compiler $(command -v glslc) (GL_KHR_cooperative_matrix is needed)"
  [ -z "$old" ] || die "too old for llama.cpp v$version: $old. Take them from a newer system, or name a newer Vulkan SDK in VULKAN_SDK"
fi

# Everything below runs under the lock. The kernel drops it at any end of this process.
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
if finished; then exit 0; fi

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
check_version "$source"

jobs=${HEARTH_JOBS:-$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)}
log=$cache/$key.log
say "building llama.cpp v$version with $jobs jobs (about 3 minutes on 2 cores); log: $log"

native=ON; if [ "$portable" = ON ]; then native=OFF; fi
targets='llama llama-common'
if [ "$rpc" = ON ]; then targets="$targets ggml-rpc-server"; fi
flags="-include '$here/engine_amx.h'"
case $vulkan in
  ON) set -- -DGGML_VULKAN=ON "-DVulkan_GLSLC_EXECUTABLE=$(command -v glslc)" ;;
  SOFTWARE) set -- -DGGML_VULKAN=ON "-DVulkan_GLSLC_EXECUTABLE=$here/vulkan_software/glslc"
    flags="$flags -I'$here/vulkan_software/include'" ;;
  *) set -- -DGGML_VULKAN=OFF ;;
esac
# Shared libraries and the server program find each other where they lie together.
beside='$ORIGIN'; if [ "$(uname -s)" = Darwin ]; then beside=@loader_path; fi
if ! {
  cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    "-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CXX_FLAGS=$flags" \
    -DBUILD_SHARED_LIBS=$shared -DLLAMA_BUILD_IS_DEV=OFF -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_TOOLS=$rpc -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_OPENSSL=OFF -DLLAMA_SUBPROCESS=OFF -DGGML_CCACHE=OFF -DGGML_NATIVE=$native -DGGML_CUDA=$cuda \
    "$@" -DGGML_METAL=$metal -DGGML_RPC=$rpc -DGGML_RPC_RDMA=OFF \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH="$beside" \
    -DGGML_BACKEND_DL=$portable -DGGML_CPU_ALL_VARIANTS=$portable
} >"$log" 2>&1; then
  tail -n 20 "$log" >&2; die "configuring failed; the whole log is '$log'"
fi

# On a terminal one line that changes, elsewhere a line for every tenth.
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
# The subshell's status goes through a file, because a pipe keeps only the status of its last command.
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
copy_licenses "$stage"
if [ $shared = ON ]; then
  find "$build/bin" \( -name '*.so*' -o -name '*.dylib' \) -exec cp -a {} "$stage/lib/" \;
else
  find "$build" -name '*.a' -exec cp {} "$stage/lib/" \;
fi
if [ "$rpc" = ON ]; then cp "$build/bin/ggml-rpc-server" "$stage/lib/"; fi
{
  echo '# Made by scripts/engine.sh; read by CMakeLists.txt.'
  echo "set(HTH_ENGINE_VERSION \"$version\")"
  echo "set(HTH_ENGINE_SHARED $shared)"
  echo "set(HTH_ENGINE_OPTIONS \"cuda=$cuda vulkan=$vulkan metal=$metal rpc=$rpc portable=$portable cpu=$cpu\")"
  echo "set(HTH_ENGINE_ID \"$key\")"
} >"$stage/engine.cmake"
rm -rf "$final"
mv "$stage" "$final"
rm -rf "$build"
say "done: $final"
echo "$final"
