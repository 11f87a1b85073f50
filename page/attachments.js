// attachments.js - files that go along with a message, as text in it
import { h, fill } from './dom.js'

const BYTES_MAX = 1 << 20

// { name, text }, or an error that names the file.
async function read(file) {
  if (file.size > BYTES_MAX)
    throw new Error(`'${file.name}' has ${file.size} bytes; a message takes files of at most 1 MiB`)
  const text = await file.text()
  if (text.includes('\0')) throw new Error(`'${file.name}' is no text`)
  return { name: file.name, text }
}

// A fence that is longer than any in the text.
const fence = (text) => '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)))

// The message as the model reads it.
export const withAttachments = ({ content, attachments = [] }) =>
  attachments.map(({ name, text }) => `${name}:\n${fence(text)}\n${text}\n${fence(text)}\n\n`).join('') + content

export class Attachments {
  files = []

  constructor({ failed }) {
    this.failed = failed
    this.list = h('ul.attachments', { 'aria-label': 'Attachments' })
    this.input = h('input', { type: 'file', multiple: true, hidden: true, onchange: () => this.#picked() })
    this.button = h('button.quiet', { type: 'button', onclick: () => this.input.click() }, 'Attach')
  }

  async add(files) {
    for (const file of files) {
      try {
        this.files.push(await read(file))
      } catch (error) {
        this.failed(error.message)
      }
    }
    this.#show()
  }

  // The files, which are the message's from now on.
  take() {
    const files = this.files
    this.files = []
    this.#show()
    return files
  }

  // Files that were taken.
  putBack(files) {
    this.files.unshift(...files)
    this.#show()
  }

  // Files that are dropped on the element are added.
  acceptDrops(element) {
    element.addEventListener('dragover', (event) => {
      if (event.dataTransfer.types.includes('Files')) event.preventDefault()
    })
    element.addEventListener('drop', (event) => {
      if (event.dataTransfer.files.length === 0) return
      event.preventDefault()
      this.add(event.dataTransfer.files)
    })
  }

  async #picked() {
    await this.add(this.input.files)
    this.input.value = ''
  }

  #show() {
    const remove = (file) => h('button.quiet.small', { type: 'button', 'aria-label': `Remove ${file.name}`,
      onclick: () => this.#remove(file) }, '×')

    fill(this.list, this.files.map((file) => h('li', {}, file.name, remove(file))))
  }

  #remove(file) {
    this.files = this.files.filter((other) => other !== file)
    this.#show()
  }
}
