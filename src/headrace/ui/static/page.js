// Polls the status once a second and shows it. Pauses while the page is hidden, and shows when the run does not answer.

import { bars, clock, count, html, lines, seconds, short, size, unknown } from "./charts.js";

const POLL = 1000;
const LAST_ROWS = 8;
const SERIES = [
  { key: "reading ahead", name: "reading ahead", style: "p-reading" },
  { key: "planning", name: "planning", style: "p-planning" },
  { key: "writing", name: "writing", style: "p-writing" },
  { key: "committing", name: "committing", style: "p-committing" },
  { key: "noting", name: "noting", style: "p-noting" },
  { key: "other", name: "other", style: "p-other" },
];
const EMPTY = {
  starting: "Spark is starting. Numbers appear after the first epoch.",
  running: "The query is running its first epoch. Numbers appear when it is done.",
  idle: "The query waits for rows. Numbers appear after the first epoch.",
  stuck: "The query is running its first epoch, and nothing changes. Look at the log.",
  down: "The query failed before its first epoch was done.",
  stopping: "The run is stopping before its first epoch was done.",
  ended: "The run ended. There were no new rows to land.",
  failed: "The run failed before its first epoch was done.",
};

const at = (id) => document.getElementById(id);
let latest = null;
let answered = null;
let timer = null;

async function poll() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const answer = await fetch("/api/status", { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    latest = await answer.json();
    answered = new Date();
    show(latest);
  } catch {
    lose();
  }
  clearTimeout(timer);
  timer = setTimeout(poll, POLL);
}

function lose() {
  const since = answered ? ` since ${clock(answered / 1000)}` : "";
  const over = latest && ["ended", "failed"].includes(latest.state);
  const what = over ? `The run has ${latest.state}, and its page is no longer served.` : `No answer from the run${since}. It may have ended. This page keeps polling.`;
  say(`${failure(latest)}${what}${latest ? " The numbers are the last ones received." : ""}`, isBad(latest));
  at("updated").textContent = answered ? `last answer ${clock(answered / 1000)}` : "no answer yet";
  if (!over) mark("not answering", "gone");
}

const failure = (status) => (["failed", "down"].includes(status?.state) && status.message ? `${status.message} ` : "");
const isBad = (status) => ["failed", "down"].includes(status?.state) || word(status) === "stuck";
const sum = (counts) => Object.values(counts).reduce((all, each) => all + each, 0);

// What the badge shows: a running query works, waits for rows, or is stuck.
const word = (status) => (status?.state === "running" && ["idle", "stuck"].includes(status.activity) ? status.activity : status?.state);

function news(status) {
  if (status.state === "down") {
    const again = status.next_try === null ? "It was started again." : `It starts again in ${duration(status.now, status.next_try)}.`;
    return `${failure(status)}${again}`;
  }
  if (word(status) === "stuck") return `A trigger has been running for ${duration(status.activity_since, status.now)} and nothing changes. Look at the log.`;
  return failure(status);
}

function say(text, isBad) {
  const notice = at("notice");
  notice.hidden = !text;
  notice.classList.toggle("bad", isBad);
  if (notice.textContent !== text) notice.textContent = text;
}

function mark(word, state) {
  const badge = at("state");
  if (badge.textContent !== word) badge.textContent = word;
  badge.dataset.state = state;
}

