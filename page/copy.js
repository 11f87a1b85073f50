// copy.js - texts for the clipboard
import { h } from './dom.js'

const SHOWN_MS = 1500

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  // Browsers give the clipboard to HTTPS and to localhost only; the older way works elsewhere, too.
  const area = h('textarea.unseen', { 'aria-hidden': 'true' })
  area.value = text
  document.body.append(area)
  area.select()
  const isCopied = document.execCommand('copy')
  area.remove()
  if (!isCopied) throw new Error('the browser copies nothing')
}

export function copyButton(text, label = 'Copy') {
  const button = h('button.quiet.small', { type: 'button', 'aria-label': label }, 'Copy')

  button.addEventListener('click', async () => {
    try {
      await copy(text())
      button.textContent = 'Copied'
    } catch {
      button.textContent = 'Not copied'
    }
    setTimeout(() => (button.textContent = 'Copy'), SHOWN_MS)
  })
  return button
}
