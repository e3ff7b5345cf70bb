// A null distribution, and where the observed value lies in it.

import type { JSX } from "preact";
import { short } from "./curves";

const [WIDE, HIGH, LOW] = [260, 96, 16]; // the drawing, and the room for numbers below

interface Distribution {
  title: string;
  values: number[];
  observed: number;
  says?: string;
  limits?: [number, number]; // beyond which nothing can lie
}

export function Histogram({ title, values, observed, says, limits }: Distribution): JSX.Element | null {
  const known = values.filter(Number.isFinite);
  if (!known.length || !Number.isFinite(observed)) return null;
  const ends = [Math.min(...known, observed), Math.max(...known, observed)] as const;
  const room = Math.max(0.05 * (ends[1] - ends[0]), 1e-3 * Math.max(Math.abs(ends[0]), Math.abs(ends[1])), 1e-9);
  const [low, high] = [Math.max(ends[0] - room, limits?.[0] ?? -Infinity), Math.min(ends[1] + room, limits?.[1] ?? Infinity)];
  const bins = Math.min(25, Math.max(8, Math.floor(known.length / 4)));
  const counts = new Array<number>(bins).fill(0);
  for (const value of known) counts[Math.min(bins - 1, Math.floor(((value - low) / (high - low)) * bins))]!++;
  const most = Math.max(...counts);
  const at = (value: number): number => ((value - low) / (high - low)) * WIDE;
  return (
    <figure class="histogram">
      <figcaption>
        <strong>{title}</strong> <span class="soft">
          <span class="whole">observed {short(observed)}{says ? "," : ""}</span> {says ? <span class="whole">{says}</span> : null}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDE} ${HIGH + LOW}`}
        role="img"
        aria-label={`${title}: ${known.length} null models from ${short(Math.min(...known))} to ${short(Math.max(...known))}; observed ${short(observed)}`}
      >
        {counts.map((count, i) => (
          <rect
            key={i}
            class="bar"
            x={(i * WIDE) / bins + 0.5}
            width={WIDE / bins - 1}
            y={HIGH - ((HIGH - 8) * count) / most}
            height={((HIGH - 8) * count) / most}
          />
        ))}
        <line class="axis" x1="0" x2={WIDE} y1={HIGH} y2={HIGH} />
        <line class="observed" x1={at(observed)} x2={at(observed)} y1="0" y2={HIGH} />
        <text x="0" y={HIGH + 13}>
          {short(low)}
        </text>
        <text x={WIDE} y={HIGH + 13} text-anchor="end">
          {short(high)}
        </text>
      </svg>
    </figure>
  );
}
