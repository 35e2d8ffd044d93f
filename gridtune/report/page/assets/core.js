// Data, state, numbers as text, and elements: what every chart needs.

const charts = {};
const data = JSON.parse(document.getElementById("data").textContent);

// What the reader has chosen. `picked` is a configuration's place in the table's rows.
const state = { table: 0, objective: 0, text: "", verdict: "", brushes: {}, sort: "rank", down: false, page: 0, picked: null };

const currentTable = () => data.tables[state.table];
const currentObjective = () => data.objectives[state.objective];
const currentView = () => currentTable().views[currentObjective().name];
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const finite = (values) => values.filter(isNumber);

// Numbers as the printed tables have them: four significant digits, thousands grouped from 10,000.
function numberText(value, digits = 4) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e9 || size < 1e-4) return value.toExponential(digits - 1).replaceAll("-", "−");
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const text = value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places, useGrouping: size >= 10000 });
  return text.replace("-", "−");
}

function percentText(fraction) {
  if (!isNumber(fraction)) return "–";
  if (fraction >= 1e4) return "> +1,000,000 %";
  const percent = fraction * 100;
  const places = Math.abs(percent) >= 100 ? 0 : 1;
  const text = percent.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
  return `${percent >= 0 ? "+" : ""}${text} %`.replace("-", "−");
}

function valueText(value) {
  if (value === null || value === undefined) return "–";
  if (value === true) return "yes";
  if (value === false) return "no";
  return typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(6))) : String(value);
}

function rangeText(low, high, write) {
  if (!isNumber(low) || !isNumber(high)) return "–";
  return `${write(low).replace(/ %$/, "")} … ${write(high)}`;
}

// A configuration in one line: words stand alone, numbers and switches with their name.
function label(table, row) {
  const parts = [];
  for (const [name, values] of Object.entries(table.parameters)) {
    const value = values[row];
    if (value !== null) parts.push(typeof value === "string" ? value : `${name}=${valueText(value)}`);
  }
  return parts.join(" · ") || "the only configuration";
}

const className = (verdict) => (verdict || "none").replaceAll(" ", "-");
const unitText = (objective) => (objective.unit ? `${objective.name} (${objective.unit})` : objective.name);
const betterText = (objective) => (objective.direction === "min" ? "smaller is better" : "larger is better");

// Over all workloads a value is the ratio to the baseline, written as a difference in per cent; within one
// it is a mean in the objective's unit.
const valueOf = (table, view, row) => (table.overall ? ratio(table.baseline.includes(row) ? 0 : view.relative[row]) : view.mean[row]);
const endsOf = (table, view, row) => (table.overall ? [ratio(view.relative_low[row]), ratio(view.relative_high[row])] : [view.ci_low[row], view.ci_high[row]]);
const ratio = (relative) => (isNumber(relative) ? 1 + relative : null);
const writeOf = (table) => (table.overall ? (value) => percentText(value - 1) : numberText);
const tickOf = (table) => (table.overall ? (value) => percentTick(value - 1) : tickText);

function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

function select(name, options, chosen, changed) {
  const choice = element("select", { "aria-label": name, onchange: () => changed(choice.selectedIndex) },
    options.map((option, index) => element("option", { selected: index === chosen }, option)));
  return options.length < 2 ? null : element("label", {}, `${name} `, choice);
}

function button(text, pressed, clicked, title = null) {
  return element("button", { type: "button", "aria-pressed": pressed === null ? null : String(pressed), onclick: clicked, title, "aria-label": title }, text);
}

const hint = (text) => element("p", { class: "hint" }, text);

// One tip for all charts; it follows the pointer.
const tip = element("div", { class: "tip", hidden: true });
document.body.append(tip);

function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 16}px`;
}

const hideTip = () => { tip.hidden = true; };

function withTip(node, text) {
  node.addEventListener("pointermove", (event) => showTip(event, text()));
  node.addEventListener("pointerleave", hideTip);
  return node;
}

function pick(row) {
  state.picked = state.picked === row ? null : row;
  render();
}
