// Light or dark before anything is drawn; a choice of one's own outlives the tab.
// Not a module, because modules run only after the first paint.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("xdelay.theme");
  } catch {
    // Without storage the system's choice holds.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
