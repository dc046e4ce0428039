// The page of the service: asks, shows what re-ranking moved and why, classifies. No library, no build step.
// Texts from outside become text nodes and nothing else.

import { UNIT, folded, readable, split } from "./text.js";

const $ = (id) => document.getElementById(id);
const named = (name) => document.getElementsByName(name);

function el(tag, attributes = {}, ...children) {
  const node = tag === "svg" || tag === "path" ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
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
const digits = (x, n = 3) => (x === 0 ? "0" : Number(x.toPrecision(n)).toLocaleString("en", { maximumSignificantDigits: n }));
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
const fineName = (name) => { const fine = name?.split(":")[1]; return fine && `↳ ${FINE[fine] ?? fine}`; };

const PARTS = {
  dense: "meaning", bm25: "words (BM25)", rrf: "ranks", match: "class match", class: "class match",
  entailment: "answers", retrieval: "search", sentences: "best sentence", meaning: "words by meaning",
  words: "the same words", classes: "classes", answers: "gives what is asked", average: "the average",
};

// why a passage has risen, by the part that brings it ahead of the one that was first
const WHY = {
  dense: "it is nearer to the question as a whole", retrieval: "it is nearer to the question as a whole", bm25: "it has the question's words",
  sentences: "one of its sentences is nearer to the question", meaning: "its words mean what the question's words mean",
  words: "it has the question's rare words", answers: "it gives what the question asks for", entailment: "it answers the question",
  match: "it has the type that is asked for", class: "it has the type that is asked for",
};

// how sure the first place is
const SURE = {
  strong: ["Strong", "the first passage is far ahead of the second"],
  likely: ["Likely", "the first passage is ahead of the second"],
  weak: ["Weak", "the first passage is hardly ahead, or hardly about the question"],
};

// ---- what prompting would cost

// Figures of the reference, prompts and prices as bench/ has them; tests compare them.
const PROMPTED = {
  seconds: 1, // of a call, assumed; bench/prices.py, ASSUMED_SECONDS
  gpuHour: 3.673, // bench/prices.json, machines/gpu
  cpuHour: 0.08925, cpus: 2, // machines/cpu
  tokenIn: 0.02e-6, tokenOut: 0.04e-6, // tokens, the cheapest: Llama 3.1 8B on DeepInfra
  prompt: { question: 594, passage: 1432.3, pair: 1134.1 }, // bench/results/{questions,passages,entailment}.json, tokens_per_call
  passageCalls: 6, // one-vs-all
};

const money = (usd) => (usd >= 0.001 ? `$${digits(usd, 2)}` : usd >= 1e-6 ? `$${usd.toFixed(6)}` : "under $0.000001");
const time = (ms) => (ms >= 10000 ? `${digits(ms / 1000, 3)} s` : ms >= 1000 ? `${digits(ms / 1000, 2)} s` : `${digits(ms, ms < 10 ? 2 : 3)} ms`);

// calls: {question, passage, pair}, each a number of calls
function showCost(place, calls, why, server, roundTrip) {
  const count = Object.values(calls).reduce((sum, n) => sum + n, 0);
  const seconds = count * PROMPTED.seconds;
  const gpu = (seconds * PROMPTED.gpuHour) / 3600;
  const perCall = (kind) => PROMPTED.prompt[kind] * PROMPTED.tokenIn + PROMPTED.tokenOut;
  const tokens = Object.entries(calls).reduce((sum, [kind, n]) => sum + n * perCall(kind), 0);
  const own = (server / 3.6e6) * (PROMPTED.cpuHour / PROMPTED.cpus);
  const share = Math.min(1, roundTrip / (seconds * 1000));
  const row = (name, kind, bold, rest, part) => el("div", { class: kind },
    el("dt", {}, name),
    el("dd", {}, el("b", {}, bold), rest),
    el("dd", { class: "beam", "aria-hidden": true, vars: { share: part } }));
  const told = [
    `${why} A call is assumed to take a second, as in a thesis that prompted flan-ul2 (20 B parameters), with a GPU for itself`
      + ` meanwhile: an A100 with 80 GB at $${PROMPTED.gpuHour} an hour (Azure, on demand, November 2026).`,
    "The same prompts to the cheapest hosted model of our list (Llama 3.1 8B on DeepInfra, by tokens) are"
      + ` ${money(tokens)}; its answers were not measured.`,
    `This answer is ${money(own)}: ${time(server)} of one of the two processors of an AWS c7i.large at $${PROMPTED.cpuHour}`
      + " an hour. Sources: bench/prices.json, bench/results/retrieval.json.",
  ];
  const open = place.querySelector("details")?.open; // of what is replaced
  place.replaceChildren(
    el("dl", {},
      row("This answer", "ours", time(server), ` in the service, ${time(roundTrip)} with the way here`, share),
      row("A prompted model", "theirs", `${time(seconds * 1000)} assumed`, `, ${money(gpu)}: ${plural(count, "call")}`, 1)),
    el("details", { open }, el("summary", {}, "How this is reckoned"), ...told.map((text) => el("p", {}, text))));
  place.closest(".fold").hidden = false;
}

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

// ---- settings, and the address that keeps them

// Names of methods in the API, the second with yes or no in place of probabilities, and the weights of their signals.
const METHODS = {
  answers: { names: ["default", "entail-integrated-hard"], weights: ["evidence", "entailment_hard"] },
  class: { names: ["class-integrated", "class-integrated-hard"], weights: ["class", "class_hard"] },
  learned: { names: ["learned"] },
  none: { names: ["convex"] },
};
const DEFAULTS = { tab: "ask", q: "", source: "index", method: "answers", w: null, l: null, n: 10, hard: false, where: "" };
let state = { ...DEFAULTS };
let offered = ""; // the example that was asked on opening, which the address does not hold
let asked = false; // whether there is an answer that the controls change
let info = {}; // what api/info tells; `index` is null where passages can only be handed in
let weights = {}; // those of the service
const hasIndex = () => info.index !== null;

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (given.has(name) && given.get(name) !== "" && Number(given.get(name)) >= 0 ? Number(given.get(name)) : null);
  state = { ...DEFAULTS, q: given.get("q") ?? "", w: number("w") <= 1 ? number("w") : null, l: number("l"), hard: given.get("hard") === "1", where: given.get("where") ?? "" };
  if (given.get("tab") === "classify") state.tab = "classify";
  if (given.get("source") === "own" || !hasIndex()) state.source = "own";
  if (given.get("method") in METHODS) state.method = given.get("method");
  if ([5, 10, 20, 50].includes(number("n"))) state.n = number("n");
  fitMethod();
}

