// The page of the service: searches, opens documents, takes judgements, classifies. No library, no build step.
// Texts from outside become text nodes and nothing else.

import { excerpt, fragment, readable, split } from "./text.js";

const $ = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "vars") for (const [key, number] of Object.entries(value)) node.style.setProperty(`--${key}`, number);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}

const spoken = (text) => el("span", { class: "spoken" }, text);
const percent = (p) => (p > 0 && p < 0.01 ? "< 1 %" : p < 1 && p > 0.99 ? "> 99 %" : `${Math.round(p * 100)} %`);
const signed = (x) => (Math.abs(x) < 0.005 ? "" : x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);
const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

// ---- words

// fine classes whose names are cut short
const FINE = {
  abb: "abbreviation", cremat: "creation", def: "definition", desc: "description", dismed: "disease", dist: "distance",
  exp: "expansion", gr: "group", ind: "person", instru: "instrument", mount: "mountain", ord: "order", perc: "percentage",
  techmeth: "technique", temp: "temperature", termeq: "term", veh: "vehicle", volsize: "size",
};
const CLASS = { ABBR: "abbreviation", DESC: "description", ENTY: "thing", HUM: "person or group", LOC: "place", NUM: "number or date" };
const className = (name) => CLASS[name] ?? info.classes?.find((one) => one.name === name)?.description ?? name;
const fineName = (name) => { const fine = name?.split(":")[1]; return fine && (FINE[fine] ?? fine); };

const PARTS = {
  dense: "meaning", bm25: "words (BM25)", rrf: "ranks", match: "class match", class: "class match",
  entailment: "answers", retrieval: "search", sentences: "best sentence", meaning: "words by meaning",
  words: "the same words", classes: "classes", answers: "gives what is asked", average: "the average",
};

// how sure the first place is
const SURE = { strong: "The first very probably answers.", likely: "The first probably answers.", weak: "None stands out: compare a few." };

// ---- the service

class Problem extends Error {
  constructor(status, body, retryAfter) {
    super(body?.message ?? body?.error ?? "");
    Object.assign(this, { status, id: body?.request_id, kind: body?.error_type, retryAfter });
  }
}

const stored = {
  get(where, name) { try { return where().getItem(name); } catch { return null; } },
  set(where, name, value) { try { where().setItem(name, value); } catch { /* kept for this page alone */ } },
};
let key = stored.get(() => sessionStorage, "semclass-key") ?? "";
let notBefore = 0; // after 429, when the service wants to be asked again

async function call(path, body, signal) {
  const pause = notBefore - Date.now();
  if (pause > 0) await new Promise((done) => { setTimeout(done, pause); signal?.addEventListener("abort", done); });
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body) headers["Content-Type"] = "application/json";
  const signals = [AbortSignal.timeout(60_000), signal].filter(Boolean);
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal: AbortSignal.any(signals) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(error.name === "TimeoutError" ? 504 : 0);
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer) return answer;
  const wait = Number(response.headers.get("Retry-After")) || 1;
  if (response.status === 429) notBefore = Date.now() + Math.min(wait, 30) * 1000;
  throw new Problem(response.ok ? 502 : response.status, answer, wait);
}

// At most one request at a time; of those that come meanwhile the last is sent. An urgent one does not wait.
function latest(work) {
  let running = null, waiting = null;
  async function go() {
    while (waiting) {
      const job = waiting;
      waiting = null;
      running = new AbortController();
      try { await work(job, running.signal, () => waiting); } finally { running = null; }
    }
  }
  return (job, urgent = false) => {
    waiting = job;
    if (!running) go();
    else if (urgent) running.abort();
  };
}

function explainProblem(problem) {
  const own = problem.message;
  const say = {
    0: ["The service does not answer", "It may have been stopped, or the connection is gone."],
    401: [key ? "This key does not fit" : "A key is needed", "Give one above."],
    404: ["There is no index", own],
    413: ["That is too much at once", own || "Give fewer or shorter texts."],
    422: ["The service cannot take this", own],
    429: ["The service is busy", `It takes more work in about ${plural(Math.ceil(problem.retryAfter), "second")}.`],
    503: ["The service is not ready", own || "It is starting or stopping."],
    504: ["The answer took too long", "The service gave up on it; it may be busy."],
  };
  return say[problem.status] ?? [`The service failed (${problem.status})`, own || "Nothing more is known here."];
}

