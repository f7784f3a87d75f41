// Where the browser is: CHROMIUM, or the first of the usual names on the path.
'use strict';

const fs = require('node:fs');

const NAMES = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'];

exports.executable = () => {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  const folders = (process.env.PATH ?? '').split(':');
  const paths = NAMES.flatMap((name) => folders.map((folder) => `${folder}/${name}`));
  const found = paths.find((path) => fs.existsSync(path));
  if (!found) throw new Error('no Chromium is installed: apt-get install chromium, or name one in CHROMIUM');
  return found;
};
