// What the checks of pages share: the browser, the HTML checker, and axe on a page that is open.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
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

/** Debian's Chromium; CHROMIUM names another one. */
export function browser() {
  return puppeteer.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
}

/** What is wrong with the text of a page. */
export async function htmlFaults(text) {
  const report = await validator.validateString(text);
  return report.results.flatMap((result) => result.messages).map((message) => `${message.line}:${message.column} ${message.ruleId}: ${message.message}`);
}

/** Says through `told` what errors the console of a page has. */
export function hearErrors(page, told) {
  page.on('console', (message) => {
    if (message.type() === 'error') told(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => told(`error: ${error.message}`));
}

/** How much wider than the screen a page is. */
export function tooWide(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

/** What axe finds on a page that was loaded while its policy was passed by. */
export async function axeFaults(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document));
  return found.violations.flatMap((violation) => violation.nodes.map((node) => `axe ${violation.id}: ${violation.help}: ${node.html.slice(0, 160)}`));
}

/** Lets axe into a page whose policy forbids scripts; the page is to be loaded afterwards. */
export async function letAxeIn(page) {
  const client = await page.createCDPSession();
  await client.send('Page.setBypassCSP', { enabled: true });
}
