"use strict";
// The page of a run. It asks for `/run` each second and shows what it is told; it changes nothing there.

const WIDTH = 176, HEIGHT = 88, ACROSS = 96, DOWN = 28, EDGE = 16;
const find = (id) => document.getElementById(id);
let chosen = null, drawn = "", shown = null;

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const count = (number) => whole.format(number ?? 0);
const rate = (number) => `${short.format(number ?? 0)}/s`;
const when = (text) => (text ? text.slice(0, 19).replace("T", " ") : "");

function span(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function lagText(lag) {
  const rows = lag.rows == null ? null : `${count(lag.rows)} rows`;
  const seconds = lag.seconds == null ? null : span(lag.seconds);
  return [rows, seconds].filter((part) => part !== null).join(", ") || "not known";
}

function made(name, attributes = {}, ...content) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...content);
  return element;
}

function drawing(name, attributes, ...content) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...content);
  return element;
}

// -- graph

function places(run) {
  // A node is a column to the right of all that it reads; in a column, near what it reads.
  const column = new Map(run.nodes.map((node) => [node.name, 0]));
  for (let round = 0; round < run.nodes.length; round++) {
    let moved = false;
    for (const edge of run.edges) {
      const next = column.get(edge.from) + 1;
      if (column.get(edge.to) < next && next < run.nodes.length + 1) { column.set(edge.to, next); moved = true; }
    }
    if (!moved) break;
  }
  const columns = [];
  for (const [name, number] of column) (columns[number] ??= []).push(name);
  const row = new Map();
  for (const names of columns) {
    const wish = (name) => {
      const above = run.edges.filter((edge) => edge.to === name).map((edge) => row.get(edge.from) ?? 0);
      return above.length ? above.reduce((sum, one) => sum + one, 0) / above.length : 0;
    };
    names.map((name, at) => [wish(name), at, name]).sort((a, b) => a[0] - b[0] || a[1] - b[1])
      .forEach(([, , name], at) => row.set(name, at));
  }
  const found = new Map();
  for (const [name, number] of column) {
    found.set(name, { x: EDGE + number * (WIDTH + ACROSS), y: EDGE + row.get(name) * (HEIGHT + DOWN) });
  }
  return found;
}

function drawGraph(run) {
  const graph = find("graph"), edges = find("edges"), at = places(run);
  graph.querySelectorAll(".node").forEach((element) => element.remove());
  edges.replaceChildren();
  let wide = 0, high = 0;
  for (const node of run.nodes) {
    const { x, y } = at.get(node.name);
    const button = made("button", { type: "button", class: `node ${node.kind}`, "data-node": node.name, "aria-expanded": "false", "aria-controls": "details" });
    button.style.left = `${x}px`;
    button.style.top = `${y}px`;
    button.append(made("b", {}, node.name), made("span", { class: "use" }, node.use),
      made("span", { class: "rows" }), made("span", { class: "more" }));
    button.addEventListener("click", () => choose(node.name));
    graph.append(button);
    wide = Math.max(wide, x + WIDTH + EDGE);
    high = Math.max(high, y + HEIGHT + EDGE);
  }
  edges.setAttribute("width", wide);
  edges.setAttribute("height", high);
  graph.style.height = `${Math.min(high + 20, 640)}px`;
  run.edges.forEach((edge, number) => {
    const from = at.get(edge.from), to = at.get(edge.to);
    const x1 = from.x + WIDTH, y1 = from.y + HEIGHT / 2, x2 = to.x, y2 = to.y + HEIGHT / 2, middle = (x1 + x2) / 2;
    edges.append(
      drawing("path", { id: `edge-${number}`, d: `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`,
        class: edge.port === "relay" ? "relay" : "" }),
      drawing("text", { id: `rate-${number}`, x: x2 - ACROSS / 2, y: (y1 + 2 * y2) / 3 - 6 }));
  });
}

function fillGraph(run) {
  const anchors = new Map(run.queries.map((query) => [query.anchor, query]));
  for (const node of run.nodes) {
    const button = document.querySelector(`[data-node="${node.name}"]`), totals = node.totals;
    button.querySelector(".rows").textContent = `${count(totals.rows)} rows`;
    const more = [];
    for (const name of node.outputs) if (totals[name]) more.push(`${count(totals[name])} ${name}`);
    if (node.kind === "sink" && totals.rejected) more.push(`${count(totals.rejected)} rejected`);
    const query = anchors.get(node.name);
    if (query && query.late_rows) more.push(`${count(query.late_rows)} late`);
    if (query && query.state_rows) more.push(`${count(query.state_rows)} in state`);
    if (node.lag) more.push(`behind ${lagText(node.lag)}`);
    if (node.guarantee) more.push(node.guarantee.level);
    const text = button.querySelector(".more");
    text.textContent = more.join(" · ");
    text.title = text.textContent;
    text.classList.toggle("alarm", Boolean(totals.rejected || (query && query.late_rows)));
    button.classList.toggle("bad", Boolean(run.error && run.error.node === node.name));
    button.setAttribute("aria-expanded", String(node.name === chosen));
  }
  run.edges.forEach((edge, number) => {
    const label = edge.rows_per_second ? rate(edge.rows_per_second) : "";
    find(`rate-${number}`).textContent = [edge.output, label].filter(Boolean).join(" ");
    find(`edge-${number}`).classList.toggle("moving", edge.rows_per_second > 0);
  });
}

