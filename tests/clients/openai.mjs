// openai.mjs - the official OpenAI client against a running server
//
// Started by tests/e2e/clients_openai_test.sh. The server has these models:
//   tiny   hearth-tiny with its own template                     tools  the same with a template for tools
//   think  the same with a template that makes it think first    slow   the stub, some milliseconds a token
import { assert, busySlots, check, client, failure, finish, key, longText, matches, post, raw, server, until } from './checks.mjs'

const { OpenAI } = client('openai')
const openai = new OpenAI({ apiKey: key, baseURL: `${server}/v1`, maxRetries: 0, timeout: 120000 })
const chat = openai.chat.completions
const user = (content) => [{ role: 'user', content }]
const story = { model: 'tiny', messages: user('Tell me a story about a fox.'), temperature: 0, max_tokens: 40 }

// ---- joined streams ----

const collect = async (stream) => {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return chunks
}

// The choices of a stream, in the form of a whole reply.
const joined = (chunks) => {
  const choices = []
  for (const chunk of chunks)
    for (const { index, delta, finish_reason: finish, logprobs } of chunk.choices) {
      const choice = (choices[index] ??= { content: '', reasoning: '', calls: [], finish: null, logprobs: [], n: 0 })
      if (choice.n++ === 0) assert.equal(delta.role, 'assistant')
      choice.content += delta.content ?? ''
      choice.reasoning += delta.reasoning_content ?? ''
      choice.logprobs.push(...(logprobs?.content ?? []))
      for (const call of delta.tool_calls ?? []) {
        if (call.id) {
          assert.equal(call.index, choice.calls.length)
          choice.calls.push({ id: call.id, type: call.type, function: { name: call.function.name, arguments: '' } })
        }
        choice.calls[call.index].function.arguments += call.function.arguments ?? ''
      }
      if (finish) choice.finish = finish
    }
  return choices
}

const assertUsage = (usage) => {
  assert.ok(usage.prompt_tokens > 0)
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
  assert.ok(usage.prompt_tokens_details.cached_tokens >= 0)
  assert.ok(usage.prompt_tokens_details.cached_tokens <= usage.prompt_tokens)
}

// ---- embeddings ----

await check('texts become vectors, which the client decodes', async () => {
  const asked = { model: 'tiny', input: ['Hello', 'a fox'] }
  const packed = await openai.embeddings.create(asked) // the client asks for base64
  const plain = await openai.embeddings.create({ ...asked, encoding_format: 'float' })
  assert.equal(packed.object, 'list')
  assert.equal(packed.data.length, 2)
  assert.equal(packed.usage.total_tokens, packed.usage.prompt_tokens)
  for (const [i, { embedding }] of packed.data.entries()) {
    assert.ok(Math.abs(Math.hypot(...embedding) - 1) < 1e-4)
    assert.ok(embedding.every((value, k) => Math.abs(value - plain.data[i].embedding[k]) < 1e-4))
  }
  const short = await openai.embeddings.create({ ...asked, dimensions: 4 })
  assert.equal(short.data[0].embedding.length, 4)
})

// ---- predictions ----

await check('a predicted reply is counted and changes nothing', async () => {
  const asked = { model: 'tiny', messages: [{ role: 'user', content: 'Tell me a story' }], temperature: 0, max_tokens: 40 }
  const plain = await openai.chat.completions.create(asked)
  const text = plain.choices[0].message.content
  const told = await openai.chat.completions.create({ ...asked, prediction: { type: 'content', content: text } })
  const { accepted_prediction_tokens: accepted, rejected_prediction_tokens: rejected } =
    told.usage.completion_tokens_details
  assert.equal(told.choices[0].message.content, text)
  assert.ok(accepted > 0 && rejected >= 0, `${accepted} accepted, ${rejected} rejected`)
})

// ---- models ----

await check('models are listed and can be had one by one', async () => {
  const ids = []
  for await (const model of openai.models.list()) ids.push(model.id)
  for (const id of ['tiny', 'tools', 'think', 'slow']) assert.ok(ids.includes(id), `${id} is not among ${ids}`)
  const model = await openai.models.retrieve('tiny')
  assert.equal(model.id, 'tiny')
  assert.equal(model.object, 'model')
  assert.ok(Number.isInteger(model.created))
  assert.ok((await failure(openai.models.retrieve('none'))) instanceof OpenAI.NotFoundError)
})

