# own_network.sh - runs the test again in a namespace of networks of its own; skips it where there is none. Sourced first,
# with the arguments of the test.
if [ -z "${OWN_NETWORK:-}" ]; then
  if ! command -v ip >/dev/null || ! unshare -rn true 2>/dev/null; then
    echo "skipped: this system gives no namespaces of networks, or has no 'ip'"
    exit 77
  fi
  OWN_NETWORK=1 exec unshare -rn sh "$0" "$@"
fi
