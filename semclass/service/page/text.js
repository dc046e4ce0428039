// What the page does with texts before it shows them. Each character is looked at a few times at most, whatever comes.

export const UNIT = /[\p{L}\p{N}\p{M}]+(?:[.,]\p{N}+)*/gu; // a word; 8,200 is one

// A word without case and accents. Marks go first: to sort a long run of them takes the square of its length.
const unaccented = (text) => text.replace(/\p{M}/gu, "");
export const folded = (text) => unaccented(unaccented(text).normalize("NFD")).toLowerCase();

// Passages of a text: parts between empty lines, or else lines.
export function split(text) {
  const pieces = /\n\s*\n/.test(text.trim()) ? text.split(/\n\s*\n/) : text.split("\n");
  return pieces.map((piece) => piece.replace(/\s+/g, " ").trim()).filter(Boolean);
}

// Markdown as text: headings, emphasis, code and links without their signs.
// A link holds no other one, and an address no brackets but in pairs, so that none is read again from each "[" before it.
const LINK = /!?\[([^[\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*\)/g;
export const readable = (text) => text.replace(/^#{1,6} +/gm, "").replace(LINK, "$1").split("\n").map(unmarked).join("\n");

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