function showProblem(area, problem, retry) {
  const box = area.querySelector(".problem");
  if (!problem) { box.hidden = true; return box.replaceChildren(); }
  if (!(problem instanceof Problem)) console.error(problem);
  const [title, text] = problem instanceof Problem ? explainProblem(problem) : ["This page failed", String(problem)];
  if (problem.status === 401) askForKey(retry);
  const id = problem.id ? el("p", { class: "hint" }, "Request ", el("code", {}, problem.id)) : "";
  const again = problem.status === 401 ? "" : el("button", { type: "button", class: "strong", onclick: retry }, "Try again");
  box.replaceChildren(el("h2", {}, title), el("p", {}, text), id, again);
  box.hidden = false;
  box.scrollIntoView({ block: "nearest" });
  say(area, "");
}

const say = (area, text) => { area.querySelector(".status").textContent = text; };

let withKey = null;
function askForKey(then) {
  withKey = then;
  $("key").hidden = false;
  $("key-value").focus();
}
$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  key = $("key-value").value.trim();
  stored.set(() => sessionStorage, "semclass-key", key);
  $("key").hidden = true;
  $("key-value").value = "";
  withKey?.();
});

// ---- what is asked, and the address that keeps it

const DEFAULTS = { tab: "search", q: "", source: "index", where: [], n: 10, why: false };
let state = { ...DEFAULTS };
let asked = false; // whether there is an answer, or one is on its way
let info = {}; // what api/info tells; `index` is null where passages can only be handed in
let facets = [];
const hasIndex = () => info.index !== null;

// The address is of the reader's browser alone: what follows # is sent to nobody.
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = { ...DEFAULTS, q: given.get("q") ?? "", where: given.getAll("where"), why: given.get("why") === "1" };
  if (given.get("tab") === "classify") state.tab = "classify";
  if (given.get("source") === "own" || !hasIndex()) state.source = "own";
  if ([20, 30, 40, 50].includes(Number(given.get("n")))) state.n = Number(given.get("n"));
}

function writeAddress() {
  const given = new URLSearchParams();
  for (const [name, usual] of Object.entries(DEFAULTS)) {
    if (name === "where") for (const term of state.where) given.append("where", term);
    else if (state[name] !== usual) given.set(name, state[name] === true ? "1" : state[name]);
  }
  if (`#${given}` !== (location.hash || "#")) history.pushState(null, "", given.size ? `#${given}` : location.pathname + location.search);
}

// ---- asking

let filter = { terms: "", where: undefined }; // the last conditions, and the filter that they are

async function request(signal) {
  const body = { question: state.q, explain: true, classify: state.why };
  if (state.source === "own") {
    const passages = split($("passages").value).map((text, i) => ({ id: String(i + 1), text }));
    if (passages.length === 0) throw new Problem(422, { message: "There are no passages yet: paste some above." });
    return ["api/rerank", { ...body, passages }];
  }
  const terms = JSON.stringify(state.where);
  if (filter.terms !== terms) filter = { terms, where: state.where.length ? (await call("api/filter", { terms: state.where }, signal)).where : undefined };
  return ["api/search", { ...body, k: state.n, where: filter.where, sentences: 3 }];
}

let shown = ""; // the question whose answer is shown
const send = latest(async (_, signal) => {
  const answer = $("answer");
  if (!asked) return;
  answer.setAttribute("aria-busy", "true");
  try {
    const question = state.q;
    const [path, body] = await request(signal);
    const found = await call(path, body, signal);
    await label(found.hits, signal);
    showProblem(answer, null);
    shown = question;
    showAnswer(found);
  } catch (problem) {
    if (signal.aborted) return;
    showProblem(answer, problem, search);
    if (state.q !== shown) clearResults();
    $("results").classList.add("stale");
    if ($("results").children.length) say(answer, "Below are the results from before.");
  } finally {
    answer.removeAttribute("aria-busy");
  }
});

