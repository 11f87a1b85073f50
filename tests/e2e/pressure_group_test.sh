#!/bin/sh
# A server in a control group with little memory: pressure begins, rows and a model leave, and pressure ends. As root
# alone, where groups with a limit of memory can be made.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

# In version 2, groups with processes have no groups with limits below them; in version 1 they may.
own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup 2>/dev/null | head -n 1)
group=/sys/fs/cgroup/hearth-test-$$
limit=memory.max
if [ -n "$own" ]; then
  group=/sys/fs/cgroup/memory$own/hearth-test-$$
  limit=memory.limit_in_bytes
fi
if ! mkdir "$group" 2>/dev/null || ! echo 8G 2>/dev/null >"$group/$limit"; then
  rmdir "$group" 2>/dev/null || true
  echo "skipped: no group with a limit of memory can be made here"
  exit 0
fi
stop_all() {
  serve_kill
  for _ in $(seq 100); do # all in the group end first
    rmdir "$group" 2>/dev/null && break
    sleep 0.02
  done
}

look() { curl -s "$admin_url$1" >"$work/out" || fail "the operators' page does not answer"; }
group_use() { look /admin/pressure && value "(r.sources.system.limits.find((l) => l.total_bytes == $1) || {}).used_bytes || 0"; }
pressed() { look /admin/pressure && value 'r.sources.system.pressed'; }
until_pressed() { await "pressure: $1" gives "$1" pressed; } # true or false
rows() { # MODEL: are some in its RAM tier?
  look /admin/models && value "(r.models.find((m) => m.name == '$1').cache || {ram: {bytes: 0}}).ram.bytes > 0"
}
long=$(seq -s ' ' 200)

serve -m "one=$tiny" -m "two=$tiny" --start on-demand --admin 127.0.0.1:0 --cache "$work/cache" --pressure-poll-ms 50 \
  --pressure-min-evict-bytes 1K
admin_url=http://127.0.0.1:$(sed -n 2p "$work/port")
echo "$server_pid" >"$group/cgroup.procs" # its workers start there
until_pressed false
hear "$work/events" "$admin_url/admin/events"
for model in one two; do
  ask 200 "$url/v1/completions" -d "{\"model\":\"$model\",\"prompt\":\"$long $model\",\"max_tokens\":2}"
  await "rows of model $model" gives true rows "$model"
done
await "the use of its group, as the server sees it" at_least 1000000 group_use $((8 << 30))
used=$(group_use $((8 << 30)))

echo $((used + used / 24)) >"$group/$limit" # 96 % are used
heard "$work/events" '^event: pressure$'
heard "$work/events" '"tier":"ram".*"reason":"pressure"'
heard "$work/events" '"model":"one","reason":"pressure","again":false'
until_pressed false
kill "$listener" 2>/dev/null || true
serve_stop
