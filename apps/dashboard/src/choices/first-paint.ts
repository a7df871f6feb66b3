/**
 * Runs before the first paint, so that a dark page does not begin with a flash of white. A module would run
 * later: vite.config.ts puts this into the head as a script of its own. So it imports and exports nothing.
 */
for (const name of ['scheme', 'density', 'zone'])
  try {
    const kept = window.localStorage.getItem(`cofferdam.${name}`)
    if (kept !== null) document.documentElement.dataset[name] = kept
  } catch {
    // The browser stores nothing for this page, so the defaults apply.
  }
