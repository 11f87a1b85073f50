// front_ends.mjs - requests in the form of front ends and agents: each gets an answer, and the header x-hearth-ignored
// names exactly its fields without effect
//
// Started by tests/e2e/front_ends_test.sh. Needs no package.
import { assert, check, finish, raw } from './checks.mjs'

const CHAT = '/v1/chat/completions', TEXT = '/v1/completions', NATIVE = '/completion'
const hi = [{ role: 'user', content: 'Hi' }]
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const weather = { type: 'function', function: { name: 'get_weather', description: 'The weather.', parameters: schema } }

// A conversation with a call of a tool, in the form of each client.
const after = (call, result) => [{ role: 'system', content: 'You help.' }, { role: 'user', content: 'Weather in Oslo?' }, call, result, { role: 'user', content: 'And now?' }]
const called = { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }] }
const told = { role: 'tool', tool_call_id: 'call_1', content: 'rain' }

const front_ends = [
  ['Open WebUI', CHAT, {
    model: 'tools', stream: true, messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] }],
    stream_options: { include_usage: true }, num_ctx: 8192, keep_alive: '5m', seed: 1, stop: ['END'], mirostat: 0, repeat_penalty: 1.1, chat_id: 'c', session_id: 'abc', id: 'm',
    background_tasks: { title_generation: false }, features: { web_search: false }, variables: { '{{USER_NAME}}': 'x' },
  }, ['num_ctx', 'keep_alive', 'chat_id', 'id', 'background_tasks', 'features', 'variables', 'messages[].content[].image_url']],
  ["llama-server's own page", CHAT, {
    messages: [{ role: 'user', content: 'Hi' }], stream: true, reasoning_format: 'auto', temperature: 0.8, max_tokens: 3, dynatemp_range: 0, dynatemp_exponent: 1, top_k: 40, top_p: 0.95,
    min_p: 0.05, xtc_probability: 0, xtc_threshold: 0.1, typical_p: 1, repeat_last_n: 64, repeat_penalty: 1, presence_penalty: 0, frequency_penalty: 0, dry_multiplier: 0, dry_base: 1.75,
    dry_allowed_length: 2, dry_penalty_last_n: -1, samplers: ['top_k', 'top_p', 'temperature'], timings_per_token: true,
  }, []],
  ['SillyTavern, text completion', NATIVE, {
    prompt: 'Once upon', model: '', max_new_tokens: 3, max_tokens: 3, n_predict: 3, num_predict: 3, temperature: 0.7, top_p: 0.9, typical_p: 1, typical: 1, sampler_seed: -1, min_p: 0.05,
    repetition_penalty: 1.1, rep_pen: 1.1, rep_pen_range: 0, frequency_penalty: 0, presence_penalty: 0, top_k: 40, skew: 0, min_tokens: 0, add_bos_token: true, smoothing_factor: 0, smoothing_curve: 1,
    dry_allowed_length: 2, dry_multiplier: 0.8, dry_base: 1.75, dry_sequence_breakers: '["\\n",":","\\"","*"]', dry_penalty_last_n: 0, stopping_strings: ['\nYou:'], stop: ['\nYou:'],
    truncation_length: 2048, ban_eos_token: false, skip_special_tokens: true, include_reasoning: true, top_a: 0, tfs: 1, mirostat_mode: 0, mirostat_tau: 5, mirostat_eta: 0.1, mirostat: 0,
    custom_token_bans: '', banned_strings: [], api_type: 'llamacpp', api_server: 'http://127.0.0.1', xtc_threshold: 0.1, xtc_probability: 0, nsigma: 0, top_n_sigma: 0, repeat_penalty: 1.1,
    repeat_last_n: 0, n_probs: 0, cache_prompt: true, samplers: ['dry', 'top_k'], ignore_eos: false, logit_bias: [], grammar: '', json_schema: null, stream: true, tfs_z: 1, id_slot: -1,
  }, 'many'],
  ['SillyTavern, chat completion', CHAT, {
    messages: [{ role: 'system', content: 'You are X.' }, { role: 'user', name: 'You', content: 'Hi' }], model: 'tiny', temperature: 1, max_tokens: 3, stream: true, presence_penalty: 0, frequency_penalty: 0,
    top_p: 1, stop: [''], logit_bias: {}, seed: -1, n: 1, custom_prompt_post_processing: '',
  }, ['custom_prompt_post_processing']],
  ['Continue, completion in the editor', TEXT, { model: 'tiny', prompt: 'def f(', max_tokens: 3, temperature: 0.01, stream: true, stop: ['\n\n'], raw: true }, ['raw']],
  ['Cline', CHAT, {
    model: 'tiny', temperature: 0, stream: true, stream_options: { include_usage: true },
    messages: [{ role: 'system', content: 'You code.' }, { role: 'user', content: [{ type: 'text', text: 'Task', cache_control: { type: 'ephemeral' } }] }], max_tokens: 3,
  }, []],
  ['aider, through LiteLLM', CHAT, { model: 'tiny', messages: hi, temperature: 0, stream: true, max_tokens: 3, extra_body: {}, user: '' }, ['extra_body']],
  ['LiteLLM, a history of its own', CHAT, {
    model: 'tools', max_tokens: 3, tools: [weather], thinking: { type: 'enabled', budget_tokens: 1024 },
    messages: after({ ...called, thinking_blocks: [{ type: 'thinking', thinking: 'hm', signature: 's' }], reasoning_content: 'hm', provider_specific_fields: { a: 1 }, function_call: null }, told),
  }, ['messages[].thinking_blocks', 'messages[].reasoning', 'messages[].provider_specific_fields']],
  ['LibreChat', CHAT, { model: 'tiny', user: '65f0', stream: true, messages: [{ role: 'system', content: 'S' }, ...hi], temperature: 1, top_p: 1, presence_penalty: 0, frequency_penalty: 0, max_tokens: 3, promptPrefix: null }, []],
  ['Zed', CHAT, {
    model: 'tools', stream: true, stream_options: { include_usage: true }, temperature: 1, max_completion_tokens: 3, tools: [weather], parallel_tool_calls: false, stop: [], prompt_cache_key: 'thread',
    messages: after({ ...called, content: '' }, { ...told, content: [{ type: 'text', text: 'rain' }] }), tool_choice: 'auto', reasoning_effort: null,
  }, []],
  ['LangChain', CHAT, {
    model: 'tools', stream: false, n: 1, max_tokens: 3, parallel_tool_calls: true, tool_choice: 'auto', tools: [{ ...weather, function: { ...weather.function, strict: true } }],
    messages: after({ ...called, name: 'agent', id: 'run-1', example: false }, { ...told, name: 'get_weather', status: 'success', artifact: null }),
  }, ['messages[].id', 'messages[].example', 'messages[].status']],
  ['the package ai', CHAT, {
    model: 'tiny', messages: hi, max_tokens: 3, temperature: 0, response_format: { type: 'json_schema', json_schema: { schema, strict: true, name: 'response' } }, stream: true, stream_options: { include_usage: true },
  }, []],
  ['OpenRouter and Cursor', CHAT, {
    model: 'tiny', messages: hi, stream: true, max_tokens: 3, reasoning: { effort: 'low', exclude: false }, provider: { order: ['x'] }, transforms: [], plugins: [], usage: { include: true }, repetition_penalty: 1,
  }, ['provider', 'transforms', 'plugins', 'usage']],
  ['vLLM', CHAT, {
    model: 'tiny', messages: [...hi, { role: 'assistant', content: 'Once' }], max_tokens: 3, add_generation_prompt: false, continue_final_message: true, skip_special_tokens: true, guided_regex: null,
    chat_template_kwargs: { enable_thinking: false }, top_k: -1, min_p: 0, ignore_eos: false, best_of: null, priority: 0,
  }, ['skip_special_tokens']],
  ['Mistral', CHAT, { model: 'tiny', messages: hi, max_tokens: 3, safe_prompt: false, random_seed: 1 }, ['safe_prompt', 'random_seed']],
  ['LM Studio and Jan', CHAT, { model: 'tiny', messages: hi, stream: true, max_tokens: -1, stop: '', frequency_penalty: 0, presence_penalty: 0, top_p: 0.95, ttl: 60, num_predict: -1 }, ['ttl', 'num_predict']],
  ["OpenAI's older functions", CHAT, { model: 'tools', messages: [...hi, { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } }, { role: 'function', name: 'f', content: 'x' }, ...hi], max_tokens: 3, functions: [weather.function], function_call: 'auto' }, ['messages[].function_call']],
  ['web search and code of a provider', CHAT, { model: 'tools', messages: hi, max_tokens: 3, tools: [weather, { type: 'web_search_preview' }, { type: 'code_interpreter', container: {} }], web_search_options: {} }, ['web_search_options', 'tools[].web_search_preview', 'tools[].code_interpreter']],
  ['tools for a template that has no place for them', CHAT, { model: 'tiny', messages: hi, max_tokens: 3, tools: [weather] }, ['tools']],
  ['a call that is demanded there', CHAT, { model: 'tiny', messages: hi, max_tokens: 3, tools: [weather], tool_choice: 'required' }, []],
  ['a voice', CHAT, { model: 'tiny', messages: hi, max_tokens: 3, modalities: ['text', 'audio'], audio: { voice: 'x', format: 'wav' } }, ['audio', 'modalities']],
  ['an evaluation harness', TEXT, { model: 'tiny', prompt: [[300, 301], [302]], max_tokens: 1, logprobs: 1, temperature: 0, seed: 1234, echo: false, stop: null, best_of: 1 }, []],
]

