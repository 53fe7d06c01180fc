// Puts the page together.
const MANY_NODES = 60; // beyond this the outline is read more easily than the picture

const TILE_HINTS = {
  "effective bandwidth": "uncompressed bytes of the columns that the query needs, skipped ones included, over its time",
  decoded: "uncompressed bytes of the values that were decoded",
  "peak memory": "the most physical memory that the process held, by the operating system",
};

function header(page) {
  const { data } = page;
  const state = document.getElementById("state");
  state.textContent = data.state;
  state.classList.add(data.state);
  const error = document.getElementById("error");
  error.hidden = !data.error;
  error.textContent = data.error || "";
  const scans = page.nodes.filter((node) => node.scan).map((node) => node.scan);
  const sum = (pick) => scans.reduce((total, scan) => total + pick(scan), 0);
  const skipped = sum((scan) => scan.skipped.reduce((total, one) => total + one.stored_bytes, 0));
  const peak = Math.max(0, ...data.memory.filter((tier) => tier.tier === "process").map((tier) => tier.peak_bytes));
  const onDevice = page.nodes.filter((node) => node.place === "device" && !node.name.startsWith("pipeline")).length;
  const raw = sum((scan) => scan.raw_bytes);
  const tiles = [
    ["run", data.elapsed_ns === null ? "not run" : timeText(data.elapsed_ns)],
    ["planning", data.planning_ns === null ? null : timeText(data.planning_ns)],
    ["rows", data.rows === null ? null : countText(data.rows)],
    ["plan", plural(page.nodes.length, "node")],
    [onDevice ? `on ${data.device || "a device"}` : `in ${plural(data.threads, "partition")}`,
      onDevice ? plural(onDevice, "subtree") : "CPU"],
    ...TIERS.map(([field, words]) => {
      const bytes = sum((scan) => scan[field]);
      const isShown = data.elapsed_ns !== null && (bytes > 0 || field === "bytes_read");
      return [`read ${words}`, isShown ? bytesText(bytes) : null];
    }),
    ["skipped by metadata", scans.length ? bytesText(skipped) : null],
    ["decoded", data.elapsed_ns === null ? null : bytesText(sum((scan) => scan.bytes_decoded))],
    ["effective bandwidth",
      data.state === "finished" && data.elapsed_ns && raw ? rateText(raw * 1e9 / data.elapsed_ns) : null],
    ["peak memory", peak ? bytesText(peak) : null],
  ];
  document.getElementById("tiles").append(...tiles.filter((tile) => tile[1] !== null).map(([name, value]) =>
    el("div", { class: "tile", title: TILE_HINTS[name] }, el("b", {}, value), el("span", {}, name))));
  const sql = document.getElementById("sql");
  sql.hidden = !data.sql;
  sql.open = Boolean(data.sql) && data.sql.length < 700;
  sql.querySelector("pre").textContent = data.sql || "";
  const notes = document.getElementById("notes");
  notes.hidden = !data.notes.length;
  notes.append(...data.notes.map((note) => el("li", {}, note)));
  const utc = (seconds) => new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19);
  const when = data.started_at_s === null ? "" : `, ${utc(data.started_at_s)} UTC`;
  document.getElementById("made").textContent =
    `Made by ${data.engine}${when}. The data of this page is in it as JSON, form ${data.format}.`;
}

/// The node that one wants to see first: the busiest, else the root.
function busiest(nodes) {
  return nodes.reduce((best, node) => (node.share > best.share ? node : best), nodes[0]);
}

function choosePicture(page, isPicture) {
  document.getElementById("picture").hidden = !isPicture;
  document.getElementById("outline").hidden = isPicture;
  document.getElementById("as-picture").setAttribute("aria-pressed", isPicture);
  document.getElementById("as-outline").setAttribute("aria-pressed", !isPicture);
  const place = document.getElementById(isPicture ? "picture" : "outline");
  if (!page.views.has(place)) page.views.set(place, isPicture ? picture(page, place) : outline(page, place));
  page.select(page.selected);
  search(page, document.getElementById("search").value);
}

function select(page, node) {
  const before = page.selected;
  page.selected = node;
  page.shownAs(before, "selected", false);
  page.shownAs(node, "selected", true);
  page.views.forEach((shapes) => {
    shapes.get(before).setAttribute("tabindex", "-1");
    shapes.get(node).setAttribute("tabindex", "0");
    shapes.get(before).removeAttribute("aria-selected");
    shapes.get(node).setAttribute("aria-selected", "true");
  });
  document.getElementById("node").replaceChildren(...panel(node).filter((part) => part !== ""));
  if (before !== node) page.onSelect.forEach((listener) => listener());
}

function bindTools(page) {
  const field = document.getElementById("search");
  field.addEventListener("input", () => search(page, field.value));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const found = search(page, field.value);
    if (!found.length) return;
    const target = found[(found.indexOf(page.selected) + 1) % found.length];
    for (let above = target.parent; above; above = above.parent) above.isOpen = true;
    page.select(target);
    page.views.forEach((shapes) => shapes.get(target).scrollIntoView({ block: "nearest", inline: "center" }));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.tagName === "INPUT") return;
    event.preventDefault();
    field.focus();
  });
  document.getElementById("as-picture").addEventListener("click", () => choosePicture(page, true));
  document.getElementById("as-outline").addEventListener("click", () => choosePicture(page, false));
  const theme = document.getElementById("theme");
  const { dataset } = document.documentElement;
  const isDark = () => (dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const tellTheme = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-pressed", isDark());
  };
  theme.addEventListener("click", () => {
    dataset.theme = isDark() ? "light" : "dark";
    tellTheme();
  });
  tellTheme();
}

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const nodes = gather(data.plan);
  const lastOf = (tier) => tier.points[tier.points.length - 1][0];
  const moments = [...data.timeline.spans.map((span) => span.end_ns), ...data.memory.map(lastOf)];
  const latest = moments.reduce((last, moment) => Math.max(last, moment), 1);
  const page = { data, nodes, views: new Map(), selected: busiest(nodes), onSelect: [], end: latest };
  page.shownAs = (node, name, isSo) => page.views.forEach((shapes) => shapes.get(node).classList.toggle(name, isSo));
  page.select = (node) => select(page, node);
  header(page);
  bindTools(page);
  choosePicture(page, nodes.length <= MANY_NODES);
  const body = (id) => document.querySelector(`#${id} .body`);
  bytesSection(page, body("bytes"));
  linksSection(page, body("links"));
  memorySection(page, body("memory"));
  timelineSection(page, body("timeline"));
  document.documentElement.dataset.ready = "yes";
}

start();
