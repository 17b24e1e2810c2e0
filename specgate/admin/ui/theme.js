// Light or dark: what the system says, unless the reader chose. And colours for canvases, which know
// no style sheet.

const CHOICES = ["auto", "light", "dark"];
const KEPT = "specgate-theme";
const NAMES = ["ink", "muted", "rule", "spec", "plain", "open"];

/** The colours in force, by name, as `rgb(r, g, b)`. */
export const colours = {};

export const faint = (name, alpha) => colours[name].replace("rgb(", "rgba(").replace(")", `, ${alpha})`);

/** `changed`: called when the colours have. */
export function startTheme(changed) {
  const button = document.getElementById("theme");
  let choice = kept();

  function use() {
    document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
    resolve();
    changed();
  }

  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    try {
      localStorage.setItem(KEPT, choice);
    } catch {
      // A browser that keeps nothing: it holds while the page does.
    }
    use();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", use);
  use();
}

function kept() {
  try {
    const found = localStorage.getItem(KEPT);
    return CHOICES.includes(found) ? found : "auto";
  } catch {
    return "auto";
  }
}

function resolve() {
  const probe = document.createElement("span");
  document.body.append(probe);
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color;
  }
  probe.remove();
}