// -- queries

function bars(values, titles, slow = () => false) {
  const most = Math.max(...values, 0), step = 240 / Math.max(values.length, 20);
  const chart = drawing("svg", { class: "chart", viewBox: "0 0 240 48", preserveAspectRatio: "none", "aria-hidden": "true" });
  values.forEach((value, number) => {
    const high = most ? Math.max(value ? 1 : 0, (46 * value) / most) : 0;
    chart.append(drawing("rect", { x: number * step, y: 48 - high, width: step * 0.85, height: high, class: slow(value) ? "slow" : "" },
      drawing("title", {}, titles[number])));
  });
  return chart;
}

function facts(pairs) {
  const list = made("dl", { class: "facts" });
  for (const [name, value] of pairs) list.append(made("div", {}, made("dt", {}, name), made("dd", {}, value)));
  return list;
}

function queryCard(query, run) {
  const last = query.last, hand = query.in_hand, card = made("article", { class: "query", "data-query": query.name });
  const doing = hand ? `batch ${hand.batch} for ${span(hand.seconds)}${hand.node ? `, writes ${hand.node}` : ""}` : query.doing;
  card.append(made("div", { class: "head" }, made("h3", {}, query.name), made("span", { class: "doing" }, doing)));
  const pairs = [
    ["batches", count(query.batches)], ["rows read", count(query.rows_in)],
    ["rows a second", last ? count(last.rows_per_second) : "–"],
    ["last batch", last ? `${last.batch}, in ${span(last.seconds)}` : "–"],
  ];
  if (last && last.watermark) pairs.push(["watermark", when(last.watermark)]);
  if (query.state_rows) pairs.push(["rows in state", count(query.state_rows)]);
  if (query.late_rows) pairs.push(["late rows", count(query.late_rows)]);
  if (query.restarts) pairs.push(["restarts", count(query.restarts)]);
  for (const [source, lag] of Object.entries(query.lag)) pairs.push([`${source} behind`, lagText(lag)]);
  if (query.idle.length) pairs.push(["idle", query.idle.join(", ")]);
  card.append(facts(pairs));
  const times = query.newest.map((batch) => batch.seconds), sorted = [...times].sort((a, b) => a - b);
  const usual = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const slow = (seconds) => times.length > 4 && seconds > 2 * usual && seconds > 0.5;
  const labels = query.newest.map((batch) => `batch ${batch.batch}: ${span(batch.seconds)}, ${count(batch.rows_in)} rows, ${when(batch.at)}`);
  const late = times.filter(slow).length;
  card.append(made("div", { class: "charts" },
    made("figure", {}, bars(query.history, query.history.map((rows, at) => `${count(rows)} rows, ${(query.history.length - at) * run.bucket / 60} min ago`)),
      made("figcaption", {}, "rows read, by half minutes of the last hour")),
    made("figure", {}, bars(times, labels, slow),
      made("figcaption", {}, `seconds of the newest ${times.length} batches${late ? `, ${late} of them slow` : ""}`))));
  return card;
}

// -- details

function choose(name) {
  const before = chosen;
  chosen = name;
  find("details").hidden = name === null;
  if (shown) render(shown);
  if (name !== null) find("details-title").focus();
  else if (before !== null) document.querySelector(`[data-node="${before}"]`)?.focus();
}

function list(items) {
  return made("ul", {}, ...items.map((item) => made("li", {}, item)));
}