function search() {
  if (!state.q.trim()) return;
  asked = true;
  $("start").hidden = true;
  document.title = `${state.q} · semclass`;
  showFilters();
  say($("answer"), "Searching …");
  send(true, true);
}

// Something else of the same question: a filter, more results.
function change(values) {
  Object.assign(state, values);
  writeAddress();
  showFilters();
  if (asked) search();
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  grow();
  state.q = $("question").value.replace(/\s+/g, " ").trim();
  if (!state.q) return $("question").focus();
  Object.assign(state, { n: DEFAULTS.n });
  writeAddress();
  remember(state.q);
  search();
});
$("why").addEventListener("change", (event) => change({ why: event.target.checked }));
$("more").addEventListener("click", () => change({ n: state.n + 10 }));

// Questions that were asked in this browser; they stay in it.
const asks = () => { try { return JSON.parse(stored.get(() => localStorage, "semclass-asked")) ?? []; } catch { return []; } };
function remember(question) {
  if (state.source === "index") stored.set(() => localStorage, "semclass-asked", JSON.stringify([question, ...asks().filter((one) => one !== question)].slice(0, 6)));
}
$("forget").addEventListener("click", () => {
  stored.set(() => localStorage, "semclass-asked", "[]");
  showRecent();
  $("question").focus();
});
const questions = (texts) => texts.map((text) => el("li", {}, el("button", { type: "button", class: "quiet", dir: "auto", onclick: () => {
  $("question").value = text;
  $("ask").requestSubmit();
} }, text)));
function showRecent() {
  $("recent").replaceChildren(...questions(asks()));
  $("recent-part").hidden = state.source === "own" || !asks().length;
  $("try-part").hidden = state.source === "own" || !$("try").children.length;
}

// ---- filters

const condition = (field, values) => `${field} in (${values.map((value) => JSON.stringify(value)).join(", ")})`;

// The values that a facet's condition names; none where it is not in use.
function chosen(field) {
  const term = state.where.find((one) => one.startsWith(`${field} in (`));
  try { return term ? JSON.parse(`[${term.slice(field.length + 5, -1)}]`) : []; } catch { return []; }
}

function toggle(field, value, checked) {
  const values = chosen(field).filter((one) => one !== value).concat(checked ? [value] : []);
  const others = state.where.filter((one) => !one.startsWith(`${field} in (`));
  change({ where: values.length ? [...others, condition(field, values)] : others, n: DEFAULTS.n });
}

function showFilters() {
  $("narrow").hidden = !asked || state.source === "own";
  $("filter-count").textContent = state.where.length ? `(${state.where.length})` : "";
  $("conditions").replaceChildren(...state.where.map((term) => el("li", {}, el("button", { type: "button", class: "chip", dir: "auto", onclick: () => {
    change({ where: state.where.filter((one) => one !== term), n: DEFAULTS.n });
    $("where").focus();
  } }, term, el("span", { "aria-hidden": true }, "\u00a0×"), spoken(": remove this filter")))));
  for (const box of $("facets").querySelectorAll("input")) box.checked = chosen(box.name).includes(JSON.parse(box.value));
}

function showFacets() {
  const box = (field, [value, passages]) => el("label", {},
    el("input", { type: "checkbox", name: field, value: JSON.stringify(value), onchange: (event) => toggle(field, value, event.target.checked) }),
    el("bdi", {}, String(value)), " ", el("span", { class: "count" }, passages.toLocaleString("en"), spoken(passages === 1 ? " passage" : " passages")));
  $("facets").replaceChildren(...facets.map(({ field, head, values }) => {
    const boxes = values.map((one) => box(field, one));
    const rest = boxes.length > 7 ? [el("details", {}, el("summary", {}, `${boxes.length - 6} more`), ...boxes.splice(6))] : [];
    return el("fieldset", {}, el("legend", {}, field, head ? el("small", {}, " by your head") : null), ...boxes, ...rest);
  }));
  const [some] = facets.filter(({ values }) => values.length);
  $("where-hint").hidden = !some;
  if (some) $("where-example").textContent = `${some.field}=${some.values[0][0]}`;
  showFilters();
}

