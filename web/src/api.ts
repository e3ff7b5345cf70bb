// What the server says, and how it is asked.

import { either, fields, flag, list, maybe, number, oneOf, optional, table, text, value, type Check, type Of } from "./schema";

const texts = list(text);
const scalar = either(maybe(text), either(number, flag));
const rings = list(list(list(number)));

const gridFields = {
  transform: list(number),
  width: number,
  height: number,
  crs: maybe(text),
  definition: maybe(text), // the same for programs
  geographic: flag,
  turn: number, // how far along x lies the same place again, once around the earth; 0 for nowhere
  words: text,
};
const grid = fields(gridFields);
export type Grid = Of<typeof grid>;

const mapFacts = fields({ ...gridFields, zooms: number, size: number, low: number, high: number });

export const world = fields({
  coast: rings,
  borders: rings,
  graticule: list(fields({ label: text, line: list(list(number)) })),
  x: list(number),
  y: list(number),
  metres: list(list(number)), // per unit of x, in rows; 0 where the map is off the earth
});
export type World = Of<typeof world>;
export type MapFacts = Of<typeof mapFacts>;

export type Fields = Record<string, unknown>;

export interface Choices {
  records: Fields & { path?: string; leave_out?: string[]; basis?: string[]; max_uncertainty?: number };
  layers: Fields & { sources?: string[]; categorical?: string[]; without?: string[]; align?: string; crs?: string };
  study: Fields & { polygons?: string; hull?: boolean; buffer?: number; ecoregions?: string };
  settings: Fields;
  species: string[];
  background: string;
  background_file: string | null;
  projections: string[];
  test: string | null;
  surveys: string[];
  counts: string[];
  sources: Fields;
  out: string;
  tuning: Fields & { features?: string[]; multipliers?: number[] };
}

/** Fields by name: those that the page reads are of their kinds, the others are plain values. */
const chosen =
  (known: Record<string, Check<unknown>>): Check<Fields> =>
  (given, place) => {
    const plain = table(either(scalar, list(scalar)))(given, place);
    const read = Object.entries(known).filter(([name]) => Object.hasOwn(plain, name));
    return { ...plain, ...Object.fromEntries(read.map(([name, check]) => [name, check(plain[name], `${place}.${name}`)])) };
  };

const choices = fields({
  records: chosen({ path: text, leave_out: texts, basis: texts, max_uncertainty: optional(number) }),
  layers: chosen({ sources: texts, categorical: texts, without: texts, align: text, crs: optional(text) }),
  study: chosen({ polygons: optional(text), hull: flag, buffer: optional(number), ecoregions: optional(text) }),
  settings: chosen({}),
  species: texts,
  background: text,
  background_file: maybe(text),
  projections: texts,
  test: maybe(text),
  surveys: texts,
  counts: texts,
  sources: chosen({}),
  out: text,
  tuning: chosen({ features: texts, multipliers: list(number) }),
}) as Check<Choices>;

export const draft = fields({
  choices,
  example: flag, // whether they are those of the example
  command: text,
  script: text,
  lacks: text,
  tuning: fields({ command: text, lacks: text, notes: texts }),
  edits: number, // how many the server has seen
});
export type Draft = Of<typeof draft>;

const jobEvent = fields({
  kind: oneOf("note", "begin", "stage", "done", "progress", "candidate"),
  at: number,
  text: optional(text),
  species: optional(either(text, texts)),
  stage: optional(text),
  status: optional(text),
  error: optional(text),
  auc: optional(number),
  done: optional(number),
  total: optional(number),
  features: optional(text),
  potential: optional(text),
  multiplier: optional(number),
});

export const job = fields({
  number,
  kind: text,
  command: text,
  out: text,
  started: number,
  status: oneOf("running", "done", "stopped", "failed", "lost"),
  error: text,
  events: list(jobEvent),
});
export type Job = Of<typeof job>;

