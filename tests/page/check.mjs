// Checks pages: valid HTML, no accessibility fault that axe finds in light and in dark, no request to anywhere, no error of the console,
// nothing wider than a narrow screen.
//
//   node check.mjs FILE.html…     (tests/page/run.sh installs what it needs)
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { axeFaults, browser, hearErrors, htmlFaults, letAxeIn, tooWide } from './chromium.mjs';

/** Opens a page in the browser and tells what is wrong with it. */
async function looked(chromium, file, scheme, width) {
  const page = await chromium.newPage();
  const faults = [];
  hearErrors(page, (fault) => faults.push(fault));
  page.on('request', (request) => {
    if (!request.url().startsWith('file:') && !request.url().startsWith('data:')) faults.push(`asks for ${request.url()}`);
  });
  await page.setOfflineMode(true);
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await page.setViewport({ width, height: 900 });
  await page.goto(pathToFileURL(resolve(file)).href);
  const wide = await tooWide(page);
  if (wide > 0) faults.push(`it is ${wide} pixels wider than a screen of ${width}`);
  await letAxeIn(page);
  await page.reload();
  faults.push(...await axeFaults(page));
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${scheme}-${width}.png`, fullPage: true });
  await page.close();
  return faults;
}

const files = process.argv.slice(2);
if (files.length === 0) throw new Error('name the pages: node check.mjs report.html');
const chromium = await browser();
let wrong = 0;
for (const file of files) {
  const faults = new Set(await htmlFaults(await readFile(file, 'utf8')));
  for (const [scheme, width] of [['light', 1200], ['dark', 1200], ['light', 360]]) {
    for (const fault of await looked(chromium, file, scheme, width)) faults.add(`${scheme}, ${width} pixels: ${fault}`);
  }
  console.log(`${file}: ${faults.size === 0 ? 'good' : `${faults.size} faults`}`);
  for (const fault of faults) console.log(`  ${fault}`);
  wrong += faults.size;
}
await chromium.close();
process.exitCode = wrong === 0 ? 0 : 1;