// ---- chats ----

await check('a chat is answered', async () => {
  const begin = Math.floor(Date.now() / 1000)
  const reply = await chat.create(story)
  assert.match(reply.id, /^chatcmpl-/)
  assert.equal(reply.object, 'chat.completion')
  assert.equal(reply.model, 'tiny')
  assert.ok(reply.created >= begin - 2 && reply.created <= Date.now() / 1000 + 2)
  assert.equal(reply.choices.length, 1)
  assert.equal(reply.choices[0].index, 0)
  assert.equal(reply.choices[0].message.role, 'assistant')
  assert.ok(reply.choices[0].message.content.length > 10)
  assert.equal(reply.choices[0].message.refusal, null)
  assert.ok(['stop', 'length'].includes(reply.choices[0].finish_reason))
  assertUsage(reply.usage)
  assert.ok(reply._request_id, 'the reply has no request id')
})

await check('a stream is the reply in pieces', async () => {
  const whole = await chat.create(story)
  const chunks = await collect(await chat.create({ ...story, stream: true }))
  const [choice] = joined(chunks)
  assert.ok(chunks.length > 5)
  assert.equal(choice.content, whole.choices[0].message.content)
  assert.equal(choice.finish, whole.choices[0].finish_reason)
  assert.ok(chunks.every((chunk) => chunk.object === 'chat.completion.chunk' && chunk.id === chunks[0].id && chunk.created === chunks[0].created))
  assert.ok(chunks.every((chunk) => !chunk.usage), 'usage that nobody asked for')
})

await check('usage comes at the end of a stream that asks for it', async () => {
  const chunks = await collect(await chat.create({ ...story, stream: true, stream_options: { include_usage: true } }))
  const last = chunks.pop()
  assert.deepEqual(last.choices, [])
  assertUsage(last.usage)
  assert.ok(chunks.every((chunk) => !chunk.usage))
  const { response } = await chat.create({ ...story, stream_options: { include_usage: true } }).withResponse()
  assert.equal(response.headers.get('x-hearth-ignored'), 'stream_options')
})

await check("the client's own reader of streams takes ours", async () => {
  const stream = chat.stream({ ...story, stream_options: { include_usage: true } })
  let text = ''
  stream.on('content', (delta) => (text += delta))
  const reply = await stream.finalChatCompletion()
  assert.equal(text, reply.choices[0].message.content)
  assert.equal((await stream.totalUsage()).total_tokens, reply.usage.total_tokens)
  // The same through a ReadableStream, as web servers pass streams on.
  const readable = (await chat.create({ ...story, stream: true })).toReadableStream()
  let lines = ''
  for await (const piece of readable) lines += Buffer.from(piece)
  assert.equal(lines.trimEnd().split('\n').map((line) => JSON.parse(line).choices[0]?.delta.content ?? '').join(''), text)
})

await check('what was read before is not computed again', async () => {
  const request = { model: 'tiny', messages: user(longText('openai')), temperature: 0, max_tokens: 4 }
  const first = await chat.create(request)
  const second = await chat.create(request)
  assert.ok(first.usage.prompt_tokens_details.cached_tokens < 16) // how every conversation begins
  assert.equal(second.usage.prompt_tokens_details.cached_tokens, second.usage.prompt_tokens)
  assert.equal(second.choices[0].message.content, first.choices[0].message.content)
  const salted = await chat.create({ ...request, cache_salt: 'someone else' })
  assert.equal(salted.usage.prompt_tokens_details.cached_tokens, 0)
})

await check('n replies come at once, streamed or not', async () => {
  const request = { ...story, n: 3, seed: 11, temperature: 1, max_tokens: 16 }
  const whole = await chat.create(request)
  const texts = whole.choices.map((choice) => choice.message.content)
  assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1, 2])
  assert.ok(new Set(texts).size > 1, 'all replies are the same')
  const choices = joined(await collect(await chat.create({ ...request, stream: true })))
  assert.deepEqual(choices.map((choice) => choice.content), texts)
  assert.equal(whole.usage.completion_tokens, 48)
})

