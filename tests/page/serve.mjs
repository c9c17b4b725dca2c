// Drives the page of `fabriscope serve` in Chromium as a reader would: it loads, runs a benchmark, changes a part, and the plot changes.
//
//   node serve.mjs PROGRAM     (tests/page/run.sh installs what it needs)
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { axeFaults, browser, hearErrors, htmlFaults, letAxeIn, tooWide } from './chromium.mjs';

const [program] = process.argv.slice(2);
if (!program) throw new Error('name the program: node serve.mjs target/debug/fabriscope');

/** Starts a server; gives the address that it prints. */
function serve(...options) {
  const server = spawn(program, ['serve', '--address', '127.0.0.1:0', ...options], { stdio: ['ignore', 'pipe', 'inherit'] });
  return new Promise((found, failed) => {
    server.once('exit', (status) => failed(new Error(`the server ended with ${status}`)));
    server.stdout.once('data', (line) => found({ server, address: line.toString().trim() }));
  });
}

const answered = (view) => `[data-view="${view}"] .answer svg`;
const VIEWS = ['benchmark', 'explain', 'links'];

/** Waits until nothing is on its way. */
async function settled(page) {
  await page.waitForFunction(() => [...document.querySelectorAll('.answer')].every((answer) => !answer.hasAttribute('aria-busy')), { timeout: 60_000 });
}

/** What a view shows. */
const plot = (page, view) => page.$eval(answered(view), (svg) => svg.outerHTML);
const state = (page, view) => page.$eval(`[data-view="${view}"] .state`, (line) => line.textContent);

const { server, address } = await serve();
const chromium = await browser();
const faults = [];
let count = 0;
async function step(name, work) {
  count += 1;
  await work();
  assert.deepEqual(faults, [], name);
  console.log(`serve: ${name}: good`);
}

