// What lies under a map: coasts, borders, a graticule, and a scale bar that is true at its middle.

import L from "leaflet";
import type { World } from "./api";
import type { GridMap } from "./gridmap";

const PARTS = { coast: "coasts", borders: "borders", graticule: "graticule" } as const;
type Part = keyof typeof PARTS;

/** Draws them, with a switch for each; the next map begins as this one was left. */
export function drawWorld(map: GridMap, world: World): void {
  const { leaflet } = map;
  const pane = leaflet.createPane("world");
  pane.style.zIndex = "350"; // above the numbers, below lines and records
  pane.style.pointerEvents = "none";
  const renderer = L.svg({ pane: "world", padding: 0.5 });
  const put = (group: L.LayerGroup, line: number[][], kind: string): void => {
    const corners = line.map(([x = 0, y = 0]) => map.place(x, y));
    L.polyline(corners, { renderer, interactive: false, className: `world ${kind}` }).addTo(group);
  };
  const groups: Record<Part, L.LayerGroup> = { coast: L.layerGroup(), borders: L.layerGroup(), graticule: L.layerGroup() };
  for (const part of ["borders", "coast"] as const) {
    for (const kind of ["edge", "line"]) {
      for (const line of world[part]) put(groups[part], line, `${part} ${kind}`);
    }
  }
  const named: L.LatLng[] = [];
  for (const { label, line } of world.graticule) {
    put(groups.graticule, line, "graticule line");
    if (!label) continue;
    const at = entry(map, line);
    if (!at || named.some((other) => close(map, at, other))) continue;
    named.push(at);
    const name = document.createElement("span");
    name.textContent = label;
    const icon = L.divIcon({ className: "degree", html: name, iconSize: [0, 0] });
    L.marker(at, { icon, pane: "world", interactive: false, keyboard: false }).addTo(groups.graticule);
  }
  const choice = L.control.layers(undefined, undefined, { position: "topright" });
  for (const part of Object.keys(PARTS) as Part[]) {
    if (!hidden.has(part)) groups[part].addTo(leaflet);
    choice.addOverlay(groups[part], PARTS[part]);
  }
  choice.addTo(leaflet);
  const parts = new Map<string, Part>((Object.keys(PARTS) as Part[]).map((part) => [PARTS[part], part]));
  leaflet.on("overlayadd", (event) => hidden.delete(parts.get(event.name)!));
  leaflet.on("overlayremove", (event) => hidden.add(parts.get(event.name)!));
  scaleBar(map, world);
}

/** Where a line enters the cells of the map. */
function entry(map: GridMap, line: number[][]): L.LatLng | null {
  for (const [i, [x1 = 0, y1 = 0]] of line.entries()) {
    const [x2 = x1, y2 = y1] = line[i + 1] ?? [];
    for (let step = 0; step < 64; step++) {
      const at = map.place(x1 + ((x2 - x1) * step) / 64, y1 + ((y2 - y1) * step) / 64);
      if (map.inside(at)) return at;
    }
  }
  return null;
}

const close = ({ grid }: GridMap, one: L.LatLng, other: L.LatLng): boolean =>
  Math.abs(one.lat - other.lat) < grid.height / 20 && Math.abs(one.lng - other.lng) < grid.width / 12;

const hidden = new Set<Part>(); // what was switched off

/** A round length on the ground along the middle of what is seen. */
function scaleBar(map: GridMap, world: World): void {
  const { leaflet } = map;
  const bar = new L.Control({ position: "bottomleft" });
  const place = L.DomUtil.create("div", "scale");
  place.title = "at the middle of what is seen";
  bar.onAdd = () => place;
  bar.addTo(leaflet);
  const measure = (): void => {
    const size = leaflet.getSize();
    const middle = leaflet.getCenter();
    const here = map.coordinates(middle);
    const aside = map.coordinates(leaflet.containerPointToLatLng([size.x / 2 + 100, size.y / 2]));
    const metres = (metresAt(world, here.x, here.y) * Math.abs(aside.x - here.x)) / 100; // of a pixel
    place.hidden = !(metres > 0);
    if (place.hidden) return;
    const most = 120 * metres;
    const ten = 10 ** Math.floor(Math.log10(most));
    const length = [5, 2, 1].map((part) => part * ten).find((one) => one <= most)!;
    place.style.width = `${length / metres}px`;
    place.textContent = length >= 1000 ? `${length / 1000} km` : `${length} m`;
  };
  leaflet.on("moveend zoomend resize", measure);
  measure();
}

/** Metres per unit of x, between the places at which the server measured them; 0 where it is not known. */
export function metresAt({ x: xs, y: ys, metres }: World, x: number, y: number): number {
  const [column, right] = between(xs, x);
  const [row, up] = between(ys, y);
  const at = (i: number, j: number): number => metres[Math.min(i, ys.length - 1)]![Math.min(j, xs.length - 1)]!;
  const corners = [at(row, column), at(row, column + 1), at(row + 1, column), at(row + 1, column + 1)];
  if (corners.some((one) => !(one > 0))) return Math.max(at(Math.round(row + up), Math.round(column + right)), 0);
  const below = corners[0]! * (1 - right) + corners[1]! * right;
  const above = corners[2]! * (1 - right) + corners[3]! * right;
  return below * (1 - up) + above * up;
}

function between(places: number[], at: number): [number, number] {
  const share = ((at - places[0]!) / (places.at(-1)! - places[0]!)) * (places.length - 1);
  const held = Math.min(Math.max(share, 0), places.length - 1);
  return [Math.floor(held), held % 1];
}
