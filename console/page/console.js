// The console: asks the REST API every other second and draws what it says.
// Everything that comes from the server is written as text, never as markup.
"use strict";

const every = 2000; // ms between two looks
const rowsMax = 20; // mirrors shown per link until asked for more: the next link should not be a thousand rows down
const historyMax = 60; // looks kept for the curves of lag
const statuses = ["ACTIVE", "PAUSED", "LINK_PAUSED", "SOURCE_UNAVAILABLE", "LINK_FAILED", "FAILED", "PENDING_STOPPED",
  "PENDING_SYNCHRONIZE", "PENDING_MIRROR", "PENDING_SETUP_FOR_RESTORE", "PENDING_RESTORE", "STOPPED"];

const $ = (id) => document.getElementById(id);
const opened = new Set(); // mirrors whose partitions are shown
const unfolded = new Set(); // links that show all their mirrors
const past = new Map(); // link -> looks {at, lag, age}, newest last
let sorting = "trouble"; // the column that mirrors are sorted by
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
// lagWords is a lag; a source that is silent has one that nobody knows.
const lagWords = (m, lag) => lag <= 0 && m.mirror_lags.some((l) => l.lag < 0) ? "unknown" : count(lag);
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

let login = ""; // the Authorization header of who logged in on this page; it is forgotten with the page

// call asks the REST API. With a login of its own the browser's is not sent, and it does not ask for one.
async function call(path, options, headers, limit) {
  const own = login ? { credentials: "omit", headers: { Accept: "application/json", Authorization: login, ...headers } } : { headers: { Accept: "application/json", ...headers } };
  const answer = await fetch(path, { ...options, ...own, signal: AbortSignal.timeout(limit) });
  const body = await answer.json().catch(() => null);
  if (answer.ok) return body;
  const error = new Error(body && body.message ? body.message : "HTTP " + answer.status);
  error.login = answer.status === 401 || answer.status === 403 && error.message.includes("User:ANONYMOUS");
  error.answered = true;
  throw error;
}

const ask = (path) => call(path, {}, {}, 10000);

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
  const width = 600, height = 56, span = (historyMax - 1) * every;
  const now = looks[looks.length - 1].at, values = looks.map(value), most = Math.max(...values), last = words(values[values.length - 1]);
  const x = (at) => (width - ((now - at) / span) * width).toFixed(1);
  const y = (v) => (height - 1 - (v / Math.max(most, least)) * (height - 3)).toFixed(1);
  const points = looks.map((l) => x(l.at) + "," + y(value(l)));
  // The picture is stretched to the space there is, so its words stand beside it.
  const svg = svgNode("svg", { viewBox: "0 0 " + width + " " + height, preserveAspectRatio: "none", role: "img",
    "aria-label": title + " over the last two minutes: now " + last + ", at most " + words(most) });
  svg.append(svgNode("polygon", { points: x(looks[0].at) + "," + height + " " + points.join(" ") + " " + width + "," + height, class: "area" }),
    svgNode("polyline", { points: points.join(" "), class: "line" }));
  return make("div", "plot", make("div", "words", make("span", "", title), make("b", "", last)), svg,
    make("div", "words faint", make("span", "", "2 min ago"), make("span", "", "most " + words(most))));
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
  const badLinks = now.links.filter((l) => mood(l.link_state) === "bad").map((l) => l.link_name);
  const live = now.mirrors.filter((m) => m.mirror_status !== "STOPPED");
  const behind = live.reduce((sum, m) => sum + totalLag(m), 0), worst = worstAge(live);
  drawVerdict(live, ailing, badLinks, worst);
  $("tiles").hidden = now.links.length === 0;
  $("tiles").replaceChildren(
    tile(count(now.links.length), now.links.length === 1 ? badLinks.length ? "link, in trouble" : "link" : badLinks.length ? "links, " + badLinks.length + " in trouble" : "links", badLinks.length > 0),
    tile(count(live.length), live.length === 1 ? "mirror topic" : "mirror topics"),
    tile(count(ailing), "in trouble", ailing > 0),
    tile(count(behind), "records behind"),
    tile(live.length ? seconds(worst) : "–", "RPO of the worst: what a failover now could lose", live.length > 0 && (worst === null || worst > 60000)));
}