try {
  const page = await chromium.newPage();
  hearErrors(page, (fault) => faults.push(fault));
  page.on('request', (request) => {
    if (!request.url().startsWith(address) && !request.url().startsWith('data:')) faults.push(`asks for ${request.url()}`);
  });
  await page.setViewport({ width: 1200, height: 900 });

  await step('it loads, and shows all three views', async () => {
    await page.goto(address);
    await settled(page);
    for (const view of VIEWS) assert.ok(await page.$(answered(view)), `${view}: ${await state(page, view)}`);
    assert.deepEqual(await htmlFaults(await (await fetch(address)).text()), []);
  });

  await step('it runs a benchmark', async () => {
    await page.select('#tool', 'osu_bw');
    await settled(page);
    assert.match(await page.$eval('[data-view="benchmark"] pre', (output) => output.textContent), /OSU MPI Bandwidth Test/);
    assert.match(page.url(), /tool=osu_bw/);
    assert.equal(await page.title(), 'osu_bw on ri2 · Fabriscope');
  });

  let before, after, shared;
  await step('a part is changed, and the plot changes', async () => {
    before = { benchmark: await plot(page, 'benchmark'), explain: await plot(page, 'explain') };
    await page.select('#link', 'fdr');
    await settled(page);
    after = await plot(page, 'benchmark');
    shared = page.url();
    assert.notEqual(after, before.benchmark);
    assert.notEqual(await plot(page, 'explain'), before.explain);
    assert.match(after, /ri2 as it is/);
    assert.match(await page.$eval('[data-view="benchmark"] caption', (caption) => caption.textContent), /as it is, and with link fdr/);
  });

  await step('the address alone gives the same picture; the way back gives the old one', async () => {
    const other = await chromium.newPage();
    hearErrors(other, (fault) => faults.push(fault));
    await other.goto(shared);
    await settled(other);
    assert.equal(await plot(other, 'benchmark'), after);
    assert.equal(await other.$eval('#link', (select) => select.value), 'fdr');
    await other.close();
    await page.goBack();
    await settled(page);
    assert.equal(await plot(page, 'benchmark'), before.benchmark);
    assert.equal(await page.$eval('#link', (select) => select.value), '');
  });

  await step('it can be used with the keyboard alone', async () => {
    await page.goto(address);
    await settled(page);
    const controls = await page.$$eval('form select, form input, form button:not(:disabled)', (all) => all.map((control) => control.id || control.type));
    const reached = [];
    for (let presses = 0; presses < controls.length + 1; presses += 1) {
      await page.keyboard.press('Tab');
      const focus = await page.evaluate(() => {
        const at = document.activeElement;
        return { name: at.id || at.type || at.className, outline: getComputedStyle(at).outlineStyle };
      });
      assert.notEqual(focus.outline, 'none', `${focus.name} does not show that it has the focus`);
      reached.push(focus.name);
    }
    assert.deepEqual(reached, ['skip', ...controls]);
    // Typing chooses, Enter in a field runs.
    await page.focus('#tool');
    await page.keyboard.type('ib_write_bw');
    await page.focus('#options');
    await page.keyboard.type('-s 65536');
    await page.keyboard.press('Enter');
    await settled(page);
    assert.match(page.url(), /tool=ib_write_bw&options=-s(\+|%20)65536/);
    assert.match(await page.$eval('[data-view="benchmark"] pre', (output) => output.textContent), /65536/);
  });

  await step('bad input says what is wrong, and nothing is lost', async () => {
    await page.$eval('#options', (field) => { field.value = '--no-such-option <b>'; });
    await page.$eval('#nodes', (field) => { field.value = '-3'; });
    await page.click('button[type="submit"]');
    await settled(page);
    assert.match(await state(page, 'benchmark'), /`nodes` is `-3`.*whole number/);
    await page.$eval('#nodes', (field) => { field.value = ''; });
    await page.click('button[type="submit"]');
    await settled(page);
    assert.match(await state(page, 'benchmark'), /--no-such-option/);
    assert.equal(await page.$eval('#options', (field) => field.value), '--no-such-option <b>');
    await page.goto(`${address}?cluster=nowhere&tool=osu_bw`);
    await settled(page);
    assert.match(await state(page, 'benchmark'), /nowhere/);
    await page.goto(address);
    await settled(page);
    assert.ok(await page.$(answered('benchmark')));
  });

  await step('a long answer can be cancelled', async () => {
    await page.select('#pattern', 'all_to_all');
    await page.select('#cluster', 'lab-1024');
    await page.waitForFunction(() => !document.getElementById('cancel').disabled);
    await page.click('#cancel');
    await page.waitForFunction(() => document.querySelector('[data-view="links"] .state').textContent === 'cancelled');
    await settled(page);
    await page.goto(address);
    await settled(page);
    assert.ok(await page.$(answered('links')));
  });

  await step('fifty questions at once are all answered', async () => {
    const kinds = await page.evaluate(async () => {
      const ask = async (number) => {
        const response = await fetch(`/answer?cluster=ri2&tool=osu_latency&options=-m+${8 + number}:${8 + number}+-i+10`);
        return Object.keys(await response.json())[0];
      };
      return Promise.all([...Array(50).keys()].map(ask));
    });
    assert.deepEqual(kinds, Array(50).fill('answer'));
  });

  await step('axe finds nothing, in light and in dark, and a narrow screen is wide enough', async () => {
    const found = new Set();
    for (const [scheme, width] of [['light', 1200], ['dark', 1200], ['light', 360]]) {
      const other = await chromium.newPage();
      await letAxeIn(other);
      await other.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
      await other.setViewport({ width, height: 900 });
      await other.goto(`${address}?cluster=ri2&tool=osu_bw&link=fdr`);
      await settled(other);
      for (const fault of await axeFaults(other)) found.add(`${scheme}: ${fault}`);
      const wide = await tooWide(other);
      if (wide > 0) found.add(`${wide} pixels wider than a screen of ${width}`);
      if (process.env.SHOTS) await other.screenshot({ path: `${process.env.SHOTS}/serve-${scheme}-${width}.png`, fullPage: true });
      await other.close();
    }
    assert.deepEqual([...found], []);
  });
} finally {
  await chromium.close();
  server.removeAllListeners('exit');
  server.kill('SIGINT');
}
console.log(`serve: ${count} steps`);
