// The console: asks the REST API every other second and draws what it says.
// Everything that comes from the server is written as text, never as markup.
"use strict";

const every = 2000; // ms between two looks
const rowsMax = 100; // mirrors shown per link until asked for more
const historyMax = 60; // looks kept for the curves of lag
const statuses = ["ACTIVE", "PAUSED", "LINK_PAUSED", "SOURCE_UNAVAILABLE", "LINK_FAILED", "FAILED", "PENDING_STOPPED",
  "PENDING_SYNCHRONIZE", "PENDING_MIRROR", "PENDING_SETUP_FOR_RESTORE", "PENDING_RESTORE", "STOPPED"];

const $ = (id) => document.getElementById(id);
const opened = new Set(); // mirrors whose partitions are shown
const unfolded = new Set(); // links that show all their mirrors
const past = new Map(); // link -> looks {at, lag, age}, newest last
let busy = ""; // the order under way, or what came of the last one
let seen = null; // the last answers
let drawn = ""; // what they looked like
let answered = 0; // when they came

function make(tag, classes, ...children) {
  const node = document.createElement(tag);
  if (classes) node.className = classes;
  for (const child of children) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

const count = (n) => n.toLocaleString("en");
const key = (m) => m.link_name + "/" + m.mirror_topic_name;
const totalLag = (m) => m.mirror_lags.reduce((sum, l) => sum + Math.max(l.lag, 0), 0);
// age is how old a mirror is: ms since the last moment at which all that the source had then was here; null for unknown.
function age(m) {
  if (m.mirror_status === "STOPPED" || m.mirror_lags.length === 0) return null;
  if (m.mirror_lags.some((l) => l.caught_up_ms === undefined)) return null;
  return Math.max(0, Date.now() - Math.min(...m.mirror_lags.map((l) => l.caught_up_ms)));
}
const seconds = (ms) => ms === null ? "unknown" : ms < 10000 ? (ms / 1000).toFixed(1) + " s" : since(Date.now() - ms);
const maxLag = (m) => m.mirror_lags.reduce((most, l) => Math.max(most, l.lag), 0);

function mood(state) {
  if (state === "ACTIVE") return "good";
  if (["FAILED", "LINK_FAILED", "IN_ERROR", "UNAVAILABLE", "SOURCE_UNAVAILABLE", "LINK_UNAVAILABLE"].includes(state)) return "bad";
  if (state === "STOPPED" || state === "NOT_CONFIGURED" || state === "UNKNOWN") return "";
  return "wait"; // paused, pending
}

const badge = (state) => make("span", "badge " + mood(state), state.replaceAll("_", " ").toLowerCase());

function since(ms) {
  const s = Math.max(0, Math.round((Date.now() - ms) / 1000));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " d";
}

async function ask(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(10000) });
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(body && body.message ? body.message : "HTTP " + answer.status);
  return body;
}

async function look() {
  const clusters = await ask("/kafka/v3/clusters");
  const cluster = clusters.data[0].cluster_id;
  const root = "/kafka/v3/clusters/" + encodeURIComponent(cluster) + "/links";
  const [links, mirrors, events] = await Promise.all([ask(root), ask(root + "/-/mirrors"),
    ask("/kafka/v3/clusters/" + encodeURIComponent(cluster) + "/events?limit=30").catch(() => ({ data: [] }))]);
  const detailed = await Promise.all(links.data.map((l, i) =>
    i < 20 ? ask(root + "/" + encodeURIComponent(l.link_name) + "?include_tasks=true").catch(() => l) : l));
  return { cluster, root, links: detailed, mirrors: mirrors.data, events: events.data };
}

function remember(now) {
  const names = new Set(now.links.map((l) => l.link_name));
  for (const name of past.keys()) {
    if (!names.has(name)) past.delete(name);
  }
  for (const name of names) {
    const mirrors = now.mirrors.filter((m) => m.link_name === name);
    const looks = past.get(name) || [];
    looks.push({ at: Date.now(), lag: mirrors.reduce((sum, m) => sum + totalLag(m), 0), age: Math.max(0, ...mirrors.map((m) => age(m) || 0)) });
    past.set(name, looks.slice(-historyMax));
  }
}

const svgNode = (tag, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
};

