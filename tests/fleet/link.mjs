// link.mjs - a link between two nodes that can be slow, stall or die: a forwarder in front of a node's port of the fleet
//
// Only connections for rows are bothered, which begin with "H" (HTH_CARRIER_PREAMBLE); requests and questions share the
// port, and pass. A link counts these connections since it was set, the bytes of rows that they brought, and the time
// from the beginning of the first to the end of the last.
import net from 'node:net'

const sliceMs = 5 // pieces are this long, so that a slow link trickles

// A link to HOST:PORT. Its address is for the other nodes. set({ bytesPerSecond, stallAfter, dieAfter }) counts anew; what is left out has no limit. A link that stalls or dies does so to all connections, new ones as well, until it is set again. close() ends it.
export const makeLink = async (to) => {
  const [host, port] = [to.slice(0, to.lastIndexOf(':')), Number(to.slice(to.lastIndexOf(':') + 1))]
  let limits = {}
  let begin = 0
  const link = { address: '', nBytes: 0, nConnections: 0, ms: 0, set: (set) => { limits = set; Object.assign(link, { nBytes: 0, nConnections: 0, ms: 0 }); begin = 0 } }
  const sockets = new Set()
  const due = { there: 0, back: 0 } // when the direction is free again; connections share it

  const pace = async (way, n) => {
    if (!limits.bytesPerSecond) return
    const now = performance.now()
    due[way] = Math.max(due[way], now) + n / limits.bytesPerSecond * 1000
    if (due[way] - now > 1) await new Promise((resolve) => setTimeout(resolve, due[way] - now))
  }
  const pass = (socket, piece) => new Promise((resolve) => (socket.write(piece) ? resolve() : socket.once('drain', resolve).once('close', resolve)))
  const pump = (from, into, way, beginning) => {
    const bring = async (bytes) => {
      from.pause()
      for (let at = 0; at < bytes.length;) {
        let n = Math.min(bytes.length - at, Math.ceil((limits.bytesPerSecond || Infinity) * sliceMs / 1000))
        const { stallAfter = Infinity, dieAfter = Infinity } = limits
        if (way === 'back') n = Math.min(n, Math.max(0, Math.min(stallAfter, dieAfter) - link.nBytes))
        if (way === 'back' && n === 0) {
          if (dieAfter <= link.nBytes) for (const one of [from, into]) one.resetAndDestroy()
          return // it has died, or is silent: nothing is read from it any more
        }
        await pace(way, n)
        if (into.destroyed) return
        await pass(into, bytes.subarray(at, at + n))
        at += n
        if (way === 'back') link.nBytes += n
      }
      from.resume()
    }
    from.on('data', bring)
    if (beginning) bring(beginning)
  }
  const server = net.createServer((near) => {
    const far = net.connect(port, host)
    for (const [one, other] of [[near, far], [far, near]]) {
      sockets.add(one)
      one.setNoDelay(true)
      one.on('error', () => {})
      one.on('close', () => { sockets.delete(one); other.destroy() })
    }
    near.once('data', (first) => {
      if (first[0] !== 'H'.charCodeAt(0)) {
        far.write(first)
        near.pipe(far)
        far.pipe(near)
        return
      }
      if (link.nConnections++ === 0) begin = performance.now()
      near.on('close', () => { link.ms = begin > 0 ? performance.now() - begin : 0 })
      pump(near, far, 'there', first)
      pump(far, near, 'back')
    })
  })
  await new Promise((resolve, reject) => server.on('error', reject).listen(0, '127.0.0.1', resolve))
  link.address = `127.0.0.1:${server.address().port}`
  link.close = () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  return link
}
