// partition.mjs - five nodes and their store; the network falls into three nodes and two, and heals
//
//   node partition.mjs --hearth PROGRAM --work DIRECTORY [--cut-ms MS]
//
// In a namespace of networks of its own (see ../e2e/fleet_partition_test.sh). Each node has a namespace, and a port of one
// of two bridges: the store is at the first one. Clients ask nodes over unix sockets, which no network cuts.
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { ask, sleep } from '../support/server.mjs'
import { makeReader } from './kept.mjs'
import { until, untilUp } from './nodes.mjs'

const options = { 'cut-ms': 6000 }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
const { hearth, work } = options
mkdirSync(work, { recursive: true })
const run = (...words) => {
  const done = spawnSync(words[0], words.slice(1), { encoding: 'utf8' })
  if (done.status !== 0) throw new Error(`${words.join(' ')}: ${done.stderr}`)
}
const children = []
const background = (...words) => {
  const child = spawn(words[0], words.slice(1), { stdio: 'ignore' })
  children.push(child)
  child.ended = new Promise((resolve) => child.on('exit', resolve))
  return child
}
process.on('exit', () => children.forEach((child) => child.exitCode ?? child.kill('SIGKILL')))

run('ip', 'link', 'set', 'lo', 'up')
for (const bridge of ['one', 'two']) {
  run('ip', 'link', 'add', bridge, 'type', 'bridge')
  run('ip', 'link', 'set', bridge, 'up')
}
run('ip', 'address', 'add', '10.9.0.1/24', 'dev', 'one')
background('redis-server', '--port', '6379', '--bind', '10.9.0.1', '--protected-mode', 'no', '--save', '', '--dir', work)
run(hearth, 'fleet', 'init', '--file', join(work, 'fleet.pem'))

const nodes = await Promise.all([1, 2, 3, 4, 5].map(async (i) => {
  const name = `n${i}`, home = join(work, name)
  mkdirSync(home)
  const holder = background('unshare', '-n', 'sleep', '1000')
  const ns = (pid) => readlinkSync(`/proc/${pid}/ns/net`)
  await until('the namespace is there', () => ns(holder.pid) !== ns('self'))
  const there = ['nsenter', '-t', `${holder.pid}`, '-n']
  run('ip', 'link', 'add', name, 'type', 'veth', 'peer', 'name', 'wire', 'netns', `${holder.pid}`)
  run('ip', 'link', 'set', name, 'master', 'one', 'up')
  run(...there, 'ip', 'link', 'set', 'lo', 'up')
  run(...there, 'ip', 'address', 'add', `10.9.0.1${i}/24`, 'dev', 'wire')
  run(...there, 'ip', 'link', 'set', 'wire', 'up')
  const server = background(...there, hearth, 'serve', '--model', 'slow=stub:step_us=8000', '--model', `only-${name}=stub:`,
    '--fleet', join(work, 'fleet.pem'), '--fleet-name', name, '--fleet-store', 'redis://10.9.0.1:6379', '--listen', `unix:${home}/public.sock`,
    '--admin', `unix:${home}/admin.sock`, '--cache', join(home, 'cache'), '--ram', '64M', '--runtime-directory', join(home, 'run'),
    '--log-file', join(home, 'log'), '--wait-timeout-ms', '3s', '--keep-alive-ms', '200')
  const node = {
    name, server, port: undefined, socketPath: `${home}/public.sock`,
    page: async () => JSON.parse((await ask({ socketPath: `${home}/admin.sock` }, 'GET', '/admin/fleet')).text),
  }
  node.sees = async (other) => (await node.page()).nodes.find((one) => one.name === other.name)?.state
  node.post = (body) => ask({ socketPath: node.socketPath }, 'POST', '/v1/completions', JSON.stringify(body))
  return node
}))
await until('all answer', async () => (await Promise.all(nodes.map((node) => node.page().then(() => true, () => false)))).every((isThere) => isThere))
await untilUp(nodes)

const bodyOf = (i) => ({ model: 'slow', prompt: `Prompt ${i}`, max_tokens: 30, temperature: 0, ignore_eos: true })
const right = []
for (let i = 0; i < 8; i++) right.push(JSON.parse((await nodes[0].post(bodyOf(i))).text).choices[0].text)

