// Main effects of single parameters, interactions of pairs.

const shareText = (share) => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} % of the variance`;

charts.effects = (body) => {
  const table = currentTable(), view = currentView(), objective = currentObjective();
  const effects = view && view.effects;
  if (!effects) return false;
  const mean = effects.logarithmic ? "geometric mean" : "mean";
  const value = table.overall ? `relative difference of ${objective.name}` : unitText(objective);
  const grouped = effects.main.some((effect) => !effect.binned), sampled = effects.main.some((effect) => effect.binned);
  if (grouped) body.append(element("p", {}, `Dots: the ${mean} of ${value} over all configurations that share a value, whatever their other parameters; ${betterText(objective)}. Short lines: the best single configuration with that value.`));
  if (sampled) body.append(element("p", {}, `Parameters with ever new numbers: a dot is the ${value} of a configuration, the line a local ${mean}; ${betterText(objective)}.`));
  body.append(hint(effectsHint(effects)));
  const all = effects.main.flatMap((effect) => [...effect.means, ...effect.best]);
  const place = element("div", { class: "many" });
  body.append(place);
  const holders = effects.main.map((effect) => element("div", {}, element("h3", {}, `${effect.name} `, element("small", {}, shareText(effect.share)))));
  place.append(...holders);
  // Widths are known when all have their place.
  const width = Math.min(560, widthOf(holders[0]));
  const longest = Math.max(0, ...effects.main.filter((effect) => !effect.binned).flatMap((effect) => effect.labels.map((text) => text.length)));
  const left = Math.min(width * 0.45, Math.max(60, 7.4 * longest + 8));
  effects.main.forEach((effect, index) => holders[index].append(effect.binned ? drawScatter(width, effect, table, view, effects.logarithmic) : drawEffect(width, left, effect, all, table)));
  if (effects.leftOut.length) body.append(hint(`Not shown: ${effects.leftOut.join(", ")}.`));
  return true;
};

function effectsHint(effects) {
  const variance = effects.logarithmic ? "The variance is that of the logarithms of the means, because they spread far. " : "";
  const few = effects.incomplete ? `${effects.incomplete.toLocaleString("en")} configurations that lack a replicate are left out. ` : "";
  if (effects.complete) return `${few}${variance}Every combination was run, so the shares of single parameters, pairs and larger groups add up to 100 %.`;
  const adaptive = data.adaptive ? " The search tried good regions more often, and the means are of what it tried." : "";
  return `${few}${variance}Not every combination was run: numbers are put into ranges of about equally many configurations, and the shares are estimates that need not add up.${adaptive}`;
}

// Configurations with a number of each parameter and a value: [numbers…, value, row].
function pointsOf(table, view, names) {
  return table.ids.map((_, row) => [...names.map((name) => table.parameters[name][row]), valueOf(table, view, row), row])
    .filter((point) => point.slice(0, -1).every(isNumber));
}

// The local linear mean of `values` at a place, by Gaussian weights; places lie between 0 and 1.
function smooth(places, values, at) {
  const width = Math.max(0.07, 0.32 * places.length ** (-1 / (4 + at.length)));
  const weights = places.map((place) => Math.exp(-0.5 * at.reduce((sum, here, side) => sum + ((place[side] - here) / width) ** 2, 0)));
  const sum = (write) => weights.reduce((total, weight, index) => total + weight * write(index), 0);
  const total = sum(() => 1), mean = sum((index) => values[index]) / total;
  // A slope along each side, as if the sides were independent.
  return at.reduce((value, here, side) => {
    const centre = sum((index) => places[index][side]) / total;
    const spread = sum((index) => (places[index][side] - centre) ** 2);
    return spread > 1e-9 * total ? value + (sum((index) => (places[index][side] - centre) * values[index]) / spread) * (here - centre) : value;
  }, mean);
}

const placeOf = (scale) => (value) => (scale(value) - scale.from) / (scale.to - scale.from);

function drawScatter(width, effect, table, view, logarithmic) {
  const height = 190, left = 62, top = 8;
  const points = pointsOf(table, view, [effect.name]);
  const x = scaleOf(points.map((point) => point[0]), left, width - 14, true), y = scaleOf(points.map((point) => point[1]), height, top, true);
  const drawing = canvas(width, height + 24, `Main effect of ${effect.name}`);
  drawing.append(bottomAxis(x, height, top), leftAxis(y, left, width - 14, tickOf(table)));
  for (const [number, value, row] of points) drawing.append(withTip(svg("circle", { class: row === state.picked ? "mark better" : "faint", cx: x(number), cy: y(value), r: 3.5, onclick: () => pick(row) }), () => `${label(table, row)}\n${writeOf(table)(value)}`));
  const places = points.map((point) => [placeOf(x)(point[0])]), values = points.map((point) => (logarithmic ? Math.log(point[1]) : point[1]));
  const numbers = points.map((point) => point[0]), [first, last] = [Math.min(...numbers), Math.max(...numbers)].map(x);
  const line = Array.from({ length: 61 }, (_, index) => {
    const across = first + ((last - first) * index) / 60, mean = smooth(places, values, [(across - x.from) / (x.to - x.from)]);
    return `${across.toFixed(1)},${Math.max(top, Math.min(height, y(logarithmic ? Math.exp(mean) : mean))).toFixed(1)}`;
  });
  drawing.append(svg("polyline", { class: "step smooth", points: line.join(" ") }));
  return drawing;
}

function drawEffect(width, left, effect, all, table) {
  const write = writeOf(table), step = 24, top = 4;
  const height = top + step * effect.labels.length;
  const scale = scaleOf(all, left + 8, width - 16, true);
  const drawing = canvas(width, height + 24, `Main effect of ${effect.name}`);
  drawing.append(bottomAxis(scale, height, top, tickOf(table)));
  const y = (index) => top + step * (index + 0.5);
  if (effect.ordered) drawing.append(svg("polyline", { class: "step thin", points: effect.means.map((mean, index) => `${scale(mean)},${y(index)}`).join(" ") }));
  effect.labels.forEach((text, index) => {
    const tipText = () => `${effect.name}: ${text}\nmean ${write(effect.means[index])}\nbest ${write(effect.best[index])}\n${effect.counts[index]} configurations`;
    drawing.append(
      svg("text", { x: left - 2, y: y(index) + 4, "text-anchor": "end" }, cut(text, left)),
      svg("path", { class: "middle", d: `M${scale(effect.best[index])},${y(index) - 7}v14` }),
      svg("circle", { class: "mark better", cx: scale(effect.means[index]), cy: y(index), r: 5 }),
      withTip(svg("rect", { x: left, y: y(index) - step / 2, width: width - left, height: step, fill: "transparent" }), tipText));
  });
  return drawing;
}

charts.interactions = (body) => {
  const table = currentTable(), view = currentView(), objective = currentObjective();
  const pairs = view && view.effects ? view.effects.interactions : [];
  if (!pairs.length) return false;
  const mean = view.effects.logarithmic ? "Geometric mean" : "Mean";
  body.append(element("p", {}, `${mean} of ${table.overall ? `the relative difference of ${objective.name}` : unitText(objective)} at each pair of values; blue is better. The share is what the pair adds to the two effects above: near 0 %, each can be chosen by itself.`));
  const place = element("div", { class: "many" });
  for (const pair of pairs) place.append(element("div", {}, element("h3", {}, `${pair.down} × ${pair.across} `, element("small", {}, shareText(pair.share))), pair.binned ? contour(pair, table, view, objective, view.effects.logarithmic) : heatTable(pair, table, objective, view.effects.logarithmic)));
  body.append(place);
  return true;
};

function heatTable(pair, table, objective, logarithmic) {
  const [down, across] = pair.labels, write = table.overall ? writeOf(table) : (value) => numberText(value, 3);
  const scale = scaleOf(pair.means.flat(), 0, 1, logarithmic);
  const rows = pair.means.map((row, index) => element("tr", {}, element("th", { scope: "row" }, down[index]), row.map((value) => {
    const cell = element("td", {}, write(value));
    if (isNumber(value)) colourCell(cell, objective.direction === "min" ? scale(value) : 1 - scale(value));
    return cell;
  })));
  const head = [
    element("tr", {}, element("td", { class: "axis" }, ""), element("th", { class: "axis", colspan: across.length }, pair.across)),
    element("tr", {}, element("th", { class: "axis" }, pair.down), across.map((text) => element("th", { scope: "col" }, text)))];
  return element("div", { class: "scroll" }, element("table", { class: "heat" }, element("thead", {}, head), element("tbody", {}, rows)));
}

// The local mean in the plane of two numbers, in bands of colour, and the configurations as dots.
function contour(pair, table, view, objective, logarithmic) {
  const width = 330, height = 220, left = 62, top = 20, bottom = height - 38, bands = 9, across = 40, up = 26;
  const points = pointsOf(table, view, [pair.across, pair.down]);
  const x = scaleOf(points.map((point) => point[0]), left, width - 8, true), y = scaleOf(points.map((point) => point[1]), bottom, top, true);
  const places = points.map((point) => [placeOf(x)(point[0]), placeOf(y)(point[1])]), values = points.map((point) => (logarithmic ? Math.log(point[2]) : point[2]));
  const field = Array.from({ length: up }, (_, j) => Array.from({ length: across }, (_, i) => smooth(places, values, [(i + 0.5) / across, (j + 0.5) / up])));
  const low = Math.min(...values), high = Math.max(...values);
  const drawing = canvas(width, height, `${pair.down} over ${pair.across}`);
  const [wide, tall] = [(x.to - x.from) / across, (y.from - y.to) / up];
  field.forEach((row, j) => row.forEach((value, i) => {
    const share = high > low ? Math.max(0, Math.min(1, (value - low) / (high - low))) : 0.5;
    const band = Math.min(bands - 1, Math.floor(share * bands)) / (bands - 1);
    const write = writeOf(table)(logarithmic ? Math.exp(value) : value);
    const cell = svg("rect", { x: x.from + i * wide, y: y.from - (j + 1) * tall, width: wide + 0.5, height: tall + 0.5, fill: colourOf(objective.direction === "min" ? band : 1 - band).text });
    drawing.append(withTip(cell, () => `${pair.across} ${tickText(Number(x.invert(x.from + (i + 0.5) * wide).toPrecision(3)))}\n${pair.down} ${tickText(Number(y.invert(y.from - (j + 0.5) * tall).toPrecision(3)))}\n${write}`));
  }));
  for (const [one, other, value, row] of points) drawing.append(withTip(svg("circle", { class: "sample", cx: x(one), cy: y(other), r: 2.5, onclick: () => pick(row) }), () => `${label(table, row)}\n${writeOf(table)(value)}`));
  drawing.append(bottomAxis(x, bottom, bottom, tickText, pair.across), leftAxis(y, left, left, tickText, pair.down));
  return drawing;
}

// From blue (0, better) over a pale middle to orange (1, worse), with text that can be read on it.
function colourOf(share) {
  const ends = [[0, 114, 178], [238, 238, 232], [213, 94, 0]];
  const place = Math.max(0, Math.min(1, share)) * 2;
  const [from, to] = place < 1 ? [ends[0], ends[1]] : [ends[1], ends[2]];
  const part = place < 1 ? place : place - 1;
  const colour = from.map((start, index) => Math.round(start + (to[index] - start) * part));
  return { text: `rgb(${colour.join(",")})`, dark: 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] < 140 };
}

function colourCell(cell, share) {
  const { text, dark } = colourOf(share);
  cell.style.background = text;
  cell.style.color = dark ? "#fff" : "#1f2328";
}
