// Takes the pictures of the README.
//   node screenshots.js ADDRESS-OF-A-LIST FOLDER
'use strict';

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const { chromium } = require('playwright-core');
const { executable } = require('./chromium.js');

const MOST_BYTES = 200_000;

async function main() {
  const [list, folder] = process.argv.slice(2);
  const home = list.replace(/[^/]*$/, '');
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  const browser = await chromium.launch({ executablePath: executable(), args });
  const take = async (name, address, { colorScheme = 'light', height = 900 } = {}) => {
    const page = await browser.newPage({ locale: 'en-GB', colorScheme, viewport: { width: 1200, height } });
    await page.goto(address);
    const path = `${folder}/${name}.png`;
    await page.screenshot({ path });
    // Text on paper needs no more than 256 colours.
    execFileSync('pngquant', ['--force', '--ext', '.png', '--strip', '--speed', '1', '256', path]);
    const { size } = fs.statSync(path);
    console.log(`${path} ${size} bytes`);
    assert.ok(size <= MOST_BYTES, `${path} has ${size} bytes`);
    await page.close();
  };
  try {
    // The plots of the overview are lines once there are some samples, one every ten seconds.
    const until = Date.now() + 120_000;
    const points = async () => {
      const overview = await (await fetch(`${home}overview`)).text();
      return Math.min(...[...overview.matchAll(/class="line" d="([^"]*)"/g)].map(([, line]) => line.split('L').length), Infinity);
    };
    for (let found = Infinity; found === Infinity || found < 5; found = await points()) {
      assert.ok(Date.now() < until, 'the overview has no plots');
      await new Promise((resolve) => { setTimeout(resolve, 1000); });
    }
    const page = await browser.newPage();
    // A short article of a story that many published, with a few changes that read well.
    await page.goto(`${list}?sort=most`);
    const stories = await page.locator('.entry a').evaluateAll((links) => links.map((link) => link.href));
    let best = { length: Infinity, address: stories[0] };
    for (const story of stories) {
      await page.goto(story);
      const others = await page.locator('#others tbody a').evaluateAll((links) => links.map((link) => link.href));
      for (const address of others.length >= 4 ? others : []) {
        await page.goto(address);
        const amount = (await page.locator('.amount').allInnerTexts())[0] ?? '';
        const words = Number(amount.match(/^\d+/)?.[0] ?? 0);
        const text = await page.locator('.text').innerText();
        const isLatin = /^[\x00-\x7f£€“”‘’–—]*$/.test(text);
        if (isLatin && words >= 3 && words <= 12 && text.length < best.length) best = { length: text.length, address: page.url() };
      }
    }
    await page.close();
    await take('list', list);
    await take('list-dark', list, { colorScheme: 'dark' });
    await take('detail', best.address, { height: 1640 });
    await take('overview', `${home}overview`, { height: 1100 });
  } finally {
    await browser.close();
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
