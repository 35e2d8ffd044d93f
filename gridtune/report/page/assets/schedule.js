// Utilisation, queue and Gantt chart of the best and the baseline schedule; all zoom together.

const UNITS = [["days", 86400], ["hours", 3600], ["minutes", 60], ["seconds", 1]];
const JOB_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];

// The schedules of the workload in the table; where that is all workloads, of the one chosen here.
const ownSchedules = () => data.schedules.find((entry) => entry.stratum === currentTable().name);

// Curves and bars come as differences of times; undo that once.
function unpack(schedule) {
  if (schedule.ready) return schedule;
  for (const curve of [schedule.use, schedule.queue]) { let sum = 0; curve.times = curve.times.map((step) => (sum += step)); }
  let start = 0;
  for (const bar of schedule.bars) { start += bar[1]; bar[1] = start; }
  schedule.ready = true;
  return schedule;
}

charts.schedule = (body) => {
  const own = ownSchedules(), entry = own || (currentTable().overall ? data.schedules[state.schedule || 0] : null);
  if (!entry) return false;
  const schedules = entry.schedules.map(unpack), end = Math.max(1, ...schedules.map((schedule) => schedule.end));
  const at = Math.min(state.role || 0, schedules.length - 1), schedule = schedules[at];
  if (state.zoomed !== entry) Object.assign(state, { zoomed: entry, from: 0, to: end });
  const redraw = () => renderSection("schedule");
  const zoom = (from, to) => {
    const span = Math.min(end, Math.max(30, to - from)), start = Math.max(0, Math.min(end - span, from));
    Object.assign(state, { from: start, to: start + span });
    redraw();
  };
  const around = (factor) => () => { const middle = (state.from + state.to) / 2, half = ((state.to - state.from) * factor) / 2; zoom(middle - half, middle + half); };
  const move = (share) => () => { const step = (state.to - state.from) * share; zoom(state.from + step, state.to + step); };
  body.append(element("p", {}, `${[entry.stratum, entry.replicate].filter(Boolean).join(", ")}, ${entry.processors.toLocaleString("en")} processors: ${schedule.label} (${schedule.role}), ${schedule.jobs.toLocaleString("en")} jobs. Drag across a chart to zoom in.`));
  body.append(element("div", { class: "row" },
    own ? null : select("workload", data.schedules.map((one) => one.stratum), data.schedules.indexOf(entry), (index) => { state.schedule = index; redraw(); }),
    schedules.length > 1 ? schedules.map((one, index) => button(`${one.role}: ${one.label}`, index === at, () => { state.role = index; redraw(); })) : null,
    button("+", null, around(0.5), "Zoom in"), button("−", null, around(2), "Zoom out"), button("◀", null, move(-0.5), "Earlier"), button("▶", null, move(0.5), "Later"), button("all", null, () => zoom(0, end), "Show all of it")));
  const width = widthOf(body), left = 62, unit = UNITS.find(([, seconds]) => state.to - state.from >= 2 * seconds) || UNITS[3];
  const x = linearScale(state.from, state.to, left, width - 10);
  body.append(stepChart(schedule.use, x, width, 130, `utilisation (%)`, (value) => (100 * value) / entry.processors, 100, zoom));
  const longest = Math.max(1, ...schedules.map((one) => one.queue.values.reduce((most, value) => Math.max(most, value), 0)));
  body.append(stepChart(schedule.queue, x, width, 110, "jobs waiting", (value) => value, longest, zoom));
  if (schedule.bars.length) body.append(gantt(schedule, entry, x, width, left, zoom));
  body.append(timeAxis(x, width, unit));
  if (schedule.bars.length && schedule.bars.length < schedule.jobs) body.append(hint(`The chart of jobs ends after the first ${schedule.bars.length.toLocaleString("en")} that start; the curves have all.`));
  if (schedule.bars.length) body.append(hint("Each job has the lowest free processors; which ones it really had is not simulated. Schedules that start on an empty machine fill up first."));
  return true;
};

function timeAxis(x, width, [name, seconds]) {
  const scaled = linearScale(x.low / seconds, x.high / seconds, x.from, x.to), drawing = canvas(width, 38, "");
  drawing.setAttribute("aria-hidden", "true");
  drawing.append(bottomAxis(scaled, 2, 0, tickText, `${name} since the first submission`));
  return drawing;
}

// Average of a step function over each pixel's span of time.
function pixelMeans(curve, x, columns) {
  const { times, values } = curve, means = new Array(columns);
  const per = (x.high - x.low) / columns;
  let index = 0;
  while (index < times.length && times[index] <= x.low) index++;
  let value = index ? values[index - 1] : 0, now = x.low;
  for (let column = 0; column < columns; column++) {
    const stop = x.low + (column + 1) * per;
    let area = 0;
    while (index < times.length && times[index] < stop) { area += value * (times[index] - now); now = times[index]; value = values[index++]; }
    area += value * (stop - now);
    now = stop;
    means[column] = area / per;
  }
  return means;
}

