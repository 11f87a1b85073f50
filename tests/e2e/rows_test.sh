#!/bin/sh
# The rows of two models share one budget of memory: those of the idle one make room for those of the busy one, are on
# disk then, and are found there.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

# The shares of both models, in KiB. Their sum never passes the budget.
total=4096
shares() {
  curl -s "$admin_url/admin/models" >"$work/out" || fail "the operators' page does not answer"
  shares=$(value 'r.models.map((m) => m.ram_share_bytes >> 10).join(" ") +
    (r.memory.rows.used_bytes > r.memory.rows.limit_bytes ? " are too little" : "")')
  one=${shares%% *} two=${shares#* }
  case $shares in *little) fail "the rows take more memory than they may: $(cat "$work/out")" ;; esac
  [ $((one + two)) -le $total ] || fail "the shares pass the budget of $total KiB: $(cat "$work/out")"
}
ask_for() { # MODEL N: a prompt of its own
  ask 200 "$url/v1/completions" -d "{\"model\":\"$1\",\"prompt\":\"$2 $(seq -s ' ' "$2" 280)\",\"max_tokens\":1}"
  shares
}
# The next prompts of a model, until its share is larger than so many KiB.
fill() { # MODEL KIB
  for _ in $(seq 100); do
    n=$((n + 1))
    ask_for "$1" "$n"
    if [ "$(eval "echo \$$1")" -gt "$2" ]; then return; fi
  done
  fail "the shares are $shares KiB: $(cat "$work/out")"
}
n=0

serve -m "one=$tiny" -m "two=$tiny" --ram-total "${total}K" --admin 127.0.0.1:0 --cache "$work/cache"
admin_url=http://127.0.0.1:$(sed -n 2p "$work/port")
has_equal_shares() { shares && [ "$shares" = "2048 2048" ]; }
await "equal shares, once both workers have sent theirs" has_equal_shares
fill one 3000
fill two 3000 # takes the rows of the other as soon as that is idle
[ "$one" -lt 1100 ] || fail "the idle model keeps $one KiB"
ask_for one 1
is_from_disk() { grep '"model":"one"' "$work/log" | tail -n 1 | grep -q '"hit":"exact","tier":"disk"'; }
await "its rows from disk, in the line behind the reply" is_from_disk

HEARTH_URL=$admin_url "$hearth" ps --memory >"$work/ps" || fail "ps does not show memory"
grep -q '^of it, rows: .* of 4.5 MiB$' "$work/ps" || fail "ps says of rows: $(cat "$work/ps")"
serve_stop
