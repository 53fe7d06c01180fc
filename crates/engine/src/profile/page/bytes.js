// What scans read, skipped and decoded; what links carried, beside what they can.
const SKIPS = {
  nulls: ["skipped: NULL alone", "var(--skip4)"],
  minmax: ["skipped: outside bounds", "var(--skip3)"],
  histogram: ["skipped: empty histogram bin", "var(--skip2)"],
  bloom: ["skipped: not in Bloom filter", "var(--skip6)"],
  sideways: ["skipped: by a dimension's metadata", "var(--skip5)"],
  dynamic: ["skipped: by a runtime filter", "var(--skip1)"],
};

const SCANS_DRAWN = 8;

/// Where chunks are taken from: field of a scan, words, colour.
const TIERS = [
  ["bytes_read", "from files", "var(--read)"],
  ["pinned_bytes", "from pinned memory", "var(--copy)"],
  ["device_bytes", "from device memory", "var(--kernel)"],
];

/// `20 MB from files, 3 MB from pinned memory`.
function takenText(scan) {
  const tiers = TIERS.filter(([field]) => scan[field] > 0);
  return tiers.map(([field, words]) => `${bytesText(scan[field])} ${words}`).join(", ") || "nothing read";
}

/// Parts of a scan's stored bytes: words, colour, bytes. What memory holds without its codec may be more than is stored.
function partsOf(scan) {
  const parts = TIERS.map(([field, words, colour]) => [words, colour, scan[field]]);
  scan.skipped.forEach((skipped) => {
    const [words, colour] = SKIPS[skipped.by] || [`skipped by ${skipped.by}`, "var(--skip1)"];
    parts.push([words, colour, skipped.stored_bytes]);
  });
  const rest = scan.stored_bytes - parts.reduce((sum, part) => sum + part[2], 0);
  if (rest > 0) parts.push(["not needed: no row was left, or enough were found", "var(--rest)", rest]);
  return parts.filter((part) => part[2] > 0);
}

function bytesSection(page, place) {
  const scans = page.nodes.filter((node) => node.scan);
  if (!scans.length) return void place.append(el("p", { class: "hint" }, "No Pelton table is read."));
  const shown = new Map();
  const most = Math.max(1, ...scans.map((node) => node.scan.stored_bytes));
  const largest = scans.slice().sort((a, b) => b.scan.stored_bytes - a.scan.stored_bytes).slice(0, SCANS_DRAWN);
  const items = largest.map((node) => {
    const scan = node.scan;
    const parts = partsOf(scan);
    parts.forEach(([words, colour]) => shown.set(words, colour));
    const total = Math.max(1, parts.reduce((sum, part) => sum + part[2], 0));
    const width = Math.max(4, 100 * Math.sqrt(scan.stored_bytes / most));
    const told = parts.map(([words, , bytes]) => `${words} ${bytesText(bytes)}`).join(", ");
    return el("div", { class: "item" },
      el("div", { class: "top" }, el("a", { href: "#plan", onclick: () => page.select(node) }, scan.table),
        el("b", {}, `${bytesText(scan.stored_bytes)} stored; ${takenText(scan)}`)),
      el("div", { class: "stack", role: "img", "aria-label": told, title: told, style: `width:${width}%` },
        parts.map(([, colour, bytes]) =>
          el("i", { style: `background:${colour};width:${(100 * bytes / total).toFixed(2)}%` }))),
      el("div", { class: "dim" },
        `${wholeText(scan.row_groups_read)} of ${plural(scan.row_groups_total, "row group")} read; ` +
        `${bytesText(scan.bytes_decoded)} decoded of ${bytesText(scan.raw_bytes)} uncompressed`));
  });
  const left = scans.length - largest.length;
  place.append(legend([...shown]), ...items, el("p", { class: "hint" },
    "Stored bytes of the columns that the query needs. Wider bars are larger tables (by the root of their bytes)." +
    (left > 0 ? ` The ${largest.length} largest of ${scans.length} scans; the table has all.` : "")),
  bytesTable(scans));
}

function bytesTable(scans) {
  const tiers = TIERS.filter(([field]) => field === "bytes_read" || scans.some(({ scan }) => scan[field] > 0));
  const head = ["table", "stored", ...tiers.map(([, words]) => words), "skipped", "decoded", "rows out"];
  const rows = scans.map(({ scan }) => {
    const skipped = scan.skipped.reduce((sum, one) => sum + one.stored_bytes, 0);
    return [scan.table, bytesText(scan.stored_bytes), ...tiers.map(([field]) => bytesText(scan[field])),
      skipped ? `${bytesText(skipped)} (${scan.skipped.map((one) => one.by).join(", ")})` : "–",
      bytesText(scan.bytes_decoded), wholeText(scan.output_rows)];
  });
  const cell = (tag) => (text, index) => el(tag, { class: index ? "n" : null }, text);
  return el("details", {}, el("summary", {}, "As a table"), el("div", { class: "wide" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map(cell("th")))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell("td"))))))));
}

function linksSection(page, place) {
  if (!page.data.links.length) return void place.append(el("p", { class: "hint" }, "No bytes were moved."));
  page.data.links.forEach((link) => {
    const { bytes_per_s: rate, ceiling_bytes_per_s: ceiling } = link;
    const share = rate !== null && ceiling !== null ? rate / ceiling : null;
    const known = ceiling === null ? link.remedy
      : `${share === null ? "" : `${percentText(share)} of `}${rateText(ceiling)} (${link.ceiling_source})`;
    const time = link.busy_ns === null ? "" : ` in ${timeText(link.busy_ns)}`;
    place.append(el("div", { class: "item" },
      el("div", { class: "top" },
        el("span", {}, link.name), el("b", {}, rate === null ? "no time taken" : rateText(rate))),
      el("div", { class: share === null ? "gauge unknown" : "gauge", role: "img", "aria-label": known },
        el("i", { style: `width:${Math.min(100, (share || 0) * 100).toFixed(1)}%` })),
      el("div", { class: "dim" }, withCode(`${bytesText(link.bytes)}${time}; ${known}`))));
  });
  place.append(el("p", { class: "hint" },
    "Rates are over the time in which the link was busy; that of files is over the " +
    "time from the first read of a scan to its last byte, decoding in between included."));
}
