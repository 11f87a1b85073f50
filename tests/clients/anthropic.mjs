// anthropic.mjs - the official Anthropic client against a running server
//
// Started by tests/e2e/clients_anthropic_test.sh; the models are those of openai.mjs.
import { assert, busySlots, check, client, failure, finish, key, longText, matches, raw, server, sleep, until } from './checks.mjs'

const { Anthropic } = client('@anthropic-ai/sdk')
const anthropic = new Anthropic({ apiKey: key, baseURL: server, maxRetries: 0, timeout: 120000 })
const { messages } = anthropic
const user = (content) => [{ role: 'user', content }]
const story = { model: 'tiny', messages: user('Tell me a story about a fox.'), temperature: 0, max_tokens: 40 }
const text = (message) => message.content.filter((block) => block.type === 'text').map((block) => block.text).join('')
const promptTokens = (usage) =>
  usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0)

const collect = async (stream) => {
  const events = []
  for await (const event of stream) events.push(event)
  return events
}

// Checks the order of events: each block begins, goes on and ends before the next.
const assertOrder = (events) => {
  const kinds = events.map((event) => event.type).filter((type) => type !== 'ping')
  assert.equal(kinds[0], 'message_start')
  assert.deepEqual(kinds.slice(-2), ['message_delta', 'message_stop'])
  let open = -1
  let next = 0
  for (const event of events.slice(1, -2)) {
    if (event.type === 'ping') continue
    if (event.type === 'content_block_start') {
      assert.equal(open, -1)
      assert.equal(event.index, next++)
      open = event.index
    } else {
      assert.equal(event.index, open)
      if (event.type === 'content_block_stop') open = -1
      else assert.equal(event.type, 'content_block_delta')
    }
  }
  assert.equal(open, -1)
}

// ---- messages ----

await check('a message is answered', async () => {
  const message = await messages.create(story)
  assert.match(message.id, /^msg_/)
  assert.equal(message.type, 'message')
  assert.equal(message.role, 'assistant')
  assert.equal(message.model, 'tiny')
  assert.equal(message.content.length, 1)
  assert.equal(message.content[0].type, 'text')
  assert.ok(message.content[0].text.length > 10)
  assert.ok(['end_turn', 'max_tokens'].includes(message.stop_reason))
  assert.equal(message.stop_sequence, null)
  assert.ok(promptTokens(message.usage) > 0 && message.usage.output_tokens > 0)
  assert.ok(message._request_id, 'the reply has no request id')
})

await check('a stream is the message in pieces', async () => {
  const whole = await messages.create(story)
  const events = await collect(await messages.create({ ...story, stream: true }))
  assertOrder(events)
  assert.ok(events.length > 8)
  assert.equal(events[0].message.content.length, 0)
  assert.equal(events[0].message.stop_reason, null)
  const pieces = events.filter((event) => event.type === 'content_block_delta').map((event) => event.delta.text)
  assert.equal(pieces.join(''), text(whole))
  const last = events.at(-2)
  assert.equal(last.delta.stop_reason, whole.stop_reason)
  assert.equal(last.usage.output_tokens, whole.usage.output_tokens)
  assert.ok(promptTokens(events[0].message.usage) > 0)
})

await check("the client's own reader of streams takes ours", async () => {
  const whole = await messages.create(story)
  let joined = ''
  const stream = messages.stream(story).on('text', (piece) => (joined += piece))
  const message = await stream.finalMessage()
  assert.equal(joined, text(whole))
  assert.equal(text(message), text(whole))
  assert.equal(await stream.finalText(), text(whole))
  assert.equal(message.usage.output_tokens, whole.usage.output_tokens)
  assert.equal(message.stop_reason, whole.stop_reason)
})

await check('the beta client works, whose paths have a query', async () => {
  const message = await anthropic.beta.messages.create({ ...story, betas: ['none-of-ours'] })
  assert.equal(text(message), text(await messages.create(story)))
})

