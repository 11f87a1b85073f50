// servers.mjs - start both servers for the benchmarks, and print results in the form of report.c
//
// Ours and llama-server run side by side and take turns, so that a slow moment of the machine hits both; an idle server
// takes no processor. Both get the same token ids, threads, KV types and flash attention, and both compute with the
// engine of one source tree. The other options of llama-server make it faster: no log, and the reuse of pieces of a
// prompt that moved. Its defaults for spinning threads and for the cache of prompts (8 GiB) stay. Ours runs with its
// defaults, but keeps rows in at most 512 MiB.
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import { join } from 'node:path'
import { ask, childrenOf, freePort, isAlive, residentBytes, sleep, start, stop } from '../tests/support/server.mjs'

const words = process.argv.slice(2)
export const option = (name) => words[words.indexOf(`--${name}`) + 1]
const [build, peerDirectory, work] = ['build', 'peer', 'work'].map(option)
const form = words.includes('--json') ? 'json' : words.includes('--text') ? 'text' : 'markdown'
const verbose = words.includes('--verbose')
export const quick = process.env.QUICK === '1'
export const threads = os.cpus().length
process.setMaxListeners(0) // one for each server that was started

// ---- results, in the form of report.c ----

export const three = (value) => value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3)
const unitOf = (unit) => (unit ? ` ${unit}` : '')
const result = ({ name, unit = '', own, peerName, peer, value, valueUnit = '', bound, target }) => {
  const isMet = !bound || (bound === 'at most' ? value <= target : value >= target)
  if (form === 'json')
    return console.log(JSON.stringify({ name, ...(peerName ? { own, peer_name: peerName, peer, unit } : {}), value, value_unit: valueUnit, ...(bound ? { bound, target, met: isMet } : {}) }))
  if (form === 'text')
    return console.log(`${name}: ${peerName ? `${three(own)} ${unit}; ${peerName} ${three(peer)} ${unit}; ratio ` : ''}${three(value)}${unitOf(valueUnit)}` +
      (bound ? ` (target: ${bound} ${target}${unitOf(valueUnit)})${isMet ? '' : ' FALLS SHORT'}` : ''))
  console.log(`| ${name} | ${peerName ? `${three(own)} ${unit} | ${peerName}: ${three(peer)} ${unit}` : '|'} | **${three(value)}${unitOf(valueUnit)}** | ` +
    (bound ? `${bound} ${target}${unitOf(valueUnit)} | ${isMet ? 'yes' : '**no**'} |` : '| |'))
}
export const ratio = (name, unit, own, peerName, peer, bound, target) => result({ name, unit, own, peerName, peer, value: own / peer, bound, target })
export const number = (name, value, valueUnit, bound, target) => result({ name, value, valueUnit, bound, target })
export const detail = (text) => verbose && console.error(`    ${text}`)
export const head = (text) => form === 'markdown' && console.log(`\n${text}\n\n| | Hearth | held against | result | target | met |\n| --- | --- | --- | --- | --- | --- |`)
export const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]

// ---- servers ----

export const N_PARALLEL = 8

// What every server gets, besides model, address, context, slots and threads.
export const OWN_FLAGS = ['--ram', '512M', '--no-access-log']
export const PEER_FLAGS = ['-fa', 'on', '-ctk', 'f16', '-ctv', 'f16', '--cache-reuse', '256', '--log-disable']

export const own = async (name, model, nCtx, more = [], nParallel = N_PARALLEL) => {
  const directory = join(work, name)
  mkdirSync(directory, { recursive: true })
  rmSync(join(directory, 'port'), { force: true })
  const begin = process.hrtime.bigint()
  const server = await start({
    program: join(build, 'hearth'), portFile: join(directory, 'port'), pollMs: 2,
    args: ['-m', `model=${model}`, '-c', nCtx, '--n-parallel', nParallel, '-t', threads, '--cache', join(directory, 'kv'),
      '--runtime-directory', join(directory, 'run'), '--log-file', join(directory, 'log'), ...OWN_FLAGS, ...more].map(String),
  })
  return { ...server, begin, kind: 'own', directory, url: `http://127.0.0.1:${server.port}`, stop: () => stop(server), kill: () => kill(server) }
}

// Ends a server without warning. Its workers have ended, too, when this returns.
const kill = async ({ child, pid, ended }) => {
  const workers = childrenOf(pid)
  child.kill('SIGKILL')
  await ended
  while (workers.some(isAlive)) await sleep(2)
}

export const peer = async (model, nCtx, more = [], nParallel = N_PARALLEL) => {
  if (!peerDirectory) return null
  const port = await freePort()
  const log = openSync(join(work, 'peer.log'), 'w')
  const begin = process.hrtime.bigint()
  const child = spawn(join(peerDirectory, 'llama-server'), ['-m', model, '--host', '127.0.0.1', '--port', port, '-c', nCtx, '-np', nParallel,
    '-t', threads, '-tb', threads, ...PEER_FLAGS, ...more].map(String), { stdio: ['ignore', log, log] })
  closeSync(log)
  let exit = null
  const ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve((exit = { code, signal }))))
  process.on('exit', () => exit ?? child.kill('SIGKILL'))
  for (const end = Date.now() + 120000; Date.now() < end && !exit; await sleep(2))
    if ((await ask({ port }, 'GET', '/health').catch(() => null))?.status === 200)
      return {
        kind: 'peer', pid: child.pid, port, begin, url: `http://127.0.0.1:${port}`, kill: () => kill({ child, pid: child.pid, ended }),
        // It keeps nothing. Its handler of SIGTERM takes a lock that the thread may have already, and then waits for ever.
        stop: () => kill({ child, pid: child.pid, ended }),
      }
  child.kill('SIGKILL')
  throw new Error(`llama-server was not ready: ${readFileSync(join(work, 'peer.log'), 'utf8').slice(-2000)}`)
}

// Memory of a server and its workers.
export const residentMiB = (server) => [server.pid, ...childrenOf(server.pid)].reduce((sum, pid) => sum + residentBytes(pid), 0) / 2 ** 20

// Seconds of processor time that a server and its workers have used.
export const cpuSeconds = (server) => {
  const ticks = [server.pid, ...childrenOf(server.pid)].map((pid) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /, '').split(' ')
    return Number(fields[11]) + Number(fields[12])
  })
  return ticks.reduce((sum, it) => sum + it, 0) / 100
}

export const machine = () =>
  `${threads} cores of ${os.cpus()[0]?.model ?? os.arch()}, ${Math.round(os.totalmem() / 2 ** 30)} GiB, ${os.type()} ${os.release()}`
export const today = () => new Date().toISOString().slice(0, 10)
export const printMachine = () => form === 'markdown' && console.log(`Machine: ${machine()}. Date: ${today()}.`)

// A prompt of n tokens, of which no piece comes twice: a server may reuse any piece that it knows. One seed gives
// prompts that begin alike. The state goes on as xorshift32 does (Marsaglia, "Xorshift RNGs", 2003).
export const prompt = (n, seed) => {
  let state = (Math.imul(seed + 1, 0x9e3779b1) | 0) || 1
  const next = () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return 300 + ((state >>> 0) % 1500)
  }
  for (let i = 0; i < 8; i++) next() // near seeds begin with near states
  return [1, ...Array.from({ length: n - 1 }, next)]
}
