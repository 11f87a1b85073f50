// chaos.mjs - compare streams through a fleet whose nodes die, hang and drain with the same streams of one server in peace
//
//   node chaos.mjs --hearth PROGRAM --model FILE --work DIRECTORY [--streams N] [--at-once N] [--seed S] [--pause-ms MS]
//
// Every request goes to the node 'a'. The nodes 'b' and 'c' are killed and started again, stopped in order, stopped in
// their tracks (SIGSTOP) for a while, and drained by an order. Every reply must be complete and the same as in peace, byte
// for byte (../chaos/compare.mjs). ../chaos/chaos.mjs tells why models are used as they are here.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { answers, isComplete } from '../chaos/answers.mjs'
import { compare, firstDifference } from '../chaos/compare.mjs'
import { drawer } from '../chaos/draw.mjs'
import { makeRequests } from '../chaos/requests.mjs'
import { makeFleet, until, untilUp } from './nodes.mjs'
import { metric, sleep, start, stop } from '../support/server.mjs'

const options = { streams: 30, 'at-once': 8, seed: Date.now() % 1000000, 'pause-ms': 1000, 'stub-us': 700, 'max-tokens': 160 }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
console.log(`seed ${options.seed} (HTH_SEED replays it)`)

const stub = `stub=stub:delay_us=${options['stub-us']}`
const requests = makeRequests(options.streams, options.seed, {
  models: [{ name: 'stub', path: stub, share: 1 }], maxTokens: options['max-tokens'],
})
let isOver = false
const counts = { killed: 0, ended: 0, hung: 0, drained: 0 }

// One torment of a node after another, until isOver.
const torment = async (draw, node, entry) => {
  while (!isOver) {
    await sleep(options['pause-ms'] * (0.5 + draw.next(100) / 100))
    if (isOver) break
    const kind = draw.pick(['killed', 'killed', 'ended', 'hung', 'drained'])
    counts[kind]++
    if (kind === 'killed') {
      await node.kill()
      await node.start()
    } else if (kind === 'ended') {
      await node.stop()
      await node.start()
    } else if (kind === 'hung') {
      node.server.child.kill('SIGSTOP')
      await until('the entry sees that a node hangs', async () => (await entry.sees(node)) === 'down' || isOver)
      node.server.child.kill('SIGCONT')
    } else {
      await entry.order({ drain: node.name })
      await until('a node drains', async () => ['draining', 'down'].includes(await entry.sees(node)) || isOver)
      await entry.order({ undrain: node.name })
    }
    await until('a node is back', async () => (await entry.sees(node)) === 'up' || isOver)
  }
}

let nodes = [], calm
try {
  calm = await start({
    program: options.hearth, portFile: join(options.work, 'calm.port'),
    args: ['--model', stub, '--cache', join(options.work, 'calm'), '--ram', '64M', '--log-file', join(options.work, 'calm.log')],
  })
  const expected = await answers(calm.port, requests, options['at-once'])
  await stop(calm)
  for (const [i, reply] of expected.entries())
    if (reply.error || reply.status !== 200 || !isComplete(requests[i], reply.text))
      throw new Error(`request ${requests[i].index} fails in peace: ${reply.error ?? reply.status} ${reply.text.slice(-500)}`)

  nodes = await makeFleet({
    hearth: options.hearth, work: join(options.work, 'fleet'), names: ['a', 'b', 'c'], models: () => [stub],
    args: ['--retries-max', '100'],
  })
  await Promise.all(nodes.map((node) => node.start()))
  await untilUp(nodes)
  const [entry, ...others] = nodes
  const torments = others.map((node, i) => torment(drawer(options.seed + i), node, entry))
  const begin = Date.now()
  const got = await answers(entry.port, requests, options['at-once'])
  const ms = Date.now() - begin
  isOver = true
  await Promise.all(torments)
  for (const node of nodes) if (node.server) node.server.child.kill('SIGCONT')
  const resumed = metric(await entry.metrics(), 'hearth_resumed_requests_total')
  for (const node of nodes) await node.stop()

  const verdicts = { same: 0, split: 0, different: 0, failed: 0 }
  const began = { a: 0, b: 0, c: 0 }
  for (const [i, reply] of got.entries()) {
    const verdict = reply.error || reply.status !== 200 ? 'failed' : compare(expected[i].text, reply.text, requests[i].stream)
    verdicts[verdict]++
    if (reply.node) began[reply.node]++
    if (verdict === 'same' || verdict === 'split') continue
    const place = join(options.work, `failed-${requests[i].index}`)
    writeFileSync(`${place}.calm`, expected[i].text)
    writeFileSync(`${place}.chaos`, reply.text)
    console.log(`request ${requests[i].index} ${verdict}: ${requests[i].path} ${requests[i].body.slice(0, 300)}`)
    console.log(verdict === 'failed' ? `  ${reply.status} ${reply.error ?? reply.text.slice(0, 500)}` : `  ${firstDifference(expected[i].text, reply.text)}`)
  }
  const pauses = got.map((reply) => reply.pauseMs).sort((a, b) => a - b)
  const at = (part) => pauses[Math.min(pauses.length - 1, Math.floor(part * pauses.length))]
  console.log(`torments: ${Object.entries(counts).map(([name, n]) => `${n} ${name}`).join(', ')}; requests that went on elsewhere: ${resumed}`)
  console.log(`replies: ${got.length} in ${(ms / 1000).toFixed(1)} s, begun at a ${began.a}, b ${began.b}, c ${began.c}; ${Object.entries(verdicts).map(([name, n]) => `${n} ${name}`).join(', ')}`)
  console.log(`longest pause within a reply: median ${at(0.5)} ms, 90% ${at(0.9)} ms, most ${at(1)} ms`)
  if (verdicts.different + verdicts.failed > 0) throw new Error('replies differ or failed')
  if (began.b + began.c === 0) throw new Error('no reply began at another node')
  if (options.streams >= 100 && counts.killed > 0 && resumed === 0) throw new Error('nodes were killed, and nothing went on elsewhere')
} catch (error) {
  isOver = true
  console.error(`fleet: ${error.stack ?? error}`)
  for (const node of nodes) console.error(`${node.name}: ${readFileSync(node.log, 'utf8').split('\n').slice(-8).join('\n')}`)
  process.exitCode = 1
}
process.exit()