// drawVerdict says in a sentence whether there is something to do, and in the title how much.
function drawVerdict(live, ailing, badLinks, worst) {
  let words = "", good = false;
  const are = (n, what) => count(n) + " " + what + (n === 1 ? " is" : "s are");
  if (badLinks.length > 0) words = (badLinks.length === 1 ? "Link " : "Links ") + badLinks.slice(0, 3).join(", ") + (badLinks.length > 3 ? " …" : "") + (badLinks.length === 1 ? " is" : " are") + " without the other cluster" + (ailing ? "; " + are(ailing, "mirror topic") + " not followed" : "") + ".";
  else if (ailing > 0) words = are(ailing, "mirror topic") + " in trouble.";
  else if (live.length > 0) {
    const resting = live.filter((m) => mood(m.mirror_status) === "wait").length, follow = live.length - resting;
    good = resting === 0 && worst !== null && worst <= 10000;
    if (follow > 0 && worst === null) words = "Not all mirror topics have caught up yet.";
    else if (follow > 0 && worst > 10000) words = "The worst mirror topic is " + seconds(worst) + " behind its source.";
    else if (follow > 0) words = (resting === 0 && follow > 1 ? "All " : "") + count(follow) + (follow === 1 ? " mirror topic follows its source." : " mirror topics follow their sources.");
    if (resting > 0) words += (words ? " " : "") + are(resting, "mirror topic") + " paused or between two states.";
  }
  $("verdict").hidden = words === "";
  $("verdict").className = "verdict " + (good ? "good" : badLinks.length + ailing > 0 ? "bad" : "wait");
  if ($("verdict").textContent !== words) $("verdict").textContent = words; // read aloud when it changes
  document.title = (badLinks.length + ailing > 0 ? "(" + count(badLinks.length + ailing) + ") " : "") + "hawser";
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
  for (const task of l.tasks.filter((one) => one.state !== "NOT_CONFIGURED")) {
    const item = make("li", "", task.task_name + " ", badge(task.state));
    if (task.state.startsWith("LINK_")) { // the link's note says why
      list.append(item);
      continue;
    }
    for (const e of task.errors.slice(0, 5)) item.append(make("span", "why", e.error_code + ": " + e.error_message));
    list.append(item);
  }
  const off = l.tasks.filter((one) => one.state === "NOT_CONFIGURED").map((one) => one.task_name);
  if (off.length > 0) list.append(make("li", "quiet", "not configured: " + off.join(", ")));
  return list;
}

function drawParts(m, said) {
  const box = make("div", "parts");
  for (const l of m.mirror_lags) {
    const wrong = l.error_message || l.records_lost;
    const part = make("span", "part" + (wrong ? " bad" : l.lag > 0 ? " wait" : ""), "p" + l.partition + ": " + (l.lag < 0 ? "the source is silent" : count(l.lag) + " behind") + ", " +
      (l.last_source_fetch_offset >= 0 ? "read up to " + count(l.last_source_fetch_offset) : l.source_end_offset === 0 ? "empty at the source" : "nothing read yet"));
    if (l.records_lost) part.append(", " + count(l.records_lost) + " lost at the source");
    if (l.error_message && !said.includes(l.error_message.replace(/^partition \d+: /, ""))) part.append(": " + l.error_message);
    box.append(part);
  }
  return box;
}

function drawOrders(m) {
  const box = make("div", "orders");
  for (const verb of ordersFor(m.mirror_status, bothWays(seen.links.find((l) => l.link_name === m.link_name)))) {
    const button = make("button", "order" + (grave(verb) ? " grave" : ""), verb);
    button.type = "button";
    button.dataset.order = verb;
    button.dataset.of = key(m);
    button.dataset.id = verb + " " + key(m);
    box.append(button);
  }
  return box;
}

function drawEvents(now) {
  if (now.events.length === 0) return null;
  const list = make("ol", "events");
  let last = "", alike = 0, span = null;
  for (const e of [...now.events].reverse()) {
    // A source that goes away says so once for each partition.
    const why = e.text.includes(": ") ? e.text.slice(e.text.indexOf(": ")) : "";
    if (why !== "" && why === last) {
      alike++;
      span.textContent = " and " + alike + " more alike";
      continue;
    }
    last = why;
    alike = 0;
    span = make("span", "quiet");
    list.append(make("li", e.level === "WARN" ? "warn" : "", make("time", "quiet", moment(e.time_ms)), make("span", "", e.text, span)));
  }
  return make("article", "link", make("div", "head", make("h2", "", "What happened")), list);
}

