// chat.js - a conversation with a model
import './chat.css'
import { h } from './dom.js'

let abort = null

export function mount(element, api) {
  const messages = []
  const log = h('div.log', { role: 'log', 'aria-label': 'Conversation', tabindex: '0' })
  const words = h('textarea', { rows: 3, 'aria-label': 'Message', placeholder: 'Message' })
  const form = h('form', { onsubmit: send }, words, h('button.primary', { type: 'submit' }, 'Send'))

  async function send(event) {
    event.preventDefault()
    const said = h('div.said')
    const reply = { role: 'assistant', content: '' }

    messages.push({ role: 'user', content: words.value })
    log.append(h('div.asked', {}, words.value), said)
    words.value = ''
    abort?.abort()
    abort = new AbortController()
    try {
      const body = { messages: [...messages], stream: true }
      const options = { method: 'POST', body, signal: abort.signal }
      for await (const { data } of api.events('/v1/chat/completions', options)) {
        if (data === '[DONE]') break
        const { choices, error } = JSON.parse(data)
        if (error) throw new Error(error.message)
        reply.content += choices[0]?.delta?.content ?? ''
        said.textContent = reply.content
      }
    } catch (error) {
      if (error.name !== 'AbortError') log.append(h('p.notice.bad', { role: 'alert' }, error.message))
    }
    messages.push(reply)
  }

  element.append(h('h1.unseen', {}, 'Chat'), log, form)
  words.focus()
}

export function unmount() {
  abort?.abort()
}