await check('a system prompt comes as text or as blocks', async () => {
  const plain = await messages.create(story)
  const asText = await messages.create({ ...story, system: 'You are brief.' })
  const asBlocks = await messages.create({ ...story, system: [{ type: 'text', text: 'You are brief.' }] })
  assert.ok(promptTokens(asText.usage) > promptTokens(plain.usage))
  assert.equal(text(asBlocks), text(asText))
  assert.equal(promptTokens(asBlocks.usage), promptTokens(asText.usage))
})

await check("the assistant's last message is gone on with", async () => {
  const begun = 'Once there was a'
  const message = await messages.create({ ...story, messages: [...story.messages, { role: 'assistant', content: begun }] })
  assert.ok(text(message).length > 0)
  assert.ok(!text(message).startsWith(begun))
})

await check('a conversation goes on from its cached beginning', async () => {
  const talk = user(longText('anthropic conversation'))
  const first = await messages.create({ ...story, messages: talk, max_tokens: 12 })
  talk.push({ role: 'assistant', content: first.content }, { role: 'user', content: [{ type: 'text', text: 'And then?' }] })
  const second = await messages.create({ ...story, messages: talk, max_tokens: 12 })
  assert.ok(second.usage.cache_read_input_tokens >= promptTokens(first.usage))
})

await check('a message ends at its limit, at a stop sequence, or by itself', async () => {
  const limited = await messages.create({ ...story, max_tokens: 5 })
  assert.equal(limited.stop_reason, 'max_tokens')
  assert.equal(limited.usage.output_tokens, 5)
  const whole = text(await messages.create({ ...story, max_tokens: 60 }))
  const words = whole.split(' ')
  const stop = ` ${words[Math.floor(words.length / 2)]}`
  const stopped = await messages.create({ ...story, max_tokens: 60, stop_sequences: ['never said', stop] })
  assert.equal(stopped.stop_reason, 'stop_sequence')
  assert.equal(stopped.stop_sequence, stop)
  assert.equal(text(stopped), whole.slice(0, whole.indexOf(stop)))
  const streamed = await messages.stream({ ...story, max_tokens: 60, stop_sequences: [stop] }).finalMessage()
  assert.equal(streamed.stop_sequence, stop)
  assert.equal(text(streamed), text(stopped))
  const ended = await messages.create({ ...story, messages: user('Hello.'), max_tokens: 400 })
  assert.equal(ended.stop_reason, 'end_turn')
})

// ---- the cache ----

await check('what was read before is told apart from what is new', async () => {
  const cached = [{ type: 'text', text: longText('anthropic system'), cache_control: { type: 'ephemeral' } }]
  const request = { ...story, system: cached, max_tokens: 4 }
  const first = await messages.create(request)
  assert.ok(first.usage.cache_read_input_tokens < 16) // how every conversation begins
  assert.ok(first.usage.cache_creation_input_tokens > 32)
  const second = await messages.create(request)
  assert.equal(second.usage.cache_creation_input_tokens, 0)
  assert.equal(second.usage.cache_read_input_tokens, promptTokens(first.usage))
  assert.equal(promptTokens(second.usage), promptTokens(first.usage))
  // Another question after the same system prompt: the system prompt is read from the cache, the rest is new.
  const other = await messages.create({ ...request, messages: user('Tell me a story about a bear, an owl and a mouse.') })
  assert.ok(other.usage.cache_read_input_tokens > 32)
  assert.ok(other.usage.cache_creation_input_tokens > 0)
  // Without cache_control, new tokens count as plain input.
  const plain = await messages.create({ ...story, messages: user(longText('anthropic input')), max_tokens: 4 })
  assert.ok(plain.usage.input_tokens > 32)
  assert.ok(!plain.usage.cache_creation_input_tokens)
  const events = await collect(await messages.create({ ...request, stream: true }))
  assert.equal(events[0].message.usage.cache_read_input_tokens, promptTokens(first.usage))
})