// plot draws what a link's looks say of one thing over the last two minutes, with its highest value and now.
// least is what the scale reaches at least, so that a quiet link does not look like mountains.
function plot(title, looks, value, words, least) {
  const width = 340, height = 84, top = 16, bottom = 14, span = (historyMax - 1) * every;
  const now = looks[looks.length - 1].at, values = looks.map(value), most = Math.max(...values);
  const x = (at) => (width - ((now - at) / span) * width).toFixed(1);
  const y = (v) => (height - bottom - (v / Math.max(most, least)) * (height - top - bottom)).toFixed(1);
  const points = looks.map((l) => x(l.at) + "," + y(value(l)));
  const svg = svgNode("svg", { viewBox: "0 0 " + width + " " + height, role: "img", class: "plot",
    "aria-label": title + " over the last two minutes: now " + words(values[values.length - 1]) + ", at most " + words(most) });
  svg.append(svgNode("text", { x: 0, y: 11 }, title),
    svgNode("text", { x: width, y: 11, "text-anchor": "end", class: "now" }, words(values[values.length - 1])),
    svgNode("line", { x1: 0, x2: width, y1: height - bottom, y2: height - bottom, class: "axis" }),
    svgNode("line", { x1: 0, x2: width, y1: top, y2: top, class: "axis faint" }),
    svgNode("polygon", { points: x(looks[0].at) + "," + (height - bottom) + " " + points.join(" ") + " " + width + "," + (height - bottom), class: "area" }),
    svgNode("polyline", { points: points.join(" "), class: "line" }),
    svgNode("text", { x: 0, y: height - 2, class: "faint" }, "2 min ago"),
    svgNode("text", { x: width, y: height - 2, "text-anchor": "end", class: "faint" }, "most " + words(most)));
  return svg;
}

function tile(number, words, bad) {
  return make("div", "tile" + (bad ? " bad" : ""), make("b", "", number), make("span", "quiet", words));
}

function worstAge(mirrors) {
  const ages = mirrors.filter((m) => m.mirror_status !== "PAUSED" || age(m) !== null).map(age);
  return ages.includes(null) ? null : Math.max(0, ...ages);
}

function drawTiles(now) {
  const ailing = now.mirrors.filter((m) => mood(m.mirror_status) === "bad").length;
  const badLinks = now.links.filter((l) => mood(l.link_state) === "bad").length;
  const live = now.mirrors.filter((m) => m.mirror_status !== "STOPPED");
  $("tiles").replaceChildren(
    tile(count(now.links.length), badLinks ? "links, " + badLinks + " in trouble" : now.links.length === 1 ? "link" : "links", badLinks > 0),
    tile(count(live.length), "mirror topics"),
    tile(count(ailing), "mirror topics in trouble", ailing > 0),
    tile(count(live.reduce((sum, m) => sum + totalLag(m), 0)), "records behind, in all"),
    tile(live.length ? seconds(worstAge(live)) : "–", "worst RPO: what a failover now could lose", worstAge(live) === null || worstAge(live) > 60000));
}

function remote(l) {
  if (l.source_cluster_id) return "from " + l.source_cluster_id;
  if (l.destination_cluster_id) return "to " + l.destination_cluster_id;
  if (l.remote_cluster_id) return "both ways with " + l.remote_cluster_id;
  return "other cluster not known yet";
}

function drawTasks(l) {
  if (!l.tasks || l.tasks.length === 0) return null;
  const list = make("ul", "tasks");
  for (const task of l.tasks) {
    const item = make("li", "", task.task_name + " ", badge(task.state));
    for (const e of task.errors.slice(0, 5)) item.append(make("span", "why", e.error_code + ": " + e.error_message));
    list.append(item);
  }
  return list;
}

function drawParts(m, said) {
  const box = make("div", "parts");
  for (const l of m.mirror_lags) {
    const wrong = l.error_message || l.records_lost;
    const part = make("span", "part" + (wrong ? " bad" : l.lag > 0 ? " wait" : ""), "p" + l.partition + ": " + (l.lag < 0 ? "the source is silent" : count(l.lag) + " behind") + ", " +
      (l.last_source_fetch_offset < 0 ? "nothing read yet" : "read up to " + count(l.last_source_fetch_offset)));
    if (l.records_lost) part.append(", " + count(l.records_lost) + " lost at the source");
    if (l.error_message && !said.includes(l.error_message.replace(/^partition \d+: /, ""))) part.append(": " + l.error_message);
    box.append(part);
  }
  return box;
}

// ordersFor is what may sensibly be ordered in a state; the server decides in any case.
function ordersFor(status) {
  if (status === "STOPPED") return [];
  if (status === "PAUSED") return ["resume", "failover"];
  if (status === "FAILED") return ["resume", "failover"];
  if (status.startsWith("PENDING_")) return ["failover"];
  return ["pause", "promote", "failover"];
}

