// Uses a page as a person would, by keyboard, and leaves in `data-driven` what went wrong; "ok" if nothing did.
// `cargo xtask profile` puts it behind the page's own scripts.
(() => {
  const wrong = [];
  const expect = (isSo, what) => { if (!isSo) wrong.push(what); };
  const key = (target, name) =>
    target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const byId = (id) => document.getElementById(id);
  const shape = (place) => byId(place).querySelector("[tabindex='0'][data-node]");
  const count = document.querySelectorAll("#picture [data-node], #outline [data-node]").length;

  for (const [button, place] of [["as-outline", "outline"], ["as-picture", "picture"]]) {
    byId(button).click();
    expect(!byId(place).hidden, `${button} shows the ${place}`);
    const nodes = byId(place).querySelectorAll("[data-node]");
    expect(nodes.length === count, `${place}: ${nodes.length} nodes, not ${count}`);
    const reached = byId(place).querySelectorAll("[tabindex='0'][data-node]").length;
    expect(reached === 1, `${place}: one node takes the Tab key`);
    for (let press = 0; press < 600; press += 1) key(shape(place), "ArrowUp");
    expect(shape(place).dataset.node === "0", `${place}: arrow keys reach the root`);
    key(shape(place), "ArrowDown");
    expect(nodes.length < 2 || shape(place).dataset.node === "1", `${place}: arrow down leads to the first child`);
    const name = byId("node").querySelector("h3").textContent;
    expect(name.length > 3, `${place}: the panel names the selected node`);
  }

  const field = byId("search");
  key(document.body, "/");
  expect(document.activeElement === field, "/ leads to the search");
  field.value = "exec";
  field.dispatchEvent(new Event("input"));
  expect(/node/.test(byId("found").textContent), "the search counts what it finds");
  expect(document.querySelectorAll(".match").length > 0, "the search marks what it finds");
  field.value = "no such words at all";
  field.dispatchEvent(new Event("input"));
  expect(document.querySelectorAll(".match").length === 0, "a search in vain marks nothing");

  const spans = byId("spans");
  if (spans) {
    key(spans, "ArrowRight");
    expect(/ for /.test(byId("told").textContent), "arrow keys tell of spans");
    const width = spans.querySelector("svg").clientWidth;
    key(spans, "+");
    expect(spans.querySelector("svg").clientWidth > width * 1.8, "+ zooms in");
  }
  const before = getComputedStyle(document.body).backgroundColor;
  byId("theme").click();
  expect(getComputedStyle(document.body).backgroundColor !== before, "dark and light differ");
  const texts = document.body.innerText;
  for (const word of ["undefined", "NaN", "Infinity", "[object"]) {
    expect(!texts.includes(word), `the page says ${word}`);
  }
  document.documentElement.dataset.driven = wrong.length ? wrong.join("; ") : "ok";
})();
