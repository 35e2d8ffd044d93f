// Every replicate of the configurations in the table, as dots; the same replicate lights up in every row.

const STRIPS = 24;

// The baseline that a configuration is compared with: the same but for the parameters that make the baseline.
function baselineOf(table, row) {
  if (table.baseline.length < 2) return table.baseline[0] ?? null;
  const others = Object.keys(table.parameters).filter((name) => !data.baseline.includes(name));
  return table.baseline.find((base) => others.every((name) => table.parameters[name][base] === table.parameters[name][row])) ?? null;
}

// What a row's dots are: ratios to the baseline on the same replicate where all is positive, else differences.
function stripRow(table, view, row, mode) {
  if (table.overall) return { values: view.values[row].map(ratio), mean: valueOf(table, view, row) };
  const values = view.values[row];
  if (mode === "values") return { values, mean: view.mean[row] };
  const base = baselineOf(table, row), own = base === null ? [] : view.values[base] || [];
  const both = (value, index) => isNumber(value) && isNumber(own[index]);
  if (mode === "ratios") return { values: values.map((value, index) => (both(value, index) ? value / own[index] : null)), mean: row === base ? 1 : ratio(view.relative[row]) };
  const differences = values.map((value, index) => (both(value, index) ? value - own[index] : null)), there = finite(differences);
  return { values: differences, mean: there.length ? there.reduce((sum, value) => sum + value, 0) / there.length : null };
}

charts.replicates = (body) => {
  const table = currentTable(), view = currentView(), objective = currentObjective();
  if (!view || !view.values.length || table.replicates.length < 2) return false;
  const compared = !table.overall && table.baseline.length > 0 && table.ids.length > 1;
  const positive = view.values.every((values) => values.every((value) => !isNumber(value) || value > 0));
  const mode = table.overall || (compared && state.paired !== false && positive) ? "ratios" : compared && state.paired !== false ? "differences" : "values";
  const every = rowsShown().filter((row) => view.values[row]);
  const rows = every.slice(0, STRIPS);
  for (const row of [state.picked, rows.length ? baselineOf(table, rows[0]) : null]) if (row !== null && view.values[row] && !rows.includes(row)) rows.push(row);
  body.parentNode.querySelector("h2").textContent = table.overall ? "Every workload" : "Every replicate";
  if (!rows.length) { body.append(hint("The filters leave no configuration.")); return true; }
  body.append(element("p", {}, `${stripText(table, mode)} Point at a dot to follow it through all configurations.`));
  if (compared) {
    const choose = (choice) => () => { state.paired = choice; renderSection("replicates"); };
    body.append(element("div", { class: "row" }, button("compared with the baseline", mode !== "values", choose(true)), button(unitText(objective), mode === "values", choose(false))));
  }
  body.append(drawStrips(widthOf(body), table, view, rows, mode));
  if (every.length > rows.length) body.append(hint(`${rows.length} of ${every.length.toLocaleString("en")} configurations are drawn, in the order of the table.`));
  if (table.ids.length > view.values.length) body.append(hint(`Replicates of the best ${view.values.length.toLocaleString("en")} are on this page.`));
  return true;
};

function stripText(table, mode) {
  if (table.overall) return "A dot is a workload: how far the mean is from the baseline's there. The line is the mean over the workloads.";
  if (mode === "values") return "A dot is a replicate, the line the mean.";
  const dot = mode === "ratios" ? "how far it is from the baseline on the same replicate" : "the difference to the baseline on the same replicate";
  return `A dot is a replicate: ${dot}. The line is the difference of the means, as in the table.`;
}

function drawStrips(width, table, view, rows, mode) {
  const left = Math.min(230, Math.floor(width * 0.36)), step = 22, top = 8, height = top + step * rows.length;
  const strips = rows.map((row) => stripRow(table, view, row, mode));
  const ratios = mode === "ratios", zero = ratios ? 1 : 0;
  const scale = scaleOf(strips.flatMap(({ values, mean }) => [...values, mean]), left + 8, width - 22, mode !== "differences");
  const drawing = canvas(width, height + 20, `Replicates of ${rows.length} configurations`);
  drawing.append(bottomAxis(scale, height, top, ratios ? (value) => percentTick(value - 1) : tickText));
  if (mode !== "values" && scale.low < zero && scale.high > zero) drawing.append(svg("path", { class: "zero", d: `M${scale(zero)},${top}V${height}` }));
  const y = (index) => top + step * (index + 0.5), lines = svg("g", { "pointer-events": "none" });
  const light = (replicate) => {
    for (const dot of drawing.querySelectorAll(".dot")) dot.classList.toggle("lit", dot.dataset.replicate === String(replicate));
    const points = strips.map(({ values }, index) => (isNumber(values[replicate]) ? `${scale(values[replicate])},${y(index)}` : null)).filter(Boolean);
    lines.replaceChildren(...(replicate === null ? [] : [svg("polyline", { class: "pair", points: points.join(" ") })]));
  };
  rows.forEach((row, index) => {
    const { values, mean } = strips[index];
    const name = svg("text", { x: left - 2, y: y(index) + 4, "text-anchor": "end", "font-weight": table.baseline.includes(row) || row === state.picked ? 700 : null }, cut(label(table, row), left));
    name.append(svg("title", {}, label(table, row)));
    drawing.append(name);
    if (isNumber(mean)) drawing.append(svg("path", { class: "middle", d: `M${scale(mean)},${y(index) - 8}v16` }));
    values.forEach((value, replicate) => {
      if (!isNumber(value)) return;
      const dot = svg("circle", { class: "dot", cx: scale(value), cy: y(index), r: 4.5, "data-replicate": replicate });
      dot.addEventListener("pointerenter", () => light(replicate));
      dot.addEventListener("pointerleave", () => light(null));
      const text = ratios ? percentText(value - 1) : numberText(value);
      const own = mode === "values" || table.overall ? "" : `\n${numberText(view.values[row][replicate])}`;
      drawing.append(withTip(dot, () => `${label(table, row)}\n${table.replicates[replicate]}: ${text}${own}`));
    });
  });
  drawing.append(lines);
  return drawing;
}