const run = fields({
  run: text,
  written: number,
  species: maybe(text),
  n_records: maybe(number),
  auc: maybe(number),
  test_auc: maybe(number),
  test_auc_of: maybe(text),
  gap: maybe(number),
});
export type Run = Of<typeof run>;
export const runs = list(run);
export const notes = texts;

const option = fields({
  help: text,
  group: maybe(text),
  default: either(scalar, texts),
  choices: list(maybe(text)),
  least: maybe(number),
  most: maybe(number),
  kind: text,
});
export type Option = Of<typeof option>;

const state = fields({
  version: text,
  folders: texts,
  viewing: flag,
  draft,
  options: table(option),
  source_options: table(option), // of surveys and counts
  rules: texts,
  jobs: list(job),
  runs,
  notes,
});
export type State = Of<typeof state>;

const listing = fields({
  folder: text,
  above: maybe(text),
  roots: texts,
  folders: list(fields({ name: text, path: text, rasters: number })),
  files: list(fields({ name: text, path: text, bytes: number })),
});
export type Listing = Of<typeof listing>;

const recordsAnswer = fields({
  species: list(
    fields({
      name: text,
      counts: table(number),
      x: list(maybe(number)),
      y: list(maybe(number)),
      row: list(number),
      fate: texts,
      doubt: texts,
      hidden: number,
      study: rings,
      region: text, // in words, with its area
      notes: texts,
    }),
  ),
  grid: maybe(grid),
  notes: texts,
});
export type RecordsAnswer = Of<typeof recordsAnswer>;

const visitFile = fields({
  path: text,
  kind: oneOf("survey", "counts"),
  error: text,
  visits: number,
  finds: number,
  columns: text,
  notes: texts,
  x: list(maybe(number)),
  y: list(maybe(number)),
  found: list(flag),
  hidden: number,
});
export type VisitFile = Of<typeof visitFile>;
const visitsAnswer = fields({ files: list(visitFile) });
export type VisitsAnswer = Of<typeof visitsAnswer>;

const layersAnswer = fields({
  layers: list(
    fields({
      name: text,
      label: text,
      file: text,
      band: number,
      crs: text,
      grid: text,
      difference: text,
      low: maybe(number),
      high: maybe(number),
      vif: maybe(number),
      vif_infinite: flag,
      categorical: flag,
      levels: number,
      drop: text,
    }),
  ),
  fits: flag,
  grid: maybe(grid),
  correlation: maybe(fields({ variables: texts, values: list(list(maybe(number))) })),
  notes: texts,
});
export type LayersAnswer = Of<typeof layersAnswer>;

const whyKnown = fields({
  known: flag,
  said: text,
  x: number,
  y: number,
  outputs: table(number),
  exponent: number,
  base: number,
  shares: list(
    fields({
      variable: text,
      value: either(number, text),
      usual: maybe(number),
      share: number,
      low: maybe(number),
      high: maybe(number),
      outside: flag,
    }),
  ),
  mess: maybe(number),
  most_dissimilar: maybe(text),
  exdet: maybe(number),
  intervals: table(list(number)),
  curves: list(fields({ variable: text, x: either(number, text), y: maybe(number) })),
});
export type Why = Of<typeof whyKnown>;
export type Share = Why["shares"][number];
const whyUnknown = fields({ known: flag, said: text });
const why: Check<Why> = (given, place) => {
  const told = whyUnknown(given, place);
  return told.known ? whyKnown(given, place) : (told as Why);
};

const response1 = fields({
  variable: text,
  kind: text,
  categorical: flag,
  x: list(either(text, value)),
  y: list(value),
  low: maybe(list(value)),
  high: maybe(list(value)),
});
export type Response1 = Of<typeof response1>;

const extent = fields({ words: text, rings, notes: texts });
export type Extent = Of<typeof extent>;

const resultMap = fields({
  file: text,
  kind: text,
  label: text,
  of: text,
  training: flag,
  classes: maybe(table(text)),
});
export type ResultMap = Of<typeof resultMap>;

