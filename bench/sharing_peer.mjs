// sharing_peer.mjs - send the same requests at once to llama-server, and measure its computed tokens and its delay
//
//   node sharing_peer.mjs LLAMA_SERVER MODEL N_PARALLEL N_CTX N_THREADS PROMPTS.json...
//
// Starts the server on a free port of the loopback interface, sends the prompts of each file (arrays of token ids, one
// array a request; sharing_bench prints them) at once with one token to predict, and ends the server by its id. Prints
// two numbers: the median over the files of the milliseconds until every request had its token, and of the prompt
// tokens that were computed.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { freePort } from './free_port.mjs'

const [program, model, nParallel, nCtx, nThreads, ...files] = process.argv.slice(2)
if (files.length === 0) {
  console.error('usage: sharing_peer.mjs LLAMA_SERVER MODEL N_PARALLEL N_CTX N_THREADS PROMPTS.json...')
  process.exit(2)
}
const START_MS = 120000
const agent = new http.Agent({ keepAlive: true, maxSockets: 256 })

const call = (port, method, path, body) =>
  new Promise((resolve, reject) => {
    const request = http.request(
      { host: '127.0.0.1', port, method, path, agent, headers: { 'content-type': 'application/json' } },
      (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (piece) => (text += piece))
        response.on('end', () => resolve({ status: response.statusCode, text }))
      },
    )
    request.on('error', reject)
    request.end(body)
  })

const wait = async (port, server) => {
  for (const end = Date.now() + START_MS; Date.now() < end; ) {
    if (server.exitCode !== null) throw new Error(`the server ended with ${server.exitCode}`)
    const answer = await call(port, 'GET', '/health').catch(() => null)
    if (answer?.status === 200) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`the server was not ready after ${START_MS / 1000} s`)
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]

const port = await freePort()
const server = spawn(
  program,
  ['-m', model, '--host', '127.0.0.1', '--port', port, '--parallel', nParallel, '-c', nCtx, '-t', nThreads, '-tb', nThreads,
    '-fa', 'on', '-ctk', 'f16', '-ctv', 'f16'].map(String),
  { stdio: ['ignore', 'ignore', 'pipe'] },
)
let log = ''
server.stderr.on('data', (piece) => (log = (log + piece).slice(-4000)))
server.on('error', (error) => (log = String(error)))
process.on('exit', () => server.kill('SIGKILL'))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1))

try {
  await wait(port, server)
  const times = []
  const computed = []
  for (const file of files) {
    // Bodies are ready before the clock starts.
    const bodies = JSON.parse(readFileSync(file, 'utf8')).map((prompt) =>
      JSON.stringify({ prompt, n_predict: 1, temperature: 0, ignore_eos: true, cache_prompt: true, stream: false }),
    )
    const begin = process.hrtime.bigint()
    const answers = await Promise.all(bodies.map((body) => call(port, 'POST', '/completion', body)))
    times.push(Number(process.hrtime.bigint() - begin) / 1e6)
    let n = 0
    for (const { status, text } of answers) {
      if (status !== 200) throw new Error(`the server answered ${status}: ${text.slice(0, 300)}`)
      n += JSON.parse(text).timings.prompt_n
    }
    computed.push(n)
  }
  console.log(`${median(times).toFixed(1)} ${median(computed)}`)
  process.exitCode = 0
} catch (error) {
  console.error(`sharing_peer: ${error.message}\n${log}`)
  process.exitCode = 1
}
server.kill('SIGTERM')
agent.destroy()
const killer = setTimeout(() => server.kill('SIGKILL'), 10000)
server.on('exit', () => clearTimeout(killer))
