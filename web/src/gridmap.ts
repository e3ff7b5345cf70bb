// A map in the cells of a raster's own grid: nothing is warped, and a cell keeps its value.

import L from "leaflet";
import type { Grid } from "./api";
import { paint, type Style } from "./colours";

export type TileSource = (z: number, x: number, y: number, signal: AbortSignal) => Promise<Float32Array>;

export interface Point {
  x: number;
  y: number;
  colour: string;
  edge?: string;
  radius?: number;
  label?: string;
  faded?: boolean;
  id?: number;
}

const SIZE = 256;

interface Painted extends HTMLCanvasElement {
  values?: Float32Array;
  stop?: AbortController;
}

/** Tiles of numbers, coloured here: another style needs no new tiles. */
const NumberLayer = L.GridLayer.extend({
  initialize(this: any, source: TileSource, style: Style, options: L.GridLayerOptions) {
    L.Util.setOptions(this, options);
    this.source = source;
    this.style = style;
    this.on("tileunload", (event: any) => (event.tile as Painted).stop?.abort());
  },
  createTile(this: any, at: L.Coords, done: L.DoneCallback): HTMLElement {
    const tile = document.createElement("canvas") as Painted;
    tile.width = tile.height = SIZE;
    tile.stop = new AbortController();
    this.source(at.z, at.x, at.y, tile.stop.signal).then(
      (values: Float32Array) => {
        tile.values = values;
        this.colour(tile);
        done(undefined, tile);
      },
      (error: Error) => {
        if (error.name !== "AbortError") this.fire("unreadable", { error });
        done(error, tile);
      },
    );
    return tile;
  },
  colour(this: any, tile: Painted): void {
    const drawing = tile.getContext("2d");
    if (!tile.values || !drawing) return;
    const image = drawing.createImageData(SIZE, SIZE);
    paint(tile.values, this.style, new Uint32Array(image.data.buffer));
    drawing.putImageData(image, 0, 0);
  },
  setStyle(this: any, style: Style): void {
    this.style = style;
    for (const held of Object.values(this._tiles) as { el: Painted }[]) this.colour(held.el);
  },
  /** The value under a place of the grid, from the tile that shows it. */
  valueAt(this: any, row: number, column: number, zooms: number): number | null {
    for (const held of Object.values(this._tiles) as { el: Painted; coords: L.Coords; current: boolean }[]) {
      if (!held.el.values || !held.current) continue;
      const step = 2 ** (zooms - held.coords.z);
      const across = Math.floor(column / step) - held.coords.x * SIZE;
      const down = Math.floor(row / step) - held.coords.y * SIZE;
      if (across >= 0 && across < SIZE && down >= 0 && down < SIZE) {
        const value = held.el.values[down * SIZE + across]!;
        return Number.isNaN(value) ? null : value;
      }
    }
    return null;
  },
}) as any;

export class GridMap {
  readonly leaflet: L.Map;
  private layers = new Map<string, any>();
  private points = new Map<string, L.LayerGroup>();
  private readonly canvas = L.canvas({ padding: 0.3 });
  private mark: L.CircleMarker | null = null;
  unreadable: (why: string) => void = () => undefined; // told why a piece cannot be drawn, "" at each new try
  gone = false; // another map may have taken its place before all who use it know
  readonly zooms: number;
  private readonly sizes: ResizeObserver;

  constructor(
    element: HTMLElement,
    readonly grid: Grid,
    zooms?: number,
  ) {
    this.zooms = zooms ?? levels(grid);
    const scale = 2 ** -this.zooms;
    const stretch = this.stretch();
    const crs = L.extend({}, L.CRS.Simple, {
      transformation: new L.Transformation(scale, 0, scale * stretch, 0),
    }) as L.CRS;
    const bounds = L.latLngBounds([0, 0], [grid.height, grid.width]);
    this.leaflet = L.map(element, {
      crs,
      minZoom: -6,
      maxZoom: this.zooms + 6,
      zoomSnap: 0.25,
      zoomDelta: 0.75,
      wheelPxPerZoomLevel: 90,
      attributionControl: false,
      maxBounds: bounds.pad(0.6),
      preferCanvas: true,
      fadeAnimation: false,
      zoomAnimation: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    });
    this.leaflet.fitBounds(bounds);
    this.sizes = new ResizeObserver(() => this.leaflet.invalidateSize({ pan: false }));
    this.sizes.observe(element);
    this.leaflet.createPane("lines").style.zIndex = "450";
  }

  /** A degree of longitude is shorter away from the equator; whole pixels per tile. */
  private stretch(): number {
    const [a = 1, , , , e = -1, f = 0] = this.grid.transform;
    let ratio = Math.abs(e / a) || 1;
    if (this.grid.geographic) {
      const middle = f + (e * this.grid.height) / 2;
      ratio /= Math.max(Math.cos((middle * Math.PI) / 180), 0.2);
    }
    return Math.round(SIZE * ratio) / SIZE;
  }

  // -- coordinates -----------------------------------------------------------------------------

  place(x: number, y: number): L.LatLng {
    const [a = 1, b = 0, c = 0, d = 0, e = -1, f = 0] = this.grid.transform;
    const determinant = a * e - b * d;
    const row = (a * (y - f) - d * (x - c)) / determinant;
    const column = (e * (x - c) - b * (y - f)) / determinant;
    return L.latLng(row, column);
  }

  /** x of a place on the grid, which may lie a turn around the earth away. */
  turned(x: number): number {
    const { transform, turn, width } = this.grid;
    const ends = [transform[2] ?? 0, (transform[2] ?? 0) + (transform[0] ?? 1) * width];
    if (!turn || (x >= Math.min(...ends) && x <= Math.max(...ends))) return x;
    return x - turn * Math.round((x - (ends[0]! + ends[1]!) / 2) / turn);
  }