function stepChart(curve, x, width, height, title, convert, highest, zoom) {
  const columns = Math.max(50, Math.floor(x.to - x.from)), top = 20, bottom = height - 6;
  const y = linearScale(0, highest * 1.05, bottom, top), means = pixelMeans(curve, x, columns).map(convert);
  const drawing = canvas(width, height, `${title} over time`);
  drawing.append(leftAxis(y, x.from, x.to, tickText, title));
  const step = (x.to - x.from) / columns;
  const d = means.map((value, index) => `${index ? "L" : "M"}${(x.from + step * index).toFixed(1)},${y(value).toFixed(1)}H${(x.from + step * (index + 1)).toFixed(1)}`).join("");
  drawing.append(svg("path", { class: "use", d: `${d}V${bottom}H${x.from}Z` }), svg("path", { class: "use-line", d }));
  zoomable(drawing, x, zoom);
  return drawing;
}

function gantt(schedule, entry, x, width, left, zoom) {
  const height = 300, ratio = window.devicePixelRatio || 1, node = element("canvas", { role: "img", "aria-label": `Gantt chart of ${schedule.bars.length} jobs`, width: width * ratio, height: height * ratio });
  node.style.width = `${width}px`;
  node.style.height = `${height}px`;
  const paint = node.getContext("2d"), style = getComputedStyle(document.documentElement), y = (processor) => 4 + (processor * (height - 8)) / entry.processors;
  paint.scale(ratio, ratio);
  paint.strokeStyle = style.getPropertyValue("--line");
  paint.strokeRect(left + 0.5, 4.5, width - left - 10, height - 9);
  const edge = style.getPropertyValue("--card"), drawn = [];
  schedule.bars.forEach((bar, index) => {
    const [, start, run] = bar;
    if (start + run < x.low || start > x.high) return;
    const from = Math.max(left, x(start)), to = Math.min(width - 10, x(start + run));
    paint.fillStyle = JOB_COLOURS[index % JOB_COLOURS.length];
    for (let place = 4; place < bar.length; place += 2) {
      const [first, last] = [y(bar[place]), y(bar[place + 1] + 1)];
      paint.fillRect(from, first, Math.max(to - from, 0.6), Math.max(last - first, 0.6));
      if (to - from > 6 && last - first > 4) { paint.strokeStyle = edge; paint.lineWidth = 0.7; paint.strokeRect(from, first, to - from, last - first); }
      drawn.push([from, to, first, last, bar]);
    }
  });
  paint.fillStyle = style.getPropertyValue("--soft");
  paint.font = "11px system-ui, sans-serif";
  paint.textAlign = "right";
  paint.fillText("processor", left - 6, height / 2);
  paint.fillText("0", left - 6, 14);
  paint.fillText((entry.processors - 1).toLocaleString("en"), left - 6, height - 6);
  node.addEventListener("pointermove", (event) => {
    const box = node.getBoundingClientRect(), [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const hit = drawn.findLast(([from, to, first, last]) => px >= from - 1 && px <= to + 1 && py >= first && py <= last);
    if (!hit) { hideTip(); return; }
    const [job, , run, wait, ...parts] = hit[4];
    const size = parts.reduce((sum, end, index) => sum + (index % 2 ? end + 1 : -end), 0);
    showTip(event, `job ${job}: ${size.toLocaleString("en")} processors\nwaited ${duration(wait)}, ran ${duration(run)}`);
  });
  node.addEventListener("pointerleave", hideTip);
  zoomable(node, x, zoom);
  return node;
}

function duration(seconds) {
  const [name, size] = UNITS.find(([, length]) => seconds >= length) || UNITS[3];
  return `${numberText(seconds / size, 3)} ${name}`;
}

// Dragging across a chart zooms to what was passed; a double click shows all again.
function zoomable(node, x, zoom) {
  let start = null;
  const at = (event) => x.invert(Math.max(x.from, Math.min(x.to, event.clientX - node.getBoundingClientRect().left)));
  node.classList.add("zoomable");
  node.addEventListener("pointerdown", (event) => { start = at(event); });
  node.addEventListener("pointerup", (event) => {
    const stop = at(event);
    if (start !== null && Math.abs(x(stop) - x(start)) > 6) zoom(Math.min(start, stop), Math.max(start, stop));
    start = null;
  });
  node.addEventListener("dblclick", () => zoom(0, Number.MAX_SAFE_INTEGER));
}
