// Parallel coordinates: a line per configuration through all its parameters and objectives.

const MOST_PATHS = 600;

function axisOf(name, values, from, to) {
  const there = values.filter((value) => value !== null && value !== undefined);
  if (there.every(isNumber)) {
    const scale = scaleOf(there, to, from, true), write = name in currentTable().parameters ? tickText : tickOf(currentTable());
    return { name, scale, place: (value) => (isNumber(value) ? scale(value) : null), ticks: scale.ticks(5).map((tick) => [tick, write(tick)]) };
  }
  const words = [...new Set(there.map(valueText))].sort((one, other) => one.localeCompare(other));
  const at = (word) => (words.length < 2 ? (from + to) / 2 : from + ((words.indexOf(word) + 0.5) * (to - from)) / words.length);
  return { name, place: (value) => (value === null || value === undefined ? null : at(valueText(value))), ticks: words.slice(0, 30).map((word) => [word, word]) };
}

charts.parallel = (body) => {
  const table = currentTable(), view = currentView();
  const names = [...Object.keys(table.parameters), ...data.objectives.map((objective) => objective.name).filter((name) => table.views[name])];
  if (!view || table.ids.length < 2 || names.length < 3) return false;
  body.append(element("p", {}, "A line is a configuration: blue are the best twentieth and those that are certainly better than the baseline, which is bold. Drag along an axis to keep what passes there, in the table above too; click an axis to let go."));
  // Names stand over their axes in full.
  const apart = Math.max(150, 8.2 * Math.max(...names.map((name) => name.length)) + 10);
  const width = Math.max(widthOf(body), apart * names.length), height = 340, top = 34, bottom = height - 22;
  const axes = names.map((name) => ({ ...axisOf(name, axisValues(table, name), top, bottom), values: axisValues(table, name) }));
  const x = (index) => apart / 2 + (index * (width - apart - 20)) / (axes.length - 1);
  const drawing = canvas(width, height, `Parallel coordinates of ${names.join(", ")}`);
  const paths = svg("g", { "pointer-events": "stroke" }), note = hint("");
  const draw = () => {
    const rows = rowsShown();
    const kept = thinned(rows, table, view);
    paths.replaceChildren(...kept.map((row) => drawPath(table, view, row, axes, x)));
    note.textContent = kept.length < rows.length ? `${kept.length} of ${rows.length.toLocaleString("en")} lines are drawn: the best, and every so many of the rest.` : `${rows.length.toLocaleString("en")} lines.`;
  };
  drawing.append(paths);
  axes.forEach((axis, index) => drawing.append(drawAxis(axis, x(index), top, bottom, draw)));
  draw();
  body.append(element("div", { class: "scroll" }, drawing), note, element("div", { class: "row" }, button("clear ranges", null, () => { state.brushes = {}; render(); })));
  return true;
};

// The best lines, evenly many of the others, the baselines and the picked one; the best are drawn last.
function thinned(rows, table, view) {
  const ranked = [...rows].sort((one, other) => (view.rank[one] ?? Infinity) - (view.rank[other] ?? Infinity) || one - other);
  const half = MOST_PATHS / 2, rest = ranked.slice(half), step = Math.max(1, Math.ceil(rest.length / half));
  const kept = ranked.length <= MOST_PATHS ? ranked : [...ranked.slice(0, half), ...rest.filter((_, index) => index % step === 0)];
  for (const row of [...table.baseline, state.picked]) if (row !== null && rows.includes(row) && !kept.includes(row)) kept.push(row);
  return kept.reverse().sort((one, other) => (one === state.picked) - (other === state.picked));
}

function drawPath(table, view, row, axes, x) {
  let d = "", open = false;
  axes.forEach((axis, index) => {
    const y = axis.place(axis.values[row]);
    if (y === null) { open = false; return; }
    d += `${open ? "L" : "M"}${x(index).toFixed(1)},${y.toFixed(1)}`;
    open = true;
  });
  const top = view.rank[row] !== null && view.rank[row] <= Math.max(3, table.ids.length / 20);
  const path = svg("path", { class: `path ${className(view.verdict[row])}${top ? " top" : ""}${row === state.picked ? " picked" : ""}`, d, onclick: () => pick(row) });
  return withTip(path, () => `#${view.rank[row] ?? "–"} ${label(table, row)}\n${writeOf(table)(valueOf(table, view, row))} ${view.verdict[row] || ""}`);
}

function drawAxis(axis, x, top, bottom, draw) {
  const brush = svg("rect", { class: "brush", x: x - 9, width: 18, y: 0, height: 0 });
  const grab = svg("rect", { class: "grab", x: x - 14, width: 28, y: top - 6, height: bottom - top + 12 });
  const shown = state.brushes[axis.name];
  if (shown && shown.ends) { brush.setAttribute("y", shown.ends[0]); brush.setAttribute("height", shown.ends[1] - shown.ends[0]); }
  let start = null;
  const at = (event) => Math.max(top - 4, Math.min(bottom + 4, event.clientY - grab.ownerSVGElement.getBoundingClientRect().top));
  const drag = (event) => {
    if (start === null) return;
    const ends = [Math.min(start, at(event)), Math.max(start, at(event))];
    brush.setAttribute("y", ends[0]);
    brush.setAttribute("height", ends[1] - ends[0]);
    if (ends[1] - ends[0] < 3) delete state.brushes[axis.name];
    else state.brushes[axis.name] = Object.assign((value) => { const y = axis.place(value); return y !== null && y >= ends[0] && y <= ends[1]; }, { ends });
    draw();
  };
  grab.addEventListener("pointerdown", (event) => { start = at(event); grab.setPointerCapture(event.pointerId); drag(event); });
  grab.addEventListener("pointermove", drag);
  grab.addEventListener("pointerup", (event) => { drag(event); start = null; state.page = 0; renderRows("parallel"); });
  const ticks = axis.ticks.map(([tick, text]) => svg("text", { class: "soft halo", x: x + 8, y: axis.place(tick) + 4 }, cut(text, 90)));
  return svg("g", {}, svg("path", { class: "axis", d: `M${x},${top}V${bottom}`, "stroke-width": 1.5 }), ticks, svg("text", { x, y: 18, "text-anchor": "middle", "font-weight": 600 }, axis.name), brush, grab);
}
