// odd_chats.mjs FILE - a server with OpenAI's API whose replies are unusual; it writes its port into FILE. The last
// message chooses: "hang" begins a reply that never ends, "break" one that ends in the middle, "flood" one with an endless
// event, "refuse" is an error, every other one is echoed in pieces, with line ends cut in two and without "[DONE]".
// GET /left tells the number of clients that left, GET /lists that of questions for models, GET /roles the roles of the
// last request, GET /texts the number of its user's texts and the last one, as JSON.
import { createServer } from 'node:http'
import { writeFileSync } from 'node:fs'

let left = 0, lists = 0, roles = [], texts = []
const event = (choice) => `data: ${JSON.stringify({ choices: [choice] })}\r\n\r\n`
const answer = (response, { messages }) => {
  const { content } = messages.at(-1)
  roles = messages.map(({ role }) => role)
  texts = messages.filter(({ role }) => role === 'user').map(({ content }) => content)
  if (content === 'refuse') {
    response.writeHead(400)
    return response.end(JSON.stringify({ error: { message: 'refused\x1b[2J here' } }))
  }
  if (content === 'flood') {
    const more = (error) => error ? undefined : response.write('data: '.padEnd(1 << 20, 'x'), more)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.on('error', () => {})
    return more()
  }
  if (content === 'break') {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    return response.end(event({ delta: { content: 'It begins' } }))
  }
  response.on('close', () => left++)
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  if (content === 'hang')
    return response.write(event({ delta: { content: 'It begins' } }))
  const text = event({ delta: { reasoning: 'hm' } }) + event({ delta: { content: `echo ${content}\x1b[2J` } }) +
    event({ delta: {}, finish_reason: 'stop' })
  const next = (i) => i < text.length ? response.write(text.slice(i, i + 1), () => next(i + 1)) : response.end()
  next(0)
}
const server = createServer((request, response) => {
  if (request.url === '/left') return response.end(String(left))
  if (request.url === '/roles') return response.end(roles.join())
  if (request.url === '/texts') return response.end(`${texts.length} ${JSON.stringify(texts.at(-1))}`)
  if (request.url === '/lists') return response.end(String(lists))
  if (request.url === '/v1/models') lists++
  if (request.url === '/v1/models') return response.end(JSON.stringify({ data: [{ id: 'odd\x1b]0;title\x07' }] }))
  let body = ''
  request.on('data', (piece) => { body += piece })
  request.on('end', () => answer(response, JSON.parse(body)))
})
server.listen(0, '127.0.0.1', () => writeFileSync(process.argv[2], String(server.address().port)))
