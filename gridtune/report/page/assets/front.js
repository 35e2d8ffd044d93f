// Every configuration in the plane of two objectives, with the Pareto front.

const MOST_POINTS = 4000;

charts.front = (body) => {
  const table = currentTable(), front = table.front;
  if (!front) return false;
  const names = front.objectives;
  const [across, up] = (state.plane || [0, 1]).map((index) => Math.min(index, names.length - 1));
  const members = new Set(front.members), write = table.overall ? percentText : numberText;
  const unit = (name) => (table.overall ? "" : ` ${data.objectives.find((one) => one.name === name).unit}`.trimEnd());
  const reference = names.map((name, index) => `${name} ${write(front.reference[index])}${unit(name)}`).join(", ");
  body.append(element("p", {}, `${front.size} of ${front.configurations.toLocaleString("en")} configurations are on the front: no other one is at least as good in every objective and better in one. Means are compared; the thin lines are their 95 % intervals.`));
  body.append(element("p", {}, `Hypervolume ${front.hypervolume.toFixed(4)} of at most ${front.limit.toFixed(2)}, measured from ${reference}.`));
  body.append(hint("For the hypervolume each objective is scaled so that 0 is the best and 1 the worst mean of all configurations here; the reference point is at 1.1. It cannot be compared between sweeps."));
  if (names.length > 2) {
    const choose = (side) => (index) => { const plane = [across, up]; plane[side] = index; state.plane = plane; renderSection("front"); };
    body.append(element("div", { class: "row" }, select("across", names, across, choose(0)), select("up", names, up, choose(1))));
  }
  body.append(drawFront(widthOf(body), table, front, members, names[across], names[up]));
  body.append(element("details", { open: front.members.length <= 12 }, element("summary", {}, "The configurations on the front"), frontTable(table, front)));
  return true;
};

function drawFront(width, table, front, members, across, up) {
  const height = Math.min(430, Math.max(280, width * 0.55)), left = 74, bottom = height - 40, top = 24;
  const views = [table.views[across], table.views[up]];
  const objective = (name) => data.objectives.find((one) => one.name === name);
  const rows = table.ids.map((_, row) => row).filter((row) => views.every((view) => isNumber(valueOf(table, view, row)) && view.rank[row] !== null));
  const value = (row, side) => valueOf(table, views[side], row);
  // The frame holds the intervals of the front whole.
  const reach = (side) => [...rows.map((row) => value(row, side)), ...front.members.filter((row) => rows.includes(row)).flatMap((row) => endsOf(table, views[side], row))].filter(isNumber);
  const x = scaleOf(reach(0), left, width - 16, true), y = scaleOf(reach(1), bottom, top, true);
  const write = tickOf(table);
  const drawing = canvas(width, height, `Pareto front of ${across} and ${up}`);
  drawing.append(bottomAxis(x, bottom, top, write, `${unitText(objective(across))}; ${betterText(objective(across))}`), leftAxis(y, left, width - 16, write, `${unitText(objective(up))}; ${betterText(objective(up))}`));
  const step = Math.max(1, Math.ceil(rows.length / MOST_POINTS));
  const others = rows.filter((row, index) => !members.has(row) && !table.baseline.includes(row) && index % step === 0);
  const tipOf = (row) => () => `${label(table, row)}\n${across} ${writeOf(table)(value(row, 0))}\n${up} ${writeOf(table)(value(row, 1))}`;
  const point = (row, node) => { node.addEventListener("click", () => pick(row)); return withTip(node, tipOf(row)); };
  drawing.append(...others.map((row) => point(row, svg("circle", { class: "faint", cx: x(value(row, 0)), cy: y(value(row, 1)), r: 4 }))));
  const drawn = front.members.filter((row) => rows.includes(row));
  if (front.objectives.length === 2) {
    // What the front dominates ends at a staircase: along the first objective, then up or down to the next.
    const d = drawn.map((row, index) => (index ? `H${x(value(row, 0))}V${y(value(row, 1))}` : `M${x(value(row, 0))},${y(value(row, 1))}`)).join("");
    if (d) drawing.append(svg("path", { class: "stair", d }));
  }
  for (const row of drawn) {
    const [[lowX, highX], [lowY, highY]] = views.map((view) => endsOf(table, view, row));
    if (isNumber(lowX)) drawing.append(svg("path", { class: "span better thin", d: `M${x(lowX)},${y(value(row, 1))}H${x(highX)}` }));
    if (isNumber(lowY)) drawing.append(svg("path", { class: "span better thin", d: `M${x(value(row, 0))},${y(lowY)}V${y(highY)}` }));
  }
  for (const row of drawn) drawing.append(point(row, svg("circle", { class: "mark better", cx: x(value(row, 0)), cy: y(value(row, 1)), r: 5.5 })));
  for (const row of table.baseline.filter((one) => rows.includes(one))) drawing.append(point(row, diamond(x(value(row, 0)), y(value(row, 1)), 6.5, "mark baseline")));
  if (rows.includes(state.picked)) drawing.append(svg("circle", { class: "ring", cx: x(value(state.picked, 0)), cy: y(value(state.picked, 1)), r: 9 }));
  return drawing;
}

function frontTable(table, front) {
  const write = writeOf(table);
  const head = element("tr", {}, ["configuration", ...front.objectives.flatMap((name) => [name, "95 %"])].map((text, index) => element("th", { scope: "col", class: index ? null : "left" }, text)));
  const lines = front.members.map((row) => element("tr", { class: table.baseline.includes(row) ? "base" : null }, element("td", { class: "left" }, label(table, row)),
    front.objectives.flatMap((name) => { const view = table.views[name]; return [element("td", {}, write(valueOf(table, view, row))), element("td", {}, rangeText(...endsOf(table, view, row), write))]; })));
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, lines)));
}
