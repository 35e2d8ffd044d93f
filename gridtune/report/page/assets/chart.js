// Scales, axes and marks.

function scaleOf(values, from, to, logarithmic = false) {
  const numbers = finite(values);
  let low = Math.min(...numbers.slice(0, 1)), high = low;
  for (const value of numbers) { low = Math.min(low, value); high = Math.max(high, value); }
  if (!numbers.length) { low = 0; high = 1; }
  const useLog = logarithmic && low > 0 && high / low > 30;
  if (low === high) { const room = Math.abs(low) * 0.1 || 1; low -= room; high += room; }
  return useLog ? logScale(low / 1.15, high * 1.15, from, to) : linearScale(low - (high - low) * 0.04, high + (high - low) * 0.04, from, to);
}

function linearScale(low, high, from, to) {
  const scale = (value) => from + ((value - low) / (high - low)) * (to - from);
  return Object.assign(scale, { low, high, from, to, log: false, invert: (place) => low + ((place - from) / (to - from)) * (high - low), ticks: (count) => linearTicks(low, high, count) });
}

function logScale(low, high, from, to) {
  const first = Math.log(low), span = Math.log(high) - first;
  const scale = (value) => from + ((Math.log(value) - first) / span) * (to - from);
  return Object.assign(scale, { low, high, from, to, log: true, invert: (place) => Math.exp(first + ((place - from) / (to - from)) * span), ticks: () => logTicks(low, high) });
}

function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let index = Math.ceil(low / step); index * step <= high; index++) ticks.push(Number((index * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const ticks = [], factors = high / low > 20000 ? [1] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low && value <= high) ticks.push(value);
    }
  }
  return ticks;
}

const tickText = (value) => (Math.abs(value) >= 1e9 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential() : Number(value.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 6 })).replace("-", "−");
const percentTick = (value) => `${value > 0 ? "+" : ""}${tickText(Number((value * 100).toPrecision(6)))}\u00a0%`;

function canvas(width, height, text) {
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text });
}

// An axis along the bottom, its grid lines up to `top`.
function bottomAxis(scale, y, top, write = tickText, title = "") {
  // A label that would run into the one before is left out.
  let free = -Infinity;
  const ticks = scale.ticks(Math.max(3, (scale.to - scale.from) / 65)).filter((tick) => {
    const half = 3.3 * write(tick).length, clear = scale(tick) - half > free;
    if (clear) free = scale(tick) + half + 6;
    return clear;
  });
  return svg("g", {},
    ticks.map((tick) => svg("g", { class: "tick" },
      svg("line", { x1: scale(tick), x2: scale(tick), y1: top, y2: y }),
      svg("text", { x: Math.min(scale(tick), scale.to + 14 - 3.3 * write(tick).length), y: y + 14, "text-anchor": "middle" }, write(tick)))),
    svg("path", { class: "axis", d: `M${scale.from},${y}H${scale.to}` }),
    title ? svg("text", { class: "soft", x: (scale.from + scale.to) / 2, y: y + 30, "text-anchor": "middle" }, title) : null);
}

// An axis along the left; scales of heights run from the bottom up.
function leftAxis(scale, x, right, write = tickText, title = "") {
  const ticks = scale.ticks(Math.max(2, (scale.from - scale.to) / 45));
  return svg("g", {},
    ticks.map((tick) => svg("g", { class: "tick" },
      svg("line", { x1: x, x2: right, y1: scale(tick), y2: scale(tick) }),
      svg("text", { x: x - 6, y: scale(tick) + 4, "text-anchor": "end" }, write(tick)))),
    svg("path", { class: "axis", d: `M${x},${scale.from}V${scale.to}` }),
    title ? svg("text", { class: "soft", x: 2, y: scale.to - 8 }, title) : null);
}

const cut = (text, width) => { const most = Math.max(4, Math.floor(width / 7.4)); return text.length > most ? `${text.slice(0, most - 1)}…` : text; };
const widthOf = (node) => Math.max(260, Math.floor(node.clientWidth || node.getBoundingClientRect().width || 800));

function diamond(x, y, size, kind) {
  return svg("path", { class: kind, d: `M${x},${y - size}l${size},${size}l${-size},${size}l${-size},${-size}z` });
}

function mark(x, y, verdict) {
  const kind = `mark ${className(verdict)}`;
  if (verdict === "baseline") return diamond(x, y, 5.5, kind);
  if (verdict === "worse") return svg("rect", { class: kind, x: x - 4, y: y - 4, width: 8, height: 8 });
  return svg("circle", { class: kind, cx: x, cy: y, r: 4.2, "stroke-width": 1.6 });
}

function legend(entries) {
  return element("div", { class: "legend" }, entries.map(([kind, text]) => element("i", {}, element("span", { class: `key ${kind}` }), text)));
}
