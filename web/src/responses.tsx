// A response curve: suitability along one variable.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Response1, Why } from "./api";
import type { Curve } from "./curves";
import { Curves } from "./parts";

const COLOUR = "#0f9f92";

export function ResponseCurve({
  curve,
  why,
  onRange,
  height,
}: {
  curve: Response1;
  why: Why | null;
  onRange: (low: number, high: number) => void;
  height?: number;
}): JSX.Element {
  const at = why?.known ? why.curves.find((one) => one.variable === curve.variable) : undefined;
  const made = useMemo<Curve>(
    () => ({
      title: curve.variable,
      x: curve.x as number[],
      lines: [{ label: "suitability", values: curve.y, colour: COLOUR }],
      band: curve.low && curve.high ? { low: curve.low, high: curve.high, colour: COLOUR } : undefined,
      xLabel: curve.variable,
      yLabel: "suitability",
      yRange: [0, 1],
      mark: at ? { x: Number(at.x), y: at.y } : null,
      onRange,
    }),
    [curve, at?.x, at?.y],
  );
  return <Curves curve={made} height={height} />;
}