await check('a seed makes a reply again', async () => {
  const text = async (seed) =>
    (await chat.create({ ...story, temperature: 1, seed, max_tokens: 24 })).choices[0].message.content
  assert.equal(await text(5), await text(5))
  assert.ok(new Set([await text(1), await text(2), await text(3), await text(4)]).size > 1)
})

await check('a reply ends before a stop text, of which nothing is shown', async () => {
  const whole = (await chat.create({ ...story, max_tokens: 60 })).choices[0].message.content
  const words = whole.split(' ')
  const stop = ` ${words[Math.floor(words.length / 2)]} `.trimEnd()
  const expected = whole.slice(0, whole.indexOf(stop))
  assert.ok(expected.length > 0)
  const reply = await chat.create({ ...story, max_tokens: 60, stop })
  assert.equal(reply.choices[0].message.content, expected)
  assert.equal(reply.choices[0].finish_reason, 'stop')
  const [choice] = joined(await collect(await chat.create({ ...story, max_tokens: 60, stop: ['never said', stop], stream: true })))
  assert.equal(choice.content, expected)
  assert.equal(choice.finish, 'stop')
})

await check('a reply is as long as it may be', async () => {
  const reply = await chat.create({ ...story, max_tokens: undefined, max_completion_tokens: 7 })
  assert.equal(reply.usage.completion_tokens, 7)
  assert.equal(reply.choices[0].finish_reason, 'length')
})

await check('penalties and biases change what is said', async () => {
  const request = { ...story, messages: user('Say the word fox again and again: fox fox fox fox fox fox fox'), max_tokens: 60 }
  const plain = (await chat.create(request)).choices[0].message.content
  const penalised = (await chat.create({ ...request, frequency_penalty: 2, presence_penalty: 2 })).choices[0].message.content
  assert.notEqual(penalised, plain)
  const { tokens } = await post('/tokenize?model=tiny', { content: ' fox', model: 'tiny' })
  const only = await chat.create({ ...request, logit_bias: { [tokens[0]]: 100 }, max_tokens: 5 })
  const piece = (await post('/detokenize', { tokens: [tokens[0]], model: 'tiny' })).content
  assert.equal(only.choices[0].message.content.trim(), piece.repeat(5).trim())
  const never = await chat.create({ ...request, logit_bias: { [tokens[0]]: -100 }, max_tokens: 60, logprobs: true })
  assert.ok(never.choices[0].logprobs.content.every(({ token }) => token !== piece))
})

await check('logarithms of probabilities come with each token', async () => {
  const request = { ...story, max_tokens: 8, logprobs: true, top_logprobs: 3 }
  const [{ message, logprobs }] = (await chat.create(request)).choices
  assert.equal(logprobs.content.length, 8)
  assert.equal(logprobs.content.map(({ token }) => token).join(''), message.content)
  for (const { logprob, top_logprobs: top, bytes, token } of logprobs.content) {
    assert.ok(logprob <= 0)
    assert.equal(top.length, 3)
    assert.ok(top[0].logprob >= top[1].logprob && top[1].logprob >= top[2].logprob)
    assert.equal(top[0].token, token)
    assert.equal(Buffer.from(bytes).toString(), token)
  }
  const [choice] = joined(await collect(await chat.create({ ...request, stream: true })))
  assert.deepEqual(choice.logprobs.map(({ token }) => token), logprobs.content.map(({ token }) => token))
})

await check('content may come in parts, and instructions from a developer', async () => {
  const plain = await chat.create(story)
  const parts = await chat.create({ ...story, messages: user([{ type: 'text', text: story.messages[0].content }]) })
  assert.equal(parts.choices[0].message.content, plain.choices[0].message.content)
  const prompts = []
  for (const role of ['system', 'developer'])
    prompts.push((await post('/apply-template', { model: 'tiny', messages: [{ role, content: 'Be brief.' }, ...story.messages] })).prompt)
  assert.ok(prompts.every((prompt) => prompt.includes('Be brief.')))
  const reply = await chat.create({ ...story, messages: [{ role: 'developer', content: 'Be brief.' }, ...story.messages] })
  assert.ok(reply.usage.prompt_tokens > plain.usage.prompt_tokens)
})