$("filter").addEventListener("submit", async (event) => {
  event.preventDefault();
  const term = $("where").value.trim();
  if (!term) return;
  try {
    await call("api/filter", { terms: [term] });
  } catch (problem) {
    return showFault(problem.message || explainProblem(problem).join(": "));
  }
  $("where").value = "";
  showFault("");
  if (!state.where.includes(term)) change({ where: [...state.where, term], n: DEFAULTS.n });
});
function showFault(fault) {
  $("where-fault").textContent = fault;
  $("where").setAttribute("aria-invalid", fault !== "");
}
$("where").addEventListener("input", () => showFault(""));

// ---- passages of one's own

const EXAMPLE = [
  "When was the bridge opened?",
  "The bridge was built of granite by the engineer Ada Merriweather.",
  "A film in the museum tells how the bridge was built, and what it cost.",
  "Nobody remembers when the old wooden bridge, over which carts came to market, was taken down.",
  "Work on it began in 1871; after three winters of storms the bridge was opened in October 1874.",
  "From the bridge you see the lighthouse of Sandrey Bay and, on clear days, the islands.",
];
$("example").addEventListener("click", () => {
  $("question").value = EXAMPLE[0];
  $("passages").value = EXAMPLE.slice(1).join("\n");
  $("ask").requestSubmit();
});

// Files become passages of one's own; nothing leaves but to this service, when you ask.
const BLOCKS = "h1, h2, h3, h4, h5, h6, p, li, tr, pre, dt, dd";
const withoutTags = (html) => [...new DOMParser().parseFromString(html, "text/html").querySelectorAll(BLOCKS)]
  .filter((node) => !node.querySelector(BLOCKS)).map((node) => node.textContent).join("\n\n");

