// The archive at a glance: its list, and the search over all texts. What is looked for is in scripts
// beside this one (word_index.h), loaded when they are wanted: a file may not be fetched from disk.
'use strict';
const ROWS = 100, HITS = 20, PASSAGES = 3, PIECES_MOST = 40;
const make = (name, text, className) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};
const count = (n) => n.toLocaleString('en');
const time = (s) => {
  const two = (n) => String(Math.floor(n)).padStart(2, '0');
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(s / 60 % 60)}:${two(s % 60)}`
    : `${Math.floor(s / 60)}:${two(s % 60)}`;
};

// ---- the list

let recordings = []; // of list.js
let readable = [];   // those with a page: the index counts them
const columns = [
  ['name', 'Recording'], ['date', 'Recorded'], ['seconds', 'Length'], ['language', 'Language'],
  ['state', 'State'], ['doubt', 'Doubt'],
];
const view = {sort: '', down: false, shown: ROWS, rows: []};

function link(r) {
  if (!r.id) return document.createTextNode(r.name);
  const a = make('a', r.name);
  a.href = `recordings/${r.id}.html`;
  return a;
}
function row(r) {
  const tr = make('tr'), th = make('th');
  th.scope = 'row';
  th.dir = 'auto';
  th.append(link(r), ' ', make('span', [r.folder, r.title, r.error].filter(Boolean).join('; '), 'quiet'));
  th.title = r.where;
  tr.append(th, make('td', r.date), make('td', r.seconds < 0 ? '' : time(r.seconds)),
            make('td', r.language), make('td', r.state), make('td', r.doubt ? r.doubt + ' %' : ''));
  return tr;
}
function draw() {
  const tbody = document.querySelector('#rows tbody');
  tbody.replaceChildren(...view.rows.slice(0, view.shown).map(row));
  document.getElementById('shown').textContent =
    `${count(Math.min(view.shown, view.rows.length))} of ${count(view.rows.length)} recordings`;
  document.getElementById('more').hidden = view.shown >= view.rows.length;
}
function choose() {
  const value = (id) => document.getElementById(id).value;
  const part = fold(value('part')), language = value('language'), year = value('year'), state = value('state');
  view.rows = recordings.filter((r) => (!part || r.folded.includes(part)) && (!language || r.language === language)
    && (!year || r.date.startsWith(year)) && (!state || r.state === state));
  if (view.sort) {
    const key = view.sort, sign = view.down ? -1 : 1;
    const compare = typeof recordings[0][key] === 'number' ? (a, b) => a - b : new Intl.Collator('en', {numeric: true}).compare;
    view.rows.sort((a, b) => sign * compare(a[key], b[key]));
  }
  view.shown = ROWS;
  draw();
}
function sortBy(key, th) {
  view.down = view.sort === key && !view.down;
  view.sort = key;
  for (const other of document.querySelectorAll('#rows thead th')) other.removeAttribute('aria-sort');
  th.setAttribute('aria-sort', view.down ? 'descending' : 'ascending');
  choose();
}
function field(label, control, id) {
  const outer = make('label', label);
  control.id = id;
  control.addEventListener('input', choose);
  outer.append(make('br'), control);
  return outer;
}
function selection(values) {
  const select = make('select');
  select.append(new Option('All', ''));
  for (const v of [...new Set(values)].filter(Boolean).sort()) select.append(new Option(v, v));
  return select;
}
function makeList() {
  const filters = make('form'), table = make('table', undefined, 'list'), tr = make('tr');
  const part = make('input'), more = make('button', 'Show more', 'more'), shown = make('p', '', 'quiet');
  filters.id = 'filters';
  filters.addEventListener('submit', (event) => event.preventDefault());
  part.type = 'search';
  filters.append(field('Name, folder or title', part, 'part'),
                 field('Language', selection(recordings.map((r) => r.language)), 'language'),
                 field('Year', selection(recordings.map((r) => r.date.slice(0, 4))), 'year'),
                 field('State', selection(recordings.map((r) => r.state)), 'state'));
  for (const [key, name] of columns) {
    const th = make('th'), sort = make('button', name);
    th.scope = 'col';
    sort.type = 'button';
    sort.addEventListener('click', () => sortBy(key, th));
    th.append(sort);
    tr.append(th);
  }
  table.id = 'rows';
  table.append(make('thead'), make('tbody'));
  table.tHead.append(tr);
  more.id = 'more';
  more.type = 'button';
  more.addEventListener('click', () => { view.shown += 5 * ROWS; draw(); });
  shown.id = 'shown';
  shown.setAttribute('role', 'status');
  document.getElementById('list').append(filters, shown, table, more);
  choose();
}
function list(rows) { // called by list.js
  let shared = rows.length ? rows[0][1].replace(/[^/]*$/, '') : ''; // the folder in which all lie
  for (const [, where] of rows) while (!where.startsWith(shared)) shared = shared.replace(/[^/]*\/+$/, '');
  recordings = rows.map(([id, where, title, language, date, seconds, state, doubt, error]) => {
    const at = where.lastIndexOf('/') + 1;
    return {id, where, name: where.slice(at), folder: where.slice(shared.length, at).replace(/\/+$/, ''), title, language, date,
            seconds, state, doubt, error, folded: fold(`${title} ${where}`)};
  });
  readable = recordings.filter((r) => r.id);
  makeList();
}

// ---- the search

// As word_index.c has it: compatibility forms resolved, no marks, lower case.
function fold(text) {
  return text.normalize('NFKD').replace(/\p{M}+/gu, '').toLowerCase().replace(/ς/g, 'σ');
}
// Of scripts without blanks each character is a word.
const ALONE = '\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u31f0-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}';
const WORD = new RegExp(`(?=[\\p{L}\\p{N}])[${ALONE}]|(?:(?![${ALONE}])[\\p{L}\\p{N}])+`, 'gu');
const cut = (folded) => (folded.match(WORD) || []).map((w) => [...w].slice(0, 40).join(''));

const scripts = new Map(); // name: a promise of what it brought
const arrived = new Map();
function load(name, key) {
  if (!scripts.has(name))
    scripts.set(name, new Promise((done) => {
      const script = make('script');
      script.src = name;
      script.onload = script.onerror = () => { script.remove(); done(arrived.get(key) || []); };
      document.head.append(script);
    }));
  return scripts.get(name);
}
let table = []; // of pieces.js: [first word, ID], in order
function pieces(rows) { // called by it
  table = rows;
  document.getElementById('search').hidden = false;
}
function words(id, rows) { arrived.set(id, rows); }  // called by search/ID.js
function texts(id, rows) { arrived.set(id, rows); } // called by recordings/ID.js

// As many as are loaded at once; `more`: there are, of so short a beginning.
function piecesOf(word, prefix) {
  let from = 0;
  while (from + 1 < table.length && table[from + 1][0] <= word) from++;
  let to = from + 1;
  while (prefix && to < table.length && table[to][0].startsWith(word)) to++;
  return {ids: table.slice(from, Math.min(to, from + PIECES_MOST)).map((row) => row[1]), more: to > from + PIECES_MOST};
}
// Numbers of recordings, as word_index.h writes them.
const DIGITS = new Map([...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'].map((c, i) => [c, i]));
function numbers(code, into) {
  let n = -1, value = 0, shift = 0;
  for (const c of code) {
    const digit = DIGITS.get(c);
    value += (digit & 31) * 2 ** shift;
    shift += 5;
    if (digit < 32) {
      n += value;
      into.add(n);
      value = shift = 0;
    }
  }
  return into;
}
async function having(word, prefix) {
  const found = new Set(), {ids, more} = piecesOf(word, prefix);
  for (const rows of await Promise.all(ids.map((id) => load(`search/${id}.js`, id))))
    for (const [w, code] of rows)
      if (w === word || (prefix && w.startsWith(word))) numbers(code, found);
  return {found, more};
}

// Does the passage have the words one after the other, as they were asked for? How many has it?
function fit(folded, asked) {
  const said = cut(folded);
  const is = (w, i) => w === asked[i].word || (asked[i].prefix && w?.startsWith(asked[i].word));
  if (said.some((_, at) => asked.every((__, i) => is(said[at + i], i)))) return asked.length + 1;
  return asked.filter((_, i) => said.some((w) => is(w, i))).length;
}
// The passage with marks around what was asked for.
function marked(text, asked) {
  const p = document.createDocumentFragment();
  for (const part of text.split(/([\p{L}\p{N}\p{M}]+)/u)) {
    const said = cut(fold(part));
    const hit = said.some((w) => asked.some((a) => w === a.word || (a.prefix && w.startsWith(a.word))));
    p.append(hit ? make('mark', part) : part);
  }
  return p;
}
function hit(r, rows, asked) {
  const li = make('li'), best = rows.map(([s, text]) => [fit(fold(text), asked), s, text]).filter((x) => x[0] > 0);
  const most = Math.max(0, ...best.map((x) => x[0])), shown = best.filter((x) => x[0] === most);
  li.dir = 'auto';
  li.append(link(r), ' ', make('span', [r.folder, r.date, r.language].filter(Boolean).join(', '), 'quiet'));
  for (const [, s, text] of shown.slice(0, PASSAGES)) {
    const p = make('p'), a = make('a', time(s), 'time');
    a.href = `recordings/${r.id}.html#t=${s}`;
    p.append(a, ' ', marked(text, asked));
    li.append(p);
  }
  if (shown.length > PASSAGES) li.append(make('p', `and ${count(shown.length - PASSAGES)} more passages`, 'quiet'));
  return {li, most};
}

