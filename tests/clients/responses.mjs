// responses.mjs - the official OpenAI client's responses against a running server
//
// Started by tests/e2e/clients_responses_test.sh; the models are those of openai.mjs.
import { assert, busySlots, check, client, failure, finish, key, longText, matches, post, raw, server, until } from './checks.mjs'

const { OpenAI } = client('openai')
const openai = new OpenAI({ apiKey: key, baseURL: `${server}/v1`, maxRetries: 0, timeout: 120000 })
const { responses } = openai
const story = { model: 'tiny', input: 'Tell me a story about a fox.', temperature: 0, max_output_tokens: 40 }

const collect = async (stream) => {
  const events = []
  for await (const event of stream) events.push(event)
  return events
}

// Joins events: the pieces must equal the text of their last event, and all of them the response.
const joined = (events) => {
  events.forEach((event, i) => assert.equal(event.sequence_number, i))
  assert.deepEqual(events.slice(0, 2).map(({ type }) => type), ['response.created', 'response.in_progress'])
  const output = []
  const texts = {}
  for (const event of events) {
    const { type, item_id: id, output_index: index } = event
    if (type === 'response.output_item.added') assert.equal(index, output.length)
    if (type.endsWith('.delta')) texts[id] = (texts[id] ?? '') + event.delta
    if (/(text|summary_text|arguments)\.done$/.test(type)) assert.equal(event.text ?? event.arguments, texts[id] ?? '')
    if (type === 'response.output_item.done') output.push(event.item)
  }
  const { response } = events.at(-1)
  assert.deepEqual(response.output, output)
  return response
}

// ---- text ----

await check('a text is answered', async () => {
  const begin = Math.floor(Date.now() / 1000)
  const response = await responses.create({ ...story, metadata: { topic: 'fox' }, user: 'me' })
  assert.match(response.id, /^resp_/)
  assert.equal(response.object, 'response')
  assert.equal(response.model, 'tiny')
  assert.ok(response.created_at >= begin - 2 && response.created_at <= Date.now() / 1000 + 2)
  assert.ok(['completed', 'incomplete'].includes(response.status))
  assert.equal(response.output[0].type, 'message')
  assert.ok(response.output_text.length > 10)
  assert.deepEqual(response.metadata, { topic: 'fox' })
  assert.equal(response.usage.total_tokens, response.usage.input_tokens + response.usage.output_tokens)
  assert.equal(response.error, null)
})

await check('it says what a chat says', async () => {
  const chat = await openai.chat.completions.create({
    model: 'tiny', messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: story.input }], temperature: 0, max_tokens: 40,
  })
  const response = await responses.create({ ...story, instructions: 'Be brief.' })
  assert.equal(response.output_text, chat.choices[0].message.content)
  assert.equal(response.usage.input_tokens, chat.usage.prompt_tokens)
})

await check('a stream is the response in pieces', async () => {
  const whole = await responses.create(story)
  const events = await collect(await responses.create({ ...story, stream: true }))
  const response = joined(events)
  const pieces = events.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta)
  assert.ok(pieces.length > 5)
  assert.equal(pieces.join(''), whole.output_text)
  assert.equal(response.status, whole.status)
  assert.deepEqual(response.usage.output_tokens, whole.usage.output_tokens)
})

await check("the client's own reader of streams takes ours", async () => {
  let text = ''
  const stream = responses.stream(story)
  stream.on('response.output_text.delta', ({ delta }) => (text += delta))
  const response = await stream.finalResponse()
  assert.equal(response.output_text, text)
  assert.ok(text.length > 10)
})

await check('a response is as long as it may be, and says so', async () => {
  const response = await responses.create({ ...story, max_output_tokens: 7 })
  assert.equal(response.usage.output_tokens, 7)
  assert.equal(response.status, 'incomplete')
  assert.deepEqual(response.incomplete_details, { reason: 'max_output_tokens' })
})

await check('a conversation of items goes on from its cached beginning', async () => {
  const input = [{ role: 'developer', content: 'Be brief.' }, { role: 'user', content: [{ type: 'input_text', text: longText('responses') }] }]
  const first = await responses.create({ ...story, input })
  input.push(...first.output, { role: 'user', content: 'And then?' })
  const second = await responses.create({ ...story, input })
  assert.ok(second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens)
})

