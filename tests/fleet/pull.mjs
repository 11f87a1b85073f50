// pull.mjs - rows that nodes fetch from each other: a check for each sentence of docs/fleet.md about them; started by tests/e2e/fleet_pull_test.sh
//
// HEARTH is the program, WORK an empty directory. SERVER_URL is not used.
//
// A token of a prompt takes the engine 2 ms, and its reply depends on all tokens before. So a fetch is always faster
// than computing, and a wrong row gives another reply.
import net from 'node:net'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { assert, check, finish } from '../clients/checks.mjs'
import { drain, makeFleet, until, untilUp } from './nodes.mjs'
import { ask, childrenOf, sleep } from '../support/server.mjs'

const { HEARTH: hearth, WORK: work } = process.env
const engine = 'stub:delay_us=2000'
const oddEngine = `${engine},vocab=50000` // drawn freely, nearly all of its tokens are words that its tokenizer never makes
const freely = { temperature: 2, top_k: 0, top_p: 1, min_p: 0, ignore_eos: true }
const block = 256

const [a, b] = await makeFleet({
  hearth, work: join(work, 'pull'), names: ['a', 'b'],
  models: () => [`m=${engine}`, `odd=${oddEngine}`], args: ['--ctx', '16384', '--history', '4M'],
})
const other = (node) => (node === a ? b : a)
// A prompt of n tokens, each a byte, unlike those of other names.
const promptOf = (name, n) => `${name} `.repeat(1 + n / (name.length + 1)).slice(0, n)
const complete = async (node, body, key) => {
  const reply = await ask({ port: node.port, key }, 'POST', '/v1/completions', JSON.stringify({ model: 'm', max_tokens: 8, temperature: 0, ignore_eos: true, ...body }))
  assert.equal(reply.status, 200, reply.text)
  const { choices: [{ text }], usage } = JSON.parse(reply.text)
  return { text, cached: usage.prompt_tokens_details?.cached_tokens ?? 0, node: reply.headers['x-hearth-node'] === 'a' ? a : b }
}
const metric = async (node, name) => {
  const line = (await node.metrics()).split('\n').find((one) => one.startsWith(`${name} `) || one.startsWith(`${name}{`) && name.includes('{'))
  return line ? Number(line.slice(line.lastIndexOf(' ') + 1)) : 0
}
const pulls = (node, end) => metric(node, `hearth_fleet_pulls_total{end="${end}"}`)
const drained = (node, isDraining) => drain(node, other(node), isDraining)
// Let the other node compute what this one has: it answers with what a node of its own would.
const moved = async (from, body) => {
  await drained(from, true)
  const reply = await complete(a, body)
  await drained(from, false)
  assert.equal(reply.node, other(from))
  return reply
}
// Rows come again: at once, or after the half minute for which a node leaves another one alone that was silent.
let nTries = 0
const untilFetched = () =>
  until('a prompt is fetched', async () => {
    const body = { prompt: promptOf(`try-${++nTries}`, 1000) }
    const first = await complete(a, body)
    const again = await moved(first.node, body)
    assert.equal(again.text, first.text)
    if (again.cached < 3 * block) await sleep(1000)
    return again.cached >= 3 * block
  })
const carrierOf = (node) =>
  childrenOf(node.server.child.pid).find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[1] === 'carrier')

await a.start()
await b.start()
await untilUp([a, b])

await check('a prompt that another node has read is fetched, and the reply is the same', async () => {
  for (const name of ['rivers', 'mountains']) {
    const body = { prompt: promptOf(name, 1500) }
    const first = await complete(a, body)
    assert.equal(first.cached < 16, true) // all prompts begin alike
    const from = first.node
    const [well, served] = [await pulls(other(from), 'well'), await metric(from, 'hearth_fleet_served_rows_total')]
    const again = await moved(from, body)
    assert.equal(again.text, first.text)
    assert.equal(again.cached >= 1500 - 1500 % block, true, `${again.cached} tokens were cached`)
    assert.equal(await pulls(other(from), 'well'), well + 1)
    assert.equal(await metric(from, 'hearth_fleet_served_rows_total') > served, true)
  }
})

await check('a prompt of less than a block, and one that nobody has read, are computed', async () => {
  const before = await Promise.all([a, b].map((node) => metric(node, 'hearth_fleet_served_rows_total')))
  for (const n of [200, 700]) {
    const body = { prompt: promptOf(`new-${n}`, n) }
    const first = await complete(a, body)
    if (n < block) assert.equal((await moved(first.node, body)).text, first.text)
  }
  assert.deepEqual(await Promise.all([a, b].map((node) => metric(node, 'hearth_fleet_served_rows_total'))), before)
})

