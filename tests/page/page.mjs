// page.mjs - the page in a browser; started by tests/e2e/page_test.sh
import { assert, check, finish, key, until } from '../clients/checks.mjs'
import { browser, closePage, openPage, refuseBarriers } from './browser.mjs'

const text = (page, selector) => page.$eval(selector, (element) => element.textContent)

for (const dark of [false, true]) {
  for (const view of ['chat', 'dashboard']) {
    await check(`the ${view} has no barrier, ${dark ? 'dark' : 'light'}`, async () => {
      const page = await openPage(`/#/${view}`, { dark })
      await page.waitForSelector(`main.${view}`)
      assert.match(await page.title(), /Hearth$/)
      await refuseBarriers(page)
      await closePage(page)
    })
  }
}

await check('a chat streams a reply', async () => {
  const page = await openPage('/')
  await page.type('textarea', 'Tell me a story about a fox.')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await until('there is a reply', async () => (await page.$('.said')) && (await text(page, '.said')).length > 40)
  await closePage(page)
})

await check('the dashboard lists the models, once it has a key', async () => {
  const page = await openPage('/#/dashboard', { hasKey: false, expected: /401/ })
  await page.waitForSelector('dialog[open]')
  await refuseBarriers(page)
  await page.type('#key', key)
  await page.keyboard.press('Enter')
  await page.waitForSelector('tbody tr')
  assert.match(await text(page, 'tbody'), /tiny/)
  await closePage(page)
})

await browser.close()
finish()