async function take(given) {
  const files = [...given];
  const texts = await Promise.all(files.map((file) => file.text()));
  // a heading belongs to what follows it
  const whole = texts.map((text, i) => (/\.html?$/i.test(files[i].name) ? withoutTags(text) : text).trim().replace(/^(#{1,6} .*)\n\s*\n/gm, "$1\n")).filter(Boolean).join("\n\n");
  if (!whole || whole.includes("\u0000")) return showProblem($("answer"), new Problem(422, { message: "This file is no text: convert it first." }));
  $("passages").value = whole;
  showProblem($("answer"), null);
  say($("answer"), `${files.map(({ name }) => name).join(", ")}: ${plural(split(whole).length, "passage")}. Now ask.`);
  $("question").focus();
}
$("file").addEventListener("change", (event) => { take(event.target.files); event.target.value = ""; });
for (const kind of ["dragover", "drop"]) {
  $("ask").addEventListener(kind, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    if (kind === "dragover") return;
    if (state.source !== "own") { state.source = "own"; writeAddress(); show(); }
    take(event.dataTransfer.files);
  });
}

// ---- showing an answer

function clearResults() {
  $("results").replaceChildren();
  for (const id of ["asks", "brief", "more", "why-line"]) $(id).hidden = true;
  $("answer").querySelector(".status").classList.remove("doubt");
}

function clearAnswer() {
  asked = false;
  send(null, true); // what is on its way is not waited for
  document.title = "semclass";
  clearResults();
  $("start").hidden = false;
  showRecent();
  showFilters();
  showProblem($("answer"), null);
  say($("answer"), "");
}

function showAnswer({ question, hits, certainty, answerable, milliseconds, sentences }) {
  const focused = document.activeElement.closest("#results article")?.getAttribute("aria-labelledby");
  clearResults();
  const n = hits.length;
  const doubt = n > 0 && answerable != null && info.answerable_from != null && answerable < info.answerable_from;
  const told = n === 0 ? `No passage was found.${state.where.length ? " The filters leave none: remove one." : ""}`
    : doubt ? "Nothing here seems to answer this. These passages are the nearest."
      : `${plural(n, "passage")} in ${Math.round(milliseconds)} ms. ${SURE[certainty] ?? ""}`;
  say($("answer"), told);
  $("answer").querySelector(".status").classList.toggle("doubt", doubt);
  $("why-line").hidden = !n;
  $("why").checked = state.why;
  $("asks").hidden = !state.why || !question;
  $("asks").textContent = question ? `The question asks for: ${[className(question.label), fineName(question.fine)].filter(Boolean).join(", ")} (${percent(question.probability)}).` : "";
  const best = doubt || certainty === "weak" ? [] : sentences ?? [];
  showBrief(best, hits);
  for (const { id, start, end } of [...best].reverse()) {
    const hit = hits.find((one) => one.id === id);
    if (hit) hit.sentence = [start, end];
  }
  $("results").classList.remove("stale");
  $("results").replaceChildren(...hits.map((hit) => result(hit, hits, question)));
  if (focused) $(focused)?.closest("article").focus({ preventScroll: true });
  $("more").hidden = state.source === "own" || n < state.n || n >= 50;
}

// The best sentences, each with the result that it is of.
function showBrief(sentences, hits) {
  $("brief").hidden = !sentences.length;
  const source = (place) => el("button", { type: "button", class: "chip", onclick: () => articles()[place].focus() }, spoken("result "), String(place + 1));
  $("brief").lastElementChild.replaceChildren(...sentences.map(({ text, id }) =>
    el("li", { dir: "auto" }, source(hits.findIndex((hit) => hit.id === id)), " ", readable(text))));
}

// Labels by heads that did not label the index, of which a service may have some.
async function label(hits, signal) {
  const heads = Object.keys(info.heads ?? {}).filter((name) => !(name in (hits[0]?.metadata ?? {})));
  if (!hits.length || !heads.length) return;
  const { results } = await call("api/classify/texts", { texts: hits.map((hit) => hit.text), heads }, signal);
  results.forEach((one, i) => { hits[i].heads = one.heads; });
}

const texts = (value) => [value].flat().filter((one) => typeof one === "string" && one.trim());
const ofHead = (name) => facets.some((one) => one.head && one.field === name);

function result(hit, hits, question) {
  const { metadata, explanation } = hit;
  const headings = texts(metadata.headings ?? metadata.heading).map(readable);
  const [title = state.source === "own" ? `Passage ${hit.id}` : hit.id] = [headings.at(-1), ...texts(metadata.title), ...texts(metadata.document)].filter(Boolean);
  const place = [metadata.document ?? metadata.file, metadata.page != null && `page ${metadata.page}`, ...headings.slice(0, -1)].filter((one) => one && one !== title);
  const sentence = hit.sentence ?? explanation?.sentence;
  const open = address(hit, headings.at(-1) ?? "");
  const text = el("p", { class: "text", dir: "auto" });
  const more = el("button", { type: "button", class: "quiet whole" });
  let whole = false;
  const fill = () => {
    const { parts: [before, best, after], cut } = excerpt(hit.text, sentence, whole);
    text.replaceChildren(readable(before), best.trim() ? el("mark", {}, readable(best).trim()) : best, readable(after));
    more.textContent = whole ? "Show less" : "Show the whole passage";
    more.setAttribute("aria-expanded", whole);
    more.hidden = !cut && !whole;
  };
  more.addEventListener("click", () => { whole = !whole; fill(); });
  fill();
  const id = `title-${hit.rank}`;
  return el("li", {}, el("article", { tabindex: -1, "aria-labelledby": id },
    el("h2", { id, dir: "auto" }, open ? el("a", { href: open, target: "_blank", rel: "noopener noreferrer", class: "open" }, title) : title),
    place.length ? el("p", { class: "place" }, ...place.flatMap((part, i) => [i ? " › " : "", el("bdi", {}, String(part))])) : null,
    text, more, labels(hit), judge(hit), state.why && explanation ? why(hit, hits, question) : null));
}

// Where a document opens: at the page, or at the sentence or heading.
function address({ url, metadata, explanation, sentence, text }, heading) {
  if (!url) return null;
  const there = new URL(url, document.baseURI);
  if (!["http:", "https:"].includes(there.protocol)) return null;
  if (!there.hash) there.hash = fragment(there.pathname, metadata.page, excerpt(text, sentence ?? explanation?.sentence, true).parts[1], heading);
  return there.href;
}

function labels({ metadata, heads }) {
  const fields = facets.map(({ field }) => field).filter((name) => !["document", "file"].includes(name));
  const known = fields.flatMap((name) => [metadata[name]].flat().filter((one) => one != null && one !== "ABSTAIN").map((one) =>
    tag(name, one, typeof one === "string" && metadata[`${name}_probability`], ofHead(name))));
  const more = Object.entries(heads ?? {}).flatMap(([name, found]) => found.labels.map((one) => tag(name, one, found.probabilities[one], true)));
  return known.length + more.length ? el("ul", { class: "chips", "aria-label": "Labels" }, ...known, ...more) : null;
}

const tag = (name, value, probability, head) => el("li", { class: head ? "chip match" : "chip" },
  `${name}: `, el("b", { dir: "auto" }, String(value)), typeof probability === "number" ? ` ${percent(probability)}` : "");

// ---- this answers, this does not

const ANSWERS = "Does this answer it?";
const judged = new Map(); // true or false by question and passage, for as long as the page is open
let judging = true; // until the service says that it keeps no judgements

function judge(hit) {
  if (state.source === "own" || !judging) return null;
  const question = shown, pair = JSON.stringify([question, hit.id]);
  const button = (right, name, sign) => el("button", { type: "button", class: right ? "plain right" : "plain wrong", onclick: () => tell(right) },
    el("span", { "aria-hidden": true }, `${sign} `), name);
  const buttons = [button(true, "Yes", "✓"), button(false, "No", "✗")];
  const group = el("div", { class: "judge", role: "group", "aria-label": ANSWERS }, el("span", { class: "hint", "aria-hidden": true }, ANSWERS), ...buttons, el("span", { class: "hint" }));
  const show = (said = "") => {
    buttons.forEach((one, i) => one.setAttribute("aria-pressed", judged.get(pair) === (i === 0)));
    group.lastChild.textContent = said;
    if (said) $("heard").textContent = said;
  };
  async function tell(right) {
    const given = judged.get(pair) === right ? null : right;
    try {
      await call("api/feedback", { question, passage: hit.id, right: given });
      judged.set(pair, given);
      show(given === null ? "Taken back." : `Stored: it ${given ? "answers" : "does not answer"}.`);
    } catch (problem) {
      if (problem.status !== 404 || problem.kind === "no_passage") return show(`Not stored: ${problem.message || explainProblem(problem)[0]}`);
      judging = false;
      for (const one of document.querySelectorAll(".judge")) one.remove();
      $("heard").textContent = "This service keeps no judgements.";
    }
  }
  show();
  return group;
}

// ---- what moved, and why

function why({ rank, rank_before: before, explanation, labels: provided }, [first], question) {
  const moved = before === rank ? `Stays at place ${rank}` : `From place ${before} to ${rank}`;
  const rows = Object.entries(explanation.parts).map(([name, value]) => [PARTS[name] ?? name, signed(value)]);
  const met = ({ exact, match, cosine }) => (exact ? "itself" : match ? `${match} (${cosine.toFixed(2)})` : "nothing");
  const classes = explanation.classes.map((one) => [className(one.name) + (one.name === question?.label ? " (asked for)" : ""),
    percent(one.asked), percent(one.provided) + (provided.includes(one.name) ? " ✓" : "")]);
  return el("div", { class: "why" }, el("p", {}, moved + (rank > 1 ? behind(explanation, first.explanation) : ".")),
    el("div", { class: "tables" },
      table("Parts of the score", ["part", "adds"], [...rows, ["sum", signed(explanation.total)]]),
      table("Words of the question", ["word", "weight", "met by (cosine)"], explanation.words.map((word) => [word.word, percent(word.weight), met(word)])),
      classes.length ? table("Types of answer", ["type", "asked", "provided"], classes) : null));
}

// The part of the score by which the first passage leads most.
function behind({ parts }, first) {
  const lead = (name) => (first?.parts[name] ?? 0) - parts[name];
  const [most] = Object.keys(parts).filter((name) => name !== "average").sort((a, b) => lead(b) - lead(a));
  return lead(most) > 0 ? `; behind the first mostly by: ${PARTS[most] ?? most}.` : ".";
}

function table(name, heads, rows) {
  const row = ([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first), ...rest.map((cell) => el("td", {}, cell)));
  return el("table", {}, el("caption", {}, name),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...rows.map(row)));
}

// ---- keys

const articles = () => [...$("results").querySelectorAll("article")];
function step(by) {
  const all = articles();
  const here = all.findIndex((one) => one.contains(document.activeElement));
  const next = all[here < 0 ? 0 : Math.min(all.length - 1, Math.max(0, here + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
const press = (selector) => document.activeElement.closest("article")?.querySelector(selector)?.click();
const KEYS = {
  "/": () => { if (state.tab === "classify") choose(tabs.find((one) => !one.hidden)); $("question").focus(); $("question").select(); },
  j: () => step(1), k: () => step(-1), o: () => press("a.open"), y: () => press(".right"), n: () => press(".wrong"),
  Enter: () => press(".whole"), w: () => $("why-line").hidden || $("why").click(),
  f: () => { if (!$("narrow").hidden) { $("narrow").querySelector("details").open = true; $("narrow").querySelector("input").focus(); } },
  "?": () => $("help").showModal(),
};
addEventListener("keydown", (event) => {
  const { target, key: sign } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || $("help").open) return;
  if (target.matches("textarea, select, input:not([type=checkbox], [type=radio])")) {
    if (sign === "Escape") target.blur();
    return;
  }
  if (!Object.hasOwn(KEYS, sign) || (sign === "Enter" && !target.matches("article"))) return;
  event.preventDefault();
  KEYS[sign]();
});
$("keys").addEventListener("click", KEYS["?"]);

// ---- classifying

const classify = latest(async ({ kind, name, texts: given }, signal) => {
  const area = $("classes");
  area.setAttribute("aria-busy", "true");
  say(area, "Classifying …");
  try {
    const { results } = await call(`api/classify/${kind}`, kind === "texts" ? { texts: given, heads: [name] } : { texts: given }, signal);
    showProblem(area, null);
    $("classified").replaceChildren(...results.map((item) => classified(item, kind, name)));
    say(area, `${plural(given.length, kind.slice(0, -1))} classified.`);
  } catch (problem) {
    if (signal.aborted) return;
    $("classified").replaceChildren();
    showProblem(area, problem, () => $("classify").requestSubmit());
  } finally {
    area.removeAttribute("aria-busy");
  }
});

function classified(item, kind, name) {
  const { label: first, labels: several, probabilities, fine, fine_probability: chance } = kind === "texts" ? item.heads[name] : item;
  const has = new Set([first, ...(several ?? [])].map(String));
  const all = Object.entries(probabilities).sort((a, b) => b[1] - a[1]).slice(0, 12);
  const chips = all.map(([one, p]) => chip(kind === "texts" ? one : className(one), p, has.has(one)));
  if (fineName(fine)) chips.splice(1, 0, chip(`↳ ${fineName(fine)}`, chance));
  if (first === "ABSTAIN") chips.unshift(el("li", { class: "hint" }, "not certain of any"));
  return el("li", {}, el("p", { class: "text", dir: "auto" }, item.text), el("ul", { class: "chips" }, ...chips));
}

const chip = (name, probability, match = false) => el("li", { class: match ? "chip match" : "chip", vars: { p: probability } },
  match ? "✓ " : "", el("b", { dir: "auto" }, name), ` ${percent(probability)}`);

// What texts are classified by: the shipped heads, if there are any, and one's own.
function showKinds() {
  const kinds = info.classes?.length ? [["questions", "", "what a question asks for"], ["passages", "", "what a passage tells"]] : [];
  kinds.push(...Object.keys(info.heads ?? {}).map((name) => ["texts", name, name]));
  $("kinds").replaceChildren($("kinds").firstElementChild, ...kinds.map(([kind, name, told], i) => el("label", {},
    el("input", { type: "radio", name: "kind", value: JSON.stringify({ kind, name }), checked: i === 0 }), " ", el("bdi", {}, told), kind === "texts" ? el("small", {}, " (your head)") : null)));
}

$("classify").addEventListener("submit", (event) => {
  event.preventDefault();
  const { kind, cut } = Object.fromEntries(new FormData(event.target));
  const text = $("texts").value;
  const given = cut === "whole" ? [text.trim()].filter(Boolean) : text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (given.length && kind) classify({ ...JSON.parse(kind), texts: given }, true);
  else $("texts").focus();
});
for (const area of ["question", "texts", "passages"]) {
  $(area).addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || (area !== "question" && !event.ctrlKey && !event.metaKey)) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  });
}

// ---- tabs, scheme, beginning

const narrow = matchMedia("(max-width: 39.99rem)"); // where filters are folded until they are wanted
const fold = () => { for (const details of document.querySelectorAll(".fold")) details.open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();

const tabs = [...document.querySelectorAll("[role=tab]")];
function showTab() {
  for (const tab of tabs) {
    const chosen = tab.id === `tab-${state.tab === "search" && state.source === "own" ? "own" : state.tab}`;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    tab.hidden = tab.id === "tab-search" && !hasIndex();
    if (chosen) $(tab.getAttribute("aria-controls")).setAttribute("aria-labelledby", tab.id);
  }
  for (const name of ["search", "classify"]) $(`panel-${name}`).hidden = name !== state.tab;
}
function choose(tab) {
  const source = { "tab-search": "index", "tab-own": "own" }[tab.id] ?? state.source;
  const other = source !== state.source;
  Object.assign(state, { tab: tab.id === "tab-classify" ? "classify" : "search", source });
  writeAddress();
  if (other) show();
  else showTab();
  tab.focus();
}
for (const tab of tabs) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const there = tabs.filter((one) => !one.hidden);
    const place = there.indexOf(tab);
    const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(there.at(to % there.length));
  });
}

