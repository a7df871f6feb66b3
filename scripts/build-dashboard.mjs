/**
 * Builds the dashboard with vite, unless it was built from the same sources:
 *
 *   stamp of dist = stamp of the sources ─► nothing to do
 *   else ─► vite into a folder beside dist ─► compressed copies ─► stamp ─► the folder becomes dist
 *
 * So an open page never meets half a build, and two builds at once do not disturb each other: the last one to
 * finish stays. `npm run dashboard` builds; `npm start`, the image and the package call it too.
 *
 * Plain JavaScript without dependencies, like bootstrap.mjs, which imports it.
 */
import fs from 'fs'
import path from 'path'
import { fileURLToPath, pathToFileURL } from 'url'
import zlib from 'zlib'
import { DASHBOARD, dashboardStamp, hasDashboard } from './dashboard-stamp.mjs'
import { run } from './run-child.mjs'

/** A smaller file fits into one packet anyway, so a compressed copy would save nothing. */
const MIN_COMPRESSED_BYTES = 1024
const TEXT = /\.(js|css|html|svg|json|map|txt)$/

/**
 * Resolves with what was done: `none` when the tree has no pages, `kept`, or `built`. Throws when vite is not
 * installed or fails. If vite failed, `end` of the error says how it ended. `node` is the Node.js to run vite
 * with. Vite's output goes to stderr.
 */
export async function buildDashboard(root, node = process.execPath) {
  if (!hasDashboard(root)) return 'none'
  const folder = path.join(root, DASHBOARD)
  const dist = path.join(folder, 'dist')
  const stamp = dashboardStamp(root)
  if (stampOf(dist) === stamp) return 'kept'
  const vite = viteProgram(root)
  if (vite === null)
    throw new Error('vite is not installed: run npm ci with the development dependencies (--include=dev)')
  const made = fs.mkdtempSync(path.join(folder, 'dist-'))
  try {
    const args = [vite, 'build', '--outDir', made, '--emptyOutDir', '--logLevel', 'warn']
    const end = await run(node, args, { ...process.env, NODE_ENV: 'production' }, folder, process.stderr)
    if (end.error) throw end.error
    if (end.signal || end.status !== 0)
      throw Object.assign(new Error(`vite ended with ${end.signal || end.status}`), { end })
    if (!fs.existsSync(path.join(made, 'index.html'))) throw new Error('vite made no index.html')
    compress(path.join(made, 'assets'))
    fs.writeFileSync(path.join(made, '.stamp'), stamp)
    fs.chmodSync(made, 0o755)
    replace(dist, made)
    return 'built'
  } finally {
    fs.rmSync(made, { recursive: true, force: true })
  }
}

function stampOf(dist) {
  try {
    return fs.readFileSync(path.join(dist, '.stamp'), 'utf8')
  } catch {
    return null
  }
}

/** Vite of the dashboard, or the one that vitest brings. Null without any. */
function viteProgram(root) {
  const places = [DASHBOARD, '.'].map((from) => path.join(root, from, 'node_modules/vite/bin/vite.js'))
  return places.find((file) => fs.existsSync(file)) ?? null
}

/**
 * Writes .br and .gz beside each file, for browsers that take them: once here instead of for each request.
 */
function compress(assets) {
  if (!fs.existsSync(assets)) return
  for (const name of fs.readdirSync(assets)) {
    if (!TEXT.test(name)) continue
    const file = path.join(assets, name)
    const bytes = fs.readFileSync(file)
    if (bytes.length < MIN_COMPRESSED_BYTES) continue
    fs.writeFileSync(`${file}.br`, zlib.brotliCompressSync(bytes))
    fs.writeFileSync(`${file}.gz`, zlib.gzipSync(bytes, { level: 9 }))
  }
}

/** Puts `made` in the place of `dist`. A rename cannot replace a folder that has files. */
function replace(dist, made) {
  const old = `${made}-old`
  try {
    fs.renameSync(dist, old)
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  try {
    fs.renameSync(made, dist)
  } catch (error) {
    // Another build was faster by a moment: its result is as good.
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
  }
  fs.rmSync(old, { recursive: true, force: true })
}

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  buildDashboard(root).then(
    (done) => {
      const words = { none: 'there are no pages to build', kept: 'is up to date', built: 'was built' }
      console.log(`apps/dashboard/dist: ${words[done]}`)
    },
    (error) => {
      process.stderr.write(`cofferdam: the dashboard was not built: ${error.message}\n`)
      process.exitCode = 1
    },
  )
}
