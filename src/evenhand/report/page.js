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

  const SPACE = "http://www.w3.org/2000/svg";
  const plot = byId("plot");
  const box = { left: 60, right: 620, top: 26, bottom: 292 };
  const make = (name, attributes, text) => {
    const node = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    plot.append(node);
    return node;
  };
  const known = data.points.filter((p) => p.disparity !== null && p.accuracy !== null);
  const has = (p) => p.expected_accuracy !== null && p.expected_disparity !== null;
  const range = (values) => {
    const low = Math.min(...values), high = Math.max(...values), pad = (high - low || 0.02) * 0.08;
    return [low - pad, high + pad];
  };
  const expected = data.points.filter(has);
  const [x0, x1] = range([...known.map((p) => p.disparity), ...expected.map((p) => p.expected_disparity)]);
  const [y0, y1] = range([...known.map((p) => p.accuracy), ...expected.map((p) => p.expected_accuracy)]);
  const x = (value) => box.left + ((value - x0) / (x1 - x0)) * (box.right - box.left);
  const y = (value) => box.bottom - ((value - y0) / (y1 - y0)) * (box.bottom - box.top);
  const ticks = (low, high, most) => {
    const power = 10 ** Math.floor(Math.log10((high - low) / most));
    const step = [1, 2, 5, 10, 20].map((k) => k * power).find((size) => (high - low) / size <= most);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high; k += 1) found.push([k * step, (k * step).toFixed(digits)]);
    return found;
  };
  const within = (value, low, high) => Math.min(high, Math.max(low, value));

  // One unit per pixel, so that letters have the same size on a phone as on a desktop.
  const fit = () => {
    const { width, height } = plot.getBoundingClientRect();
    if (width < 50 || height < 50) return;
    plot.setAttribute("viewBox", `0 0 ${Math.round(width)} ${Math.round(height)}`);
    box.right = Math.round(width) - 18;
    box.bottom = Math.round(height) - 48;
  };

  const draw = (point) => {
    fit();
    plot.replaceChildren();
    for (const [value, text] of ticks(x0, x1, (box.right - box.left) / 64)) {
      make("line", { class: "axis", x1: x(value), x2: x(value), y1: box.top, y2: box.bottom });
      make("text", { x: x(value), y: box.bottom + 18, "text-anchor": "middle" }, text);
    }
    for (const [value, text] of ticks(y0, y1, 6)) {
      make("line", { class: "axis", x1: box.left, x2: box.right, y1: y(value), y2: y(value) });
      make("text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, text);
    }
    const measure = data.measure === "difference" ? "mean difference" : "mean ratio";
    const title = make("text", { x: (box.left + box.right) / 2, y: box.bottom + 38, "text-anchor": "middle" }, `${measure}, ${data.notion}`);
    const space = box.right + 12 - 6, wide = title.getComputedTextLength();
    if (wide > space) {
      title.setAttribute("x", 6 + space / 2);
      title.setAttribute("textLength", space);
      title.setAttribute("lengthAdjust", "spacingAndGlyphs");
    } else title.setAttribute("x", within((box.left + box.right) / 2, 6 + wide / 2, 6 + space - wide / 2));
    make("text", { x: 8, y: 16 }, "accuracy");
    for (const [name, points] of curves) {
      const path = points.filter(has).map((p) => [x(p.expected_disparity), y(p.expected_accuracy)]);
      make("polyline", { class: name === point.curve ? "curve on" : "curve", points: path.map((at) => at.join(",")).join(" ") });
      if (name !== point.curve && path.length) continue;
      for (const p of points) {
        if (p.disparity !== null && p.origin !== "mixture") make("circle", { class: name === point.curve ? "counted" : "counted off", cx: x(p.disparity), cy: y(p.accuracy), r: 2.5 });
      }
    }
    const taken = [];
    const label = (text, [cx, cy], shift) => {
      const node = make("text", { x: cx, y: cy - shift, "text-anchor": "middle" }, text);
      const half = node.getComputedTextLength() / 2;
      const at = within(cx, box.left + half, box.right - half);
      let down = cy - shift < box.top + 12 ? cy + shift + 10 : cy - shift;
      while (taken.some(([a, b, w]) => Math.abs(a - at) < w + half && Math.abs(b - down) < 14)) down += 14;
      taken.push([at, down, half]);
      node.setAttribute("x", at);
      node.setAttribute("y", down);
    };
    for (const other of others) {
      if (other.disparity === null) continue;
      const cx = x(other.disparity), cy = y(other.accuracy);
      make("rect", { class: "other", x: cx - 4, y: cy - 4, width: 8, height: 8 });
      label(other.curve, [cx, cy], 10);
    }
    let edge = box.right;
    for (const name of curves.size > 1 ? [...curves.keys()].reverse() : []) {
      const text = make("text", { x: edge, y: 16, "text-anchor": "end" }, name);
      const start = edge - text.getComputedTextLength() - 6;
      make("polyline", { class: name === point.curve ? "curve on" : "curve", points: `${start - 26},12 ${start},12` });
      edge = start - 40;
    }
    if (has(point)) {
      const ring = { cx: x(point.expected_disparity), cy: y(point.expected_accuracy) };
      if (point.disparity !== null) make("line", { class: "offset", x1: ring.cx, y1: ring.cy, x2: x(point.disparity), y2: y(point.accuracy) });
      make("circle", { class: "ring", ...ring, r: 5 });
    }
    if (point.disparity === null) return;
    const cx = x(point.disparity), cy = y(point.accuracy);
    const span = (a, b, low, high) => [within(a, low, high), within(b, low, high)];
    const [bx, by] = span(x(point.disparity_low), x(point.disparity_high), box.left, box.right);
    const [ty, uy] = span(y(point.accuracy_high), y(point.accuracy_low), box.top, box.bottom);
    make("line", { class: "bar", x1: bx, x2: by, y1: cy, y2: cy });
    make("line", { class: "bar", x1: cx, x2: cx, y1: ty, y2: uy });
    make("circle", { class: point.origin === "mixture" ? "dot mixture" : "dot", cx, cy, r: 7 });
  };

  const cell = (row, text, kind = "td", cls = "num") => {
    const node = document.createElement(kind);
    node.textContent = text;
    if (kind === "th") node.scope = "row";
    else node.className = cls;
    row.append(node);
  };

  const table = (point) => {
    const cells = point.rules.map((rule) => {
      const found = new Map();
      if (rule.kind === "thresholds") for (const one of rule.thresholds) found.set(one.group, one.steps ?? one.note ?? show(one.threshold, 4));
      else for (const one of rule.weights) found.set(one.group, [found.get(one.group), show(one.weight, 4)].filter((part) => part !== undefined).join(", "));
      return found;
    });
    const heading = point.rules.length === 0 ? null : point.rules[0].kind === "thresholds" ? "threshold" : "weights of label 0 and 1";
    const names = Object.keys(point.groups[0].rates);
    const head = document.createElement("tr");
    for (const name of ["group", "rows", ...names, ...(heading ? [heading] : [])]) {
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
      if (heading) cell(row, cells.map((found) => found.get(group.name)).filter((part) => part !== undefined).join(" or "), "td", "who");
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
    const line = has(point) ? ` Predicted by the learned probabilities: accuracy ${show(point.expected_accuracy)}, ${data.measure} ${show(point.expected_disparity)}.` : "";
    const mixed = point.origin === "mixture" ? " This is a mixture: a random choice between the two solved classifiers beside it." : "";
    const price = point.risk === null || point.price === null ? "" : ` 0.01 more tolerance would gain ${show(point.price, 4)} accuracy.`;
    byId("state").textContent = `Accuracy ${accuracy}; ${data.measure} ${disparity}${point.group ? `, for ${point.group}` : ""}: ${point.verdict}.${line}${price}${mixed}`;
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
