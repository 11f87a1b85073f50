// server.mjs - a `hearth serve` of a test: started on a free port, asked for its numbers, stopped by its id
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// A port of the loopback interface that is free at this moment, for programs that need a number.
export const freePort = () =>
  new Promise((resolve, reject) => {
    const probe = net.createServer().on('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })

// Processes whose parent is this one, without help of any program.
export const childrenOf = (pid) =>
  readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return Number(fields[1]) === pid && fields[0] !== 'Z' ? [Number(name)] : []
    } catch {
      return [] // it has ended meanwhile
    }
  })

export const isAlive = (pid) => {
  try {
    process.kill(pid, 0)
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

export const residentBytes = (pid) =>
  1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
export const openFiles = (pid) => readdirSync(`/proc/${pid}/fd`).length

// A request; resolves to { status, headers, text } once the reply is complete, and rejects where it is cut.
export const ask = ({ port, socketPath, key, agent }, method, path, body) =>
  new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}) }
    if (body !== undefined) headers['content-length'] = Buffer.byteLength(body)
    const request = http.request({ host: '127.0.0.1', port, socketPath, method, path, headers, agent }, (response) => {
      const pieces = []
      response.on('data', (piece) => pieces.push(piece))
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text: Buffer.concat(pieces).toString() }))
      response.on('aborted', () => reject(new Error('the reply was cut')))
      response.on('error', reject)
    })
    request.on('error', reject)
    request.end(body)
  })

// args are those of `serve`, without a listener. Resolves once the server is ready.
export const start = async ({ program, args, portFile, env, startMs = 120000, pollMs = 10 }) => {
  const child = spawn(program, ['serve', '--listen', '127.0.0.1:0', '--port-file', portFile, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...env },
  })
  const server = { child, pid: child.pid, log: '', port: 0, exit: null }
  child.stderr.on('data', (piece) => (server.log = (server.log + piece).slice(-20000)))
  server.ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve((server.exit = { code, signal }))))
  child.on('error', (error) => (server.log += String(error)))
  process.on('exit', () => server.exit ?? child.kill('SIGKILL'))
  for (const end = Date.now() + startMs; Date.now() < end && !server.exit; await sleep(pollMs)) {
    if (server.port === 0) server.port = existsSync(portFile) ? Number(readFileSync(portFile, 'utf8').split('\n')[0]) : 0
    const answer = server.port ? await ask(server, 'GET', '/ready').catch(() => null) : null
    if (answer?.status === 200) return server
  }
  child.kill('SIGKILL')
  throw new Error(`the server was not ready, ${JSON.stringify(server.exit)}:\n${server.log}`)
}

// Stop it in order. Throws unless it ends with 0 and leaves no worker behind.
export const stop = async (server, stopMs = 60000) => {
  const workers = childrenOf(server.pid)
  server.child.kill('SIGTERM')
  const killer = setTimeout(() => server.child.kill('SIGKILL'), stopMs)
  const { code, signal } = await server.ended
  clearTimeout(killer)
  const left = workers.filter(isAlive)
  for (const pid of left) process.kill(pid, 'SIGKILL')
  if (code !== 0) throw new Error(`the server ended with ${code ?? signal}:\n${server.log}`)
  if (left.length > 0) throw new Error(`${left.length} workers outlived the server`)
}

// A number of /metrics, summed over its labels.
export const metric = (text, name) =>
  text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
