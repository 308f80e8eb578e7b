// Builds the page into the folder of the first argument, ../assets unless it is given.
import { build } from "esbuild";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";

const out = process.argv[2] ?? "../assets";
mkdirSync(out, { recursive: true });
const { metafile } = await build({
  entryPoints: { page: "src/main.js" },
  outdir: out,
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  legalComments: "none",
  loader: { ".svg": "text" },
  target: "es2020",
  metafile: true,
});

// The licences of what the bundle contains ask for their texts.
const packages = new Set();
for (const path of Object.keys(metafile.inputs)) {
  const inside = path.match(/node_modules\/(@[^/]+\/[^/]+|[^/]+)\//);
  if (inside) packages.add(inside[1]);
}
const texts = [...packages].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const { version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} has no licence file`);
  return `${name} ${version}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
});
writeFileSync(`${out}/licences.txt`, texts.join(`\n${"-".repeat(72)}\n\n`));