  coordinates(at: L.LatLng): { x: number; y: number } {
    const [a = 1, b = 0, c = 0, d = 0, e = -1, f = 0] = this.grid.transform;
    return { x: a * at.lng + b * at.lat + c, y: d * at.lng + e * at.lat + f };
  }

  inside(at: L.LatLng): boolean {
    return at.lat >= 0 && at.lat < this.grid.height && at.lng >= 0 && at.lng < this.grid.width;
  }

  onClick(act: (x: number, y: number) => void): void {
    this.leaflet.on("click", (event) => {
      if (!this.inside(event.latlng)) return;
      const { x, y } = this.coordinates(event.latlng);
      act(x, y);
    });
  }

  onHover(tell: (x: number, y: number, value: number | null) => void, layer = "main"): void {
    this.leaflet.on("mousemove", (event) => {
      const { x, y } = this.coordinates(event.latlng);
      const shown = this.layers.get(layer);
      const known = shown && this.inside(event.latlng);
      tell(x, y, known ? shown.valueAt(event.latlng.lat, event.latlng.lng, this.zooms) : null);
    });
  }

  // -- what is shown -----------------------------------------------------------------------------

  show(name: string, source: TileSource, style: Style, opacity = 1, order = 1): void {
    if (this.gone) return;
    this.hide(name);
    const stretch = this.stretch();
    const bounds = L.latLngBounds([0, 0], [this.grid.height, this.grid.width]);
    const layer = new NumberLayer(source, style, {
      tileSize: L.point(SIZE, SIZE * stretch),
      minNativeZoom: 0,
      maxNativeZoom: this.zooms,
      minZoom: -6,
      maxZoom: this.zooms + 6,
      bounds,
      noWrap: true,
      opacity,
      zIndex: order,
      keepBuffer: 2,
      updateWhenIdle: false,
      className: "numbers",
    });
    layer.on("unreadable", ({ error }: { error: Error }) => this.unreadable(error.message));
    layer.on("loading", () => this.unreadable(""));
    layer.addTo(this.leaflet);
    this.layers.set(name, layer);
  }

  hide(name: string): void {
    if (this.gone) return;
    this.layers.get(name)?.remove();
    this.layers.delete(name);
  }

  style(name: string, style: Style): void {
    this.layers.get(name)?.setStyle(style);
  }

  opacity(name: string, value: number): void {
    this.layers.get(name)?.setOpacity(value);
  }

  setPoints(name: string, points: Point[], act?: (point: Point) => void): void {
    if (this.gone) return;
    this.points.get(name)?.remove();
    const group = L.layerGroup();
    for (const point of points) {
      const dot = L.circleMarker(this.place(this.turned(point.x), point.y), {
        renderer: this.canvas,
        radius: point.radius ?? 4,
        color: point.edge ?? "#111",
        weight: 1,
        fillColor: point.colour,
        fillOpacity: point.faded ? 0.25 : 0.95,
        opacity: point.faded ? 0.5 : 1,
        bubblingMouseEvents: !act,
      });
      if (point.label) {
        const text = document.createElement("span");
        text.textContent = point.label; // names come from files
        dot.bindTooltip(text);
      }
      if (act) dot.on("click", () => act(point));
      dot.addTo(group);
    }
    group.addTo(this.leaflet);
    this.points.set(name, group);
  }

  setRings(name: string, rings: number[][][], dash?: string): void {
    if (this.gone) return;
    this.points.get(name)?.remove();
    const group = L.layerGroup();
    for (const ring of rings) {
      const corners = ring.map(([x = 0, y = 0]) => this.place(x, y));
      const both = [
        { color: "#000", weight: 3.5 },
        { color: "#fff", weight: 1.5, dashArray: dash },
      ];
      for (const line of both) {
        L.polygon(corners, { ...line, fill: false, interactive: false, pane: "lines" }).addTo(group);
      }
    }
    group.addTo(this.leaflet);
    this.points.set(name, group);
  }

  setMark(x: number, y: number): void {
    if (this.gone) return;
    this.mark?.remove();
    this.mark = L.circleMarker(this.place(x, y), {
      radius: 9,
      color: "#fff",
      weight: 3,
      fill: false,
      interactive: false,
      pane: "lines",
    }).addTo(this.leaflet);
    this.mark.bindTooltip("this place").getElement();
  }

  centre(): { x: number; y: number } {
    return this.coordinates(this.leaflet.getCenter());
  }

  /** Two maps that move together, until the function that comes back is called. */
  follow(other: GridMap): () => void {
    let busy = false;
    const mirror = (one: GridMap, two: GridMap) => (): void => {
      if (busy || one.gone || two.gone) return;
      busy = true;
      two.leaflet.setView(one.leaflet.getCenter(), one.leaflet.getZoom(), { animate: false });
      busy = false;
    };
    const [there, back] = [mirror(this, other), mirror(other, this)];
    this.leaflet.on("move", there);
    other.leaflet.on("move", back);
    return () => {
      this.leaflet.off("move", there);
      other.leaflet.off("move", back);
    };
  }

  remove(): void {
    this.gone = true;
    this.sizes.disconnect(); // its element has no size any more
    this.leaflet.remove();
    this.leaflet.off(); // it tells of a change of size a moment later, when it is gone
  }
}

/** Zoom levels until all of a grid is one tile, as the server counts them. */
export function levels(grid: Grid): number {
  let zooms = 0;
  while (Math.min(grid.width, grid.height) >> zooms > SIZE) zooms++;
  return zooms;
}
