// Draws every section, and again whenever the reader chooses something else.

function renderSection(name) {
  const section = document.getElementById(name);
  const body = element("div");
  section.querySelector(":scope > div")?.remove();
  section.append(body);
  // Charts measure the width they have, so the section has to be there while it is filled.
  section.hidden = false;
  section.hidden = !charts[name](body);
}

// What depends on the filters, without the filters' own fields, which would lose the focus.
function renderRows(except = null) {
  const place = document.getElementById("rows");
  if (place) drawRows(place);
  for (const name of ["replicates", "parallel"]) if (name !== except) renderSection(name);
}

function renderControls() {
  const tables = data.tables.map((table) => (table.overall ? "all workloads" : table.name || "all cells"));
  const changed = (key) => (index) => { Object.assign(state, { [key]: index, page: 0, picked: key === "table" ? null : state.picked, brushes: {}, verdict: "" }); render(); };
  document.getElementById("controls").replaceChildren(...[
    select("Workload", tables, state.table, changed("table")),
    select("Objective", data.objectives.map((objective) => objective.name), state.objective, changed("objective")),
  ].filter(Boolean));
}

function render() {
  hideTip();
  renderControls();
  for (const name of Object.keys(charts)) renderSection(name);
}

function start() {
  if (data.tables.length && data.objectives.length) render();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; render(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
  document.documentElement.dataset.state = "ready";
}

try {
  start();
} catch (fault) {
  document.documentElement.dataset.state = "broken";
  document.querySelector("main").prepend(element("p", { id: "broken" }, `The charts cannot be drawn: ${fault.message}. The rankings are in ranking.md beside this page.`));
  throw fault;
}
