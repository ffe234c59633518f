// A page's worth of DOM for the console, which runs in it against the broker at argv[2]. It gives the order argv[3] to the topic argv[4], waits
// until the page says argv[5], and prints what it says before and after.
const fs = require("fs"), vm = require("vm");
const [, , base, order, mirror, awaited] = process.argv;

class Node {
  constructor(tag) { this.tag = tag; this.children = []; this.dataset = {}; this.listeners = {}; this.value = ""; this.hidden = tag === "login"; this.classList = { add() {}, remove() {} }; }
  append(...nodes) { for (const n of nodes) this.children.push(n instanceof Node ? Object.assign(n, { parent: this }) : String(n)); }
  replaceChildren(...nodes) { this.children = []; this.append(...nodes); }
  setAttribute() {}
  addEventListener(kind, act) { this.listeners[kind] = act; }
  closest(tag) { return this.tag === tag ? this : this.parent ? this.parent.closest(tag) : null; }
  focus() {}
  showModal() { // a person who says yes, or picks the topic
    asked.push(byId("ask-title").textContent + " " + byId("ask-words").textContent);
    const pick = [...byId("ask-words").all()].find((n) => n.tag === "button" && n.value === "topic " + mirror);
    this.returnValue = byId("ask-yes").hidden ? pick ? pick.value : "no" : "yes";
    setTimeout(() => this.listeners.close());
  }
  set textContent(text) { this.children = [String(text)]; }
  get textContent() { return this.children.map((c) => c instanceof Node ? c.textContent : c).join(" "); }
  *all() { yield this; for (const c of this.children) if (c instanceof Node) yield* c.all(); }
}

const ids = {};
const byId = (id) => ids[id] ||= new Node(id);
const page = {
  getElementById: byId, createElement: (tag) => new Node(tag), createElementNS: (_, tag) => new Node(tag),
  querySelector: () => null, querySelectorAll: () => [], body: new Node("body"), addEventListener() {}, visibilityState: "visible", activeElement: null,
};
const asked = [];
const context = {
  document: page, getSelection: () => null, location: new URL(base), btoa, TextEncoder, AbortSignal, Date, JSON, Math, Map, Set, Error, Promise, encodeURIComponent, setTimeout,
  fetch: (path, options) => fetch(base + path, options),
};
vm.runInNewContext(fs.readFileSync(0, "utf8"), context);

const says = () => byId("cluster").textContent + " " + byId("tiles").textContent + " " + byId("links").textContent;
const until = async (what, holds) => {
  for (let i = 0; i < 300; i++) {
    const found = holds();
    if (found) return found;
    await new Promise((go) => setTimeout(go, 100));
  }
  console.log("never: " + what + ": " + byId("pulse").textContent + " " + says());
  process.exit(1);
};
const shown = (about, value) => [...byId("links").all()].find((n) => n.tag === "button" && (n.dataset[about] || "").endsWith(value));
const click = (node) => byId("links").listeners.click({ target: node });
(async () => {
  if (order === "restore") {
    const restore = await until("restoring is offered", () => shown("restore", ""));
    console.log("BEFORE " + says());
    click(restore);
  } else {
    click(await until("the mirror is shown", () => shown("mirror", "/" + mirror)));
    const button = await until(order + " is offered", () => shown("order", order));
    console.log("BEFORE " + says());
    click(button);
  }
  await until("the page says " + awaited, () => asked.length > 0 && says().includes(awaited));
  console.log("ASKED " + asked.join("|"));
  console.log("AFTER " + says());
  process.exit(0);
})();
