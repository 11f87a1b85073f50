// odd_server.mjs - a server of OpenAI's chat API that fails as it is told, for clients of ours
//
//   node odd_server.mjs PORT_FILE
//
// The path chooses: /well answers, /refuse answers 503, /break ends every fourth stream in its middle, /silent never
// answers. GET /digest: a hash of the bodies since the last time, in any order.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { renameSync, writeFileSync } from 'node:fs'

let bodies = []
let n = 0

const answer = (way, response) => {
  if (way === 'silent') return
  if (way === 'refuse') {
    response.writeHead(503, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify({ error: { message: 'too <busy>' } }))
    return
  }
  response.writeHead(200, { 'Content-Type': 'text/event-stream' })
  response.write('data: {"choices":[{"index":0,"delta":{"content":"A fox"}}]}\n\n')
  if (way === 'break' && n++ % 4 === 3) return response.destroy()
  response.write('data: {"choices":[{"index":0,"delta":{"content":" ran."},"finish_reason":"stop"}]}\n\n')
  response.end('data: [DONE]\n\n')
}

const server = createServer((request, response) => {
  const way = request.url.split('/')[1]
  let body = ''
  request.on('data', (bytes) => (body += bytes))
  request.on('end', () => {
    if (request.url === '/digest') {
      response.end(createHash('sha256').update(bodies.sort().join('\n')).digest('hex') + ` ${bodies.length}`)
      bodies = []
    } else if (request.url.endsWith('/v1/models')) {
      response.end(JSON.stringify({ object: 'list', data: [{ id: 'odd' }] }))
    } else {
      bodies.push(body)
      answer(way, response)
    }
  })
})
server.listen(0, '127.0.0.1', () => {
  writeFileSync(`${process.argv[2]}.new`, String(server.address().port))
  renameSync(`${process.argv[2]}.new`, process.argv[2])
})