await check('reasoning comes as items, as it is or as its summary', async () => {
  const request = { ...story, model: 'think', max_output_tokens: 60 }
  const plain = joined(await collect(await responses.create({ ...request, stream: true })))
  assert.equal(plain.output[0].type, 'reasoning')
  assert.ok(plain.output[0].content[0].text.length > 0)
  const summary = joined(await collect(await responses.create({ ...request, reasoning: { summary: 'auto' }, include: ['reasoning.encrypted_content'], stream: true })))
  assert.equal(summary.output[0].summary[0].text, plain.output[0].content[0].text)
  assert.ok(summary.output[0].encrypted_content.endsWith(summary.output[0].summary[0].text))
  assert.ok(summary.usage.output_tokens_details.reasoning_tokens > 0)
})

await check('logarithms of probabilities come with each token', async () => {
  const request = { ...story, max_output_tokens: 8, top_logprobs: 3, include: ['message.output_text.logprobs'] }
  const { logprobs } = (await responses.create(request)).output[0].content[0]
  assert.equal(logprobs.length, 8)
  assert.ok(logprobs.every(({ top_logprobs: top }) => top.length === 3))
  const streamed = joined(await collect(await responses.create({ ...request, stream: true })))
  assert.deepEqual(streamed.output[0].content[0].logprobs.map(({ token }) => token), logprobs.map(({ token }) => token))
})

// ---- formats and tools ----

await check('JSON follows its schema, and the client parses it', async () => {
  const schema = { type: 'object', properties: { a: { type: 'boolean' } }, required: ['a'], additionalProperties: false }
  const format = { type: 'json_schema', name: 'answer', schema, strict: true }
  const response = await responses.parse({ ...story, max_output_tokens: 200, text: { format } })
  assert.ok(matches(schema, JSON.parse(response.output_text)))
  assert.deepEqual(response.text.format.name, 'answer')
})

const parameters = { type: 'object', properties: { a: { type: 'boolean' }, b: { type: 'string', enum: ['x', 'y'] } }, required: ['a', 'b'], additionalProperties: false }
const tools = [
  { type: 'function', name: 'add', description: 'Call add.', parameters, strict: true },
  { type: 'namespace', name: 'mcp__calc', description: 'Sums.', tools: [{ type: 'function', name: 'pick', parameters, strict: false }] },
  { type: 'custom', name: 'write', description: 'Write a text.' },
]
const withTools = { model: 'tools', input: 'Call a tool.', tools, temperature: 1, max_output_tokens: 300 }

// A small model may talk until its limit before it calls: then another seed is tried.
const calling = async (request) => {
  for (let seed = 1; seed <= 12; seed++) {
    const response = await responses.create({ ...request, seed })
    if (response.status === 'completed') return { response, seed }
  }
  throw new Error('none of 12 seeds called')
}
const callOf = (response) => response.output.find(({ type }) => type.endsWith('call'))

await check('a tool that is named is called, by the names that the client knows', async () => {
  const add = callOf((await calling({ ...withTools, tool_choice: { type: 'function', name: 'add' } })).response)
  assert.equal(add.type, 'function_call')
  assert.equal(add.name, 'add')
  assert.ok(matches(parameters, JSON.parse(add.arguments)), add.arguments)
  const pick = callOf((await calling({ ...withTools, tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'pick' }] } })).response)
  assert.equal(pick.name, 'pick')
  assert.equal(pick.namespace, 'mcp__calc')
  const write = callOf((await calling({ ...withTools, tool_choice: { type: 'custom', name: 'write' }, max_output_tokens: 1000 })).response)
  assert.equal(write.type, 'custom_tool_call')
  assert.equal(typeof write.input, 'string')
})

await check('calls are streamed in pieces that join to the response', async () => {
  const request = { ...withTools, tool_choice: { type: 'function', name: 'add' } }
  const { response, seed } = await calling(request)
  const streamed = joined(await collect(await responses.create({ ...request, seed, stream: true })))
  const bare = (output) => output.map(({ type, name, arguments: text }) => ({ type, name, text }))
  assert.deepEqual(bare(streamed.output), bare(response.output))
  const final = await responses.stream({ ...request, seed }).finalResponse()
  assert.deepEqual(bare(final.output), bare(response.output))
})

