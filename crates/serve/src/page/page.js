// Asks the server what the form says, and shows its answers. The address holds the question; nothing is kept elsewhere.
'use strict';

const form = document.getElementById('question');
const cancel = document.getElementById('cancel');
const shared = document.getElementById('shared');
// Which fields an answer depends on: others may change without asking again.
const CHANGES = [...document.querySelectorAll('#changes select')].map((select) => select.name);
const FIELDS = {
  benchmark: ['cluster', 'tool', 'options', 'nodes', 'ranks', ...CHANGES],
  explain: ['cluster', 'tool', 'options', 'nodes', 'ranks', 'size', ...CHANGES],
  links: ['cluster', 'pattern', 'bytes', ...CHANGES],
};
const USUAL = { cluster: 'ri2', tool: 'osu_latency', pattern: 'permutation' };
const views = new Map([...document.querySelectorAll('[data-view]')].map((section) => [section.dataset.view, {
  state: section.querySelector('.state'),
  answer: section.querySelector('.answer'),
  // What is shown, or on its way.
  query: null,
  asking: null,
}]));

/** The query that these fields of the form make; empty ones are left out. */
function query(names) {
  const said = new URLSearchParams();
  for (const name of names) {
    const value = form.elements[name].value.trim();
    if (value !== '') said.set(name, value);
  }
  return said;
}

/** Puts what an address says into the form. */
function fill(search) {
  const said = new URLSearchParams(search);
  for (const field of form.elements) {
    if (!field.name) continue;
    const value = said.get(field.name) ?? USUAL[field.name] ?? '';
    field.value = value;
    // A choice that this server does not have is sent all the same: the answer says what is wrong with it.
    if (field.value !== value) field.add(new Option(`${value} (not here)`, value, true, true));
  }
  mark();
}

/** Shows which parts are not those of the cluster. */
function mark() {
  for (const name of CHANGES) form.elements[name].classList.toggle('changed', form.elements[name].value !== '');
}

function busy() {
  cancel.disabled = ![...views.values()].some((view) => view.asking);
}

function tell(view, words, refused = false) {
  view.state.textContent = words;
  view.state.classList.toggle('refused', refused);
}

/** Asks for one view, unless its answer is there or on its way. */
async function ask(name, view) {
  const said = query(FIELDS[name]).toString();
  if (view.query === said) return;
  view.asking?.abort();
  const asking = new AbortController();
  Object.assign(view, { query: said, asking });
  tell(view, 'running …');
  view.answer.setAttribute('aria-busy', 'true');
  busy();
  try {
    const response = await fetch(`/answer?view=${name}&${said}`, { signal: asking.signal });
    const reply = await response.json();
    if (view.asking !== asking) return;
    if (reply.answer) {
      // The server made it of its own results, with every word escaped.
      view.answer.innerHTML = reply.answer.html;
      tell(view, '');
    } else {
      view.answer.replaceChildren();
      tell(view, `${reply.refused.message}. ${reply.refused.help ? `To mend it: ${reply.refused.help}.` : ''}`, true);
      if (!response.ok) view.query = null;
    }
  } catch (error) {
    if (view.asking !== asking) return;
    view.query = null;
    tell(view, error.name === 'AbortError' ? 'cancelled' : 'the server does not answer; is it still running?', error.name !== 'AbortError');
  } finally {
    if (view.asking === asking) {
      view.asking = null;
      view.answer.removeAttribute('aria-busy');
      busy();
    }
  }
}

/** Asks for all views; the address follows. */
function run({ keep = true } = {}) {
  mark();
  const whole = query(['cluster', 'tool', 'options', 'nodes', 'ranks', ...CHANGES, 'size', 'pattern', 'bytes']);
  const address = `/?${whole}`;
  if (keep && address !== location.pathname + location.search) history.pushState(null, '', address);
  document.title = `${form.elements.tool.value} on ${form.elements.cluster.value} · Fabriscope`;
  shared.textContent = '';
  for (const [name, view] of views) ask(name, view);
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  run();
});
form.addEventListener('change', () => run());
cancel.addEventListener('click', () => {
  for (const view of views.values()) view.asking?.abort();
});
document.getElementById('reset').addEventListener('click', () => {
  for (const name of CHANGES) form.elements[name].value = '';
  run();
});
document.getElementById('share').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    shared.textContent = 'copied';
  } catch {
    shared.textContent = 'take it from the line above the page';
  }
});
window.addEventListener('popstate', () => {
  fill(location.search);
  run({ keep: false });
});
fill(location.search);
run({ keep: false });