function writeAddress(push) {
  const given = new URLSearchParams();
  const usually = { ...DEFAULTS, q: offered };
  for (const [name, usual] of Object.entries(usually)) if (state[name] !== usual) given.set(name, state[name] === true ? "1" : state[name]);
  const address = `#${given}`;
  if (address === (location.hash || "#")) return;
  history[push ? "pushState" : "replaceState"](null, "", given.size ? address : location.pathname + location.search);
}

// Passages that are handed in are always re-ranked; models may lack heads.
function possible(method) {
  if (method === "none") return state.source === "index";
  return !info.methods || info.methods.includes(METHODS[method].names[0]);
}

function fitMethod() {
  if (!possible(state.method)) state.method = Object.keys(METHODS).find(possible) ?? state.method;
}

const lambdaName = () => METHODS[state.method].weights?.[Number(state.hard)];
const usual = (name) => (name === "words" ? 1 - (weights.alpha ?? 0.5) : weights[name] || 0.1);
// The trained weight is in the middle of a slider; the cube gives small weights room.
const toSlider = (value, name) => Math.round(100 * (name === "words" ? value : Math.cbrt(value / (8 * usual(name)))));
const fromSlider = (place, name) => (Number(place) === 50 ? null : Number((8 * usual(name) * (place / 100) ** 3).toPrecision(3)));
const wordsFrom = (place) => (Number(place) === toSlider(usual("words"), "words") ? null : place / 100);