await check('tokens are counted as a message then has them', async () => {
  const request = { model: 'tiny', messages: user(longText('count')), system: 'You are brief.' }
  const { input_tokens: n } = await messages.countTokens(request)
  assert.equal(n, promptTokens((await messages.create({ ...request, max_tokens: 1 })).usage))
})

// ---- tools ----

const schemas = {
  add: { type: 'object', properties: { a: { type: 'boolean' }, b: { type: 'string', enum: ['x', 'y'] } }, required: ['a', 'b'], additionalProperties: false },
  pick: { type: 'object', properties: { which: { type: 'string', enum: ['left', 'right'] } }, required: ['which'], additionalProperties: false },
}
const tools = Object.entries(schemas).map(([name, schema]) => ({ name, description: `Call ${name}.`, input_schema: schema }))
const withTools = { model: 'tools', messages: user('Call a tool.'), tools, max_tokens: 300, temperature: 1 }
const uses = (message) => message.content.filter((block) => block.type === 'tool_use')

// This API has no seed, so replies differ each time; a small model may talk until its limit instead.
const calling = async (request, ask = (it) => messages.create(it)) => {
  for (let i = 0; i < 12; i++) {
    const message = await ask(request)
    if (message.stop_reason !== 'max_tokens') return message
  }
  throw new Error('none of 12 replies called')
}

const assertUses = (message) => {
  assert.equal(message.stop_reason, 'tool_use')
  assert.ok(uses(message).length > 0)
  for (const { id, name, input } of uses(message)) {
    assert.ok(id.length > 0)
    assert.ok(matches(schemas[name], input), JSON.stringify(input))
  }
}

await check('a tool that has to be used is used, with input of its schema', async () => {
  assertUses(await calling({ ...withTools, tool_choice: { type: 'any' } }))
  const named = await calling({ ...withTools, tool_choice: { type: 'tool', name: 'pick' } })
  assertUses(named)
  assert.ok(uses(named).every((use) => use.name === 'pick'))
  const single = await calling({ ...withTools, tool_choice: { type: 'any', disable_parallel_tool_use: true } })
  assert.equal(uses(single).length, 1)
})

await check('the use of a tool is streamed', async () => {
  let json = ''
  const message = await calling({ ...withTools, tool_choice: { type: 'any', disable_parallel_tool_use: true } }, async (request) => {
    json = ''
    return messages.stream(request).on('inputJson', (piece) => (json += piece)).finalMessage()
  })
  assertUses(message)
  assert.deepEqual(JSON.parse(json), uses(message)[0].input)
  const events = await collect(await messages.create({ ...withTools, tool_choice: { type: 'any' }, stream: true }))
  assertOrder(events)
})

await check('results of tools are read, and the conversation goes on', async () => {
  const message = await calling({ ...withTools, tool_choice: { type: 'any' } })
  const results = uses(message).map(({ id }, i) => ({
    type: 'tool_result', tool_use_id: id, content: i === 0 ? 'the number is 424242' : [{ type: 'text', text: 'no number' }], is_error: i > 0,
  }))
  const talk = [...withTools.messages, { role: 'assistant', content: message.content }, { role: 'user', content: results }]
  const answer = await messages.create({ ...withTools, messages: talk, tool_choice: { type: 'none' }, max_tokens: 20 })
  assert.ok(text(answer).length > 0)
  const alone = await messages.countTokens({ ...withTools, max_tokens: undefined, temperature: undefined, messages: withTools.messages })
  const all = await messages.countTokens({ ...withTools, max_tokens: undefined, temperature: undefined, messages: talk })
  assert.ok(all.input_tokens > alone.input_tokens + 10)
})

await check('no tool is used where none is wanted', async () => {
  const message = await messages.create({ ...withTools, tool_choice: { type: 'none' }, max_tokens: 20 })
  assert.equal(uses(message).length, 0)
})

// ---- thinking ----

