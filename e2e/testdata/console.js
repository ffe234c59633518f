// A page's worth of DOM for the console, which runs in it against the broker at argv[2]. It opens the mirror argv[3], fails it over,
// and prints what the page says before and after.
const fs = require("fs"), vm = require("vm");
const [, , base, mirror] = process.argv;

class Node {
  constructor(tag) { this.tag = tag; this.children = []; this.dataset = {}; this.listeners = {}; this.value = ""; this.hidden = tag === "login"; this.classList = { add() {}, remove() {} }; }
  append(...nodes) { for (const n of nodes) this.children.push(n instanceof Node ? Object.assign(n, { parent: this }) : String(n)); }
  replaceChildren(...nodes) { this.children = []; this.append(...nodes); }
  setAttribute() {}
  addEventListener(kind, act) { this.listeners[kind] = act; }
  closest(tag) { return this.tag === tag ? this : this.parent ? this.parent.closest(tag) : null; }
  focus() {}
  showModal() { // a person who says yes
    asked.push(byId("ask-title").textContent + " " + byId("ask-words").textContent);
    this.returnValue = "yes";
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
const button = (about, value) => () => [...byId("links").all()].find((n) => n.tag === "button" && n.dataset[about] === value);
const click = (node) => byId("links").listeners.click({ target: node });
(async () => {
  click(await until("the mirror is shown", () => [...byId("links").all()].find((n) => n.tag === "button" && (n.dataset.mirror || "").endsWith("/" + mirror))));
  const failover = await until("failover is offered", button("order", "failover"));
  console.log("BEFORE " + says());
  click(failover);
  await until("one mirror is left", () => byId("tiles").textContent.includes("1 mirror topic "));
  console.log("ASKED " + asked.join("|"));
  console.log("AFTER " + says());
  process.exit(0);
})();
