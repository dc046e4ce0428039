// The page of the service: searches, opens documents, takes judgements, classifies. No library, no build step.
// Texts from outside become text nodes and nothing else.

const $ = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}

const spoken = (text) => el("span", { class: "spoken" }, text);
const percent = (p) => (p > 0 && p < 0.01 ? "< 1 %" : p < 1 && p > 0.99 ? "> 99 %" : `${Math.round(p * 100)} %`);
const signed = (x) => (Math.abs(x) < 0.005 ? "" : x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);
const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

const CLASSES = { ABBR: "abbreviation", DESC: "description", ENTY: "thing", HUM: "person or group", LOC: "place", NUM: "number or date" };
const PARTS = {
  dense: "meaning", bm25: "words (BM25)", rrf: "ranks", class: "class match", entailment: "answers", retrieval: "search",
  sentences: "best sentence", meaning: "words by meaning", words: "the same words", classes: "classes", answers: "gives what is asked",
};
const CERTAINTY = { strong: "The first very probably answers.", likely: "The first probably answers.", weak: "None stands out: compare a few." };

// ---- the service

class Problem extends Error {
  constructor(status, body) {
    super(body?.message ?? "");
    Object.assign(this, { status, id: body?.request_id });
  }
}

let key = sessionStorage.getItem("semclass-key") ?? "";

async function call(path, body, signal) {
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0);
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer) return answer;
  throw new Problem(response.status, answer);
}

const TITLES = {
  0: "The service does not answer", 401: "A valid key is needed", 413: "That is too much at once", 422: "The service cannot take this",
  429: "The service is busy", 503: "The service is not ready", 504: "The answer took too long",
};

const say = (area, text) => { area.querySelector(".status").textContent = text; };

// Show what went wrong in an area, or nothing without a problem.
function showProblem(area, problem, retry) {
  const box = area.querySelector(".problem");
  box.hidden = !problem;
  box.replaceChildren();
  if (!problem) return;
  if (!(problem instanceof Problem)) console.error(problem);
  box.append(
    el("h2", {}, TITLES[problem.status] ?? "The service failed"), el("p", {}, problem.message),
    problem.id ? el("p", {}, "Request ", el("code", {}, problem.id)) : "",
    el("button", { type: "button", onclick: retry }, "Try again"),
  );
  say(area, "");
  if (problem.status === 401) askForKey(retry);
}

let withKey = () => {};
function askForKey(then) {
  withKey = then;
  $("key").hidden = false;
  $("key-value").focus();
}
$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  key = $("key-value").value.trim();
  sessionStorage.setItem("semclass-key", key);
  $("key").hidden = true;
  withKey();
});

// ---- the question, and the address that keeps it; the part behind # is sent to nobody

const PAGE = 10, MOST = 50; // results of a search, and the most that are shown
let state = { q: "", where: [], n: PAGE, tab: "search" };
let info = {}; // of api/info; `index` is null without an index
let facets = [];

function readAddress(event) {
  const values = new URLSearchParams(location.hash.slice(1));
  state = { q: values.get("q") ?? "", where: values.getAll("where"), n: PAGE, tab: values.get("tab") === "classify" || !info.index ? "classify" : "search" };
  if (state.q || event) $("question").value = state.q; // at the beginning, what is being typed stays
  showTab();
  if (state.q) search();
  else clear();
}

function writeAddress() {
  const values = new URLSearchParams();
  if (state.q) values.set("q", state.q);
  for (const term of state.where) values.append("where", term);
  if (state.tab === "classify") values.set("tab", "classify");
  if (`#${values}` !== (location.hash || "#")) history.pushState(null, "", values.size ? `#${values}` : location.pathname);
}
addEventListener("popstate", readAddress);

// ---- searching

let running = new AbortController();

async function search() {
  running.abort();
  running = new AbortController();
  const { signal } = running, answer = $("answer"), body = { question: state.q, where: state.where.length ? state.where : null };
  document.title = `${state.q} · semclass`;
  $("examples").hidden = true;
  showFilters();
  say(answer, "Searching …");
  answer.setAttribute("aria-busy", "true");
  $("results").classList.add("stale");
  const began = performance.now();
  try {
    const asked = [call("api/search", { ...body, k: state.n, explain: true }, signal), call("api/ask", { ...body, k: 3 }, signal),
      call("api/facets", { where: body.where }, signal)];
    const [result, { sentences }, counted] = await Promise.all(asked);
    facets = counted.facets;
    showFacets();
    showFilters();
    showProblem(answer, null);
    showAnswer(result, sentences, performance.now() - began);
  } catch (problem) {
    if (signal.aborted) return;
    clearResults();
    showProblem(answer, problem, search);
  }
  answer.removeAttribute("aria-busy");
}

