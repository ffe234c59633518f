// Orders to mirrors: which are offered, what each would do, and the questions before they are given.
"use strict";

// bothWays reports that a link is one of two halves that mirror in both directions, so that topics can change sides over it.
const bothWays = (l) => Boolean(l && l.remote_cluster_id && !l.source_cluster_id && !l.destination_cluster_id);

// ordersFor is what may sensibly be ordered in a state; the server decides in any case.
function ordersFor(status, turns) {
  if (status === "STOPPED") return turns ? ["truncate-and-restore"] : [];
  if (status === "PAUSED") return ["resume", "failover"];
  if (status === "FAILED") return ["resume", "failover"];
  if (["SOURCE_UNAVAILABLE", "LINK_FAILED", "LINK_PAUSED"].includes(status)) return ["failover", "pause"]; // a promotion would only wait
  if (status === "PENDING_MIRROR") return ["truncate-and-restore", "failover"];
  if (status.startsWith("PENDING_")) return ["failover"];
  if (status === "ACTIVE" && turns) return ["pause", "promote", "reverse-and-start", "reverse-and-pause", "failover"];
  return ["pause", "promote", "failover"];
}

// order sends an order to a link's mirrors, or with the query asks what it would do; one answer for each topic.
async function order(verb, link, topics, query) {
  const path = seen.root + "/" + encodeURIComponent(link) + "/mirrors:" + (verb.startsWith("reverse-") ? verb + "-mirror" : verb);
  const body = await call(path + query, { method: "POST", body: JSON.stringify(topics) }, { "Content-Type": "application/json", "X-Hawser-Console": "1" }, 30000);
  return body.data;
}

const trying = "?validate_only=true&include_partition_level_truncation_data=true";

// give asks what an order would do, asks the person, and gives it.
async function give(verb, link, topic) {
  const send = async (query) => {
    const [one] = await order(verb, link, { mirror_topic_names: [topic] }, query);
    if (one.error_message) throw new Error(one.error_message);
    return one;
  };
  try {
    const would = await send(trying);
    if (!await confirmed(verb, topic, [...(verb === "truncate-and-restore" ? cutLines(would) : leftLines(would)), ...alsoLines(would), consequences[verb]])) return;
    await send("");
    busy = "";
  } catch (e) {
    busy = verb + " " + topic + ": " + e.message;
  }
  drawn = "";
  await once();
}

// restore asks which of a link's topics can be restored, and what each would lose; then it is the order to the one that is picked.
async function restore(link) {
  try {
    const all = await order("truncate-and-restore", link, { mirror_topic_name_pattern: ".*" }, trying);
    const topic = await picked(link, all);
    if (topic) await give("truncate-and-restore", link, topic);
  } catch (e) {
    busy = "truncate-and-restore: " + e.message;
    draw();
  }
}

// some is at most ten of the lines, and how many more there are.
const some = (lines) => lines.length <= 11 ? lines : [...lines.slice(0, 10), "and " + count(lines.length - 10) + " more"];
const records = (n, is, are) => count(n) + (n === 1 ? " record " + is : " records " + are);

// leftLines say what a mirror does not have yet.
function leftLines(would) {
  const left = would.mirror_lags.reduce((sum, l) => sum + Math.max(l.lag, 0), 0);
  const lines = [left === 0 ? "Nothing that is known of is left to copy." : records(left, "is", "are") + " not mirrored yet."];
  if (would.mirror_lags.some((l) => l.lag < 0)) lines.push("The source is silent: what it has beyond that is not known.");
  return lines;
}

// cutLines say what a restore cuts off, and what it copies again.
function cutLines(would) {
  const cut = would.messages_truncated || 0, parts = would.partition_level_truncation_data;
  const lines = [cut === 0 ? "No record of this cluster is cut off: the other one has them all." :
    records(cut, "that only this cluster has is", "that only this cluster has are") + " cut off, and kept in the topic hawser.cut." + would.mirror_topic_name + ".<time>."];
  if (cut > 0) lines.push(...some(parts.filter((p) => p.messages_truncated > 0).map((p) => "Partition " + p.partition_id + ": " + count(p.messages_truncated) + ", from offset " + count(p.offset_truncated_to) + " on.")));
  lines.push(...some(parts.filter((p) => p.full_copy).map((p) => "Partition " + p.partition_id + " is copied from its beginning" + (p.full_copy_reason ? ": " + p.full_copy_reason : "") + ".")));
  return lines;
}

// alsoLines say what an order does beside its own.
function alsoLines(would) {
  const lines = some((would.group_offsets_lowered || []).map((g) => "Group " + g.group_id + " goes back in partition " + g.partition_id + " from offset " + count(g.offset) + " to " + count(g.lowered_to) + "."));
  if (would.open_transactions) lines.push(count(would.open_transactions.length) + (would.open_transactions.length === 1 ? " open transaction" : " open transactions") + " would be aborted.");
  for (const w of would.would_wait_for || []) lines.push("It would wait: " + w.error_message.replace(/\.$/, "") + ".");
  for (const m of would.missing_acls || []) lines.push("The link's principal has no " + m.operation + " on the source topic " + m.source_topic_name + ": " + m.need + ".");
  return lines;
}

const grave = (verb) => verb !== "pause" && verb !== "resume";

const consequences = {
  failover: "Mirroring stops now and for good; producers may write to the topic.",
  promote: "Mirroring stops for good once nothing is left to copy; producers may write to the topic then.",
  pause: "Nothing more is read from the source until it is resumed.",
  resume: "Mirroring goes on where it was.",
  "reverse-and-start": "The source refuses producers from now on and becomes the mirror; this topic takes records once it has all of the source's.",
  "reverse-and-pause": "The source refuses producers from now on and becomes the mirror, which stays paused until it is resumed there; this topic takes records once it has all of the source's.",
  "truncate-and-restore": "The topic becomes a read-only mirror of the other cluster's: producers here are refused from now on.",
};

// confirmed asks the person; Escape and the first button mean no.
async function confirmed(verb, topic, lines) {
  $("ask-yes").textContent = verb;
  $("ask-yes").className = "order" + (grave(verb) ? " grave" : "");
  return await answer(verb + " " + topic + "?", lines.map((line) => make("p", "", line)), true) === "yes";
}

// picked asks the person for one of the topics that can be restored; "" is none of them.
async function picked(link, all) {
  const can = all.filter((one) => !one.error_message), cannot = all.filter((one) => one.error_message), most = 50;
  const lines = can.slice(0, most).map((one) => {
    const button = make("button", "order grave", one.mirror_topic_name);
    button.value = "topic " + one.mirror_topic_name;
    return make("p", "", button, " ", one.messages_truncated ? records(one.messages_truncated, "is", "are") + " cut off" : "nothing is cut off");
  });
  if (can.length > most) lines.push(make("p", "quiet", "and " + count(can.length - most) + " more, by hawser mirror truncate-and-restore TOPIC --link " + link));
  if (can.length === 0) lines.push(make("p", "", "No topic of this cluster can be restored over the link now: it would have to be STOPPED at the other one, where it was a mirror of this one's."));
  for (const line of some(cannot.map((one) => one.error_message))) lines.push(make("p", "quiet", line));
  const said = await answer("Restore which topic over " + link + "?", lines, false);
  return said.startsWith("topic ") ? said.slice("topic ".length) : "";
}

// answer shows the dialog, and is the value of the button that closed it.
function answer(title, nodes, yes) {
  const dialog = $("ask");
  $("ask-title").textContent = title;
  $("ask-words").replaceChildren(...nodes);
  $("ask-yes").hidden = !yes;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue), { once: true }));
}
