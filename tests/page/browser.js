// Drives the web page in headless Chromium, as readers do.
//   node browser.js SCENARIO '{"url": …, "index": …, …}'
// Scenarios: reading, keyboard, plain (JavaScript off), editing, signing, figures. Exit code 1 and the reason if
// something is not as it should be. In every scenario: no message on the console, no request to elsewhere, no violation that axe-core finds.
// CHROMIUM names the browser where it is not chromium.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { chromium } = require('playwright-core');
const { executable } = require('./chromium.js');
const axeSource = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const PATIENCE_MS = 60_000;

// A reader: a page of his own, and what went wrong in it.
class Reader {
  static async open(browser, job, options = {}) {
    const reader = new Reader();
    reader.job = job;
    reader.faults = [];
    reader.bytes = 0;
    reader.expected = options.expected ?? [];
    // axe-core is put into the page from outside, which its policy forbids to pages.
    const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 1280, height: 900 }, ...options.context });
    context.setDefaultTimeout(PATIENCE_MS);
    reader.page = await context.newPage();
    reader.page.on('console', (message) => {
      if (!['error', 'warning'].includes(message.type())) return;
      if (!reader.expected.some((text) => message.text().includes(text))) reader.faults.push(message.text());
    });
    reader.page.on('pageerror', (error) => reader.faults.push(String(error)));
    reader.page.on('request', (request) => {
      const there = new URL(request.url());
      if (there.protocol !== 'data:' && there.origin !== job.url) reader.faults.push(`a request to ${there}`);
    });
    return reader;
  }

  async go(path) {
    return this.page.goto(`${this.job.url}/_spinney/ui${path}`);
  }

  text(selector) {
    return this.page.locator(selector).allInnerTexts();
  }

  async check(what) {
    await this.page.evaluate(axeSource);
    const found = await this.page.evaluate(() => window.axe.run(document));
    const said = found.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.target).join(' ')}`);
    assert.deepEqual(said, [], `axe-core, ${what}`);
    assert.ok(found.passes.length > 10, `axe-core saw ${found.passes.length} rules pass`);
  }

  end() {
    assert.deepEqual(this.faults, []);
    return this.page.context().close();
  }
}

// The numbers on the badges of a list; an article that is alone counts for one.
async function counts(reader) {
  const badges = await reader.text('.entry .badge');
  return badges.map((text) => Number(text.match(/\d+/)?.[0] ?? 1));
}

const sorted = (numbers, sign) => numbers.every((n, at) => at === 0 || sign * (n - numbers[at - 1]) >= 0);

async function reading(browser, job) {
  const reader = await Reader.open(browser, job);
  const { page } = reader;
  await reader.go('/');
  await reader.check('home');
  await page.getByRole('link', { name: job.index, exact: true }).click();
  await page.waitForURL(`**/${job.index}`);
  await reader.check('list');
  assert.equal((await reader.text('.total'))[0], `${job.groups} stories`);

  // Sort both ways, with the pointer and without the button.
  const most = await counts(reader);
  assert.ok(most[0] > 10 && sorted(most, -1), String(most));
  await page.locator('select[name=sort]').click();
  await page.locator('select[name=sort]').selectOption('fewest');
  await page.waitForURL('**sort=fewest**');
  const fewest = await counts(reader);
  assert.ok(fewest[0] === 1 && sorted(fewest, 1), String(fewest));

  // Search, filter, and nothing found.
  await page.getByRole('searchbox').fill('ferry');
  await page.locator('select[name=sort]').selectOption('most');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.waitForURL('**q=ferry**');
  const found = await reader.text('.entry h3');
  assert.ok(found.length > 0 && found.length < 20, String(found));
  await page.locator('input[name=medium]').fill('Northlea Post');
  await page.locator('input[name=from]').fill('2025-10-13');
  await page.locator('input[name=to]').fill('2025-10-20');
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.waitForURL('**medium=Northlea**');
  assert.ok((await reader.text('.entry')).every((text) => text.includes('Northlea Post')));
  assert.match(page.url(), /q=ferry&from=2025-10-13&to=2025-10-20&medium=Northlea\+Post&sort=most$/);
  await page.getByRole('searchbox').fill('nobody wrote this');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('heading', { name: 'Nothing fits' }).waitFor();
  await reader.check('nothing found');
  await page.getByRole('link', { name: 'Clear filters' }).click();
  await page.waitForURL(`**/${job.index}`);

  // Pages forth and back.
  await page.getByRole('link', { name: 'Next' }).click();
  await page.getByText('Page 2').waitFor();
  await reader.check('page 2');
  await page.getByRole('link', { name: 'Previous' }).click();
  await page.waitForURL((url) => !url.search.includes('cursor'));
  assert.deepEqual(await counts(reader), most);

  // An article, a jump to another one, what changed there.
  await page.locator('.entry a').nth(1).click();
  await page.getByRole('heading', { name: 'Who else published it' }).waitFor();
  await reader.check('article');
  const title = (await reader.text('h1'))[0];
  assert.equal(await page.locator('svg.timeline circle').count(), await page.locator('#others tbody tr').count());
  await page.locator('#others tbody a').first().click();
  await page.getByRole('heading', { name: 'What changed' }).waitFor();
  const links = await page.locator('#others tbody a').count();
  let marked = 0;
  for (let at = 0; at < links && marked === 0; at += 1) {
    await page.locator('#others tbody a').nth(at).click();
    await page.waitForLoadState();
    marked = await page.locator('.text ins, .text del').count();
  }
  assert.ok(marked > 0, 'no article has changed');
  await reader.check('what changed');
  await page.getByRole('link', { name: 'Text only' }).click();
  await page.waitForURL('**view=text**');
  assert.equal(await page.locator('.text ins, .text del').count(), 0);
  await page.getByRole('link', { name: 'Back to the list' }).click();
  await page.waitForURL((url) => url.pathname.endsWith(`/${job.index}`) && url.hash.startsWith('#g'));
  assert.equal((await reader.text('.entry h3'))[1], title);
  assert.equal((await reader.text('.entry:target h3'))[0], title);

  // Neighbours of another story.
  await reader.go(`/${job.index}/article/${job.neighbours}`);
  assert.ok((await page.locator('.neighbours .why').count()) >= 2);
  await reader.check('neighbours');

  // The overview.
  await page.getByRole('link', { name: 'Overview' }).click();
  await page.getByRole('heading', { name: 'Forests' }).waitFor();
  await reader.check('overview');

  // Language and appearance: on every page from then on.
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  const answered = page.waitForResponse((response) => response.url().includes('theme=dark'));
  await page.getByRole('link', { name: 'Dark' }).click();
  await answered;
  const dark = await paper();
  assert.notEqual(dark, light);
  await page.getByRole('link', { name: '中文', exact: true }).click();
  await page.getByRole('heading', { name: '概览' }).waitFor();
  assert.equal(await paper(), dark);
  await reader.check('overview, Chinese, dark');
  await reader.go(`/${job.index}`);
  assert.match((await reader.text('.total'))[0], /组报道$/);
  assert.equal(await page.locator('html').getAttribute('lang'), 'zh-CN');
  await reader.check('list, Chinese, dark');
  await reader.go(`/${job.index}/article/${job.neighbours}`);
  await reader.check('article, Chinese, dark');
  await reader.end();

  // As the system has it.
  const system = await Reader.open(browser, job, { context: { colorScheme: 'dark', viewport: { width: 390, height: 844 } } });
  await system.go(`/${job.index}`);
  assert.equal(await system.page.evaluate(() => getComputedStyle(document.body).backgroundColor), dark);
  const overflows = () => system.page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(await overflows(), false);
  await system.check('list on a phone');
  await system.go(`/${job.index}/article/${job.neighbours}`);
  assert.equal(await overflows(), false);
  await system.check('article on a phone');
  // A title is in view from its first word, and each line of one that is read from right to left begins at its right.
  await system.go(`/${job.index}/article/${job.right_to_left}`);
  const lines = () => system.page.evaluate(() => [...document.querySelectorAll('#others td [dir]')].map((title) => {
    const range = document.createRange();
    range.selectNodeContents(title);
    return [...range.getClientRects()].map(({ right }) => Math.round(right));
  }));
  const rights = await lines();
  assert.ok(rights.some((title) => title.length > 1), `no title has two lines: ${JSON.stringify(rights)}`);
  assert.ok(rights.flat().every((right) => right === rights[0][0] && right <= 390), JSON.stringify(rights));
  assert.equal(await overflows(), false);
  await system.check('article from right to left on a phone');
  // What is wrong is said in the cluster's words; the browser itself notes the 404.
  system.expected = ['404'];
  await system.go('/news-missing');
  await system.page.getByText('no such index [news-missing]').waitFor();
  await system.check('an error');
  await system.end();
}

// Without a pointer.
async function keyboard(browser, job) {
  const reader = await Reader.open(browser, job);
  const { page } = reader;
  await reader.go(`/${job.index}`);
  const focused = () => page.evaluate(() => {
    const { activeElement: at } = document;
    const style = getComputedStyle(at);
    return { text: at.textContent.trim(), name: at.getAttribute('name'), ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 };
  });
  await page.keyboard.press('Tab');
  assert.equal((await focused()).text, 'Skip to the content');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  assert.deepEqual(await focused(), { text: '', name: 'q', ring: true });
  await page.keyboard.type('ferry');
  await page.keyboard.press('Enter');
  await page.waitForURL('**q=ferry**');
  await page.keyboard.press('/');
  assert.equal((await focused()).name, 'q');
  // Through every control to the first article, each with a ring.
  for (let at = 0; at < 30; at += 1) {
    await page.keyboard.press('Tab');
    const here = await focused();
    assert.ok(here.ring, `no ring on ${JSON.stringify(here)}`);
    if (await page.evaluate(() => document.activeElement.matches('[data-entry]'))) break;
  }
  const first = (await focused()).text;
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  assert.equal((await focused()).text, first);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Who else published it' }).waitFor();
  assert.equal((await reader.text('h1'))[0], first);
  // A choice is only taken with Enter: arrows pass over the others on the way.
  await page.goBack();
  await page.locator('select[name=sort]').focus();
  await page.keyboard.press('ArrowDown');
  assert.match(page.url(), /q=ferry/);
  assert.doesNotMatch(page.url(), /sort=relevance/);
  await page.locator('[data-apply]').focus();
  await page.keyboard.press('Enter');
  await page.waitForURL('**sort=relevance**');
  // The dialog keeps the focus, and gives it back.
  await page.locator('.tools [data-sign-in]').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await reader.check('dialog');
  await page.keyboard.press('Escape');
  assert.equal((await focused()).text, 'Sign in');
  await reader.end();
}

// Without JavaScript.
async function plain(browser, job) {
  const reader = await Reader.open(browser, job, { context: { javaScriptEnabled: false } });
  const { page } = reader;
  await reader.go('/');
  await page.getByLabel('Index').fill(job.index);
  await page.getByRole('button', { name: 'Open' }).click();
  await page.waitForURL(`**/${job.index}`);
  assert.equal(await page.getByRole('button', { name: 'Sign in' }).count(), 0);
  await page.locator('select[name=sort]').selectOption('fewest');
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.waitForURL('**sort=fewest**');
  assert.ok(sorted(await counts(reader), 1));
  await page.locator('select[name=sort]').selectOption('most');
  await page.getByRole('searchbox').fill('ferry');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.waitForURL('**q=ferry**');
  await page.locator('.entry a').first().click();
  await page.getByRole('heading', { name: 'How the story spread' }).waitFor();
  await page.locator('#others tbody a').first().click();
  await page.getByRole('heading', { name: 'What changed' }).waitFor();
  await page.getByRole('link', { name: 'Dark' }).click();
  await page.waitForURL('**theme=dark**');
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
  await page.getByRole('link', { name: '中文', exact: true }).click();
  await page.getByRole('heading', { name: '改动了什么' }).waitFor();
  await page.getByRole('link', { name: '概览' }).click();
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
  assert.ok((await page.locator('.figure').count()) >= 4);
  await reader.end();
}

// On a phone, in another time zone: a large group, an empty list, the keys.
async function editing(browser, job) {
  const context = { viewport: { width: 375, height: 812 }, timezoneId: 'Europe/Berlin' };
  const reader = await Reader.open(browser, job, { context });
  const { page } = reader;
  const overflows = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  await reader.go(`/${job.index}`);
  await page.waitForURL('**zone=Europe**');
  await page.getByText('Times are those of Europe/Berlin.').waitFor();
  // The first screen has a story, the filters are folded, and the keyboard reaches them.
  const filters = page.locator('.filters');
  assert.equal(await filters.isVisible(), false);
  const top = await page.locator('.entry').first().evaluate((entry) => entry.getBoundingClientRect().top);
  assert.ok(top < 812, `the first story begins at ${top}`);
  await reader.check('list on a phone');
  await page.locator('.fold').focus();
  await page.keyboard.press('Space');
  assert.equal(await filters.isVisible(), true);
  await reader.check('filters on a phone');
  assert.equal(await overflows(), false);
  // Words alone are sorted by relevance: nobody chose anything else.
  await page.getByRole('searchbox').fill('harbour');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.waitForURL('**q=harbour');
  assert.ok((await page.locator('mark').count()) > 0);
  await reader.check('matches');
  await page.getByRole('link', { name: '7 days' }).click();
  await page.getByRole('heading', { name: 'Nothing fits' }).waitFor();
  await reader.check('nothing within a week');
  await page.getByRole('link', { name: /At any time/ }).click();
  await page.locator('.entry a').first().waitFor();
  await reader.go(`/${job.index}?medium=nobody`);
  await page.getByText('is of the medium').waitFor();
  await reader.check('no such medium');
  assert.equal(await overflows(), false);
  // Names and words without a blank do not make the page wider.
  const long = 'y'.repeat(300);
  for (const path of [`?sort=newest`, `?facets=shown`, `?q=${long}`, `?medium=${long}`, `/article/${job.long}`]) {
    await reader.go(`/${job.index}${path}`);
    assert.equal(await overflows(), false, path);
  }
  // The group, from an article of its middle.
  await reader.go(`/${job.index}/article/${job.middle}`);
  await page.locator('#others').getByText('Articles 1 to 100 of').waitFor();
  await reader.check('a large group on a phone');
  assert.equal(await overflows(), false);
  await page.getByText('Each interval').click();
  await reader.check('intervals');
  await page.getByRole('link', { name: 'More articles' }).click();
  await page.locator('#others').getByText('Articles 101 to 200 of').waitFor();
  assert.equal(await page.locator('tr.here').count(), 1);
  await reader.check('page 2 of a large group');
  await page.locator('.tally a').last().click();
  await page.locator('#others').getByText('that fit').waitFor();
  assert.equal(await page.locator('tr.here').count(), 1);
  await reader.check('a filter in the group');
  await reader.go(`/${job.index}/article/${job.html}`);
  assert.equal(await page.locator('.text').innerText(), job.text);
  assert.equal(await page.evaluate(() => window.evil), undefined);
  await reader.check('an HTML body');
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('to the search box').waitFor();
  await reader.check('keys');
  await page.keyboard.press('Escape');
  await reader.end();
}

// A cluster with users: credentials in memory only.
async function signing(browser, job) {
  const reader = await Reader.open(browser, job, { expected: ['401', '403', '429'] });
  const { page } = reader;
  const sent = [];
  page.on('request', (request) => sent.push(request.headers().authorization));
  await reader.go('/');
  assert.equal(await page.getByText(job.index).count(), 0);
  await reader.check('asked who');
  const dialog = page.getByRole('dialog');
  const signIn = async (password) => {
    await dialog.getByLabel('Name', { exact: true }).fill(job.user);
    await dialog.getByLabel('Password', { exact: true }).fill(password);
    await dialog.getByRole('button', { name: 'Sign in' }).click();
  };
  await page.locator('.tools [data-sign-in]').click();
  await signIn('wrong');
  await dialog.getByRole('alert').waitFor();
  await reader.check('a wrong password');
  await signIn(job.password);
  await page.getByRole('link', { name: job.index, exact: true }).click();
  await page.getByRole('link', { name: job.title }).waitFor();
  assert.ok(page.url().endsWith(`/${job.index}`));
  await page.getByText(`Signed in as ${job.user}`).waitFor();
  await page.getByRole('link', { name: job.title }).click();
  // The list has a heading of this name as well.
  await page.waitForFunction(() => document.activeElement.tagName === 'MAIN');
  await page.getByRole('heading', { name: job.title }).waitFor();
  await reader.check('signed in');
  // A browser's own download would go without credentials.
  const file = async (label) => {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.locator('.files').getByRole('link', { name: label, exact: true }).click(),
    ]);
    const text = fs.readFileSync(await download.path(), 'utf8');
    assert.ok(text.includes(job.title), `${download.suggestedFilename()}: ${text}`);
  };
  for (const label of ['Atom', 'CSV', 'JSON']) await file(label);
  await page.goBack();
  await page.getByRole('link', { name: job.title }).waitFor();
  for (const label of ['Atom', 'CSV', 'JSON']) await file(label);
  // An error is no file: the page is shown again.
  let saved = 0;
  page.on('download', () => saved++);
  const isFile = (url) => url.search.includes('csv');
  await page.route(isFile, (route) => route.fulfill({ status: 429, contentType: 'application/json', body: '{}' }));
  await Promise.all([
    page.waitForResponse((response) => response.url() === page.url() && response.ok()),
    page.locator('.files').getByRole('link', { name: 'CSV', exact: true }).click(),
  ]);
  assert.equal(saved, 0);
  await page.unroute(isFile);
  await page.getByRole('searchbox').fill('harbour');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.waitForURL('**q=harbour**');
  await page.getByRole('link', { name: job.title }).waitFor();
  // Nowhere but in memory.
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, history.state]));
  assert.ok(!kept.includes(job.password) && !kept.includes('Basic'), kept);
  assert.ok(sent.some((value) => value?.startsWith('Basic ')));
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Please sign in' }).waitFor();
  const before = sent.length;
  await page.reload();
  assert.ok(sent.slice(before).every((value) => value === undefined), 'still signed in after a reload');
  // A token goes as it is.
  await page.locator('.tools [data-sign-in]').click();
  await dialog.getByLabel('Token', { exact: true }).first().check();
  await dialog.locator('input[name=token]').fill('abc');
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  await dialog.getByRole('alert').waitFor();
  assert.ok(sent.includes('Bearer abc'), String(sent));
  await reader.end();
}

// Bytes of the first view over the wire, and when there is something to see. Only the bytes are judged: times are the machine's.
async function figures(browser, job) {
  for (const [view, path] of [['list', `/${job.index}`], ['article', `/${job.index}/article/${job.neighbours}`], ['overview', '/overview']]) {
    const times = [];
    let bytes = 0;
    for (let round = 0; round < 5; round += 1) {
      const reader = await Reader.open(browser, job);
      const session = await reader.page.context().newCDPSession(reader.page);
      await session.send('Network.enable');
      bytes = 0;
      session.on('Network.loadingFinished', (event) => { bytes += event.encodedDataLength; });
      await reader.go(path);
      await reader.page.waitForLoadState('networkidle');
      const painted = await reader.page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
      times.push(painted);
      await reader.end();
    }
    times.sort((a, b) => a - b);
    console.log(JSON.stringify({ bench: 'page', view, first_view_bytes: bytes, first_contentful_paint_ms: Math.round(times[2]) }));
    assert.ok(bytes > 0 && bytes <= 100 << 10, `${bytes} bytes`);
  }
}

async function main() {
  const [name, job] = [process.argv[2], JSON.parse(process.argv[3])];
  const scenario = { reading, keyboard, plain, editing, signing, figures }[name];
  assert.ok(scenario, `no scenario ${name}`);
  // Nothing in a browser may hang for ever.
  const watchdog = setTimeout(() => {
    console.error(`${name} has not come to its end`);
    process.exit(1);
  }, 4 * PATIENCE_MS);
  // Root has no sandbox of its own in Chromium.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  const browser = await chromium.launch({ executablePath: executable(), args });
  try {
    await scenario(browser, job);
    console.log(`${name}: as it should be`);
  } finally {
    clearTimeout(watchdog);
    await browser.close();
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