function change(values) {
  Object.assign(state, values);
  writeAddress();
  search();
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const q = $("question").value.replace(/\s+/g, " ").trim();
  if (q) change({ q, n: PAGE });
});
$("more").addEventListener("click", () => change({ n: state.n + PAGE }));

function clearResults() {
  $("results").replaceChildren();
  $("results").classList.remove("stale");
  for (const id of ["best", "more"]) $(id).hidden = true;
  $("answer").querySelector(".status").classList.remove("doubt");
}

function clear() {
  running.abort();
  document.title = "semclass";
  clearResults();
  $("answer").removeAttribute("aria-busy");
  $("filters").hidden = true;
  $("examples").hidden = !$("examples").querySelector("li");
  showProblem($("answer"), null);
  say($("answer"), "");
}

// ---- filters

const condition = (field, values) => `${field} in (${values.map((value) => JSON.stringify(value)).join(", ")})`;
const isOf = (field) => (term) => term.startsWith(`${field} in (`);

// The values in the condition of a facet.
function chosen(field) {
  const term = state.where.find(isOf(field));
  try { return term ? JSON.parse(`[${term.slice(field.length + 5, -1)}]`) : []; } catch { return []; }
}

function toggle(field, value, checked) {
  const values = chosen(field).filter((other) => other !== value).concat(checked ? [value] : []);
  const others = state.where.filter((term) => !isOf(field)(term));
  change({ where: values.length ? [...others, condition(field, values)] : others, n: PAGE });
}

function showFilters() {
  $("filters").hidden = false;
  $("conditions").replaceChildren(...state.where.map((term) => el("li", {}, el("button", { type: "button", class: "chip", dir: "auto",
    onclick: () => change({ where: state.where.filter((other) => other !== term), n: PAGE }) },
  term, el("span", { "aria-hidden": true }, "\u00a0×"), spoken(": remove this filter")))));
  for (const box of $("facets").querySelectorAll("input")) box.checked = chosen(box.name).includes(JSON.parse(box.value));
}

function showFacets() {
  const box = (field, [value, passages]) => el("label", {},
    el("input", { type: "checkbox", name: field, value: JSON.stringify(value), onchange: (event) => toggle(field, value, event.target.checked) }),
    el("bdi", {}, String(value)), " ", el("span", { class: "count" }, passages.toLocaleString("en"), spoken(passages === 1 ? " passage" : " passages")));
  $("facets").replaceChildren(...facets.map(({ field, values }) => {
    const boxes = values.map((value) => box(field, value));
    const rest = boxes.length > 7 ? [el("details", {}, el("summary", {}, `${boxes.length - 6} more`), ...boxes.splice(6))] : [];
    return el("fieldset", {}, el("legend", {}, field), ...boxes, ...rest);
  }));
}

$("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  const term = $("where").value.trim();
  $("where").value = "";
  if (term && !state.where.includes(term)) change({ where: [...state.where, term], n: PAGE });
});

// ---- results

function showAnswer({ hits, certainty, answerable }, sentences, milliseconds) {
  clearResults();
  const n = hits.length;
  const doubt = n > 0 && answerable != null && info.answerable_from != null && answerable < info.answerable_from;
  say($("answer"), n === 0 ? `No passage was found.${state.where.length ? " The filters leave none: remove one." : ""}`
    : doubt ? "Nothing here seems to answer this. These passages are the nearest."
      : `${plural(n, "passage")} in ${Math.round(milliseconds)} ms. ${CERTAINTY[certainty] ?? ""}`);
  $("answer").querySelector(".status").classList.toggle("doubt", doubt);
  const best = doubt || certainty === "weak" ? [] : sentences;
  $("best").hidden = !best.length;
  $("best").lastElementChild.replaceChildren(...best.map(({ text }) => el("li", { dir: "auto" }, readable(text))));
  for (const { id, start, end } of [...best].reverse()) {
    const hit = hits.find((other) => other.id === id);
    if (hit) hit.sentence = [start, end];
  }
  $("results").replaceChildren(...hits.map(result));
  $("more").hidden = n < state.n || n >= MOST;
}

