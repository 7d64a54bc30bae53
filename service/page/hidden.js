// Hidden characters in texts of the store. They are shown as escapes: unseen, they could change what a text seems to say.

/** Control, bidi and invisible characters. */
const HIDDEN =
  "\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b\\u200e\\u200f" +
  "\\u2028-\\u202f\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e01ef}";
/** Runs of hidden characters in a text of several lines. */
export const IN_TEXT = new RegExp(`[${HIDDEN}]+`, "gu");
/** The same in a name, where newline, tab and joiners count as hidden, too. */
export const IN_NAME = new RegExp(`[${HIDDEN}\\t\\n\\u200c\\u200d]+`, "gu");

/** Number of markers in a text. In the rest of it, each run becomes a replacement character. */
export const MARKERS_MAX = 200;
/** Number of characters that a marker spells out. */
const SPELLED_MAX = 4;
const REPLACEMENT = "\ufffd";
const LAST_MARKER = `hidden characters from here on: ${REPLACEMENT}`;
const NUMBER = new Intl.NumberFormat("en");
const SHORT_FORMS = new Map([
  ["\n", "\\n"],
  ["\t", "\\t"],
  ["\r", "\\r"],
]);

function escape(character) {
  return SHORT_FORMS.get(character) ?? `\\u{${character.codePointAt(0).toString(16)}}`;
}

/** Number of code points. */
function length(run) {
  return run.length - (run.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);
}

/** The marker of a run: its characters, or the first ones and the number of all. */
function markerOf(run) {
  // A code point has two code units at most.
  const first = [...run.slice(0, 2 * SPELLED_MAX + 2)];
  const spelled = first.slice(0, SPELLED_MAX).map(escape).join("");
  return first.length <= SPELLED_MAX ? spelled : `${spelled}… (${NUMBER.format(length(run))} hidden characters)`;
}

/**
 * The parts of a text: plain text, and markers of runs of hidden characters.
 * @param {string} text
 * @param {RegExp} hidden `IN_TEXT` or `IN_NAME`
 * @param {{left: number}} [budget] Number of markers that may still be made. Texts that are shown together can share it.
 * @returns {Array<{text: string, isMarker: boolean}>}
 */
export function partsOf(text, hidden, budget = { left: MARKERS_MAX }) {
  const parts = [];
  const add = (part, isMarker) => part && parts.push({ text: part, isMarker });
  let end = 0;
  for (const { 0: run, index } of text.matchAll(hidden)) {
    add(text.slice(end, index), false);
    end = index;
    if (budget.left <= 0) break;
    budget.left -= 1;
    add(budget.left > 0 ? markerOf(run) : LAST_MARKER, true);
    end += run.length;
  }
  add(text.slice(end).replace(hidden, REPLACEMENT), false);
  return parts;
}
