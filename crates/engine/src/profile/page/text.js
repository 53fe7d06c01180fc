// Numbers with units, and elements: what the other parts are written with.
const SVG = "http://www.w3.org/2000/svg";

/// An HTML element with attributes and children; a function as `on…` listens.
function el(tag, attributes = {}, ...children) {
  return dressed(document.createElement(tag), attributes, children);
}

/// The same for a drawing.
function draw(tag, attributes = {}, ...children) {
  return dressed(document.createElementNS(SVG, tag), attributes, children);
}

function dressed(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/// `value` in the largest unit that leaves a digit before the point.
function scaled(value, step, units) {
  let unit = 0;
  while (value >= step * 0.99995 && unit + 1 < units.length) {
    value /= step;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

const bytesText = (bytes) => scaled(bytes, 1000, ["B", "kB", "MB", "GB", "TB", "PB"]);
const rateText = (rate) => `${bytesText(rate)}/s`;
const plural = (count, word) => `${wholeText(count)} ${word}${count === 1 ? "" : "s"}`;

/// Every digit, in groups of three.
function wholeText(count) {
  return Math.round(count).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/// Short: 1 234, 5.68 M.
function countText(count) {
  return count < 10_000 ? wholeText(count) : scaled(count, 1000, ["", "k", "M", "G", "T"]).trim();
}

function timeText(ns) {
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(ns < 1e10 ? 2 : 1)} s`;
  if (ns >= 1e6) return `${(ns / 1e6).toFixed(ns < 1e7 ? 2 : ns < 1e8 ? 1 : 0)} ms`;
  return ns >= 1e3 ? `${(ns / 1e3).toFixed(0)} µs` : `${ns} ns`;
}

function percentText(share) {
  return share > 0 && share < 0.01 ? "< 1 %" : `${(share * 100).toFixed(0)} %`;
}

const UNITS = { count: wholeText, rows: wholeText, bytes: bytesText, ns: timeText };

/// As much of `text` as fits into `width` pixels of a font.
function fitted(text, width, font) {
  fitted.pen ??= document.createElement("canvas").getContext("2d");
  fitted.pen.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  let length = text.length;
  while (length > 1 && fitted.pen.measureText(cut(text, length)).width > width) length -= Math.ceil(length / 20);
  return cut(text, length);
}

/// At most `length` characters, the end cut off.
function cut(text, length) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

/// How far an estimate is off, in either direction: at least 1.
function qError(node) {
  if (node.estimated_rows === null || node.actual_rows === null) return null;
  const [estimated, actual] = [Math.max(node.estimated_rows, 1), Math.max(node.actual_rows, 1)];
  return Math.max(estimated / actual, actual / estimated);
}

/// What was done, in words, with the colour of its spans.
const ACTIVITIES = {
  operator: ["from first to last row", "--operator"],
  read: ["asking files", "--read"],
  read_wait: ["waiting for files", "--wait"],
  decode: ["decoding", "--decode"],
  filter: ["filtering", "--filter"],
  prepare: ["looking up columns", "--phase"],
  generate: ["writing kernels", "--write"],
  compile: ["compiling kernels", "--compile"],
  allocate: ["taking memory", "--take"],
  admit: ["caching columns on the device", "--result"],
  buffer_wait: ["waiting for a buffer", "--buffer"],
  stage: ["checksums, codecs off", "--stage"],
  copy: ["copying to the device", "--copy"],
  kernel: ["kernel", "--kernel"],
  result: ["fetching the result", "--result"],
};
const colourOf = (activity) => `var(${(ACTIVITIES[activity] || ["", "--operator"])[1]})`;
const wordsOf = (activity) => (ACTIVITIES[activity] || [activity])[0];

/// `text` with what stands between backticks as code.
function withCode(text) {
  return text.split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part));
}

function legend(entries) {
  return el("div", { class: "legend" }, entries.map(([words, colour]) =>
    el("span", {}, el("i", { style: `background:${colour}` }), words)));
}
