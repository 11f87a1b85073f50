// free_port.mjs - a port of the loopback interface for a program that cannot choose one itself: free a moment ago
import net from 'node:net'

export const freePort = () =>
  new Promise((resolve, reject) => {
    const probe = net.createServer().on('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
