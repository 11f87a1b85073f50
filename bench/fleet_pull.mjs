// fleet_pull.mjs - a prompt that the other node has read: the time until its first token where it is computed, and where its rows are fetched
//
//   node fleet_pull.mjs --hearth PROGRAM --work DIRECTORY --model GGUF [--tokens N] [--rounds N]
//
// Each round has a prompt of its own. One node computes it; then that node drains, the other one gets the prompt, and
// then once more. The link is the loopback interface, and both nodes share the processors.
import { makeFleet, until, untilUp } from '../tests/fleet/nodes.mjs'
import { ask } from '../tests/support/server.mjs'

const options = { tokens: 2048, rounds: 3, model: '' }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
const [a, b] = await makeFleet({
  hearth: options.hearth, work: options.work, names: ['a', 'b'], models: () => [`m=${options.model}`],
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
for (let round = 0; round < options.rounds; round++) {
  // Tokens, not text, so that their number is known.
  const prompt = Array.from({ length: options.tokens }, (_, i) => 5 + ((i * 7919 + round * 104729 + (i * i) % 613) % 1500))
  const body = { model: 'm', prompt, max_tokens: 1, temperature: 0 }
  const cold = await timed(body)
  await drain(cold.node, 'drain')
  const fetched = await timed(body)
  const warm = await timed(body)
  await drain(cold.node, 'undrain')
  console.log(`${cold.prompt} tokens: computed ${cold.ms.toFixed(0)} ms, fetched ${fetched.ms.toFixed(0)} ms (${fetched.cached} cached), there already ${warm.ms.toFixed(1)} ms${fetched.text === cold.text ? '' : '; OTHER TEXT'}`)
}
await b.stop()
await a.stop()
process.exit(0)
