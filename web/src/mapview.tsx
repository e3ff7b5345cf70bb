// A map with its legend, opacity and reading of values.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Grid, World } from "./api";
import { CHANGE_NAMES, gradient, PRESENCE, type Style } from "./colours";
import { short } from "./curves";
import { GridMap, levels } from "./gridmap";
import { drawWorld } from "./world";

export function MapView({
  grid,
  zooms,
  label,
  onWorld,
  onReady,
  children,
  tall,
}: {
  grid: Grid;
  zooms?: number;
  label: string;
  onWorld: (grid: Grid) => Promise<World | null>; // asks for what lies under the map
  onReady: (map: GridMap) => void;
  children?: ComponentChildren;
  tall?: boolean;
}): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [under, setUnder] = useState("");
  const [wrong, setWrong] = useState("");
  const key = JSON.stringify([grid.transform, grid.width, grid.height, zooms ?? levels(grid)]);
  useEffect(() => {
    const map = new GridMap(place.current!, grid, zooms);
    map.onHover((x, y, value) =>
      setUnder(`${short(x)}, ${short(y)}${value == null ? "" : `: ${short(value)}`}`),
    );
    map.unreadable = setWrong;
    onReady(map);
    onWorld(grid).then(
      (world) => world && !map.gone && drawWorld(map, world),
      () => undefined, // a map without coasts is a map
    );
    return () => map.remove();
  }, [key]);
  return (
    <div class={`mapview${tall ? " tall" : ""}`}>
      <div class="map" ref={place} role="application" aria-label={label} />
      {wrong ? (
        <p class="trouble" role="alert">
          Part of this map cannot be drawn: {wrong}
        </p>
      ) : null}
      <p class="under" aria-hidden="true">
        {under || grid.words}
      </p>
      {children}
    </div>
  );
}

export function Legend({ style, label, names }: { style: Style; label: string; names?: Record<string, string> | null }): JSX.Element {
  if (style.kind === "ramp") {
    return (
      <div class="legend">
        <span>{label}</span>
        <span class="n">{short(style.low)}</span>
        <span class="strip" style={{ background: gradient(style.ramp) }} />
        <span class="n">{short(style.high)}</span>
      </div>
    );
  }
  let entries: [string, string][] = [];
  if (style.kind === "threshold") {
    entries = [
      [PRESENCE[0]!, `below ${short(style.value)}`],
      [PRESENCE[1]!, `${short(style.value)} or more`],
    ];
  } else if (style.kind === "classes") {
    entries = Object.entries(style.colours).map(([code, colour]) => [
      colour,
      names?.[code] ?? CHANGE_NAMES[Number(code)] ?? code,
    ]);
  }
  return (
    <div class="legend">
      <span>{label}</span>
      {entries.map(([colour, name]) => (
        <span key={name} class="class">
          <span class="box" style={{ background: colour }} /> {name}
        </span>
      ))}
    </div>
  );
}
