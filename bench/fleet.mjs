// fleet.mjs - what another node adds to a request: the same model is asked at its own node, and through another one
//
//   node fleet.mjs --hearth PROGRAM --work DIRECTORY [--requests N] [--streams N] [--engine MODEL]
//
// The engine is the tests' one without a model, so that nothing else takes time. Requests take turns, so that both ways
// see the same machine. Then the node is killed while streams run through it: the pause of each is measured. Each node
// has room for all streams, so that none waits for the end of another. --engine: the model of the streams, as
// tests/stub/backend.c tells it: with delay_us each row takes its time, with step_us each evaluation.
import { join } from 'node:path'
import http from 'node:http'
import { answers } from '../tests/chaos/answers.mjs'
import { makeFleet, until, untilUp } from '../tests/fleet/nodes.mjs'
import { residentBytes, sleep } from '../tests/support/server.mjs'

const options = { requests: 2000, streams: 100, engine: 'stub:delay_us=300' }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
const [a, b] = await makeFleet({
  hearth: options.hearth, work: options.work, names: ['a', 'b'],
  models: (name) => [...(name === 'a' ? [] : ['fast=stub:']), `slow=${options.engine}`],
  args: ['--no-access-log', '--n-parallel', '128', '--ctx', '32768'],
})
await a.start()
await b.start()
await untilUp([a, b])

const agent = new http.Agent({ keepAlive: true })
const timed = (port, body) =>
  new Promise((resolve, reject) => {
    const begin = process.hrtime.bigint()
    const request = http.request({ host: '127.0.0.1', port, method: 'POST', path: '/v1/completions', agent, headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } }, (response) => {
      response.on('data', () => {})
      response.on('end', () => (response.statusCode === 200 ? resolve(Number(process.hrtime.bigint() - begin) / 1e6) : reject(new Error(`status ${response.statusCode}`))))
    })
    request.on('error', reject)
    request.end(body)
  })
const at = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))]

const own = [], relayed = []
for (let i = 0; i < options.requests + 100; i++) {
  const body = JSON.stringify({ model: 'fast', prompt: 'Once upon a time', max_tokens: 1, temperature: 0 })
  const direct = await timed(b.port, body)
  const through = await timed(a.port, body)
  if (i < 100) continue // warm
  own.push(direct)
  relayed.push(through)
}
own.sort((x, y) => x - y)
relayed.sort((x, y) => x - y)
console.log(`own node:        p50 ${at(own, 0.5).toFixed(3)} ms, p99 ${at(own, 0.99).toFixed(3)} ms`)
console.log(`through another: p50 ${at(relayed, 0.5).toFixed(3)} ms, p99 ${at(relayed, 0.99).toFixed(3)} ms`)
console.log(`added:           p50 ${(at(relayed, 0.5) - at(own, 0.5)).toFixed(3)} ms, p99 ${(at(relayed, 0.99) - at(own, 0.99)).toFixed(3)} ms (${options.requests} requests each)`)

// A node is killed while streams run.
const requests = Array.from({ length: options.streams }, (_, i) => ({
  path: '/v1/completions', index: i, stream: true,
  body: JSON.stringify({ model: 'slow', prompt: `Prompt ${i}`, max_tokens: 200, temperature: 0, ignore_eos: true, stream: true }),
}))
const running = answers(a.port, requests, options.streams)
await until('streams run at b', async () => ((await a.page()).nodes[0].in_flight ?? 0) >= options.streams / 4)
await sleep(500)
const nAtB = (await a.page()).nodes[0].in_flight
await b.kill()
const got = await running
const pauses = got.filter(({ node }) => node === 'b').map(({ pauseMs }) => pauseMs).sort((x, y) => x - y)
const calm = got.filter(({ node }) => node === 'a').map(({ pauseMs }) => pauseMs).sort((x, y) => x - y)
const lost = got.filter(({ status, error, text }) => status !== 200 || error || !text.endsWith('data: [DONE]\n\n')).length
console.log(`killed with ${nAtB} of ${options.streams} streams: ${lost} lost; longest pause p50 ${at(pauses, 0.5)} ms, p99 ${at(pauses, 0.99)} ms (streams at the other node: ${at(calm, 0.5)} and ${at(calm, 0.99)} ms)`)
console.log(`front with one peer: ${(residentBytes(a.server.pid) / 1048576).toFixed(1)} MiB resident`)
await a.stop()
process.exit(0)