for (const [name, path, body, ignored] of front_ends)
  await check(`${name}: answered, and told what had no effect`, async () => {
    const reply = await raw(path, { method: 'POST', body: { ...body, ...(body.max_tokens > 0 || body.max_completion_tokens ? {} : { max_tokens: 3 }) } })
    const text = await reply.text()
    assert.equal(reply.status, 200, text.slice(0, 400))
    assert.ok(!text.includes('"error"'), text.slice(0, 400))
    if (body.stream) assert.match(reply.headers.get('content-type'), /^text\/event-stream/)
    const told = (reply.headers.get('x-hearth-ignored') ?? '').split(', ').filter(Boolean)
    if (ignored === 'many') assert.ok(told.length > 10 && told.includes('mirostat_mode') && !told.includes('samplers') && !told.includes('temperature'), told.join())
    else assert.deepEqual(told.sort(), [...ignored].sort())
  })

await check('a body with a byte order mark, and a history with NUL', async () => {
  const body = `\uFEFF${JSON.stringify({ messages: [{ role: 'user', content: 'a\0b' }], max_tokens: 2 })}`
  const reply = await raw(CHAT, { method: 'POST', body })
  assert.equal(reply.status, 200)
  assert.equal(reply.headers.get('x-hearth-ignored'), 'U+0000')
})

