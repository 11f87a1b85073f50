// dialogs.js - a question to the user, in a dialog
import { h } from './dom.js'

// Resolves to what read() returns when the user accepts, or to null. An error of read() is shown, and the dialog stays.
export function ask({ kind = 'plain', title, content, accept, read }) {
  const problem = h('p.notice.bad', { role: 'alert', hidden: true })
  const dialog = h(`dialog.${kind}`, { 'aria-labelledby': 'dialog-title' })

  return new Promise((resolve) => {
    const end = (answer) => {
      dialog.remove()
      resolve(answer)
    }
    const onsubmit = (event) => {
      event.preventDefault()
      try {
        end(read())
      } catch (error) {
        problem.textContent = error.message
        problem.hidden = false
      }
    }

    dialog.addEventListener('cancel', () => end(null))
    dialog.append(h('form', { onsubmit },
      h('h2', { id: 'dialog-title' }, title), content, problem,
      h('div.buttons', {},
        h('button', { type: 'button', onclick: () => end(null) }, 'Cancel'),
        h('button.primary', { type: 'submit' }, accept))))
    document.body.append(dialog)
    dialog.showModal()
    dialog.querySelector('input, textarea')?.focus()
  })
}

export function askForText(title, label, value) {
  const field = h('input', { id: 'dialog-text', value, autocomplete: 'off' })
  const content = [h('label', { for: 'dialog-text' }, label), field]
  return ask({ title, content, accept: 'Use', read: () => field.value.trim() })
}

export const confirm = async (title, text, accept) =>
  (await ask({ title, content: h('p', {}, text), accept, read: () => true })) === true
