// The plan as a picture: the root on top, children below, subtrees side by side.
const BOX = { width: 214, height: 64, gapX: 20, gapY: 26 };

/// Gives each node its column: leaves from left to right, parents over the middle of their children.
function layOut(root) {
  let next = 0;
  const place = (node) => {
    node.children.forEach(place);
    const [first, last] = [node.children[0], node.children[node.children.length - 1]];
    node.column = first ? (first.column + last.column) / 2 : next++;
  };
  place(root);
  return next;
}

function picture(page, place) {
  const root = page.nodes[0];
  const columns = layOut(root);
  const depth = Math.max(...page.nodes.map((node) => node.depth)) + 1;
  const [stepX, stepY] = [BOX.width + BOX.gapX, BOX.height + BOX.gapY];
  const [width, height] = [columns * stepX + BOX.gapX, depth * stepY + BOX.gapY / 2];
  const corner = (node) => [BOX.gapX + node.column * stepX, BOX.gapY / 2 + node.depth * stepY];
  const shapes = new Map();
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "tree", "aria-label": "Plan", width, height });
  const mostRows = Math.max(10, ...page.nodes.map((node) => node.actual_rows ?? node.estimated_rows ?? 0));
  for (const node of page.nodes) {
    if (!node.parent) continue;
    const [x, y] = corner(node);
    const [parentX, parentY] = corner(node.parent);
    const [fromX, toX, fromY, toY] = [x + BOX.width / 2, parentX + BOX.width / 2, y, parentY + BOX.height];
    const middle = (fromY + toY) / 2;
    const rows = node.actual_rows ?? node.estimated_rows ?? 0;
    svg.append(draw("path", {
      class: "edge", d: `M${fromX} ${fromY}C${fromX} ${middle} ${toX} ${middle} ${toX} ${toY}`,
      "stroke-width": (1.5 + 8 * Math.log10(rows + 1) / Math.log10(mostRows + 1)).toFixed(1),
    }));
  }
  for (const node of page.nodes) {
    const shape = box(page, node, corner(node));
    shapes.set(node, shape);
    svg.append(shape);
  }
  svg.addEventListener("keydown", (event) => step(page, shapes, event));
  place.append(svg);
  const fit = () => {
    const scale = Math.min(1, Math.max(0.68, (place.clientWidth - 4) / width));
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
  };
  fit();
  addEventListener("resize", fit);
  const [x, y] = corner(page.selected);
  const scale = svg.clientWidth / width;
  place.scrollLeft = (x + BOX.width / 2) * scale - place.clientWidth / 2;
  place.scrollTop = (y + BOX.height / 2) * scale - place.clientHeight / 2;
  return shapes;
}

function box(page, node, [x, y]) {
  const time = node.elapsed_ns === null ? "" : timeText(node.elapsed_ns);
  const inner = BOX.width - 26;
  const name = node.place === "device" && node.name.startsWith("pipeline") ? node.name : shortName(node);
  return draw("g", {
    class: `node ${node.place}`, transform: `translate(${x} ${y})`, tabindex: "-1", role: "treeitem",
    "aria-level": node.depth + 1, "data-node": node.id,
    "aria-label": `${name}, ${node.place}, ${gist(node)}, ${rowsText(node)}, ${time}`,
    onclick: () => page.select(node), onfocus: () => page.select(node),
  },
  draw("rect", { class: "box", width: BOX.width, height: BOX.height, rx: 7 }),
  draw("path", { class: "stripe", d: `M7 0H5V${BOX.height}H7A7 7 0 0 1 0 ${BOX.height - 7}V7A7 7 0 0 1 7 0Z` }),
  draw("text", { class: "name", x: 14, y: 18 }, fitted(name, inner, "650 13px")),
  draw("text", { class: "dim", x: 14, y: 33 }, fitted(gist(node), inner, "11px")),
  draw("text", { x: 14, y: 49 }, rowsText(node)),
  draw("text", { x: BOX.width - 12, y: 49, "text-anchor": "end" }, time),
  draw("rect", { class: "track", x: 14, y: 55, width: inner, height: 4, rx: 2 }),
  node.share > 0
    ? draw("rect", { class: "heat", x: 14, y: 55, width: Math.max(1.5, inner * node.share), height: 4, rx: 2 }) : "",
  draw("title", {}, `${node.name}\n${cut(node.detail, 400)}`));
}

/// Arrow keys go along the tree.
function step(page, shapes, event) {
  const node = page.selected;
  const siblings = node.parent ? node.parent.children : [node];
  const at = siblings.indexOf(node);
  const target = {
    ArrowUp: node.parent, ArrowDown: node.children[0],
    ArrowLeft: siblings[at - 1], ArrowRight: siblings[at + 1], Home: page.nodes[0],
  }[event.key];
  if (!(event.key.startsWith("Arrow") || event.key === "Home")) return;
  event.preventDefault();
  if (target) { page.select(target); shapes.get(target).focus(); }
}
