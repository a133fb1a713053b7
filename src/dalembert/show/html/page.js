"use strict";
(() => {
  // Everything of the user's arrives as data, and is put into the page as text, never as HTML.
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const many = data.drawing.scenes.length > 1;
  const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 2", "12 4", "1 2", "6 2 1 2"];

  const decoded = new Map();
  const floats = i => {
    if (!decoded.has(i)) decoded.set(i, decode(data.arrays[i]));
    return decoded.get(i);
  };
  const decode = text => {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    const view = new DataView(bytes.buffer), out = new Float32Array(bytes.length / 4);
    for (let i = 0; i < out.length; i++) out[i] = view.getFloat32(4 * i, true);
    return out;
  };
  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const svg = (name, attributes = {}, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const colours = () => {
    const style = getComputedStyle(document.documentElement), read = name => style.getPropertyValue(name).trim();
    return { lines: [0, 1, 2, 3, 4, 5, 6, 7].map(i => read(`--c${i}`)), text: read("--text"), faint: read("--faint"),
      line: read("--line"), card: read("--card"), soft: read("--soft") };
  };
  const colour = i => `var(--c${i % 8})`;
  const dashes = i => DASHES[(i + Math.floor(i / 8)) % 8];  // the ninth line has the first one's colour and other dashes
  const number = x => {
    if (!Number.isFinite(x)) return "–";
    if (x === 0) return "0";
    const size = Math.abs(x);
    return size >= 1e5 || size < 1e-3 ? x.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e") : String(Number(x.toPrecision(4)));
  };
  // The last index with t[i] <= s, of increasing or decreasing times.
  const index = (t, s) => {
    const sign = t[t.length - 1] >= t[0] ? 1 : -1;
    let low = 0, high = t.length - 1;
    if (sign * s >= sign * t[high]) return high;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (sign * t[middle] <= sign * s) low = middle; else high = middle;
    }
    return low;
  };

  // ---- time ------------------------------------------------------------------------------------------------------
  const scenes = data.drawing.scenes.map(scene => ({
    t: floats(scene.t), shapes: scene.shapes.map(shape => ({ ...shape, at: floats(shape.at) })),
  }));
  const begin = scenes[0].t[0];
  const end = scenes.map(s => s.t[s.t.length - 1]).reduce((a, b) => Math.abs(b - begin) > Math.abs(a - begin) ? b : a, begin);
  const length = end - begin;
  const state = { s: begin, playing: false, speed: Math.max(1, Math.abs(length) / 20), listeners: [] };
  const nice = x => { const p = 10 ** Math.floor(Math.log10(x)); return [1, 2, 5, 10].map(k => k * p).reduce((a, b) =>
    Math.abs(Math.log(b / x)) < Math.abs(Math.log(a / x)) ? b : a); };
  const usual = Math.abs(length) < 2 ? nice(Math.max(Math.abs(length) / 6, 1e-12)) : Math.abs(length) <= 30 ? 1 : nice(Math.abs(length) / 20);
  state.speed = data.speed || usual;
  const seek = s => {
    const sign = length >= 0 ? 1 : -1;
    state.s = sign * Math.min(Math.max(sign * s, sign * begin), sign * end);
    for (const listener of state.listeners) listener(state.s);
  };

  // ---- the drawing -----------------------------------------------------------------------------------------------
  const space = data.drawing.dimension === 3;
  const canvas = element("canvas", { role: "img", "aria-label": `Drawing of the motion${space ? ", which the arrow keys turn" : ""}` });
  if (space) { canvas.classList.add("turns"); canvas.tabIndex = 0; }
  const turn = { azimuth: -0.87, height: 0.42 };
  const [low, high] = data.drawing.box;
  const middle = low.map((x, i) => (x + high[i]) / 2);
  const spans = low.map((x, i) => Math.max(high[i] - x, 1e-12));
  let palette = colours(), view = null;

  // The camera follows what travels: what moves and has a size, if it is much smaller than its way. camera: its centre and
  // the size of the picture around it; null for a picture of the whole way.
  const camera = (() => {
    const d = low.length, frames = scenes[0].t.length, boxes = [];
    if (!data.drawing.equal && !space) return null;
    for (let f = 0; f < frames; f++) {
      const a = Array(d).fill(Infinity), b = Array(d).fill(-Infinity);
      for (const scene of scenes) {
        const k = index(scene.t, scenes[0].t[f]);
        for (const shape of scene.shapes) if (!shape.fixed) for (let i = 0; i < shape.points * d; i++) {
          const x = shape.at[k * shape.points * d + i];
          if (Number.isFinite(x)) { a[i % d] = Math.min(a[i % d], x); b[i % d] = Math.max(b[i % d], x); }
        }
      }
      boxes.push([a, b]);
    }
    const reach = Math.max(1, Math.round(frames / 20));  // frames before and after, over which its way is smoothed
    const centres = boxes.map((_, f) => low.map((_, j) => {
      const near = boxes.slice(Math.max(0, f - reach), f + reach + 1).filter(([a]) => Number.isFinite(a[j]));
      return near.reduce((sum, [a, b]) => sum + (a[j] + b[j]) / 2, 0) / (near.length || 1);
    }));
    const own = Math.max(...boxes.flatMap(([a, b]) => a.map((x, j) => b[j] - x)).filter(Number.isFinite));
    const reached = Math.max(...boxes.flatMap(([a, b], f) => a.map((x, j) => Math.max(b[j] - centres[f][j], centres[f][j] - x))).filter(Number.isFinite));
    const size = Math.max(2.6 * reached, 4 * own), whole = Math.max(...spans);
    return own > 0.002 * whole && size < 0.6 * whole ? { centres, size } : null;
  })();
  const follow = element("button", { type: "button", id: "follow", "aria-pressed": "true" }, "Whole way");
  let following = camera !== null, focus = middle;
  follow.addEventListener("click", () => {
    following = !following; focus = middle;
    follow.textContent = following ? "Whole way" : "Follow"; follow.setAttribute("aria-pressed", String(following));
    measure(); draw();
  });
  const aim = () => {
    if (!following) return;
    const t = scenes[0].t, k = index(t, state.s), next = Math.min(k + 1, t.length - 1), gap = t[next] - t[k];
    const s = gap ? Math.min(Math.max((state.s - t[k]) / gap, 0), 1) : 0;
    focus = camera.centres[k].map((x, j) => x + s * (camera.centres[next][j] - x));
  };

  const project = space
    ? (x, y, z) => {
        const a = x - focus[0], b = y - focus[1], c = z - focus[2];
        const ca = Math.cos(turn.azimuth), sa = Math.sin(turn.azimuth), ch = Math.cos(turn.height), sh = Math.sin(turn.height);
        const right = ca * b - sa * a, away = ca * a + sa * b;
        return [view.x + view.k * right, view.y - view.k * (ch * c - sh * away), ch * away + sh * c];
      }
    : (x, y) => [view.x + view.kx * (x - focus[0]), view.y - view.ky * (y - focus[1]), 0];

  const measure = () => {
    const width = canvas.clientWidth || 600;
    const shown = following ? spans.map((_, i) => i === 1 && !space ? 0.55 * camera.size : camera.size) : spans;
    const across = space ? Math.hypot(shown[0], shown[1]) : 0;
    const [w, h] = space ? [across, Math.cos(turn.height) * shown[2] + Math.sin(turn.height) * across] : shown;
    const equal = data.drawing.equal || space;
    const room = Math.min(560, Math.max(220, window.innerHeight * 0.62));
    const inner = width - 90;
    const height = Math.round(Math.min(room, Math.max(190, equal ? inner * h / w + 80 : width * 0.55)));
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    view = { x: width / 2 + (space ? 0 : 14), y: height / 2 - (space ? 0 : 8), width, height, ratio };
    if (space) view.k = Math.min((width - 60) / w, (height - 56) / h);
    else {
      view.kx = inner / w; view.ky = (height - 76) / h;
      if (equal) view.kx = view.ky = Math.min(view.kx, view.ky);
    }
  };

  // Points of a shape at frame k + s, and their number.
  const points = (shape, k, s) => {
    const size = shape.points * data.drawing.dimension, out = new Float64Array(size);
    const a = shape.fixed ? 0 : k * size, b = shape.fixed || s === 0 ? a : a + size;
    for (let i = 0; i < size; i++) out[i] = shape.at[a + i] + s * (shape.at[b + i] - shape.at[a + i]);
    return out;
  };
  const place = (at, i) => project(...(space ? [at[3 * i], at[3 * i + 1], at[3 * i + 2]] : [at[2 * i], at[2 * i + 1]]));
  const path = (context, found, closed) => {
    context.beginPath();
    found.forEach(([x, y], i) => i ? context.lineTo(x, y) : context.moveTo(x, y));
    if (closed) context.closePath();
  };
  const rim = (at, count = 64) => {
    const d = data.drawing.dimension, out = [];
    for (let i = 0; i <= count; i++) {
      const c = Math.cos(2 * Math.PI * i / count), s = Math.sin(2 * Math.PI * i / count);
      out.push(project(...[...Array(d).keys()].map(j => at[j] + c * (at[d + j] - at[j]) + s * (at[2 * d + j] - at[j]))));
    }
    return out;
  };

  const draw = () => {
    if (!view) return;
    aim();
    const context = canvas.getContext("2d");
    context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    context.lineJoin = context.lineCap = "round";
    frame(context);
    const things = [];
    scenes.forEach((scene, run) => {
      const k = index(scene.t, state.s), last = scene.t.length - 1;
      const gap = k < last ? scene.t[k + 1] - scene.t[k] : 0;
      const s = gap ? Math.min(Math.max((state.s - scene.t[k]) / gap, 0), 1) : 0;
      for (const shape of scene.shapes) things.push(...parts(shape, scene, run, k, s));
    });
    things.sort((a, b) => a.layer - b.layer || (space ? b.depth - a.depth : 0));
    for (const thing of things) { context.save(); thing.paint(context); context.restore(); }
    canvas.dataset.drawn = String(Number(canvas.dataset.drawn || 0) + 1);
  };

  // What to paint of a shape, with its distance.
  const parts = (shape, scene, run, k, s) => {
    const at = points(shape, k, s), line = shape.fixed ? palette.faint : palette.lines[many ? run % 8 : 0];
    const spot = shape.fixed ? palette.faint : palette.lines[many ? run % 8 : 1];
    const found = [];
    const all = [...Array(shape.points).keys()].map(i => place(at, i));
    const depth = all.reduce((sum, p) => sum + p[2], 0) / all.length;
    if (shape.kind === "rod") {
      const layer = shape.fixed && !space ? 0 : 3;
      if (space) all.slice(1).forEach((p, i) => found.push({ layer: 3, depth: (p[2] + all[i][2]) / 2, paint: c => {
        c.strokeStyle = line; c.lineWidth = shape.fixed ? 1 : 3; path(c, [all[i], p]); c.stroke(); } }));
      else found.push({ layer, depth, paint: c => {
        c.strokeStyle = line; c.lineWidth = shape.fixed ? 1.5 : 3.5; path(c, all); c.stroke(); } });
    } else if (shape.kind === "body") {
      for (let i = 0; i < shape.points; i += shape.face) {
        const corners = all.slice(i, i + shape.face);
        found.push({ layer: space ? 3 : 2, depth: corners.reduce((sum, p) => sum + p[2], 0) / corners.length, paint: c => {
          path(c, corners, true);
          c.fillStyle = palette.card; c.globalAlpha = space ? 0.55 : 1; c.fill();
          c.globalAlpha = space ? 0.3 : 0.28; c.fillStyle = line; c.fill();
          c.globalAlpha = 1; c.strokeStyle = line; c.lineWidth = 1.8; c.stroke(); } });
      }
    } else if (shape.kind === "wheel") {
      found.push({ layer: 3, depth, paint: c => {
        path(c, rim(at), true); c.fillStyle = line; c.globalAlpha = 0.14; c.fill(); c.globalAlpha = 1;
        c.strokeStyle = line; c.lineWidth = 2.6; c.stroke();
        const [centre, tip] = all; path(c, [[2 * centre[0] - tip[0], 2 * centre[1] - tip[1]], tip]); c.lineWidth = 1.4; c.stroke();
        c.beginPath(); c.arc(tip[0], tip[1], 3.2, 0, 7); c.fillStyle = palette.lines[many ? run % 8 : 1]; c.fill(); } });
    } else if (shape.kind === "ball") {
      found.push(...globe(at, shape.fixed ? 0 : 3, shape.fixed ? palette.faint : line));
    } else {
      if (shape.trail && !shape.fixed) found.push(...trails(shape, scene, run, k, at));
      all.forEach(p => found.push({ layer: 5, depth: p[2], paint: c => {
        c.beginPath(); c.arc(p[0], p[1], shape.fixed ? 3 : 6.5, 0, 7); c.fillStyle = spot; c.fill();
        if (!shape.fixed) { c.strokeStyle = palette.card; c.lineWidth = 1.5; c.stroke(); } } }));
    }
    return found;
  };

  // The whole way, thin, and the last part of it, strong. What lies behind a ball is thinner.
  const trails = (shape, scene, run, k, at) => {
    const tint = palette.lines[many ? run % 8 : 1], d = data.drawing.dimension, found = [];
    const back = index(scene.t, state.s - length * 0.12), frames = scene.t.length;
    for (let i = 0; i < shape.points; i++) {
      const one = f => project(...[...Array(d).keys()].map(j => shape.at[(f * shape.points + i) * d + j]));
      found.push({ layer: 1, depth: 0, paint: c => {
        c.strokeStyle = tint; c.lineWidth = 1.3;
        const whole = []; for (let f = 0; f < frames; f++) whole.push(one(f));
        for (const hidden of [false, true]) {
          c.globalAlpha = hidden ? 0.2 : 0.55; c.beginPath();
          whole.forEach((p, f) => { if (f && (balls && p[2] > 0) === hidden) { c.moveTo(whole[f - 1][0], whole[f - 1][1]); c.lineTo(p[0], p[1]); } });
          c.stroke();
        } } });
      found.push({ layer: 4, depth: 0, paint: c => {
        c.strokeStyle = tint; c.lineWidth = 2.4;
        const tail = []; for (let f = back; f <= k; f++) tail.push(one(f));
        tail.push(place(at, i));
        for (let f = 1; f < tail.length; f++) {
          c.globalAlpha = 0.85 * (f / tail.length) * (balls && tail[f][2] > 0 ? 0.35 : 1); path(c, [tail[f - 1], tail[f]]); c.stroke();
        } } });
    }
    return found;
  };
  const balls = scenes.some(scene => scene.shapes.some(shape => shape.kind === "ball" && shape.fixed));

  // One that stands still is the globe on which something moves, behind all; one that moves is a thing among others.
  const globe = (at, layer, tint) => {
    const radius = Math.hypot(at[3] - at[0], at[4] - at[1], at[5] - at[2]), centre = project(at[0], at[1], at[2]), found = [];
    found.push({ layer, depth: centre[2], paint: c => {
      const r = view.k * radius, shade = c.createRadialGradient(centre[0] - 0.35 * r, centre[1] - 0.4 * r, 0.1 * r, centre[0], centre[1], r);
      shade.addColorStop(0, palette.card); shade.addColorStop(1, palette.line);
      c.beginPath(); c.arc(centre[0], centre[1], r, 0, 7); c.fillStyle = shade; c.globalAlpha = 0.75; c.fill();
      c.globalAlpha = 1; c.strokeStyle = tint; c.lineWidth = layer ? 2 : 1; c.stroke();
      const ring = f => { for (const front of [false, true]) {
        if (layer && !front) continue;
        c.globalAlpha = front ? 0.55 : 0.16; c.lineWidth = 0.7; c.beginPath();
        let before = null;
        for (let i = 0; i <= 72; i++) { const [x, y, z] = f(2 * Math.PI * i / 72), p = project(at[0] + radius * x, at[1] + radius * y, at[2] + radius * z);
          if (before && (p[2] <= centre[2]) === front) { c.moveTo(before[0], before[1]); c.lineTo(p[0], p[1]); } before = p; }
        c.stroke(); } };
      for (let i = -2; i <= 2; i++) { const a = i * Math.PI / 6; ring(s => [Math.cos(a) * Math.cos(s), Math.cos(a) * Math.sin(s), Math.sin(a)]); }
      for (let i = 0; i < 6; i++) { const a = i * Math.PI / 6; ring(s => [Math.cos(a) * Math.cos(s), Math.sin(a) * Math.cos(s), Math.sin(s)]); }
    } });
    return found;
  };

  const ticks = (a, b, count) => {
    const raw = (b - a) / Math.max(count, 1), p = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map(x => x * p).find(x => x >= raw * 0.999), out = [];
    for (let x = Math.ceil(a / step - 1e-9) * step; x <= b + 1e-9 * step; x += step) out.push(Math.abs(x) < 1e-9 * step ? 0 : x);
    return out;
  };
  const frame = context => {
    context.font = "11px system-ui, sans-serif"; context.fillStyle = palette.soft; context.strokeStyle = palette.line; context.lineWidth = 1;
    if (space) { cage(context); return; }
    const left = 46, bottom = view.height - 26, right = view.width - 8, top = 8;
    const toX = px => (px - view.x) / view.kx + focus[0], toY = py => (view.y - py) / view.ky + focus[1];
    context.textAlign = "center"; context.textBaseline = "top";
    for (const x of ticks(toX(left), toX(right), view.width / 90)) {
      const px = project(x, 0)[0];
      context.beginPath(); context.moveTo(px, top); context.lineTo(px, bottom); context.stroke(); context.fillText(number(x), px, bottom + 5);
    }
    context.textAlign = "right"; context.textBaseline = "middle";
    for (const y of ticks(toY(bottom), toY(top), view.height / 60)) {
      const py = project(0, y)[1];
      context.beginPath(); context.moveTo(left, py); context.lineTo(right, py); context.stroke(); context.fillText(number(y), left - 6, py);
    }
    context.textAlign = "right"; context.fillText(data.drawing.axes[0], right, bottom - 9);
    context.textAlign = "left"; context.fillText(data.drawing.axes[1], left + 6, top + 6);
  };
  // Three axes at the corner of the box that lies behind.
  const cage = context => {
    const corner = low.slice(), tips = [0, 1, 2].map(i => corner.map((x, j) => j === i ? high[j] : x));
    const from = project(...corner);
    tips.forEach((tip, i) => { const to = project(...tip);
      path(context, [from, to]); context.strokeStyle = palette.faint; context.stroke();
      context.textAlign = "center"; context.textBaseline = "middle";
      context.fillText(data.drawing.axes[i] || "xyz"[i], to[0] + 0.06 * (to[0] - from[0]) + (to[0] === from[0] ? 0 : 6), to[1] + 0.06 * (to[1] - from[1])); });
  };
  if (space) {
    let grip = null;
    const spin = (right, up) => { turn.azimuth -= 0.01 * right; turn.height = Math.min(1.5, Math.max(-1.5, turn.height + 0.01 * up)); draw(); };
    canvas.addEventListener("keydown", e => {
      const way = { ArrowLeft: [-10, 0], ArrowRight: [10, 0], ArrowUp: [0, -10], ArrowDown: [0, 10] }[e.key];
      if (way && !e.ctrlKey && !e.metaKey && !e.altKey) { spin(...way); e.preventDefault(); e.stopPropagation(); } });
    canvas.addEventListener("pointerdown", e => { grip = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", e => { if (!grip) return;
      spin(e.clientX - grip[0], e.clientY - grip[1]); grip = [e.clientX, e.clientY]; });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { grip = null; });
  }
  state.listeners.push(draw);

  // ---- what plays ------------------------------------------------------------------------------------------------
  const button = element("button", { type: "button", class: "play", id: "play" }, "▶ Play");
  const slider = element("input", { type: "range", id: "time", min: 0, max: 1000, step: "any", value: 0, "aria-label": "time" });
  const clock = element("output", { for: "time", id: "clock" });
  const speeds = [0.1, 0.25, 0.5, 1, 2, 4, 10].map(x => x * state.speed);
  const speed = element("select", { id: "speed", "aria-label": "units of time per second" },
    ...speeds.map(x => element("option", { value: String(x), ...(x === state.speed ? { selected: "" } : {}) }, `${number(x)} per second`)));
  let before = null;
  const tick = now => {
    if (!state.playing) return;
    if (before !== null) {
      let s = state.s + Math.sign(length || 1) * state.speed * Math.min(now - before, 200) / 1000;
      if (Math.abs(s - begin) >= Math.abs(length)) s = begin;
      seek(s);
    }
    before = now;
    requestAnimationFrame(tick);
  };
  const play = on => {
    state.playing = on && length !== 0;
    button.textContent = state.playing ? "❚❚ Stop" : "▶ Play";
    button.setAttribute("aria-pressed", String(state.playing));
    before = null;
    if (state.playing) requestAnimationFrame(tick);
  };
  button.addEventListener("click", () => play(!state.playing));
  slider.addEventListener("input", () => { play(false); seek(begin + length * slider.value / 1000); });
  speed.addEventListener("change", () => { state.speed = Number(speed.value); });
  const digits = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(Math.abs(length) || 1))));
  state.listeners.push(s => {
    slider.value = length ? 1000 * (s - begin) / length : 0;
    clock.textContent = `t = ${s.toFixed(digits)}`;
    slider.setAttribute("aria-valuetext", clock.textContent);
  });
  document.addEventListener("keydown", e => {
    if (["SELECT", "TEXTAREA"].includes(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
    const step = length / 200 * (e.shiftKey ? 10 : 1);
    if (e.key === " ") { if (e.target === button || e.target.tagName === "SUMMARY") return; play(!state.playing); }
    else if (e.key === "ArrowRight" || e.key === "ArrowLeft") { play(false); seek(state.s + (e.key === "ArrowRight" ? step : -step)); }
    else if (e.key === "Home") { play(false); seek(begin); }
    else if (e.key === "End") { play(false); seek(end); }
    else return;
    e.preventDefault();
  });

  // ---- diagrams --------------------------------------------------------------------------------------------------
  const redraw = [];
  const range = values => {
    let a = Infinity, b = -Infinity;
    for (const y of values) if (Number.isFinite(y)) { if (y < a) a = y; if (y > b) b = y; }
    if (a > b) return [0, 1];
    const largest = Math.max(Math.abs(a), Math.abs(b));
    // A range that is made of rounding errors of the numbers themselves would show them as a motion.
    if (b - a <= 2e-7 * largest) { const half = 0.05 * largest || 1; return [(a + b) / 2 - half, (a + b) / 2 + half]; }
    return [a - 0.06 * (b - a), b + 0.06 * (b - a)];
  };
  // A diagram is as high as its box asks for: what paints it calls sizeOf first.
  let HEIGHT = 200;
  const sizeOf = box => { HEIGHT = box.classList.contains("large") ? Math.max(200, Math.min(560, window.innerHeight - 200)) : 200; };
  const enlarge = box => {
    const button = element("button", { type: "button", class: "enlarge", title: "larger or smaller", "aria-label": "enlarge the diagram", "aria-pressed": "false" }, "⤢");
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(box.classList.toggle("large")));
      refresh(); box.scrollIntoView({ block: "nearest" });
    });
    box.append(button);
    return box;
  };
  const LEFT = 52, RIGHT = 10, TOP = 8, BOTTOM = 32;
  // names: of what is along the axes; the diagrams over time say the second one in their title.
  const axes = (root, width, x, y, log, names) => {
    const toX = v => LEFT + (v - x[0]) / (x[1] - x[0]) * (width - LEFT - RIGHT);
    const toY = v => HEIGHT - BOTTOM - (v - y[0]) / (y[1] - y[0]) * (HEIGHT - TOP - BOTTOM);
    for (const v of ticks(x[0], x[1], width / 75)) {
      root.append(svg("line", { class: "rule", x1: toX(v), x2: toX(v), y1: TOP, y2: HEIGHT - BOTTOM }));
      root.append(svg("text", { x: toX(v), y: HEIGHT - 18, "text-anchor": "middle" }, number(v)));
    }
    root.append(svg("text", { x: width - RIGHT, y: HEIGHT - 4, "text-anchor": "end" }, names[0]));
    if (names[1]) root.append(svg("text", { x: LEFT + 5, y: TOP + 9 }, names[1]));
    const marks = log ? decades(y) : ticks(y[0], y[1], HEIGHT / 40);
    for (const v of marks) {
      root.append(svg("line", { class: v === 0 && !log ? "zero" : "rule", x1: LEFT, x2: width - RIGHT, y1: toY(v), y2: toY(v) }));
      root.append(svg("text", { x: LEFT - 5, y: toY(v) + 4, "text-anchor": "end" }, log ? `1e${v}` : number(v)));
    }
    root.append(svg("path", { class: "axis", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${width - RIGHT}` }));
    return [toX, toY];
  };
  const decades = ([a, b]) => {
    const step = Math.max(1, Math.ceil((b - a) / 5)), out = [];
    for (let v = Math.ceil(a); v <= b; v += step) out.push(v);
    return out;
  };
  const line = (xs, ys) => {
    let d = "", on = false;
    for (let i = 0; i < xs.length; i++) {
      if (Number.isFinite(xs[i]) && Number.isFinite(ys[i])) { d += `${on ? "L" : "M"}${xs[i].toFixed(1)} ${ys[i].toFixed(1)}`; on = true; } else on = false;
    }
    return d;
  };
  const FLOOR = -17;  // a residual that is zero has no logarithm
  const scaled = (y, log) => log ? y.map(v => v > 0 ? Math.max(Math.log10(v), FLOOR) : v === 0 ? FLOOR : NaN) : y;

  const diagram = panel => {
    const series = panel.series.map((one, i) => ({ ...one, t: floats(one.t), y: scaled(floats(one.y), panel.log), tint: many ? one.run : i }));
    const bounds = panel.bounds.map(one => ({ t: floats(one.t), y: floats(one.y), tint: one.run }));
    const key = element("div", { class: "key" }), values = [];
    series.forEach(one => {
      const sample = svg("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" });
      const stroke = svg("path", { d: "M0 4H22", fill: "none", "stroke-width": 2.2, "stroke-dasharray": dashes(one.tint) });
      stroke.style.stroke = colour(one.tint); sample.append(stroke);
      const value = element("span"); values.push(value);
      key.append(element("span", {}, sample, series.length > 1 ? one.name : "", value));
    });
    const root = svg("svg", { class: "plot", role: "img", "aria-label": `${panel.title} over time` });
    const note = panel.note ? [element("span", { class: "note" }, panel.note)] : [];
    const box = element("figure", { class: "card panel" }, element("figcaption", {}, panel.title, ...note), key, root);
    let toX = null;
    const now = svg("line", { class: "now", y1: TOP });
    const move = s => {
      if (!toX) return;
      now.setAttribute("x1", toX(s)); now.setAttribute("x2", toX(s));
      series.forEach((one, i) => { const at = one.t.length ? one.y[index(one.t, s)] : NaN; values[i].textContent = panel.log ? number(10 ** at) : number(at); });
    };
    const paint = () => {
      sizeOf(box); now.setAttribute("y2", HEIGHT - BOTTOM);
      const width = Math.max(root.clientWidth || 0, 240);
      root.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`); root.setAttribute("height", HEIGHT);
      root.replaceChildren();
      const x = span(), every = [...series, ...bounds].flatMap(one => Array.from(one.y));
      let y = range(every);
      if (panel.log) { const real = every.filter(Number.isFinite); y = [Math.floor(Math.min(...real, 0) - 0.2), Math.ceil(Math.max(...real, FLOOR) + 0.2)]; }
      const [fx, fy] = axes(root, width, x, y, panel.log, ["t"]); toX = fx;
      for (const t of panel.ends) root.append(svg("line", { class: "end", x1: fx(t), x2: fx(t), y1: TOP, y2: HEIGHT - BOTTOM }));
      for (const one of bounds) { const p = svg("path", { class: "bound", d: line(Array.from(one.t, fx), Array.from(one.y, fy)) }); p.style.stroke = colour(one.tint); root.append(p); }
      for (const one of series) {
        const p = svg("path", { class: "curve", d: line(Array.from(one.t, fx), Array.from(one.y, fy)), "stroke-dasharray": dashes(one.tint) });
        if (one.dense) { p.setAttribute("stroke-width", "1"); p.removeAttribute("stroke-dasharray"); }
        p.style.stroke = colour(one.tint); root.append(p);
      }
      root.append(now); move(state.s);
    };
    const point = e => { const r = root.getBoundingClientRect(), x = span(), f = (e.clientX - r.left - LEFT) / (r.width - LEFT - RIGHT); play(false); seek(x[0] + f * (x[1] - x[0])); };
    root.addEventListener("pointerdown", e => { root.setPointerCapture(e.pointerId); point(e); });
    root.addEventListener("pointermove", e => { if (e.buttons) point(e); });
    redraw.push(paint); state.listeners.push(move);
    return enlarge(box);
  };
  let whole = null;
  const span = () => {
    if (!whole) {
      let a = Math.min(begin, end), b = Math.max(begin, end);
      for (const panel of data.panels) for (const one of panel.series) { const t = floats(one.t); if (t.length) { a = Math.min(a, t[0], t[t.length - 1]); b = Math.max(b, t[0], t[t.length - 1]); } }
      whole = b > a ? [a, b] : [a - 0.5, b + 0.5];
    }
    return whole;
  };

  const portrait = () => {
    const choice = element("select", { id: "phase", "aria-label": "coordinate of the phase portrait" }, ...data.phase.map((one, i) => element("option", { value: i }, one.name)));
    const root = svg("svg", { class: "plot", role: "img", "aria-label": "Phase portrait" });
    const caption = element("figcaption", {}, "phase portrait ", data.phase.length > 1 ? choice : element("span", { class: "note" }, `${data.phase[0].name} and d${data.phase[0].name}/dt`));
    const box = element("figure", { class: "card panel phase" }, caption, root);
    const spots = []; let curves = [], fx = null, fy = null;
    const move = s => { if (!fx) return;
      curves.forEach((one, i) => { const k = index(one.t, s), x = one.x[k], y = one.y[k];
        if (Number.isFinite(x) && Number.isFinite(y)) { spots[i].setAttribute("cx", fx(x)); spots[i].setAttribute("cy", fy(y)); } }); };
    const paint = () => {
      sizeOf(box);
      const { name } = data.phase[Number(choice.value || 0)];
      curves = data.phase[Number(choice.value || 0)].curves.map(one => ({ t: floats(one.t), x: floats(one.x), y: floats(one.y), dots: one.dots }));
      const width = Math.max(root.clientWidth || 0, 240);
      root.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`); root.setAttribute("height", HEIGHT); root.replaceChildren();
      [fx, fy] = axes(root, width, range(curves.flatMap(one => Array.from(one.x))), range(curves.flatMap(one => Array.from(one.y))), false, [name, `d${name}/dt`]);
      spots.length = 0;
      curves.forEach((one, run) => {
        const xs = Array.from(one.x, fx), ys = Array.from(one.y, fy);
        const d = one.dots ? xs.map((x, i) => Number.isFinite(x + ys[i]) ? `M${x.toFixed(1)} ${ys[i].toFixed(1)}h.01` : "").join("") : line(xs, ys);
        const p = svg("path", { class: "curve", d, ...(one.dots ? { "stroke-linecap": "round", "stroke-width": 2 } : {}) });
        p.style.stroke = colour(many ? run : 0); root.append(p);
        const spot = svg("circle", { r: 4.5 }); spot.style.fill = colour(many ? run : 1); spots.push(spot);
      });
      root.append(...spots); move(state.s);
    };
    choice.addEventListener("change", paint);
    redraw.push(paint); state.listeners.push(move);
    return enlarge(box);
  };

  // ---- words -----------------------------------------------------------------------------------------------------
  const table = rows => element("table", {}, element("tbody", {}, ...rows.map(([name, value]) => element("tr", {}, ...(name ? [element("th", { scope: "row" }, name), element("td", {}, value)] : [element("td", { colspan: 2 }, value)])))));
  // Runs that ended alike share their words.
  const alike = [];
  for (const run of data.runs) {
    const group = alike.find(([first]) => first.outcome === run.outcome && first.message === run.message);
    if (group) group.push(run); else alike.push([run]);
  }
  const whose = group => group.length > 2 && group.length === data.runs.length ? `all ${group.length} runs: ` : `${group.map(run => run.name).join(", ")}: `;
  const ending = group => element("section", { class: "run" },
    element("p", {}, many ? element("strong", {}, whose(group)) : "",
      element("span", { class: group[0].good ? "outcome" : "outcome bad" }, `${group[0].good ? "✓" : "✗"} ${group[0].outcome}`)),
    element("p", { class: "message" }, group[0].message),
    many ? element("details", {}, element("summary", {}, "numbers"),
      ...group.flatMap(run => [...(group.length > 1 ? [element("p", { class: "note" }, run.name)] : []), table(run.facts)])) : table(group[0].facts));
  const about = element("section", { class: "card", id: "about" }, element("h2", {}, "How it ended"), ...alike.map(ending));
  if (data.parameters.length) about.append(element("h2", { class: "second" }, "Parameters"), table(data.parameters));
  const again = element("section", { class: "card", id: "reproduce" }, element("h2", {}, "How to run it again"),
    ...(data.reproduce.length ? data.reproduce.map(([name, text]) => text.length > 90 || text.includes("\n")
      ? element("details", {}, element("summary", {}, name), element("pre", {}, text)) : table([[name, text]]))
      : [element("p", { class: "note" }, "This result carries no record of how it was computed.")]));

  const partly = data.drawing.part.some(Boolean) ? [element("p", { class: "note" }, `the drawing goes to t = ${number(end)}, as far as single frames can be followed`)] : [];
  const hint = space ? [element("span", { class: "note" }, "drag, or arrow keys on it, to turn")] : [];
  const stage = element("figure", { class: "card stage" }, canvas, element("div", { class: "controls" }, button, slider, clock, speed, ...(camera ? [follow] : []), ...hint), ...partly);
  if (many && data.runs.length) stage.append(element("div", { class: "key" }, ...data.runs.map((run, i) => {
    const sample = svg("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" }), stroke = svg("path", { d: "M0 4H22", "stroke-width": 3 });
    stroke.style.stroke = colour(i); sample.append(stroke);
    return element("span", {}, sample, run.name); })));
  const main = document.getElementById("main");
  if (data.runs.length) main.replaceChildren(element("div", { class: "top" }, stage, about),
    element("div", { class: "grid" }, ...data.panels.map(diagram), ...(data.phase.length ? [portrait()] : [])), again);
  else { main.replaceChildren(stage); document.body.classList.add("alone"); }

  const refresh = () => { palette = colours(); measure(); for (const paint of redraw) paint(); seek(state.s); };
  let waiting = 0;
  new ResizeObserver(() => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(refresh); }).observe(main);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  const paper = on => { document.documentElement.classList.toggle("paper", on); refresh(); };
  addEventListener("beforeprint", () => paper(true)); addEventListener("afterprint", () => paper(false));
  refresh();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) play(true);
})();