await check('what a model thinks comes in blocks of its own', async () => {
  const request = { model: 'think', messages: user('Think.'), max_tokens: 1100, temperature: 0, thinking: { type: 'enabled', budget_tokens: 1024 } }
  const message = await messages.create(request)
  const [block] = message.content
  assert.equal(block.type, 'thinking')
  assert.ok(block.thinking.length > 0)
  assert.equal(typeof block.signature, 'string')
  let thought = ''
  const streamed = await messages.stream(request).on('thinking', (piece) => (thought += piece)).finalMessage()
  assert.equal(thought, block.thinking)
  assert.deepEqual(streamed.content, message.content)
  const events = await collect(await messages.create({ ...request, stream: true }))
  assertOrder(events)
  assert.ok(events.some((event) => event.delta?.type === 'signature_delta'))
  const talk = [...request.messages, { role: 'assistant', content: [block, { type: 'text', text: 'So.' }] }, ...request.messages]
  assert.ok(await messages.create({ ...request, messages: talk }))
})

// ---- errors ----

const refused = async (what, type, kind) => {
  const error = await failure(what)
  assert.ok(error instanceof type, `${error?.constructor?.name}: ${error?.message}`)
  assert.equal(error.error?.type, 'error', JSON.stringify(error.error))
  assert.equal(error.error.error.type, kind)
  assert.ok(error.error.error.message.length > 10)
  return error
}

await check('what is wrong with a request is said', async () => {
  const { BadRequestError } = Anthropic
  const kind = 'invalid_request_error'
  assert.match((await refused(messages.create({ ...story, temperature: 3 }), BadRequestError, kind)).message, /temperature/)
  assert.match((await refused(messages.create({ ...story, max_tokens: undefined }), BadRequestError, kind)).message, /max_tokens/)
  await refused(messages.create({ ...story, messages: [] }), BadRequestError, kind)
  await refused(messages.create({ ...story, messages: [{ role: 'king', content: 'x' }] }), BadRequestError, kind)
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }
  await refused(messages.create({ ...story, messages: user([image]) }), BadRequestError, kind)
  await refused(messages.create({ ...story, messages: user('many words '.repeat(20000)) }), BadRequestError, kind)
  await refused(messages.countTokens({ model: 'tiny', messages: 'x' }), BadRequestError, kind)
})

await check('what agents send is taken', async () => {
  const old = { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'look', input: {} }] }
  const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: 'a long result of a tool '.repeat(20) }] }
  const { data, response } = await anthropic.beta.messages.create({
    ...story, model: 'tools', max_tokens: 3, betas: ['context-management-2025-06-27'], messages: [...user('Hello.'), old, result, ...user('And now?')],
    tools: [{ name: 'look', input_schema: { type: 'object' } }, { type: 'web_search_20250305', name: 'web_search' }],
    context_management: { edits: [{ type: 'clear_tool_uses_20250919', trigger: { type: 'tool_uses', value: 0 }, keep: { type: 'tool_uses', value: 0 } }] },
  }).withResponse()
  assert.equal(data.context_management.applied_edits[0].cleared_tool_uses, 1)
  assert.match(response.headers.get('x-hearth-ignored'), /tools\[\]\.web_search_20250305/)

  const warmed = await messages.create({ ...story, max_tokens: 0, messages: user('Hello. '.repeat(100)) })
  assert.deepEqual([warmed.content, warmed.stop_reason, warmed.usage.output_tokens], [[], 'max_tokens', 0])

  const kept = await raw('/v1/messages', { method: 'POST', body: JSON.stringify({ ...story, max_tokens: 3, messages: user('Hello.'), thread: { type: 'new' } }) })
  assert.equal(kept.status, 400)
  assert.deepEqual((await kept.json()).error.details, { error_code: 'thread_unsupported_request', unsupported: ['thread'] })
})