function drawOrders(m) {
  const box = make("div", "orders");
  for (const verb of ordersFor(m.mirror_status)) {
    const button = make("button", "order" + (verb === "failover" || verb === "promote" ? " grave" : ""), verb);
    button.type = "button";
    button.dataset.order = verb;
    button.dataset.of = key(m);
    box.append(button);
  }
  return box;
}

// give asks what an order would do, asks the person, and gives it.
async function give(verb, m) {
  const path = seen.root + "/" + encodeURIComponent(m.link_name) + "/mirrors:" + verb;
  const send = async (query) => {
    const answer = await fetch(path + query, { method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json", "X-Hawser-Console": "1" },
      body: JSON.stringify({ mirror_topic_names: [m.mirror_topic_name] }), signal: AbortSignal.timeout(30000) });
    const body = await answer.json().catch(() => null);
    if (!answer.ok) throw new Error(body && body.message ? body.message : "HTTP " + answer.status);
    const one = body.data[0];
    if (one.error_message) throw new Error(one.error_message);
    return one;
  };
  try {
    const would = await send("?validate_only=true");
    const lines = [verb + " " + m.mirror_topic_name + "?", "", count(would.mirror_lags.reduce((sum, l) => sum + Math.max(l.lag, 0), 0)) + " records are not mirrored yet."];
    if (would.open_transactions) lines.push(count(would.open_transactions.length) + " open transactions would be aborted.");
    if (verb === "failover") lines.push("Mirroring stops now and for good; producers may write to the topic.");
    if (verb === "promote") lines.push("Mirroring stops for good once nothing is left to copy; producers may write to the topic then.");
    if (!window.confirm(lines.join("\n"))) return;
    await send("");
    busy = "";
  } catch (e) {
    busy = verb + " " + m.mirror_topic_name + ": " + e.message;
  }
  drawn = "";
  await once();
}

function drawEvents(now) {
  if (now.events.length === 0) return null;
  const list = make("ol", "events");
  for (const e of [...now.events].reverse()) {
    list.append(make("li", e.level === "WARN" ? "warn" : "", make("time", "quiet", new Date(e.time_ms).toLocaleTimeString()), make("span", "", e.text)));
  }
  return make("article", "link", make("div", "head", make("h2", "", "What happened")), list);
}

// drawMirror draws a row. said is what the link's note says already: a thousand mirrors need not repeat it.
function drawMirror(m, said) {
  const open = opened.has(key(m));
  const toggle = make("button", "", m.mirror_topic_name);
  toggle.type = "button";
  toggle.dataset.mirror = key(m);
  toggle.setAttribute("aria-expanded", String(open));
  const state = make("td", "", badge(m.mirror_status));
  if (m.mirror_topic_error !== "NO_ERROR" && m.mirror_topic_error !== "NOT_SET" && !(m.mirror_topic_error_message && said.includes(m.mirror_topic_error_message))) {
    state.append(make("span", "why", m.mirror_topic_error + (m.mirror_topic_error_message ? ": " + m.mirror_topic_error_message : "")));
  }
  const name = make("td", "name", toggle);
  if (m.source_topic_name !== m.mirror_topic_name) name.append(make("span", "quiet", "of " + m.source_topic_name));
  if (open) name.append(drawOrders(m), drawParts(m, said + (m.mirror_topic_error_message || "")));
  return make("tr", "", name, state, make("td", "n", since(m.state_time_ms)), make("td", "n", count(m.num_partitions)),
    make("td", "n", count(maxLag(m))), make("td", "n", count(totalLag(m))), make("td", "n", m.mirror_status === "STOPPED" ? "" : seconds(age(m))));
}