function showSettings() {
  for (const radio of named("method")) {
    radio.checked = radio.value === state.method;
    radio.disabled = !possible(radio.value);
  }
  $("n").value = state.n;
  $("hard").checked = state.hard;
  $("where").value = state.where;
  $("own").hidden = state.source !== "own";
  $("try").hidden = state.source === "own" || !$("try").children.length;
  $("where-line").hidden = state.source === "own";
  $("index-name").textContent = state.source === "own" ? "to text of your own" : info.index?.passages ? `to ${plural(info.index.passages, "passage")}` : "";
  $("first-step").textContent = state.source === "own" ? "Paste text above or drop a file, then ask." : "Ask something.";
  $("controls").hidden = !asked;
  const name = lambdaName();
  const ofHead = state.source === "own" && state.method === "learned"; // which does not look at the score
  const wHint = ofHead ? "Learned needs none." : state.method === "learned" ? "Says what is found." : "Less: what texts mean. More: the words they share.";
  const lHint = name ? "How far re-ranking moves a passage." : state.method === "none" ? "Nothing is re-ranked."
    : "Learned needs none; class match and answers do.";
  slider("w", state.w, "words", !ofHead, wHint);
  slider("l", state.l, name, Boolean(name), lHint);
  $("hard").disabled = !name;
  $("reset").hidden = ["method", "w", "l", "n", "hard", "where"].every((option) => state[option] === DEFAULTS[option]);
}

function slider(id, value, name, free, hint) {
  const input = $(id);
  const shown = value ?? usual(name);
  input.disabled = !free;
  input.value = free ? Math.min(100, toSlider(shown, name)) : 50;
  input.style.setProperty("--at", input.value / 100);
  const text = free ? digits(shown) + (value == null ? ", as trained" : "") : "none";
  $(`${id}-value`).textContent = free ? digits(shown) : "–";
  input.setAttribute("aria-valuetext", text);
  $(`${id}-hint`).textContent = free && value == null ? `${hint} As trained.` : hint;
}

// ---- asking

// What to send: path and body.
function request() {
  const name = lambdaName();
  const method = METHODS[state.method].names[name ? Number(state.hard) : 0];
  const body = { question: state.q, explain: true, method, fusion: "convex", weights: {} };
  if (state.w != null) body.weights.alpha = 1 - state.w;
  if (name && state.l != null) body.weights[name] = state.l;
  if (state.source === "own") {
    const passages = split($("passages").value).map((text, i) => ({ id: String(i + 1), text }));
    if (passages.length === 0) throw new Problem(422, { message: "There are no passages yet: paste some above." });
    return ["api/rerank", { ...body, passages }];
  }
  const found = { ...body, k: state.n, candidates: state.n };
  try {
    if (state.where.trim()) found.where = JSON.parse(state.where);
  } catch { throw new Problem(422, { message: `The filter is no JSON: ${state.where}` }); }
  return ["api/search", found];
}

let shown = ""; // the question whose answer is shown
const send = latest(async (job, signal, newer) => {
  const answer = $("answer");
  answer.setAttribute("aria-busy", "true");
  try {
    if (job instanceof Problem) throw job;
    const [path, body] = job;
    const start = performance.now();
    const found = await call(path, body, signal);
    const trip = performance.now() - start;
    const next = newer();
    if (next && (next[0] !== path || next[1].question !== body.question)) return;
    showProblem(answer, null);
    shown = body.question;
    showAnswer(found, body, trip, !next);
  } catch (problem) {
    if (signal.aborted) return;
    showProblem(answer, problem, () => search(true));
    if (state.q !== shown) { $("found").hidden = true; showVerdict([]); }
    $("found").classList.add("stale");
    if (!$("found").hidden) say(answer, "Below is the answer from before.");
  } finally {
    if (!newer()) answer.removeAttribute("aria-busy");
  }
});

function search(urgent) {
  if (!state.q.trim()) return;
  asked = true;
  $("empty").hidden = true;
  $("controls").hidden = false;
  document.title = `${state.q} · semclass`;
  for (const item of $("try").children) item.classList.toggle("asks", item.textContent === state.q);
  let job;
  try { job = request(); } catch (problem) { return send(problem, true); }
  if (urgent) say($("answer"), "Asking …");
  send(job, urgent);
}