await check('a conversation goes on from its cached beginning', async () => {
  const messages = user(longText('conversation'))
  const first = await chat.create({ model: 'tiny', messages, temperature: 0, max_tokens: 20, session_id: 'talk' })
  messages.push(first.choices[0].message, { role: 'user', content: 'And then?' })
  const second = await chat.create({ model: 'tiny', messages, temperature: 0, max_tokens: 20, session_id: 'talk' })
  assert.ok(second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens)
})

// ---- tools ----

const functions = {
  add: { type: 'object', properties: { a: { type: 'boolean' }, b: { type: 'string', enum: ['x', 'y'] } }, required: ['a', 'b'], additionalProperties: false },
  pick: { type: 'object', properties: { which: { type: 'string', enum: ['left', 'right'] } }, required: ['which'], additionalProperties: false },
}
const tools = Object.entries(functions).map(([name, parameters]) => ({
  type: 'function', function: { name, description: `Call ${name}.`, parameters },
}))
const withTools = { model: 'tools', messages: user('Call a tool.'), tools, max_tokens: 300, temperature: 1 }

// A small model may talk until its limit before it calls, if the template allows that: then another seed is tried.
const calling = async (request) => {
  for (let seed = 1; seed <= 12; seed++) {
    const reply = await chat.create({ ...request, seed })
    if (reply.choices[0].finish_reason !== 'length') return { reply, seed }
  }
  throw new Error('none of 12 seeds called')
}

const assertCalls = (message) => {
  assert.ok(message.tool_calls.length > 0)
  for (const call of message.tool_calls) {
    assert.equal(call.type, 'function')
    assert.ok(call.id.length > 0)
    assert.ok(matches(functions[call.function.name], JSON.parse(call.function.arguments)), call.function.arguments)
  }
  assert.equal(new Set(message.tool_calls.map((call) => call.id)).size, message.tool_calls.length)
}

await check('a call that is required comes, with arguments of its schema', async () => {
  const { reply } = await calling({ ...withTools, tool_choice: 'required' })
  assert.equal(reply.choices[0].finish_reason, 'tool_calls')
  assertCalls(reply.choices[0].message)
})

await check('a call that is named is that one', async () => {
  for (const name of Object.keys(functions)) {
    const { reply } = await calling({ ...withTools, tool_choice: { type: 'function', function: { name } } })
    assertCalls(reply.choices[0].message)
    assert.ok(reply.choices[0].message.tool_calls.every((call) => call.function.name === name))
  }
})

await check('calls are streamed in pieces that join to the reply', async () => {
  const request = { ...withTools, tool_choice: 'required', parallel_tool_calls: true }
  let nMost = 0
  for (let seed = 1; seed <= 8; seed++) {
    const [whole] = (await chat.create({ ...request, seed })).choices
    const chunks = await collect(await chat.create({ ...request, seed, stream: true }))
    const [choice] = joined(chunks)
    const bare = (calls) => (calls ?? []).map((call) => call.function)
    assert.deepEqual(bare(choice.calls), bare(whole.message.tool_calls))
    assert.equal(choice.content, whole.message.content ?? '')
    assert.equal(choice.finish, whole.finish_reason)
    nMost = Math.max(nMost, choice.calls.length)
  }
  assert.ok(nMost > 0, 'no seed called')
})

await check("the client's own reader of streams takes our calls", async () => {
  const { seed } = await calling({ ...withTools, tool_choice: 'required' })
  const stream = chat.stream({ ...withTools, tool_choice: 'required', seed })
  const reply = await stream.finalChatCompletion()
  assert.equal(reply.choices[0].finish_reason, 'tool_calls')
  assertCalls(reply.choices[0].message)
})

await check('one call at most, where several are not wanted', async () => {
  const { reply } = await calling({ ...withTools, tool_choice: 'required', parallel_tool_calls: false })
  assert.equal(reply.choices[0].message.tool_calls.length, 1)
})