const result = fields({
  run: text,
  species: text,
  created: text,
  version: text,
  command: text,
  script: text,
  notes: texts,
  cleaning: list(fields({ what: text, records: number })),
  bound: text,
  n_background: number,
  certificate: fields({ said: text, gap: value, gain: maybe(number) }),
  grid: maybe(grid),
  records: fields({ x: list(value), y: list(value), test: list(flag) }),
  study: rings,
  evaluation: fields({
    scores: table(maybe(number)),
    test_scores: maybe(table(maybe(number))),
    roc: table(table(list(value))),
    omission: table(maybe(list(value))),
    thresholds: list(
      fields({ name: text, value, area: value, training_omission: value, test_omission: maybe(number) }),
    ),
  }),
  importance: maybe(fields({ variables: texts, contribution: list(value), permutation: list(value) })),
  jackknife: maybe(
    fields({ variables: texts, scores: table(fields({ all: value, only: list(value), without: list(value) })) }),
  ),
  responses: list(response1),
  variables: texts,
  categorical: texts,
  layers_reachable: flag,
  maps: list(resultMap),
  changes: list(table(either(text, value))),
  default_rule: text,
  extent: text,
  mask: maybe(text), // what is left out of maps
  report: maybe(text),
  files: texts,
});
export type Result = Of<typeof result>;
export type Threshold = Result["evaluation"]["thresholds"][number];

const richness = fields({
  species: list(
    fields({ species: text, run: maybe(text), summed: flag, rule: text, threshold: maybe(number), said: text }),
  ),
  maps: list(resultMap),
});

const listedTuning = fields({ tuning: text, written: number, species: texts });
export type ListedTuning = Of<typeof listedTuning>;

const statistics = table(scalar); // a row of a table
export type Statistics = Of<typeof statistics>;
const tunedSpecies = fields({
  species: text,
  columns: list(fields({ name: text, title: text, says: text, better: number, plotted: flag })),
  rows: list(statistics),
  folds: list(statistics),
  places: fields({ x: list(number), y: list(number), fold: texts }),
  nulls: list(table(maybe(number))),
  null_test: list(statistics),
  report: maybe(text),
});
export type TunedSpecies = Of<typeof tunedSpecies>;
const tuning = fields({ tuning: text, species: list(tunedSpecies), grid: maybe(grid), known: flag, command: text });
export type Tuning = Of<typeof tuning>;

const afterwards = fields({
  evaluations: list(fields({ name: text, scores: statistics, calibration: list(table(maybe(number))), file: text })),
  surveys: list(fields({ name: text, sites: list(statistics), files: texts })),
});
export type Afterwards = Of<typeof afterwards>;

const plane = list(list(number));
const overlap = fields({
  name: text,
  space: text,
  species: maybe(texts),
  output: text,
  schoener_d: maybe(number),
  warren_i: maybe(number),
  maps: maybe(fields({ schoener_d: maybe(number), warren_i: maybe(number) })),
  cells: maybe(number),
  tests: list(
    fields({
      test: text,
      statistic: text,
      direction: text,
      observed: number,
      null_mean: number,
      p_different: number,
      p_similar: number,
      p_value: number,
      null: list(number),
      says: text,
    }),
  ),
  environment: maybe(
    fields({
      variables: texts,
      loadings: plane,
      explained: list(number),
      low: list(number),
      high: list(number),
      niches: list(fields({ occupancy: plane, available: plane, half_of_available: number, records: plane })),
    }),
  ),
  notes: texts,
  file: text,
});
export type Overlap = Of<typeof overlap>;

const uploaded = fields({ path: text });

export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** Why the server refused. */
async function refusal(answer: Response): Promise<string> {
  const type = answer.headers.get("content-type") ?? "";
  const said = type.includes("json") ? (await answer.json()).error : await answer.text();
  return String(said).trim() || answer.statusText;
}

async function ask<T>(check: Check<T>, address: string, init: RequestInit = {}): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(address, init);
  } catch {
    throw new Refused("The server does not answer. It may have been stopped.", 0);
  }
  if (!answer.ok) throw new Refused(await refusal(answer), answer.status);
  return check(await answer.json(), "answer");
}

