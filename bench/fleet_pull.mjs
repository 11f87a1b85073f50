// fleet_pull.mjs - a prompt that the other node has read: the time until its first token where it is computed, and where its rows are fetched
//
//   node fleet_pull.mjs --hearth PROGRAM --work DIRECTORY --model GGUF [--tokens N] [--rounds N] [--warm 0]
//                       [--link loopback|1gbit|slow|stall|die] [--mbit N] [--after-mb N]
//
// Each round has a prompt of its own. One node computes it; then that node drains, the other one gets the prompt, and
// then once more. Both nodes share the processors. Before that, each computes another prompt, so that it knows how long
// that takes; with --warm 0 the first rounds show what happens when it does not.
//
// --link: rows pass a forwarder (tests/fleet/link.mjs), which limits their connections and no others. 1gbit is a good
// link; slow one of 8 Mbit/s; stall and die are 1 Gbit/s until 10 MB of rows have come, then nothing more comes, or the
// connection is reset. --mbit and --after-mb set these numbers. The time that passed until the node gave up is printed,
// too. The forwarder shares the processors, and rounds are so far apart that a bad link is tried anew in each.
import { makeLink } from '../tests/fleet/link.mjs'
import { makeFleet, until, untilUp } from '../tests/fleet/nodes.mjs'
import { ask, sleep } from '../tests/support/server.mjs'

const options = { tokens: 2048, rounds: 3, warm: 1, model: '', link: 'loopback', mbit: 0, 'after-mb': 10 }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
const mbits = { loopback: 0, '1gbit': 1000, slow: 8, stall: 1000, die: 1000 }
if (!(options.link in mbits)) throw new Error(`--link is one of ${Object.keys(mbits).join(', ')}`)
const after = options['after-mb'] * 1e6
const limits = {
  bytesPerSecond: (options.mbit || mbits[options.link]) * 1e6 / 8,
  ...(options.link === 'stall' ? { stallAfter: after } : {}), ...(options.link === 'die' ? { dieAfter: after } : {}),
}
const links = []
const reachedAt = async (address) => {
  if (options.link === 'loopback') return address
  links.push(await makeLink(address))
  return links.at(-1).address
}
const [a, b] = await makeFleet({
  hearth: options.hearth, work: options.work, names: ['a', 'b'], reachedAt, models: () => [`m=${options.model}`],
  args: ['--ctx', String(options.tokens + 512), '--no-access-log'],
})
await a.start()
await b.start()
await untilUp([a, b])

const other = (node) => (node === a ? b : a)
const timed = async (body) => {
  const begin = process.hrtime.bigint()
  const reply = await ask({ port: a.port }, 'POST', '/v1/completions', JSON.stringify(body))
  if (reply.status !== 200) throw new Error(reply.text)
  const { usage, choices: [{ text }] } = JSON.parse(reply.text)
  return { ms: Number(process.hrtime.bigint() - begin) / 1e6, text, prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details?.cached_tokens ?? 0, node: reply.headers['x-hearth-node'] === 'a' ? a : b }
}
const drain = async (node, order) => {
  await node.order({ [order]: node.name })
  await until(`${node.name}: ${order}`, async () => (await other(node).sees(node)) === (order === 'drain' ? 'draining' : 'up'))
}
// Tokens, not text, so that their number is known.
const bodyOf = (round) => ({ model: 'm', max_tokens: 1, temperature: 0, prompt: Array.from({ length: options.tokens }, (_, i) => 5 + ((i * 7919 + round * 104729 + (i * i) % 613) % 1500)) })
const tryAgainMs = 31_000
const ratios = []
for (const node of options.warm ? [a, b] : []) {
  await drain(other(node), 'drain')
  await timed(bodyOf(node === a ? 1000 : 1001))
  await drain(other(node), 'undrain')
}
for (let round = 0, last = -Infinity; round < options.rounds; round++) {
  const body = bodyOf(round)
  const cold = await timed(body)
  if (['slow', 'stall', 'die'].includes(options.link)) await sleep(Math.max(0, last + tryAgainMs - performance.now()))
  await drain(cold.node, 'drain')
  for (const link of links) link.set(limits)
  const fetched = await timed(body)
  last = performance.now()
  const [nBytes, openMs] = ['nBytes', 'ms'].map((what) => links.reduce((sum, link) => sum + link[what], 0))
  const warm = await timed(body)
  await drain(cold.node, 'undrain')
  ratios.push(fetched.ms / cold.ms)
  console.log(`${cold.prompt} tokens: computed ${cold.ms.toFixed(0)} ms, fetched ${fetched.ms.toFixed(0)} ms (${fetched.cached} cached), there already ${warm.ms.toFixed(1)} ms` +
    `, ratio ${ratios.at(-1).toFixed(3)}${links.length > 0 ? `, ${(nBytes / 1e6).toFixed(1)} MB passed in ${openMs.toFixed(0)} ms (${(openMs / cold.ms).toFixed(3)} of computing)` : ''}${fetched.text === cold.text ? '' : '; OTHER TEXT'}`)
}
console.log(`link ${options.link}: ratio ${ratios.sort((x, y) => x - y)[Math.floor(ratios.length / 2)].toFixed(3)} (median)`)
await b.stop()
await a.stop()
for (const link of links) link.close()
process.exit(0)