function change(values) {
  Object.assign(state, values);
  fitMethod();
  showSettings();
  writeAddress(false);
  if (asked) search(false);
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  state.q = $("question").value.replace(/\s+/g, " ").trim();
  offered = "";
  if (!state.q) return $("question").focus();
  writeAddress(true);
  search(true);
});
for (const radio of named("method")) radio.addEventListener("change", () => change({ method: radio.value, l: null }));
$("w").addEventListener("input", (event) => change({ w: wordsFrom(event.target.value) }));
$("l").addEventListener("input", (event) => change({ l: fromSlider(event.target.value, lambdaName()) }));
$("n").addEventListener("change", (event) => change({ n: Number(event.target.value) }));
$("hard").addEventListener("change", (event) => change({ hard: event.target.checked, l: null }));
$("where").addEventListener("change", (event) => change({ where: event.target.value }));
$("reset").addEventListener("click", () => { const { method, w, l, n, hard, where } = DEFAULTS; change({ method, w, l, n, hard, where }); });
$("controls").addEventListener("submit", (event) => event.preventDefault());

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
    if (state.source !== "own") { clearAnswer(); change({ source: "own" }); showTab(); }
    take(event.dataTransfer.files);
  });
}

// Questions that the index answers, to click; the first of them is asked where nothing else is.
async function offer() {
  const { questions } = await call("api/examples").catch(() => ({ questions: [] }));
  $("try").replaceChildren(...questions.map((text) => el("li", {}, el("button", { type: "button", class: "quiet", onclick: () => {
    $("question").value = text;
    $("ask").requestSubmit();
  } }, text))));
  $("try").hidden = !questions.length || state.source === "own";
  if (!questions.length || asked || state.q || $("question").value || state.source === "own" || state.tab !== "ask") return;
  $("question").value = state.q = offered = questions[0];
  search(false);
}

function clearAnswer() {
  asked = false;
  send(null, true); // what is on its way is not waited for
  document.title = "semclass";
  $("controls").hidden = true;
  $("found").hidden = true;
  $("empty").hidden = false;
  showVerdict(null, null);
  showProblem($("answer"), null);
  say($("answer"), "");
}

// ---- showing an answer

function showAnswer({ question, hits, certainty, answerable, weights: used, milliseconds }, body, trip, settled) {
  if (hits.length) hits[0].certainty = certainty;
  weights = { ...weights, ...used };
  showSettings();
  $("found").hidden = false;
  $("found").classList.remove("stale");
  showAsked(question);
  const n = hits.length;
  const pairs = ["answers", "learned"].includes(state.method) ? n : 0;
  const own = Boolean(body.passages);
  const passageCalls = n * PROMPTED.passageCalls;
  const why = `One call for the question's class${pairs ? `, one for each of ${plural(n, "candidate")}` : ""}`
    + (own ? ", and six one-vs-all calls for the classes of each passage."
      : `. The classes of these passages take ${passageCalls} calls more, once, when the index is built.`);
  showCost($("cost"), { question: 1, pair: pairs, passage: own ? passageCalls : 0 }, why, milliseconds, trip);
  showVerdict(certainty, answerable);
  showBoard({ text: body.question, ...question }, hits);
  if (!settled) return;
  const moved = hits.filter((hit) => hit.rank !== hit.rank_before).length;
  say($("answer"), n === 0 ? "No passage was found." + (state.where ? " The filter may leave none." : "")
    : `The first ${hits[0].rank_before === 1 ? "passage stays" : `rose from ${ordinal(hits[0].rank_before)}${because(hits, question)}`}; `
      + `${moved || "none"} of ${plural(n, "passage")} moved.`);
}

// Whether anything answers, and how sure the first place is; empty where the service tells neither.
function showVerdict(certainty, answerable) {
  const nothing = answerable != null && info.answerable_from != null && answerable < info.answerable_from;
  const sure = SURE[certainty];
  $("verdict").classList.toggle("doubt", nothing);
  $("verdict").replaceChildren(...(nothing ? [el("b", {}, "Nothing here seems to answer this."), " The passages below are the nearest."]
    : sure ? [el("b", {}, sure[0]), `: ${sure[1]}.`] : []));
}

