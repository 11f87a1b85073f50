#!/bin/sh
# deps.sh - install the missing packages that the build needs
#
# On Debian and Ubuntu the script installs them (with sudo when not root). On other systems it prints their names and
# fails. With --tools it also installs the tools that check the code, with --software-gpu a Vulkan device that the CPU
# computes, with --browser the browser for the test of the page, with --tests all that `make test` needs, with --packages
# the tools that make Debian packages, with --package-tests those that check them.
set -eu

say() { printf 'deps: %s\n' "$*" >&2; }

debian_packages='build-essential cmake git pkg-config npm python3 libssl-dev libisal-dev liblmdb-dev liburing-dev libjansson-dev
uthash-dev libcmocka-dev curl libevent-dev libhiredis-dev libcurl4-openssl-dev libseccomp-dev libedit-dev valgrind
procps'
debian_tools='clang clang-format clang-tidy'   # for make lint and make fuzz only
debian_vulkan='libvulkan-dev glslc spirv-headers'   # for HEARTH_VULKAN=1 only
debian_software_gpu='mesa-vulkan-drivers'   # for make vulkan-test only
debian_browser='chromium'   # for make test and make pictures only
debian_network='iproute2'   # for make test only
debian_store='redis-server'   # for make test only
debian_packagers='debhelper'   # for make test and make deb only
debian_systems='mmdebstrap uidmap'   # for make test and make deb-test only
debian_package_tests='lintian'   # for make deb-test only

wanted=$debian_packages
if [ "${HEARTH_VULKAN:-0}" != 0 ]; then wanted="$wanted $debian_vulkan"; fi
case ${1:-} in
  --tools) wanted="$wanted $debian_tools" ;;
  --software-gpu) wanted="$wanted $debian_software_gpu" ;;
  --browser) wanted="$wanted $debian_browser" ;;
  --tests)
    wanted="$wanted $debian_browser $debian_network $debian_store"
    # The test of the packages is of Debian alone.
    if grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then wanted="$wanted $debian_packagers $debian_systems"; fi
    ;;
  --packages) wanted="$wanted $debian_packagers" ;;
  --package-tests) wanted="$wanted $debian_package_tests $debian_systems" ;;
esac

missing_debian() {
  for package in $wanted; do
    # npm may come from elsewhere, with or without a package.
    if [ "$package" = npm ] && command -v npm >/dev/null; then continue; fi
    # Debian alone has a package chromium; elsewhere, the test of the page needs a browser that is there.
    if [ "$package" = chromium ] && ! grep -qx 'ID=debian' /etc/os-release; then continue; fi
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$package"
  done
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  missing=$(missing_debian)
  if [ -z "$missing" ]; then exit 0; fi
  say "installing: $missing"
  sudo=
  if [ "$(id -u)" != 0 ]; then
    sudo=sudo
    command -v sudo >/dev/null || { say "run as root: apt-get install $missing"; exit 1; }
  fi
  log=$(mktemp)
  # shellcheck disable=SC2086
  if ! { $sudo apt-get update && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } \
    >"$log" 2>&1; then
    cat "$log" >&2
    say "installing failed; the packages are: $missing"
    rm -f "$log"
    exit 1
  fi
  rm -f "$log"
  exit 0
fi

# Elsewhere: are the libraries there?
missing=
for tool in cmake git pkg-config cc c++ openssl; do command -v "$tool" >/dev/null || missing="$missing $tool"; done
if command -v pkg-config >/dev/null; then
  libraries='libcrypto libisal lmdb jansson cmocka libevent libevent_openssl hiredis libcurl libedit'
  if [ "$(uname -s)" = Linux ]; then libraries="$libraries liburing libseccomp"; fi
  for library in $libraries; do
    pkg-config --exists "$library" 2>/dev/null || missing="$missing $library"
  done
fi
if [ -z "$missing" ]; then exit 0; fi
say "missing:$missing"
case $(uname -s)-$([ -r /etc/os-release ] && . /etc/os-release && echo "${ID:-}") in
  Linux-fedora*) say 'install: sudo dnf install gcc gcc-c++ make cmake git pkgconf npm openssl openssl-devel isa-l-devel lmdb-devel liburing-devel jansson-devel uthash-devel libcmocka-devel curl libevent-devel libcurl-devel libseccomp-devel libedit-devel' ;;
  Darwin-*) say 'install: brew install cmake git pkg-config node openssl@3 isa-l lmdb jansson uthash cmocka libevent curl libedit' ;;
  FreeBSD-*) say 'install: sudo pkg install cmake git pkgconf npm openssl isa-l lmdb jansson uthash cmocka libevent curl libedit' ;;
  *) say 'install the development packages of OpenSSL 3, ISA-L, LMDB, liburing and libseccomp (Linux), jansson, uthash, libevent, libcurl, libedit and cmocka, and cmake, git, npm' ;;
esac
exit 1