// moment is a time of today, or of another day.
function moment(ms) {
  const at = new Date(ms);
  return (at.toDateString() === new Date().toDateString() ? "" : at.toLocaleDateString() + " ") + at.toLocaleTimeString();
}

// drawMirror draws a row, and one below it when it is opened. said is what the link's note says already: a thousand mirrors need not repeat it.
function drawMirror(m, said) {
  const open = opened.has(key(m));
  const toggle = make("button", "", m.mirror_topic_name);
  toggle.type = "button";
  toggle.dataset.mirror = key(m);
  toggle.dataset.id = "mirror " + key(m);
  toggle.setAttribute("aria-expanded", String(open));
  const state = make("td", "", badge(m.mirror_status));
  if (m.mirror_topic_error !== "NO_ERROR" && m.mirror_topic_error !== "NOT_SET" && !(m.mirror_topic_error_message && said.includes(m.mirror_topic_error_message))) {
    state.append(make("span", "why", m.mirror_topic_error + (m.mirror_topic_error_message ? ": " + m.mirror_topic_error_message : "")));
  }
  const name = make("td", "name", toggle);
  if (m.source_topic_name !== m.mirror_topic_name) name.append(make("span", "quiet", "of " + m.source_topic_name));
  const row = make("tr", "", name, state, make("td", "n wide", since(m.state_time_ms)), make("td", "n wide", count(m.num_partitions)),
    make("td", "n wide", lagWords(m, maxLag(m))), make("td", "n", lagWords(m, totalLag(m))), make("td", "n", m.mirror_status === "STOPPED" ? "" : seconds(age(m))));
  if (!open) return [row];
  const cell = make("td", "", drawOrders(m), drawParts(m, said + (m.mirror_topic_error_message || "")));
  cell.colSpan = 7;
  return [row, make("tr", "opened", cell)];
}

// orders of the columns that mirrors are sorted by; the first one is by name otherwise, as they come.
const sorts = {
  trouble: (a, b) => weight(b) - weight(a),
  name: () => 0,
  lag: (a, b) => totalLag(b) - totalLag(a),
  rpo: (a, b) => (age(b) === null ? -1 : age(b)) - (age(a) === null ? -1 : age(a)),
};
const weight = (m) => mood(m.mirror_status) === "bad" ? 2 : mood(m.mirror_status) === "wait" ? 1 : 0;

// title is a column's, which sorts by it when clicked.
function title(words, by, classes) {
  const button = make("button", "sort", words);
  button.type = "button";
  button.dataset.sort = by;
  button.dataset.id = "sort " + by;
  const cell = make("th", classes + (sorting === by ? " by" : ""), button);
  if (sorting === by) cell.setAttribute("aria-sort", by === "name" ? "ascending" : "descending");
  return cell;
}

