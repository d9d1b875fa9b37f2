// SVG charts: lines over time, and stacked bars. They are redrawn when the data or the width changes.

const SPACE = "http://www.w3.org/2000/svg";
const MARGIN = { top: 20, right: 14, bottom: 36, left: 46 };
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

const SIZES = ["bytes", "kB", "MB", "GB", "TB", "PB"];

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 2, minimumFractionDigits: 2 });

export const count = (value) => whole.format(value);
export const short = (value, top = value) => (top < 10000 ? whole : compact).format(value);
export const size = (value) => {
  const step = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, value) / 0.99995) / 3)));
  return step === 0 ? `${whole.format(value)} ${SIZES[0]}` : `${(value / 1000 ** step).toFixed(1)} ${SIZES[step]}`;
};
export const seconds = (value) => `${exact.format(value)} s`;
export const clock = (time, step = 1) =>
  new Date(time * 1000).toLocaleTimeString("en-GB", step < 60 ? {} : { hour: "2-digit", minute: "2-digit" });

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Round axis values from 0 to at least `most`; integers if `isWhole`. */
export function ticks(most, isWhole) {
  const rough = Math.max(most, isWhole ? 1 : 1e-6) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  if (isWhole) step = Math.max(1, Math.ceil(step));
  const found = [];
  for (let number = 0; number === 0 || found.at(-1) < most * 0.999; number += 1) found.push(number * step);
  return found.length > 1 ? found : [0, step];
}

function timeTicks(first, last, width) {
  const room = Math.max(1, Math.floor(width / 70));
  const step = TIME_STEPS.find((each) => (last - first) / each <= room) ?? Math.ceil((last - first) / room / 86400) * 86400;
  const shift = new Date(first * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let at = Math.ceil((first - shift) / step) * step + shift; at <= last; at += step) found.push(at);
  return { found: found.length ? found : [first], step };
}

/** The axes and grid of a chart. */
function frame(figure, spec, most, xTicks) {
  const width = Math.max(220, figure.clientWidth - horizontalPadding(figure));
  const height = spec.height;
  const left = MARGIN.left;
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const plot = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, height, tabindex: 0, role: "img" });
  plot.setAttribute("aria-label", `${spec.title}. ${spec.summary} Arrow keys move through it.`);
  const yTicks = ticks(most, spec.isWhole);
  const y = (value) => bottom - ((bottom - MARGIN.top) * value) / yTicks.at(-1);
  plot.append(svg("text", { x: 0, y: 9 }, spec.unit));
  for (const value of yTicks) {
    plot.append(svg("line", { class: value ? "grid" : "base", x1: left, x2: right, y1: y(value), y2: y(value) }));
    plot.append(svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, spec.label(value, yTicks.at(-1))));
  }
  const { marks, axis } = xTicks(left, right);
  let free = 0;
  for (const [x, text] of marks) {
    const half = text.length * 3.1;
    const middle = Math.min(Math.max(x, half), width - half);
    if (middle - half < free) continue;
    free = middle + half + 12;
    plot.append(svg("line", { class: "base", x1: x, x2: x, y1: bottom, y2: bottom + 4 }));
    plot.append(svg("text", { x: middle, y: bottom + 16, "text-anchor": "middle" }, text));
  }
  plot.append(svg("text", { x: (left + right) / 2, y: height - 3, "text-anchor": "middle" }, axis));
  return { plot, left, right, bottom, y };
}

function horizontalPadding(element) {
  const style = getComputedStyle(element);
  return parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
}

function swatch(series) {
  const sample = svg("svg", { width: series.kind === "line" ? 18 : 10, height: 10, "aria-hidden": "true" });
  if (series.kind === "line") sample.append(svg("path", { class: `line ${series.style}`, d: "M1 5H17" }));
  else if (series.kind === "mark") sample.append(svg("circle", { class: "mark", cx: 5, cy: 5, r: 3 }));
  else sample.append(svg("rect", { class: series.style, width: 10, height: 10, rx: 2 }));
  return sample;
}

/** Puts a chart into its figure with heading, legend and tooltip, and keeps the focus and the selected point. */
function place(figure, spec, plot, hover) {
  const had = document.activeElement?.closest?.("figure") === figure;
  const legend = html("ul", { class: "legend" });
  legend.hidden = spec.legend.length < 2;
  for (const series of spec.legend) legend.append(html("li", {}, swatch(series), series.name));
  const tip = html("div", { class: "tip", role: "status" });
  tip.hidden = true;
  figure.replaceChildren(html("h2", {}, spec.title, ...(spec.note ? [html("span", { class: "unit" }, spec.note)] : [])), legend, plot, tip);
  const cursor = svg("g");
  plot.append(cursor);
  const show = (index) => {
    figure.looking = index;
    cursor.replaceChildren();
    tip.hidden = index === null;
    if (index === null) return;
    const { x, title, rows, marks } = hover.at(index);
    cursor.append(...marks);
    tip.replaceChildren(html("strong", {}, title));
    for (const [name, value] of rows) tip.append(html("div", {}, html("span", {}, name), html("span", {}, value)));
    const start = plot.getBoundingClientRect().left - figure.getBoundingClientRect().left + x;
    const isRight = start + 14 + tip.offsetWidth > figure.clientWidth;
    tip.style.left = `${Math.max(4, isRight ? start - 14 - tip.offsetWidth : start + 14)}px`;
    tip.style.top = `${plot.getBoundingClientRect().top - figure.getBoundingClientRect().top + MARGIN.top}px`;
  };
  plot.addEventListener("pointermove", (event) => show(hover.nearest(event.clientX - plot.getBoundingClientRect().left)));
  plot.addEventListener("pointerleave", () => show(null));
  plot.addEventListener("blur", () => show(null));
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") show(null);
    if (!step) return;
    event.preventDefault();
    show(Math.min(hover.length - 1, Math.max(0, (figure.looking ?? (step > 0 ? -1 : hover.length)) + step)));
  });
  const looking = figure.looking ?? null;
  if (had) plot.focus({ preventScroll: true });
  show(looking === null ? null : Math.min(looking, hover.length - 1));
}