await check('no call where none is wanted, and perhaps one where it is free', async () => {
  const none = await chat.create({ ...withTools, tool_choice: 'none', max_tokens: 30, seed: 1 })
  assert.equal(none.choices[0].message.tool_calls, undefined)
  const auto = await chat.create({ ...withTools, tool_choice: 'auto', max_tokens: 30, seed: 1 })
  if (auto.choices[0].message.tool_calls) assertCalls(auto.choices[0].message)
  else assert.ok(auto.choices[0].message.content.length > 0)
})

await check('results of tools are read, and the conversation goes on', async () => {
  const { reply } = await calling({ ...withTools, tool_choice: 'required' })
  const { message } = reply.choices[0]
  const results = message.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: 'the number is 424242' }))
  const messages = [...withTools.messages, message, ...results]
  const answer = await chat.create({ ...withTools, messages, tool_choice: 'none', max_tokens: 20 })
  assert.ok(answer.choices[0].message.content.length > 0)
  const { prompt } = await post('/apply-template', { model: 'tools', messages, tools })
  assert.ok(prompt.includes('424242') && prompt.includes(message.tool_calls[0].function.name))
})

await check("the client's runner of tools calls ours and sends the result back", async () => {
  const { seed } = await calling({ ...withTools, tool_choice: { type: 'function', function: { name: 'pick' } }, parallel_tool_calls: false })
  const seen = []
  const runner = chat.runTools({
    ...withTools, seed, tool_choice: { type: 'function', function: { name: 'pick' } }, parallel_tool_calls: false,
    tools: [{ type: 'function', function: { name: 'pick', description: 'Pick.', parameters: functions.pick, parse: JSON.parse,
      function: ({ which }) => { seen.push(which); return `picked ${which}` } } }],
  })
  await runner.done()
  assert.equal(seen.length, 1)
  assert.ok(runner.messages.some((message) => message.role === 'tool' && message.content === `picked ${seen[0]}`))
})

// ---- formats ----

const schema = {
  type: 'object',
  properties: {
    ok: { type: 'boolean' }, colour: { type: 'string', enum: ['red', 'green'] },
    list: { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 3 },
  },
  required: ['ok', 'colour', 'list'],
  additionalProperties: false,
}
const asSchema = { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } }

await check('a reply follows a JSON schema, streamed or not', async () => {
  for (let seed = 1; seed <= 4; seed++) {
    const request = { ...story, temperature: 1, seed, max_tokens: 300, response_format: asSchema }
    const [{ message, finish_reason: finish }] = (await chat.create(request)).choices
    assert.equal(finish, 'stop')
    assert.ok(matches(schema, JSON.parse(message.content)), message.content)
    const [choice] = joined(await collect(await chat.create({ ...request, stream: true })))
    assert.equal(choice.content, message.content)
  }
})

await check('the client parses what follows a schema', async () => {
  const reply = await chat.parse({ ...story, temperature: 1, seed: 3, max_tokens: 300, response_format: asSchema })
  assert.ok(matches(schema, reply.choices[0].message.parsed))
})