function drawLink(l, mirrors) {
  const card = make("article", "link");
  const head = make("div", "head", make("h2", "", l.link_name), badge(l.link_state), make("span", "quiet", remote(l)));
  card.append(head);
  const looks = past.get(l.link_name);
  if (mirrors.length > 0 && looks) {
    card.append(make("div", "plots", plot("records behind", looks, (o) => o.lag, count, 10), plot("RPO, worst mirror", looks, (o) => o.age, seconds, 1000)));
  }
  if (l.link_error !== "NO_ERROR") card.append(make("p", "note", l.link_error + (l.link_error_message ? ": " + l.link_error_message : "")));
  const tasks = drawTasks(l);
  if (tasks) card.append(tasks);
  if (mirrors.length === 0) {
    // A link from another cluster waits for its first topic; one that only hands out topics has none.
    if (!l.destination_cluster_id) card.append(make("p", "quiet first", "No mirror topics yet: ", make("code", "", "hawser mirror create TOPIC --link " + l.link_name)));
    return card;
  }
  const titles = make("tr", "", make("th", "", "mirror topic"), make("th", "", "status"), make("th", "n", "since"), make("th", "n", "partitions"),
    make("th", "n", "worst lag"), make("th", "n", "lag"), make("th", "n", "RPO"));
  const body = make("tbody");
  const shown = unfolded.has(l.link_name) ? mirrors : mirrors.slice(0, rowsMax);
  for (const m of shown) body.append(drawMirror(m, l.link_error !== "NO_ERROR" ? l.link_error_message || "" : ""));
  card.append(make("div", "scroll", make("table", "", make("thead", "", titles), body)));
  if (shown.length < mirrors.length) {
    const more = make("button", "", "show all " + count(mirrors.length));
    more.type = "button";
    more.dataset.unfold = l.link_name;
    card.append(make("div", "more", more));
  }
  return card;
}

function fits(m) {
  const words = $("words").value.trim().toLowerCase(), status = $("status").value;
  if (status && m.mirror_status !== status) return false;
  return !words || [m.link_name, m.mirror_topic_name, m.source_topic_name].some((name) => name.toLowerCase().includes(words));
}

function draw() {
  if (!seen) return;
  $("cluster").textContent = "cluster " + seen.cluster;
  drawTiles(seen);
  const filtering = $("words").value.trim() !== "" || $("status").value !== "";
  const focus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.mirror : undefined;
  const cards = [];
  for (const l of seen.links) {
    const mirrors = seen.mirrors.filter((m) => m.link_name === l.link_name && fits(m));
    mirrors.sort((a, b) => (mood(b.mirror_status) === "bad") - (mood(a.mirror_status) === "bad")); // by name otherwise, as they come
    if (!filtering || mirrors.length > 0) cards.push(drawLink(l, mirrors));
  }
  if (cards.length === 0) {
    const empty = make("div", "empty", filtering ? "Nothing fits the filter." : "No cluster links yet.");
    if (!filtering) empty.append(make("br"), make("code", "", "hawser link create my-link --source-bootstrap-server HOST:PORT"));
    cards.push(empty);
  }
  if (busy) cards.unshift(make("p", "note loose", busy));
  const events = filtering ? null : drawEvents(seen);
  if (events) cards.push(events);
  const read = document.querySelector(".events"), scrolled = read ? read.scrollTop : 0;
  $("links").replaceChildren(...cards);
  if (scrolled) document.querySelector(".events").scrollTop = scrolled;
  if (focus) {
    for (const b of document.querySelectorAll("button[data-mirror]")) if (b.dataset.mirror === focus) b.focus();
  }
}

async function once() {
  try {
    seen = await look();
    remember(seen);
    answered = Date.now();
    $("pulse").className = "pulse";
    $("pulse").textContent = "live";
    document.body.classList.remove("stale");
    const looks = JSON.stringify(seen) + JSON.stringify([...past.values()]);
    if (looks !== drawn && document.visibilityState === "visible") {
      drawn = looks;
      draw();
    }
  } catch (e) {
    $("pulse").className = "pulse lost";
    $("pulse").textContent = "no answer (" + e.message + ")" + (answered ? "; what is shown is " + since(answered) + " old" : "");
    document.body.classList.add("stale");
  }
}

async function refresh() {
  await once();
  setTimeout(refresh, document.visibilityState === "visible" ? every : every * 5);
}

for (const s of statuses) {
  const option = make("option", "", s.replaceAll("_", " ").toLowerCase());
  option.value = s;
  $("status").append(option);
}
$("words").addEventListener("input", draw);
$("status").addEventListener("change", draw);
$("filter").addEventListener("submit", (e) => e.preventDefault());
$("links").addEventListener("click", (e) => {
  const button = e.target.closest("button");
  if (!button) return;
  if (button.dataset.unfold) unfolded.add(button.dataset.unfold);
  if (button.dataset.order) {
    const m = seen.mirrors.find((one) => key(one) === button.dataset.of);
    if (m) give(button.dataset.order, m);
    return;
  }
  const mirror = button.dataset.mirror;
  if (mirror && !opened.delete(mirror)) opened.add(mirror);
  draw();
});
refresh();
