// settings.js - the model and the options of a conversation, and their dialog
import { ask } from './dialogs.js'
import { h } from './dom.js'

// name: of the field of the request. An empty field leaves the choice to the server.
const numbers = [
  { name: 'temperature', label: 'Temperature', min: 0, max: 2, step: 0.05 },
  { name: 'top_p', label: 'Top p', min: 0, max: 1, step: 0.01 },
  { name: 'max_tokens', label: 'Longest reply, tokens', min: 1, step: 1 },
  { name: 'seed', label: 'Seed', min: 0, step: 1 },
]
const efforts = ['', 'none', 'low', 'medium', 'high']

// The fields of a request.
export function requestFields(settings) {
  const fields = {}

  for (const { name } of numbers) if (settings[name] !== undefined) fields[name] = settings[name]
  if (settings.reasoning_effort) fields.reasoning_effort = settings.reasoning_effort
  if (settings.tools?.length) fields.tools = settings.tools
  return fields
}

// The settings of a file: those that are known, where they have their type.
export function knownSettings(settings) {
  const types = { model: 'string', system: 'string', reasoning_effort: 'string' }
  for (const { name } of numbers) types[name] = 'number'
  const known = Object.entries(types).filter(([name, type]) => typeof settings?.[name] === type)
  const tools = Array.isArray(settings?.tools) ? { tools: settings.tools } : {}

  return { ...Object.fromEntries(known.map(([name]) => [name, settings[name]])), ...tools }
}

function readTools(text) {
  if (!text.trim()) return undefined
  let tools
  try {
    tools = JSON.parse(text)
  } catch (error) {
    throw new Error(`The tools are no JSON: ${error.message}`)
  }
  if (!Array.isArray(tools)) throw new Error('The tools must be a list.')
  return tools
}

// Resolves to the new settings, or to null.
export function askForSettings(settings) {
  const system = h('textarea', { id: 'system', rows: 5 })
  const tools = h('textarea', { id: 'tools', rows: 4, spellcheck: 'false' })
  const effort = h('select', { id: 'effort' }, efforts.map((word) =>
    h('option', { value: word, selected: word === (settings.reasoning_effort ?? '') }, word || 'as the model has it')))
  const fields = numbers.map(({ name, label, ...limits }) => {
    const input = h('input', { type: 'number', id: name, placeholder: 'default', ...Object.fromEntries(
      Object.entries(limits).map(([key, value]) => [key, String(value)])) })
    input.value = settings[name] ?? ''
    return { name, input, row: [h('label', { for: name }, label), input] }
  })

  system.value = settings.system ?? ''
  tools.value = settings.tools ? JSON.stringify(settings.tools, null, 2) : ''
  return ask({
    kind: 'settings',
    title: 'Settings of this conversation',
    content: [
      h('label', { for: 'system' }, 'System prompt'), system,
      h('div.fields', {}, fields.map(({ row }) => row), h('label', { for: 'effort' }, 'Reasoning'), effort),
      h('details', {}, h('summary', {}, 'Tools'),
        h('label', { for: 'tools' }, "A list as in OpenAI's field tools. You answer the calls."), tools),
    ],
    accept: 'Use',
    read: () => ({
      ...settings,
      ...Object.fromEntries(fields.map(({ name, input }) => [name, input.value ? input.valueAsNumber : undefined])),
      system: system.value,
      reasoning_effort: effort.value || undefined,
      tools: readTools(tools.value),
    }),
  })
}