/** A card with the reason why there is no chart. */
export function unknown(figure, title, why) {
  figure.replaceChildren(html("h2", {}, title), html("p", { class: "unknown" }, why));
}

/** Lines over time. Each of `spec.series` has a name, a style and one value or null for each of `spec.times`. */
export function lines(figure, spec) {
  const { times, series } = spec;
  const first = times[0];
  const last = Math.max(times.at(-1), first + 1);
  const most = Math.max(0, ...series.flatMap((each) => each.values.filter((value) => value !== null)));
  let x;
  const { plot, left, right, bottom, y } = frame(figure, spec, most, (from, to) => {
    x = (time) => from + ((to - from) * (time - first)) / (last - first);
    const { found, step } = timeTicks(first, last, to - from);
    return { marks: found.map((time) => [x(time), clock(time, step)]), axis: "time of day" };
  });
  // Draw the first series last: where two lines coincide, its dashes show both.
  for (const { style, values } of series.toReversed()) {
    const points = values.flatMap((value, index) => (value === null ? [] : [[x(times[index]), y(value)]]));
    const path = points.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L");
    plot.append(svg("path", { class: `line ${style}`, d: `M${path}` }));
    if (points.length) plot.append(svg("circle", { class: `dot ${style}`, cx: points.at(-1)[0], cy: points.at(-1)[1], r: 3.5 }));
  }
  place(figure, { ...spec, legend: series.map((each) => ({ ...each, kind: "line" })) }, plot, {
    length: times.length,
    nearest: (at) => times.reduce((best, time, index) => (Math.abs(x(time) - at) < Math.abs(x(times[best]) - at) ? index : best), 0),
    at: (index) => ({
      x: x(times[index]),
      title: spec.titles[index],
      rows: series.map(({ name, values }) => [name, values[index] === null ? "unknown" : spec.value(values[index])]),
      marks: [
        svg("line", { class: "cursor", x1: x(times[index]), x2: x(times[index]), y1: MARGIN.top, y2: bottom }),
        ...series.filter(({ values }) => values[index] !== null).map(({ style, values }) =>
          svg("circle", { class: `dot ${style}`, cx: x(times[index]), cy: y(values[index]), r: 3.5 })),
      ],
    }),
  });
}

/** Stacked bars, one for each of `spec.bars`, with the parts named by `spec.series`. */
export function bars(figure, spec) {
  const { series } = spec;
  const room = Math.floor((figure.clientWidth - horizontalPadding(figure) - MARGIN.left - MARGIN.right) / 7);
  const shown = spec.bars.slice(-Math.max(10, Math.min(60, room)));
  const most = Math.max(...shown.map((bar) => bar.whole));
  let x;
  let step;
  const { plot, bottom, y } = frame(figure, spec, most, (from, to) => {
    step = (to - from) / Math.max(shown.length, 12);
    x = (index) => from + step * (index + 0.5);
    const every = Math.max(1, ticks((60 * shown.length) / (to - from) * 5, true)[1]);
    return { marks: shown.flatMap((bar, index) => (bar.epoch % every ? [] : [[x(index), count(bar.epoch)]])), axis: "epoch" };
  });
  const wide = Math.min(22, step * 0.72);
  shown.forEach((bar, index) => {
    let below = 0;
    for (const { key, style } of series) {
      const part = bar.parts[key] ?? 0;
      if (part > 0) plot.append(svg("rect", { class: style, x: x(index) - wide / 2, width: wide, y: y(below + part), height: y(below) - y(below + part) }));
      below += part;
    }
    if (bar.isMarked) plot.append(svg("circle", { class: "mark", cx: x(index), cy: y(bar.whole) - 7, r: 3 }));
  });
  const legend = [...series, ...(shown.some((bar) => bar.isMarked) ? [{ name: spec.mark, kind: "mark" }] : [])];
  place(figure, { ...spec, legend, note: shown.length < spec.bars.length ? `last ${shown.length} epochs` : "" }, plot, {
    length: shown.length,
    nearest: (at) => Math.min(shown.length - 1, Math.max(0, Math.round((at - x(0)) / step))),
    at: (index) => ({
      x: x(index),
      title: shown[index].title,
      rows: [...series.map(({ key, name }) => [name, spec.value(shown[index].parts[key] ?? 0)]), ["total", spec.value(shown[index].whole)]],
      marks: [svg("rect", { class: "shade", x: x(index) - step / 2, width: step, y: MARGIN.top, height: bottom - MARGIN.top })],
    }),
  });
}
