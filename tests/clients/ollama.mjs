// ollama.mjs - the official Ollama client against a running server
//
// Started by tests/e2e/clients_ollama_test.sh. The server has these models:
//   tiny   hearth-tiny with its own template                     tools  the same with a template for tools
//   think  the same with a template that makes it think first    slow   the stub, some milliseconds a token
import { assert, busySlots, check, client, failure, finish, key, longText, matches, raw, server, until } from './checks.mjs'

const { Ollama } = client('ollama')
const ollama = new Ollama({ host: server, headers: { authorization: `Bearer ${key}` } })
const user = (content) => [{ role: 'user', content }]
const story = { model: 'tiny', messages: user('Tell me a story about a fox.'), options: { temperature: 0, num_predict: 40 } }
const beginning = { model: 'tiny', prompt: 'Tell me a story about a fox.', options: { temperature: 0, num_predict: 24 } }

// ---- joined streams ----

const collect = async (stream) => {
  const lines = []
  for await (const line of stream) lines.push(line)
  return lines
}

const joined = (lines) => ({
  content: lines.map((line) => line.message?.content ?? line.response).join(''),
  thinking: lines.map((line) => line.message?.thinking ?? line.thinking ?? '').join(''),
  calls: lines.flatMap((line) => line.message?.tool_calls ?? []),
  last: lines[lines.length - 1],
})

const assertNumbers = (last) => {
  assert.equal(last.done, true)
  assert.ok(last.prompt_eval_count > 0 && last.eval_count > 0)
  for (const name of ['total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration'])
    assert.ok(Number.isInteger(last[name]) && last[name] > 0, `${name} is ${last[name]}`)
  assert.ok(last.total_duration >= last.eval_duration)
  assert.ok(!Number.isNaN(Date.parse(last.created_at)))
}

// The status and the message of a refused call, from the client.
const refusal = async (promise, status, pattern) => {
  const error = await failure(promise)
  assert.equal(error.name, 'ResponseError', String(error))
  assert.equal(error.status_code, status, error.message)
  assert.match(error.message, pattern)
}

// ---- the server and its models ----

await check('a server is found', async () => {
  for (const method of ['GET', 'HEAD']) {
    const reply = await fetch(`${server}/`, { method })
    assert.equal(reply.status, 200)
    assert.equal(await reply.text(), method === 'GET' ? 'Hearth is running\n' : '')
  }
  assert.match((await ollama.version()).version, /^\d+\.\d+\.\d+$/)
  assert.equal((await raw('/api/version', { method: 'HEAD' })).status, 200)
})

await check('models are listed', async () => {
  const { models } = await ollama.list()
  for (const name of ['tiny', 'tools', 'think', 'slow']) assert.ok(models.some((model) => model.name === name), name)
  const model = models.find(({ name }) => name === 'tiny')
  assert.equal(model.model, 'tiny')
  assert.match(model.digest, /^[0-9a-f]{64}$/)
  assert.ok(model.size > 0 && !Number.isNaN(Date.parse(model.modified_at)))
  assert.equal(model.details.format, 'gguf')
  assert.deepEqual(model.details.families, [model.details.family])
  assert.match(model.details.parameter_size, /^[\d.]+[KMBT]?$/)
})

await check('models that are loaded are listed with their context', async () => {
  const { models } = await ollama.ps()
  const model = models.find(({ name }) => name === 'tiny')
  assert.ok(model.context_length > 0 && model.size > 0)
  assert.ok(Date.parse(model.expires_at) > Date.now())
})

await check('a model tells what it is and what it can do', async () => {
  const shown = await ollama.show({ model: 'tiny' })
  const architecture = shown.model_info['general.architecture']
  assert.ok(shown.model_info[`${architecture}.context_length`] > 0)
  assert.ok(shown.model_info['general.parameter_count'] > 0)
  assert.equal(shown.details.family, architecture)
  assert.match(shown.parameters, /^num_ctx +\d+\n/)
  assert.match(shown.modelfile, /^FROM /)
  assert.ok(shown.capabilities.includes('completion'))
  const tools = await ollama.show({ model: 'tools' })
  assert.ok(tools.capabilities.includes('tools') && tools.template.includes('{%'))
  assert.ok((await ollama.show({ model: 'think' })).capabilities.includes('thinking'))
  const older = await raw('/api/show', { method: 'POST', body: { name: 'think' } })
  assert.ok((await older.json()).capabilities.includes('thinking'))
  assert.equal((await raw('/api/show?model=tiny')).status, 200)
})

