// Coastlines and borders of Natural Earth (public domain) as short texts, for maps without a network.
import { readFileSync } from "node:fs";
import { mesh } from "topojson-client";
import { planarTriangleArea, presimplify, simplify } from "topojson-simplify";

const STEPS = 100; // of a degree: a kilometre, and finer than the lines
// square degrees of the smallest corner that stays; the coarse lines are few already
const CORNERS = { "110m": 0, "50m": 0.0004 };

/** Lines in whole steps, cut where an edge follows the date line or crosses it. */
function pieces(lines) {
  const made = [];
  for (const line of lines) {
    let piece = [];
    const end = () => {
      if (piece.length > 1) made.push(piece);
      piece = [];
    };
    for (const corner of line) {
      const [x, y] = corner.map((degrees) => Math.round(degrees * STEPS));
      const before = piece.at(-1);
      if (before && before[0] === x && before[1] === y) continue;
      const along = before && Math.abs(x) >= 179.99 * STEPS && Math.abs(before[0]) >= 179.99 * STEPS;
      const across = before && Math.abs(x - before[0]) > 180 * STEPS;
      if (along || across || y <= -89.9 * STEPS) end();
      if (y > -89.9 * STEPS) piece.push([x, y]);
    }
    end();
  }
  return made;
}

/** Differences of neighbours in letters, as in Google's encoded polylines. */
function encoded(piece) {
  let [text, before] = ["", [0, 0]];
  for (const corner of piece) {
    for (const axis of [0, 1]) {
      const step = corner[axis] - before[axis];
      let rest = step < 0 ? -2 * step - 1 : 2 * step;
      for (; rest >= 32; rest >>= 5) text += String.fromCharCode(63 + (32 | (rest & 31)));
      text += String.fromCharCode(63 + rest);
    }
    before = corner;
  }
  return text;
}

/** The text of world.json: of each resolution its coasts and its borders. */
export function world() {
  const told = {};
  for (const [resolution, corner] of Object.entries(CORNERS)) {
    const whole = JSON.parse(readFileSync(`node_modules/world-atlas/countries-${resolution}.json`, "utf8"));
    const few = simplify(presimplify(whole, planarTriangleArea), corner);
    const lines = (which) => pieces(mesh(few, few.objects.countries, which).coordinates).map(encoded);
    told[resolution] = { coast: lines((a, b) => a === b), borders: lines((a, b) => a !== b) };
  }
  return `${JSON.stringify(told)}\n`;
}