function drawLink(l, mirrors) {
  const card = make("article", "link");
  const head = make("div", "head", make("h2", "", l.link_name), badge(l.link_state), make("span", "quiet", remote(l)));
  if (bothWays(l)) {
    const button = make("button", "order", "restore a topic …");
    button.type = "button";
    button.title = "Make a topic of this cluster a mirror of the other one's, which was failed over";
    button.dataset.restore = l.link_name;
    button.dataset.id = "restore " + l.link_name;
    head.append(button);
  }
  card.append(head);
  if (l.link_error !== "NO_ERROR") card.append(make("p", "note", l.link_error + (l.link_error_message ? ": " + l.link_error_message : "")));
  const looks = past.get(l.link_name);
  if (mirrors.length > 0 && looks) {
    card.append(make("div", "plots", plot("records behind", looks, (o) => o.lag, count, 10), plot("RPO, worst mirror", looks, (o) => o.age, seconds, 1000)));
  }
  const tasks = drawTasks(l);
  if (tasks) card.append(tasks);
  if (mirrors.length === 0) {
    // A link from another cluster waits for its first topic; one that only hands out topics has none.
    if (!l.destination_cluster_id) card.append(make("p", "quiet first", "No mirror topics yet: ", make("code", "", "hawser mirror create TOPIC --link " + l.link_name)));
    return card;
  }
  const titles = make("tr", "", title("mirror topic", "name", ""), title("status", "trouble", ""), make("th", "n wide", "since"), make("th", "n wide", "partitions"),
    make("th", "n wide", "worst partition"), title("lag", "lag", "n"), title("RPO", "rpo", "n"));
  const body = make("tbody");
  const shown = unfolded.has(l.link_name) ? mirrors : mirrors.slice(0, rowsMax);
  for (const m of shown) body.append(...drawMirror(m, l.link_error !== "NO_ERROR" ? l.link_error_message || "" : ""));
  card.append(make("div", "scroll", make("table", "", make("thead", "", titles), body)));
  if (shown.length < mirrors.length) {
    const more = make("button", "", "show all " + count(mirrors.length));
    more.type = "button";
    more.dataset.unfold = l.link_name;
    more.dataset.id = "unfold " + l.link_name;
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
  const focus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.id : undefined;
  const cards = [];
  $("filter").hidden = seen.mirrors.length === 0;
  const links = [...seen.links].sort((a, b) => (mood(b.link_state) === "bad") - (mood(a.link_state) === "bad"));
  for (const l of links) {
    const mirrors = seen.mirrors.filter((m) => m.link_name === l.link_name && fits(m));
    mirrors.sort(sorts[sorting]);
    if (!filtering || mirrors.length > 0) cards.push(drawLink(l, mirrors));
  }
  if (cards.length === 0) {
    const empty = make("div", "empty", filtering ? "Nothing fits the filter." : "No cluster links yet. To mirror topics of another cluster, say in a shell:");
    if (!filtering) {
      const url = location.origin === "http://127.0.0.1:8090" ? "" : "export HAWSER_REST_URL=" + location.origin + "\n";
      empty.append(make("pre", "", url + "hawser link create from-prod --source-bootstrap-server HOST:PORT\nhawser mirror create TOPIC --link from-prod"));
    }
    cards.push(empty);
  }
  if (busy) cards.unshift(make("p", "note loose", busy));
  const events = filtering ? null : drawEvents(seen);
  if (events) cards.push(events);
  const read = document.querySelector(".events"), scrolled = read ? read.scrollTop : 0;
  $("links").replaceChildren(...cards);
  if (scrolled) document.querySelector(".events").scrollTop = scrolled;
  if (focus) {
    for (const b of document.querySelectorAll("button[data-id]")) if (b.dataset.id === focus) b.focus();
  }
}

async function once() {
  try {
    seen = await look();
    remember(seen);
    answered = Date.now();
    $("pulse").className = "pulse";
    $("pulse").textContent = "live";
    $("login").hidden = true;
    document.body.classList.remove("stale");
    const looks = JSON.stringify(seen) + JSON.stringify([...past.values()]);
    const marking = getSelection() && !getSelection().isCollapsed; // somebody copies a name: do not take it away
    if (looks !== drawn && document.visibilityState === "visible" && !marking) {
      drawn = looks;
      draw();
    }
  } catch (e) {
    $("pulse").className = "pulse lost";
    $("login").hidden = !e.login;
    if (e.login && login) $("login-says").textContent = e.message;
    $("pulse").textContent = e.login ? "not logged in" : (e.answered ? e.message : "no answer (" + e.message + ")") + (answered ? "; what is shown is " + since(answered) + " old" : "");
    document.body.classList.add("stale");
  }
}

async function refresh() {
  if ($("login").hidden) await once(); // else it waits for the person
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
  if (button.dataset.sort) sorting = button.dataset.sort;
  if (button.dataset.order) {
    const m = seen.mirrors.find((one) => key(one) === button.dataset.of);
    if (m) give(button.dataset.order, m.link_name, m.mirror_topic_name);
    return;
  }
  if (button.dataset.restore) {
    restore(button.dataset.restore);
    return;
  }
  const mirror = button.dataset.mirror;
  if (mirror && !opened.delete(mirror)) opened.add(mirror);
  draw();
});
$("login").addEventListener("submit", (e) => {
  e.preventDefault();
  login = "Basic " + btoa(String.fromCharCode(...new TextEncoder().encode($("user").value + ":" + $("password").value)));
  $("password").value = "";
  once();
});
document.addEventListener("keydown", (e) => {
  const typing = e.target.closest("input, select, dialog");
  if (e.key !== "/" || typing || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  $("words").focus();
});
refresh();