await check('results of calls are read, also in parts', async () => {
  const { response } = await calling({ ...withTools, tool_choice: { type: 'function', name: 'add' } })
  const call = callOf(response)
  const output = [{ type: 'input_text', text: 'It is ' }, { type: 'input_text', text: '3.' }]
  const next = await responses.create({
    ...withTools, max_output_tokens: 20,
    input: [{ role: 'user', content: withTools.input }, ...response.output, { type: 'function_call_output', call_id: call.call_id, output }],
  })
  assert.ok(next.usage.input_tokens > response.usage.input_tokens)
})

await check('tools that no client runs are left out, and named', async () => {
  const reply = await raw('/v1/responses', { method: 'POST', body: { ...story, tools: [{ type: 'web_search' }, { type: 'local_shell' }], foo: 1 } })
  assert.equal(reply.status, 200)
  assert.equal(reply.headers.get('x-hearth-ignored'), 'foo, tools[].web_search, tools[].local_shell')
  await reply.body.cancel()
})

// ---- responses that are kept ----

await check('a response goes on from an earlier one, and its prompt from the cached one', async () => {
  const first = await responses.create({ ...story, input: longText('kept') })
  assert.equal(first.store, true)
  const second = await responses.create({ ...story, input: 'And then?', previous_response_id: first.id })
  assert.equal(second.previous_response_id, first.id)
  assert.ok(second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens)
  const whole = await responses.create({
    ...story, store: false,
    input: [{ role: 'user', content: longText('kept') }, ...first.output, { role: 'user', content: 'And then?' }],
  })
  assert.equal(whole.output_text, second.output_text)
  assert.equal(whole.usage.input_tokens, second.usage.input_tokens)
  const third = await responses.create({ ...story, input: 'And after that?', previous_response_id: second.id, stream: true })
  const response = joined(await collect(third))
  assert.ok(response.usage.input_tokens > second.usage.input_tokens)
  const counted = await responses.inputTokens.count({ model: 'tiny', input: 'And after that?', previous_response_id: second.id })
  assert.equal(counted.input_tokens, response.usage.input_tokens)
})

await check('instructions are not those of the earlier response', async () => {
  const first = await responses.create({ ...story, input: longText('pirate'), instructions: 'Speak like a pirate of the seven seas.' })
  const second = await responses.create({ ...story, input: 'Again.', previous_response_id: first.id })
  assert.ok(second.usage.input_tokens_details.cached_tokens < first.usage.input_tokens)
  assert.equal(second.instructions, null)
})

await check('a response that is kept is told again, streamed or not', async () => {
  const whole = await responses.create(story)
  const again = await responses.retrieve(whole.id)
  const bare = ({ _request_id: id, ...response }) => response
  assert.deepEqual(bare(again), bare(whole))
  const streamed = joined(await collect(await responses.create({ ...story, stream: true })))
  assert.equal((await responses.retrieve(streamed.id)).output_text, whole.output_text)
  assert.equal((await post('/responses', story)).object, 'response')
})

await check('its items are listed, page by page, from the last one', async () => {
  const input = ['a', 'b', 'c', 'd'].map((content) => ({ role: 'user', content }))
  const { id } = await responses.create({ ...story, input })
  const texts = []
  for await (const item of responses.inputItems.list(id, { limit: 2 })) texts.push(item.content)
  assert.deepEqual(texts, ['d', 'c', 'b', 'a'])
  const page = await responses.inputItems.list(id, { limit: 3, order: 'asc' })
  assert.deepEqual(page.data.map(({ content }) => content), ['a', 'b', 'c'])
  assert.equal(page.has_more, true)
  assert.equal((await failure(responses.inputItems.list(id, { limit: 101 }))).param, 'limit')
  assert.equal((await failure(responses.inputItems.list(id, { after: 'none' }))).param, 'after')
})

await check('an item may be named instead of sent', async () => {
  const first = await responses.create({ ...story, input: longText('named') })
  const input = [{ role: 'user', content: longText('named') }, { type: 'item_reference', id: first.output[0].id }, { role: 'user', content: 'And?' }]
  const second = await responses.create({ ...story, input })
  const third = await responses.create({ ...story, input: 'And?', previous_response_id: first.id })
  assert.equal(second.output_text, third.output_text)
  const error = await failure(responses.create({ ...story, input: [{ type: 'item_reference', id: 'msg_none_0' }] }))
  assert.equal(error.param, 'input[0].id')
})