function drawDetails(run) {
  const node = run.nodes.find((each) => each.name === chosen);
  if (!node) { choose(null); return; }
  const parts = [];
  const add = (title, ...content) => parts.push(made("h3", {}, title), ...content);
  find("details-title").textContent = `${node.name}: ${node.kind} ${node.use}`;
  if (run.error && run.error.node === node.name) parts.push(made("p", { class: "error" }, run.error.text));
  add("Rows", facts([["rows", count(node.totals.rows)], ...Object.entries(node.totals).filter(([name]) => name !== "rows")
    .map(([name, number]) => [name, count(number)])]));
  if (node.history.some((rows) => rows)) {
    parts.push(made("figure", {}, bars(node.history, node.history.map((rows) => `${count(rows)} rows`)),
      made("figcaption", {}, "rows, by half minutes of the last hour")));
  }
  const inputs = run.edges.filter((edge) => edge.to === node.name);
  if (inputs.length) {
    add("Reads", list(inputs.map((edge) =>
      `${[edge.from, edge.output].filter(Boolean).join(".")}: ${count(edge.rows)} rows, ${rate(edge.rows_per_second)}`)));
  }
  if (node.lag) add("Behind", made("p", {}, lagText(node.lag)));
  if (node.refused.length) {
    const body = made("tbody");
    for (const row of node.refused) {
      body.append(made("tr", {}, made("td", { class: "number" }, count(row.batch)), made("td", {}, row.reason ?? ""),
        made("td", {}, made("pre", {}, row.payload ?? ""))));
    }
    add("Newest refused rows", made("table", { class: "refused" }, made("thead", {}, made("tr", {},
      ...["batch", "reason", "payload"].map((name) => made("th", { scope: "col" }, name)))), body));
  }
  if (node.guarantee) {
    add("Guarantee", made("p", {}, `${node.guarantee.level}, by ${node.guarantee.deliver}`));
    if (node.guarantee.reasons.length) parts.push(list(node.guarantee.reasons));
    if (node.guarantee.grounds.length) add("Why", list(node.guarantee.grounds));
    if (node.guarantee.assumptions.length) add("As long as", list(node.guarantee.assumptions));
  }
  if (node.watermark) add("Watermark", made("p", {}, `${node.watermark.column} - ${node.watermark.delay}`));
  const options = Object.entries(node.options);
  if (options.length) {
    const body = made("tbody");
    for (const [name, value] of options) {
      const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
      body.append(made("tr", {}, made("th", { scope: "row" }, name), made("td", {}, made("pre", {}, text))));
    }
    add("Options", made("table", {}, body));
  }
  if (node.shape && node.shape.columns) {
    add("Columns", list(node.shape.columns.map((column) => `${column.name} ${column.type ?? ""}`)));
  }
  const events = run.events.filter((event) => event.node === node.name);
  if (events.length) add("What happened", list(events.map((event) => `${when(event.at)} ${event.event}: ${event.text}`)));
  find("details-content").replaceChildren(...parts);
}

// -- the whole

function render(run) {
  shown = run;
  const structure = JSON.stringify([run.nodes.map((node) => [node.name, node.kind]), run.edges.map((edge) => [edge.from, edge.to, edge.output])]);
  if (structure !== drawn) { drawGraph(run); drawn = structure; }
  fillGraph(run);
  // What somebody is about to copy stays as it is.
  if (!window.getSelection().isCollapsed) return;
  find("queries").replaceChildren(...run.queries.map((query) => queryCard(query, run)));
  find("helpers-section").hidden = run.helpers.length === 0;
  document.querySelector("#helpers tbody").replaceChildren(...run.helpers.map((helper) => made("tr", {},
    made("td", {}, helper.name), made("td", {}, helper.node),
    made("td", {}, [helper.facts.state, helper.facts.why ?? helper.facts.doing].filter(Boolean).join(": ")),
    made("td", { class: "number" }, helper.shown.rows), made("td", { class: "number" }, helper.shown["rows/s"]))));
  find("warnings-section").hidden = run.warnings.length === 0;
  find("warnings").replaceChildren(...run.warnings.map((text) => made("li", {}, text)));
  find("events").replaceChildren(...[...run.events].reverse().map((event) => made("li", {},
    made("time", { datetime: event.at }, when(event.at)),
    `${[event.query ?? event.node, event.event].filter(Boolean).join(" ")}: ${event.text}`)));
  if (chosen !== null) drawDetails(run);
}

function put(id, text) {
  // A screen reader tells again what is written again.
  if (find(id).textContent !== text) find(id).textContent = text;
}

function tell(running, run, wrong) {
  const state = wrong ? wrong : !run ? "has not run yet" : running ? run.state : run.state === "failed" ? "failed" : "ended";
  put("state", state);
  find("state").className = `badge ${state}`;
  if (!run) return;
  document.title = `${run.pipeline}: ${state}`;
  find("pipeline").textContent = run.pipeline;
  const since = (Date.parse(run.now) - Date.parse(run.started)) / 1000;
  const parts = [run.doing, `${running && !wrong ? "for" : "after"} ${span(since)}`, `process ${run.process}`, run.file.split("/").pop()];
  find("about").textContent = parts.filter(Boolean).join(" · ");
  find("error").hidden = !run.error;
  put("error", run.error ? run.error.text : "");
}

async function asked() {
  try {
    const answer = await fetch("/run", { cache: "no-store" });
    if (answer.status === 403) return { wrong: "needs its token" };
    return answer.ok ? await answer.json() : { wrong: `error ${answer.status}` };
  } catch {
    return { wrong: "no answer" };
  }
}

async function ask() {
  const { running, run, wrong } = await asked();
  try {
    tell(running, wrong ? shown : run, wrong);
    if (run) render(run);
  } finally {
    setTimeout(ask, 1000);
  }
}

find("close").addEventListener("click", () => choose(null));
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && chosen !== null) choose(null); });
ask();
