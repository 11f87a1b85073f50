// nodes.mjs - the nodes of a fleet on this machine, each a `hearth serve` with its own name and cache
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { ask, freePort, sleep, start, stop } from '../support/server.mjs'

process.setMaxListeners(0) // one for each start

// Make the nodes of these names. models: for -m, by name; args: of all nodes; own: more of one node, by name; isListed: each has a list of all; reachedAt: the address at which others reach the one at an address. Each node has: name, start(), kill(), stop(), page().
export const makeFleet = async ({ hearth, work, names, models, args = [], own = () => [], isListed = true, reachedAt = async (address) => address }) => {
  mkdirSync(work, { recursive: true })
  const file = join(work, 'fleet.pem')
  const made = spawnSync(hearth, ['fleet', 'init', '--file', file], { encoding: 'utf8' })
  if (made.status !== 0) throw new Error(`hearth fleet init: ${made.stderr}`)
  const ports = await Promise.all(names.map(freePort))
  const addresses = ports.map((port) => `127.0.0.1:${port}`)
  const reached = await Promise.all(addresses.map(reachedAt))

  return names.map((name, i) => {
    const home = join(work, name)
    const peers = isListed ? reached.flatMap((address, k) => ['--fleet-peer', k === i ? addresses[i] : address]) : []
    mkdirSync(home, { recursive: true })
    const node = {
      name, server: null, nStarts: 0, address: addresses[i], log: join(work, `${name}.log`),
      start: async () => {
        node.nStarts++
        node.server = await start({
          program: hearth, portFile: join(home, `port-${node.nStarts}`),
          args: [
            ...models(name).flatMap((model) => ['--model', model]), '--fleet', file, '--fleet-name', name,
            '--fleet-listen', addresses[i], ...peers, '--admin', `unix:${join(home, 'admin.sock')}`,
            '--cache', join(home, 'cache'), '--ram', '64M', '--runtime-directory', join(home, 'run'), '--log-file', node.log, ...args, ...own(name),
          ],
        })
        node.port = node.server.port
      },
      // As the kernel does: the server at once, its workers follow.
      kill: async () => {
        node.server.child.kill('SIGKILL')
        await node.server.ended
        node.server = null
      },
      stop: async () => {
        const { server } = node
        node.server = null
        if (server) await stop(server)
      },
      page: async () => JSON.parse((await ask({ socketPath: join(home, 'admin.sock') }, 'GET', '/admin/fleet')).text),
      order: (body) => ask({ socketPath: join(home, 'admin.sock') }, 'POST', '/admin/fleet', JSON.stringify(body)),
      metrics: async () => (await ask({ socketPath: join(home, 'admin.sock') }, 'GET', '/metrics')).text,
      // The state of another node, as this one sees it.
      sees: async (other) => (await node.page()).nodes.find((one) => one.name === other.name)?.state,
    }
    return node
  })
}

// Wait for a condition, for two minutes at most.
export const until = async (what, isSo) => {
  for (const end = Date.now() + 120_000; Date.now() < end; await sleep(20)) if (await isSo()) return
  throw new Error(`two minutes passed, and not: ${what}`)
}

// Order a node to drain, or to take requests again, and wait until this other one sees it.
export const drain = async (node, other, isDraining) => {
  await node.order({ [isDraining ? 'drain' : 'undrain']: node.name })
  await until(`${node.name} is ${isDraining ? 'draining' : 'up'}`, async () => (await other.sees(node)) === (isDraining ? 'draining' : 'up'))
}

// Each node sees all others up, with their models.
export const untilUp = (nodes) =>
  until('all nodes see each other', async () => {
    for (const node of nodes)
      for (const other of nodes) {
        if (other === node) continue
        const seen = (await node.page()).nodes.find((one) => one.name === other.name)
        if (seen?.state !== 'up' || !seen.models.every((model) => model.ready)) return false
      }
    return true
  })
