"use strict";
(() => {
  const root = document.documentElement;
  const one = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));
  root.classList.add("js");

  // A channel without an address of its own is read from where this page lies.
  const quoted = (text) => (/^[\w@%+=:,./~-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");
  if (location.protocol !== "about:") {
    const here = new URL(".", location.href).href.replace(/\/$/, "");
    all(".url").forEach((node) => { node.textContent = quoted(here); });
  }

  const say = (text) => { one("#said").textContent = text; };

  // Clipboards are for secure pages only; elsewhere the text is selected and copied the old way.
  const copy = async (node) => {
    try {
      await navigator.clipboard.writeText(node.textContent);
      return true;
    } catch {
      const range = document.createRange();
      range.selectNodeContents(node);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      return document.execCommand("copy");
    }
  };
  all(".command").forEach((row) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the command for " + one(".client", row).textContent);
    button.addEventListener("click", async () => {
      const done = await copy(one("code", row));
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      say(done ? "Copied" : "The command is selected: press Ctrl+C");
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    row.append(button);
  });

  const machine = one("#machine");
  if (machine) {
    const wanted = one("#wanted");
    const name = () => all(".pkg").forEach((node) => { node.textContent = wanted.value; });
    // Only packages that have a build for the machine can be chosen.
    const show = () => {
      for (const node of all(".machine")) {
        node.hidden = node.dataset.machine !== machine.value;
        node.open = true;
      }
      for (const option of wanted.options) {
        option.disabled = option.hidden = !option.dataset.m.split(" ").includes(machine.value);
      }
      if (!wanted.selectedOptions.length || wanted.selectedOptions[0].disabled) {
        wanted.value = one(".machine:not([hidden])").dataset.package;
      }
      name();
    };
    machine.addEventListener("change", show);
    wanted.addEventListener("change", name);
    show();
  }

  const filter = one("#filter");
  if (filter) {
    const rows = all(".matrix tbody").map((body) => ({
      body,
      name: one("th", body).textContent.trim().toLowerCase(),
      archs: (body.dataset.g || "").split(" ").filter(Boolean),
      releases: (body.dataset.r || "").split(" ").filter(Boolean),
    }));
    const text = one("#by-name");
    const arch = one("#by-arch");
    const release = one("#by-release");
    const main = one("main");
    const fits = (mine, choice) => choice === "" || mine.length === 0 || mine.includes(choice);
    const apply = () => {
      const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
      main.className = (arch.value && "only-g" + arch.value) + " " + (release.value && "only-r" + release.value);
      let shown = 0;
      for (const row of rows) {
        const visible = words.every((word) => row.name.includes(word))
          && fits(row.archs, arch.value) && fits(row.releases, release.value);
        row.body.hidden = !visible;
        shown += visible;
      }
      one("#count").textContent = shown + " of " + rows.length + " packages";
      all(".matrix").forEach((table) => {
        table.closest("section").hidden = !one("tbody:not([hidden])", table);
      });
      one("#nothing").hidden = shown > 0;
    };
    let waiting = 0;
    filter.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(apply, 60); });
    filter.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
    filter.addEventListener("reset", () => setTimeout(apply));
    apply();
  }
})();