const dark = matchMedia("(prefers-color-scheme: dark)");
let scheme = stored.get(() => localStorage, "semclass-scheme");
function showScheme() {
  const is = scheme ?? (dark.matches ? "dark" : "light");
  if (scheme) document.documentElement.dataset.scheme = scheme;
  $("theme").replaceChildren(el("span", { class: "wide" }, is === "dark" ? "Light" : "Dark"), el("span", { class: "slim" }, "◐"));
  $("theme").setAttribute("aria-label", `${is === "dark" ? "Light" : "Dark"} colours`);
}
$("theme").addEventListener("click", () => {
  scheme = (scheme ?? (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
  stored.set(() => localStorage, "semclass-scheme", scheme);
  showScheme();
});
dark.addEventListener("change", showScheme);
showScheme();

function fromAddress() {
  readAddress();
  if (state.q || asked) $("question").value = state.q; // what is being typed stays
  show();
}

// The field of the question is as high as the question; browsers without `field-sizing` need to be told.
function grow() {
  if (CSS.supports("field-sizing", "content")) return;
  $("question").style.height = "auto";
  $("question").style.height = `${$("question").scrollHeight + 2}px`;
}
$("question").addEventListener("input", grow);
addEventListener("resize", grow);

function show() {
  showTab();
  grow();
  $("own").hidden = state.source !== "own";
  $("index-name").textContent = state.source === "own" ? "(searches the text below)" : info.index?.passages ? `(searches ${plural(info.index.passages, "passage")})` : "";
  if (state.q && (state.source === "index" || $("passages").value.trim())) search();
  else clearAnswer();
}
addEventListener("popstate", fromAddress);

async function begin() {
  try {
    info = await call("api/info");
    facets = hasIndex() ? (await call("api/facets")).facets : [];
  } catch (problem) {
    return showProblem($("answer"), problem, begin);
  }
  showProblem($("answer"), null);
  $("about").textContent = `semclass ${info.version}: finds passages, and writes nothing itself. Your questions go to no language model.`;
  judging = info.index?.kind === "folder"; // beside which judgements are kept
  showKinds();
  showFacets();
  fromAddress();
  const { questions: some } = hasIndex() ? await call("api/examples").catch(() => ({ questions: [] })) : { questions: [] };
  $("try").replaceChildren(...questions(some));
  showRecent();
}
readAddress();
showTab();
begin();