function because([first, ...others], asked) {
  const before = others.find((hit) => hit.rank_before === 1);
  if (!first.explanation || !before?.explanation) return "";
  const gain = (name) => (first.explanation.parts[name] ?? 0) - (before.explanation.parts[name] ?? 0);
  const [most] = Object.keys(WHY).sort((a, b) => gain(b) - gain(a));
  const gives = first.labels.includes(asked?.label) && !before.labels.includes(asked.label) ? [`it names a ${className(asked.label)}`] : [];
  return [...(gain(most) > 0 ? [WHY[most]] : []), ...gives].map((why, i) => (i ? `, and ${why}` : `: ${why}`)).join("");
}

function ordinal(n) {
  const tail = n % 100 > 10 && n % 100 < 14 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return n + tail;
}

function chip(name, probability, { match = false, label = className(name), note = "" } = {}) {
  return el("li", { class: match ? "chip match" : "chip", title: name, vars: { p: probability } },
    match ? el("span", { "aria-hidden": true }, "✓ ") : null, el("b", {}, label), ` ${percent(probability)}`, note ? spoken(note) : null);
}

function showAsked(question) {
  const all = Object.entries(question?.probabilities ?? {}).sort((a, b) => b[1] - a[1]);
  const likely = all.filter(([, p], i) => i === 0 || p >= 0.02);
  const chips = likely.map(([name, p], i) => chip(name, p, i === 0 ? { match: true, note: " (most probable)" } : {}));
  const fine = fineName(question?.fine);
  if (fine) chips.splice(1, 0, chip(question.fine, question.fine_probability, { label: fine }));
  $("asked").replaceChildren(...(chips.length ? chips : [el("li", {}, "Nothing is known of its class: there are no class heads for this encoder.")]));
}

const cards = new Map(); // by passage id, so that a card that moves keeps its open parts and its focus

function showBoard(question, hits) {
  const parts = [...new Set(hits.flatMap((hit) => Object.keys(hit.explanation?.parts ?? {})))];
  const colour = (name) => parts.indexOf(name) % 7;
  const shownParts = parts.filter((name) => name !== "average");
  $("legend").replaceChildren(...shownParts.map((name) => el("li", {}, el("i", { class: `part${colour(name)}` }), PARTS[name] ?? name)));
  const scale = barScale(hits);
  const places = new Map([...cards].map(([id, card]) => [id, card.getBoundingClientRect().top]));
  const board = $("board");
  board.style.setProperty("--rows", hits.length);

  const before = [...hits].sort((a, b) => a.rank_before - b.rank_before);
  $("before").replaceChildren(...before.map((hit) => el("li", { "data-id": hit.id, class: move(hit) },
    el("span", { class: "rank", "aria-hidden": true }, hit.rank_before), el("p", {}, readable(hit.text)),
    spoken(hit.rank === hit.rank_before ? "; stays there" : `; now ${ordinal(hit.rank)}`))));

  // a first answer slides from the order before
  const opening = !cards.size;
  if (opening) for (const row of $("before").children) places.set(row.dataset.id, row.getBoundingClientRect().top);
  const old = new Map(cards);
  cards.clear();
  const list = $("after");
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  hits.forEach((hit, i) => {
    const card = old.get(hit.id) ?? el("li", { "data-id": hit.id },
      el("div", { class: "told" }), el("details", {}, el("summary"), el("div", { class: "why" })));
    old.delete(hit.id);
    cards.set(hit.id, card);
    fillCard(card, question, hit, scale, colour);
    if (list.children[i] !== card) list.insertBefore(card, list.children[i] ?? null);
  });
  for (const card of old.values()) card.remove();
  if (focused && document.activeElement !== focused && focused.isConnected) focused.focus({ preventScroll: true });
  $("strands").replaceChildren(...before.map((hit, i) => strand(hit, i, hits.indexOf(hit))));
  if (opening && question.text === offered) tour(places);
  else slide(places, opening ? 900 : 260);
}

const move = (hit) => (hit.rank < hit.rank_before ? "up" : hit.rank > hit.rank_before ? "down" : "same");