await check('a text that was cut within a character', async () => {
  for (const [half, note] of [['\\ud83d', 'U+D83D'], ['\\uDE00', 'U+DE00'], ['\\ud83d\\n', 'U+D83D']])
    for (const [path, body] of [
      [CHAT, `{"max_tokens":2,"messages":[{"role":"user","content":"cut ${half}"}]}`],
      ['/v1/messages', `{"model":"tiny","max_tokens":2,"messages":[{"role":"user","content":[{"type":"text","text":"${half} cut"}]}]}`],
      ['/v1/responses', `{"max_output_tokens":16,"input":"${half}"}`],
      ['/api/chat', `{"model":"tiny","stream":false,"messages":[{"role":"user","content":"a${half}b"}]}`],
      [NATIVE, `{"prompt":"a${half}b","n_predict":2}`], ['/tokenize', `{"content":"a${half}b"}`],
      [CHAT, JSON.stringify({ model: 'tools', max_tokens: 2, messages: after({ ...called, tool_calls: [{ ...called.tool_calls[0], function: { name: 'get_weather', arguments: `{"city":"${half}"}` } }] }, told) })],
    ]) {
      const reply = await raw(path, { method: 'POST', body })
      assert.equal(reply.status, 200, `${path} ${body} ${await reply.text()}`)
      assert.equal(reply.headers.get('x-hearth-ignored'), note, `${path} ${body}`)
    }
  const whole = await raw('/tokenize', { method: 'POST', body: '{"content":"\\ud83d\\ude00"}' })
  assert.equal(whole.headers.get('x-hearth-ignored'), null)
})

await check('names of tools that no template can be trusted with', async () => {
  const names = ['mcp.github:search issues', 'wetter-für-städte', 'x'.repeat(256), 'a_b', 'a.b', 'a:b']
  const tools = names.map((name) => ({ type: 'function', function: { ...weather.function, name } }))
  for (const name of names) {
    const reply = await raw(CHAT, { method: 'POST', body: { model: 'tools', messages: after({ ...called, tool_calls: [{ ...called.tool_calls[0], function: { name, arguments: '{"city":"Oslo"}' } }] }, told), max_tokens: 400, temperature: 0, tools, tool_choice: { type: 'function', function: { name } } } })
    const text = await reply.text()
    assert.equal(reply.status, 200, text)
    assert.equal(JSON.parse(text).choices[0].message.tool_calls?.[0].function.name, name)
    const message = await raw('/v1/messages', { method: 'POST', body: { model: 'tools', max_tokens: 400, temperature: 0, messages: hi, tools: names.map((name) => ({ name, input_schema: schema })), tool_choice: { type: 'tool', name } } })
    const said = await message.json()
    assert.equal(said.content?.find(({ type }) => type === 'tool_use')?.name, name, JSON.stringify(said))
  }
})

await check('tools that Codex finds while it works', async () => {
  const body = { model: 'tools', input: [{ role: 'user', content: 'Hi' }], max_output_tokens: 16 }
  const more = { type: 'additional_tools', tools: [{ type: 'function', name: 'found', description: 'Found later.', parameters: schema }] }
  const tokens = async (input) => (await (await raw('/v1/responses/input_tokens', { method: 'POST', body: { ...body, input } })).json()).input_tokens
  const before = await tokens(body.input)
  const once = await tokens([...body.input, more])
  assert.ok(once > before + 10, `${before} ${once}`)
  assert.equal(await tokens([more, ...body.input, more]), once)
})

await check('a path that a client joined wrongly', async () => {
  for (const path of ['/v1//chat/completions', '//v1/chat/completions', '/v1/chat/completions/', '/v1/v1/chat/completions'])
    assert.equal((await raw(path, { method: 'POST', body: { messages: hi, max_tokens: 2 } })).status, 200, path)
  assert.equal((await raw('/v1/models/')).status, 200)
})

await check('a question of pictures alone is refused with its reason', async () => {
  const reply = await raw(CHAT, { method: 'POST', body: { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] } })
  assert.equal(reply.status, 400)
  assert.match((await reply.json()).error.message, /reads text/)
})

finish()
