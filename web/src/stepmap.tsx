// The map beside the steps: records on a layer, to be left out, and regions to be drawn.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import L from "leaflet";
import { api, serverTile, type Choices } from "./api";
import { CLASSES, styleOf } from "./colours";
import type { GridMap, Point } from "./gridmap";
import { Legend, MapView } from "./mapview";
import { useAnswer } from "./parts";
import { speciesColour } from "./species";
import { choose, drawRegion } from "./store";
import { fateColour, shownSpecies, visitColour, type Surveyed } from "./surveys";

export function StepMap({
  choices,
  surveyed,
  shown,
  drawing,
  onDrawn,
}: {
  choices: Choices;
  surveyed: Surveyed;
  shown: string | null;
  drawing: "Polygon" | "Rectangle" | "drop" | null;
  onDrawn: () => void;
}): JSX.Element {
  const [map, setMap] = useState<GridMap | null>(null);
  const grid = surveyed.grid;
  const records = surveyed.records.answer;
  const rows = surveyed.layers.answer?.layers ?? [];
  const layer = rows.find((row) => row.name === shown) ?? rows.find((row) => !choices.layers.without?.includes(row.name)) ?? rows[0];
  const background = layer ? JSON.stringify([layer.file, layer.band]) : null;
  const facts = useAnswer(background, () => api.map(layer!.file, layer!.band)).answer;
  const style = useMemo(() => {
    if (!layer || !facts) return null;
    if (layer.levels) {
      const codes = Array.from({ length: 64 }, (_, i) => i + Math.floor(facts.low));
      return { kind: "classes" as const, colours: Object.fromEntries(codes.map((code, i) => [code, CLASSES[i % CLASSES.length]!])) };
    }
    return styleOf("layer", facts.low, facts.high, null);
  }, [background, facts, layer?.levels]);
  const same = facts && grid && facts.width === grid.width && facts.height === grid.height;

  useEffect(() => {
    if (!map || !layer || !style || !same) {
      map?.hide("main");
      return;
    }
    map.show("main", (z, x, y, signal) => serverTile({ file: layer.file, band: layer.band }, z, x, y, signal), style, 0.9);
  }, [map, background, style, same]);

  const left = useMemo(() => new Set(rowsOf(choices.records.leave_out ?? [])), [choices.records.leave_out]);
  useEffect(() => {
    if (!map || !records) {
      map?.setPoints("records", []);
      return;
    }
    const points: Point[] = [];
    const order = records.species.map((one) => one.name);
    for (const one of shownSpecies(records, choices.species)) {
      const own = order.length > 1 ? speciesColour(order.indexOf(one.name)) : null;
      one.x.forEach((x, i) => {
        const y = one.y[i];
        if (x == null || y == null) return;
        const fate = one.fate[i]!;
        points.push({
          x,
          y,
          id: one.row[i]!,
          colour: own && (fate === "used" || fate.startsWith("read")) ? own : fateColour(fate),
          faded: fate !== "used" && !(own && fate.startsWith("read")),
          label: `${one.name}, row ${one.row[i]}: ${fate}${one.doubt[i] ? ` (doubtful: ${one.doubt[i]})` : ""}`,
        });
      });
    }
    map.setPoints("records", points, (point) => {
      const next = new Set(left);
      if (!next.delete(point.id!)) next.add(point.id!);
      leaveOut(choices, next);
    });
    map.setRings("study", shownSpecies(records, choices.species).flatMap((one) => one.study));
  }, [map, records, choices.species, left]);

  const visits = surveyed.visits.answer;
  useEffect(() => {
    const points: Point[] = [];
    for (const file of visits?.files ?? []) {
      file.x.forEach((x, i) => {
        const [y, found] = [file.y[i], file.found[i]!];
        if (x == null || y == null) return;
        points.push({ x, y, colour: visitColour(found), faded: !found, label: `${file.path}: ${found ? "found" : "a visit in vain"}` });
      });
    }
    map?.setPoints("visits", points);
  }, [map, visits]);

  const cut = surveyed.extent.answer;
  useEffect(() => map?.setRings("extent", cut?.rings ?? [], "6 5"), [map, cut]);

  useEffect(() => {
    if (!map || !drawing) return;
    const pm = (map.leaflet as any).pm;
    const create = (event: any): void => {
      const corners = (event.layer.getLatLngs()[0] as L.LatLng[]).map((at) => {
        const { x, y } = map.coordinates(at);
        return [x, y];
      });
      event.layer.remove();
      pm.disableDraw();
      if (drawing === "drop" && records) {
        const [xs, ys] = [corners.map((c) => c[0]!), corners.map((c) => c[1]!)];
        const next = new Set(left);
        for (const one of shownSpecies(records, choices.species)) {
          one.x.forEach((x, i) => {
            const y = one.y[i];
            if (x == null || y == null) return;
            const at = map.turned(x); // where it is drawn
            const within = at >= Math.min(...xs) && at <= Math.max(...xs) && y >= Math.min(...ys) && y <= Math.max(...ys);
            if (within) next.add(one.row[i]!);
          });
        }
        leaveOut(choices, next);
      } else {
        void drawRegion([corners], grid?.definition ?? null);
      }
      onDrawn();
    };
    pm.enableDraw(drawing === "drop" ? "Rectangle" : drawing, { snappable: false, continueDrawing: false });
    map.leaflet.once("pm:create", create);
    return () => {
      map.leaflet.off("pm:create", create);
      pm.disableDraw();
    };
  }, [map, drawing]);

  if (!grid) {
    return (
      <div class="mapview empty">
        <p>The map appears when records or layers are chosen.</p>
      </div>
    );
  }
  return (
    <MapView grid={grid} label="map of records and layers" onWorld={api.world} onReady={setMap} tall>
      {style && layer && same && style.kind === "ramp" ? <Legend style={style} label={layer.name} /> : null}
    </MapView>
  );
}

function leaveOut(choices: Choices, rows: Set<number>): void {
  const { leave_out: _, ...rest } = choices.records;
  void choose({ records: rows.size ? { ...rest, leave_out: [inWords([...rows])] } : rest });
}

/** Rows from words such as 12, 30-35 or 12,40. */
export function rowsOf(words: string[]): number[] {
  return words
    .flatMap((word) => word.split(","))
    .filter(Boolean)
    .flatMap((word) => {
      const [first = 0, last = first] = word.split("-").map(Number);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    });
}

/** Rows as the command takes them. */
export function inWords(rows: number[]): string {
  const parts: number[][] = [];
  for (const row of rows.sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && row === last.at(-1)! + 1) last.push(row);
    else parts.push([row]);
  }
  return parts.map((part) => (part.length > 2 ? `${part[0]}-${part.at(-1)}` : part.join(","))).join(",");
}
