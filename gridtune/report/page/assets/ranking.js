// The ranked table: sortable, filterable, with the intervals drawn in it.

const ROWS_OF_A_PAGE = 40;
// Differences of more than this share of the baseline stand at the border with their number.
const FARTHEST = 1;

// Words of a filter: `saf`, `backfill=easy`, `load>0.9`; a row has to fit all of them.
function filterOf(text, table) {
  const tests = text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const [, name, sign, wanted] = word.match(/^([^=<>]+)([=<>])(.+)$/) || [];
    const values = table.parameters[name];
    if (!values) return (row) => label(table, row).toLowerCase().includes(word.toLowerCase());
    if (sign === "=") return (row) => valueText(values[row]).toLowerCase() === wanted.toLowerCase();
    return (row) => isNumber(values[row]) && (sign === "<" ? values[row] < Number(wanted) : values[row] > Number(wanted));
  });
  return (row) => tests.every((test) => test(row));
}

function axisValues(table, name) {
  return name in table.parameters ? table.parameters[name] : table.ids.map((_, row) => (table.views[name] && (table.overall || table.views[name].complete[row]) ? valueOf(table, table.views[name], row) : null));
}

function brushed(table) {
  const tests = Object.entries(state.brushes).map(([name, inside]) => { const values = axisValues(table, name); return (row) => inside(values[row]); });
  return (row) => tests.every((test) => test(row));
}

// The rows that the filters leave, in the order of the table.
function rowsShown() {
  const table = currentTable(), view = currentView();
  if (!view) return [];
  const fits = filterOf(state.text, table), inside = brushed(table);
  const rows = table.ids.map((_, row) => row).filter((row) => (!state.verdict || view.verdict[row] === state.verdict) && fits(row) && inside(row));
  const key = sortKey(table, view, state.sort);
  const sign = state.down ? -1 : 1;
  const order = (one, other) => {
    const [a, b] = [key(one), key(other)];
    if (a === b) return 0;
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  };
  return rows.sort((one, other) => order(one, other) || one - other);
}

function sortKey(table, view, name) {
  if (name.startsWith("parameter ")) return (row) => table.parameters[name.slice(10)][row];
  if (name === "rank") return (row) => view.place[row];
  if (name === "relative") return (row) => (table.baseline.includes(row) ? 0 : view.relative[row]);
  return (row) => view[name][row];
}

function columnsOf(table, view) {
  const compared = view.relative.some(isNumber);
  const columns = [{ key: "rank", title: "#", text: (row) => view.rank[row] ?? "–" }];
  for (const name of Object.keys(table.parameters)) {
    columns.push({ key: `parameter ${name}`, title: name, left: true, text: (row) => valueText(table.parameters[name][row]) });
  }
  columns.push({ key: "n", title: "n", text: (row) => `${view.n[row] ?? 0}${view.complete[row] ? "" : "*"}` });
  if (!table.overall) {
    columns.push({ key: "mean", title: "mean", text: (row) => numberText(view.mean[row]) });
    columns.push({ title: "95 %", text: (row) => rangeText(view.ci_low[row], view.ci_high[row], numberText) });
    if (!compared) columns.push({ title: "interval of the mean", draw: meanInterval(view) });
  }
  if (view.gap && view.gap.some(isNumber)) columns.push({ key: "gap", title: "gap", text: (row) => percentText(view.gap[row]) });
  if (compared) {
    columns.push({ key: "relative", title: "to baseline", text: (row) => (table.baseline.includes(row) ? "" : percentText(view.relative[row])) });
    columns.push({ title: "95 % paired", text: (row) => (isNumber(view.relative_low[row]) ? rangeText(view.relative_low[row], view.relative_high[row], percentText) : "") });
    if (view.by_log_low && view.by_log_low.some(isNumber)) columns.push({ title: "95 % by log", text: (row) => (isNumber(view.by_log_low[row]) ? rangeText(view.by_log_low[row], view.by_log_high[row], percentText) : "") });
    columns.push({ title: "difference", draw: differenceInterval(view) });
    columns.push({ key: "verdict", title: "verdict", left: true, kind: (row) => className(view.verdict[row]), text: (row) => view.verdict[row] });
  }
  if (view.bounds) columns.push({ key: "bounds", title: "bounds", left: true, text: (row) => view.bounds[row] });
  if (view.failures.some(Boolean)) columns.push({ key: "failures", title: "failed", text: (row) => view.failures[row] || "" });
  // On a narrow screen the answer comes first; the rest is to the right.
  const answers = ["#", ...(innerWidth < 600 || !compared ? ["mean"] : []), "to baseline", "95 % paired", "verdict", "bounds"];
  const later = (column) => innerWidth < 1000 && !answers.includes(column.title) && !(column.key || "").startsWith("parameter ");
  return [...columns.filter((column) => !later(column)), ...columns.filter(later)];
}

const INTERVAL_WIDTH = 180;

function intervalCell(scale, middle, low, high, verdict, far) {
  const node = svg("svg", { width: INTERVAL_WIDTH, height: 20, "aria-hidden": "true" });
  if (far) {
    const right = middle > 0;
    node.append(svg("text", { class: "soft", x: right ? INTERVAL_WIDTH - 4 : 4, y: 14, "text-anchor": right ? "end" : "start" }, right ? `${percentText(middle)} ▶` : `◀ ${percentText(middle)}`));
    return node;
  }
  const inside = (value) => Math.max(2, Math.min(INTERVAL_WIDTH - 2, scale(value)));
  if (isNumber(low) && isNumber(high)) node.append(svg("path", { class: `span ${className(verdict)}`, d: `M${inside(low)},10H${inside(high)}` }));
  if (isNumber(middle)) node.append(mark(inside(middle), 10, verdict));
  return node;
}

