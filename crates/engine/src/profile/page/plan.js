// The plan: nodes by number, the outline, the panel of the selected node, the search.

/// All nodes in order, each with its parent, depth and share of the busy time.
function gather(root) {
  const nodes = [];
  const walk = (node, parent, depth) => {
    Object.assign(node, { parent, depth, isOpen: true });
    nodes[node.id] = node;
    node.children.forEach((child) => walk(child, node, depth + 1));
  };
  walk(root, null, 0);
  const isSum = (node) => node.children.some((child) => child.name.startsWith("pipeline "));
  const total = nodes.reduce((sum, node) => sum + (isSum(node) ? 0 : node.elapsed_ns || 0), 0);
  nodes.forEach((node) => { node.share = total > 0 && !isSum(node) ? (node.elapsed_ns || 0) / total : 0; });
  return nodes;
}

const shortName = (node) => node.name.replace(/^Pelton/, "").replace(/Exec$/, "").replace(/^(Gpu)$/, "On the device");

/// What tells this node from others of its name, in a few words.
function gist(node) {
  if (node.scan && !node.name.startsWith("pipeline")) return node.scan.table;
  if (node.name.startsWith("pipeline")) return node.detail.split("\n")[0];
  const on = /on=\[([^\]]*)\]/.exec(node.detail);
  if (on) return on[1].replace(/@\d+/g, "");
  const picked = /(?:expr|gby|predicate|filter)=\[?([^\]]*)/.exec(node.detail);
  return (picked ? picked[1] : node.detail).replace(/@\d+/g, "");
}

function rowsText(node) {
  if (node.actual_rows !== null) return `${countText(node.actual_rows)} row${node.actual_rows === 1 ? "" : "s"}`;
  return node.estimated_rows !== null ? `about ${countText(node.estimated_rows)} rows` : "rows unknown";
}

function matches(node, words) {
  const table = node.scan ? node.scan.table : "";
  const text = `${node.name} ${node.detail} ${node.reason} ${node.place} ${table}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/// The plan as an indented tree that opens and closes.
function outline(page, place) {
  const rows = new Map();
  const headline = el("div", { class: "row headline", role: "row" },
    ["Operator", "Rows · q-error", "Busy time"].map((title, index) =>
      el("span", { role: "columnheader", class: index === 1 ? "n" : null }, title)));
  const grid = el("div", { role: "treegrid", "aria-label": "Plan" }, headline);
  page.nodes.forEach((node) => {
    const row = outlineRow(page, node);
    rows.set(node, row);
    grid.append(row);
  });
  const show = () => page.nodes.forEach((node) => {
    let isShown = true;
    for (let above = node.parent; above; above = above.parent) isShown &&= above.isOpen;
    const row = rows.get(node);
    row.hidden = !isShown;
    row.style.display = isShown ? "" : "none";
    if (node.children.length) {
      row.setAttribute("aria-expanded", node.isOpen);
      row.querySelector(".twist").textContent = node.isOpen ? "▾" : "▸";
    }
  });
  const visible = () => page.nodes.filter((node) => !rows.get(node).hidden);
  const open = (node, isOpen) => { node.isOpen = isOpen; show(); };
  grid.addEventListener("keydown", (event) => {
    const node = page.selected;
    const list = visible();
    const at = list.indexOf(node);
    const moves = {
      ArrowDown: () => list[at + 1], ArrowUp: () => list[at - 1], Home: () => list[0], End: () => list[list.length - 1],
      ArrowLeft: () => (node.isOpen && node.children.length ? open(node, false) : node.parent),
      ArrowRight: () => (node.isOpen ? node.children[0] : open(node, true)),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    const target = moves[event.key]();
    if (target) { page.select(target); rows.get(target).focus(); }
  });
  grid.addEventListener("click", (event) => {
    const row = event.target.closest("[data-node]");
    const node = row && page.nodes[row.dataset.node];
    if (node && event.target.classList.contains("twist")) open(node, !node.isOpen);
  });
  place.append(grid);
  show();
  return rows;
}

function outlineRow(page, node) {
  const off = qError(node);
  const quality = off === null ? "" : ` · q ${off < 10 ? off.toFixed(1) : countText(off)}`;
  const rows = rowsText(node).replace(/ rows?$/, "") + quality;
  const time = node.elapsed_ns === null ? "" : timeText(node.elapsed_ns);
  return el("div", {
    class: "row", role: "row", tabindex: "-1", "data-node": node.id, "aria-level": node.depth + 1,
    onclick: () => page.select(node), onfocus: () => page.select(node),
  },
  el("span", { class: "what", role: "gridcell", style: `padding-left:${Math.min(node.depth, 24) * 1.05}rem` },
    el("span", { class: "twist", "aria-hidden": "true" }, node.children.length ? "▾" : "·"),
    el("span", { class: "name" }, shortName(node)), " ",
    el("span", { class: `badge ${node.place}` }, node.place === "cpu" ? "CPU" : "device"), " ",
    el("span", { class: "dim" }, cut(gist(node), 120))),
  el("span", { class: "n", role: "gridcell" }, rows),
  el("span", { class: "meter", role: "gridcell" },
    el("i", { style: `width:${(node.share * 100).toFixed(1)}%` }), el("span", {}, time)));
}

/// All that is known of `node`.
function panel(node) {
  const facts = [];
  const add = (name, value) =>
    facts.push(el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "n" }, value)));
  if (node.actual_rows !== null) add("rows", wholeText(node.actual_rows));
  if (node.estimated_rows !== null) add("rows, estimated", wholeText(node.estimated_rows));
  const off = qError(node);
  if (off !== null) add("estimate off by", `× ${off < 100 ? off.toFixed(2) : countText(off)}`);
  if (node.elapsed_ns !== null) add("busy, all partitions", timeText(node.elapsed_ns));
  if (node.share > 0) add("share of busy time", percentText(node.share));
  if (node.started_ns !== null) add("active", `${timeText(node.started_ns)} – ${timeText(node.ended_ns)}`);
  // A clock that was never started shows a nanosecond or two.
  const isTelling = (metric) => metric.value > (metric.unit === "ns" ? 20 : 0);
  const isSaid = (metric) => ["output_rows", "elapsed_compute"].includes(metric.name);
  const metrics = node.metrics.filter((metric) => isTelling(metric) && !isSaid(metric));
  const metricRows = metrics.map((metric) => el("tr", {},
    el("td", { class: "mono" }, metric.name.replaceAll("_", " ")),
    el("td", { class: "n" }, UNITS[metric.unit](metric.value))));
  return [
    el("h3", {}, node.name),
    el("p", {},
      el("span", { class: `badge ${node.place}` }, node.place === "cpu" ? "CPU" : "device"), ` ${node.reason}`),
    node.detail ? el("pre", { tabindex: "0" }, node.detail.replaceAll("@", "\u2060@")) : "",
    facts.length ? el("table", {}, facts) : el("p", { class: "dim" }, "It has not run: there are no figures."),
    metricRows.length ? el("h3", { style: "margin-top:.9rem" }, "Counted") : "",
    metricRows.length ? el("table", {}, metricRows) : "",
  ];
}

/// Marks what the words of the search field are found in.
function search(page, text) {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word);
  const found = words.length ? page.nodes.filter((node) => matches(node, words)) : [];
  page.nodes.forEach((node) => page.shownAs(node, "match", found.includes(node)));
  const told = words.length ? `${plural(found.length, "node")} of ${page.nodes.length}` : "";
  document.getElementById("found").textContent = told;
  return found;
}