await check('what is removed, or not kept, or anothers, is not found', async () => {
  const { id } = await responses.create(story)
  const narrow = new OpenAI({ apiKey: process.env.SERVER_KEY_ONE_AT_A_TIME, baseURL: `${server}/v1`, maxRetries: 0 })
  assert.ok((await failure(narrow.responses.retrieve(id))) instanceof OpenAI.NotFoundError)
  assert.equal((await failure(narrow.responses.create({ ...story, previous_response_id: id }))).param, 'previous_response_id')
  await failure(narrow.responses.delete(id))
  assert.equal((await responses.retrieve(id)).id, id)
  assert.ok((await failure(responses.cancel(id))) instanceof OpenAI.BadRequestError)
  await responses.delete(id)
  assert.ok((await failure(responses.retrieve(id))) instanceof OpenAI.NotFoundError)
  assert.ok((await failure(responses.create({ ...story, previous_response_id: id }))) instanceof OpenAI.BadRequestError)
  const unkept = await responses.create({ ...story, store: false })
  assert.equal(unkept.store, false)
  assert.ok((await failure(responses.retrieve(unkept.id))) instanceof OpenAI.NotFoundError)
})

await check('a response in the background is asked for until it has ended', async () => {
  let response = await responses.create({ model: 'slow', input: 'Hi', background: true, max_output_tokens: 40, ignore_eos: true })
  const { id } = response
  assert.equal(response.background, true)
  assert.equal(response.status, 'in_progress')
  assert.deepEqual(response.output, [])
  assert.equal((await responses.inputItems.list(id)).data.length, 1)
  await until('it has ended', async () => (response = await responses.retrieve(id)).status !== 'in_progress')
  assert.equal(response.status, 'incomplete')
  assert.equal(response.usage.output_tokens, 40)
  const next = await responses.create({ model: 'slow', input: 'And?', previous_response_id: id, max_output_tokens: 4 })
  assert.ok(next.usage.input_tokens > response.usage.input_tokens + 40)
})

await check('a response in the background is cancelled, by who asked for it', async () => {
  const request = { model: 'slow', input: 'Hello', background: true, max_output_tokens: 3000, ignore_eos: true }
  const { id } = await responses.create(request)
  const other = new OpenAI({ apiKey: process.env.SERVER_KEY_NARROW, baseURL: `${server}/v1`, maxRetries: 0 })
  assert.ok((await failure(other.responses.cancel(id))) instanceof OpenAI.NotFoundError)
  assert.equal((await responses.cancel(id)).status, 'cancelled')
  assert.equal((await responses.retrieve(id)).status, 'cancelled')
  await until('nothing runs', async () => (await busySlots('slow')) === 0)
  assert.ok((await failure(responses.cancel(id))) instanceof OpenAI.BadRequestError)
  const second = await responses.create(request)
  await responses.delete(second.id)
  assert.ok((await failure(responses.retrieve(second.id))) instanceof OpenAI.NotFoundError)
  await until('nothing runs', async () => (await busySlots('slow')) === 0)
  assert.equal((await failure(responses.create({ ...request, store: false }))).param, 'background')
})

// ---- the rest ----

await check('what is not offered is refused with its reason', async () => {
  const error = await failure(responses.compact({ model: 'tiny', input: 'a' }))
  assert.equal(error.status, 400)
  assert.match(error.message, /compaction/)
  const put = await raw('/v1/responses/resp_x', { method: 'PUT' })
  assert.equal(put.status, 405)
  assert.equal(put.headers.get('allow'), 'GET, HEAD, DELETE')
  await put.body.cancel()
})

await check('tokens are counted without an answer', async () => {
  const request = { model: 'tiny', input: story.input, instructions: 'Be brief.' }
  const counted = await responses.inputTokens.count(request)
  const { usage } = await responses.create({ ...request, max_output_tokens: 1 })
  assert.deepEqual({ ...counted }, { object: 'response.input_tokens', input_tokens: usage.input_tokens })
})

await check('paths are known without /v1', async () => {
  assert.equal((await post('/responses', story)).object, 'response')
  assert.equal((await post('/responses/input_tokens', story)).object, 'response.input_tokens')
})

await check('what is wrong is told with its field', async () => {
  const error = await failure(responses.create({ ...story, input: 7 }))
  assert.ok(error instanceof OpenAI.BadRequestError)
  assert.equal(error.param, 'input')
  assert.equal((await failure(responses.create({ ...story, conversation: 'c' }))).code, 'unsupported_parameter')
})

finish()