let isOver = false
const counts = { good: 0, wrong: 0, failed: 0 }
const load = nodes.map(async (node, k) => {
  for (let i = k; !isOver; i++) {
    const reply = await node.post(bodyOf(i % right.length)).catch((error) => ({ status: 0, text: String(error) }))
    const kind = reply.status !== 200 ? 'failed' : JSON.parse(reply.text).choices[0].text === right[i % right.length] ? 'good' : 'wrong'
    counts[kind]++
    if (kind !== 'good') console.log(`${kind}: ${node.name} ${reply.status} ${reply.text.slice(0, 300)}`)
  }
})
const stateOf = async (from, to) => from.sees(to)
const untilSeen = (what, isSo) => until(what, async () => {
  for (const from of nodes) for (const to of nodes) if (from !== to && !(await isSo(from, to))) return false
  return true
})
const side = (node) => (Number(node.name[1]) <= 3 ? 1 : 2)

// A stream of the small side, which its client reads on at the large side during the cut.
const longBody = { model: 'slow', prompt: 'A long one', max_tokens: 400, temperature: 0, ignore_eos: true, stream: true }
const eventsOf = (text) => [...text.matchAll(/"text":("(?:\\.|[^"\\])*")/g)].map(([, json]) => JSON.parse(json)).join('')
const longRight = eventsOf((await nodes[1].post(longBody)).text)
const moved = makeReader(), stays = makeReader()
await moved.begin(nodes[3], '/v1/completions', JSON.stringify(longBody), () => moved.last > 20)
const staying = stays.begin(nodes[4], '/v1/completions', JSON.stringify(longBody))
await until('it runs', () => stays.last > 10)

const before = counts.good
for (const name of ['n4', 'n5']) run('ip', 'link', 'set', name, 'master', 'two')
const cutAt = Date.now()
await untilSeen('each side sees itself alone', async (from, to) => (await stateOf(from, to)) === (side(from) === side(to) ? 'up' : 'down'))
const seenMs = Date.now() - cutAt
await moved.finish(() => nodes.slice(0, 3))
const beyond = await Promise.all([nodes[0].post({ model: 'only-n5', prompt: 'x', max_tokens: 1 }), nodes[4].post({ model: 'only-n1', prompt: 'x', max_tokens: 1 })])
const near = await Promise.all([nodes[0].post({ model: 'only-n2', prompt: 'x', max_tokens: 1 }), nodes[4].post({ model: 'only-n4', prompt: 'x', max_tokens: 1 })])
await sleep(Math.max(0, options['cut-ms'] - (Date.now() - cutAt)))
const during = counts.good - before
for (const name of ['n4', 'n5']) run('ip', 'link', 'set', name, 'master', 'one')
const healedAt = Date.now()
await untilUp(nodes)
const healMs = Date.now() - healedAt
const after = await Promise.all([nodes[0].post({ model: 'only-n5', prompt: 'x', max_tokens: 1 }), nodes[4].post({ model: 'only-n1', prompt: 'x', max_tokens: 1 })])
await staying
isOver = true
await Promise.all(load)
console.log(`cut for ${((healedAt - cutAt) / 1000).toFixed(1)} s: each side knew after ${(seenMs / 1000).toFixed(1)} s; ${during} good replies meanwhile; all were one again ${(healMs / 1000).toFixed(1)} s after`)
console.log(`replies: ${counts.good} good, ${counts.wrong} wrong, ${counts.failed} failed; models beyond the cut: ${beyond.map(({ status }) => status)}, of the own side: ${near.map(({ status }) => status)}, afterwards: ${after.map(({ status }) => status)}`)
const isRight = [moved, stays].map((reader) => !reader.error && eventsOf(reader.text) === longRight)
console.log(`streams: the one that its client took to the other side is ${isRight[0] ? 'right' : 'WRONG'}, the one that stayed is ${isRight[1] ? 'right' : 'WRONG'}`)
for (const { server } of nodes) server.kill('SIGTERM')
await Promise.all(nodes.map(({ server }) => server.ended))
const isGood = counts.wrong + counts.failed === 0 && during > 0 && beyond.every(({ status }) => status === 503) &&
  [...near, ...after].every(({ status }) => status === 200) && isRight.every((is) => is)
process.exit(isGood ? 0 : 1)
