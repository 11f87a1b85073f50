// libraries.mjs - run the packages `ai` and `@langchain/openai` in a loop with tools, with a model that replies by
// script
//
// Usage: node libraries.mjs ai|langchain. Environment: HEARTH_AGENTS, the directory that holds node_modules;
// SERVER_URL.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(`${process.env.HEARTH_AGENTS}/x.js`)
const load = (name) => import(pathToFileURL(require.resolve(name)))
const system = 'You answer questions about notes. '.repeat(40)
const question = 'What do my notes say?'
const look = (name) => `The note ${name} says: buy milk.`

async function withAi() {
  const { generateText, tool, stepCountIs } = await load('ai')
  const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible')
  const { z } = await load('zod')
  const hearth = createOpenAICompatible({ name: 'hearth', baseURL: `${process.env.SERVER_URL}/v1` })
  const seen = []
  const result = await generateText({
    model: hearth('library'),
    system,
    prompt: question,
    stopWhen: stepCountIs(5),
    tools: { look: tool({ description: 'Reads a note', inputSchema: z.object({ name: z.string() }), execute: async ({ name }) => { seen.push(name); return look(name) } }) },
  })

  assert.deepEqual(seen, ['first', 'second'])
  assert.equal(result.text, 'Buy milk.')
}

async function withLangChain() {
  const { ChatOpenAI } = await load('@langchain/openai')
  const { tool } = await load('@langchain/core/tools')
  const { HumanMessage, SystemMessage, ToolMessage } = await load('@langchain/core/messages')
  const { z } = await load('zod')
  const reader = tool(async ({ name }) => look(name), { name: 'look', description: 'Reads a note', schema: z.object({ name: z.string() }) })
  const model = new ChatOpenAI({ model: 'library', apiKey: 'none', configuration: { baseURL: `${process.env.SERVER_URL}/v1` } }).bindTools([reader])
  const messages = [new SystemMessage(system), new HumanMessage(question)]
  const seen = []
  let reply

  for (let step = 0; step < 5; step++) {
    reply = await model.invoke(messages)
    messages.push(reply)
    if (!reply.tool_calls?.length) break
    for (const call of reply.tool_calls) {
      seen.push(call.args.name)
      messages.push(new ToolMessage({ content: await reader.invoke(call.args), tool_call_id: call.id }))
    }
  }
  assert.deepEqual(seen, ['first', 'second'])
  assert.equal(reply.content, 'Buy milk.')
}

await (process.argv[2] === 'ai' ? withAi() : withLangChain())
