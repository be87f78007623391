// The page of one recording: what is heard is marked, what is clicked on is played, words can be
// corrected. Without this script the page can be read, and its player played.
'use strict';
const body = document.body, player = document.getElementById('player');
const tools = document.getElementById('tools'), timeline = document.getElementById('timeline');
const segments = [...document.querySelectorAll('.text li')];
const lengthMs = Number(body.dataset.ms);
const words = []; // all that have times: {from, to, span}, in milliseconds, in the page's order

// ---- words

// data-w has for each word: units of text, hundredths of a second since the word before, and of its
// own, and its probability in percent (page.c).
function certainty(percent) {
  return percent === undefined || percent >= 75 ? '' : percent >= 50 ? 'u1' : 'u2';
}
function cutWords(li) {
  const p = li.querySelector('p'), text = p.textContent;
  let at = 0, time = Math.trunc(li.dataset.s / 10);
  if (!p.dataset.w) return;
  const made = document.createDocumentFragment();
  for (const word of p.dataset.w.split(' ')) {
    const [units, gap, own, percent] = word.split(',').map(Number);
    const part = text.slice(at, at + units), bare = part.trimStart();
    const span = document.createElement('span');
    made.append(part.slice(0, part.length - bare.length), span);
    span.textContent = bare;
    span.className = certainty(percent);
    words.push({from: (time + gap) * 10, to: (time + gap + own) * 10, span});
    time += gap + own;
    at += units;
  }
  made.append(text.slice(at));
  p.replaceChildren(made);
}
segments.forEach(cutWords);
const wordOf = new Map(words.map((w) => [w.span, w]));

// The last of a list, rising by `from`, that begins at or before ms; -1: none.
function lastBefore(list, ms, from) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (from(list[middle]) <= ms) low = middle + 1; else high = middle;
  }
  return low - 1;
}
const startOf = (li) => Number(li.dataset.s);

// ---- hearing

let nowWord = null, nowSegment = null, head = null;
function mark(old, element, name) {
  if (old !== element) {
    old?.classList.remove(name);
    element?.classList.add(name);
  }
  return element;
}
function showTime() {
  const ms = player.currentTime * 1000;
  const w = words[lastBefore(words, ms, (x) => x.from)];
  const li = segments[lastBefore(segments, ms, startOf)];
  nowWord = mark(nowWord, w && ms < w.to + 300 ? w.span : null, 'now');
  nowSegment = mark(nowSegment, li && ms <= Number(li.dataset.e) + 300 ? li : null, 'at');
  if (head) head.style.left = 100 * Math.min(1, ms / lengthMs) + '%';
}
function follow() {
  showTime();
  if (!player.paused) requestAnimationFrame(follow);
}
function seek(ms, play) {
  if (!player) return;
  player.currentTime = Math.max(0, ms / 1000);
  if (play) player.play().catch(() => {}); // a browser may want to be asked first
}
// Where the address says: #t=83.5
function seekToAddress() {
  const t = /^#t=(\d+(?:\.\d+)?)$/.exec(location.hash);
  if (!t) return;
  const ms = Number(t[1]) * 1000, li = segments[Math.max(0, lastBefore(segments, ms + 100, startOf))];
  seek(ms, false);
  li?.scrollIntoView({block: 'center'});
  if (!player) nowSegment = mark(nowSegment, li, 'at');
}
function currentIndex() {
  const ms = player ? player.currentTime * 1000 : nowSegment ? startOf(nowSegment) : -1;
  return lastBefore(segments, ms + 50, startOf);
}

// ---- doubts

const doubts = segments.filter((li) => li.classList.contains('doubt'));
let doubtAt = null;
function walk(step) {
  const from = doubtAt ? segments.indexOf(doubtAt) : currentIndex() - (step < 0 ? 0 : 1);
  const next = step > 0 ? doubts.find((li) => segments.indexOf(li) > from)
    : doubts.findLast((li) => segments.indexOf(li) < from);
  if (!next) return say(step > 0 ? 'No doubt behind this one.' : 'No doubt before this one.');
  doubtAt = next;
  next.scrollIntoView({block: 'center'});
  next.querySelector('.time').focus({preventScroll: true});
  if (player) seek(startOf(next), true); else nowSegment = mark(nowSegment, next, 'at');
  say(`Doubt ${doubts.indexOf(next) + 1} of ${doubts.length}`);
}

// ---- corrections