await check('errors before a request is understood have the same shape', async () => {
  const broken = await raw('/v1/messages', { method: 'POST', body: '{"model": ' })
  assert.equal(broken.status, 400)
  assert.equal((await broken.json()).type, 'error')
  const wrong = await raw('/v1/messages')
  assert.equal(wrong.status, 405)
  assert.equal((await wrong.json()).type, 'error')
})

await check('a name that means no model gets the default one, under the name that was asked for', async () => {
  const reply = await messages.create({ ...story, model: 'claude-none' })
  assert.equal(reply.model, 'claude-none')
  assert.deepEqual(reply.content, (await messages.create(story)).content)
})

await check('a key that is unknown, not for this model, or used too often is refused', async () => {
  const as = (apiKey) => new Anthropic({ apiKey, baseURL: server, maxRetries: 0 }).messages
  await refused(as('wrong').create(story), Anthropic.AuthenticationError, 'authentication_error')
  await refused(as(process.env.SERVER_KEY_NARROW).create(story), Anthropic.PermissionDeniedError, 'permission_error')
  const often = as(process.env.SERVER_KEY_SELDOM)
  let error
  for (let i = 0; i < 20 && !error; i++) error = await often.create({ ...story, max_tokens: 1 }).then(() => null, (it) => it)
  assert.ok(error instanceof Anthropic.RateLimitError, String(error))
  assert.equal(error.error.error.type, 'rate_limit_error')
  const bearer = new Anthropic({ apiKey: null, authToken: key, baseURL: server, maxRetries: 0 })
  assert.ok(await bearer.messages.create({ ...story, max_tokens: 1 }))
})

await check('a request that is refused for a moment is tried again by the client', async () => {
  const patient = new Anthropic({ apiKey: process.env.SERVER_KEY_ONE_AT_A_TIME, baseURL: server, maxRetries: 10 }).messages
  const all = await Promise.all(Array.from({ length: 3 }, () => patient.create({ ...story, max_tokens: 2 })))
  assert.equal(all.length, 3)
})

// ---- long prompts and kept streams ----

await check('a message that begins before its prompt is read, and pings, trouble nobody', async () => {
  const long = { model: 'slow', messages: user(longText('tale').repeat(2)), max_tokens: 3, temperature: 0 } // some 8 s
  const events = await collect(await messages.create({ ...long, stream: true }))
  assert.equal(events.filter(({ type }) => type === 'message_start').length, 1)
  assert.equal(events.at(-1).type, 'message_stop')
})

await check('the numbers of a kept stream trouble nobody', async () => {
  const headers = { 'x-hearth-resume': '1' }
  const kept = await messages.stream(story, { headers }).finalMessage()
  const plain = await messages.stream(story).finalMessage()
  assert.deepEqual(kept.content, plain.content)
  const { data, response } = await messages.create({ ...story, stream: true }, { headers }).withResponse()
  const events = await collect(data)
  const id = response.headers.get('x-hearth-stream')
  assert.equal(events[0].message.id, `msg_${id}`)
  const again = await fetch(`${server}/v1/streams/${id}?after=1`, { headers: { 'x-api-key': key } })
  const rest = (await again.text()).split('\n').filter((line) => line.startsWith('data: '))
  assert.deepEqual(rest.map((line) => JSON.parse(line.slice(6))).filter(({ type }) => type !== 'ping'), events.slice(1))
})

// ---- leaving ----

await check('who leaves a stream ends its work', async () => {
  // the stub's reply to this has 300 tokens, 6 s; a drawn one may end before it is seen
  const stream = messages.stream({ model: 'slow', messages: user('Tell me of honey.'), max_tokens: 4000, temperature: 0 })
  const gone = failure(stream.finalMessage())
  gone.catch(() => {}) // it is looked at below
  await until('it runs', async () => (await busySlots('slow')) === 1)
  await sleep(50)
  stream.abort()
  assert.ok((await gone) instanceof Anthropic.APIUserAbortError)
  await until('nothing runs on the model', async () => (await busySlots('slow')) === 0)
})

finish()
