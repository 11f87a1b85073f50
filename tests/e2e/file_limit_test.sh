#!/bin/sh
# A limit on file sizes (ulimit -f), as containers and batch systems set it, costs the tiers that cannot write, each
# with a warning, and no reply.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

words 200 1 >"$work/prompt"
# POSIX counts blocks of 512 bytes, bash of 1024.
case $(sh -c 'ulimit -f 2; head -c 2048 /dev/zero >"$0" 2>/dev/null && echo 1024 || echo 512' "$work/limit") in
  1024) block_kib=1 ;;
  *) block_kib=2 ;;
esac

limited() { # KIB: one reply with that limit
  rm -rf "$cache"
  sh -c 'ulimit -f "$0" && exec "$@"' $(($1 * block_kib)) \
    "$hearth" run stub: -f "$work/prompt" --temp 0 -n 20 --json >"$work/out" 2>"$work/err" ||
    fail "hearth run with a limit of $1 KiB: $(cat "$work/err")"
}
limited 40
said "not usable.*limit on file sizes\|not usable.*File too large"
for kib in 300 16384; do limited $kib; done

# The index of a server does not fit, or no row does.
printf '{"prompt":"%s","n_predict":4}' "$(cat "$work/prompt")" >"$work/body"
usual=$(ulimit -S -f)
for kib in 40 300 16384; do
  rm -rf "$cache"
  ulimit -S -f $((kib * block_kib))
  serve -m stub: --ram 8M --cache "$cache"
  ulimit -S -f "$usual"
  for _ in 1 2; do ask 200 --data-binary @"$work/body" "$url/completion"; done
  ask 200 "$url/metrics"
  grep -q '^hearth_worker_starts_total.* 1$' "$work/reply" || fail "a worker died of the limit: $(cat "$work/log")"
  serve_stop
  grep -q 'the RAM tier does not outlive.*limit on file sizes' "$work/log" || fail "no warning: $(cat "$work/log")"
done
