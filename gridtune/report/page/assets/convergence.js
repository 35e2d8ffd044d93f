// Adaptive strategies: the best so far over trials. Others: how the means settle over replicates.

const CURVES = 5;

charts.convergence = (body) => {
  const table = currentTable(), view = currentView();
  if (!view) return false;
  if (view.trials) return drawTrials(body, table, view);
  if (table.overall || !view.values.length || table.replicates.length < 3 || table.ids.length < 2) return false;
  return drawSettling(body, table, view);
};

function drawTrials(body, table, view) {
  body.parentNode.querySelector("h2").textContent = "Progress of the search";
  const objective = currentObjective(), { trial, mean, best } = view.trials;
  if (finite(mean).length < 2) return false;
  body.append(element("p", {}, `Dots: the mean ${unitText(objective)} of each configuration in the order in which they were tried; the line is the best so far (${betterText(objective)}).`));
  body.append(trialChart(widthOf(body), trial, mean, best, unitText(objective)));
  return true;
}

function trialChart(width, trial, mean, best, title) {
  const height = 280, left = 74, bottom = height - 40, top = 24;
  const x = scaleOf(trial, left, width - 16), y = scaleOf([...mean, ...best], bottom, top, true);
  const drawing = canvas(width, height, `${title} over trials`);
  drawing.append(bottomAxis(x, bottom, top, tickText, "trial"), leftAxis(y, left, width - 16, tickText, title));
  mean.forEach((value, index) => { if (isNumber(value)) drawing.append(withTip(svg("circle", { class: "faint", cx: x(trial[index]), cy: y(value), r: 3.5 }), () => `trial ${trial[index]}\n${numberText(value)}`)); });
  let d = "";
  best.forEach((value, index) => { if (isNumber(value)) d += d ? `H${x(trial[index])}V${y(value)}` : `M${x(trial[index])},${y(value)}`; });
  drawing.append(svg("path", { class: "step", d }));
  return drawing;
}

function running(values) {
  let sum = 0;
  return values.map((value, index) => { sum += value; return sum / (index + 1); });
}

function drawSettling(body, table, view) {
  const objective = currentObjective(), base = table.baseline.find((row) => view.values[row] && view.values[row].every(isNumber)) ?? null;
  const whole = view.rank.map((_, row) => row).filter((row) => view.rank[row] !== null && view.values[row] && view.values[row].every(isNumber));
  const best = whole.sort((one, other) => view.rank[one] - view.rank[other]).slice(0, CURVES);
  if (best.length < 2) return false;
  const rows = base === null || best.includes(base) ? best : [...best, base];
  body.parentNode.querySelector("h2").textContent = "How the means settle";
  const means = rows.map((row) => running(view.values[row]));
  body.append(element("p", {}, `Mean ${unitText(objective)} over the first replicates, of the best configurations and the baseline. Lines that still move or cross at the right end say that more replicates would help.`));
  const width = widthOf(body), height = 280, left = 74, bottom = height - 40, top = 24;
  const x = linearScale(1, table.replicates.length, left, width - 16), y = scaleOf(means.flat(), bottom, top, true);
  const drawing = canvas(width, height, "Means over the first replicates");
  x.ticks = () => table.replicates.map((_, index) => index + 1).filter((number, index, all) => all.length < 14 || index % Math.ceil(all.length / 12) === 0);
  drawing.append(bottomAxis(x, bottom, top, tickText, "replicates"), leftAxis(y, left, width - 16, tickText, unitText(objective)));
  const kind = (row, index) => (row === base ? "series5" : `series${index}`);
  rows.forEach((row, index) => drawing.append(withTip(svg("polyline", { class: `series ${kind(row, index)}`, points: means[index].map((mean, number) => `${x(number + 1)},${y(mean)}`).join(" ") }), () => label(table, row))));
  body.append(legend(rows.map((row, index) => [kind(row, index), `${label(table, row)}${row === base ? " (baseline)" : ""}`])), drawing);
  return true;
}