await check('what is there is pulled at once, and nothing else', async () => {
  assert.equal((await ollama.pull({ model: 'tiny' })).status, 'success')
  assert.equal((await ollama.pull({ model: 'tiny:latest' })).status, 'success')
  assert.deepEqual(await collect(await ollama.pull({ model: 'tiny', stream: true })), [{ status: 'success' }])
  await refusal(ollama.pull({ model: 'none:7b' }), 501, /'none:7b' is not here/)
})

await check('texts become vectors of length 1', async () => {
  const reply = await ollama.embed({ model: 'tiny', input: ['Hello', 'a fox'] })
  assert.equal(reply.model, 'tiny')
  assert.equal(reply.embeddings.length, 2)
  assert.ok(Math.abs(Math.hypot(...reply.embeddings[1]) - 1) < 1e-4)
  assert.ok(reply.prompt_eval_count > 2)
  assert.equal((await ollama.embed({ model: 'tiny', input: 'Hello', dimensions: 4 })).embeddings[0].length, 4)
  assert.equal((await ollama.embeddings({ model: 'tiny', prompt: 'Hello' })).embedding.length, reply.embeddings[0].length)
})

await check('what changes models is refused with a reason', async () => {
  await refusal(ollama.push({ model: 'tiny' }), 501, /configuration/)
  await refusal(ollama.create({ model: 'mine', from: 'tiny' }), 501, /configuration/)
  await refusal(ollama.copy({ source: 'tiny', destination: 'mine' }), 501, /configuration/)
  await refusal(ollama.delete({ model: 'tiny' }), 501, /configuration/)
})

// ---- chats ----

await check('a chat is answered', async () => {
  const reply = await ollama.chat(story)
  assert.equal(reply.model, 'tiny')
  assert.equal(reply.message.role, 'assistant')
  assert.ok(reply.message.content.length > 10)
  assert.ok(['stop', 'length'].includes(reply.done_reason))
  assertNumbers(reply)
})

await check('a stream is the reply in pieces', async () => {
  const whole = await ollama.chat(story)
  const lines = await collect(await ollama.chat({ ...story, stream: true }))
  const { content, last } = joined(lines)
  assert.ok(lines.length > 5)
  assert.equal(content, whole.message.content)
  assert.equal(last.done_reason, whole.done_reason)
  assert.equal(last.message.content, '')
  assert.ok(lines.slice(0, -1).every((line) => line.done === false && line.message.role === 'assistant'))
  assertNumbers(last)
})

await check('who does not say so gets a stream', async () => {
  const reply = await raw('/api/chat', { method: 'POST', body: { ...story, stream: undefined } })
  assert.equal(reply.headers.get('content-type'), 'application/x-ndjson')
  const text = await reply.text()
  assert.ok(text.endsWith('\n'))
  const lines = text.trimEnd().split('\n').map((line) => JSON.parse(line))
  assert.equal(joined(lines).content, (await ollama.chat(story)).message.content)
})

await check('options mean what they mean elsewhere, and those without effect are named', async () => {
  const text = async (options) => (await ollama.chat({ ...story, options: { num_predict: 24, ...options } })).message.content
  assert.equal(await text({ temperature: 1, seed: 5 }), await text({ temperature: 1, seed: 5 }))
  assert.equal((await ollama.chat({ ...story, options: { temperature: 0, num_predict: 7 } })).eval_count, 7)
  const whole = (await ollama.chat(story)).message.content
  const stop = whole.split(' ')[4]
  assert.equal((await ollama.chat({ ...story, options: { ...story.options, stop: [` ${stop}`] } })).message.content, whole.slice(0, whole.indexOf(` ${stop}`)))
  const reply = await raw('/api/chat', {
    method: 'POST',
    body: { ...story, stream: false, keep_alive: '5m', options: { ...story.options, num_ctx: 8192, num_gpu: 99, mirostat: 0, nothing_like_it: 1 } },
  })
  const ignored = reply.headers.get('x-hearth-ignored')
  for (const name of ['options.num_ctx', 'options.num_gpu', 'options.nothing_like_it']) assert.ok(ignored.includes(name), `${name} in ${ignored}`)
  assert.ok(!ignored.includes('mirostat'))
  assert.equal((await reply.json()).message.content, whole)
})