function fillCard(card, question, hit, scale, colour) {
  const steps = Math.abs(hit.rank - hit.rank_before);
  const way = move(hit);
  card.className = way;
  const { explanation } = hit;
  const words = explanation?.words ?? [];
  const probability = explanation?.link === "sigmoid";
  const labels = [...hit.labels].sort((a, b) => (b === question.label) - (a === question.label) || hit.probabilities[b] - hit.probabilities[a]);
  const source = ["title", "heading", "document"].map((name) => hit.metadata?.[name]).find((value) => typeof value === "string" && value);
  const moved = way === "same" ? "unmoved"
    : el("span", {}, spoken(`${way} `), String(steps), el("small", {}, ` from ${ordinal(hit.rank_before)}`));
  const number = probability ? percent(hit.score) : signed(hit.score).replace("+", "");
  const provided = labels.map((name) => {
    const match = name === question.label;
    return chip(name, hit.probabilities[name], { match, note: match ? " (asked for)" : "" });
  });
  card.firstChild.replaceChildren(
    el("div", { class: "top" },
      el("span", { class: "rank" }, spoken("Place "), String(hit.rank)),
      el("span", { class: "moved" }, el("span", { "aria-hidden": true }, { up: "▲ ", down: "▼ ", same: "= " }[way]), moved),
      el("span", { class: "source" }, state.source === "own" ? "" : source ? `${source} · ${hit.id}` : hit.id),
      explanation ? stack(explanation.parts, scale, colour) : null,
      el("span", { class: "score", title: hit.certainty && "How sure the first place is, by its lead over the second" },
        el("b", {}, hit.certainty ?? number), hit.certainty ? ` ${number}` : el("small", {}, probability ? " probable" : " score"))),
    el("p", { class: "text" }, ...marked(readable(hit.text), words)),
    el("ul", { class: "chips", "aria-label": "Provides" }, ...(provided.length ? provided : [el("li", { class: "hint" }, "no class")])));
  const [summary, why] = card.lastChild.children;
  summary.replaceChildren("Why here", spoken(`, place ${hit.rank}`));
  card.lastChild.hidden = !explanation;
  if (explanation) {
    why.replaceChildren(partsTable(explanation, scale, colour),
      classesTable(explanation.classes, hit.labels, question.label), wordsTable(words));
  }
}

// What bars need, from all hits, so that they compare between cards: of a card's bar, and of each part by itself.
function barScale(hits) {
  let left = 0, right = 0, least = 0, most = 0;
  for (const { explanation } of hits) {
    const values = Object.entries(explanation?.parts ?? {});
    const sum = (of) => values.reduce((total, [name, value]) => total + (name === "average" ? 0 : of(value)), 0);
    left = Math.max(left, sum((value) => Math.max(-value, 0)));
    right = Math.max(right, sum((value) => Math.max(value, 0)));
    for (const [, value] of values) [least, most] = [Math.min(least, value), Math.max(most, value)];
  }
  return { left, whole: left + right || 1, below: -least, range: most - least || 1 };
}

// All parts in one bar, those below zero to the left of its line.
function stack(parts, { left, whole }, colour) {
  const bar = el("div", { class: "stack", "aria-hidden": true, vars: { zero: left / whole } });
  let up = left, down = left;
  for (const [name, value] of Object.entries(parts)) {
    if (name === "average") continue;
    const from = value < 0 ? (down += value) : up;
    if (value > 0) up += value;
    bar.append(el("i", { class: `part${colour(name)}`, vars: { from: from / whole, size: Math.abs(value) / whole } }));
  }
  return bar;
}

