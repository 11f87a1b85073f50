// hanging_reply.mjs FILE - a server whose replies begin and never end; it writes its port into FILE. GET /left tells the
// number of clients that left.
import { createServer } from 'node:http'
import { writeFileSync } from 'node:fs'

let left = 0
const server = createServer((request, response) => {
  if (request.url === '/left')
    return response.end(String(left))
  if (request.url === '/v1/models')
    return response.end(JSON.stringify({ data: [{ id: 'hanging' }] }))
  response.on('close', () => left++)
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: 'It begins' } }] })}\n\n`)
})
server.listen(0, '127.0.0.1', () => writeFileSync(process.argv[2], String(server.address().port)))
