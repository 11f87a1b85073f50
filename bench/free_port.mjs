// free_port.mjs - find a port of the loopback interface that is free at this moment, for programs that need a number
import net from 'node:net'

export const freePort = () =>
  new Promise((resolve, reject) => {
    const probe = net.createServer().on('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