function meanInterval(view) {
  const scale = scaleOf([...view.ci_low, ...view.ci_high, ...view.mean], 6, INTERVAL_WIDTH - 6, true);
  return (row) => intervalCell(scale, view.mean[row], view.ci_low[row], view.ci_high[row], view.verdict[row], false);
}

function differenceInterval(view) {
  const near = view.relative.map((value, row) => (isNumber(value) && Math.abs(value) <= FARTHEST ? row : -1)).filter((row) => row >= 0);
  const ends = near.flatMap((row) => [view.relative_low[row], view.relative_high[row], view.relative[row]]).filter(isNumber).map((end) => Math.max(-FARTHEST * 1.2, Math.min(FARTHEST * 1.2, end)));
  const scale = scaleOf([...ends, 0], 6, INTERVAL_WIDTH - 6);
  return (row) => {
    const own = view.verdict[row] === "baseline";
    const middle = own ? 0 : view.relative[row];
    const cell = intervalCell(scale, middle, view.relative_low[row], view.relative_high[row], view.verdict[row], isNumber(middle) && Math.abs(middle) > FARTHEST);
    cell.prepend(svg("path", { class: "zero", d: `M${scale(0)},0V20` }));
    return cell;
  };
}

function sortBy(key) {
  const same = state.sort === key;
  Object.assign(state, { sort: key, down: same ? !state.down : false, page: 0 });
  render();
  document.querySelector(`#ranking th[data-key="${CSS.escape(key)}"] button`)?.focus();
}

function filterRow(table, view) {
  const box = element("input", { type: "search", value: state.text, placeholder: "filter: a value, name=value, name>number", "aria-label": "Filter the configurations", oninput: () => {
    Object.assign(state, { text: box.value, page: 0 });
    renderRows();
  } });
  const verdicts = ["", ...new Set(view.verdict.filter(Boolean))];
  return element("div", { class: "row" }, box,
    select("verdict", verdicts.map((verdict) => verdict || "all"), verdicts.indexOf(state.verdict), (index) => { Object.assign(state, { verdict: verdicts[index], page: 0 }); renderRows(); }),
    Object.keys(state.brushes).length ? button("clear ranges", null, () => { state.brushes = {}; render(); }) : null);
}

charts.ranking = (body) => {
  const table = currentTable(), view = currentView();
  if (!view || !table.ids.length) return false;
  body.append(element("p", {}, `${view.heading}.`));
  body.append(filterRow(table, view));
  body.append(element("div", { id: "rows" }));
  if (table.ids.length < table.configurations) body.append(hint(`The best ${table.ids.length.toLocaleString("en")} of ${table.configurations.toLocaleString("en")} configurations are here; all are in the ranking's CSV file.`));
  for (const note of view.notes) body.append(hint(note));
  drawRows(body.querySelector("#rows"));
  return true;
};

function drawRows(place) {
  const table = currentTable(), view = currentView();
  const rows = rowsShown(), columns = columnsOf(table, view);
  const pages = Math.max(1, Math.ceil(rows.length / ROWS_OF_A_PAGE));
  state.page = Math.min(state.page, pages - 1);
  const head = element("tr", {}, columns.map((column) => {
    const sort = column.key === state.sort ? (state.down ? "descending" : "ascending") : "none";
    return element("th", { scope: "col", class: column.left ? "left" : null, "data-key": column.key, "aria-sort": column.key ? sort : null },
      column.key ? element("button", { type: "button", onclick: () => sortBy(column.key) }, column.title) : column.title);
  }));
  const shown = rows.slice(state.page * ROWS_OF_A_PAGE, (state.page + 1) * ROWS_OF_A_PAGE);
  const lines = shown.map((row) => element("tr", { class: `pickable${table.baseline.includes(row) ? " base" : ""}${row === state.picked ? " picked" : ""}`, onclick: () => pick(row) },
    columns.map((column, index) => {
      if (column.draw) return element("td", { class: "chart" }, column.draw(row));
      const text = String(column.text(row));
      const kind = [column.left ? "left" : "", column.kind ? column.kind(row) : ""].filter(Boolean).join(" ") || null;
      if (index) return element("td", { class: kind }, text);
      const press = element("button", { type: "button", class: "pick", "aria-pressed": String(row === state.picked), "aria-label": `Highlight ${label(table, row)} in every chart`, onclick: (event) => { event.stopPropagation(); pick(row); } }, text);
      return element("td", { class: kind }, press);
    })));
  place.replaceChildren(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, lines))));
  const count = `${rows.length.toLocaleString("en")} of ${table.ids.length.toLocaleString("en")} configurations`;
  const turn = (step) => () => { state.page += step; drawRows(place); };
  const pager = pages < 2 ? [] : [
    element("button", { type: "button", disabled: state.page === 0, onclick: turn(-1) }, "‹ before"),
    element("span", { class: "hint" }, `page ${state.page + 1} of ${pages}`),
    element("button", { type: "button", disabled: state.page === pages - 1, onclick: turn(1) }, "next ›")];
  place.append(element("div", { class: "row" }, element("span", { class: "hint", role: "status" }, count), pager));
}
