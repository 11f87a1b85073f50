// tormentor.mjs - kills, stops and starves the workers of a server at random moments, by a seed
//
//   kill    SIGKILL
//   hang    SIGSTOP alone: the server must notice
//   pause   SIGSTOP, and SIGCONT a little later, sometimes too late
//   starve  busy loops on every processor, the worker at the lowest priority
//   crash   SIGSEGV, as after a fault
import { spawn } from 'node:child_process'
import os from 'node:os'
import { drawer } from './draw.mjs'
import { childrenOf, isAlive, sleep } from '../support/server.mjs'

const often = ['kill', 'kill', 'kill', 'kill', 'kill', 'hang', 'pause', 'starve']

// A kind is drawn as often as `kinds` lists it; `isMeant(pid)` chooses the workers, `onHit(pid)` is told.
export const torment = (server, { seed, pauseMs, hangMs, kinds = often, isMeant = () => true, onHit = () => {} }) => {
  const draw = drawer(seed ^ 0xc4a05)
  const counts = { kill: 0, hang: 0, pause: 0, starve: 0, crash: 0 }
  let goesOn = true

  const signal = (pid, name) => {
    try {
      process.kill(pid, name)
      return true
    } catch {
      return false // it ended before
    }
  }
  const starve = async (pid, ms) => {
    const hogs = Array.from({ length: 2 * os.cpus().length }, () => spawn('sh', ['-c', 'while :; do :; done'], { stdio: 'ignore' }))
    const priority = os.getPriority(pid)
    try {
      os.setPriority(pid, 19)
    } catch { /* it ended before */ }
    await sleep(ms)
    for (const hog of hogs) hog.kill('SIGKILL')
    try {
      os.setPriority(pid, priority)
    } catch { /* it ended meanwhile, or only the system's owner may */ }
  }
  const once = async () => {
    const workers = childrenOf(server.pid).filter(isMeant)
    if (workers.length === 0) return
    const pid = draw.pick(workers)
    const kind = draw.pick(kinds)
    onHit(pid)
    if (kind === 'kill' && signal(pid, 'SIGKILL')) counts.kill++
    if (kind === 'crash' && signal(pid, 'SIGSEGV')) counts.crash++
    if (kind === 'hang' && signal(pid, 'SIGSTOP')) {
      counts.hang++
      for (const end = Date.now() + 20 * hangMs + 20000; isAlive(pid) && goesOn; await sleep(20))
        if (Date.now() > end) throw new Error(`a worker that was stopped has not been replaced: ${pid}`)
      signal(pid, 'SIGCONT') // where everything ended before
    }
    if (kind === 'pause' && signal(pid, 'SIGSTOP')) {
      counts.pause++
      await sleep(draw.pick([hangMs / 8, hangMs / 2, hangMs]))
      signal(pid, 'SIGCONT')
    }
    if (kind === 'starve') {
      counts.starve++
      await starve(pid, 100 + draw.next(300))
    }
  }
  const run = (async () => {
    while (goesOn) {
      await sleep(pauseMs / 2 + draw.next(pauseMs))
      if (goesOn) await once()
    }
  })()
  run.catch(() => {}) // whoever awaits end() is told
  return { counts, end: async () => { goesOn = false; await run } }
}
