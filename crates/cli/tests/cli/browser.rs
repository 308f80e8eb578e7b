//! Looks at pages with a browser: headless Chromium lays them out, and a script beside them, which
//! is no part of a page, measures the boxes of their texts.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Widths of a telephone and of a desk's screen, in CSS pixels.
const WIDTHS: [u32; 2] = [390, 1280];

/// What is measured: whether a page is wider than its window, whether a text of a drawing is cut
/// off, lies over another one, or is too small to be read.
const MEASURE: &str = r#"
const found = [];
const plain = text => text.replace(/[<>&]/g, "?");
const say = (page, width, what) => found.push(plain(`${page} at ${width}: ${what}`));
function measure(page, width, view) {
  const doc = view.document, all = (of, what) => [...of.querySelectorAll(what)];
  doc.querySelectorAll("details").forEach(d => d.open = true);
  if (doc.documentElement.scrollWidth > width + 1)
    say(page, width, `it is ${doc.documentElement.scrollWidth} wide`);
  let drawings = 0;
  for (const svg of all(doc, "svg")) {
    const frame = svg.getBoundingClientRect();
    if (frame.width === 0) continue;
    drawings += 1;
    const scale = frame.width / svg.viewBox.baseVal.width;
    const texts = all(svg, "text").filter(t => t.textContent.trim())
      .map(t => ({ text: t.textContent, box: t.getBoundingClientRect(),
                   size: parseFloat(t.getAttribute("font-size")) * scale }));
    for (const { text, box, size } of texts) {
      if (box.left < frame.left - 1 || box.right > frame.right + 1
          || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        say(page, width, `cut off: ${text}`);
      if (size < 9) say(page, width, `${size.toFixed(1)} pixels high: ${text}`);
    }
    texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
      const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      // A box has room for accents above and below its letters.
      const room = 0.3 * Math.min(a.box.height, b.box.height);
      const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
      if (across > 1 && down > room) say(page, width, `over each other: ${a.text} / ${b.text}`);
    }));
  }
  for (const box of all(doc, "p, li, dd, h1, h2, h3, table.rows th, table.rows td")) {
    const { left, right, width: wide } = box.getBoundingClientRect();
    if (wide > 0 && (left < -1 || right > width + 1) && !box.closest(".scroll, details"))
      say(page, width, `beyond the edge: ${box.textContent.slice(0, 40)}`);
  }
  return drawings;
}
async function main() {
  let drawings = 0;
  for (const [page, html] of pages) for (const width of widths) {
    const frame = document.createElement("iframe");
    Object.assign(frame.style, { width: `${width}px`, height: "3000px", border: "0" });
    const loaded = new Promise(done => frame.onload = done);
    frame.srcdoc = html;
    document.body.append(frame);
    await loaded;
    drawings += measure(page, width, frame.contentWindow);
    frame.remove();
  }
  document.body.innerHTML = "";
  const out = document.createElement("pre");
  out.textContent = `MEASURED ${drawings}\n${found.join("\n")}\nEND`;
  document.body.append(out);
}
main();
"#;

/// What was seen on some pages.
pub(crate) struct Seen {
    /// Drawings that were measured, on all pages at all widths.
    pub(crate) drawings: u32,
    /// What is wrong, a line for each.
    pub(crate) problems: Vec<String>,
}

/// Measures pages, each a name and its HTML, in `folder`, which is this call's own. `None`, said
/// aloud, where there is no Chromium.
pub(crate) fn measure(folder: &Path, pages: &[(String, String)]) -> Option<Seen> {
    fs::create_dir_all(folder).unwrap();
    let pages = pages.iter().map(|(name, html)| Value::from(vec![&**name, &**html]));
    // A script ends at its first end tag, also within a text.
    let pages = Value::from(pages.collect::<Vec<_>>()).to_string().replace("</", "<\\/");
    let page = format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><body><script>const pages = {pages};\n\
         const widths = {WIDTHS:?};\n{MEASURE}</script></body>"
    );
    let harness = folder.join("harness.html");
    fs::write(&harness, page).unwrap();
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let out = Command::new("timeout")
        .args(["120", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
        .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
        .args(["--disable-sync", "--window-size=1400,1000", "--virtual-time-budget=60000"])
        .args(["--dump-dom", &profile])
        .arg(format!("file://{}", harness.display()))
        .output()
        .unwrap();
    if out.status.code() == Some(127) {
        eprintln!("SKIPPED: there is no chromium to look at pages with");
        return None;
    }
    let said = String::from_utf8_lossy(&out.stdout);
    let result = said.split_once("<pre>MEASURED ").and_then(|(_, rest)| rest.split_once("\nEND"));
    let (result, _) = result.unwrap_or_else(|| {
        panic!("the pages were not measured: {}", String::from_utf8_lossy(&out.stderr))
    });
    let mut lines = result.lines();
    let drawings = lines.next().and_then(|n| n.parse().ok()).unwrap();
    Some(Seen { drawings, problems: lines.filter(|l| !l.is_empty()).map(String::from).collect() })
}
