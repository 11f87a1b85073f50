// files_test.mjs - files of conversations, as somebody may have changed them; started by tests/e2e/page_test.sh
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromJson, toJson } from '../../page/files.js'
import { Tree } from '../../page/tree.js'

const fileOf = (messages, fields = {}) =>
  JSON.stringify({ format: 'hearth-conversation-1', conversation: { title: 'One', leaf: 'b', ...fields }, messages })
const read = (messages, fields) => fromJson(fileOf(messages, fields))
const HELLO = [{ id: 'a', role: 'user', content: 'Hello' }, { id: 'b', parent: 'a', role: 'assistant', content: 'Yes' }]
const roles = ({ conversation, messages }) => new Tree(messages).path(conversation.leaf).map(({ role }) => role)

test('an export is read with its branches, and can be read again', () => {
  const first = read([...HELLO, { id: 'c', parent: 'a', role: 'assistant', content: 'No', createdAt: 9 }])
  const second = fromJson(toJson(first.conversation, new Tree(first.messages).messages))
  assert.deepEqual(roles(second), ['user', 'assistant'])
  assert.deepEqual(new Tree(second.messages).messages.map(({ content }) => content), ['Hello', 'Yes', 'No'])
  assert.equal(new Set([...first.messages, ...second.messages].map(({ id }) => id)).size, 6)
})

test('what is no export is refused', () => {
  for (const text of ['null', '[]', '"x"', '{"format":"hearth-conversation-1"}'])
    assert.throws(() => fromJson(text), /exported/)
  assert.throws(() => read([{ id: 'a', role: 'system', content: 'x' }]), /role 'system'/)
})

test('fields that have other types are left out', () => {
  const { conversation, messages } = read([
    { id: 'a', role: 'user', content: { x: 1 }, attachments: [null, { name: 1, text: 'kept' }], createdAt: 'soon' },
    { id: 'b', parent: 'a', role: 'assistant', content: 7, reasoning: [], calls: 'none', state: 'running', nDeaths: {},
      stream: { id: 'x', after: 1 }, timings: { cache_n: 'many' }, cache: ['exact'] },
  ], { title: { toLowerCase: 1 }, settings: { system: 5, temperature: '1', top_p: 0.5, tools: {}, other: 1 } })
  const [question, reply] = messages

  assert.equal(conversation.title, 'Imported chat')
  assert.deepEqual(conversation.settings, { top_p: 0.5 })
  assert.equal(question.content, '')
  assert.deepEqual(question.attachments, [{ name: '', text: 'kept' }])
  assert.deepEqual([reply.content, reply.reasoning, reply.calls, reply.state], ['', '', [], 'stopped'])
  assert.deepEqual([reply.stream, reply.timings, reply.cache, reply.nDeaths], [null, undefined, undefined, 0])
  assert.ok(reply.createdAt > question.createdAt)
})

test('the figures of a reply come back, also those of earlier exports', () => {
  const timings = { cache_n: 3, prompt_n: 1, prompt_ms: 1, predicted_n: 2, predicted_ms: 1, predicted_per_second: 9 }
  const cache = { hit: 'prefix', tier: 'ram', miss: 'evicted', left_at: 3, left_text: ' fox' }
  const repliesOf = (fields) => read([HELLO[0], { ...HELLO[1], ...fields }]).messages[1]

  for (const reply of [repliesOf({ timings, cache }), repliesOf({ timings: { ...timings, ...cache } })]) {
    assert.equal(reply.timings.hit, undefined)
    assert.equal(reply.timings.cache_n, 3)
    assert.deepEqual(reply.cache, cache)
  }
})

test('no message is its own ancestor', () => {
  const [a, b] = HELLO
  assert.deepEqual(roles(read([{ ...a, parent: 'b' }, b])), ['user', 'assistant'])
  assert.deepEqual(roles(read([{ ...a, parent: 'a' }, { ...b, id: 'a' }], { leaf: 'nobody' })), ['user', 'assistant'])
})

test('a path ends where it comes to a message again', () => {
  const tree = new Tree([{ id: 'a', parent: 'b', createdAt: 1 }, { id: 'b', parent: 'a', createdAt: 2 }])
  assert.deepEqual(tree.path('b').map(({ id }) => id), ['a', 'b'])
  assert.equal(tree.leafBelow(tree.get('a')).id, 'a')
})