await check('what was read before is not computed again', async () => {
  const messages = user(longText('ollama'))
  const first = await ollama.chat({ ...story, messages })
  messages.push(first.message, { role: 'user', content: 'And then?' })
  const second = await ollama.chat({ ...story, messages })
  assert.ok(second.prompt_eval_count > first.prompt_eval_count + first.eval_count)
})

await check('a load is answered at once', async () => {
  const loaded = await ollama.chat({ model: 'tiny' })
  assert.deepEqual([loaded.done, loaded.done_reason, loaded.message.content], [true, 'load', ''])
  assert.equal((await ollama.generate({ model: 'tiny', keep_alive: -1 })).done_reason, 'load')
  assert.equal((await ollama.generate({ model: 'tiny', prompt: '', keep_alive: 0 })).done_reason, 'unload')
  const [only, ...more] = await collect(await ollama.chat({ model: 'tiny', messages: [], stream: true }))
  assert.equal(only.done_reason, 'load')
  assert.equal(more.length, 0)
  assert.equal((await ollama.chat({ model: 'none:7b' })).model, 'none:7b') // the default model, under that name
})

await check('logarithms of probabilities come with each token', async () => {
  const request = { ...story, logprobs: true, top_logprobs: 2, options: { temperature: 0, num_predict: 8 } }
  const whole = await ollama.chat(request)
  assert.equal(whole.logprobs.length, 8)
  assert.equal(whole.logprobs.map(({ token }) => token).join(''), whole.message.content)
  assert.ok(whole.logprobs.every(({ logprob, top_logprobs: top }) => logprob <= 0 && top.length === 2))
  const lines = await collect(await ollama.chat({ ...request, stream: true }))
  assert.deepEqual(lines.flatMap((line) => line.logprobs ?? []).map(({ token }) => token), whole.logprobs.map(({ token }) => token))
})

// ---- formats ----

const schema = {
  type: 'object',
  properties: { ok: { type: 'boolean' }, colour: { type: 'string', enum: ['red', 'green'] } },
  required: ['ok', 'colour'],
  additionalProperties: false,
}

