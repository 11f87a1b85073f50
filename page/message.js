// message.js - one message as it is seen: its text, thinking and calls folded, its figures, and its actions
//
// A message far from the window is not built: it is an empty box of the height that it had, or may have. What is in the
// box has that height, not the box itself: a browser does not keep in its place what changes its own height.
import { copyButton } from './copy.js'
import { h, fill } from './dom.js'
import { figures } from './figures.js'
import { show } from './markdown.js'

const LINE_CHARACTERS = 80
const LINE_PX = 26
const FRAME_PX = 70

export const guessHeight = ({ content }) => FRAME_PX + LINE_PX * Math.ceil((content.length + 1) / LINE_CHARACTERS)
const titles = { user: 'You', assistant: 'Model', tool: 'Result of a tool' }

export class MessageView {
  // actions: { edit(message, text), again(message), goOn(message), choose(message, step), place(message) }
  constructor(message, actions) {
    this.message = message
    this.actions = actions
    this.isBuilt = false
    this.isEdited = false
    this.element = h(`article.message.${message.role}`, { 'aria-label': titles[message.role] ?? message.role })
    this.element.style.setProperty('--height', `${guessHeight(message)}px`)
    this.element.view = this
  }

  build() {
    if (this.isBuilt) return
    this.isBuilt = true
    this.text = h('div.text')
    this.thinking = h('div.thought')
    this.folded = h('details.thinking', { hidden: true }, h('summary', {}, 'Thinking'), this.thinking)
    this.calls = h('div.calls')
    this.notice = h('div.told')
    this.foot = h('footer')
    fill(this.element, this.#attachments(), this.folded, this.text, this.calls, this.notice, this.foot)
    this.update()
  }

  // Becomes a box of this height; not while somebody edits it or stands in it.
  leave(height) {
    if (!this.isBuilt || this.isEdited || this.message.state === 'running') return
    if (this.element.contains(document.activeElement)) return
    this.element.style.setProperty('--height', `${height}px`)
    fill(this.element)
    this.isBuilt = false
  }

  // told: what the reply waits for; progress: of the prompt.
  update({ told = '', progress = null } = {}) {
    if (!this.isBuilt || this.isEdited) return
    const { message } = this
    const isRunning = message.state === 'running'

    show(this.text, message.content)
    this.folded.hidden = !message.reasoning
    if (message.reasoning) show(this.thinking, message.reasoning)
    this.#showCalls()
    fill(this.notice, this.#noticeOf(told, progress))
    this.element.setAttribute('aria-busy', String(isRunning))
    if (!isRunning) this.#showFoot()
    else fill(this.foot)
  }

  #noticeOf(told, progress) {
    const { state, error, content, reasoning, finish, nDeaths } = this.message

    if (told) return h('p.notice', {}, told)
    if (state === 'failed') return h('p.notice.bad', {}, `The reply ended early: ${error}`)
    if (state === 'running' && progress && progress.processed < progress.total)
      return h('p.faint', {}, `Reading the prompt: ${progress.processed} of ${progress.total} tokens`)
    if (state === 'running' && !content && !reasoning) return h('p.faint', {}, 'Waiting for the first token')
    if (nDeaths > 0)
      return h('p.notice', {}, 'The worker process of the model ended during this reply, and another one went on.')
    if (finish === 'length') return h('p.faint', {}, 'The reply ended at its greatest length.')
    return null
  }

  #attachments() {
    return (this.message.attachments ?? []).map(({ name, text }) =>
      h('details.attachment', {}, h('summary', {}, name), h('pre', { tabindex: '0' }, text)))
  }

  #showCalls() {
    const { calls = [] } = this.message
    while (this.calls.children.length > calls.length) this.calls.lastChild.remove()
    calls.forEach(({ name, arguments: text }, i) => {
      this.calls.children[i] ??
        this.calls.append(h('details.call', {}, h('summary', {}, 'Call of ', h('code')), h('pre', { tabindex: '0' })))
      this.calls.children[i].querySelector('code').textContent = name
      this.calls.children[i].querySelector('pre').textContent = text
    })
  }

  #showFoot() {
    const { message, actions } = this
    const button = (label, onclick) => h('button.quiet.small', { type: 'button', onclick }, label)
    const { position, n } = actions.place(message)
    const isWhole = message.state === 'done' && message.finish !== 'length'
    const canGoOn = message.role === 'assistant' && message.content && !isWhole

    fill(this.foot, figures(message), h('div.actions', {},
      n > 1 && h('span.versions', { role: 'group', 'aria-label': 'Versions' },
        h('button.quiet.small', { type: 'button', 'aria-label': 'Earlier version', disabled: position === 0,
          onclick: () => actions.choose(message, -1) }, '‹'),
        `${position + 1} of ${n}`,
        h('button.quiet.small', { type: 'button', 'aria-label': 'Later version', disabled: position === n - 1,
          onclick: () => actions.choose(message, 1) }, '›')),
      copyButton(() => message.content, 'Copy the message'),
      message.role !== 'tool' && button('Edit', () => this.edit()),
      message.role === 'assistant' && button('Again', () => actions.again(message)),
      canGoOn && button('Continue', () => actions.goOn(message))))
  }

  edit() {
    const { message } = this
    const nLines = message.content.split('\n').length
    const field = h('textarea', { rows: Math.min(20, nLines + 1), 'aria-label': 'New text' })
    const end = () => {
      this.isEdited = false
      this.update()
      this.foot.querySelector('button')?.focus()
    }
    const accept = () => {
      this.isEdited = false
      this.actions.edit(message, field.value)
    }

    field.value = message.content
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') end()
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) accept()
    })
    this.isEdited = true
    fill(this.text, field)
    fill(this.foot, h('div.actions', {},
      h('button', { type: 'button', onclick: end }, 'Cancel'),
      h('button.primary', { type: 'button', onclick: accept }, message.role === 'user' ? 'Send' : 'Keep')))
    field.focus()
  }
}
