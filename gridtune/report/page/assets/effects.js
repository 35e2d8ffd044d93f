// Main effects of single parameters, interactions of pairs.

const shareText = (share) => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} % of the variance`;

charts.effects = (body) => {
  const table = currentTable(), view = currentView(), objective = currentObjective();
  const effects = view && view.effects;
  if (!effects) return false;
  const mean = effects.logarithmic ? "geometric mean" : "mean";
  const value = table.overall ? `relative difference of ${objective.name}` : unitText(objective);
  body.append(element("p", {}, `Dots: the ${mean} of ${value} over all configurations that share a value, whatever their other parameters; ${betterText(objective)}. Short lines: the best single configuration with that value.`));
  body.append(hint(effectsHint(effects)));
  const all = effects.main.flatMap((effect) => [...effect.means, ...effect.best]);
  const place = element("div", { class: "many" });
  body.append(place);
  const holders = effects.main.map((effect) => element("div", {}, element("h3", {}, `${effect.name} `, element("small", {}, shareText(effect.share)))));
  place.append(...holders);
  // Widths are known when all have their place.
  const width = Math.min(560, widthOf(holders[0]));
  const longest = Math.max(...effects.main.flatMap((effect) => effect.labels.map((text) => text.length)));
  const left = Math.min(width * 0.45, Math.max(60, 7.4 * longest + 8));
  effects.main.forEach((effect, index) => holders[index].append(drawEffect(width, left, effect, all, table)));
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
  for (const pair of pairs) place.append(element("div", {}, element("h3", {}, `${pair.down} × ${pair.across} `, element("small", {}, shareText(pair.share))), heatTable(pair, table, objective, view.effects.logarithmic)));
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

// From blue (0, better) over a pale middle to orange (1, worse), with text that can be read on it.
function colourCell(cell, share) {
  const ends = [[0, 114, 178], [238, 238, 232], [213, 94, 0]];
  const place = Math.max(0, Math.min(1, share)) * 2;
  const [from, to] = place < 1 ? [ends[0], ends[1]] : [ends[1], ends[2]];
  const part = place < 1 ? place : place - 1;
  const colour = from.map((start, index) => Math.round(start + (to[index] - start) * part));
  cell.style.background = `rgb(${colour.join(",")})`;
  cell.style.color = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] < 140 ? "#fff" : "#1f2328";
}