await check('a reply follows a JSON schema, in a chat, behind a prompt and behind a raw one', async () => {
  for (let seed = 1; seed <= 3; seed++) {
    const options = { temperature: 1, seed, num_predict: 300 }
    for (const content of [
      (await ollama.chat({ ...story, options, format: schema })).message.content,
      (await ollama.generate({ ...beginning, options, format: schema })).response,
      (await ollama.generate({ ...beginning, options, raw: true, format: schema })).response,
    ])
      assert.ok(matches(schema, JSON.parse(content)), content)
  }
  assert.match((await ollama.chat({ ...story, format: 'json' })).message.content, /^\s*\{/)
  await refusal(ollama.chat({ ...story, format: 'xml' }), 400, /'format'/)
})

// ---- tools ----

const parameters = { type: 'object', properties: { which: { type: 'string', enum: ['left', 'right'] } }, required: ['which'], additionalProperties: false }
const tools = [{ type: 'function', function: { name: 'pick', description: 'Pick one.', parameters } }]
const withTools = { model: 'tools', messages: user('Call a tool.'), tools, tool_choice: 'required' }

// A small model may talk until its limit before it calls: then another seed is tried.
const calling = async () => {
  for (let seed = 1; seed <= 12; seed++) {
    const request = { ...withTools, options: { temperature: 1, num_predict: 300, seed } }
    const said = joined(await collect(await ollama.chat({ ...request, stream: true })))
    if (said.calls.length > 0) return { said, request }
  }
  throw new Error('none of 12 seeds called')
}

await check('calls have objects as arguments, streamed or not', async () => {
  const { said, request } = await calling()
  const bare = (calls) => calls.map((call) => call.function)
  for (const call of said.calls) {
    assert.equal(call.function.name, 'pick')
    assert.ok(matches(parameters, call.function.arguments), JSON.stringify(call))
  }
  assert.equal(said.last.done_reason, 'stop')
  const { message } = await ollama.chat(request)
  assert.deepEqual(bare(message.tool_calls), bare(said.calls))
  assert.equal(message.content, said.content)
})

await check('results of tools go on, with the name of the tool or without', async () => {
  const { said } = await calling()
  const message = { role: 'assistant', content: said.content, tool_calls: said.calls }
  for (const more of [{ tool_name: 'pick' }, {}]) {
    const results = said.calls.map(() => ({ role: 'tool', content: 'the number is 424242', ...more }))
    const answer = await ollama.chat({ ...withTools, tool_choice: 'none', messages: [...withTools.messages, message, ...results], options: { num_predict: 8 } })
    assert.equal(answer.eval_count > 0, true)
  }
})

// ---- thinking ----

await check('what a model thinks is told apart from what it says', async () => {
  const request = { model: 'think', messages: user('Think.'), options: { temperature: 0, num_predict: 20 } }
  for (const think of [undefined, true, 'low']) {
    const { message } = await ollama.chat({ ...request, think })
    assert.ok(message.thinking.length > 0)
    assert.equal(message.content, '')
  }
  const { thinking } = joined(await collect(await ollama.chat({ ...request, stream: true })))
  assert.equal(thinking, (await ollama.chat(request)).message.thinking)
  assert.ok((await ollama.generate({ model: 'think', prompt: 'Think.', options: request.options })).thinking.length > 0)
  const next = [...request.messages, { role: 'assistant', content: 'So.', thinking }, ...request.messages]
  assert.ok((await ollama.chat({ ...request, messages: next, think: false })).done)
})

// ---- prompts ----

await check('a prompt is answered, and its context goes on', async () => {
  const first = await ollama.generate(beginning)
  assert.ok(first.response.length > 0)
  assertNumbers(first)
  assert.equal(first.context.length >= first.prompt_eval_count + first.eval_count - 1, true)
  const lines = await collect(await ollama.generate({ ...beginning, stream: true }))
  assert.equal(joined(lines).content, first.response)
  assert.deepEqual(joined(lines).last.context, first.context)
  const second = await ollama.generate({ ...beginning, prompt: 'And then?', context: first.context })
  assert.ok(second.prompt_eval_count > first.context.length)
  assert.deepEqual(second.context.slice(0, first.context.length), first.context)
})

await check('a raw prompt is as it is', async () => {
  const raw1 = await ollama.generate({ ...beginning, raw: true })
  assert.equal(raw1.context, undefined)
  assert.ok(raw1.prompt_eval_count < (await ollama.generate(beginning)).prompt_eval_count)
  assert.equal((await ollama.generate({ ...beginning, template: '{{ .Prompt }}' })).response, raw1.response)
  await refusal(ollama.generate({ ...beginning, raw: true, system: 'Be brief.' }), 400, /'raw'/)
  await refusal(ollama.generate({ ...beginning, suffix: 'The end.' }), 400, /'suffix'/)
  assert.ok((await ollama.generate({ ...beginning, system: 'Be brief.' })).prompt_eval_count > (await ollama.generate(beginning)).prompt_eval_count)
})

// ---- images ----

await check('images are refused in a question and left out of a history', async () => {
  const images = ['aGVsbG8=']
  await refusal(ollama.chat({ ...story, messages: [{ ...story.messages[0], images }] }), 400, /images/)
  await refusal(ollama.generate({ ...beginning, images }), 400, /images/)
  const messages = [{ role: 'user', content: 'What is this?', images }, { role: 'assistant', content: 'A fox.' }, { role: 'user', content: 'And then?', images: [] }]
  assert.ok((await ollama.chat({ ...story, messages })).done)
})

// ---- errors ----

await check('errors are what the client knows', async () => {
  await refusal(ollama.chat({ ...story, messages: [{ role: 'nobody', content: 'x' }] }), 400, /'nobody'/)
  await refusal(ollama.chat({ ...story, options: { temperature: 'hot' } }), 400, /options\.temperature/)
  await refusal(ollama.chat({ ...story, keep_alive: 'soon' }), 400, /keep_alive/)
  await refusal(ollama.generate({ ...beginning, prompt: longText('long').repeat(400) }), 400, /context/)
  await refusal(new Ollama({ host: server, headers: { authorization: 'Bearer no' } }).chat(story), 401, /key/)
  const reply = await raw('/api/nowhere')
  assert.equal(reply.status, 404)
  assert.equal(typeof (await reply.json()).error, 'string')
})

await check('a client that goes away ends its work', async () => {
  const stream = await ollama.chat({ ...story, model: 'slow', stream: true, options: { num_predict: 2000 } })
  for await (const line of stream) if (line) break
  stream.abort()
  await until('the slow model is idle', async () => (await busySlots('slow')) === 0)
})

finish()
