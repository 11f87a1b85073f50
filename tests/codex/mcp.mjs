// mcp.mjs - a server of the Model Context Protocol on standard input and output, with one tool that adds two numbers
import { createInterface } from 'node:readline'

const results = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'calc', version: '1' } }),
  'tools/list': () => ({
    tools: [{ name: 'add', description: 'Adds two numbers.', inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] } }],
  }),
  'tools/call': ({ arguments: { a, b } }) => ({ content: [{ type: 'text', text: String(a + b) }] }),
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id !== undefined) process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result: results[method]?.(params) ?? {} })}\n`)
})
