// Curves that can be hovered, and on which a range can be picked.

import uPlot from "uplot";

export interface Line {
  label: string;
  values: (number | null)[];
  colour: string;
  dash?: number[];
}

export interface Curve {
  title: string;
  x: number[];
  lines: Line[];
  band?: { low: (number | null)[]; high: (number | null)[]; colour: string };
  xLabel: string;
  yLabel: string;
  yRange?: [number, number];
  mark?: { x: number; y: number | null } | null;
  onRange?: (low: number, high: number) => void;
  steps?: boolean;
  log?: boolean; // x in equal ratios
  dots?: boolean; // few values: each is marked
}

const ink = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#333";

/** Draws a curve into an element, as wide as it is; returns what takes it away. */
export function draw(element: HTMLElement, curve: Curve, height = 190): () => void {
  let plot: uPlot | null = null;
  const make = (): void => {
    plot?.destroy();
    element.replaceChildren();
    const reading = document.createElement("p");
    reading.className = "reading";
    const width = Math.max(element.clientWidth - 2, 160);
    plot = new uPlot(options(curve, width, height, reading), data(curve), element);
    element.append(reading);
    describe(plot.root, curve);
  };
  make();
  const sized = new ResizeObserver(() => {
    if (plot && Math.abs(plot.width - element.clientWidth) > 2 && element.clientWidth > 0) {
      plot.setSize({ width: element.clientWidth, height });
    }
  });
  sized.observe(element);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", make);
  return () => {
    sized.disconnect();
    dark.removeEventListener("change", make);
    plot?.destroy();
  };
}

function data(curve: Curve): uPlot.AlignedData {
  const columns = curve.lines.map((line) => line.values);
  const band = curve.band ? [curve.band.high, curve.band.low] : [];
  return [curve.x, ...columns, ...band] as uPlot.AlignedData;
}

function options(curve: Curve, width: number, height: number, reading: HTMLElement): uPlot.Options {
  const [text, line] = [ink("--soft"), ink("--line")];
  const axis = (label: string): uPlot.Axis => ({
    label,
    labelSize: 18,
    labelFont: "12px system-ui",
    font: "11px system-ui",
    stroke: text,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
    size: 40,
  });
  const paths = curve.steps ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
  const series: uPlot.Series[] = [
    { label: curve.xLabel },
    ...curve.lines.map(
      (one): uPlot.Series => ({
        label: one.label,
        stroke: one.colour,
        width: 2,
        dash: one.dash,
        points: { show: Boolean(curve.dots), size: 6 },
        spanGaps: Boolean(curve.dots),
        ...(paths ? { paths } : {}),
      }),
    ),
  ];
  const bands: uPlot.Band[] = [];
  if (curve.band) {
    const at = series.length;
    for (const label of ["upper", "lower"]) {
      series.push({ label, stroke: curve.band.colour, width: 0.5, points: { show: false } });
    }
    bands.push({ series: [at, at + 1], fill: curve.band.colour + "33" });
  }
  return {
    width,
    height,
    title: curve.title,
    scales: {
      x: curve.log ? { time: false, distr: 3, log: 2 } : { time: false },
      y: curve.yRange ? { range: () => curve.yRange! } : {},
    },
    series,
    bands,
    axes: [axis(curve.xLabel), { ...axis(curve.yLabel), size: 46 }],
    cursor: { drag: { x: Boolean(curve.onRange), y: false, setScale: false }, points: { size: 6 } },
    legend: { show: false },
    hooks: {
      setCursor: [(plot) => reading.replaceChildren(...told(plot, curve))],
      setSelect: [
        (plot) => {
          if (!curve.onRange || plot.select.width < 2) return;
          const low = plot.posToVal(plot.select.left, "x");
          const high = plot.posToVal(plot.select.left + plot.select.width, "x");
          curve.onRange(low, high);
        },
      ],
      draw: curve.mark ? [(plot) => dot(plot, curve.mark!.x, curve.mark!.y)] : [],
    },
  };
}

/** The values under the pointer, each in its colour; without one, what the lines are. */
function told(plot: uPlot, curve: Curve): HTMLElement[] {
  const at = plot.cursor.idx;
  const parts: [string, string][] = at == null ? [] : [["", `${curve.xLabel} ${short(curve.x[at]!)}`]];
  for (const line of curve.lines) {
    const value = at == null ? null : line.values[at];
    parts.push([line.colour, value == null ? line.label : `${line.label} ${short(value)}`]);
  }
  const [low, high] = [at == null ? null : curve.band?.low[at], at == null ? null : curve.band?.high[at]];
  if (low != null && high != null) parts.push(["", `(${short(low)} to ${short(high)})`]);
  return parts.map(([colour, text]) => {
    const part = document.createElement("span");
    part.textContent = text;
    if (colour) part.style.borderLeft = `10px solid ${colour}`; // the text itself keeps its contrast
    return part;
  });
}

function dot(plot: uPlot, x: number, y: number | null): void {
  const across = plot.valToPos(x, "x", true);
  const drawing = plot.ctx;
  drawing.save();
  drawing.strokeStyle = ink("--accent");
  drawing.lineWidth = 1.5 * devicePixelRatio;
  drawing.setLineDash([4, 3]);
  drawing.beginPath();
  drawing.moveTo(across, plot.bbox.top);
  drawing.lineTo(across, plot.bbox.top + plot.bbox.height);
  drawing.stroke();
  if (y != null) {
    drawing.setLineDash([]);
    drawing.fillStyle = ink("--accent");
    drawing.beginPath();
    drawing.arc(across, plot.valToPos(y, "y", true), 4.5 * devicePixelRatio, 0, 2 * Math.PI);
    drawing.fill();
  }
  drawing.restore();
}

function describe(root: HTMLElement, curve: Curve): void {
  root.setAttribute("role", "img");
  const drag = curve.onRange ? "; drag across it to see a range on the map" : "";
  root.setAttribute("aria-label", `${curve.title}: ${curve.yLabel} by ${curve.xLabel}${drag}`);
}

/** A number in few digits. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "";
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}
