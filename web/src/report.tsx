// The interactive map of report.html: all of its numbers are inside the page.

import { render, type JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import "leaflet/dist/leaflet.css";
import "uplot/dist/uPlot.min.css";
import "./world.css";
import "./report.css";
import type { Grid, Response1, Share, Threshold, Why, World } from "./api";
import { styleOf, type Style } from "./colours";
import { short } from "./curves";
import { levels, type GridMap, type TileSource } from "./gridmap";
import { Legend, MapView } from "./mapview";
import { ResponseCurve } from "./responses";
import { cutOf, ThresholdControl } from "./threshold";
import { WhyPanel } from "./why";

interface Packed {
  values: string; // gzip of numbers, in base64
  low?: number; // of numbers that are stored as shares of a range
  high?: number;
}

interface Variable {
  name: string;
  categorical: boolean;
  usual: number | null;
  low: number | null;
  high: number | null;
  levels: number[] | null;
  values: Packed;
  shares: Packed;
}

interface Embedded {
  species: string;
  grid: Grid;
  world: World | null;
  base: number;
  maps: { kind: string; label: string; values: Packed }[];
  variables: Variable[];
  ends: [Packed, Packed] | null; // of intervals
  mess: Packed | null;
  most_dissimilar: Packed | null;
  exdet: Packed | null;
  records: { x: number[]; y: number[]; test: boolean[] };
  study: number[][][];
  thresholds: Threshold[];
  rule: string;
  responses: Response1[];
}

const SIZE = 256;

async function unpacked(packed: Packed): Promise<Float32Array> {
  const bytes = Uint8Array.from(atob(packed.values), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  if (packed.low === undefined || packed.high === undefined) return new Float32Array(buffer);
  const codes = new Uint16Array(buffer); // 65535 is not known
  const step = (packed.high - packed.low) / 65534;
  return Float32Array.from(codes, (code) => (code === 65535 ? NaN : packed.low! + code * step));
}

/** Tiles cut out of a whole raster, every so many cells at low zooms. */
function tilesOf(values: Float32Array, grid: Grid): TileSource {
  const zooms = levels(grid);
  return async (z, x, y) => {
    const tile = new Float32Array(SIZE * SIZE).fill(NaN);
    const step = 2 ** (zooms - z);
    for (let row = 0; row < SIZE; row++) {
      const from = Math.floor((y * SIZE + row + 0.5) * step);
      if (from >= grid.height) break;
      for (let column = 0; column < SIZE; column++) {
        const at = Math.floor((x * SIZE + column + 0.5) * step);
        if (at >= grid.width) break;
        tile[row * SIZE + column] = values[from * grid.width + at]!;
      }
    }
    return tile;
  };
}

function View({ data }: { data: Embedded }): JSX.Element {
  const [map, setMap] = useState<GridMap | null>(null);
  const [rasters, setRasters] = useState<Map<string, Float32Array>>(new Map());
  const [kind, setKind] = useState(data.maps[0]!.kind);
  const [cut, setCut] = useState(() => cutOf(data.thresholds, data.rule));
  const [why, setWhy] = useState<Why | null>(null);
  const [range, setRange] = useState<{ variable: string; low: number; high: number } | null>(null);
  const shown = data.maps.find((one) => one.kind === kind)!;

  const raster = async (name: string, packed: Packed): Promise<Float32Array> => {
    const known = rasters.get(name);
    if (known) return known;
    const made = await unpacked(packed);
    rasters.set(name, made);
    return made;
  };

  const style = useMemo<Style>(() => {
    if (cut.shown) return { kind: "threshold", value: cut.value };
    const values = rasters.get(kind);
    let [low, high] = [Infinity, -Infinity];
    for (const v of values ?? []) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
    return styleOf(kind, low, high, null);
  }, [cut.shown, cut.value, kind, rasters]);

  useEffect(() => {
    if (!map) return;
    void raster(kind, shown.values).then((values) => {
      setRasters(new Map(rasters));
      map.show("main", tilesOf(values, data.grid), style);
    });
  }, [map, kind]);
  useEffect(() => map?.style("main", style), [map, style]);

  const explain = async (x: number, y: number): Promise<void> => {
    if (!map) return;
    map.setMark(x, y);
    const at = map.place(x, y);
    const cell = Math.floor(at.lat) * data.grid.width + Math.floor(at.lng);
    const suitability = (await raster("cloglog", data.maps[0]!.values))[cell]!;
    if (Number.isNaN(suitability)) {
      setWhy({ known: false, said: "No data at this place." } as Why);
      return;
    }
    const shares: Share[] = [];
    for (const one of data.variables) {
      const here = (await raster(`value ${one.name}`, one.values))[cell]!;
      const share = (await raster(`share ${one.name}`, one.shares))[cell]!;
      const outside = one.categorical
        ? !(one.levels ?? []).includes(here)
        : here < (one.low ?? -Infinity) || here > (one.high ?? Infinity);
      shares.push({ variable: one.name, value: here, usual: one.usual, share, low: one.low, high: one.high, outside });
    }
    shares.sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
    const one = async (name: string, packed: Packed | null): Promise<number | null> =>
      packed ? (await raster(name, packed))[cell]! : null;
    const which = await one("mod", data.most_dissimilar);
    const ends = data.ends ? [await one("lower", data.ends[0]), await one("upper", data.ends[1])] : null;
    const values = new Map(shares.map((share) => [share.variable, Number(share.value)]));
    setWhy({
      known: true,
      said: "",
      x,
      y,
      outputs: { cloglog: suitability },
      exponent: NaN,
      base: data.base,
      shares,
      mess: await one("mess", data.mess),
      most_dissimilar: which == null || which < 0 ? null : data.variables[which]!.name,
      exdet: await one("exdet", data.exdet),
      intervals: ends ? { cloglog: ends as [number, number] } : {},
      curves: data.responses.map((curve) => {
        const at = values.get(curve.variable)!;
        return { variable: curve.variable, x: at, y: curve.categorical ? null : onCurve(curve, at) };
      }),
    });
  };

  useEffect(() => {
    if (!map) return;
    map.onClick((x, y) => void explain(x, y));
    map.setRings("study", data.study);
    map.setPoints(
      "records",
      data.records.x.map((x, i) => ({ x, y: data.records.y[i]!, radius: 3, colour: data.records.test[i] ? "#d946ef" : "#ffffff" })),
    );
  }, [map]);

  useEffect(() => {
    if (!map) return;
    const variable = data.variables.find((one) => one.name === range?.variable);
    if (!range || !variable) {
      map.hide("range");
      return;
    }
    void raster(`value ${variable.name}`, variable.values).then((values) =>
      map.show("range", tilesOf(values, data.grid), { kind: "range", low: range.low, high: range.high, colour: "#e11d48" }, 0.65, 5),
    );
  }, [map, range]);

  return (
    <div class="interactive">
      {data.maps.length > 1 ? (
        <div class="row">
          <label>
            Show{" "}
            <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
              {data.maps.map((one) => (
                <option key={one.kind} value={one.kind}>
                  {one.label}
                </option>
              ))}
            </select>
          </label>
        </div>
      ) : null}
      <ThresholdControl rules={data.thresholds} cut={cut} onCut={setCut} />
      <div class="pair">
        <MapView
          grid={data.grid}
          label="interactive map; click a place to be told why"
          onWorld={async () => data.world}
          onReady={setMap}
          tall
        >
          <Legend style={style} label={shown.label} />
        </MapView>
        <div aria-live="polite">
          {why ? (
            <WhyPanel told={why} />
          ) : (
            <p>
              Click a place on the map to be told why it is suitable or not.{" "}
              <button
                type="button"
                class="small"
                onClick={() => {
                  const centre = map?.centre();
                  if (centre) void explain(centre.x, centre.y);
                }}
              >
                ask at the middle of the map
              </button>
            </p>
          )}
        </div>
      </div>
      {range ? (
        <p>
          Marked: {range.variable} from {short(range.low)} to {short(range.high)}{" "}
          <button type="button" class="small" onClick={() => setRange(null)}>
            clear
          </button>
        </p>
      ) : null}
      <div class="grid">
        {data.responses
          .filter((curve) => !curve.categorical)
          .map((curve) => (
            <ResponseCurve
              key={curve.variable}
              curve={curve}
              why={why}
              height={170}
              onRange={(low, high) => setRange({ variable: curve.variable, low, high })}
            />
          ))}
      </div>
    </div>
  );
}

function onCurve(curve: Response1, at: number): number | null {
  const xs = curve.x as number[];
  const after = xs.findIndex((x) => x >= at);
  if (after <= 0) return curve.y[after === 0 ? 0 : curve.y.length - 1] ?? null;
  const share = (at - xs[after - 1]!) / (xs[after]! - xs[after - 1]! || 1);
  return (1 - share) * curve.y[after - 1]! + share * curve.y[after]!;
}

const held = document.getElementById("map-data");
const place = document.getElementById("interactive-map");
if (held && place && "DecompressionStream" in globalThis) {
  const data = JSON.parse(held.textContent ?? "{}") as Embedded;
  place.hidden = false;
  render(<View data={data} />, place);
}
