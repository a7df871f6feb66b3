/**
 * Builds the pages into dist. The names of assets carry a hash of their content, so that a browser may keep
 * them for ever. Nothing is put into the HTML or inlined as a data: address, because the page's
 * Content-Security-Policy refuses both.
 */
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  // Found by the compiler's own settings otherwise, which differ between the root and this folder.
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    emptyOutDir: true,
  },
})
