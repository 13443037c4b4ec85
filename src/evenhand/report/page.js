"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const slider = byId("tolerance");
  const select = byId("curve");
  const curves = new Map(data.curves.map((name) => [name, data.points.filter((p) => p.kind === "curve" && p.curve === name)]));
  const others = data.points.filter((p) => p.kind === "point");
  const show = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const interval = (rate) => (rate.value === null ? "–" : show(rate.value) + (rate.low === null ? "" : ` [${show(rate.low)}, ${show(rate.high)}]`));

  const ratio = data.measure === "ratio";
  const SPACE = "http://www.w3.org/2000/svg";
  const DASHES = ["none", "6 3", "2 3", "8 3 2 3", "12 3"];
  const APART = 96; // pixels between two test points of a curve
  const plot = byId("plot");
  const box = { left: 60, right: 620, top: 34, bottom: 292 };
  const make = (name, attributes, text, parent = plot) => {
    const node = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const has = (p) => p.expected_accuracy !== null && p.expected_disparity !== null;
  const measured = (p) => p.disparity !== null && p.accuracy !== null;
  const tested = (points) => points.filter(measured);
  const within = (value, low, high) => Math.min(high, Math.max(low, value));
  // All values, and intervals up to a quarter of their range beyond: one from 0 to 1 would leave no room for the curve.
  const reach = (name, ...more) => {
    const all = (key) => [...tested(data.points), ...data.points.filter(has)].map((p) => p[key]).filter((value) => value !== null);
    const values = [...all(name), ...all(`expected_${name}`), ...more], low = Math.min(...values), high = Math.max(...values);
    const room = Math.max((high - low) / 4, 0.01);
    return [...values, ...[...all(`${name}_low`), ...all(`${name}_high`)].map((value) => within(value, low - room, high + room))];
  };
  const wide = reach("disparity", ...(data.measure === "difference" ? [0] : data.measure === "ratio" ? [1] : []));
  const high = reach("accuracy");

  // Marks at round numbers that enclose all values, and the position of a value between the first and the last.
  const axis = (values, most, start, end) => {
    let low = Math.min(...values), high = Math.max(...values);
    if (high - low < 1e-9) [low, high] = [low - 0.01, high + 0.01];
    const power = 10 ** Math.floor(Math.log10((high - low) / most));
    const ends = (step) => [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
    const step = [1, 2, 5, 10, 20, 50].map((size) => size * power).find((size) => ends(size)[1] - ends(size)[0] <= most);
    const [first, last] = ends(step), digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const at = (value) => start + ((value / step - first) / (last - first)) * (end - start);
    return { at, marks: Array.from({ length: last - first + 1 }, (_, k) => [at((first + k) * step), ((first + k) * step).toFixed(digits)]) };
  };

  // One unit per pixel, so that letters have the same size on a phone as on a desktop.
  const fit = () => {
    const { width, height } = plot.getBoundingClientRect();
    if (width < 50 || height < 50) return;
    plot.setAttribute("viewBox", `0 0 ${Math.round(width)} ${Math.round(height)}`);
    box.right = Math.round(width) - 18;
    box.bottom = Math.round(height) - 48;
  };

  // The ends of a curve first, then along it, so that points do not overlap.
  const spaced = (points, at) => {
    const chosen = [];
    for (const p of [points[0], points.at(-1), ...points.slice(1, -1)]) {
      if (p && chosen.every((other) => Math.hypot(at(p)[0] - at(other)[0], at(p)[1] - at(other)[1]) >= APART)) chosen.push(p);
    }
    return chosen;
  };

  const styles = (chosen) => new Map([...curves.keys()].map((name, k) => [name, { class: name === chosen ? "curve on" : "curve", "stroke-dasharray": DASHES[k % DASHES.length] }]));

  const legend = (chosen) => {
    const key = (text, ...parts) => {
      const item = document.createElement("li");
      const icon = make("svg", { width: 30, height: 16, viewBox: "0 0 30 16", "aria-hidden": "true" }, undefined, item);
      for (const [name, attributes] of parts) make(name, attributes, undefined, icon);
      item.append(text);
      return item;
    };
    const cross = (kind) => ["path", { class: kind, d: "M3 8H27M15 1V15" }];
    const smooth = [...styles(chosen)].filter(([name]) => curves.get(name).some(has));
    const items = smooth.map(([name, style]) => key(`${name}: optimum by the posteriors`, ["path", { ...style, d: "M0 8H30" }]));
    items.push(key(`${chosen} on test rows, ${show(data.confidence * 100, 2).replace(/\.?0+$/, "")} % intervals`, cross("bar"), ["circle", { class: "counted", cx: 15, cy: 8, r: 4 }]));
    items.push(key("chosen", ["circle", { class: "dot", cx: 15, cy: 8, r: 6 }]));
    if (others.some(measured)) items.push(key("other models", cross("bar off"), ["rect", { class: "other", x: 11, y: 4, width: 8, height: 8 }]));
    byId("legend").replaceChildren(...items);
  };

  const draw = (point) => {
    fit();
    legend(point.curve);
    plot.replaceChildren();
    const ends = ratio ? [box.right, box.left] : [box.left, box.right]; // fairer is on the left
    const x = axis(wide, (box.right - box.left) / 64, ...ends);
    const y = axis(high, 6, box.bottom, box.top);
    const at = (p) => [x.at(p.disparity), y.at(p.accuracy)];
    const expected = (p) => [x.at(p.expected_disparity), y.at(p.expected_accuracy)];
    for (const [place, text] of x.marks) {
      make("line", { class: "axis", x1: place, x2: place, y1: box.top, y2: box.bottom });
      make("text", { class: "mark", x: place, y: box.bottom + 18, "text-anchor": "middle" }, text);
    }
    for (const [place, text] of y.marks) {
      make("line", { class: "axis", x1: box.left, x2: box.right, y1: place, y2: place });
      make("text", { class: "mark", x: box.left - 6, y: place + 4, "text-anchor": "end" }, text);
    }
    const title = make("text", { x: (box.left + box.right) / 2, y: box.bottom + 38, "text-anchor": "middle" }, `← fairer  |  mean ${data.measure}, ${data.notion}`);
    const space = box.right + 12 - 6, long = title.getComputedTextLength();
    if (long > space) {
      title.setAttribute("x", 6 + space / 2);
      title.setAttribute("textLength", space);
      title.setAttribute("lengthAdjust", "spacingAndGlyphs");
    } else title.setAttribute("x", within((box.left + box.right) / 2, 6 + long / 2, 6 + space - long / 2));
    make("text", { x: 8, y: 16 }, "accuracy");
    const bars = (p, kind) => {
      const [cx, cy] = at(p);
      const across = (value) => within(x.at(value), box.left, box.right), up = (value) => within(y.at(value), box.top, box.bottom);
      if (p.disparity_low !== null) make("line", { class: kind, x1: across(p.disparity_low), x2: across(p.disparity_high), y1: cy, y2: cy });
      if (p.accuracy_low !== null) make("line", { class: kind, x1: cx, x2: cx, y1: up(p.accuracy_low), y2: up(p.accuracy_high) });
    };
    const near = (p, place) => place !== null && Math.hypot(at(p)[0] - place[0], at(p)[1] - place[1]) < APART / 2;
    const found = measured(point) ? at(point) : null;
    const marker = has(point) ? expected(point) : found;
    for (const [name, style] of styles(point.curve)) {
      const on = name === point.curve ? "" : " off", all = tested(curves.get(name));
      const path = curves.get(name).filter(has).map(expected);
      if (path.length) make("polyline", { ...style, points: path.map((place) => place.join(",")).join(" ") });
      const few = on ? [] : spaced(all, at);
      for (const p of path.length ? few : all) {
        if (near(p, found) || near(p, marker)) continue; // the chosen one stands there
        if (few.includes(p)) bars(p, "bar few");
        make("circle", { class: `counted few${on}`, cx: at(p)[0], cy: at(p)[1], r: 3.5 });
      }
    }
    const taken = [];
    const label = (text, [cx, cy]) => {
      const node = make("text", { class: "name", "text-anchor": "middle" }, text);
      const half = node.getComputedTextLength() / 2, right = cx + 9 + half;
      const place = within(right + half > box.right ? cx - 9 - half : right, box.left + half, box.right - half);
      let down = cy - 9 < box.top + 12 ? cy + 19 : cy - 9;
      while (taken.some(([a, b, w]) => Math.abs(a - place) < w + half && Math.abs(b - down) < 14)) down += 14;
      taken.push([place, down, half]);
      node.setAttribute("x", place);
      node.setAttribute("y", down);
    };
    for (const other of others.filter(measured)) {
      const [cx, cy] = at(other);
      bars(other, "bar off");
      make("rect", { class: "other", x: cx - 4, y: cy - 4, width: 8, height: 8 });
      label(other.curve, [cx, cy]);
    }
    if (found) {
      make("line", { class: "offset", x1: marker[0], y1: marker[1], x2: found[0], y2: found[1] });
      bars(point, "bar");
      make("circle", { class: "counted", cx: found[0], cy: found[1], r: 5 });
    }
    if (marker) make("circle", { class: "dot", cx: marker[0], cy: marker[1], r: 7 });
  };

  const cell = (row, text, kind = "td") => {
    const node = document.createElement(kind);
    node.textContent = text;
    if (kind === "th") node.scope = "row";
    else node.className = "num";
    row.append(node);
  };

  const table = (point) => {
    if (!byId("rates")) return; // the page has a table of groups
    const names = Object.keys(point.groups[0].rates);
    const head = document.createElement("tr");
    for (const name of ["group", "rows", ...names]) {
      const node = document.createElement("th");
      node.scope = "col";
      node.textContent = name;
      head.append(node);
    }
    byId("rates").tHead.replaceChildren(head);
    byId("rates").tBodies[0].replaceChildren(...point.groups.map((group) => {
      const row = document.createElement("tr");
      cell(row, group.name, "th");
      cell(row, group.rows.toLocaleString("en"));
      for (const name of names) cell(row, interval(group.rates[name]));
      return row;
    }));
  };

  const update = () => {
    const points = curves.get(select.value);
    slider.max = points.length - 1;
    const point = points[within(Number(slider.value), 0, points.length - 1)];
    byId("chosen").textContent = show(point.tolerance, 4);
    slider.setAttribute("aria-valuetext", `tolerance ${show(point.tolerance, 4)}`);
    const accuracy = interval({ value: point.accuracy, low: point.accuracy_low, high: point.accuracy_high });
    const disparity = interval({ value: point.disparity, low: point.disparity_low, high: point.disparity_high });
    const line = has(point) ? ` By the posteriors: accuracy ${show(point.expected_accuracy)}, ${data.measure} ${show(point.expected_disparity)}.` : "";
    const forecast = point.forecast === null ? "" : ` Asked ${show(point.tolerance)}, forecast ${show(point.forecast)}, measured ${show(point.disparity)}.`;
    const price = point.risk === null || point.price === null ? "" : ` ${ratio ? "A ratio lower by 0.01" : "0.01 more tolerance"} would gain ${show(point.price, 4)} accuracy.`;
    byId("state").textContent = `On test rows: accuracy ${accuracy}; ${data.measure} ${disparity}${point.group ? `, for ${point.group}${point.side ? ` (${point.side})` : ""}` : ""}: ${point.verdict}.${forecast}${line}${price}`;
    table(point);
    draw(point);
  };
  window.addEventListener("resize", update);
  slider.addEventListener("input", update);
  select.addEventListener("change", update);
  const first = curves.get(select.value);
  const distance = (point) => Math.abs(point.tolerance - (data.asked ?? first[Math.floor(first.length / 2)].tolerance));
  slider.max = first.length - 1;
  slider.value = first.reduce((best, point, k) => (distance(point) < distance(first[best]) ? k : best), 0);
  update();
})();