let asking = 0;
async function search() {
  const mine = ++asking, hits = document.getElementById('hits'), found = document.getElementById('found');
  const typed = document.getElementById('words').value, list = cut(fold(typed));
  // The last word may be half typed; of one or two letters too much begins so.
  const asked = list.map((word, i) => ({word, prefix: i === list.length - 1 && word.length > 2 && !/\s$/.test(typed)}));
  if (asked.length === 0) {
    hits.replaceChildren();
    found.textContent = '';
    return;
  }
  const sets = await Promise.all(asked.map((a) => having(a.word, a.prefix)));
  if (mine !== asking) return;
  const all = [...sets[0].found].filter((n) => sets.every((s) => s.found.has(n))).sort((a, b) => a - b);
  const more = sets.some((s) => s.more);
  const some = all.slice(0, 3 * HITS).map((n) => readable[n]).filter(Boolean);
  const read = await Promise.all(some.map((r) => load(`recordings/${r.id}.js`, r.id)));
  if (mine !== asking) return;
  // Those that say it in so many words, or in one passage, before those that have the words somewhere.
  const made = some.map((r, i) => hit(r, read[i], asked)).sort((a, b) => b.most - a.most);
  hits.replaceChildren(...made.slice(0, HITS).map((m) => m.li));
  found.textContent = all.length === 0 ? (more ? 'Too many words begin so: type on.' : 'Nobody says that.')
    : `${more ? 'At least ' : ''}${count(all.length)} ${all.length === 1 ? 'recording has' : 'recordings have'} ${asked.length === 1 ? 'it' : 'all of these words'}`
      + (all.length > HITS ? `; these are ${HITS} of them.` : '.');
}
document.getElementById('words').addEventListener('input', search);
document.getElementById('asked').addEventListener('submit', (event) => { event.preventDefault(); search(); });