await check('a reply is JSON where that is asked for', async () => {
  let nWhole = 0
  for (let seed = 1; seed <= 6; seed++) {
    const request = { ...story, temperature: 1, seed, max_tokens: 300, response_format: { type: 'json_object' } }
    const [{ message, finish_reason: finish }] = (await chat.create(request)).choices
    assert.match(message.content, /^\s*\{/)
    if (finish === 'length') continue
    assert.equal(typeof JSON.parse(message.content), 'object')
    nWhole++
  }
  assert.ok(nWhole > 0, 'every reply went on to its limit')
})

// ---- reasoning ----

await check('what a model thinks is told apart from what it says', async () => {
  const request = { model: 'think', messages: user('Think.'), temperature: 0, max_tokens: 20 }
  const reply = await chat.create(request)
  const { message } = reply.choices[0]
  assert.ok(message.reasoning_content.length > 0)
  assert.ok(!message.content)
  assert.ok(reply.usage.completion_tokens_details.reasoning_tokens > 0)
  const [choice] = joined(await collect(await chat.create({ ...request, stream: true })))
  assert.equal(choice.reasoning, message.reasoning_content)
  assert.equal(choice.content, message.content ?? '')
  const next = [...request.messages, { role: 'assistant', content: 'So.', reasoning_content: message.reasoning_content }, ...request.messages]
  assert.ok((await chat.create({ ...request, messages: next })).choices.length === 1)
})

// ---- completions ----

const plain = { model: 'tiny', prompt: 'Once upon a time', temperature: 0, max_tokens: 12 }

await check('a completion goes on from its prompt, as text or as tokens', async () => {
  const reply = await openai.completions.create(plain)
  assert.match(reply.id, /^cmpl-/)
  assert.equal(reply.object, 'text_completion')
  assert.ok(reply.choices[0].text.length > 0)
  assert.equal(reply.choices[0].finish_reason, 'length')
  assertUsage(reply.usage)
  const { tokens } = await post('/tokenize', { content: plain.prompt, add_special: true, model: 'tiny' })
  const same = await openai.completions.create({ ...plain, prompt: tokens })
  assert.equal(same.choices[0].text, reply.choices[0].text)
  assert.equal(same.usage.prompt_tokens, tokens.length)
  let text = ''
  for await (const chunk of await openai.completions.create({ ...plain, stream: true })) text += chunk.choices[0]?.text ?? ''
  assert.equal(text, reply.choices[0].text)
})

await check('several prompts are answered at once', async () => {
  const one = (await openai.completions.create(plain)).choices[0].text
  const two = (await openai.completions.create({ ...plain, prompt: 'The old king said' })).choices[0].text
  const both = await openai.completions.create({ ...plain, prompt: [plain.prompt, 'The old king said'] })
  assert.deepEqual(both.choices.map((choice) => choice.text), [one, two])
  const { tokens } = await post('/tokenize', { content: plain.prompt, add_special: true, model: 'tiny' })
  const arrays = await openai.completions.create({ ...plain, prompt: [tokens, tokens], n: 2, seed: 1, temperature: 1 })
  assert.deepEqual(arrays.choices.map((choice) => choice.index), [0, 1, 2, 3])
})

await check('a completion echoes its prompt, and ends before a stop text', async () => {
  const reply = await openai.completions.create(plain)
  const echo = await openai.completions.create({ ...plain, echo: true })
  assert.equal(echo.choices[0].text, plain.prompt + reply.choices[0].text)
  const only = await openai.completions.create({ ...plain, echo: true, max_tokens: 0 })
  assert.equal(only.choices[0].text, plain.prompt)
  const stop = reply.choices[0].text.slice(4, 8)
  const stopped = await openai.completions.create({ ...plain, stop })
  assert.equal(stopped.choices[0].text, reply.choices[0].text.slice(0, reply.choices[0].text.indexOf(stop)))
})

await check('a completion tells probabilities', async () => {
  const [{ text, logprobs }] = (await openai.completions.create({ ...plain, logprobs: 2 })).choices
  assert.equal(logprobs.tokens.join(''), text)
  assert.equal(logprobs.token_logprobs.length, logprobs.tokens.length)
  assert.ok(logprobs.top_logprobs.every((top) => Object.keys(top).length >= 1))
})

// ---- errors ----

const refused = async (what, type, expected) => {
  const error = await failure(what)
  assert.ok(error instanceof type, `${error?.constructor?.name}: ${error?.message}`)
  for (const [name, value] of Object.entries(expected ?? {})) assert.equal(error[name], value, `${name} of '${error.message}'`)
  assert.ok(error.message.length > 10)
  return error
}

await check('what is wrong with a request is said, with its field', async () => {
  const { BadRequestError } = OpenAI
  await refused(chat.create({ ...story, temperature: 3 }), BadRequestError, { status: 400, type: 'invalid_request_error', param: 'temperature', code: 'invalid_value' })
  await refused(chat.create({ ...story, temperature: 'hot' }), BadRequestError, { param: 'temperature', code: 'invalid_type' })
  const { response } = await chat.create({ ...story, warmth: 3, max_tokens: 1 }).withResponse()
  assert.equal(response.headers.get('x-hearth-ignored'), 'warmth')
  await refused(chat.create({ ...story, messages: undefined }), BadRequestError, { param: 'messages', code: 'missing_required_parameter' })
  await refused(chat.create({ ...story, messages: user([{ type: 'image_url', image_url: { url: 'data:' } }]) }), BadRequestError, { code: 'unsupported_parameter' })
  await refused(chat.create({ ...story, messages: user('many words '.repeat(20000)) }), BadRequestError, { code: 'context_length_exceeded' })
  const badSchema = { type: 'json_schema', json_schema: { name: 'bad', schema: { type: 'no such type' } } }
  await refused(chat.create({ ...story, response_format: badSchema }), BadRequestError, { status: 400 })
})

await check('what is no JSON is refused, and so is what is no page', async () => {
  const broken = await raw('/v1/chat/completions', { method: 'POST', body: '{"model": ' })
  assert.equal(broken.status, 400)
  assert.equal((await broken.json()).error.code, 'invalid_json')
  const nowhere = await raw('/v1/nothing', { method: 'POST', body: '{}' })
  assert.equal(nowhere.status, 404)
  assert.ok((await nowhere.json()).error.message)
  const wrong = await raw('/v1/chat/completions')
  assert.equal(wrong.status, 405)
})

await check('a name that means no model gets the default one, under the name that was asked for', async () => {
  const reply = await chat.create({ ...story, model: 'gpt-none' })
  assert.equal(reply.model, 'gpt-none')
  assert.equal(reply.choices[0].message.content, (await chat.create(story)).choices[0].message.content)
})

await check('a key that is unknown, not for this model, or used too often is refused', async () => {
  const as = (apiKey) => new OpenAI({ apiKey, baseURL: `${server}/v1`, maxRetries: 0 }).chat.completions
  await refused(as('wrong').create(story), OpenAI.AuthenticationError, { status: 401 })
  await refused(as(process.env.SERVER_KEY_NARROW).create(story), OpenAI.PermissionDeniedError, { status: 403 })
  const often = as(process.env.SERVER_KEY_SELDOM)
  let error
  for (let i = 0; i < 20 && !error; i++) error = await often.create({ ...story, max_tokens: 1 }).then(() => null, (it) => it)
  assert.ok(error instanceof OpenAI.RateLimitError, String(error))
  assert.ok(Number(error.headers.get('retry-after')) > 0)
})

// ---- leaving ----

await check('the numbers of a kept stream trouble nobody', async () => {
  const headers = { 'x-hearth-resume': '1' }
  const { data, response } = await chat.create({ ...story, stream: true }, { headers }).withResponse()
  const chunks = await collect(data)
  assert.deepEqual(joined(chunks), joined(await collect(await chat.create({ ...story, stream: true }))))
  const id = response.headers.get('x-hearth-stream')
  assert.equal(chunks[0].id, `chatcmpl-${id}`)
  const again = await fetch(`${server}/v1/streams/${id}?after=2`, { headers: { authorization: `Bearer ${key}` } })
  const rest = (await again.text()).split('\n').filter((line) => line.startsWith('data: {'))
  assert.deepEqual(rest.map((line) => JSON.parse(line.slice(6))), chunks.slice(2))
})

await check('who leaves a stream ends its work', async () => {
  const stream = await chat.create({ model: 'slow', messages: user('Go on and on.'), max_tokens: 4000, stream: true, logit_bias: { 257: -100 } })
  let n = 0
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'chat.completion.chunk')
    if (++n === 3) break // the client ends the connection
  }
  await until('nothing runs on the model', async () => (await busySlots('slow')) === 0)
})

await check('who leaves before the reply ends its work', async () => {
  const leave = new AbortController()
  const reply = chat.create({ model: 'slow', messages: user('Go on and on.'), max_tokens: 4000, logit_bias: { 257: -100 } }, { signal: leave.signal })
  const gone = failure(reply)
  gone.catch(() => {}) // it is looked at below
  await until('it runs', async () => (await busySlots('slow')) === 1)
  leave.abort()
  assert.ok((await gone) instanceof OpenAI.APIUserAbortError)
  await until('nothing runs on the model', async () => (await busySlots('slow')) === 0)
})

await check('many clients at once all get their own', async () => {
  const ask = (i) => chat.create({ ...story, temperature: 1, seed: i % 4, max_tokens: 12, stream: false })
  const texts = (await Promise.all(Array.from({ length: 32 }, (_, i) => ask(i)))).map((reply) => reply.choices[0].message.content)
  for (let i = 4; i < 32; i++) assert.equal(texts[i], texts[i % 4])
})

finish()
