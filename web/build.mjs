// Bundles the page of `maxent app` and the map of the report into the Python package.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { world } from "./world.mjs";

const page = "../src/maxent/app/page";
const report = "../src/maxent/species/report/bundle";
const target = process.argv[2]; // another folder, to compare a fresh build with what is shipped
const places = target ? [join(target, "page"), join(target, "bundle")] : [page, report];

const common = {
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  loader: { ".png": "dataurl" },
  logLevel: "warning",
};

for (const place of places) {
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place, { recursive: true });
}
await build({ ...common, entryPoints: { app: "src/main.tsx" }, outdir: places[0] });
await build({ ...common, entryPoints: { map: "src/report.tsx" }, outdir: places[1] });
cpSync("src/index.html", join(places[0], "index.html"));
writeFileSync(join(places[1], "world.json"), world()); // Python draws it, and cuts it for the pages

// what is inside the bundles, with its licence
const inside = [];
const lock = JSON.parse(readFileSync("package-lock.json", "utf8")).packages;
for (const [where, facts] of Object.entries(lock)) {
  if (!where || facts.dev || where.includes("@types/")) continue;
  const text = readdirSync(where).find((name) => /^(licen[cs]e|copying)/i.test(name));
  const name = where.replace(/^.*node_modules\//, "");
  const words = text ? readFileSync(join(where, text), "utf8").trim() : `License: ${facts.license}`;
  inside.push(`${name} ${facts.version}\n${"=".repeat(60)}\n${words}\n`);
}
const licences = `Libraries in the bundles of this folder.\n\n${inside.join("\n")}`;
for (const place of places) writeFileSync(join(place, "LICENCES.txt"), licences);

for (const place of places) {
  for (const name of readdirSync(place)) {
    const content = readFileSync(join(place, name));
    const digest = createHash("sha256").update(content).digest("hex").slice(0, 12);
    console.log(`${name.padEnd(14)} ${String(content.length).padStart(8)} bytes  ${digest}`);
  }
}
