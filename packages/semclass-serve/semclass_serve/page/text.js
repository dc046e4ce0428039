// What the page does with texts before it shows them. Each character is looked at a few times at most, whatever comes.

const LONG = 420, AROUND = 140; // characters of a text that is cut, and of what is shown before and after its sentence

// A text in three parts, the sentence that answers in the middle; a long one is cut around it. Python counts code points.
export function excerpt(text, sentence, whole) {
  const signs = [...text];
  const [start, end] = sentence ?? [0, 0];
  const part = (from, to) => signs.slice(from, to).join("");
  let before = part(0, start), after = part(end);
  const cut = !whole && signs.length > LONG;
  if (cut) {
    if (before.length > AROUND) before = `… ${before.slice(-AROUND).replace(/^\S*\s/, "")}`;
    const room = Math.max(AROUND, LONG - before.length - (end - start));
    if (after.length > room) after = `${after.slice(0, room).replace(/\s\S*$/, "")} …`;
  }
  return { parts: [before, part(start, end), after], cut: cut && (before.startsWith("… ") || after.endsWith(" …")) };
}

// What the address of a document ends with, so that it opens at a page, at a sentence, or else at a heading.
export function fragment(path, page, sentence, heading) {
  if (/\.pdf$/i.test(path)) return page ? `page=${page}` : "";
  const code = (words) => encodeURIComponent(words.join(" ")).replace(/-/g, "%2D");
  const words = (text) => (/\.x?html?$/i.test(path) ? readable(text) : text).split(/\s+/).filter(Boolean);
  const some = words(sentence);
  const texts = [some.length > 12 ? `${code(some.slice(0, 5))},${code(some.slice(-4))}` : code(some), code(words(heading))];
  return `:~:${texts.filter(Boolean).map((text) => `text=${text}`).join("&")}`;
}

// Passages of a text: parts between empty lines, or else lines.
export function split(text) {
  const pieces = /\n\s*\n/.test(text.trim()) ? text.split(/\n\s*\n/) : text.split("\n");
  return pieces.map((piece) => piece.replace(/\s+/g, " ").trim()).filter(Boolean);
}

// Markdown as text: headings, emphasis, code and links without their signs, fences left out.
// A link holds no other one, and an address no brackets but in pairs, so that none is read again from each "[" before it.
const LINK = /!?\[([^[\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*\)/g;
export const readable = (text) => text.replace(/^#{1,6} +/gm, "").replace(/^[ ]{0,3}(?:```|~~~|:::).*\n?/gm, "").replace(LINK, "$1").split("\n").map(unmarked).join("\n");

// A line without marks of emphasis and code that come in pairs around something.
function unmarked(line) {
  const marks = [...line.matchAll(/\*\*|__|``?/g)];
  const ends = []; // of each mark, the next one like it that may end what it begins
  const last = {};
  for (let i = marks.length - 1; i >= 0; i--) {
    const [mark] = marks[i];
    ends[i] = last[mark];
    if (/\S/.test(line[marks[i].index - 1] ?? " ")) last[mark] = i;
  }
  let plain = "", done = 0;
  for (let i = 0; i < marks.length; i++) {
    const start = marks[i].index + marks[i][0].length;
    const end = marks[ends[i]]?.index === start ? ends[ends[i]] : ends[i]; // there is something between them
    if (end === undefined || !/\S/.test(line[start])) continue;
    plain += line.slice(done, marks[i].index) + line.slice(start, marks[end].index);
    done = marks[end].index + marks[end][0].length;
    i = end;
  }
  return plain + line.slice(done);
}
