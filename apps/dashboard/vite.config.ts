/**
 * Builds the pages into dist. The names of assets carry a hash of their content, so that a browser may keep
 * them for ever. Nothing is put into the HTML or inlined as a data: address, because the page's
 * Content-Security-Policy refuses both.
 */
import { fileURLToPath } from 'node:url'
import { defineConfig, type Plugin } from 'vite'

/**
 * Puts src/choices/first-paint.ts into the head as a classic script, which runs before anything is painted.
 */
function firstPaint(): Plugin {
  const id = fileURLToPath(new URL('src/choices/first-paint.ts', import.meta.url))
  return {
    name: 'first-paint',
    apply: 'build',
    buildStart() {
      this.emitFile({ type: 'chunk', id })
    },
    transformIndexHtml: {
      order: 'post',
      handler(_html, { bundle = {} }) {
        const script = Object.values(bundle).find((one) => one.type === 'chunk' && one.facadeModuleId === id)
        if (script === undefined) throw new Error(`${id} was not built`)
        return [{ tag: 'script', attrs: { src: `/${script.fileName}` }, injectTo: 'head-prepend' }]
      },
    },
  }
}

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  plugins: [firstPaint()],
  // Without this, JSX settings come from a tsconfig.json, which differs between the root and this folder.
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    emptyOutDir: true,
  },
})