function partsTable({ parts, total, link }, { below, range }, colour) {
  const rows = Object.entries(parts).map(([name, value]) => {
    const look = `part${colour(name)}`;
    const bar = el("i", { class: look, vars: { from: (below + Math.min(value, 0)) / range, size: Math.abs(value) / range } });
    return el("tr", {}, el("th", { scope: "row" }, el("i", { class: look }), PARTS[name] ?? name),
      el("td", { class: "bar" }, el("span", { class: "stack", vars: { zero: below / range } }, bar)), el("td", {}, signed(value)));
  });
  const foot = (name, value) => el("tr", {}, el("th", { scope: "row", colspan: 2 }, name), el("td", {}, value));
  const sums = link === "sigmoid"
    ? [foot("sum, log-odds", signed(total)), foot("probability", percent(1 / (1 + Math.exp(-total))))] : [foot("sum", signed(total))];
  return el("table", { class: "parts" }, el("caption", {}, "Parts of the score"),
    el("thead", { class: "spoken" }, el("tr", {}, ...["Part", "Bar", "Adds"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows), el("tfoot", {}, ...sums));
}

function table(name, heads, rows) {
  const row = ([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first), ...rest.map((cell) => el("td", {}, cell)));
  return el("table", {}, el("caption", {}, name),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...rows.map(row)));
}

function wordsTable(words) {
  const met = ({ exact, match, cosine }) => (exact ? "itself" : match ? `${match} (${cosine.toFixed(2)})` : "nothing");
  return table("Words of the question", ["word", "weight", "met by (cosine)"], words.map((word) => [word.word, percent(word.weight), met(word)]));
}

function classesTable(classes, labels, wanted) {
  return table("Classes", ["class", "asked", "provided"], classes.map((one) => [
    className(one.name) + (one.name === wanted ? " (asked for)" : ""),
    percent(one.asked),
    percent(one.provided) + (labels.includes(one.name) ? " ✓" : ""),
  ]));
}

// ---- words that match

const NEAR = 0.5; // cosine from which a word is marked
const LEAST = 0.4; // share of the mean weight from which a word counts: "on" and "the" do not

// The text with whole words marked: those of the question, and those near one of its words.
function marked(text, words) {
  const mean = words.reduce((sum, word) => sum + word.weight, 0) / words.length;
  const counting = words.filter((word) => word.weight >= LEAST * mean);
  const exact = new Set(counting.filter((word) => word.exact).map((word) => folded(word.word)));
  const near = counting.filter((word) => !word.exact && word.cosine >= NEAR && (/\d/.test(word.match) || word.match.length > 3));
  const kinds = new Map();
  const kind = (word) => {
    const parts = word.split(/[.,]/);
    if (parts.every((part) => exact.has(part))) return ["exact", "a word of the question"];
    const met = near.find(({ match }) => parts.includes(folded(match)));
    return met ? ["near", `near ${met.word}, ${met.cosine.toFixed(2)}`] : null;
  };
  const nodes = [];
  let end = 0;
  for (const { 0: word, index } of text.matchAll(UNIT)) {
    const key = folded(word);
    if (!kinds.has(key)) kinds.set(key, kind(key));
    const found = kinds.get(key);
    if (!found) continue;
    nodes.push(text.slice(end, index), el("mark", { class: found[0], title: found[1] }, word));
    end = index + word.length;
  }
  nodes.push(text.slice(end));
  return nodes;
}

// ---- strands between the two orders

// From place a of one order to place b of the other. It spans the rows between them, so that the layout alone says where it
// ends: nothing is measured, neither where a card is on its way nor before a row has grown.
function strand(hit, a, b) {
  const [begin, end] = a < b ? [0, 1] : [1, 0];
  return el("svg", { "data-id": hit.id, class: move(hit), viewBox: "0 0 1 1", preserveAspectRatio: "none",
    vars: { from: Math.min(a, b) + 1, to: Math.max(a, b) + 1 } },
  el("path", { d: a === b ? "M0 0H1" : `M0 ${begin}C.55 ${begin} .45 ${end} 1 ${end}` }));
}

const calm = matchMedia("(prefers-reduced-motion: reduce)");

// The example on opening, step by step: what is asked for, the order before, the way to the order after, the sentence.
function tour(places) {
  const steps = [[".asked", 200], [".before-title, #before", 900], [".after-title, #after", 1600], ["#strands", 2400], [".status", 3200]];
  if (!calm.matches) {
    for (const [selector, delay] of steps) {
      for (const node of $("answer").querySelectorAll(selector)) node.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 500, delay, fill: "backwards" });
    }
  }
  slide(places, 1000, 2300);
}

function slide(places, duration, delay = 0) {
  if (calm.matches) return;
  for (const [id, card] of cards) {
    for (const running of card.getAnimations()) running.cancel();
    const way = (places.get(id) ?? 0) - card.getBoundingClientRect().top;
    const from = { transform: `translateY(${way}px)` };
    if (places.has(id) && way) card.animate([from, { transform: "none" }], { duration, delay, fill: "backwards", easing: "cubic-bezier(.2,.7,.2,1)" });
  }
}

