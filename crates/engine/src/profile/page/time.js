// What happens over time: memory by tier, and the timeline of lanes.

/// Round moments from 0 to `end`, about `count` of them.
function ticks(end, count) {
  const rough = end / count;
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) || 1;
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, index) => index * step);
}

function memorySection(page, place) {
  if (!page.data.memory.length) {
    return void place.append(el("p", { class: "hint" }, "Nothing was recorded: the query was not run, or not traced."));
  }
  place.append(el("div", { class: "charts" }, page.data.memory.map((tier) => memoryChart(page, tier))));
}

function memoryChart(page, tier) {
  const [width, height, left, bottom] = [420, 132, 62, 18];
  const top = Math.max(tier.peak_bytes, 1) * 1.08;
  const isLimitNear = tier.limit_bytes !== null && tier.limit_bytes < top * 3;
  const most = isLimitNear ? Math.max(top, tier.limit_bytes * 1.04) : top;
  const x = (ns) => left + (width - left - 4) * Math.min(1, ns / page.end);
  const y = (bytes) => 6 + (height - bottom - 6) * (1 - bytes / most);
  let line = "";
  let last = null;
  tier.points.forEach(([ns, bytes]) => {
    const [across, down] = [x(ns).toFixed(1), y(bytes).toFixed(1)];
    line += last === null ? `M${across} ${down}` : `H${across}V${down}`;
    last = bytes;
  });
  line += `H${x(page.end)}`;
  const area = `${line}V${y(0)}H${x(tier.points[0][0])}Z`;
  const moments = ticks(page.end, 4).map((ns) => [
    draw("line", { class: "grid", x1: x(ns), x2: x(ns), y1: 6, y2: y(0) }),
    draw("text", { class: "axis", x: x(ns), y: height - 4, "text-anchor": ns ? "middle" : "start" }, timeText(ns))]);
  const heights = [0, tier.peak_bytes].map((bytes) => [
    draw("line", { class: "grid", x1: left, x2: width - 4, y1: y(bytes), y2: y(bytes) }),
    draw("text", { class: "axis", x: left - 6, y: y(bytes) + 4, "text-anchor": "end" }, bytesText(bytes))]);
  const limit = tier.limit_bytes === null ? "no limit" : `limit ${bytesText(tier.limit_bytes)}`;
  const told = `${tier.name}: peak ${bytesText(tier.peak_bytes)}, ${limit}`;
  return el("figure", {},
    el("figcaption", {},
      el("h3", {}, tier.name), el("span", { class: "dim" }, `peak ${bytesText(tier.peak_bytes)}, ${limit}`)),
    draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told }, moments, heights,
      isLimitNear
        ? draw("line", { class: "limit", x1: left, x2: width - 4, y1: y(tier.limit_bytes), y2: y(tier.limit_bytes) }) : "",
      draw("path", { class: "area", d: area }), draw("path", { class: "stroke", d: line })));
}

/// Lanes by node, in the order of the plan, with their spans dealt to rows in which none overlap.
function groupsOf(page) {
  const lanes = page.data.timeline.lanes.map((lane) => ({ ...lane, spans: [], rows: 1 }));
  page.data.timeline.spans.forEach((span) => lanes[span.lane].spans.push(span));
  // What a scan did tells more than that it was there.
  const scans = new Set(lanes.filter((lane) => lane.name.startsWith("scan")).map((lane) => lane.node));
  const isTold = (lane) => lane.name.startsWith("partition") && scans.has(lane.node);
  const groups = new Map();
  lanes.filter((lane) => !isTold(lane)).forEach((lane) => {
    const ends = [];
    lane.spans.forEach((span) => {
      let row = ends.findIndex((end) => end <= span.start_ns);
      if (row < 0) row = ends.length < 6 ? ends.length : 5;
      ends[row] = span.end_ns;
      span.row = row;
    });
    lane.rows = Math.max(1, ends.length);
    const key = lane.node === null ? page.nodes.length : lane.node;
    if (!groups.has(key)) groups.set(key, { node: page.nodes[key] || null, lanes: [] });
    groups.get(key).lanes.push(lane);
  });
  return [...groups.entries()].sort((a, b) => a[0] - b[0]).map(([, group]) => group);
}

function timelineSection(page, place) {
  const groups = groupsOf(page);
  if (!groups.length) {
    return void place.append(el("p", { class: "hint" }, "Nothing was recorded: the query was not run, or not traced."));
  }
  const used = [...new Set(page.data.timeline.spans.map((span) => span.activity))];
  const entries = new Map(Object.keys(ACTIVITIES).filter((activity) => used.includes(activity))
    .map((activity) => [wordsOf(activity), colourOf(activity)]));
  const told = el("p", { id: "told", role: "status" },
    "Point at a span, or focus the drawing and use arrow keys; + and − zoom.");
  const labels = el("div", { id: "labels" });
  const spans = el("div", {
    id: "spans", tabindex: "0", role: "application", "aria-label": "Timeline; arrow keys go from span to span",
  });
  place.append(legend([...entries]), el("div", { id: "lanes" }, labels, spans), told);
  const view = { page, groups, labels, spans, told, zoom: 1, flat: [], current: -1 };
  spans.addEventListener("mousemove", (event) => tell(view, event.target.dataset?.at));
  spans.addEventListener("keydown", (event) => timelineKey(view, event));
  const zoomTo = (zoom) => { view.zoom = Math.max(1, Math.min(200, zoom)); paint(view); };
  view.zoomBy = (factor) => zoomTo(view.zoom * factor);
  document.getElementById("zoom-in").addEventListener("click", () => view.zoomBy(2));
  document.getElementById("zoom-out").addEventListener("click", () => view.zoomBy(0.5));
  document.getElementById("zoom-all").addEventListener("click", () => zoomTo(1));
  document.getElementById("only-selected").addEventListener("change", () => paint(view));
  page.onSelect.push(() => document.getElementById("only-selected").checked && paint(view));
  addEventListener("resize", () => paint(view));
  paint(view);
}

