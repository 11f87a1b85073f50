// agents.mjs - OpenAI's Agents SDK in a loop with tools, streamed or not, against a model that replies by script
//
// Environment: HEARTH_CODEX, the directory that holds node_modules; SERVER_URL.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(`${process.env.HEARTH_CODEX}/x.js`)
const load = (name) => import(pathToFileURL(require.resolve(name)))
const { Agent, run, tool, setDefaultOpenAIClient, setTracingDisabled } = await load('@openai/agents')
const { default: OpenAI } = await load('openai')
const { z } = await load('zod')

setTracingDisabled(true)
setDefaultOpenAIClient(new OpenAI({ apiKey: 'none', baseURL: `${process.env.SERVER_URL}/v1` }))

for (const stream of [false, true]) {
  const seen = []
  const look = tool({
    name: 'look', description: 'Reads a note', parameters: z.object({ name: z.string() }),
    execute: async ({ name }) => { seen.push(name); return `The note ${name} says: buy milk.` },
  })
  const agent = new Agent({ name: 'Reader', instructions: 'You answer questions about notes. '.repeat(40), model: 'library', tools: [look] })
  const result = await run(agent, 'What do my notes say?', { stream, maxTurns: 6 })

  if (stream) {
    const kinds = new Set()
    for await (const event of result) kinds.add(event.type === 'raw_model_stream_event' ? event.data.type : event.type)
    await result.completed
    assert.ok(kinds.has('output_text_delta') && kinds.has('run_item_stream_event'), [...kinds].join())
  }
  assert.deepEqual(seen, ['first', 'second'])
  assert.equal(result.finalOutput, 'Buy milk.')
}