// Six turns of a conversation, which moves with each if wanted: how many tokens were cached, and came from where.
const converse = async ({ name, move, body, key }) => {
  const messages = []
  let from = null
  let nCached = 0
  for (let turn = 0; turn < 6; turn++) {
    messages.push({ role: 'user', content: `${name}, turn ${turn}: ${promptOf('tale', 300)}` })
    if (move && from) await drained(from, true)
    const reply = await ask({ port: a.port, key }, 'POST', '/v1/chat/completions', JSON.stringify({ messages, max_tokens: 40, ignore_eos: true, ...body }))
    assert.equal(reply.status, 200, reply.text)
    if (move && from) await drained(from, false)
    const { choices: [{ message }], usage } = JSON.parse(reply.text)
    nCached += turn > 0 ? usage.prompt_tokens_details?.cached_tokens ?? 0 : 0
    messages.push({ role: 'assistant', content: message.content })
    from = reply.headers['x-hearth-node'] === 'a' ? a : b
  }
  return nCached
}
const asks = (node, end) => metric(node, `hearth_fleet_history_asks_total{end="${end}"}`)

await check('a conversation that moves with each turn is cached as if it had stayed', async () => {
  const body = { model: 'm', temperature: 0 }
  const stayed = await converse({ name: 'Stays', body })
  const moves = await converse({ name: 'Moves', move: true, body })
  assert.equal(moves >= 0.98 * stayed, true, `${moves} tokens were cached, ${stayed} at one node`)
})

await check('and so is one whose replies have other tokens than the tokenizer makes of their text', async () => {
  const body = { model: 'odd', seed: 7, ...freely }
  const stayed = await converse({ name: 'Stays', body })
  const well = await asks(a, 'well')
  const moves = await converse({ name: 'Moves', move: true, body })
  assert.equal(moves >= 0.98 * stayed, true, `${moves} tokens were cached, ${stayed} at one node`)
  assert.equal(await asks(a, 'well') >= well + 4, true)
})

await check('a node that does not answer the question what it knows holds a request up for half a second', async () => {
  const body = { prompt: promptOf('silent', 1000) }
  const { node: from, text } = await complete(a, body)
  const worker = childrenOf(from.server.child.pid).find((pid) => {
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    return args[1] === 'worker' && args.includes('m')
  })
  const broken = await asks(a, 'broken')
  await drained(from, true)
  process.kill(worker, 'SIGSTOP')
  const again = await complete(a, body)
  process.kill(worker, 'SIGCONT')
  await drained(from, false)
  assert.equal(again.node, other(from))
  assert.equal(again.text, text)
  assert.equal(await asks(a, 'broken'), broken + 1)
  await untilUp([a, b]) // its worker may have been taken for one that hangs
})

await check('a carrier that is killed is started again, and fails no request', async () => {
  for (const whose of ['source', 'fetcher']) {
    const body = { prompt: promptOf(`killed-${whose}`, 1000) }
    const first = await complete(a, body)
    const node = whose === 'source' ? first.node : other(first.node)
    const pid = carrierOf(node)
    process.kill(pid, 'SIGKILL')
    assert.equal((await moved(first.node, body)).text, first.text)
    await until('the carrier runs again', () => ![undefined, pid].includes(carrierOf(node)))
    await untilFetched()
  }
})

await check('strangers at the port of nodes get nothing, and keep nobody out', async () => {
  const port = Number(a.address.split(':')[1])
  const said = []
  for (const bytes of ['H', 'HRW1', 'HRW1GET / HTTP/1.1\r\n\r\n', 'HRW1\x16\x03\x01', 'GET / HTTP/1.1\r\n\r\n', '\0'.repeat(2000)]) {
    const socket = net.connect(port, '127.0.0.1').on('error', () => {})
    socket.on('data', (data) => said.push(data.toString('latin1')))
    socket.write(bytes)
    await sleep(50)
    if (bytes.length > 1) socket.end()
  }
  assert.equal(said.filter((text) => text.includes('HTTP') || text.length > 200).length, 0)
  await untilFetched()
})

await check('both end in order', async () => {
  await b.stop()
  await a.stop()
})
finish()