// Markdown as text: headings, emphasis, code and links without their signs.
const readable = (text) => text.replace(/^#{1,6} +/gm, "").replace(/^ {0,3}(?:```|~~~).*\n?/gm, "").replace(/!?\[([^[\]\n]*)\]\([^()\s]*\)/g, "$1").replace(/\*\*|``?/g, "");
const strings = (value) => [value].flat().filter((item) => typeof item === "string" && item.trim());

function result(hit) {
  const { metadata, explanation } = hit;
  const headings = strings(metadata.headings ?? metadata.heading).map(readable);
  const title = [headings.at(-1), ...strings(metadata.title), ...strings(metadata.document), hit.id].find(Boolean);
  const [sender] = [...strings(metadata.sender_name), ...strings(metadata.sender)]; // of mail
  const sent = sender && [sender, ...strings(metadata.date).map((date) => date.slice(0, 10))].join(" ");
  const place = [(sender && metadata.file) ?? metadata.document ?? metadata.file, metadata.page != null && `page ${metadata.page}`, metadata.message != null && `message ${metadata.message}`, sent, ...headings.slice(0, -1)].filter((part) => part && part !== title);
  const signs = [...hit.text]; // offsets of the service count code points
  const [start, end] = hit.sentence ?? explanation?.sentence ?? [0, 0];
  const [before, best, after] = [[0, start], [start, end], [end]].map((span) => readable(signs.slice(...span).join("")));
  const link = address(hit, best, headings.at(-1) ?? (sender ? title : ""));
  return el("li", {}, el("article", { "aria-labelledby": `title-${hit.rank}` },
    el("h2", { id: `title-${hit.rank}`, dir: "auto" }, link ? el("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, title) : title),
    place.length ? el("p", { class: "place" }, place.join(" › ")) : null,
    excerpt(before, best, after), labels(metadata), judge(hit), explanation ? why(hit) : null));
}

const LONG = 420, AROUND = 140; // characters of a text that is shown whole, and of a cut text around its sentence

function excerpt(before, best, after) {
  const mark = best.trim() ? el("mark", {}, best.trim()) : best;
  const whole = el("p", { class: "text", dir: "auto" }, before, mark, after);
  if (before.length + best.length + after.length <= LONG) return whole;
  const cut = el("p", { class: "text", dir: "auto" },
    before.length > AROUND ? `… ${before.slice(-AROUND).replace(/^\S*\s/, "")}` : before, mark.cloneNode?.(true) ?? mark,
    after.length > 2 * AROUND ? `${after.slice(0, 2 * AROUND).replace(/\s\S*$/, "")} …` : after);
  return el("div", {}, cut, el("details", {}, el("summary", {}, "The whole passage"), whole));
}

// Where a document opens: at the page, at the sentence, or at the heading.
function address({ url, metadata }, sentence, heading) {
  if (!url) return null;
  const there = new URL(url, document.baseURI);
  if (!["http:", "https:"].includes(there.protocol)) return null;
  const code = (text) => encodeURIComponent(text.split(/\s+/).filter(Boolean).join(" ")).replace(/-/g, "%2D");
  if (there.hash) return there.href;
  if (/\.pdf$/i.test(there.pathname)) there.hash = metadata.page ? `page=${metadata.page}` : "";
  else there.hash = `:~:${[sentence, heading].map(code).filter(Boolean).map((text) => `text=${text}`).join("&")}`;
  return there.href;
}

function labels(metadata) {
  const fields = facets.map(({ field }) => field).filter((name) => !["document", "file"].includes(name));
  const items = fields.flatMap((name) => [metadata[name]].flat().filter((value) => value != null && value !== "ABSTAIN").map((value) => chip(`${name}: ${value}`)));
  return items.length ? el("ul", { class: "chips", "aria-label": "Labels" }, ...items) : null;
}

const chip = (text, match = false) => el("li", { class: match ? "chip match" : "chip", dir: "auto" }, match ? "✓ " : "", text);

function judge(hit) {
  if (!info.judgements) return null;
  const question = state.q, note = el("span", { role: "status" });
  let stored = null;
  const button = (right, name) => el("button", { type: "button", "aria-pressed": false, onclick: () => store(right) }, name);
  const buttons = [button(true, "Yes"), button(false, "No")];
  async function store(right) {
    try {
      stored = stored === right ? null : right; // a second time withdraws it
      await call("api/judgements", { question, passage: hit.id, right: stored });
      buttons.forEach((other, i) => other.setAttribute("aria-pressed", stored === (i === 0)));
      note.textContent = stored === null ? "Withdrawn." : "Stored.";
    } catch (problem) {
      note.textContent = `Not stored: ${problem.message || TITLES[problem.status]}`;
    }
  }
  return el("div", { class: "judge", role: "group", "aria-label": "Does this answer it?" }, "Does this answer it?", ...buttons, note);
}

function why({ rank, rank_before: before, explanation }) {
  const parts = Object.entries(explanation.parts).map(([name, value]) => [PARTS[name] ?? name, signed(value)]);
  const words = explanation.words.map(({ word, weight, exact, match, cosine }) => [word, percent(weight), exact ? "itself" : match ? `${match} (${cosine.toFixed(2)})` : "nothing"]);
  const classes = explanation.classes.map(({ name, asked, provided }) => [CLASSES[name] ?? name, percent(asked), percent(provided)]);
  return el("details", {}, el("summary", {}, before === rank ? `Why place ${rank}` : `Why place ${rank}, after place ${before} in the search`), el("div", { class: "tables" },
    table("Parts of the score", ["part", "adds"], [...parts, ["sum", signed(explanation.total)]]),
    table("Words of the question", ["word", "weight", "met by (cosine)"], words),
    classes.length ? table("Types of answer", ["type", "asked", "provided"], classes) : null));
}

function table(name, heads, rows) {
  const row = ([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first), ...rest.map((cell) => el("td", {}, cell)));
  return el("table", {}, el("caption", {}, name),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...rows.map(row)));
}

// ---- classifying

$("classify").addEventListener("submit", async (event) => {
  event.preventDefault();
  const kind = new FormData(event.target).get("kind"), area = $("classes");
  const texts = $("texts").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!texts.length || !kind) return $("texts").focus();
  const { path, name } = JSON.parse(kind);
  say(area, "Classifying …");
  try {
    const { results } = await call(`api/classify/${path}`, name ? { texts, heads: [name] } : { texts });
    showProblem(area, null);
    $("classified").replaceChildren(...results.map((item) => classified(item, name)));
    say(area, `${plural(texts.length, "text")} classified.`);
  } catch (problem) {
    $("classified").replaceChildren();
    showProblem(area, problem, () => $("classify").requestSubmit());
  }
});

function classified(item, name) {
  const { label, labels: several, probabilities } = name ? item.heads[name] : item;
  const matches = new Set([label, ...(several ?? [])].map(String));
  const all = Object.entries(probabilities).sort((a, b) => b[1] - a[1]).slice(0, 12);
  return el("li", {}, el("p", { class: "text", dir: "auto" }, item.text), el("ul", { class: "chips" },
    ...all.map(([one, p]) => chip(`${(!name && CLASSES[one]) || one} ${percent(p)}`, matches.has(one)))));
}

// The shipped heads, if there are any, and heads of your own.
function showKinds() {
  const kinds = info.classes?.length ? [["questions", "", "what a question asks for"], ["passages", "", "what a passage tells"]] : [];
  kinds.push(...Object.keys(info.heads ?? {}).map((name) => ["texts", name, name]));
  $("kinds").replaceChildren($("kinds").firstElementChild, ...kinds.map(([path, name, text], i) => el("label", {},
    el("input", { type: "radio", name: "kind", value: JSON.stringify({ path, name }), checked: i === 0 }), " ", el("bdi", {}, text))));
}

// ---- tabs, beginning

const tabs = [$("tab-search"), $("tab-classify")];
function showTab() {
  for (const tab of tabs) {
    const selected = tab.id === `tab-${state.tab}`;
    tab.setAttribute("aria-selected", selected);
    tab.tabIndex = selected ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !selected;
  }
  $("tab-search").hidden = info.index === null;
}
for (const [i, tab] of tabs.entries()) {
  tab.addEventListener("click", () => {
    state.tab = tab.id.slice(4);
    writeAddress();
    showTab();
    tab.focus();
  });
  tab.addEventListener("keydown", (event) => { if (/^Arrow(Left|Right)$/.test(event.key) && !tabs[1 - i].hidden) tabs[1 - i].click(); });
}

async function begin() {
  try {
    info = await call("api/info");
    facets = info.index ? (await call("api/facets", {})).facets : [];
  } catch (problem) {
    return showProblem($("answer"), problem, begin);
  }
  $("about").textContent = `semclass ${info.version} finds passages, and writes nothing itself.`;
  $("index-name").textContent = info.index ? `(searches ${plural(info.index.passages, "passage")})` : "";
  showKinds();
  showFacets();
  readAddress();
  if (!info.index) return;
  const { questions } = await call("api/examples").catch(() => ({ questions: [] }));
  $("examples").lastElementChild.replaceChildren(...questions.map((q) => el("li", {}, el("button", { type: "button", dir: "auto", onclick: () => {
    $("question").value = q;
    $("ask").requestSubmit();
  } }, q))));
  if (!state.q) clear();
}
begin();