// the passage under the pointer or with the focus, in both orders and between them
function light(event) {
  const id = event.target.closest?.("[data-id]")?.dataset.id;
  for (const node of $("board").querySelectorAll("[data-id]")) node.classList.toggle("lit", node.dataset.id === id);
}
for (const kind of ["pointerover", "pointerleave", "focusin", "focusout"]) $("board").addEventListener(kind, light);

// ---- classifying

const classify = latest(async ({ kind, texts }, signal) => {
  const area = $("classes");
  area.setAttribute("aria-busy", "true");
  say(area, "Classifying …");
  try {
    const start = performance.now();
    const answer = await call(`api/classify/${kind}`, { texts }, signal);
    showProblem(area, null);
    const items = answer.results;
    $("classified").replaceChildren(...items.map((item) => classifiedItem(item, kind)));
    const asking = kind === "questions";
    const n = texts.length;
    const calls = asking ? { question: n } : { passage: n * PROMPTED.passageCalls };
    const why = asking ? "One call for each question." : "Six one-vs-all calls for each passage.";
    showCost($("classify-cost"), calls, why, answer.milliseconds, performance.now() - start);
    say(area, `${plural(n, kind.slice(0, -1))} classified.`);
  } catch (problem) {
    if (signal.aborted) return;
    $("classified").replaceChildren();
    $("classify-cost").closest(".fold").hidden = true;
    showProblem(area, problem, () => $("classify").requestSubmit());
  } finally {
    area.removeAttribute("aria-busy");
  }
});

function classifiedItem(item, kind) {
  const labels = kind === "questions" ? [item.label] : item.labels;
  const all = Object.entries(item.probabilities).sort((a, b) => b[1] - a[1]);
  const fine = fineName(item.fine);
  const note = kind === "questions" ? " (asked for)" : " (provided)";
  const chips = all.map(([name, p]) => chip(name, p, labels.includes(name) ? { match: true, note } : {}));
  if (fine) chips.splice(1, 0, chip(item.fine, item.fine_probability, { label: fine }));
  return el("li", {}, el("p", { class: "text" }, item.text), el("ul", { class: "chips" }, ...chips));
}

$("classify").addEventListener("submit", (event) => {
  event.preventDefault();
  const { kind, cut } = Object.fromEntries(new FormData(event.target));
  const text = $("texts").value;
  const texts = cut === "whole" ? [text.trim()].filter(Boolean) : text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (texts.length) classify({ kind, texts }, true);
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

const narrow = matchMedia("(max-width: 39.99rem)"); // where settings and costs are folded until they are wanted
const fold = () => { for (const details of document.querySelectorAll(".fold")) details.open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();

const tabs = [...document.querySelectorAll("[role=tab]")];
function showTab() {
  for (const tab of tabs) {
    const chosen = tab.id === `tab-${state.tab === "ask" && state.source === "own" ? "own" : state.tab}`;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    tab.hidden = tab.id === "tab-ask" && !hasIndex();
    if (chosen) $(tab.getAttribute("aria-controls")).setAttribute("aria-labelledby", tab.id);
  }
  for (const name of ["ask", "classify"]) $(`panel-${name}`).hidden = name !== state.tab;
}
function choose(tab) {
  const source = { "tab-ask": "index", "tab-own": "own" }[tab.id] ?? state.source;
  const other = source !== state.source;
  Object.assign(state, { tab: tab.id === "tab-classify" ? "classify" : "ask", source });
  fitMethod();
  writeAddress(true);
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

function show() {
  showTab();
  showSettings();
  if (state.q && (state.source === "index" || $("passages").value.trim())) search(true);
  else clearAnswer();
}
addEventListener("popstate", fromAddress);

async function begin() {
  try {
    info = await call("api/info");
    weights = info.weights;
    showProblem($("answer"), null);
  } catch (problem) {
    showSettings();
    return showProblem($("answer"), problem, begin);
  }
  $("about").textContent = `semclass ${info.version}: trained heads over sentence embeddings, on a CPU. No language model is prompted.`;
  fromAddress();
  if (hasIndex()) offer();
}
readAddress();
showTab();
begin();