const query = (given: Record<string, string | number | undefined>): string => {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) made.set(name, String(value));
  }
  return made.toString();
};

function send<T>(check: Check<T>, address: string, body: unknown, method = "POST"): Promise<T> {
  const headers = { "content-type": "application/json", "x-maxent": "1" };
  return ask(check, address, { method, headers, body: JSON.stringify(body) });
}

export const api = {
  state: () => ask(state, "/api/state"),
  files: (folder: string, kind: string) => ask(listing, `/api/files?${query({ folder, kind })}`),
  records: () => ask(recordsAnswer, "/api/records"),
  visits: () => ask(visitsAnswer, "/api/visits"),
  addVisits: (path: string) => send(draft, "/api/visits", { path }),
  layers: () => ask(layersAnswer, "/api/layers"),
  extent: () => ask(extent, "/api/extent"),
  draft: (changes: Partial<Choices>) => send(draft, "/api/draft", changes, "PUT"),
  example: () => send(draft, "/api/example", {}),
  region: (corners: number[][][], crs: string | null) => send(draft, "/api/region", { rings: corners, crs }),
  fit: (resume: boolean) => send(job, "/api/fit", { resume }),
  project: (asked: { run: string; layers: string; extent: string; mask: string | null }) => send(job, "/api/project", asked),
  change: (of: string, future: string, threshold: number) => send(job, "/api/change", { run: of, future, threshold }),
  tunings: () => ask(list(listedTuning), "/api/tunings"),
  tuning: (of: string) => ask(tuning, `/api/tuning?${query({ tuning: of })}`),
  tune: () => send(job, "/api/tune", {}),
  fitCandidate: (of: string, species: string, rank: number) => send(job, "/api/tune/fit", { tuning: of, species, rank }),
  afterwards: (of: string) => ask(afterwards, `/api/afterwards?${query({ run: of })}`),
  evaluate: (asked: { run: string; records: string; absences: string | null; presence: string | null; species: string | null }) =>
    send(job, "/api/evaluate", asked),
  sites: (asked: { run: string; count: number; apart: number; visited: string | null }) => send(job, "/api/sites", asked),
  overlaps: (one: string, other: string) => ask(list(overlap), `/api/overlaps?${query({ one, other })}`),
  overlap: (asked: { one: string; other: string; space: string; test: string | null; null: number }) =>
    send(job, "/api/overlap", asked),
  stop: (which: number) => send(fields({ asked: flag }), `/api/jobs/${which}/stop`, {}),
  result: (of: string) => ask(result, `/api/result?${query({ run: of })}`),
  richness: (batch: string) => ask(richness, `/api/richness?${query({ batch })}`),
  map: (file: string, band?: number) => ask(mapFacts, `/api/map?${query({ file, band })}`),
  variable: (of: string, map: string, variable: string) =>
    ask(mapFacts, `/api/map?${query({ run: of, of: map, variable })}`),
  world: ({ transform, width, height, definition }: Grid) =>
    send(maybe(world), "/api/world", { transform, width, height, definition }),
  why: (of: string, map: string, x: number, y: number) => ask(why, `/api/why?${query({ run: of, of: map, x, y })}`),
  upload: (into: string, file: File) =>
    ask(uploaded, `/api/upload/${encodeURIComponent(into)}/${encodeURIComponent(file.name)}`, {
      method: "PUT",
      headers: { "x-maxent": "1" },
      body: file,
    }),
};

export type TileQuery = { file: string; band?: number } | { run: string; of: string; variable: string };

/** The numbers of a tile, from the server. */
export async function serverTile(
  asked: TileQuery,
  z: number,
  x: number,
  y: number,
  signal: AbortSignal,
): Promise<Float32Array> {
  const address = `/api/tile/${z}/${x}/${y}?${query(asked as Record<string, string>)}`;
  const answer = await fetch(address, { signal });
  if (!answer.ok) throw new Refused(await refusal(answer), answer.status);
  return new Float32Array(await answer.arrayBuffer());
}