const before = new Map(); // segment: its text as the page had it, byte for byte, of those that were edited
const rawOf = (li) => li.querySelector('p').textContent;
const tidy = (text) => text.replace(/\s+/g, ' ').trim();
const textOf = (li) => tidy(rawOf(li));
const isChanged = (li) => before.has(li) && textOf(li) !== tidy(before.get(li));
function edit(on) {
  body.classList.toggle('editing', on);
  for (const li of segments) {
    const p = li.querySelector('p');
    if (on) {
      p.contentEditable = 'plaintext-only';
      p.setAttribute('role', 'textbox');
      p.setAttribute('aria-label', 'Text at ' + li.querySelector('.time').textContent);
    } else {
      p.removeAttribute('contenteditable');
      p.removeAttribute('role');
      p.removeAttribute('aria-label');
    }
  }
  editButton.setAttribute('aria-pressed', on);
  if (on) say('Click into a text and correct it. Save when you are done.');
}
function changed() {
  return segments.filter(isChanged);
}
function onInput(event) {
  const li = event.target.closest('li');
  li.classList.toggle('changed', isChanged(li));
  const n = changed().length;
  saveButton.disabled = n === 0;
  say(n === 1 ? '1 passage changed' : n + ' passages changed');
}
// For `nightshift correct`: what was edited alone, with what it read before, so that it changes
// nothing that somebody else has changed meanwhile.
function corrections() {
  return JSON.stringify({
    recording: Number(body.dataset.id),
    segments: changed().map((li) => ({
      start_ms: startOf(li), end_ms: Number(li.dataset.e), was: before.get(li), text: textOf(li),
    })),
  }, null, 2) + '\n';
}
let saved = true;
function save() {
  const name = body.dataset.name.replace(/\.[^.]*$/, '').replace(/[^\p{L}\p{N}._-]+/gu, '_')
    .replace(/^[-._]+/, '') || 'recording';
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([corrections()], {type: 'application/json'}));
  link.download = name + '.corrected.json';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  saved = true;
  say(`Saved. Now: nightshift correct ${body.dataset.id} ${link.download}`);
}

// ---- what one sees of it

const status = document.createElement('span');
status.setAttribute('role', 'status');
function say(sentence) { status.textContent = sentence; }
function button(name, label, action) {
  const made = document.createElement('button');
  made.type = 'button';
  made.textContent = name;
  if (label) made.title = label;
  made.addEventListener('click', action);
  return made;
}
function remembered(name, value) { // storage may be refused to a file
  try {
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch { return null; }
}
const editButton = button('Correct', 'Correct words (e)', () => edit(!body.classList.contains('editing')));
const saveButton = button('Save corrections', 'As a file for nightshift correct', save);
const keysButton = button('Keys', 'Space: play; ← →: 5 seconds; n p: doubts; e: correct', () => {
  useKeys(keysButton.getAttribute('aria-pressed') !== 'true');
});
function useKeys(on) {
  keysButton.setAttribute('aria-pressed', on);
  remembered('keys', on ? 'on' : 'off');
  if (on) say('Space: play or pause; ← →: 5 seconds; n, p: next, previous doubt; e: correct');
}
saveButton.disabled = true;
editButton.setAttribute('aria-pressed', false);
keysButton.setAttribute('aria-pressed', remembered('keys') !== 'off');
if (doubts.length > 0)
  tools.append(button('← Doubt', 'Previous doubt (p)', () => walk(-1)),
               button('Doubt →', 'Next doubt (n)', () => walk(1)));
if (segments.length > 0) tools.append(editButton, saveButton);
tools.append(keysButton, status);
tools.hidden = false;

const actions = {
  ' ': () => player && (player.paused ? player.play().catch(() => {}) : player.pause()),
  ArrowLeft: () => player && seek(player.currentTime * 1000 - 5000),
  ArrowRight: () => player && seek(player.currentTime * 1000 + 5000),
  n: () => walk(1),
  p: () => walk(-1),
  e: () => edit(!body.classList.contains('editing')),
};
document.addEventListener('keydown', (event) => {
  const at = event.target;
  if (event.key === 'Escape' && at.isContentEditable) return at.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || at.isContentEditable) return;
  if (keysButton.getAttribute('aria-pressed') !== 'true') return;
  // What has the focus has its keys.
  if (at.closest('input, select, audio, video') || (event.key === ' ' && at.closest('button, a, summary'))) return;
  if (actions[event.key] && segments.length > 0) {
    event.preventDefault();
    actions[event.key]();
  }
});
document.getElementById('text').addEventListener('click', (event) => {
  const w = wordOf.get(event.target), time = event.target.closest('a.time');
  if (time) doubtAt = null;
  if (!w || body.classList.contains('editing')) return;
  doubtAt = null;
  seek(w.from, true);
});
// While it is written in, a text is one: browsers carry the shades of words along with what is typed.
let whole = null; // its words, until it is left
document.addEventListener('focusin', (event) => {
  if (!event.target.matches('.editing .text p')) return;
  whole = [...event.target.childNodes];
  event.target.textContent = event.target.textContent;
});
document.addEventListener('focusout', (event) => {
  const p = event.target;
  if (whole && p.matches('.text p') && whole.map((n) => n.textContent).join('') === p.textContent)
    p.replaceChildren(...whole);
  whole = null;
});
document.addEventListener('beforeinput', (event) => {
  const li = event.target.closest?.('.text li');
  if (li && !before.has(li)) before.set(li, rawOf(li));
  saved = false;
});
document.addEventListener('input', (event) => { if (event.target.closest('.text li')) onInput(event); });
addEventListener('beforeunload', (event) => { if (!saved && changed().length > 0) event.preventDefault(); });
addEventListener('hashchange', seekToAddress);
if (player) {
  body.classList.add('playable');
  head = document.createElement('span');
  head.className = 'head';
  if (timeline.childElementCount > 0) timeline.append(head);
  player.addEventListener('play', follow);
  for (const name of ['seeked', 'timeupdate', 'loadedmetadata']) player.addEventListener(name, showTime);
  timeline.addEventListener('click', (event) => {
    const box = timeline.getBoundingClientRect();
    doubtAt = null;
    seek(lengthMs * (event.clientX - box.left) / box.width, true);
  });
}
seekToAddress();
