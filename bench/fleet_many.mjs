// fleet_many.mjs - a fleet of many nodes that share a store: what a front costs, and what restarts cost clients
//
//   node fleet_many.mjs --hearth PROGRAM --work DIRECTORY [--nodes N] [--seconds S] [--clients N]
//
// All nodes run on this machine, with the tests' engine without a model. First, nothing happens for S seconds: the
// memory and the processor time of one front. Then clients send chats of several turns, each to any node that is not
// about to restart, as behind a load balancer that asks /ready. Meanwhile five nodes restart, one after another, and
// then the store is killed and started again. A request that fails, or a chat whose turns do not find their cache, is
// counted.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFleet, until } from '../tests/fleet/nodes.mjs'
import { makeRedis } from '../tests/fleet/redis.mjs'
import { ask, residentBytes, sleep } from '../tests/support/server.mjs'

const options = { hearth: '', work: '', nodes: 50, seconds: 20, clients: 8 }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
const redis = await makeRedis({ work: join(options.work, 'redis') })
await redis.start()
const nodes = await makeFleet({
  hearth: options.hearth, work: join(options.work, 'nodes'), names: Array.from({ length: options.nodes }, (_, i) => `n${i}`),
  models: () => ['m=stub:delay_us=20'], isListed: false,
  args: ['--fleet-store', `redis://127.0.0.1:${redis.port}`, '--no-access-log', '--ctx', '32768'],
})
for (const node of nodes) await node.start()
const [first] = nodes
const untilAll = (node) =>
  until('a node sees all others', async () => (await node.page()).nodes.filter(({ state }) => state === 'up').length === nodes.length - 1)
for (const node of nodes) await untilAll(node)

// ---- a front at rest ----

const ticks = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return Number(fields[11]) + Number(fields[12])
}
const before = ticks(first.server.pid)
await sleep(options.seconds * 1000)
const used = (ticks(first.server.pid) - before) / 100 / options.seconds
console.log(`front with ${nodes.length - 1} peers: ${(residentBytes(first.server.pid) / 1048576).toFixed(1)} MiB resident, ${(100 * used).toFixed(2)} % of a core at rest (${options.seconds} s)`)

// ---- under load ----

const leaving = new Set()
let ends = false, nDone = 0, nFailed = 0, nPrompt = 0, nCached = 0
const why = []
const turn = (i, k) => ({ role: k % 2 ? 'assistant' : 'user', content: `${i}.${k} is a part of a long story about a fox. `.repeat(12) })
const client = async (number) => {
  for (let chat = 0; !ends; chat++) {
    for (let n = 1; n <= 9 && !ends; n += 2) {
      const able = nodes.filter((node) => node.server && !leaving.has(node))
      const node = able[(chat * 7 + n * 3 + number) % able.length]
      const messages = Array.from({ length: n }, (_, k) => turn(`${number}.${chat}`, k))
      try {
        const reply = await ask({ port: node.port }, 'POST', '/v1/chat/completions', JSON.stringify({ model: 'm', messages, max_tokens: 4, ignore_eos: true }))
        if (reply.status !== 200) throw new Error(`status ${reply.status}: ${reply.text.slice(0, 200)}`)
        const { usage } = JSON.parse(reply.text)
        nDone++
        if (n > 1) {
          nPrompt += usage.prompt_tokens
          nCached += usage.prompt_tokens_details.cached_tokens
        }
      } catch (error) {
        nFailed++
        why.push(`${node.name}: ${error.message}`)
      }
    }
  }
}
const report = (what) => {
  console.log(`${what}: ${nDone} requests, ${nFailed} failed; of the prompts of later turns, ${((100 * nCached) / nPrompt).toFixed(1)} % were cached`)
  for (const text of why.slice(0, 5)) console.log(`  ${text}`)
  nDone = nFailed = nPrompt = nCached = why.length = 0
}
const clients = Array.from({ length: options.clients }, (_, i) => client(i))
await sleep(options.seconds * 1000)
report('in peace')
for (const node of nodes.slice(1, 6)) {
  leaving.add(node)
  await node.stop()
  await node.start()
  await untilAll(node)
  leaving.delete(node)
}
report('five nodes restarted, one after another')
await redis.kill()
await sleep(options.seconds * 1000)
report('the store killed')
await redis.start()
await until('the store is up', async () => (await first.page()).store.up)
await sleep(options.seconds * 1000)
report('the store back')
ends = true
await Promise.all(clients)
const times = []
for (let i = 0; i < 200; i++) {
  const body = JSON.stringify({ why: '/v1/chat/completions', body: JSON.stringify({ model: 'm', messages: Array.from({ length: 9 }, (_, k) => turn('0.0', k)) }) })
  const begin = process.hrtime.bigint()
  await first.order(JSON.parse(body))
  times.push(Number(process.hrtime.bigint() - begin) / 1e6)
}
times.sort((x, y) => x - y)
console.log(`fleet why, a choice and its page: p50 ${times[100].toFixed(2)} ms`)
for (const node of nodes) await node.stop()
await redis.kill()
process.exit(0)
