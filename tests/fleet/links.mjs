// links.mjs - rows that nodes fetch over links that are slow, stall or die; started by tests/e2e/fleet_links_test.sh
//
// HEARTH is the program, WORK an empty directory, MODELS a list of real models, NAME=FILE. SERVER_URL is not used.
//
// A token of a prompt takes the engine 2 ms, and its reply depends on all tokens before: see pull.mjs. No check depends
// on how long something takes; bench/fleet.sh measures that.
import { join } from 'node:path'
import { assert, check, finish } from '../clients/checks.mjs'
import { drain, makeFleet, untilUp } from './nodes.mjs'
import { makeLink } from './link.mjs'
import { ask } from '../support/server.mjs'

const { HEARTH: hearth, WORK: work, MODELS: models = '' } = process.env
const real = models.split(' ').filter(Boolean)
const kinds = ['plain', 'hybrid', 'recurrent']
const nTokens = 800
const block = 256

const links = new Map() // by the address behind
const [a, b] = await makeFleet({
  hearth, work: join(work, 'links'), names: ['a', 'b'], models: () => [...kinds.map((kind) => `${kind}=stub:kind=${kind},delay_us=2000`), ...real],
  args: ['--ctx', '4096'],
  reachedAt: async (address) => {
    links.set(address, await makeLink(address))
    return links.get(address).address
  },
})
const complete = async (model, prompt) => {
  const reply = await ask({ port: a.port }, 'POST', '/v1/completions', JSON.stringify({ model, prompt, max_tokens: 8, temperature: 0, ignore_eos: true }))
  assert.equal(reply.status, 200, reply.text)
  const { choices: [{ text }], usage } = JSON.parse(reply.text)
  return { text, cached: usage.prompt_tokens_details?.cached_tokens ?? 0, node: reply.headers['x-hearth-node'] === 'a' ? a : b }
}
const drained = (node, isDraining) => drain(node, node === a ? b : a, isDraining)
// The number of fetches that ended in one of these ways.
const pulls = async (node, ends) => {
  const text = await node.metrics()
  return ends.reduce((sum, end) => sum + Number(new RegExp(`^hearth_fleet_pulls_total\\{end="${end}"\\} (\\d+)`, 'm').exec(text)?.[1] ?? 0), 0)
}
const bad = ['slow', 'broken'] // which of them, a busy machine may decide
const leftBy = ({ nConnections, nEnded }) => ({ nConnections, nEnded })
let nPrompts = 0
// Node a computes a prompt, and then node b, which reaches a over a link with such limits. How many bytes and connections the link had, and how many fetches ended in one of these ways, goes along.
const moved = async (model, limits, ends, nBytesOfPrompt = nTokens) => {
  const prompt = `${++nPrompts} over the river `.repeat(nBytesOfPrompt).slice(0, nBytesOfPrompt)
  await drained(b, true)
  const first = await complete(model, prompt)
  assert.equal(first.node, a)
  // A node that was started anew does not remember that a link was bad a moment ago, and tries it.
  await b.stop()
  await b.start()
  await untilUp([a, b])
  await drained(a, true)
  const link = links.get(a.address)
  link.set(limits)
  const again = await complete(model, prompt)
  const { nBytes, nConnections } = link
  const nEnded = await pulls(b, ends)
  link.set({})
  await drained(a, false)
  assert.equal(again.node, b)
  assert.equal(again.text, first.text)
  return { cached: again.cached, nBytes, nConnections, nEnded }
}

await a.start()
await b.start()
await untilUp([a, b])

const left = { nConnections: 1, nEnded: 1 }
for (const kind of kinds) {
  let whole = 0 // bytes of the rows
  await check(`a good link brings the rows of a model that is ${kind}`, async () => {
    const { cached, nBytes, nEnded } = await moved(kind, {}, ['well'])
    assert.deepEqual({ nEnded, isCached: cached >= nTokens - nTokens % block }, { nEnded: 1, isCached: true })
    whole = nBytes
  })
  if (kind === 'hybrid')
    await check('a link that takes half the time of computing is left for a model that needs all rows', async () => {
      assert.deepEqual(leftBy(await moved(kind, { bytesPerSecond: whole / (nTokens * 0.002) * 2 }, bad)), left)
    })

  for (const part of [0, 0.7]) {
    await check(`a link that stalls after ${part} of the rows costs no reply, ${kind}`, async () => {
      assert.deepEqual(leftBy(await moved(kind, { stallAfter: Math.floor(part * whole) }, bad)), left)
    })
    await check(`a link that dies after ${part} of the rows costs no reply, ${kind}`, async () => {
      assert.deepEqual(leftBy(await moved(kind, { dieAfter: Math.floor(part * whole) }, bad)), left)
    })
  }
  await check(`a link that takes longer than computing is left, ${kind}`, async () => {
    assert.deepEqual(leftBy(await moved(kind, { bytesPerSecond: whole / 20 }, bad)), left)
  })
}

await check('afterwards a good link brings rows as before', async () => {
  for (const kind of kinds) assert.equal((await moved(kind, {}, ['well'])).cached >= nTokens - nTokens % block, true)
})

// These compute so fast that only a node that has not measured it yet fetches their rows: b is always a new one.
for (const model of real.map((one) => one.split('=')[0])) {
  await check(`rows of a real model come, and the reply is the same: ${model}`, async () => {
    const { cached, nEnded } = await moved(model, {}, ['well'], 6000)
    assert.deepEqual({ nEnded, isCached: cached >= 2 * block }, { nEnded: 1, isCached: true })
  })
}

await check('both end in order', async () => {
  await b.stop()
  await a.stop()
  for (const link of links.values()) link.close()
})
finish()
