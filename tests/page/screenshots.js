// Takes the pictures of the README.
//   node screenshots.js ADDRESS-OF-A-LIST FOLDER
'use strict';

const assert = require('node:assert/strict');
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
    await page.goto(`${list}?q=ferry&sort=most`);
    await page.locator('.entry a').first().click();
    // The article of the group with the most changes that still reads well.
    const others = await page.locator('#others tbody a').evaluateAll((links) => links.map((link) => link.href));
    let best = { marks: 0, address: page.url() };
    for (const address of others) {
      await page.goto(address);
      const marks = await page.locator('.text ins, .text del').count();
      if (marks > best.marks && marks <= 8) best = { marks, address: page.url() };
    }
    await page.close();
    await take('list', list);
    await take('list-dark', list, { colorScheme: 'dark' });
    await take('detail', best.address, { height: 1500 });
    await take('overview', `${home}overview`, { height: 1100 });
  } finally {
    await browser.close();
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
