// Checks pages: valid HTML, no accessibility fault that axe finds in light and in dark, no request to anywhere, no error of the console,
// nothing wider than a narrow screen.
//
//   node check.mjs FILE.html…     (tests/page/run.sh installs what it needs)
//
// The browser is Debian's Chromium; CHROMIUM names another one.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { HtmlValidate } from 'html-validate';
import puppeteer from 'puppeteer-core';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
// Styles within the page are how it is one file. Lines without their own end tags, such as <br>, are HTML and not XML.
const validator = new HtmlValidate({
  extends: ['html-validate:recommended', 'html-validate:a11y'],
  rules: {
    'no-inline-style': 'off',
    'void-style': 'off',
    'long-title': 'off',
    'no-trailing-whitespace': 'off',
    // A region with a name that takes the keyboard so that it scrolls is what WCAG asks for.
    'prefer-native-element': 'off',
    'no-redundant-role': 'off',
  },
});

/** Opens a page in the browser and tells what is wrong with it. */
async function looked(browser, file, scheme, width) {
  const page = await browser.newPage();
  const faults = [];
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('request', (request) => {
    if (!request.url().startsWith('file:') && !request.url().startsWith('data:')) faults.push(`asks for ${request.url()}`);
  });
  await page.setOfflineMode(true);
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await page.setViewport({ width, height: 900 });
  await page.goto(pathToFileURL(resolve(file)).href);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) faults.push(`it is ${wide} pixels wider than a screen of ${width}`);
  // The page forbids scripts; axe comes by the browser's own way.
  const client = await page.createCDPSession();
  await client.send('Page.setBypassCSP', { enabled: true });
  await page.reload();
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document));
  for (const violation of found.violations) {
    for (const node of violation.nodes) faults.push(`axe ${violation.id}: ${violation.help}: ${node.html.slice(0, 160)}`);
  }
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${scheme}-${width}.png`, fullPage: true });
  await page.close();
  return faults;
}

const files = process.argv.slice(2);
if (files.length === 0) throw new Error('name the pages: node check.mjs report.html');
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
let wrong = 0;
for (const file of files) {
  const faults = new Set();
  const report = await validator.validateFile(file);
  for (const result of report.results) {
    for (const message of result.messages) faults.add(`${message.line}:${message.column} ${message.ruleId}: ${message.message}`);
  }
  for (const [scheme, width] of [['light', 1200], ['dark', 1200], ['light', 360]]) {
    for (const fault of await looked(browser, file, scheme, width)) faults.add(`${scheme}, ${width} pixels: ${fault}`);
  }
  console.log(`${file}: ${faults.size === 0 ? 'good' : `${faults.size} faults`}`);
  for (const fault of faults) console.log(`  ${fault}`);
  wrong += faults.size;
}
await browser.close();
process.exitCode = wrong === 0 ? 0 : 1;
