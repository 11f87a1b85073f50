// entries.mjs - compare kept streams through entries that are killed with the same streams of one server in peace
//
//   node entries.mjs --hearth PROGRAM --work DIRECTORY [--streams N] [--at-once N] [--seed S] [--pause-ms MS] [--kills N]
//
// Clients ask all nodes, and read on at another one when their connection breaks. One node after the other is killed and
// started again. Every stream must be complete and the same as in peace, byte for byte (../chaos/compare.mjs), and its
// events must be numbered without a gap.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { answers, isComplete } from '../chaos/answers.mjs'
import { compare, firstDifference } from '../chaos/compare.mjs'
import { drawer } from '../chaos/draw.mjs'
import { makeRequests } from '../chaos/requests.mjs'
import { metric, sleep, start, stop } from '../support/server.mjs'
import { makeReader } from './kept.mjs'
import { makeFleet, untilUp } from './nodes.mjs'
import { makeRedis } from './redis.mjs'

const options = { streams: 40, 'at-once': 20, seed: Date.now() % 1000000, 'pause-ms': 700, kills: 1000, 'stub-us': 10000, 'max-tokens': 120 }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
console.log(`seed ${options.seed} (HTH_SEED replays it)`)
mkdirSync(options.work, { recursive: true })
const stub = `stub=stub:step_us=${options['stub-us']}`
const requests = makeRequests(options.streams * 2, options.seed, {
  models: [{ name: 'stub', path: stub, share: 1 }], maxTokens: options['max-tokens'],
}).filter(({ stream }) => stream).slice(0, options.streams)

const calm = await start({ program: options.hearth, portFile: join(options.work, 'calm.port'), args: ['--model', stub, '--cache', join(options.work, 'calm'), '--n-parallel', '128'] })
const right = await answers(calm.port, requests, 128)
await stop(calm)

const redis = await makeRedis({ work: join(options.work, 'redis') })
await redis.start()
const nodes = await makeFleet({
  hearth: options.hearth, work: join(options.work, 'nodes'), names: ['a', 'b', 'c'], models: () => [stub],
  isListed: false, args: ['--fleet-store', `redis://127.0.0.1:${redis.port}`, '--keep-alive-ms', '200', '--n-parallel', '128', '--streams-bytes-max', '8gb'],
})
await Promise.all(nodes.map((node) => node.start()))
await untilUp(nodes)

let isOver = false, nKills = 0
const draw = drawer(options.seed)
const torment = (async () => {
  while (!isOver && nKills < options.kills) {
    await sleep(options['pause-ms'] * (0.5 + draw.next(100) / 100))
    if (isOver) break
    const node = draw.pick(nodes)
    nKills++
    await node.kill()
    await node.start()
    await untilUp(nodes)
  }
})()

const counts = { again: 0, moved: 0 }
const pauses = []
const one = async ({ path, body }, draws) => {
  for (let i = 0; i < 100; i++, await sleep(50)) {
    const up = nodes.filter((node) => node.server)
    const reader = makeReader()
    const first = await reader.begin(up[draws.next(up.length)], path, body)
    if (first.status !== 200 && first.status !== 0 && first.status !== 503) return { text: first.text, status: first.status }
    if (!reader.id) { // nothing came of it: the client asks again
      counts.again++
      continue
    }
    if (!first.isWhole) {
      const began = Date.now(), last = reader.last
      counts.moved++
      await reader.finish(() => nodes, undefined, () => { if (reader.last > last && pauses.length < counts.moved) pauses.push(Date.now() - began) })
    }
    return { text: reader.text, status: 200, error: reader.error }
  }
  throw new Error('no node took the request')
}
const replies = new Array(requests.length)
let next = 0
await Promise.all(Array.from({ length: options['at-once'] }, async (_, k) => {
  const draws = drawer(options.seed + k)
  while (next < requests.length) {
    const i = next++
    replies[i] = await one(requests[i], draws).catch((error) => ({ error: error.message, text: '' }))
  }
}))
isOver = true
await torment

const kinds = { same: 0, split: 0, different: 0, failed: 0 }
for (const [i, reply] of replies.entries()) {
  const kind = reply.error || reply.status !== right[i].status || !isComplete(requests[i], reply.text) ? 'failed' : compare(right[i].text, reply.text, true)
  kinds[kind]++
  if (kind === 'same' || kind === 'split') continue
  console.log(`${kind}: ${requests[i].path} ${requests[i].body.slice(0, 300)}`)
  if (options.raw) console.log(right[i].text, reply.text)
  console.log(reply.error ?? (reply.status !== right[i].status ? `${reply.status}: ${reply.text.slice(0, 300)}` : firstDifference(right[i].text, reply.text)))
}
const taken = (await Promise.all(nodes.map((node) => node.metrics()))).reduce((sum, text) => sum + metric(text, 'hearth_fleet_journals_taken_total'), 0)
console.log(`${replies.length} streams: ${Object.entries(kinds).map(([name, n]) => `${n} ${name}`).join(', ')}; ${nKills} kills of entries, ${counts.moved} streams moved, ${counts.again} asked again; taken by the nodes of now: ${taken}`)
if (pauses.length > 0) {
  pauses.sort((x, y) => x - y)
  console.log(`from the break to the next event, ms: p50 ${pauses[pauses.length >> 1]}, p90 ${pauses[Math.floor(pauses.length * 0.9)]}, most ${pauses.at(-1)}`)
}
for (const node of nodes) await node.stop()
await redis.kill()
if (kinds.different + kinds.failed > 0 || (nKills > 2 && options.streams >= 40 && counts.moved === 0)) process.exit(1)
