// Colours of maps. A style turns numbers into pixels; NaN is left transparent.

export type Style =
  | { kind: "ramp"; ramp: Ramp; low: number; high: number }
  | { kind: "threshold"; value: number }
  | { kind: "classes"; colours: Record<number, string> }
  | { kind: "range"; low: number; high: number; colour: string };

export type Ramp = "viridis" | "magma" | "similarity" | "novelty";

const STOPS: Record<Ramp, string[]> = {
  viridis: ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58",
    "#b5de2b", "#fde725"],
  magma: ["#fcfdbf", "#fec98d", "#fd9567", "#f1605d", "#cd4071", "#9e2f7f", "#721f81", "#440f76",
    "#180f3d", "#000004"],
  similarity: ["#67001f", "#b2182b", "#d6604d", "#f4a582", "#fddbc7", "#d1e5f0", "#92c5de",
    "#4393c3", "#2166ac", "#053061"],
  novelty: ["#7f2704", "#be6b39", "#fdae6b", "#fffbe3", "#f7f0c5", "#f0e6a8", "#bcaee0", "#7d57ae",
    "#3f007d"],
};
export const PRESENCE = ["#f2e3bc", "#0f766e"];
export const CHANGE: Record<number, string> = {
  0: "#f2e3bc", 1: "#c2410c", 2: "#0f766e", 3: "#60a5fa",
};
export const CHANGE_NAMES = ["neither", "lost", "kept", "gained"];
export const CLASSES = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948",
  "#9c755f", "#ff9da7", "#1f4e79", "#8cd17d", "#7f3b08", "#d4a6c8", "#2b6b66", "#b6992d", "#79706e"];

const SHARES = ["cloglog", "cloglog_lower", "cloglog_upper", "logistic", "probability", "probability_lower",
  "probability_upper", "replicates_mean", "scenarios_mean", "effort"]; // maps from 0 to 1

const parts = (colour: string): number[] =>
  [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

const packed = (colour: string): number => {
  const [r = 0, g = 0, b = 0] = parts(colour);
  return (255 << 24) | (b << 16) | (g << 8) | r; // little-endian RGBA
};

const tables = new Map<Ramp, Uint32Array>();

function table(ramp: Ramp): Uint32Array {
  const known = tables.get(ramp);
  if (known) return known;
  const stops = STOPS[ramp].map(parts);
  const made = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (stops.length - 1);
    const at = Math.min(Math.floor(place), stops.length - 2);
    const share = place - at;
    const mixed = [0, 1, 2].map((c) =>
      Math.round((1 - share) * stops[at]![c]! + share * stops[at + 1]![c]!),
    );
    made[i] = (255 << 24) | (mixed[2]! << 16) | (mixed[1]! << 8) | mixed[0]!;
  }
  tables.set(ramp, made);
  return made;
}

/** The pixels of numbers in a style. */
export function paint(values: Float32Array, style: Style, into: Uint32Array): void {
  if (style.kind === "ramp") {
    const colours = table(style.ramp);
    const scale = 255 / (style.high - style.low || 1);
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      const place = (value - style.low) * scale;
      into[i] = value === value ? colours[place < 0 ? 0 : place > 255 ? 255 : place | 0]! : 0;
    }
  } else if (style.kind === "threshold") {
    const [absent, present] = [packed(PRESENCE[0]!), packed(PRESENCE[1]!)];
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      into[i] = value === value ? (value >= style.value ? present : absent) : 0;
    }
  } else if (style.kind === "classes") {
    const colours = new Map<number, number>();
    for (const [code, colour] of Object.entries(style.colours)) {
      colours.set(Number(code), packed(colour));
    }
    for (let i = 0; i < values.length; i++) into[i] = colours.get(Math.round(values[i]!)) ?? 0;
  } else {
    const colour = packed(style.colour);
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      into[i] = value >= style.low && value <= style.high ? colour : 0;
    }
  }
}

/** A strip of the colours of a ramp, as a CSS background. */
export const gradient = (ramp: Ramp): string => `linear-gradient(to right, ${STOPS[ramp].join(", ")})`;

/** How a map of a kind is shown, from its own range of values. */
export function styleOf(kind: string, low: number, high: number, classes: Record<string, string> | null): Style {
  if (kind === "change") return { kind: "classes", colours: CHANGE };
  if (kind === "presence") return { kind: "classes", colours: { 0: PRESENCE[0]!, 1: PRESENCE[1]! } };
  if (kind === "mod" && classes) {
    const codes = Object.keys(classes).map(Number).sort((a, b) => a - b);
    return {
      kind: "classes",
      colours: Object.fromEntries(codes.map((code, i) => [code, CLASSES[i % CLASSES.length]!])),
    };
  }
  if (SHARES.includes(kind)) {
    return { kind: "ramp", ramp: "viridis", low: 0, high: 1 };
  }
  if (kind === "cumulative") return { kind: "ramp", ramp: "viridis", low: 0, high: 100 };
  if (kind === "exdet") return { kind: "ramp", ramp: "novelty", low: -1, high: 2 };
  if (kind === "mess") {
    const end = Math.min(100, Math.max(10, Math.abs(low), Math.abs(high)));
    return { kind: "ramp", ramp: "similarity", low: -end, high: end };
  }
  if (kind === "environment" || kind === "space" || kind.startsWith("apart_")) {
    const end = Math.min(20, Math.max(0.1, Math.abs(low), Math.abs(high)));
    return { kind: "ramp", ramp: "similarity", low: -end, high: end };
  }
  if (["clamping", "replicates_sd", "scenarios_sd"].includes(kind)) {
    return { kind: "ramp", ramp: "magma", low: 0, high: Math.max(high, 0.01) };
  }
  return { kind: "ramp", ramp: "viridis", low, high: high > low ? high : low + 1 };
}