/// Draws the lanes anew.
function paint(view) {
  const { page, labels, spans } = view;
  const isOnly = document.getElementById("only-selected").checked;
  const within = (node) => Boolean(node) && (node === page.selected || within(node.parent));
  const shown = view.groups.filter((group) => !isOnly || within(group.node));
  const middle = spans.scrollWidth ? (spans.scrollLeft + spans.clientWidth / 2) / spans.scrollWidth : 0;
  const width = Math.max(200, spans.clientWidth - 2) * view.zoom;
  const x = (ns) => (width - 12) * ns / page.end + 4;
  labels.replaceChildren(el("div", { style: "height:22px" }, ""));
  const svg = draw("svg", {});
  view.flat = [];
  let y = 22;
  shown.forEach((group) => {
    const title = group.node ? `${shortName(group.node)} ${cut(gist(group.node), 34)}` : "made while running";
    labels.append(el("div", { class: "group", style: "height:20px;line-height:20px", title,
      onclick: () => group.node && page.select(group.node) }, title));
    svg.append(draw("rect", { class: "group", x: 0, y, width, height: 20 }));
    y += 20;
    group.lanes.forEach((lane) => {
      const isThin = lane.rows > 1 || group.lanes.length > 8 || lane.name.startsWith("partition");
      const thickness = isThin ? 8 : 13;
      const height = lane.rows * thickness + 2;
      const size = `height:${height}px;line-height:${height}px;font-size:${height < 12 ? 9 : 11}px`;
      labels.append(el("div", { style: size }, lane.name));
      lane.spans.forEach((span) => {
        svg.append(draw("rect", {
          class: "span", "data-at": view.flat.length, x: x(span.start_ns).toFixed(2), y: y + 1 + span.row * thickness,
          width: Math.max(0.6, x(span.end_ns) - x(span.start_ns)).toFixed(2), height: thickness - 1,
          style: `fill:${colourOf(span.activity)}`,
        }));
        view.flat.push({ span, lane, group });
      });
      y += height;
    });
  });
  const moments = ticks(page.end, 8 * view.zoom).map((ns) => [
    draw("line", { class: "grid", x1: x(ns), x2: x(ns), y1: 18, y2: y }),
    draw("text", { class: "axis", x: x(ns) + 3, y: 13 }, timeText(ns))]);
  svg.prepend(...moments.flat());
  svg.setAttribute("width", width);
  svg.setAttribute("height", y + 4);
  svg.style.width = `${width}px`;
  spans.replaceChildren(svg);
  spans.scrollLeft = middle * spans.scrollWidth - spans.clientWidth / 2;
  view.current = -1;
}

/// Says what span `at` is.
function tell(view, at) {
  const found = at === undefined ? null : view.flat[at];
  if (!found) return;
  const { span, lane, group } = found;
  const time = span.end_ns - span.start_ns;
  const rate = span.bytes && time ? `, ${bytesText(span.bytes)} at ${rateText(span.bytes * 1e9 / time)}` : "";
  const rows = span.rows ? `, ${wholeText(span.rows)} rows` : "";
  const whose = group.node ? `${shortName(group.node)} (${lane.name})` : lane.name;
  const when = `from ${timeText(span.start_ns)} for ${timeText(time)}`;
  view.told.textContent = `${whose}: ${wordsOf(span.activity)} ${when}${rate}${rows}`;
}

function timelineKey(view, event) {
  const { spans } = view;
  const go = (index) => {
    const rects = spans.querySelectorAll("rect.span");
    if (!rects.length) return;
    view.current = Math.max(0, Math.min(rects.length - 1, index));
    spans.querySelectorAll("rect.current").forEach((rect) => rect.classList.remove("current"));
    rects[view.current].classList.add("current");
    rects[view.current].scrollIntoView({ block: "nearest", inline: "nearest" });
    tell(view, view.current);
  };
  const laneStep = (by) => {
    const lane = view.current < 0 ? -1 : view.flat[view.current].span.lane;
    let at = view.current;
    while (view.flat[at + by] && view.flat[at].span.lane === lane) at += by;
    go(at + (view.flat[at] && view.flat[at].span.lane === lane ? by : 0));
  };
  const keys = {
    ArrowRight: () => go(view.current + 1), ArrowLeft: () => go(view.current - 1),
    ArrowDown: () => (view.current < 0 ? go(0) : laneStep(1)), ArrowUp: () => (view.current < 0 ? go(0) : laneStep(-1)),
    Home: () => go(0), "+": () => view.zoomBy(2), "-": () => view.zoomBy(0.5),
  };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
}
