// embed.mjs - inputs a second of embeddings, ours beside llama-server's
//
// One request has 64 inputs of 128 tokens. Both servers get the same tokens and answer in base64; they are asked in
// turns. Started by generation.sh (PARTS=embed).
import { detail, head, median, option, own, peer, printMachine, prompt, quick, ratio } from './servers.mjs'

const [model, name] = ['model', 'name'].map(option)
const rounds = Number(process.env.ROUNDS ?? 5)
const [N_INPUTS, N_TOKENS] = quick ? [4, 16] : [64, 128]

const inputs = (round) => Array.from({ length: N_INPUTS }, (_, i) => prompt(N_TOKENS, round * N_INPUTS + i))

// Inputs a second of one request.
const rate = async (server, round) => {
  const body = JSON.stringify({ model: 'model', input: inputs(round), encoding_format: 'base64' })
  const begin = process.hrtime.bigint()
  const reply = await fetch(`${server.url}/v1/embeddings`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
  const read = await reply.json()
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9
  if (reply.status !== 200 || read.data.length !== N_INPUTS) throw new Error(`${server.kind}: ${JSON.stringify(read).slice(0, 500)}`)
  return N_INPUTS / seconds
}

const servers = [await own('embed', model, 512), await peer(model, 4096, ['--embeddings', '--pooling', 'mean', '-b', 512, '-ub', 512])].filter(Boolean)
const rates = servers.map(() => [])
for (let round = -1; round < rounds; round++)
  for (const [i, server] of servers.entries()) {
    const found = await rate(server, round + 1)
    detail(`${server.kind}: ${found.toFixed(1)} inputs/s`)
    if (round >= 0) rates[i].push(found) // the first one makes the context
  }
for (const server of servers) await server.stop()
printMachine()
head(`${name}: embeddings`)
const [ours, theirs] = rates.map(median)
ratio(`${N_INPUTS} inputs of ${N_TOKENS} tokens`, 'inputs/s', ours, servers.length > 1 ? 'llama-server' : undefined, theirs ?? ours, servers.length > 1 ? 'at least' : undefined, 1)
