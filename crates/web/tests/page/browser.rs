//! Headless Chromium, driven over a pipe by its DevTools protocol.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use base64::Engine;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rig::LIMIT;

/// A browser with one page. It ends with this value.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    next: u64,
    session: Option<String>,
    _folder: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts one; `None`, said aloud, where there is no Chromium.
    pub(crate) fn start() -> Option<Browser> {
        let folder = tempfile::tempdir().unwrap();
        // Chromium reads its orders from descriptor 3 and writes answers to 4.
        let script = "command -v chromium >/dev/null || exit 127; \
                      exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", script, "sh", "--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--remote-debugging-pipe", "--no-first-run", "--disable-component-update"])
            .args(["--disable-background-networking", "--disable-sync", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (told, from) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|len| len > 0) {
                message.pop();
                if serde_json::from_slice(&message).is_ok_and(|value| told.send(value).is_err()) {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Browser { child, to, from, next: 0, session: None, _folder: folder };
        if browser.try_call("Browser.getVersion", &json!({})).is_none() {
            eprintln!("SKIPPED: there is no chromium to look at pages with");
            return None;
        }
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", &attach)["sessionId"].take();
        browser.session = session.as_str().map(String::from);
        browser.call("Page.enable", &json!({}));
        Some(browser)
    }

    /// `None`: the browser has ended.
    fn try_call(&mut self, method: &str, params: &Value) -> Option<Value> {
        self.next += 1;
        let mut order = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = &self.session {
            order["sessionId"] = session.as_str().into();
        }
        let mut line = order.to_string().into_bytes();
        line.push(0);
        self.to.write_all(&line).ok()?;
        loop {
            let answer = self.from.recv_timeout(LIMIT).ok()?;
            if answer["id"] == self.next {
                let error = &answer["error"];
                // A page that gives way to the next one has no value.
                let is_gone = method == "Runtime.evaluate"
                    && error["message"] == "Inspected target navigated or closed";
                assert!(error.is_null() || is_gone, "{method}: {error}");
                return Some(answer["result"].clone());
            }
        }
    }

    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|| panic!("{method}: the browser ended"))
    }

    /// A window of this size, as of a telephone or of a desk, light or dark.
    pub(crate) fn window(&mut self, width: u32, height: u32, dark: bool) {
        let mobile = width < 600;
        let size = json!({
            "width": width, "height": height, "mobile": mobile,
            "deviceScaleFactor": if mobile { 2 } else { 1 },
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let touch = json!({ "enabled": mobile });
        self.call("Emulation.setTouchEmulationEnabled", &touch);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &media);
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
    }

    /// The value of an expression, which may be a promise.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let answer = self.call("Runtime.evaluate", &params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.value(expression) != true {
            assert!(begun.elapsed() < LIMIT, "never true: {expression}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    pub(crate) fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key.chars().count() == 1 { key } else { "" };
            let code = match key {
                "Enter" => 13,
                "Tab" => 9,
                "ArrowDown" => 40,
                "ArrowRight" => 39,
                _ => 0,
            };
            let mut event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" {
                event["text"] = if key == "Enter" { "\r" } else { text }.into();
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Writes what the window shows into a PNG file.
    pub(crate) fn picture(&mut self, file: &Path) {
        let answer = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        let data = answer["data"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
}