function duration(from, to) {
  const all = Math.max(0, Math.round(to - from));
  const [hours, minutes, rest] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${rest} s` : `${rest} s`;
}

function show(status) {
  const { epochs, state } = status;
  document.title = `${status.pipeline}: ${word(status)}`;
  at("pipeline").textContent = status.pipeline;
  at("table").textContent = status.table;
  mark(word(status), word(status));
  const started = `started ${new Date(status.started * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })}`;
  at("since").textContent = status.ended === null ? `${started}, ${duration(status.started, status.now)} ago` : `${started}, ${state} after ${duration(status.started, status.ended)}`;
  say(news(status), isBad(status));
  at("updated").textContent = `updated ${clock(status.now)}`;
  at("empty").hidden = epochs.length > 0;
  at("empty").textContent = EMPTY[word(status)];
  for (const id of ["numbers", "charts", "last"]) at(id).hidden = epochs.length === 0;
  showPushTables(status.push_tables);
  if (epochs.length === 0) return;
  showNumbers(status, epochs.at(-1));
  showCharts(epochs);
  showTable(epochs);
}

const lastKnown = (epochs, key) => epochs.findLast((each) => each[key] !== null)?.[key] ?? null;
const orDash = (value, format = count) => (value === null ? "–" : format(value));
const landingRate = (each) => (each.seconds ? each.rows_landed / each.seconds : 0);
const outcome = (each) => (each.was_skipped ? "skipped: had landed before" : each.version === null ? "no rows" : "landed");

const lagsOf = (each) => Object.entries(each.lag ?? {});
const amount = ([unit, value]) => (unit === "bytes" ? size(value) : `${count(value)} ${unit}`);

function showNumbers(status, last) {
  const { totals, epochs } = status;
  const versions = lastKnown(epochs, "versions");
  const lag = lagsOf({ lag: lastKnown(epochs, "lag") });
  const numbers = [
    ["rows", "Rows landed", short10(totals.rows), totals.null_rows ? `${short10(totals.null_rows)} null in every column` : "in this run"],
    ["rate", "Landing rate", short(landingRate(last)), "rows/s, last epoch"],
    ["landed", "Epochs landed", count(totals.epochs), totals.empty ? `${count(totals.empty)} without rows` : "in this run"],
    ["skipped", "Skipped replays", count(totals.skipped), "had landed before"],
    ["seconds", "Last epoch", seconds(last.seconds), `epoch ${count(last.epoch)}`],
    ["behind", "Behind", lag.length ? short(lag[0][1]) : "–", lag.length ? [`${lag[0][0]} to read`, ...lag.slice(1).map(amount)].join(", ") : "not reported"],
    ["version", "Table version", orDash(totals.version), versions === null ? "" : `${count(versions)} kept`],
    ["restarts", "Restarts", count(sum(status.restarts)), sum(status.failures) === 1 ? "after 1 failure" : `after ${count(sum(status.failures))} failures`],
  ];
  at("numbers").replaceChildren(
    ...numbers.map(([id, name, value, note]) =>
      html("div", {}, html("dt", {}, name), html("dd", { id: `number-${id}` }, value), html("dd", { class: "note" }, note))),
  );
}

const short10 = (value) => (value < 1e7 ? count(value) : short(value));

function showCharts(epochs) {
  const times = epochs.map((each) => each.time);
  const titles = epochs.map((each) => `epoch ${count(each.epoch)}, ${clock(each.time)}`);
  const last = epochs.at(-1);
  lines(at("rate"), {
    title: "Rows in and landing", unit: "rows/s", height: 230, times, titles, label: short,
    value: (value) => `${count(value)} rows/s`,
    summary: `Last epoch: ${count(last.rows_per_second)} rows per second in, ${count(landingRate(last))} landing.`,
    series: [
      { name: "from the source", style: "s-in dashed", values: epochs.map((each) => each.rows_per_second) },
      { name: "into the table", style: "s-landed", values: epochs.map(landingRate) },
    ],
  });
  bars(at("phases"), {
    title: "Epoch time by phase", unit: "seconds", height: 230, series: SERIES, value: seconds,
    label: (value, top) => value.toFixed(top < 1 ? 2 : top < 10 ? 1 : 0), mark: "skipped",
    summary: `Last epoch: ${seconds(last.seconds)}.`,
    bars: epochs.map((each) => {
      const named = Object.values(each.phases).reduce((sum, part) => sum + part, 0);
      const whole = Math.max(each.seconds, named);
      return { epoch: each.epoch, whole, parts: { ...each.phases, other: whole - named }, isMarked: each.was_skipped, title: `epoch ${count(each.epoch)}, ${outcome(each)}` };
    }),
  });
  const one = (id, title, unit, values, missing) => {
    if (values.every((value) => value === null)) return unknown(at(id), title, missing);
    const latestValue = values.findLast((value) => value !== null);
    return lines(at(id), {
      title, unit, height: 170, times, titles, label: short, value: (value) => `${count(value)} ${unit}`, isWhole: true,
      summary: `Last known: ${count(latestValue)} ${unit}.`, series: [{ name: unit, style: `s-${id}`, values }],
    });
  };
  const unit = Object.keys(lastKnown(epochs, "lag") ?? {})[0] ?? "";
  one("lag", "Behind the source", unit, epochs.map((each) => each.lag?.[unit] ?? null), "The source does not report it.");
  one("versions", "Versions kept", "versions", epochs.map((each) => each.versions), "Not counted yet.");
  one("fragments", "Fragments", "fragments", epochs.map((each) => each.fragments), "Not counted yet.");
}

function showTable(epochs) {
  at("epochs").replaceChildren(
    ...epochs.slice(-LAST_ROWS).reverse().map((each) => {
      const cells = [
        count(each.epoch), clock(each.time), count(each.rows_in), count(each.rows_landed), count(each.rows_per_second),
        each.seconds.toFixed(2), orDash(each.version), lagsOf(each).map(amount).join(", ") || "–",
      ];
      return html("tr", {}, ...cells.map((cell) => html("td", {}, cell)), html("td", { class: "text" }, outcome(each)));
    }),
  );
}

function showPushTables(tables) {
  at("push").hidden = tables.length === 0;
  at("push-tables").replaceChildren(
    ...tables.map(({ name, queued, capacity, state }) => {
      const isKnown = queued !== null;
      const said = isKnown ? `${count(queued)} of ${count(capacity)}${state === "open" ? "" : `, ${state}`}` : "not known";
      const fill = html("i");
      fill.style.width = isKnown && capacity ? `${(100 * Math.min(queued, capacity)) / capacity}%` : "0";
      const bar = html("div", { class: "bar", role: "meter", "aria-label": `${name}, batches queued`, "aria-valuetext": said, "aria-valuemin": 0, "aria-valuemax": capacity ?? 0, "aria-valuenow": queued ?? 0 }, fill);
      return html("li", {}, html("span", { class: "name-of" }, name), bar, html("span", { class: "said" }, said));
    }),
  );
}

document.addEventListener("visibilitychange", poll);
let width = 0;
new ResizeObserver(() => {
  if (latest?.epochs.length && Math.abs(document.body.clientWidth - width) > 1) showCharts(latest.epochs);
  width = document.body.clientWidth;
}).observe(document.body);
poll();
